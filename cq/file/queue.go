package file

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// queue is one consume queue. It keeps the bounds in memory once they are known, and the list of files while it is used.
type queue struct {
	s   *Store
	key cq.Key

	recent atomic.Bool // used since the clock's hand last passed
	ring   int         // place in the store's openTable, which guards it; -1: none

	part    uint64 // last part of an Append that had an entry of this queue; guarded by Store.writing
	lastRun int    // index of its last run there; likewise

	mu     sync.RWMutex // guards everything below; units at and above state.max are the writer's
	loaded bool         // state is known
	// closing tells that a hole was written to since state was found out: state.first and state.max still say where the next unit goes, nothing else is known.
	closing bool
	dirty   bool // appended to since the last flush: the list of files must stay
	// flushing tells that Flush is syncing the files without holding mu.
	flushing bool
	files    *mappedfile.Queue // nil: not open
	ext      *mappedfile.Queue // nil: not open
	state    state
}

// state is what is known about a queue's content. The zero value is a queue that does not exist.
type state struct {
	present bool  // it ever had a slot
	first   int64 // slot at the start of the first file
	min     int64 // first slot whose record is in the log; max when there is none
	minPhy  int64 // where that record lies
	minFor  int64 // the log's min by which min was found
	max     int64 // next slot
	lastPhy int64 // start of the record of slot max-1
	// lastSize is the length of that record; 0 when the slot holds filler or there is none.
	lastSize int32
	damage   error // a *cq.CorruptError: what contradicts the rest
}

// Key returns the queue's key.
func (q *queue) Key() cq.Key { return q.key }

// Bounds returns the limits of the queue, or a *cq.CorruptError for a queue that contradicts itself (see the package
// comment). A queue that was dropped answers zero bounds.
func (q *queue) Bounds() (cq.Bounds, error) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if err := q.readyRLocked(); err != nil {
		return cq.Bounds{}, err
	}
	return q.state.bounds(), q.state.damage
}

func (st *state) bounds() cq.Bounds {
	b := cq.Bounds{Min: st.min, Max: st.max, MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1}
	if st.damage != nil {
		return cq.Bounds{}
	}
	if st.min < st.max {
		b.MinPhyOffset = st.minPhy
	}
	if st.lastSize > 0 {
		b.LastPhyOffset = st.lastPhy
		b.MaxPhyOffset = st.lastPhy + int64(st.lastSize)
	}
	return b
}

// isPresent tells whether the queue ever had a slot. One that cannot be read is taken for present.
func (q *queue) isPresent() bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if err := q.readyRLocked(); err != nil {
		return !errors.Is(err, cq.ErrClosed)
	}
	return q.state.present
}

// readyRLocked makes sure that the store is open, the state known, and min that of the log's min at this moment (W50). It may let go of the read lock and take it again.
func (q *queue) readyRLocked() error {
	for {
		if q.s.closed.Load() {
			return cq.ErrClosed
		}
		if q.loaded && q.state.minFor >= q.s.minPhyOffset.Load() {
			return nil
		}
		if err := q.upgraded(q.followLocked); err != nil {
			return err
		}
	}
}

// upgraded runs fn under the write lock and leaves the read lock held, as it was.
func (q *queue) upgraded(fn func() error) error {
	q.mu.RUnlock()
	defer q.mu.RLock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.s.closed.Load() {
		return cq.ErrClosed
	}
	return fn()
}

// openedRLocked makes the queue ready with its files mapped, if it has any. The read lock is held, and given up meanwhile.
func (q *queue) openedRLocked() error {
	for {
		if err := q.readyRLocked(); err != nil {
			return err
		}
		if q.files != nil || !q.state.present {
			return nil
		}
		if err := q.upgraded(q.openFilesLocked); err != nil {
			return err
		}
	}
}

// FileEnd returns the first slot of the next file.
func (q *queue) FileEnd(slot int64) int64 { return (slot/q.s.perFile + 1) * q.s.perFile }

// Read copies units; see cq.Queue. One call stays within one file.
func (q *queue) Read(from int64, dst []cq.Unit) (int, error) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	for {
		if err := q.readyRLocked(); err != nil {
			return 0, err
		}
		if q.files != nil {
			break
		}
		if err := q.upgraded(q.openFilesLocked); err != nil {
			return 0, err
		}
	}
	if st := &q.state; from < 0 || from >= st.max {
		return 0, &cq.RangeError{Key: q.key, Want: from, Min: st.min, Max: st.max}
	}
	n, exts, err := q.readRLocked(from, dst, q.state.max)
	if exts && err == nil {
		err = q.resolveRLocked(dst[:n])
	}
	return n, err
}

