package online

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// maxDifferences bounds the list of differences in the state, and in errors.
const maxDifferences = 20

// DiffersError tells that the sides were compared and are not the same.
type DiffersError struct {
	Step        string
	Queues      int      // in which something was found
	Differences []string // the first ones
	// Mending tells that the log has decided at least one of them: queues are being built again.
	Mending bool
	// Alone is the side that was held against the log, as the other one lacks something; empty where the sides were compared with one another.
	Alone cq.Kind

	keys []cq.Key // in which something was found
}

func (e *DiffersError) Error() string {
	found := fmt.Sprintf("%d queues differ between files and RocksDB", e.Queues)
	advice := "the log does not tell which side is right: `tandemmq migrate online resolve --queue TOPIC/ID` says what stays"
	switch {
	case e.Alone != "":
		found = fmt.Sprintf("%d queues of the %s side are not as the log says, and the other side is not whole", e.Queues, e.Alone)
		advice = "a restart with both sides open has the other one be filled, and what differs be decided; `tandemmq migrate repair` mends the stopped store; `tandemmq migrate online resolve --queue TOPIC/ID` keeps it as it is"
	case e.Mending:
		advice = "queues are being built again from the log: ask for it again when `tandemmq migrate online status` says that they are healed"
	}
	return fmt.Sprintf("%s refused: %s; nothing was moved. %s:\n  - %s", e.Step, found, advice, strings.Join(e.Differences, "\n  - "))
}

// ExitCode is 3: verified and found different.
func (e *DiffersError) ExitCode() int { return 3 }

// scope says what of the queues is compared.
type scope struct {
	since  *migrate.CertifiedQueues // what was compared before, and is not compared again; nil: nothing was
	all    bool                     // it is compared again
	topics []string                 // that of these topics is
	only   map[cq.Key]struct{}      // of no other queues; nil: of all
	ends   bool                     // nothing but the ends
	alone  cq.Kind                  // that side against the log; empty: the sides with one another
	share  int                      // of the time worked, so much is waited
}

// begin returns from which slot on a queue is compared.
func (s *scope) begin(k cq.Key) (from int64, crc uint32) {
	switch {
	case s.ends:
		return math.MaxInt64, 0
	case s.all || slices.Contains(s.topics, k.Topic):
		return 0, 0
	}
	before, _ := s.since.Get(k)
	return before.Max, before.CRC
}

// counts tells whether all queues are looked at, so that what is found takes the place of what was.
func (s *scope) counts() bool { return s.only == nil && !s.ends }

// comparison is one pass over the queues.
type comparison struct {
	scope
	m        *Migration
	st       state.State
	found    *migrate.CertifiedQueues
	coverage state.Coverage
	unread   int64 // units that were compared before, and not now
	differs  DiffersError
	same     []cq.Key // that were compared as a whole
	findings *state.Findings
}

