package file

import "github.com/tandemq/tandemmq/cq"

// Beginning is what the files of a queue tell about the slots below the first one that they can serve.
type Beginning struct {
	// Slot is the first slot with a unit whose record is in the log; the queue's max when there is none.
	Slot int64
	// PhyOffset is where that record lies; -1 when there is none.
	PhyOffset int64
	// Proven tells that the log has no record of a lower slot of the queue. Otherwise such records may lie between the log's beginning and PhyOffset, or
	// anywhere when that is -1: the files before the first one may have been lost, or the queue may have been lost and have begun anew.
	Proven bool
}

// Beginning returns where the queue of that key begins, false for one that holds no slot. It reads one unit. A damaged queue answers its *cq.CorruptError.
//
// Files are proof of their own beginning in three cases: slot 0 is there; the unit below is there, and its record lies below the log's beginning,
// so that those before it do too; nothing of the log lies below the first record. What retention leaves is of the second kind, but for the case that the first
// live unit is the first one of its file. A queue that began above slot 0 is not proven until its first records expire: whoever has
// the log can look there for a record of a lower slot.
//
// Source: nothing in 5.5.0, which takes the first file that it finds for the first one.
func (s *Store) Beginning(k cq.Key) (b Beginning, ok bool, err error) {
	q, ok := s.find(k)
	if !ok {
		return Beginning{}, false, nil
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	if err := q.openedRLocked(); err != nil {
		return Beginning{}, false, err
	}
	st := &q.state
	if !st.present || st.damage != nil {
		return Beginning{}, false, st.damage
	}
	b = Beginning{Slot: st.min, PhyOffset: -1}
	if st.min < st.max {
		b.PhyOffset = st.minPhy
	}
	if st.min == 0 || b.PhyOffset >= 0 && b.PhyOffset <= s.minPhyOffset.Load() {
		b.Proven = true
		return b, true, nil
	}
	if st.min > st.first {
		p := newProber(q.files.Files())
		defer p.close()
		u, err := p.unit(st.min - 1)
		if err != nil {
			return Beginning{}, false, err
		}
		b.Proven = valid(u) && !filler(u)
	}
	return b, true, nil
}
