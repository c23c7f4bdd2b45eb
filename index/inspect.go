package index

import (
	"fmt"

	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// Geometry returns how many slots and entries each file has; entry 0 is never used.
func (x *Index) Geometry() (slots, entries int32) { return x.layout.slots, x.layout.entries }

// Fields returns the fields of a file's header.
func (i *FileInfo) Fields() []message.Field {
	count := i.Entries + 1
	return []message.Field{
		{Name: "beginTimestamp", Offset: beginTimestampAt, Width: 8, Value: i.BeginMs, Text: message.TimeText(i.BeginMs)},
		{Name: "endTimestamp", Offset: endTimestampAt, Width: 8, Value: i.EndMs, Text: message.TimeText(i.EndMs)},
		{Name: "beginPhyOffset", Offset: beginPhyOffsetAt, Width: 8, Value: i.BeginPhyOffset},
		{Name: "endPhyOffset", Offset: endPhyOffsetAt, Width: 8, Value: i.EndPhyOffset},
		{Name: "hashSlotCount", Offset: hashSlotCountAt, Width: 4, Value: i.SlotsUsed, Text: "slots in use"},
		{Name: "indexCount", Offset: indexCountAt, Width: 4, Value: count, Text: fmt.Sprintf("%d entries", i.Entries)},
	}
}

// Link is an entry on the chain of a slot.
type Link struct {
	Index     int32 `json:"entry"`
	Byte      int64 `json:"byte"` // of the file, where the entry begins
	Hash      int32 `json:"keyHash"`
	PhyOffset int64 `json:"phyOffset"`
	TimeDiff  int32 `json:"timeDiff"`
	Prev      int32 `json:"prevIndex"` // 0: the chain ends
	StoreMs   int64 `json:"storeTimestamp"`
}

// Chain follows the chain of a slot in the file of that path, newest entry first, to its end or n links. A link that leads nowhere or back ends it with an error of class
// ErrCorrupt, beside the links before it.
func (x *Index) Chain(path string, slot int32, n int) (links []Link, err error) {
	err = x.inFile(path, func(f *file) error {
		if slot < 0 || slot >= f.slots {
			return fmt.Errorf("index file %s has slots 0 to %d, not %d", path, f.slots-1, slot)
		}
		before := f.head.count
		for i := f.slot(slot); i != 0 && len(links) < n; {
			if i < 0 || i >= before {
				return &FileError{path, fmt.Errorf("the chain of slot %d (byte %d) leads from entry %d to %d", slot, f.slotAt(slot), before, i)}
			}
			links = append(links, f.link(i))
			before, i = i, links[len(links)-1].Prev
		}
		return nil
	})
	return links, err
}

// List returns n entries of the file of that path, from one on.
func (x *Index) List(path string, from int32, n int) (links []Link, err error) {
	err = x.inFile(path, func(f *file) error {
		if from < 1 || from >= f.head.count {
			return fmt.Errorf("index file %s has entries 1 to %d, not %d", path, f.head.count-1, from)
		}
		for i := from; i < f.head.count && len(links) < n; i++ {
			links = append(links, f.link(i))
		}
		return nil
	})
	return links, err
}

func (f *file) link(i int32) Link {
	e := f.entry(i)
	ms := f.head.beginMs + int64(e.diff)*1000
	if i == 1 {
		ms = f.head.beginMs
	}
	return Link{Index: i, Byte: f.entryAt(i), Hash: e.hash, PhyOffset: e.phy, TimeDiff: e.diff, Prev: e.prev, StoreMs: ms}
}

// inFile calls fn with a file; nobody writes to it meanwhile.
func (x *Index) inFile(path string, fn func(f *file) error) error {
	x.flushing.Lock() // nothing is unmapped
	defer x.flushing.Unlock()
	x.writing.Lock()
	defer x.writing.Unlock()
	for _, f := range x.files {
		if f.path == path {
			return mmap.GuardFault(func() error { return fn(f) })
		}
	}
	return fmt.Errorf("index file %s: there is none, or it is not right", path)
}