// readRLocked copies stored units from slot from on, end exclusive. exts tells that some tags codes are addresses.
func (q *queue) readRLocked(from int64, dst []cq.Unit, end int64) (n int, exts bool, err error) {
	f, ok := q.files.Find(from * unitBytes)
	if !ok || len(dst) == 0 {
		return 0, false, nil // below the first file
	}
	q.used()
	b, err := f.Hold()
	if err != nil {
		return 0, false, fmt.Errorf("read queue %s at slot %d: %w", q.key, from, unreadable(f.Path(), err))
	}
	defer f.Release()
	at := from*unitBytes - f.From()
	limit := min(int64(len(dst)), end-from, (f.Size()-at)/unitBytes)
	if off, n := readahead(at, limit*unitBytes, min(f.Size(), end*unitBytes-f.From())); n > 0 {
		_ = f.Advise(off, n, mmap.WillNeed) // it is only advice
	}
	err = mmap.GuardFault(func() error {
		for ; int64(n) < limit; n++ {
			u := decodeUnit(b[at+int64(n)*unitBytes:])
			if !valid(u) || filler(u) {
				if !free(u) && !filler(u) && n == 0 {
					return impossible(f.Path(), at, u)
				}
				return nil
			}
			exts = exts || cq.IsExtAddress(u.TagsCode)
			dst[n] = u
		}
		return nil
	})
	if err != nil {
		return 0, false, unreadable(f.Path(), err)
	}
	return n, exts, nil
}

// unreadable makes damage of the queue of a file that was cut, before it was mapped or afterwards, or that lies on a disk that fails: as of bytes that are wrong, only the log tells what was
// there.
func unreadable(path string, err error) error {
	var fault *mmap.FaultError
	switch {
	case errors.As(err, &fault):
		return &cq.CorruptError{File: path, Offset: fault.Offset, Want: "a unit", Got: "nothing that can be read", Err: err}
	case errors.Is(err, mmap.ErrShort):
		return &cq.CorruptError{File: path, Offset: -1, Want: "a whole file", Got: "a shorter one", Err: err}
	}
	return err
}

// readaheadBytes is how much of a file a long read brings in at once: a system call costs as much as 500 units, which a call for each read would double.
const readaheadBytes = 128 << 10

// readahead returns what to advise the kernel to bring in before bytes [at, at+n) of a file are read, of which [0, end) hold units; nothing when n is 0. Mappings
// are advised for random access; a long read of a cold file would fault page by page.
func readahead(at, n, end int64) (from, length int64) {
	next := (at + n - 1) / readaheadBytes * readaheadBytes // the last piece that is read
	if n <= unitsPerPage*unitBytes || next < at {
		return 0, 0
	}
	return at, min(next+readaheadBytes, end) - at
}

func impossible(path string, at int64, u cq.Unit) error {
	return &cq.CorruptError{
		File: path, Offset: at, Want: "a unit (position >= 0, size > 0) or zeros",
		Got: fmt.Sprintf("position %d size %d tags %d", u.PhyOffset, u.Size, u.TagsCode),
	}
}

// resolveRLocked replaces addresses of extension units by their tags codes, where the unit is found.
func (q *queue) resolveRLocked(units []cq.Unit) error {
	for i := range units {
		if !cq.IsExtAddress(units[i].TagsCode) {
			continue
		}
		for q.ext == nil {
			if err := q.upgraded(q.openExtLocked); err != nil {
				return err
			}
		}
		if tags, ok := resolveExt(q.ext, units[i].TagsCode); ok {
			units[i].TagsCode = tags
		}
	}
	return nil
}

// openFilesLocked opens the list of files.
func (q *queue) openFilesLocked() error {
	if q.files != nil {
		return nil
	}
	o := mappedfile.Options{Writable: !q.s.readOnly, FileSize: q.s.fileBytes}
	if !q.loaded {
		o.Logger = q.s.log // foreign names are worth one line
	}
	files, err := mappedfile.Open(queueDir(q.s.dir, q.key), o)
	if err != nil {
		return corruptLayout(err)
	}
	q.files = files
	q.recent.Store(true)
	return q.enterLocked()
}

// enterLocked notes that the queue has files open.
func (q *queue) enterLocked() error {
	if !q.s.opened.enter(q) {
		q.dropFiles()
		return cq.ErrClosed
	}
	return nil
}

// corruptLayout turns the answer to a directory that is no run of files into this package's contract.
func corruptLayout(err error) error {
	var fe *mappedfile.FileError
	if errors.As(err, &fe) {
		return &cq.CorruptError{File: fe.Path, Offset: -1, Want: fe.Want, Got: fe.Got}
	}
	return fmt.Errorf("open consume queue: %w", err)
}

func (q *queue) openExtLocked() error {
	if q.ext != nil {
		return nil
	}
	ext, err := mappedfile.Open(queueDir(q.s.extDir, q.key), mappedfile.Options{Logger: q.s.log})
	if err != nil {
		return corruptLayout(err)
	}
	q.ext = ext
	return q.enterLocked()
}

// closeFilesLocked lets go of the lists of files. What was not synced stays in the page cache.
func (q *queue) closeFilesLocked() {
	q.s.opened.leave(q)
	q.dropFiles()
}

func (q *queue) dropFiles() {
	for _, m := range []**mappedfile.Queue{&q.files, &q.ext} {
		if *m != nil {
			_ = (*m).Close() // its only effect is to unmap
			*m = nil
		}
	}
}

// forgetLocked makes the next call look at the directory anew.
func (q *queue) forgetLocked() {
	q.closeFilesLocked()
	q.loaded, q.closing, q.state = false, false, state{}
}
