package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// An audit holds the sides of a store against the log, record by record: each record against the unit of its slot on each side, and what is left of a side against nothing. Where
// a join stops at the first damage, because nothing may be built on it, an audit goes on and names all there is.
//
// The record that has a slot decides what the slot holds. Where the log has two answers (F1, see package comment) the numbering of the queues stays: a unit that leads to another record
// of that slot is right, and a queue that is shifted from some slot on is told as such and not rewritten, unless asked to.
//
// It reads the log once and needs, beside what the stores keep, 0.6 kB for each queue. Where there are many the topics are dealt with in parts, one reading of the log each.

// auditOptions say how an audit treats what it meets.
type auditOptions struct {
	// known lists the topics of config/topics.json; nil when unknown.
	known map[string]bool
	// missing says what to do about queues that no side has.
	missing MissingQueues
	// build lists queues that no side has and that are to be made from the log whatever missing says.
	build map[cq.Key]bool
	// renumber has shifted queues rewritten as the log numbers them.
	renumber bool
	// acceptLoss has units behind the end of the log cut off.
	acceptLoss bool
	// keep is the side whose unit stays where the log has two records of a slot.
	keep cq.Kind
	// acceptTornTail treats bytes behind the last record that are no record as the log's end.
	acceptTornTail bool
}

// audit is one pass over the log for one part of the queues.
type audit struct {
	auditOptions
	ctx   context.Context
	log   *commitlog.Log
	sides []cq.Reader // one or two
	reads []*sideReader
	// keys yields those of the queues that a side may have; nil: the side tells.
	keys  func(side int) iter.Seq2[cq.Key, error]
	end   int64  // of the log; below 0: not known yet
	part  uint32 // of the topics, out of parts
	parts uint32

	// report takes what is wrong; q is nil for what is not about a queue.
	report func(Finding)
	notice func(Finding)
	// mend takes the unit that a slot of a side should have. Slots of one queue and side come in ascending order.
	mend func(q *auditQueue, side int, slot int64, u cq.Unit) error
	// settle takes a queue when nothing more comes.
	settle func(q *auditQueue) error
	tick   func(phy int64)

	topics    map[string]*auditTopic
	queues    []*auditQueue
	light     bool // the store has a light queue on some side
	ahead     int  // units to read ahead for each queue of a side
	lost      []span
	lastTopic string
	last      *auditTopic
	rec       message.Record

	broken         bool // the log could not be read to its end
	records, units int64
}

// span is a stretch of the log, to exclusive.
type span struct{ from, to int64 }

// auditTopic are the queues of a topic.
type auditTopic struct {
	byID    map[int32]*auditQueue
	any     bool // some side has a queue of it
	deleted bool // the topic table does not list it, and no side has a queue of it
	told    bool // records without a queue have been reported
}

const (
	auditQueuesAPart  = 125_000
	auditAheadUnits   = 1 << 18 // 8 MiB for each side
	auditResyncSlots  = 64      // how far a queue is looked for behind units that do not belong
	placeholderPrefix = "rmq_sys_tandemmq_lost"
)

// auditParts returns in how many parts to deal with so many queues.
func auditParts(queues int) uint32 { return uint32((queues + auditQueuesAPart - 1) / auditQueuesAPart) }

func newAudit(ctx context.Context, log *commitlog.Log, end int64, sides []cq.Reader, o auditOptions) *audit {
	reads := make([]*sideReader, len(sides))
	for i := range sides {
		r := newSideReader(sides[i])
		reads[i] = &r
	}
	return &audit{
		auditOptions: o, reads: reads, ctx: ctx, log: log, end: end, sides: sides, parts: 1, report: func(Finding) {}, notice: func(Finding) {},
		mend: func(*auditQueue, int, int64, cq.Unit) error { return nil }, settle: func(*auditQueue) error { return nil }, tick: func(int64) {},
	}
}

// partOf tells to which of some parts a topic belongs: all its queues go together. FNV-1a.
func partOf[T string | []byte](topic T, parts uint32) uint32 {
	if parts <= 1 {
		return 0
	}
	h := uint32(2166136261)
	for i := range len(topic) {
		h = (h ^ uint32(topic[i])) * 16777619
	}
	return h % parts
}