// compare compares queues on both sides. The error is that of a comparison that could not be made, or a *DiffersError; then too the comparison is returned.
func (m *Migration) compare(ctx context.Context, step string, s scope) (*comparison, error) {
	keys, err := m.s.Queues()
	if err != nil {
		return nil, err
	}
	w := m.s.Watermarks()
	c := &comparison{m: m, scope: s, st: m.state(), found: &migrate.CertifiedQueues{}, differs: DiffersError{Step: step, Alone: s.alone}}
	of := len(keys)
	if s.only != nil {
		of = len(s.only)
	}
	c.coverage = state.Coverage{LogMin: w.MinPhyOffset, LogEnd: w.Appended, Time: m.now().UTC().Truncate(time.Millisecond)}
	whole := s.only == nil && !s.ends && (s.since == nil || s.all)
	if whole {
		r := m.s.ShadowReads() // what was found before is looked at now
		m.shadow, m.judged = r.Found, r.Judged
	}
	for _, v := range w.Views {
		c.coverage.LogEnd = min(c.coverage.LogEnd, v.Dispatched) // also of an index: less is safe
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.mu.Lock()
	m.mu.done, m.mu.of, m.mu.units, m.mu.begun, m.mu.cancel = 0, of, 0, m.now(), cancel
	if s.counts() {
		m.mu.compared = make(map[string]compared)
	}
	m.mu.Unlock()
	if m.urgent.Load() > 0 { // it has not seen cancel
		cancel()
	}
	defer func() {
		m.mu.Lock()
		m.mu.done, m.mu.of, m.mu.cancel = 0, 0, nil
		m.mu.Unlock()
	}()
	o := store.VerifySidesOptions{Samples: m.o.Samples, Share: s.share, Begin: s.begin, Kept: keptOf(&c.st)}
	if s.only != nil {
		o.Only = func(k cq.Key) bool { _, ok := s.only[k]; return ok }
	}
	if s.alone != "" {
		err = m.s.CheckSide(ctx, s.alone, o, c.take)
	} else {
		err = m.s.VerifySides(ctx, o, c.take)
	}
	if err != nil {
		return nil, err
	}
	m.skipMet()
	if whole { // both sides are there
		if sides, err := m.s.SideStates(); err == nil {
			m.seen.replaced = sides[cq.KindRocks].Replaced
		}
	}
	if r := m.s.ShadowReads(); r.Found > m.shadow && s.alone == "" && s.only == nil { // of what was compared before, it may be
		c.differs.Mending = c.differs.Mending || r.Judged > m.judged
		m.shadow, m.judged, m.certified = r.Found, r.Judged, nil
		c.differs.Queues++
		c.differs.Differences = append(c.differs.Differences, r.Differences...)
		c.differs.keys = append(c.differs.keys, r.Queues...)
	}
	t := newTally(&c.st)
	differ := make(map[cq.Key]struct{})
	for _, k := range c.differs.keys {
		differ[k] = struct{}{}
		t.found(k)
	}
	for _, k := range c.same {
		if _, again := differ[k]; !again {
			t.healed(k)
		}
	}
	if whole {
		t.all(differ)
	}
	if s.only != nil { // what is gone is not told of
		for k := range s.only {
			if _, ok := differ[k]; !ok {
				t.healed(k)
			}
		}
	}
	c.findings = t.findings()
	if c.differs.Queues > 0 {
		return c, &c.differs
	}
	return c, nil
}

// lookAtShadow voids the verification when a shadow read has found a difference since. Reads that have moved stay where they are: the store reads a queue from the side that the log proves, and builds it again
// on the other.
func (m *Migration) lookAtShadow(st *state.State) (more bool, err error) {
	if st.Phase != state.Verified && st.Phase != state.Cutover {
		return false, nil
	}
	r := m.s.ShadowReads()
	if r.Found <= m.shadow {
		return false, nil
	}
	found := "found by a read that was compared: " + r.Differences[len(r.Differences)-1]
	t := newTally(st)
	for _, k := range r.Queues {
		t.found(k)
	}
	void := func(st *state.State) {
		st.Online.Verified, st.Online.CanaryTopics, st.Online.Differences, st.Online.Findings = nil, nil, r.Differences, t.findings()
	}
	switch {
	case st.Phase == state.Verified:
		err = m.advance(state.VerifyDiffers, m.o.Actor, found, void)
	case len(st.Online.Differences) == 0:
		err = m.change(func(st *state.State) {
			void(st)
			st.Note(state.ShadowDiffers, m.o.Actor, found, m.now())
		})
	default:
		err = m.change(void)
	}
	if err != nil {
		return false, err
	}
	m.skipMet()
	m.mending = m.mending || r.Judged > m.judged
	m.shadow, m.judged, m.certified = r.Found, r.Judged, nil
	return true, nil
}

// take takes down what was found of a queue.
func (c *comparison) take(v *store.SideVerdict) error {
	before, known := c.since.Get(v.Key)
	if known && v.Bounds.Max < before.Max {
		v.Different++
		v.Found = append(v.Found, store.Finding{Class: "low-max", From: -1, What: fmt.Sprintf("it ends at slot %d, and had been compared up to %d", v.Bounds.Max, before.Max)})
	}
	c.m.mu.Lock()
	c.m.mu.done++
	c.m.mu.units += v.Units
	if c.counts() {
		topic := c.m.mu.compared[v.Key.Topic]
		if v.OK() {
			topic.same++
		} else {
			topic.different++
		}
		c.m.mu.compared[v.Key.Topic] = topic
	}
	c.m.mu.Unlock()
	if !v.OK() {
		c.differs.Queues++
		c.differs.Mending = c.differs.Mending || v.Mending
		c.differs.keys = append(c.differs.keys, v.Key)
		for _, d := range v.Words() {
			if len(c.differs.Differences) < maxDifferences {
				c.differs.Differences = append(c.differs.Differences, fmt.Sprintf("queue %s: %s", v.Key, d))
			}
		}
		return nil
	}
	one := migrate.Certified{
		Key: v.Key, Min: v.Bounds.Min, Max: v.To, MinPhyOffset: v.Bounds.MinPhyOffset, MaxPhyOffset: v.Bounds.MaxPhyOffset, CRC: v.CRC, Alone: v.Alone,
	}
	from, _ := c.begin(v.Key)
	switch {
	case from == 0:
		c.same = append(c.same, v.Key)
	case !v.Alone:
		c.unread += max(min(v.From, v.To)-v.Bounds.Min, 0)
	}
	if known && from > 0 {
		one.Min, one.MinPhyOffset = before.Min, before.MinPhyOffset // the checksum begins there
	}
	if err := c.found.Add(one); err != nil {
		return err
	}
	c.coverage.Queues++
	if !v.Alone {
		c.coverage.Units += max(one.Max-one.Min, 0)
	}
	c.coverage.Records += v.Records
	return nil
}

// keep makes what was found the certificate.
func (c *comparison) keep() error {
	st := c.m.state()
	err := migrate.WriteCertificate(c.m.dir, st.From, st.To, c.m.o.Actor, &c.coverage, c.found.All())
	if err == nil {
		c.m.certified = c.found
	}
	return err
}

// verify compares everything, and says what came of it.
func (m *Migration) verify(ctx context.Context) (more bool, err error) {
	c, err := m.compare(ctx, "verify", scope{share: verifyShare})
	var differs *DiffersError
	switch {
	case errors.As(err, &differs):
		m.mending = differs.Mending
		return true, m.advance(state.VerifyDiffers, m.o.Actor, fmt.Sprintf("%d queues, %s", differs.Queues, differs.Differences[0]), func(st *state.State) {
			st.Online.Verified, st.Online.Differences, st.Online.Findings = nil, differs.Differences, c.findings
		})
	case errors.Is(err, store.ErrRebuilding):
		return m.fellBack(err)
	case err != nil:
		return false, err
	}
	if err := c.keep(); err != nil {
		return false, err
	}
	note := fmt.Sprintf("%d queues, %d units, %d records, up to %d", c.coverage.Queues, c.coverage.Units, c.coverage.Records, c.coverage.LogEnd)
	m.rounds = 0
	return true, m.advance(state.VerifyOK, m.o.Actor, note, func(st *state.State) {
		st.Online.Verified, st.Online.Differences, st.Online.Findings = &c.coverage, nil, c.findings
	})
}

// fellBack goes back to where the target is filled, if a side is.
func (m *Migration) fellBack(why error) (more bool, err error) {
	sides, err := m.s.SideStates()
	if err != nil {
		return false, err
	}
	for _, s := range sides {
		if s.Failure != nil {
			return false, fmt.Errorf("a side will not come to have what it lacks, until the store is opened again: %w", s.Failure)
		}
	}
	return true, m.advance(state.BackfillStart, m.o.Actor, why.Error(), func(st *state.State) { st.Online.Verified = nil })
}
