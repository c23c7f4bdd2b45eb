package commitlog

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// Places in a record that the search needs before it decodes. Pinned by a test.
const (
	magicAt     = 4
	phyOffsetAt = 28
)

// magicPrefix are the bytes that MagicV1 and MagicV2 share.
var magicPrefix = []byte{0xDA, 0xA3, 0x20}

var zeroPage [4096]byte

// probed is what lies behind a place where no record stands.
type probed struct {
	dirtyAt   int64 // physical offset of the first byte that is not zero, -1 when all are
	nextValid int64 // physical offset of the first valid record found, -1 for none
	gaveUp    bool  // the bound was reached before all data had been searched
}

// probe looks at everything from byte pos of files[index] on: is there anything but zeros, and is there a record? A record is
// one that decodes with a good checksum and stands where it says. Holes of sparse files are not touched. It runs once
// per scan, at the end.
//
// When probeBytes of data have been searched in vain, only the beginnings of the remaining files are looked at.
func (l *Log) probe(files []*mappedfile.File, index int, pos int64) (probed, error) {
	p := probed{dirtyAt: -1, nextValid: -1}
	budget := l.probeBytes
	for _, f := range files[index:] {
		data, err := f.Hold()
		if err != nil {
			return p, fmt.Errorf("look for records from physical offset %d on: %w", f.From()+pos, err)
		}
		err = mmap.GuardFault(func() error { return p.file(f, data, pos, &budget) })
		f.Release()
		if err != nil {
			return p, err
		}
		if p.nextValid >= 0 {
			break
		}
		pos = 0
	}
	return p, nil
}

// file looks at one file from byte pos on.
func (p *probed) file(f *mappedfile.File, data []byte, pos int64, budget *int64) error {
	lowest := pos
	if pos == 0 && validAt(f, data, 0, true) {
		p.dirty(f.From())
		p.nextValid = f.From()
		return nil
	}
	// Reading ahead would bring pages of reserved blocks into memory, which count as data from then on: all that is reserved would be read.
	advise := func(a mmap.Advice) { _ = f.Advise(0, f.Size(), a) } // hints
	advise(mmap.Random)
	defer advise(mmap.Normal)
	for pos < f.Size() {
		from, to, err := f.NextData(pos)
		if err != nil {
			return err
		}
		to = min(to, f.Size())
		if from >= to {
			return nil
		}
		if from = skipZeros(f, data, from, to); from < to {
			if p.dirtyAt < 0 {
				advise(mmap.Sequential) // there is something to search through
			}
			p.dirty(f.From() + from)
			if *budget < to-from {
				to = from + max(*budget, 0)
				p.gaveUp = true
			}
			*budget -= to - from
			if at := findRecord(f, data, lowest, from, to); at >= 0 {
				p.nextValid = f.From() + at
				return nil
			}
			if p.gaveUp {
				return nil
			}
		}
		pos = to
	}
	return nil
}

func (p *probed) dirty(phy int64) {
	if p.dirtyAt < 0 {
		p.dirtyAt = phy
	}
}

// zerosAhead are read at once where zeros are data, as in a file that was copied, or touched to have its pages in memory. The kernel takes no more of a piece that it is asked for than
// the device takes with one request.
const zerosAhead = 512 << 10

// skipZeros returns the first byte of data[from:to] that is not zero, or to. All of it is data of the file, so asking for it makes no data of reserved blocks.
func skipZeros(f *mappedfile.File, data []byte, from, to int64) int64 {
	ask := func(at int64) {
		if at < to {
			_ = f.Advise(at, min(zerosAhead, to-at), mmap.WillNeed) // a hint
		}
	}
	if to-from > zerosAhead {
		ask(from)
	}
	for from < to {
		end := min(from+zerosAhead, to)
		ask(end)
		if n := leadingZeros(data[from:end]); from+n < end {
			return from + n
		}
		from = end
	}
	return to
}

// leadingZeros returns how many bytes at the beginning of b are zero.
func leadingZeros(b []byte) int64 {
	n := 0
	for len(b)-n >= len(zeroPage) && bytes.Equal(b[n:n+len(zeroPage)], zeroPage[:]) {
		n += len(zeroPage)
	}
	for n < len(b) && b[n] == 0 {
		n++
	}
	return int64(n)
}

// findRecord returns the byte of a file, lowest or above, at which the first valid record begins whose magic lies in
// data[from:to], or -1.
func findRecord(f *mappedfile.File, data []byte, lowest, from, to int64) int64 {
	for at := from; at < to; at++ {
		i := bytes.Index(data[at:to], magicPrefix)
		if i < 0 {
			return -1
		}
		at += int64(i)
		start := at - magicAt
		if start < lowest || start+message.MinRecordSize > f.Size() {
			continue
		}
		if int64(binary.BigEndian.Uint64(data[start+phyOffsetAt:])) == f.From()+start && validAt(f, data, start, true) {
			return start
		}
	}
	return -1
}
