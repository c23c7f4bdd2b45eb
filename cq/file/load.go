package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// loadLocked finds out the state of the queue. It reads through descriptors that it closes again, not through mappings: a
// tool that looks once at each of a million queues would map and unmap as many files for a page each.
func (q *queue) loadLocked() error {
	if q.loaded {
		return nil
	}
	if err := q.findStateLocked(); err != nil {
		return err
	}
	if !q.state.present && len(q.files.Files()) == 0 { // a bare directory, or none
		q.closeFilesLocked()
	}
	return nil
}

// findStateLocked is loadLocked for who goes on to use the files: it leaves the list of them open, if there is none too.
func (q *queue) findStateLocked() error {
	if q.loaded {
		return nil
	}
	if err := q.openFilesLocked(); err != nil {
		return err
	}
	q.closing = false
	files := q.files.Files()
	if len(files) == 0 {
		q.loaded, q.state = true, state{}
		return nil
	}
	p := newProber(files)
	defer p.close()
	minPhy := q.s.minPhyOffset.Load()
	st, err := p.state(minPhy)
	if err != nil {
		return fmt.Errorf("look at queue %s: %w", q.key, err)
	}
	st.minFor = minPhy
	q.loaded, q.state = true, st
	return nil
}

// prober reads single units of a queue without mapping its files. It keeps one descriptor.
type prober struct {
	files   []*mappedfile.File
	first   int64 // slot at the start of the first file
	perFile int64
	f       *os.File // files[at], or nil
	at      int
}

func newProber(files []*mappedfile.File) *prober {
	return &prober{files: files, first: files[0].From() / unitBytes, perFile: files[0].Size() / unitBytes}
}

func (p *prober) close() {
	if p.f != nil {
		_ = p.f.Close() // only read
		p.f = nil
	}
}

func (p *prober) open(i int) (*os.File, error) {
	if p.f != nil && p.at == i {
		return p.f, nil
	}
	p.close()
	f, err := os.Open(p.files[i].Path())
	if err != nil {
		return nil, err
	}
	p.f, p.at = f, i
	return f, nil
}

// unit reads the unit of a slot that lies in the files.
func (p *prober) unit(slot int64) (cq.Unit, error) {
	i := (slot - p.first) / p.perFile
	f, err := p.open(int(i))
	if err != nil {
		return cq.Unit{}, err
	}
	var b [unitBytes]byte
	if _, err := f.ReadAt(b[:], (slot-p.first-i*p.perFile)*unitBytes); err != nil {
		return cq.Unit{}, err
	}
	return decodeUnit(b[:]), nil
}

// place returns the path and byte position of a slot.
func (p *prober) place(slot int64) (path string, at int64) {
	f := p.files[(slot-p.first)/p.perFile]
	return f.Path(), slot*unitBytes - f.From()
}

// search returns the first slot in [lo, hi) for which ok holds, or hi. ok must be false up to some slot and true from it
// on, leaving out the slots of lost records, which say nothing: each run of them is stepped over at most once. A slot without anything met on the way is a hole: then damage tells where.
func (p *prober) search(lo, hi int64, ok func(cq.Unit) bool) (slot int64, damage, err error) {
	at := hi
	for lo < hi {
		mid := lo + (hi-lo)/2
		probed := mid
		u, err := p.unit(probed)
		for err == nil && u.IsLost() {
			if probed++; probed == hi {
				break
			}
			u, err = p.unit(probed)
		}
		if err != nil {
			return 0, nil, err
		}
		if probed == hi { // what decides lies below
			hi = mid
			continue
		}
		if !valid(u) && damage == nil {
			path, at := p.place(probed)
			damage = hole(path, at, u)
		}
		if ok(u) {
			at, hi = probed, mid
		} else {
			lo = probed + 1
		}
	}
	return at, damage, nil
}

func hole(path string, at int64, u cq.Unit) error {
	if free(u) {
		return &cq.CorruptError{File: path, Offset: at, Want: "a unit below the end of the queue", Got: "zeros"}
	}
	return impossible(path, at, u)
}

// state looks at the end of the queue, then for its first live unit.
func (p *prober) state(minPhy int64) (state, error) {
	st := state{first: p.first}
	if err := p.findEnd(&st); err != nil {
		return st, err
	}
	st.min = st.max
	st.present = st.max > 0 || st.damage != nil
	if st.max == p.first {
		return st, nil
	}
	last, err := p.unit(st.max - 1)
	if err != nil {
		return st, err
	}
	for slot := st.max - 2; last.IsLost() && slot >= p.first; slot-- { // a stop between a hole and the unit behind it
		if last, err = p.unit(slot); err != nil {
			return st, err
		}
	}
	if !filler(last) {
		st.lastPhy, st.lastSize = last.PhyOffset, last.Size
	}
	alive := live(minPhy)
	if u, err := p.unit(p.first); err != nil {
		return st, err
	} else if alive(u) { // nothing has expired and the queue began at the start of a file: the usual case
		st.min = p.first
	} else {
		var damage error
		if st.min, damage, err = p.search(p.first+1, st.max, alive); err != nil {
			return st, err
		}
		if st.damage == nil {
			st.damage = damage
		}
	}
	if st.min < st.max {
		u, err := p.unit(st.min)
		if err != nil {
			return st, err
		}
		st.minPhy = u.PhyOffset
	}
	return st, nil
}

// live tells whether a unit is that of a record at or above minPhy.
func live(minPhy int64) func(cq.Unit) bool {
	return func(u cq.Unit) bool { return !filler(u) && u.PhyOffset >= minPhy }
}

