package index

import (
	"fmt"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// What a loss of power leaves of a file. Each page of it is as it was at some moment since the last sync, header, slots and
// entries each at another. Slots can be computed from the entries, and entries are only ever added, in the order of their
// messages in the log; behind indexCount there was nothing but zeros, because a cut erases (rewrite). So:
//
//   - When header, slots and entries agree with one another in every bit, the file is as it was at the moment of the header. A page
//     of slots from another moment differs from the table computed. A page of entries from an earlier moment has zeros behind
//     those it holds, and at most one zero entry can pass for an entry: its phyOffset 0 is below that of the entry before, and
//     where that is 0 too, its prevIndex 0 is right only for the first entry of slot 0, which slot 0 then contradicts. An
//     entry that lies in two pages may have lost its end: that is the last entry, whose phyOffset and timeDiff the header has too,
//     or it is followed by zero entries.
//   - When they disagree, the entries up to the first impossible one are right but for the last of them, by the same reasons. The
//     message of the last is given up: it and all behind it are erased, and dispatch repeats from there.
//
// A later file says nothing when an earlier one turns out to end too early: it is removed.

// scanned is what the entries of a file say.
type scanned struct {
	table []int32 // the slots
	used  int32
	count int32 // the first entry that is impossible, or where the scan was to end
	fault error // why it is impossible
}

// scan follows the entries [1, limit).
func (m image) scan(limit int32) scanned {
	s := scanned{table: make([]int32, m.slots), count: 1}
	last := int64(0)
	for ; s.count < limit; s.count++ {
		e := m.entry(s.count)
		if e.hash < 0 || e.diff < 0 || e.phy < last || e.prev != s.table[e.hash%m.slots] {
			s.fault = fmt.Errorf("entry %d (byte %d): hash %d, phyOffset %d after %d, timeDiff %d, prevIndex %d for %d",
				s.count, m.entryAt(s.count), e.hash, e.phy, last, e.diff, e.prev, s.table[max(0, e.hash)%m.slots])
			return s
		}
		if e.prev == 0 {
			s.used++
		}
		s.table[e.hash%m.slots] = s.count
		last = e.phy
	}
	return s
}

// disagreement tells where header and slots are not what the scan found; nil when they are.
func (m image) disagreement(h *header, s *scanned) error {
	if s.fault != nil {
		return s.fault
	}
	if h.used != s.used {
		return fmt.Errorf("hashSlotCount %d, %d slots in use", h.used, s.used)
	}
	if n := h.count - 1; n > 0 {
		first, last := m.entry(1), m.entry(n)
		if first.phy != h.beginPhy || last.phy != h.endPhy {
			return fmt.Errorf("entries of phyOffset [%d, %d], header has [%d, %d]", first.phy, last.phy, h.beginPhy, h.endPhy)
		}
		if want := timeDiff(h.beginMs, h.endMs); n > 1 && last.diff != want {
			return fmt.Errorf("timeDiff %d of the last entry, header has %d", last.diff, want)
		}
	}
	for i, want := range s.table {
		if got := m.slot(int32(i)); got != want {
			return fmt.Errorf("slot %d (byte %d) has %d, want %d", i, m.slotAt(int32(i)), got, want)
		}
	}
	return nil
}

// drop gives up the last message of a scan.
func (m image) drop(s *scanned) {
	for phy := m.entry(s.count - 1).phy; s.count > 1; s.count-- {
		e := m.entry(s.count - 1)
		if e.phy != phy {
			return
		}
		s.table[e.hash%m.slots] = e.prev
		if e.prev == 0 {
			s.used--
		}
	}
}

// verify compares the whole file with itself. fault says why it cannot be as it was written, and s what of it is beyond doubt; err is a
// file that cannot be read.
func (f *file) verify() (s scanned, fault, err error) {
	err = mmap.GuardFault(func() error {
		s = f.scan(f.head.count)
		if fault = f.disagreement(&f.head, &s); fault != nil && s.count > 1 {
			f.drop(&s)
		}
		return nil
	})
	return s, fault, err
}

// cut makes what a scan found the content of the file and everything behind it zero, durably. Cut off half-way, it leaves what verify
// finds fault with.
//
// The time of the last entry is known to the second only, so that endTimestamp may come out up to 999 ms late; Append puts
// it right when it is given the message again.
func (f *file) cut(s *scanned) error {
	err := mmap.GuardFault(func() error {
		for i, v := range s.table {
			if f.slot(int32(i)) != v {
				f.setSlot(int32(i), v)
			}
		}
		h := &f.head
		cut := s.count < h.count
		h.used, h.count = s.used, s.count
		if n := h.count - 1; n > 0 {
			last := f.entry(n)
			h.beginPhy, h.endPhy = f.entry(1).phy, last.phy
			switch {
			case n == 1:
				h.endMs = h.beginMs
			case cut || timeDiff(h.beginMs, h.endMs) != last.diff:
				h.endMs = h.beginMs + int64(last.diff)*1000 + 999
			}
		}
		f.setHeader(h)
		f.publish()
		return nil
	})
	if err != nil {
		return err
	}
	at := f.entryAt(f.head.count)
	f.reserved = 0
	if err := f.f.Erase(at, f.fileBytes()-at); err != nil {
		return fmt.Errorf("cut index file: %w", err)
	}
	if err := f.f.Datasync(); err != nil {
		return fmt.Errorf("cut index file: %w", err)
	}
	f.synced, f.dirty = f.full(), false
	return nil
}