// run lists the queues, reads the log, and finishes each queue.
func (a *audit) run() error {
	if err := a.list(); err != nil {
		return err
	}
	if a.end < 0 {
		se, err := a.log.End(commitlog.ScanOptions{CheckCRC: true})
		if err != nil {
			return err
		}
		a.end = se.Offset
	}
	s := a.log.Scanner(-1, commitlog.ScanOptions{CheckCRC: a.part == 0}) // once is enough
	defer s.Close()
	at := a.log.MinOffset()
	next := at + tickBytes
	for s.Next() {
		r := s.Record()
		a.records++
		if r.PhyOffset > at {
			a.lost = append(a.lost, span{at, r.PhyOffset})
		}
		at = r.PhyOffset + int64(r.TotalSize)
		if err := a.record(r); err != nil {
			return err
		}
		if r.PhyOffset >= next {
			next = r.PhyOffset + tickBytes
			if err := a.ctx.Err(); err != nil {
				return err
			}
			a.tick(at)
		}
	}
	se := s.End()
	if err := s.Err(); err != nil {
		code := CodeCorruptLog
		switch {
		case se.Kind == commitlog.EndTorn && a.acceptTornTail:
			code = ""
		case se.Kind == commitlog.EndTorn:
			code = CodeTornLog
		case se.Kind != commitlog.EndCorrupt:
			return err
		}
		if code != "" {
			a.report(Finding{Code: code, QueueOffset: -1, PhyOffset: se.Offset, Where: place(se.File, se.FileOffset), Text: err.Error()})
			a.broken = true // what the log says of the queues is not known
			return nil
		}
	}
	if se.Offset > at {
		a.lost = append(a.lost, span{at, se.Offset})
	}
	a.end = se.Offset
	for i, q := range a.queues {
		if i%1024 == 0 && a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		if err := a.finish(q); err != nil {
			return err
		}
	}
	return nil
}

// list learns the queues of this part on all sides.
func (a *audit) list() error {
	a.topics = make(map[string]*auditTopic)
	for i, side := range a.sides {
		keys := a.keys
		if keys == nil {
			keys = func(int) iter.Seq2[cq.Key, error] { return possibleKeys(side) }
		}
		for k, err := range keys(i) {
			if err := errors.Join(err, a.ctx.Err()); err != nil {
				return err
			}
			own := partOf(k.Topic, a.parts) == a.part
			if !own && (a.light || !k.IsLMQ()) {
				continue
			}
			q, ok := side.Queue(k)
			if !ok {
				continue
			}
			if a.light = a.light || k.IsLMQ(); !own {
				continue
			}
			if err := a.join(q, k, i); err != nil {
				return err
			}
		}
	}
	a.ahead = min(max(auditAheadUnits/max(len(a.queues), 1), minAhead), maxAhead)
	slices.SortFunc(a.queues, func(x, y *auditQueue) int { return x.key.Compare(y.key) })
	return nil
}

func (a *audit) join(q cq.Queue, k cq.Key, side int) error {
	t := a.topics[k.Topic]
	if t == nil {
		t = &auditTopic{any: true}
		a.topics[k.Topic] = t
	}
	s := &a.queue(t, k).sides[side]
	s.reader = a.reads[side]
	b, err := q.Bounds()
	switch {
	case errors.Is(err, cq.ErrCorrupt):
		s.bad = &badSide{err: err}
		b = cq.Bounds{MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1}
		if m, ok := q.(interface{ Max() int64 }); ok { // of RocksDB: known where the rest is not
			b.Max = m.Max()
		}
		if st, ok := q.(storedReader); ok { // of files: whatever they hold
			if b.Min, b.Max, err = st.Stored(); err != nil && !errors.Is(err, cq.ErrCorrupt) {
				return err
			} else if err == nil {
				s.bad.stored = st
			}
		}
	case err != nil:
		return err
	}
	s.bounds = b
	return nil
}

// storedReader is a queue in files that can be read though its files contradict one another.
type storedReader interface {
	Stored() (from, to int64, err error)
	ReadStored(from int64, dst []cq.Unit) (int, error)
}

// queue returns the queue of a key, made when it is met for the first time.
func (a *audit) queue(t *auditTopic, k cq.Key) *auditQueue {
	q := t.byID[k.QueueID]
	if q == nil {
		q = &auditQueue{key: k, id: len(a.queues)}
		for i := range q.sides {
			q.sides[i].of, q.sides[i].lastSlot = q, -1
		}
		if t.byID == nil {
			t.byID = make(map[int32]*auditQueue)
		}
		t.byID[k.QueueID] = q
		a.queues = append(a.queues, q)
	}
	return q
}

func (a *audit) topic(name []byte) *auditTopic {
	if a.last != nil && string(name) == a.lastTopic {
		return a.last
	}
	t := a.topics[string(name)]
	if t == nil {
		t = &auditTopic{deleted: a.known != nil && !a.known[string(name)] && !systemTopic(string(name))}
		a.topics[string(name)] = t
	}
	a.last, a.lastTopic = t, string(name)
	return t
}

