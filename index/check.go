package index

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// Entry is what an index knows of a message: one for each hash of its keys.
type Entry struct {
	File      string
	Index     int32 // of the entry in the file
	Hash      int32
	PhyOffset int64
	// BeginMs and TimeDiff are the parts of the store time: the file's beginTimestamp, and whole seconds from it.
	BeginMs  int64
	TimeDiff int32
}

// ErrStop ends Entries without an error.
var ErrStop = errors.New("enough")

// Entries calls visit with every entry of every file that Open took, oldest first, until it answers an error: ErrStop, or one that is returned. Appending waits for the file being
// read.
func (x *Index) Entries(visit func(Entry) error) error {
	x.flushing.Lock() // nothing is unmapped
	defer x.flushing.Unlock()
	x.writing.Lock()
	files := slices.Clone(x.files)
	x.writing.Unlock()
	for _, f := range files {
		x.writing.Lock()
		err := f.entriesDo(visit)
		x.writing.Unlock()
		if errors.Is(err, ErrStop) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read index file %s: %w", f.path, err)
		}
	}
	return nil
}

func (f *file) entriesDo(visit func(Entry) error) (err error) {
	ferr := mmap.GuardFault(func() error {
		for i := int32(1); i < f.head.count && err == nil; i++ {
			e := f.entry(i)
			err = visit(Entry{File: f.path, Index: i, Hash: e.hash, PhyOffset: e.phy, BeginMs: f.head.beginMs, TimeDiff: e.diff})
		}
		return nil
	})
	return errors.Join(err, ferr)
}

// ByteOf returns where entry i lies in its file.
func (x *Index) ByteOf(i int32) int64 { return x.layout.entryAt(i) }

// Hashes appends the hashes that the entries of a message have, in the order in which they are added; a hash may come twice.
func Hashes(dst []int32, r *message.DispatchRequest) []int32 {
	var b Batch
	b.Add(r)
	return append(dst, b.hashes...)
}
