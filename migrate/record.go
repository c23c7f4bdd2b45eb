package migrate

import (
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/migrate/state"
)

// recordEvery is the least time between two samples of one piece of work.
const recordEvery = 250 * time.Millisecond

// Recorder is a Progress that also takes down, beside the state, how far long work was when. Phase and Close belong to one goroutine, as those of a Progress do.
type Recorder struct {
	p       Progress
	samples *state.Samples
	now     func() time.Time
	current *recorded
}

// recorded is the piece of work under way.
type recorded struct {
	name, unit string
	total      int64
	done       atomic.Int64
	next       atomic.Int64 // when a sample is wanted, in ns
}

// NewRecorder makes one for the store whose state directory is dir, which passes on to p.
func NewRecorder(dir string, p Progress) (*Recorder, error) {
	s, err := state.OpenSamples(dir, recordEvery)
	return &Recorder{p: p, samples: s, now: time.Now}, err
}

// Phase implements Progress.
func (r *Recorder) Phase(name string, total int64, unit string) (update func(done int64)) {
	r.end()
	show := r.p.Phase(name, total, unit)
	w := &recorded{name: name, unit: unit, total: total}
	r.current = w
	r.take(w, r.now(), true)
	return func(done int64) {
		show(done)
		for was := w.done.Load(); done > was && !w.done.CompareAndSwap(was, done); was = w.done.Load() { // workers tell it as they come
		}
		now := r.now()
		if next := w.next.Load(); now.UnixNano() >= next && w.next.CompareAndSwap(next, now.Add(recordEvery).UnixNano()) {
			r.take(w, now, false)
		}
	}
}

func (r *Recorder) take(w *recorded, now time.Time, force bool) {
	r.samples.Add(state.Sample{Time: now, Work: w.name, Done: w.done.Load(), Of: w.total, Unit: w.unit}, force)
}

// end takes down where the piece of work came to.
func (r *Recorder) end() {
	if r.current != nil {
		r.take(r.current, r.now(), true)
		r.current = nil
	}
}

// Add takes a sample of something else down. It ends the piece of work under way.
func (r *Recorder) Add(x state.Sample) {
	r.end()
	r.samples.Add(x, true)
}

// Close takes down the end, and ends the file.
func (r *Recorder) Close() error {
	r.end()
	return r.samples.Close()
}
