package combine_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
)

// fake is a side in memory that can be told to fail. It is for one goroutine.
type fake struct {
	kind   cq.Kind
	m      map[cq.Key]*fakeQueue
	late   bool             // units are readable from AwaitReadable on
	quick  bool             // nothing is late, and there are many queues
	broken error            // every write fails
	full   error            // every flush fails, for now
	unfit  map[cq.Key]error // entries of these queues are refused
	end    int64            // of what was accepted
	shown  int64
	synced int64
	closed bool
	minPhy int64
	reads  int
	got    []cq.Entry // the last batch handed over, as it is
	cutErr error
	after  func() // an Append
	during func() // a look at bounds
}

type fakeQueue struct {
	first int64
	units []cq.Unit
	shown int
}

func newFake(kind cq.Kind) *fake {
	return &fake{kind: kind, m: map[cq.Key]*fakeQueue{}, unfit: map[cq.Key]error{}, end: -1, shown: -1, synced: -1}
}

func (f *fake) Kind() cq.Kind { return f.kind }

func (f *fake) Append(ctx context.Context, batch []cq.Entry) error {
	f.got = batch
	for _, e := range batch {
		if f.closed {
			return cq.ErrClosed
		}
		if err := errors.Join(ctx.Err(), f.broken, f.unfit[e.Key]); err != nil {
			return err
		}
		q := f.m[e.Key]
		if q == nil {
			q = &fakeQueue{first: e.QueueOffset}
			f.m[e.Key] = q
		}
		end := q.first + int64(len(q.units))
		switch {
		case e.QueueOffset > end:
			return &cq.GapError{Key: e.Key, Want: e.QueueOffset, Max: end, PhyOffset: e.Unit.PhyOffset}
		case e.QueueOffset == end:
			q.units = append(q.units, e.Unit)
		case e.QueueOffset >= q.first:
			if old := q.units[e.QueueOffset-q.first]; !old.SameRecord(e.Unit) {
				return &cq.ConflictError{Key: e.Key, QueueOffset: e.QueueOffset, Stored: old, New: e.Unit}
			}
		}
		f.end = max(f.end, e.Unit.End())
	}
	if !f.late {
		f.show()
	}
	if f.after != nil {
		f.after()
	}
	return nil
}

func (f *fake) show() {
	if f.quick {
		return
	}
	f.shown = f.end
	for _, q := range f.m {
		q.shown = len(q.units)
	}
}

func (f *fake) AwaitReadable(ctx context.Context) error {
	if f.closed {
		return cq.ErrClosed
	}
	if err := errors.Join(ctx.Err(), f.broken); err != nil {
		return err
	}
	f.show()
	return nil
}

func (f *fake) Flush(ctx context.Context) error {
	err := errors.Join(f.AwaitReadable(ctx), f.full)
	if err == nil {
		f.synced = f.end
	}
	return err
}

func (f *fake) Waiting() error { return f.full }

func (f *fake) Progress() (accepted, readable, durable int64) { return f.end, f.shown, f.synced }
func (f *fake) DispatchFrom() int64                           { return f.end }

func (f *fake) Queue(k cq.Key) (cq.Queue, bool) {
	q := f.m[k]
	return fakeHandle{f, k}, q != nil && q.shown > 0
}

func (f *fake) Queues() iter.Seq2[cq.Key, error] {
	keys := maps.Clone(f.m)
	return func(yield func(cq.Key, error) bool) {
		for k := range keys {
			if !yield(k, nil) {
				return
			}
		}
	}
}

func (f *fake) TruncateDirty(_ context.Context, phyOffset int64) error {
	if f.cutErr != nil {
		return f.cutErr
	}
	for k, q := range f.m {
		for len(q.units) > 0 && q.units[len(q.units)-1].PhyOffset >= phyOffset {
			q.units = q.units[:len(q.units)-1]
		}
		if len(q.units) == 0 {
			delete(f.m, k)
		}
	}
	f.show()
	return nil
}

func (f *fake) SetMinPhyOffset(minPhy int64) error {
	f.minPhy = max(f.minPhy, minPhy)
	return nil
}

