package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// Shadow reads: of some of what Get answers from one side of a combined store it is found out what the other side would have answered (option shadowReadPercent). That is done afterwards, by one
// goroutine that has little time: Get only leaves a note, or nothing where too many notes wait.

const (
	shadowWaiting = 64   // notes that wait at most
	shadowUnits   = 1024 // slots of an answer that are compared, from its first one on
	shadowFound   = 8    // slots of one answer that are judged, and told
	shadowQueues  = 1024 // in which something was found, that are kept
	shadowTries   = 4    // before nothing is appended for a moment: mostly one side is a batch behind
	shadowRetry   = 5 * time.Millisecond
	shadowIdle    = 4 // of the time worked, so much is waited: a fifth of one processor at most
	shadowSlice   = time.Millisecond
)

// ShadowReads tell what came of them since the store was opened.
type ShadowReads struct {
	// Reads were compared, with Units of their slots; Busy were to be and were not, as too many waited; Passed were not as the other side is being built, or something has changed meanwhile.
	Reads  int64 `json:"reads"`
	Units  int64 `json:"units"`
	Busy   int64 `json:"busy"`
	Passed int64 `json:"passed"`
	// Found counts the differences: slots, and ends of queues, and slots in which a reader met a unit that leads elsewhere; of Judged ones the log has decided, and their queues are built again. Differences are the last ones in words.
	Found       int64    `json:"found"`
	Judged      int64    `json:"judged"`
	Differences []string `json:"differences,omitempty"`
	// Queues are those in which something was found, the last ones.
	Queues []cq.Key `json:"-"`
}

// shadow is at work on them.
type shadow struct {
	share atomic.Uint32 // of 2^32 reads so many, 0: none
	notes chan *shadowRead
	spare sync.Pool

	reads, units, busy, passed atomic.Int64

	mu          sync.Mutex
	found       int64
	judged      int64
	differences []string
	queues      []cq.Key
}

// shadowRead is what was answered.
type shadowRead struct {
	key        cq.Key
	from, next int64 // the slots that were looked at
	end        int64 // of the queue, by the answer
	served     []servedUnit
}

type servedUnit struct {
	slot, phy int64
	size      int32
}

// ShadowReads tells what came of them. Zeros where there is one store of queues.
func (s *Store) ShadowReads() ShadowReads {
	d, err := s.combined()
	if err != nil {
		return ShadowReads{}
	}
	h := &d.shadow
	r := ShadowReads{Reads: h.reads.Load(), Units: h.units.Load(), Busy: h.busy.Load(), Passed: h.passed.Load()}
	h.mu.Lock()
	defer h.mu.Unlock()
	r.Found, r.Judged, r.Differences, r.Queues = h.found, h.judged, slices.Clone(h.differences), slices.Clone(h.queues)
	return r
}

// setPercent says how many of a hundred answers are compared.
func (h *shadow) setPercent(percent int) {
	h.share.Store(uint32(min(int64(percent)*(1<<32)/100, math.MaxUint32)))
}

// shadowed leaves a note of an answer of Get, now and then.
func (d *sides) shadowed(k cq.Key, from int64, res *GetResult) {
	if d == nil {
		return
	}
	h := &d.shadow
	if share := h.share.Load(); share == 0 || rand.Uint32() > share {
		return
	}
	r, _ := h.spare.Get().(*shadowRead)
	if r == nil {
		r = new(shadowRead)
	}
	r.key = cq.Key{Topic: strings.Clone(k.Topic), QueueID: k.QueueID}
	r.from, r.next, r.end, r.served = from, min(res.NextOffset, from+shadowUnits), res.MaxOffset, r.served[:0]
	for i := range res.Messages {
		m := &res.Messages[i]
		if m.QueueOffset >= r.next {
			break
		}
		r.served = append(r.served, servedUnit{m.QueueOffset, m.PhyOffset, int32(len(m.Record))})
	}
	select {
	case h.notes <- r:
	default:
		h.busy.Add(1)
		h.spare.Put(r)
	}
}

