package index

import (
	"slices"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Unreached tells of the entries of a file that no query finds: the chain from the slot of their hash does not lead to them.
type Unreached struct {
	Path    string
	Entries int32 // how many there are
	Foreign int32 // entries that the chains of other slots lead to, or that have no hash
	First   Entry // the first that is not found
	Slot    int32 // of its hash, -1 where that is none
	SlotAt  int64 // byte of that slot in the file, -1 without one
}

// Unreached goes over the slots of a file, by its path, as queries do. Appending waits meanwhile.
func (x *Index) Unreached(path string) (u Unreached, err error) {
	x.flushing.Lock() // nothing is unmapped
	defer x.flushing.Unlock()
	x.writing.Lock()
	defer x.writing.Unlock()
	i := slices.IndexFunc(x.files, func(f *file) bool { return f.path == path })
	if i < 0 {
		return u, nil
	}
	err = mmap.GuardFault(func() error {
		u = x.files[i].unreached()
		return nil
	})
	return u, err
}

func (f *file) unreached() Unreached {
	u := Unreached{Path: f.path}
	found := make([]uint64, f.head.count/64+1)
	for slot := range f.slots {
		// A chain that has met entries of others may come to them again from their own slot, so each is followed to its end; those that go down are no loops.
		for at, before := f.slot(slot), f.head.count; at > 0 && at < before; {
			e := f.entry(at)
			if e.hash < 0 || e.hash%f.slots != slot {
				u.Foreign++
			} else {
				found[at/64] |= 1 << (at % 64)
			}
			at, before = e.prev, at
		}
	}
	for i := int32(1); i < f.head.count; i++ {
		if found[i/64]&(1<<(i%64)) != 0 {
			continue
		}
		if u.Entries++; u.Entries == 1 {
			e := f.entry(i)
			u.First = Entry{File: f.path, Index: i, Hash: e.hash, PhyOffset: e.phy, BeginMs: f.head.beginMs, TimeDiff: e.diff}
			u.Slot, u.SlotAt = -1, -1
			if e.hash >= 0 {
				u.Slot, u.SlotAt = e.hash%f.slots, f.slotAt(e.hash%f.slots)
			}
		}
	}
	return u
}
