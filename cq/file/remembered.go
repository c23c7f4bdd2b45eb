package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// A store that is only read forgets queues: who goes over a million of them looks at most of them once or twice, and what is known of a queue takes 250 bytes. It is found out again where a queue is asked
// for once more. A store that is written to knows every queue, as that is what tells where its next unit goes.

const (
	// maxRemembered is how many queues a store that is only read remembers.
	maxRemembered = 1 << 15
	// maxOpenRemembered is how many of them keep their list of files; see maxOpenQueues.
	maxOpenRemembered = 1 << 14
	// forgetShare of them are forgotten at once.
	forgetShare = 8
)

// forgetSomeLocked makes room for queues that are asked for. The lock of Store.queues is held. A queue that somebody uses at this moment stays; one that somebody only has goes on by itself.
func (s *Store) forgetSomeLocked() {
	if !s.readOnly || len(s.queues.m) < s.remember {
		return
	}
	left := max(s.remember/forgetShare, 1)
	for k, q := range s.queues.m { // in no order, which is as good as any: a pass over all is what it is for
		if !q.mu.TryLock() {
			continue
		}
		q.closeFilesLocked()
		q.mu.Unlock()
		delete(s.queues.m, k)
		if left--; left == 0 {
			return
		}
	}
}

// sparseBytes is how much ReadSparse reads at a time.
const sparseBytes = 2048 * unitBytes

var sparseBuffers = sync.Pool{New: func() any { return new([sparseBytes]byte) }}

// ReadSparse reads units of a queue that are known to be below its max, and remembers nothing of the queue; see cq.SparseReader. It maps no file.
func (s *Store) ReadSparse(k cq.Key, from int64, dst []cq.Unit) (n int, err error) {
	if s.closed.Load() {
		return 0, cq.ErrClosed
	}
	if len(dst) == 0 || from < 0 || !possibleKey(k) {
		return s.readThrough(k, from, dst)
	}
	start := from / s.perFile * s.perFile
	n, whole, err := readFile(filepath.Join(queueDir(s.dir, k), mappedfile.Name(start*unitBytes)), (from-start)*unitBytes, dst[:min(int64(len(dst)), start+s.perFile-from)])
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read queue %s at slot %d: %w", k, from, err)
	}
	if err != nil || !whole {
		return s.readThrough(k, from, dst) // which tells what is wrong, or has it from elsewhere
	}
	return n, nil
}

// readThrough reads by the queue itself.
func (s *Store) readThrough(k cq.Key, from int64, dst []cq.Unit) (int, error) {
	q, ok := s.Queue(k)
	if !ok {
		return 0, &cq.RangeError{Key: k, Want: from}
	}
	return q.Read(from, dst)
}

// readFile reads units of a file from byte at on. whole tells that what it found was nothing but units.
func readFile(path string, at int64, dst []cq.Unit) (n int, whole bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = f.Close() }() // only read
	lent := sparseBuffers.Get().(*[sparseBytes]byte)
	defer sparseBuffers.Put(lent)
	for n < len(dst) {
		buf := lent[:min(sparseBytes, (len(dst)-n)*unitBytes)]
		if _, err := f.ReadAt(buf, at); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil // it was cut
			}
			return n, false, err
		}
		for ; len(buf) > 0; buf = buf[unitBytes:] {
			u := decodeUnit(buf)
			if !valid(u) || filler(u) || cq.IsExtAddress(u.TagsCode) {
				return n, false, nil
			}
			dst[n] = u
			n++
		}
		at += sparseBytes
	}
	return n, true, nil
}