// runShadow compares what notes were left of.
func (d *sides) runShadow(ctx context.Context) {
	h := &d.shadow
	var worked time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-h.notes:
			begin := time.Now()
			waited := d.shadowRead(ctx, r)
			worked += time.Since(begin) - waited
			h.spare.Put(r)
		}
		if worked >= shadowSlice {
			if pauseFor(ctx, shadowIdle*worked) != nil {
				return
			}
			worked = 0
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// shadowRead compares one answer, and returns for how long it has waited meanwhile.
func (d *sides) shadowRead(ctx context.Context, r *shadowRead) (waited time.Duration) {
	h := &d.shadow
	look := shadowLook{d: d, r: r}
	for try := range shadowTries {
		switch look.once(); {
		case look.passed:
			h.passed.Add(1)
			return waited
		case !look.differs():
			h.reads.Add(1)
			h.units.Add(look.units)
			return waited
		}
		wait := shadowRetry << try
		if pauseFor(ctx, wait) != nil {
			return waited
		}
		waited += wait
	}
	v := d.v.view
	v.mu.Lock() // nothing is appended
	if d.store.AwaitReadable(ctx) != nil {
		v.mu.Unlock()
		return waited
	}
	if look.once(); v.unservedLocked(r.key) {
		look.passed = true
	}
	v.mu.Unlock()
	if look.passed {
		h.passed.Add(1)
		return waited
	}
	if look.differs() {
		d.shadowDiffers(ctx, &look)
	}
	h.units.Add(look.units)
	h.reads.Add(1) // last: what it came to is known
	return waited
}

// shadowDiffers has the log judge what differs, and keeps it.
func (d *sides) shadowDiffers(ctx context.Context, look *shadowLook) {
	k := look.r.key
	var words []string
	judged := 0
	said := [...]string{undecided: "the log does not tell which is right", decided: "the log tells which is right, and the queue is built again on the other side", waiting: "the queue is being built again"}
	for i := range look.slots {
		one := &look.slots[i]
		what := fmt.Sprintf("queue %s: slot %d has %s in %s and %s in %s; ", k, one.slot, one.text(0), combinedKinds[0], one.text(1), combinedKinds[1])
		by := d.judge(k, one.slot)
		if words = append(words, what+said[by]); by != undecided {
			judged++
		}
	}
	if look.ends != "" {
		words = append(words, fmt.Sprintf("queue %s: %s", k, look.ends))
		marked, err := d.verifyQueue(ctx, k)
		if err != nil && ctx.Err() == nil { // what is short is built again
			d.v.s.logger.Error("a queue could not be compared with the log", slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)), slog.Any("err", err))
		}
		if marked || d.store.IsDiverged(cq.KindFile, k) || d.store.IsDiverged(cq.KindRocks, k) {
			judged++
		}
	}
	for _, w := range words {
		d.v.s.logger.Error("what was read would have been read otherwise from the other side of the consume queues", slog.String("difference", w))
	}
	d.shadow.keep(k, words, judged)
}

// keep keeps what was found in a queue.
func (h *shadow) keep(k cq.Key, words []string, judged int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found += int64(len(words))
	h.judged += int64(judged)
	h.differences = append(h.differences, words...)
	h.queues = append(slices.DeleteFunc(h.queues, func(one cq.Key) bool { return one == k }), k)
	h.queues = slices.Delete(h.queues, 0, max(len(h.queues)-shadowQueues, 0))
	h.differences = slices.Delete(h.differences, 0, max(len(h.differences)-maxSideDifferences, 0))
}

// shadowLook is what is seen of an answer's slots on both sides.
type shadowLook struct {
	d *sides
	r *shadowRead

	passed bool // there is nothing to compare with
	units  int64
	slots  []slotUnits // that differ, the first ones
	ends   string      // how the queue's ends do
	buf    [len(combinedKinds)][getBatch]cq.Unit
}

// slotUnits are what the sides have in a slot.
type slotUnits struct {
	slot int64
	unit [len(combinedKinds)]cq.Unit
	has  [len(combinedKinds)]bool
}