// findEnd sets max to the slot behind the last unit: it goes back from the last file to the first one that has a unit at
// its start, and of that file it reads everything the filesystem has. What contradicts the rest becomes st.damage.
func (p *prober) findEnd(st *state) error {
	note := func(err error) {
		if st.damage == nil {
			st.damage = err
		}
	}
	for i := len(p.files) - 1; i >= 0; i-- {
		n, damage, err := p.scan(i)
		if err != nil {
			return err
		}
		if damage != nil {
			note(damage)
		}
		st.max = p.first + int64(i)*p.perFile + n
		if n == 0 {
			continue
		}
		if i > 0 {
			before := st.max - n - 1
			u, err := p.unit(before)
			if err != nil {
				return err
			}
			if !valid(u) { // the queue ends earlier, behind it are units all the same
				path, at := p.place(before)
				note(hole(path, at, u))
				continue
			}
		}
		return nil
	}
	return nil
}

// scanBytes is how much of a file is read at a time.
const scanBytes = 3200 * unitBytes

// scanBuffers lends a buffer for the time of a scan: who looks once at each of 100,000 queues would leave 6 GB of garbage.
var scanBuffers = sync.Pool{New: func() any { return new([scanBytes]byte) }}

// Values of lseek's whence that package io does not name.
const (
	seekData = 3
	seekHole = 4
)

// scan counts the units at the start of file i. damage is the first thing behind them that is not zero. Holes of a sparse
// file are skipped: a file has its full length on disk, and most of it was usually never written.
func (p *prober) scan(i int) (n int64, damage, err error) {
	f, err := p.open(i)
	if err != nil {
		return 0, nil, err
	}
	size := p.perFile * unitBytes
	lent := scanBuffers.Get().(*[scanBytes]byte)
	defer scanBuffers.Put(lent)
	buf := lent[:min(scanBytes, size)]
	c := counter{path: p.files[i].Path()}
	for pos := int64(0); pos < size && c.damage == nil; {
		from, to, err := dataExtent(f, pos, size)
		if err != nil {
			return 0, nil, err
		}
		if from = max(pos, from/unitBytes*unitBytes); from > pos {
			c.zeros()
		}
		to = min(size, (to+unitBytes-1)/unitBytes*unitBytes)
		for ; from < to && c.damage == nil; from += int64(len(buf)) {
			buf = buf[:min(int64(cap(buf)), to-from)]
			if _, err := f.ReadAt(buf, from); err != nil {
				return 0, nil, err
			}
			c.count(buf, from)
		}
		pos = to
	}
	return c.n, c.damage, nil
}

// dataExtent returns the next range at or behind pos that may hold something else than zeros; empty at the end.
func dataExtent(f *os.File, pos, size int64) (from, to int64, err error) {
	from, err = f.Seek(pos, seekData)
	switch {
	case errors.Is(err, syscall.ENXIO): // nothing behind pos
		return size, size, nil
	case errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP): // the filesystem does not tell
		return pos, size, nil
	case err != nil:
		return 0, 0, err
	}
	if to, err = f.Seek(from, seekHole); err != nil {
		return 0, 0, err
	}
	return from, to, nil
}

// counter counts units up to the first slot without one and looks for anything behind it.
type counter struct {
	path   string
	n      int64
	ended  bool
	damage error
}

var zeroBytes [scanBytes]byte

// zeros tells that a hole follows what was counted.
func (c *counter) zeros() { c.ended = true }

// count goes through whole units that lie at byte at of the file.
func (c *counter) count(b []byte, at int64) {
	i := 0
	for ; !c.ended && i < len(b); i += unitBytes {
		if u := decodeUnit(b[i:]); valid(u) {
			c.n++
			continue
		}
		c.ended = true
		break
	}
	if bytes.Equal(b[i:], zeroBytes[:len(b)-i]) {
		return
	}
	for ; i < len(b); i += unitBytes {
		u := decodeUnit(b[i:])
		if free(u) {
			continue
		}
		if valid(u) {
			c.damage = &cq.CorruptError{
				File: c.path, Offset: at + int64(i), Got: fmt.Sprintf("a unit (position %d size %d)", u.PhyOffset, u.Size),
				Want: fmt.Sprintf("zeros behind the %d units at the start of the file", c.n),
			}
		} else {
			c.damage = impossible(c.path, at+int64(i), u)
		}
		return
	}
}

// errStop ends a walk early.
var errStop = errors.New("stop")

// walk calls fn with every slot of the files from slot on, in order, units or not, until fn returns an error. errStop is
// no error.
func (p *prober) walk(slot int64, fn func(slot int64, u cq.Unit) error) error {
	lent := scanBuffers.Get().(*[scanBytes]byte)
	defer scanBuffers.Put(lent)
	buf := lent[:]
	end := p.first + int64(len(p.files))*p.perFile
	for slot = max(slot, p.first); slot < end; {
		i := (slot - p.first) / p.perFile
		f, err := p.open(int(i))
		if err != nil {
			return err
		}
		at := (slot - p.first - i*p.perFile) * unitBytes
		n, err := f.ReadAt(buf[:min(int64(len(buf)), p.perFile*unitBytes-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		n -= n % unitBytes
		if n == 0 {
			return fmt.Errorf("read %s at %d: %w", p.files[i].Path(), at, io.ErrUnexpectedEOF)
		}
		for j := 0; j < n; j += unitBytes {
			switch err := fn(slot, decodeUnit(buf[j:])); {
			case errors.Is(err, errStop):
				return nil
			case err != nil:
				return err
			}
			slot++
		}
	}
	return nil
}
