package file

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/tandemq/tandemmq/cq"
)

var (
	_ cq.Store       = (*Store)(nil)
	_ cq.Importer    = (*Store)(nil)
	_ cq.Expirer     = (*Store)(nil)
	_ cq.Skipper     = (*Store)(nil)
	_ cq.NameChecker = (*Store)(nil)

	_ cq.SparseReader = (*Store)(nil)
)

// Options of Open.
type Options struct {
	// ReadOnly makes every writing method answer cq.ErrReadOnly; not a byte on disk changes.
	ReadOnly bool
	// FileSizeBytes is the length of every queue file, a multiple of 20. 0: read off the directory, DefaultFileBytes when
	// it holds no file. Mirrors mappedFileSizeConsumeQueue, which RocketMQ rounds up to a multiple of 20.
	FileSizeBytes int64
	// MinPhyOffset is the physical offset of the first byte that the CommitLog still holds. Bounds.Min is derived from
	// it. 0 or less: nothing has expired. SetMinPhyOffset moves it.
	MinPhyOffset int64
	// ExtDir is the tree of extension files. Empty: the directory of the store with "_ext" behind its name.
	ExtDir string
	// Reserved tells which names of topics are those of files that somebody else makes in the directory, such as a RocksDB: no queue is made in their place.
	// nil: none.
	Reserved func(topic string) bool
	// KeepDamage has the failure of an append that meets a file which was cut, or which the disk does not give, be sticky as that of any write. Otherwise it is a
	// *cq.DamagedError of the one queue.
	KeepDamage bool
	// Logger gets what was passed over (foreign names) or repaired. nil: discard.
	Logger *slog.Logger
}

// Store is a directory of file consume queues. It is a cq.Store and a cq.Importer. It starts no goroutine.
type Store struct {
	dir, extDir  string
	readOnly     bool
	keepDamage   bool
	fileBytes    int64
	perFile      int64 // units per file
	minPhyOffset atomic.Int64
	reserved     func(topic string) bool // nil: none
	log          *slog.Logger
	remember     int // so many queues are remembered by a store that is only read
	opened       openTable
	closed       atomic.Bool

	queues struct {
		sync.RWMutex
		m map[cq.Key]*queue // those that were ever looked at and have a directory
	}

	// flushing serialises Flush with the writers that close mapped queues: import, truncate, drop, close.
	flushing sync.Mutex
	writing  struct {
		sync.Mutex          // one writer at a time
		failed     error    // sticky: first failed write or sync
		dirty      []*queue // appended to since the last Flush
		// unsynced tells that repeats were accepted: of units that an earlier process may have left in the page cache.
		unsynced bool
		appending
	}
	accepted, durable atomic.Int64
}

// Open opens the consume queues under dir (<root>/consumequeue). A missing directory is a store without queues; unless
// the store is read-only it is made with the first queue. Open reads the names of a few queues, not their units: what is
// wrong with a queue is told when that queue is asked for.
func Open(dir string, o Options) (*Store, error) {
	fileBytes := o.FileSizeBytes
	if fileBytes < 0 || fileBytes%unitBytes != 0 {
		return nil, fmt.Errorf("open consume queues in %s: file size %d is no positive multiple of %d", dir, fileBytes, unitBytes)
	}
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return nil, fmt.Errorf("open consume queues in %s: no directory", dir)
	}
	if fileBytes == 0 {
		var err error
		if fileBytes, err = DetectFileBytes(dir); err != nil {
			return nil, err
		}
	}
	if fileBytes == 0 {
		fileBytes = DefaultFileBytes
	}
	s := &Store{
		dir: dir, extDir: o.ExtDir, readOnly: o.ReadOnly, fileBytes: fileBytes, perFile: fileBytes / unitBytes,
		reserved: o.Reserved, keepDamage: o.KeepDamage, log: o.Logger,
	}
	s.minPhyOffset.Store(max(o.MinPhyOffset, 0))
	if s.extDir == "" {
		s.extDir = filepath.Clean(dir) + "_ext"
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.opened.limit, s.remember = maxOpenQueues, maxRemembered
	if s.readOnly {
		s.opened.limit = maxOpenRemembered
	}
	s.queues.m = make(map[cq.Key]*queue)
	s.accepted.Store(-1)
	s.durable.Store(-1)
	return s, nil
}

// Kind returns cq.KindFile.
func (s *Store) Kind() cq.Kind { return cq.KindFile }

// FileSizeBytes returns the length of a queue file.
func (s *Store) FileSizeBytes() int64 { return s.fileBytes }

// Queue returns the queue of that key. A queue that cannot be read (wrong file sizes, files missing in the middle) is
// returned too: its Bounds tell what is wrong.
func (s *Store) Queue(k cq.Key) (cq.Queue, bool) {
	q, ok := s.find(k)
	if !ok || !q.isPresent() {
		return nil, false
	}
	return q, true
}