func (s *slotUnits) text(side int) string {
	if !s.has[side] {
		return "no unit"
	}
	return unitText(&s.unit[side])
}

func (l *shadowLook) differs() bool { return len(l.slots) > 0 || l.ends != "" }

// shadows tells whether both sides are to have whatever was dispatched of a queue.
func (d *sides) shadows(k cq.Key) bool {
	return d.v.compared() && d.mayJudge(k)
}

// once looks.
func (l *shadowLook) once() {
	l.passed, l.units, l.slots, l.ends = false, 0, l.slots[:0], ""
	d, r := l.d, l.r
	if !d.shadows(r.key) {
		l.passed = true
		return
	}
	var queues [len(combinedKinds)]cq.Queue
	var bounds [len(combinedKinds)]cq.Bounds
	there := 0
	for i, kind := range combinedKinds {
		q, ok := d.side(kind).Queue(r.key)
		if !ok {
			continue
		}
		there++
		b, err := q.Bounds()
		switch {
		case errors.Is(err, cq.ErrCorrupt):
			l.ends = fmt.Sprintf("its ends cannot be read in %s: %v", kind, err)
			return
		case err != nil:
			l.passed = true
			return
		}
		queues[i], bounds[i] = q, b
	}
	a, b := &bounds[0], &bounds[1]
	least, most := min(a.Max, b.Max), max(a.Max, b.Max)
	switch {
	case there == 0: // its topic was deleted
		l.passed = true
	case there == 1:
		l.ends = "one side has it, and the other has not"
	case least < most && least <= r.end: // behind that, appends go on
		l.ends = fmt.Sprintf("it ends at slot %d in %s and at %d in %s", a.Max, combinedKinds[0], b.Max, combinedKinds[1])
	default:
		l.compare(queues, max(r.from, min(a.Min, b.Min)), min(r.next, most))
	}
}

// compare compares the slots [at, to).
func (l *shadowLook) compare(queues [len(combinedKinds)]cq.Queue, at, to int64) {
	served := l.r.served
	for at < to && len(l.slots) < shadowFound && !l.passed {
		var n [len(combinedKinds)]int
		for i, q := range queues {
			var err error
			n[i], err = q.Read(at, l.buf[i][:min(getBatch, to-at)])
			if err != nil && !errors.Is(err, cq.ErrCorrupt) && outside(err) == nil {
				l.passed = true
				return
			}
			if err != nil { // an impossible unit, or none
				n[i] = 0
			}
		}
		for i := range max(min(n[0], n[1]), 1) {
			one := slotUnits{slot: at}
			for side := range n {
				if one.has[side] = i < n[side]; one.has[side] {
					one.unit[side] = l.buf[side][i]
				}
			}
			for len(served) > 0 && served[0].slot < at {
				served = served[1:]
			}
			var answer *servedUnit
			if len(served) > 0 && served[0].slot == at {
				answer = &served[0]
			}
			l.slot(&one, answer)
			at++
		}
	}
}

// slot compares a slot: what the sides have, and, where that is the same, what was answered with it. That differs from both when the queue has changed since: its topic was deleted and made anew. What has
// expired is no difference, as retention may be between the two.
func (l *shadowLook) slot(s *slotUnits, answer *servedUnit) {
	u := &s.unit
	switch {
	case s.has[0] && s.has[1] && !u[0].SameRecord(u[1]):
		l.slots = append(l.slots, *s)
	case s.has[0] && s.has[1]:
		l.units++
		l.passed = l.passed || answer != nil && (answer.phy != u[0].PhyOffset || answer.size != u[0].Size)
	case !s.has[0] && !s.has[1]:
		l.passed = l.passed || answer != nil
	case s.has[0] && u[0].PhyOffset >= l.d.v.s.Log().MinOffset(), s.has[1] && u[1].PhyOffset >= l.d.v.s.Log().MinOffset():
		l.slots = append(l.slots, *s)
	}
}
