package store

import (
	"errors"

	"github.com/tandemq/tandemmq/cq"
)

// unitWindows are pieces of queues that one worker has at hand while it goes through the log. Records of one queue come by in
// the order of their slots, so a piece read once serves as many records as it has units. One place takes turns between
// queues when there are more queues than places; what was counted in it is handed over then.
type unitWindows struct {
	places []unitWindow
	queues int
	units  int // of a piece
}

type unitWindow struct {
	q     *checkedQueue
	side  int
	from  int64
	units []cq.Unit

	matched int64 // records that met their unit since the window came to this queue
	dirty   bool  // one of them differs from it in size, tags or time
}

const (
	windowBudgetUnits = 1 << 19 // 16 MiB of cq.Unit for each worker, and up to 8 MiB for the places themselves
	windowMaxUnits    = 1024
	windowMinUnits    = 4
)

// newUnitWindows divides a budget of units, windowBudgetUnits but for tests, among so many queues of so many sides.
func newUnitWindows(budget, queues, sides int) *unitWindows {
	n := max(queues*sides, 1)
	units := min(max(budget/n, windowMinUnits), windowMaxUnits)
	return &unitWindows{places: make([]unitWindow, min(n, budget/units)), queues: queues, units: units}
}

// at returns the unit in a slot of [min, max) of a queue, and the window it is in. u is nil when the slot holds none, or
// nothing that can be one.
func (w *unitWindows) at(q *checkedQueue, side int, slot int64) (win *unitWindow, u *cq.Unit, err error) {
	win = &w.places[(q.id+side*w.queues)%len(w.places)]
	if win.q != q || win.side != side {
		win.handOver()
		win.q, win.side, win.units = q, side, win.units[:0]
	}
	if i := slot - win.from; i < 0 || i >= int64(len(win.units)) {
		if cap(win.units) == 0 {
			win.units = make([]cq.Unit, w.units)
		}
		n, err := q.sides[side].q.Read(slot, win.units[:cap(win.units)])
		if err != nil {
			n = 0
		}
		win.from, win.units = slot, win.units[:n]
		if err != nil && !errors.Is(err, cq.ErrCorrupt) {
			return nil, nil, err
		}
		if n == 0 {
			return win, nil, nil
		}
	}
	return win, &win.units[slot-win.from], nil
}

// handOver adds what was counted to the queue.
func (win *unitWindow) handOver() {
	if win.q == nil {
		return
	}
	s := &win.q.sides[win.side]
	s.matched.Add(win.matched)
	if win.dirty {
		s.dirty.Store(true)
	}
	win.matched, win.dirty = 0, false
}

func (w *unitWindows) handOverAll() {
	for i := range w.places {
		w.places[i].handOver()
	}
}