// find returns the queue of k when it was looked at before or has a directory.
func (s *Store) find(k cq.Key) (*queue, bool) {
	if q := s.known(k); q != nil {
		return q, true
	}
	if !possibleKey(k) || s.closed.Load() {
		return nil, false
	}
	if st, err := os.Stat(queueDir(s.dir, k)); err != nil || !st.IsDir() {
		return nil, false
	}
	return s.obtain(k), true
}

// known returns the queue of k if it was looked at before, otherwise nil.
func (s *Store) known(k cq.Key) *queue {
	s.queues.RLock()
	defer s.queues.RUnlock()
	return s.queues.m[k]
}

// obtain returns the one queue of k.
func (s *Store) obtain(k cq.Key) *queue {
	if q := s.known(k); q != nil {
		return q
	}
	s.queues.Lock()
	defer s.queues.Unlock()
	if q, ok := s.queues.m[k]; ok {
		return q
	}
	s.forgetSomeLocked()
	q := &queue{s: s, key: k, ring: -1}
	s.queues.m[k] = q
	return q
}

// Queues yields the keys of all queues that ever had a slot, and of those that cannot be read. The directory is listed
// first, then each queue is looked at as it is yielded.
func (s *Store) Queues() iter.Seq2[cq.Key, error] {
	return func(yield func(cq.Key, error) bool) {
		keys, err := s.Keys()
		for _, k := range keys {
			if s.obtain(k).isPresent() && !yield(k, nil) {
				return
			}
		}
		if err != nil {
			yield(cq.Key{}, err)
		}
	}
}

// Keys returns the keys of all queue directories, in no order, without a look into them: some may be bare, and no queues. With an error it returns those found before it.
func (s *Store) Keys() ([]cq.Key, error) {
	if s.closed.Load() {
		return nil, cq.ErrClosed
	}
	var keys []cq.Key
	err := walkKeys(s.dir,
		func(path string) { s.log.Warn("ignored foreign directory", slog.String("file", path)) },
		func(k cq.Key) bool {
			keys = append(keys, k)
			return true
		})
	return keys, err
}

// DispatchFrom returns the largest end of a record that any queue points to. It looks at every queue.
//
// What it proves: nothing by itself, since files keep no note of what was dispatched. Units are written in physical order,
// so after a clean stop every record that ends at or below the value has its unit, and dispatch resumes there,
// inclusively. After a crash one queue's pages may have reached the disk and another's not: then resume from the
// checkpoint's logicsPhysicalOffset, as RocketMQ does. A value that lies too low costs time only: repeats are accepted.
//
// It is -1 when no queue has a unit, and also when one of them cannot be read: dispatching everything repairs it.
// Source: ConsumeQueueStore.getDispatchFromPhyOffset, 5.5.0.
func (s *Store) DispatchFrom() int64 {
	keys, err := s.Keys()
	if err != nil {
		return -1
	}
	end := int64(-1)
	for _, k := range keys {
		b, err := s.obtain(k).Bounds()
		if err != nil {
			s.log.Warn("cannot tell where dispatch has to resume",
				slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)), slog.Any("err", err))
			return -1
		}
		end = max(end, b.MaxPhyOffset)
	}
	return end
}

// Progress tells what this process accepted, made readable and made durable: the end of the last record, -1 before the
// first Append (or Flush, for durable). A store that was just opened does not claim what an earlier process wrote.
func (s *Store) Progress() (accepted, readable, durable int64) {
	durable = s.durable.Load() // first: it never exceeds accepted
	accepted = s.accepted.Load()
	return accepted, accepted, durable
}

// beginWrite takes the writer's lock, or says why nothing can be written. Call endWrite after success.
func (s *Store) beginWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.writing.Lock()
	err := s.writing.failed
	switch {
	case s.closed.Load():
		err = cq.ErrClosed
	case s.readOnly:
		err = cq.ErrReadOnly
	}
	if err != nil {
		s.writing.Unlock()
	}
	return err
}

func (s *Store) endWrite() { s.writing.Unlock() }

// fail makes err the answer of every later write. The caller is between beginWrite and endWrite.
func (s *Store) fail(err error) error {
	if s.writing.failed == nil {
		s.writing.failed = err
	}
	return err
}

// Close makes what was accepted durable and lets go of every mapping. Readers that are in the middle of a call finish it.
// It returns the error of that last flush; the store is closed all the same. Idempotent.
func (s *Store) Close() error {
	if s.closed.Load() {
		return nil
	}
	var err error
	if !s.readOnly {
		if err = s.Flush(context.Background()); errors.Is(err, cq.ErrClosed) { // another Close won
			return nil
		}
	}
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	s.closed.Store(true)
	for _, q := range s.opened.close() { // none enters from here on
		q.mu.Lock()
		q.closeFilesLocked()
		q.mu.Unlock()
	}
	return err
}