// record holds one record against the slots that it has.
func (a *audit) record(r *message.Record) error {
	if !r.OwesUnit() {
		if bytes.HasPrefix(r.Topic, []byte(placeholderPrefix)) {
			a.lost = append(a.lost, span{r.PhyOffset, r.PhyOffset + int64(r.TotalSize)})
		}
		return nil
	}
	if err := a.owes(r, r.Topic, r.QueueID, r.QueueOffset); err != nil {
		return err
	}
	if !bytes.Contains(r.Properties, multiDispatch) {
		return nil
	}
	var err error
	r.MultiDispatch(func(name []byte, queueID int32, queueOffset int64, ok bool) bool {
		if ok {
			err = a.dispatched(r, name, queueID, queueOffset)
		}
		return err == nil
	})
	return err
}

// dispatched is a queue that a record names beside its own. Whether there was dispatch to such is not in the directory: see join.multi.
func (a *audit) dispatched(r *message.Record, name []byte, queueID int32, slot int64) error {
	light := bytes.HasPrefix(name, lightPrefix)
	t := a.topics[string(name)] // nil too where it belongs to another part
	switch {
	case light && (a.light || a.missing == MissingBuild):
	case t != nil && t.byID[queueID] != nil:
	case light && partOf(name, a.parts) == a.part:
		f := queueFinding(CodeLMQWithout, cq.Key{Topic: string(name), QueueID: queueID},
			fmt.Sprintf("the record at %d names it, but the store has no light queues at all: dispatch to them was off", r.PhyOffset))
		f.QueueOffset, f.PhyOffset = slot, r.PhyOffset
		a.notice(f)
		return nil
	default:
		return nil
	}
	return a.owes(r, name, queueID, slot)
}

// owes meets a record with a slot of a queue on every side.
func (a *audit) owes(r *message.Record, topic []byte, queueID int32, slot int64) error {
	if partOf(topic, a.parts) != a.part {
		return nil
	}
	t := a.topic(topic)
	q := t.byID[queueID]
	if q == nil {
		k := cq.Key{Topic: string(topic), QueueID: queueID}
		if !a.make(t, k, r, slot) {
			return nil
		}
		q = a.queue(t, k)
	}
	a.units++
	return a.meet(q, r, slot)
}

// make tells whether a queue that no side has is to be made from the log.
func (a *audit) make(t *auditTopic, k cq.Key, r *message.Record, slot int64) bool {
	f := queueFinding(CodeMissingQueue, k, "")
	f.QueueOffset, f.PhyOffset = slot, r.PhyOffset
	say := func(to func(Finding), code Code, text string) {
		if t.told {
			text = "" // the first of a topic is told in full
		}
		t.told = true
		f.Code, f.Text = code, text
		to(f)
	}
	switch {
	case a.build[k] || a.missing == MissingBuild:
		return true
	case t.deleted && !t.any:
		say(a.notice, CodeDeletedTopic, "config/topics.json does not list the topic and no queue of it exists: its records are left alone")
	case a.missing == MissingSkip:
		say(a.notice, CodeSkippedQueue, "records of this topic have no queue; left out as asked")
	default:
		if !t.told {
			say(a.report, CodeMissingQueue, fmt.Sprintf("the record at %d (slot %d) belongs to it, but no side has such a queue (--missing-queues build makes it from the log, skip leaves it out)", r.PhyOffset, slot))
		}
	}
	return false
}

// lostAt tells whether the log has lost what was at a position: a filler or a placeholder is there.
func (a *audit) lostAt(phy int64) bool {
	_, found := slices.BinarySearchFunc(a.lost, phy, func(s span, phy int64) int {
		switch {
		case s.to <= phy:
			return -1
		case s.from > phy:
			return 1
		}
		return 0
	})
	return found
}

// claim is what the record behind a unit says of it.
type claim struct {
	belongs bool // it is a record of that queue, and as long as the unit says
	slot    int64
	unit    cq.Unit // as the record has it
}

// ask reads the record behind a unit.
func (a *audit) ask(k cq.Key, u cq.Unit) (c claim, err error) {
	if u.PhyOffset >= a.end || u.PhyOffset < a.log.MinOffset() {
		return c, nil
	}
	release, err := a.log.Read(u.PhyOffset, 0, false, &a.rec)
	if err != nil {
		if unreadableRecord(err) {
			err = nil
		}
		return c, err
	}
	defer release()
	if slot, ok := a.rec.SlotIn(k.Topic, k.QueueID); ok && a.rec.OwesUnit() && a.rec.TotalSize == u.Size {
		c = claim{true, slot, unitOf(&a.rec)}
	}
	return c, nil
}

// unitOf is the unit that a record owes.
func unitOf(r *message.Record) cq.Unit {
	return cq.Unit{PhyOffset: r.PhyOffset, Size: r.TotalSize, TagsCode: r.TagsCode(defaultLevels), StoreTimestampMs: r.StoreTimestampMs}
}
