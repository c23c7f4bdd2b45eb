package store

import (
	"errors"
	"sort"

	"github.com/tandemq/tandemmq/cq"
)

// noteLostUnits lists the slots whose records were in the end that the log has lost, if it has: they keep their units, so that no offset is given twice.
func (r *recovery) noteLostUnits(queues cq.Reader) error {
	if _, lost := r.rep.Log.LostEnd(); !lost {
		return nil
	}
	from := r.rep.Log.End
	to := r.rep.LogEnd
	units, inQueues := int64(0), 0
	var list []LostRange
	for k, err := range queues.Queues() {
		if err != nil {
			return err
		}
		q, ok := queues.Queue(k)
		if !ok {
			continue
		}
		b, err := q.Bounds()
		if err != nil || b.Empty() || b.LastPhyOffset < from || b.LastPhyOffset >= to {
			continue // the check at the end tells what is wrong
		}
		var failed error
		first := b.Min + int64(sort.Search(int(b.Max-b.Min), func(i int) bool {
			var u [1]cq.Unit
			n, err := q.Read(b.Min+int64(i), u[:])
			if err != nil && !errors.Is(err, cq.ErrCorrupt) {
				failed = err
			}
			return n == 1 && u[0].PhyOffset >= from
		}))
		if failed != nil {
			return failed
		}
		if first < b.Max {
			units, inQueues = units+b.Max-first, inQueues+1
			if len(list) < maxLostRanges {
				list = append(list, LostRange{Topic: k.Topic, QueueID: k.QueueID, From: first, To: b.Max})
			}
		}
	}
	r.rep.LostEnd = mergeLost(r.rep.LostEnd, list)
	if units > 0 {
		r.note("%d units in %d queues lead to records that the log has lost; the queues keep their offsets, and readers pass these slots: do not build these queues anew, they would begin to give the offsets again", units, inQueues)
	}
	return nil
}
