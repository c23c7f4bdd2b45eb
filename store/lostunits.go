package store

import (
	"errors"
	"math"
	"sort"

	"github.com/tandemq/tandemmq/cq"
)

// noteLostUnits lists the slots whose records were in the end that the log has lost, if it has: they keep their units, so that no offset is given twice.
func (r *recovery) noteLostUnits(queues cq.Reader) error {
	if _, lost := r.rep.Log.LostEnd(); !lost {
		return nil
	}
	list, units, inQueues, err := lostUnits(queues, r.rep.Log.End, r.rep.LogEnd, maxLostRanges)
	if err != nil {
		return err
	}
	r.rep.LostEnd = mergeLost(r.rep.LostEnd, list)
	if units > 0 {
		r.note("%d units in %d queues lead to records that the log has lost; the queues keep their offsets, and readers pass these slots: do not build these queues anew, they would begin to give the offsets again", units, inQueues)
	}
	return nil
}

// lostUnits finds the slots of queues whose units lead to physical offsets [from, to), where the log has lost its records: at most so many ranges, how many slots they are, and in how many
// queues.
func lostUnits(queues cq.Reader, from, to int64, most int) (list []LostRange, units int64, inQueues int, err error) {
	for k, err := range queues.Queues() {
		if err != nil {
			return nil, 0, 0, err
		}
		q, ok := queues.Queue(k)
		if !ok {
			continue
		}
		b, err := q.Bounds()
		if err != nil || b.Empty() || b.LastPhyOffset < from || b.MinPhyOffset >= to {
			continue // the check at the end tells what is wrong
		}
		first, err := firstFrom(q, b, from)
		if err != nil {
			return nil, 0, 0, err
		}
		end, err := firstFrom(q, b, to)
		if err != nil {
			return nil, 0, 0, err
		}
		if first == end {
			continue
		}
		units, inQueues = units+end-first, inQueues+1
		if len(list) < most {
			list = append(list, LostRange{Topic: k.Topic, QueueID: k.QueueID, From: first, To: end})
		}
	}
	return list, units, inQueues, nil
}

// firstFrom returns the first slot of a queue whose unit leads to a physical offset or behind it, its max without one. A slot without a unit counts as the next one that has one.
func firstFrom(q cq.Queue, b cq.Bounds, phy int64) (int64, error) {
	var failed error
	place := func(slot int64) int64 {
		var u [1]cq.Unit
		for ; slot < b.Max; slot++ {
			n, err := q.Read(slot, u[:])
			if err != nil && !errors.Is(err, cq.ErrCorrupt) {
				failed = err
				break
			}
			if n == 1 {
				return u[0].PhyOffset
			}
		}
		return math.MaxInt64
	}
	at := sort.Search(int(b.Max-b.Min), func(i int) bool { return place(b.Min+int64(i)) >= phy })
	return b.Min + int64(at), failed
}
