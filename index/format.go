package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// An index file has a header, a table of slots and a list of entries. All integers are big-endian. S is the number of slots
// (HashSlots) and E that of entries (MaxEntries); neither is in the file, so who reads it has to know both.
//
//	offset      width  name            type  meaning
//	0           8      beginTimestamp  i64   store time (ms) of the message of entry 1; of an empty file, the end of the file before
//	8           8      endTimestamp    i64   store time (ms) of the message of the last entry
//	16          8      beginPhyOffset  i64   phyOffset of the message of entry 1
//	24          8      endPhyOffset    i64   phyOffset of the message of the last entry
//	32          4      hashSlotCount   i32   slots in use
//	36          4      indexCount      i32   index of the next entry; 0 counts as 1
//	40          4*S    slots           i32   index of the newest entry of each slot; 0: none
//	40+4*S      20*E   entries               entry i at 40+4*S+20*i; entry 0 is never used
//
// An entry:
//
//	0           4      keyHash         i32   see keyHash; its slot is keyHash mod S
//	4           8      phyOffset       i64   of the message
//	12          4      timeDiff        i32   whole seconds from beginTimestamp to its store time
//	16          4      prevIndex       i32   index of the next older entry of the slot; 0: none
//
// Entries are added at the end and never change. A file is full when indexCount is E, so it holds E-1 entries.
//
// Source: IndexHeader, IndexFile, 5.5.0.
const (
	headerBytes = 40
	slotBytes   = 4
	entryBytes  = 20

	beginTimestampAt = 0
	endTimestampAt   = 8
	beginPhyOffsetAt = 16
	endPhyOffsetAt   = 24
	hashSlotCountAt  = 32
	indexCountAt     = 36

	maxFileBytes = 1<<31 - 1 // RocketMQ computes the length in 32 bits
)

// entry is one decoded entry.
type entry struct {
	hash int32
	phy  int64
	diff int32
	prev int32
}

// layout is the geometry of the files of an index.
type layout struct {
	slots   int32
	entries int32
}

func (l layout) fileBytes() int64 { return l.entryAt(l.entries) }

func (l layout) entryAt(i int32) int64 {
	return headerBytes + int64(l.slots)*slotBytes + int64(i)*entryBytes
}

func (l layout) slotAt(s int32) int64 { return headerBytes + int64(s)*slotBytes }

// image is the bytes of a file with its geometry. Slots are loaded and stored atomically, because queries read them beside the
// writer; an entry is written before the slot that leads to it.
type image struct {
	layout
	b []byte
}

func (m image) entry(i int32) entry {
	b := m.b[m.entryAt(i):][:entryBytes]
	return entry{
		hash: int32(binary.BigEndian.Uint32(b)),
		phy:  int64(binary.BigEndian.Uint64(b[4:])),
		diff: int32(binary.BigEndian.Uint32(b[12:])),
		prev: int32(binary.BigEndian.Uint32(b[16:])),
	}
}

func (m image) setEntry(i int32, e entry) {
	b := m.b[m.entryAt(i):][:entryBytes]
	binary.BigEndian.PutUint32(b, uint32(e.hash))
	binary.BigEndian.PutUint64(b[4:], uint64(e.phy))
	binary.BigEndian.PutUint32(b[12:], uint32(e.diff))
	binary.BigEndian.PutUint32(b[16:], uint32(e.prev))
}

// slotWord is the address of a slot, which is a multiple of four: the mapping begins at a page and the table at 40.
func (m image) slotWord(s int32) *uint32 {
	return (*uint32)(unsafe.Pointer(&m.b[m.slotAt(s):][:slotBytes][0]))
}

func (m image) slot(s int32) int32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], atomic.LoadUint32(m.slotWord(s)))
	return int32(binary.BigEndian.Uint32(b[:]))
}

func (m image) setSlot(s, v int32) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(v))
	atomic.StoreUint32(m.slotWord(s), binary.NativeEndian.Uint32(b[:]))
}

// header is the decoded header of a file.
type header struct {
	beginMs  int64
	endMs    int64
	beginPhy int64
	endPhy   int64
	used     int32 // hashSlotCount
	count    int32 // indexCount, at least 1
}

func (m image) header() header {
	b := m.b[:headerBytes]
	return header{
		beginMs:  int64(binary.BigEndian.Uint64(b[beginTimestampAt:])),
		endMs:    int64(binary.BigEndian.Uint64(b[endTimestampAt:])),
		beginPhy: int64(binary.BigEndian.Uint64(b[beginPhyOffsetAt:])),
		endPhy:   int64(binary.BigEndian.Uint64(b[endPhyOffsetAt:])),
		used:     int32(binary.BigEndian.Uint32(b[hashSlotCountAt:])),
		count:    max(1, int32(binary.BigEndian.Uint32(b[indexCountAt:]))),
	}
}

func (m image) setHeader(h *header) {
	b := m.b[:headerBytes]
	binary.BigEndian.PutUint64(b[beginTimestampAt:], uint64(h.beginMs))
	binary.BigEndian.PutUint64(b[endTimestampAt:], uint64(h.endMs))
	binary.BigEndian.PutUint64(b[beginPhyOffsetAt:], uint64(h.beginPhy))
	binary.BigEndian.PutUint64(b[endPhyOffsetAt:], uint64(h.endPhy))
	binary.BigEndian.PutUint32(b[hashSlotCountAt:], uint32(h.used))
	binary.BigEndian.PutUint32(b[indexCountAt:], uint32(h.count))
}

// maxTimestampMs bounds the times of a header (the year 10889), so that adding the widest timeDiff cannot overflow.
const maxTimestampMs = 1 << 48

// check tells whether the header can be that of a file of this geometry.
func (m image) check(h *header) error {
	for _, f := range []struct {
		name       string
		got, limit int64
	}{
		{"beginTimestamp", h.beginMs, maxTimestampMs},
		{"endTimestamp", h.endMs, maxTimestampMs},
		{"beginPhyOffset", h.beginPhy, 1<<63 - 1},
		{"endPhyOffset", h.endPhy, 1<<63 - 1},
		{"hashSlotCount", int64(h.used), int64(m.slots)},
		{"indexCount", int64(h.count), int64(m.entries)},
	} {
		if f.got < 0 || f.got > f.limit {
			return fmt.Errorf("%s %d outside [0, %d]", f.name, f.got, f.limit)
		}
	}
	if h.used >= h.count {
		return fmt.Errorf("hashSlotCount %d with %d entries", h.used, h.count-1)
	}
	return nil
}

// checkEnds compares the header with the first and the last entry. live says that somebody may be writing to the file, so that the
// last is not looked at.
func (m image) checkEnds(h *header, live bool) error {
	if h.count == 1 {
		return nil
	}
	if e := m.entry(1); e.hash < 0 || e.diff < 0 || e.prev != 0 || e.phy != h.beginPhy {
		return fmt.Errorf("entry 1 has hash %d, phyOffset %d (header: %d), timeDiff %d, prevIndex %d", e.hash, e.phy, h.beginPhy, e.diff, e.prev)
	}
	if live {
		return nil
	}
	if n := h.count - 1; n > 1 {
		if e := m.entry(n); e.hash < 0 || e.diff < 0 || e.prev < 0 || e.prev >= n || e.phy != h.endPhy {
			return fmt.Errorf("entry %d has hash %d, phyOffset %d (header: %d), timeDiff %d, prevIndex %d", n, e.hash, e.phy, h.endPhy, e.diff, e.prev)
		}
	} else if h.endPhy != h.beginPhy {
		return errors.New("one entry and two phyOffsets")
	}
	return nil
}
