package store

import "github.com/tandemq/tandemmq/cq"

// sideComparison looks for what queues of one side lack of what the other one has.
type sideComparison struct {
	here  cq.Store // the side that is to serve; nil: it is not there
	there cq.Store
	from  int64 // physical offset: units of records from there on are given to the side before it serves
}

// queue returns what a queue lacks here, false for nothing. A queue that cannot be read there tells nothing; one that cannot be read here has nothing.
func (c *sideComparison) queue(k cq.Key) (gap SideGap, lacks bool, err error) {
	q, b, err := boundsOf(c.there, k)
	if err != nil || q == nil || b.Max == 0 {
		return gap, false, err
	}
	have, mine, err := boundsOf(c.here, k)
	if err != nil {
		return gap, false, err
	}
	if have != nil && !b.Empty() && mine.Min > b.Min { // dispatch adds nothing below
		return SideGap{Key: k, From: b.Min, To: min(mine.Min, b.Max)}, true, nil
	}
	if b.Max <= mine.Max {
		return gap, false, nil
	}
	first := max(mine.Max, b.Min)
	if first == b.Max {
		return SideGap{Key: k, From: mine.Max, To: b.Max, Gone: true}, true, nil
	}
	to, err := firstFrom(q, b, c.from)
	return SideGap{Key: k, From: first, To: to}, to > first && to == b.Max, err // a unit that dispatch delivers behind a gap has the queue built again before it is read
}
