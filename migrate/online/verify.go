package online

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
}

func (e *DiffersError) Error() string {
	what := "the log does not tell which side is right"
	if e.Mending {
		what = "queues are being built again from the log; the verification is repeated then"
	}
	return fmt.Sprintf("%s: %d queues differ between files and RocksDB, %s:\n  - %s", e.Step, e.Queues, what, strings.Join(e.Differences, "\n  - "))
}

// ExitCode is 3: verified and found different.
func (e *DiffersError) ExitCode() int { return 3 }

// comparison is one pass over the queues.
type comparison struct {
	m        *Migration
	since    map[cq.Key]migrate.Certified // what was compared before; nil: nothing
	found    map[cq.Key]migrate.Certified
	coverage state.Coverage
	differs  DiffersError
}

// compare compares all queues on both sides, each from where it was compared before. The error is that of a comparison that could not be made, or a *DiffersError.
func (m *Migration) compare(ctx context.Context, step string, since map[cq.Key]migrate.Certified, share int) (*comparison, error) {
	keys, err := m.s.Queues()
	if err != nil {
		return nil, err
	}
	w := m.s.Watermarks()
	c := &comparison{m: m, since: since, found: make(map[cq.Key]migrate.Certified, len(keys)), differs: DiffersError{Step: step}}
	c.coverage = state.Coverage{LogMin: w.MinPhyOffset, LogEnd: w.Appended, Time: m.now().UTC().Truncate(time.Millisecond)}
	if since == nil {
		r := m.s.ShadowReads() // what was found before is looked at now
		m.shadow, m.judged = r.Found, r.Judged
	}
	for _, v := range w.Views {
		c.coverage.LogEnd = min(c.coverage.LogEnd, v.Dispatched) // also of an index: less is safe
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.mu.Lock()
	m.mu.done, m.mu.of, m.mu.units, m.mu.begun, m.mu.cancel = 0, len(keys), 0, m.now(), cancel
	m.mu.compared = make(map[string]compared)
	m.mu.Unlock()
	if m.urgent.Load() > 0 { // it has not seen cancel
		cancel()
	}
	defer func() {
		m.mu.Lock()
		m.mu.done, m.mu.of, m.mu.cancel = 0, 0, nil
		m.mu.Unlock()
	}()
	o := store.VerifySidesOptions{Samples: m.o.Samples, Share: share}
	if since != nil {
		o.Begin = func(k cq.Key) (int64, uint32) { return since[k].Max, since[k].CRC }
	}
	if err := m.s.VerifySides(ctx, o, c.take); err != nil {
		return nil, err
	}
	if r := m.s.ShadowReads(); r.Found > m.shadow { // of what was compared before, it may be
		c.differs.Mending = c.differs.Mending || r.Judged > m.judged
		m.shadow, m.judged, m.certified = r.Found, r.Judged, nil
		c.differs.Queues++
		c.differs.Differences = append(c.differs.Differences, r.Differences...)
	}
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
	void := func(st *state.State) {
		st.Online.Verified, st.Online.CanaryTopics, st.Online.Differences = nil, nil, r.Differences
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
	m.mending = m.mending || r.Judged > m.judged
	m.shadow, m.judged, m.certified = r.Found, r.Judged, nil
	return true, nil
}

// take takes down what was found of a queue.
func (c *comparison) take(v *store.SideVerdict) error {
	before, known := c.since[v.Key]
	if known && v.Bounds.Max < before.Max {
		v.Different++
		v.Differences = append(v.Differences, fmt.Sprintf("it ends at slot %d, and had been compared up to %d", v.Bounds.Max, before.Max))
	}
	c.m.mu.Lock()
	c.m.mu.done++
	c.m.mu.units += v.Units
	topic := c.m.mu.compared[v.Key.Topic]
	if v.OK() {
		topic.same++
	} else {
		topic.different++
	}
	c.m.mu.compared[v.Key.Topic] = topic
	c.m.mu.Unlock()
	if !v.OK() {
		c.differs.Queues++
		c.differs.Mending = c.differs.Mending || v.Mending
		for _, d := range v.Differences {
			if len(c.differs.Differences) < maxDifferences {
				c.differs.Differences = append(c.differs.Differences, fmt.Sprintf("queue %s: %s", v.Key, d))
			}
		}
		return nil
	}
	one := migrate.Certified{
		Key: v.Key, Min: v.Bounds.Min, Max: v.To, MinPhyOffset: v.Bounds.MinPhyOffset, MaxPhyOffset: v.Bounds.MaxPhyOffset, CRC: v.CRC, Alone: v.Alone,
	}
	if known {
		one.Min, one.MinPhyOffset = before.Min, before.MinPhyOffset // the checksum begins there
	}
	c.found[v.Key] = one
	c.coverage.Queues++
	c.coverage.Units += v.Units
	c.coverage.Records += v.Records
	return nil
}

// keep makes what was found the certificate.
func (c *comparison) keep() error {
	st := c.m.state()
	err := migrate.WriteCertificate(c.m.dir, st.From, st.To, c.m.o.Actor, &c.coverage, func(yield func(migrate.Certified) bool) {
		for _, k := range sortedKeys(c.found) {
			if !yield(c.found[k]) {
				return
			}
		}
	})
	if err == nil {
		c.m.certified = maps.Clone(c.found)
	}
	return err
}

// verify compares everything, and says what came of it.
func (m *Migration) verify(ctx context.Context) (more bool, err error) {
	c, err := m.compare(ctx, "verify", nil, verifyShare)
	var differs *DiffersError
	switch {
	case errors.As(err, &differs):
		m.mending = differs.Mending
		return true, m.advance(state.VerifyDiffers, m.o.Actor, fmt.Sprintf("%d queues, %s", differs.Queues, differs.Differences[0]), func(st *state.State) {
			st.Online.Verified, st.Online.Differences = nil, differs.Differences
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
	return true, m.advance(state.VerifyOK, m.o.Actor, note, func(st *state.State) { st.Online.Verified, st.Online.Differences = &c.coverage, nil })
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
