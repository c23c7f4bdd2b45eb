package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
)

// eachQueue calls fn with every queue of r and its bounds. A queue that contradicts itself becomes a finding in bad, and
// is passed over; any other error, and fn's, ends the walk.
func eachQueue(ctx context.Context, r cq.Reader, bad *Findings, fn func(k cq.Key, q cq.Queue, b cq.Bounds) error) error {
	for k, err := range r.Queues() {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		q, ok := r.Queue(k)
		if !ok {
			continue
		}
		b, err := q.Bounds()
		if errors.Is(err, cq.ErrCorrupt) {
			bad.Add(badQueue(k, err))
			continue
		}
		if err != nil {
			return err
		}
		if err := fn(k, q, b); err != nil {
			return err
		}
	}
	return nil
}

func badQueue(k cq.Key, err error) Finding {
	return queueFinding(CodeBadQueue, k, err.Error())
}

// queueFinding is about a queue as a whole.
func queueFinding(code Code, k cq.Key, text string) Finding {
	return Finding{Code: code, Topic: k.Topic, QueueID: k.QueueID, QueueOffset: -1, PhyOffset: -1, Text: text}
}

// openReader opens a side read-only. Where that side is damaged as a whole, the error says what leads on.
func (m *Migrator) openReader(kind cq.Kind) (cq.Store, error) {
	s, err := m.dir.OpenReader(kind)
	damage := (*cq.CorruptError)(nil)
	if !errors.As(err, &damage) || kind != cmp.Or(m.state.To, m.opt.To) {
		return s, err
	}
	switch m.state.Phase {
	case PhaseCutover, PhaseRollingBack:
		return s, fmt.Errorf("%w. Where the %s side is lost, `tandemmq migrate rollback --from-log --yes` brings the other side up from the log alone and gives reads back to it", err, kind)
	case state.Finalizing, state.Finalized:
	default:
		return s, fmt.Errorf("%w. If nothing in the %s side is needed, `tandemmq migrate run --to %s --restart --replace-target` removes it and begins anew", err, kind, kind)
	}
	return s, err
}

// reading opens a side read-only for fn.
func (m *Migrator) reading(kind cq.Kind, fn func(s cq.Store) error) (err error) {
	s, err := m.openReader(kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return fn(s)
}

// keyLister is implemented by stores that can list their queues without a look at each: some of those listed may not be there.
type keyLister interface {
	Keys() ([]cq.Key, error)
}

// possibleKeys yields the keys of the queues of r, in no order, and perhaps those of some that it does not have.
func possibleKeys(r cq.Reader) iter.Seq2[cq.Key, error] {
	l, ok := r.(keyLister)
	if !ok {
		return r.Queues()
	}
	return func(yield func(cq.Key, error) bool) {
		keys, err := l.Keys()
		for _, k := range keys {
			if !yield(k, nil) {
				return
			}
		}
		if err != nil {
			yield(cq.Key{}, err)
		}
	}
}

// sideReader reads the queues of a side by their names, and so holds nothing of them: there may be a million.
type sideReader struct {
	cq.Reader
	sparse cq.SparseReader // nil: the store remembers its queues in any case
}

func newSideReader(r cq.Reader) sideReader {
	sparse, _ := r.(cq.SparseReader)
	return sideReader{r, sparse}
}

// read is Read of a queue for slots that lie below its max.
func (r sideReader) read(k cq.Key, slot int64, dst []cq.Unit) (int, error) {
	if r.sparse != nil {
		return r.sparse.ReadSparse(k, slot, dst)
	}
	q, ok := r.Queue(k)
	if !ok {
		return 0, &cq.RangeError{Key: k, Want: slot}
	}
	return q.Read(slot, dst)
}

// where is Where of a queue; empty where there is none.
func (r sideReader) where(k cq.Key, slot int64) string {
	if q, ok := r.Queue(k); ok {
		return q.Where(slot)
	}
	return ""
}