func (f *fake) Expire(context.Context, time.Duration) (cq.Expired, error) {
	if f.broken != nil {
		return cq.Expired{}, f.broken
	}
	return cq.Expired{Queues: 1, Files: 1, Bytes: 10}, nil
}

func (f *fake) Import(_ context.Context, runs []cq.Run) error {
	for _, r := range runs {
		f.m[r.Key] = &fakeQueue{first: r.From, units: append([]cq.Unit{}, r.Units...), shown: len(r.Units)}
	}
	return nil
}

func (f *fake) Publish(context.Context, []cq.QueueEnd, int64) error { return nil }

func (f *fake) DropQueue(_ context.Context, k cq.Key) error {
	delete(f.m, k)
	return nil
}

func (f *fake) Close() error {
	f.closed = true
	return nil
}

type fakeHandle struct {
	f *fake
	k cq.Key
}

func (h fakeHandle) Key() cq.Key        { return h.k }
func (h fakeHandle) Where(int64) string { return string(h.f.kind) }

func (h fakeHandle) Bounds() (cq.Bounds, error) {
	b := cq.Bounds{MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1}
	if h.f.closed {
		return b, cq.ErrClosed
	}
	if do := h.f.during; do != nil {
		h.f.during = nil
		do()
	}
	q := h.f.m[h.k]
	if q == nil {
		return b, nil
	}
	b.Max = q.first + int64(q.shown)
	for b.Min = q.first; b.Min < b.Max && q.units[b.Min-q.first].PhyOffset < h.f.minPhy; b.Min++ {
	}
	if b.Min < b.Max {
		b.MinPhyOffset = q.units[b.Min-q.first].PhyOffset
	}
	if q.shown > 0 {
		b.LastPhyOffset, b.MaxPhyOffset = q.units[q.shown-1].PhyOffset, q.units[q.shown-1].End()
	}
	return b, nil
}

func (h fakeHandle) Read(from int64, dst []cq.Unit) (int, error) {
	h.f.reads++
	b, err := h.Bounds()
	if err != nil {
		return 0, err
	}
	if from < 0 || from >= b.Max {
		return 0, &cq.RangeError{Key: h.k, Want: from, Min: b.Min, Max: b.Max}
	}
	q := h.f.m[h.k]
	if from < q.first {
		return 0, nil
	}
	return copy(dst, q.units[from-q.first:q.shown]), nil
}

// duo is a combined store of two fakes.
type duo struct {
	*combine.Store
	file, rocks *fake
	told        []combine.Divergence
}

func newDuo(t *testing.T, o combine.Options) *duo {
	t.Helper()
	d := &duo{file: newFake(cq.KindFile), rocks: newFake(cq.KindRocks)}
	o.OnDiverged = func(v combine.Divergence) { d.told = append(d.told, v) }
	s, err := combine.New(d.file, d.rocks, o)
	require.NoError(t, err)
	d.Store = s
	return d
}

func (d *duo) side(kind cq.Kind) *fake {
	if kind == cq.KindFile {
		return d.file
	}
	return d.rocks
}

// count returns how many units each side has of a queue.
func (d *duo) count(k cq.Key) [2]int {
	n := [2]int{}
	for i, f := range []*fake{d.file, d.rocks} {
		if q := f.m[k]; q != nil {
			n[i] = len(q.units)
		}
	}
	return n
}

var (
	keyA     = cq.Key{Topic: "a", QueueID: 1}
	keyB     = cq.Key{Topic: "b"}
	keyLight = cq.Key{Topic: cq.LMQPrefix + "l"}
)

func entry(k cq.Key, slot, phy int64) cq.Entry {
	return cq.Entry{Key: k, QueueOffset: slot, Unit: cq.Unit{PhyOffset: phy, Size: 10, TagsCode: 7, StoreTimestampMs: 1}}
}

// row returns entries of one queue for slots [from, to), a record each 100 bytes from phy on.
func row(k cq.Key, from, to, phy int64) []cq.Entry {
	var out []cq.Entry
	for slot := from; slot < to; slot++ {
		out = append(out, entry(k, slot, phy+(slot-from)*100))
	}
	return out
}
