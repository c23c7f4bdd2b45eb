package commitlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// Writer appends to the log. Its positions are physical offsets, each at or above the next:
//
//	wrote      below it everything is reserved, filled and published
//	committed  below it everything is in the files, where readers see it (WriteMapped: the same as wrote)
//	flushed    below it everything is durable
//	confirm    where readers of messages stop: flushed under synchronous flush, committed otherwise
//
// Its goroutines: the flusher, the allocator, the populator (WriteMapped), the committer (WritePooled), the clock. OpenWriter starts them, Close ends
// and joins them.
//
// All methods may be called concurrently. Locks, from the outside in: the put lock; a lock of staging, segments or the allocator. Beside
// them: flusher.syncing, then committing.
type Writer struct {
	o      WriterOptions
	logger *slog.Logger
	queue  *mappedfile.Queue
	log    *Log
	clock  *clock
	nowMs  func() int64

	maxRecord    int64
	populateStep int64

	lock sync.Locker
	put  struct { // guarded by lock
		wrote           int64 // end of what is reserved
		number          uint64
		segment         *segment
		populateAt      int64
		lastTimestampMs int64
		closed          bool
	}

	ring [ringSize]ringSlot
	head atomic.Uint64 // number of the first reservation that is not published
	pos  mappedfile.Positions

	segments   segmentList
	staging    *staging // nil: WriteMapped
	committing sync.Mutex
	space      signal // for a put that waits
	tail       signal // for who reads what was put
	over       atomic.Bool

	probe      lockProbe
	failed     atomic.Pointer[FailedError]
	diskFailed atomic.Pointer[FailedError]

	pace      atomic.Pointer[Pace]
	allocator *allocator
	populator *populator
	flusher   *flusher
	committer *committer // nil: not WritePooled

	stats     writerStats
	closeOnce sync.Once
	closeErr  error
}

// OpenWriter opens the log for appending, creating what is missing. It finds the end by a scan, see WriterOptions.DurableTo. A torn tail is cut off,
// durably, and reported to the Logger: what follows the last valid record is no record and nothing behind it is one. So are
// records behind one that a killed process did not come to fill, see hole.go. What an
// earlier process left in the page cache is made durable. Files made ahead by an earlier process are used.
//
// The caller has made sure that no other process has the log open.
//
// Errors: *EndError when valid records lie behind damage: cutting there would lose them; *FileError for a directory that is no log,
// or one of another file size; why a file cannot be made (the disk is full, a directory read-only). On error nothing stays open.
func OpenWriter(o WriterOptions) (_ *Writer, err error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("open commit log: %w", err)
	}
	if o.FS == nil {
		o.FS = mmap.OS
	}
	w := &Writer{o: o, logger: o.Logger, lock: o.PutLock, maxRecord: o.FileSize - message.BlankHeaderSize}
	w.pace.Store(&o.Pace)
	if w.logger == nil {
		w.logger = slog.New(slog.DiscardHandler)
	}
	if w.lock == nil {
		w.lock = new(sync.Mutex)
	}
	if o.Mode != WriteMapped {
		w.staging = new(staging)
	}
	w.populateStep = max(o.PopulateAheadBytes/4, 1)
	w.queue, err = mappedfile.Open(o.Dir, mappedfile.Options{
		FS: o.FS, MoreDirs: o.MoreDirs, ReadOnlyDirs: o.ReadOnlyDirs, DirFull: o.DirFull,
		Writable: true, Allocate: true, FileSize: o.FileSize, Readahead: !o.Random, Logger: w.logger,
	})
	if err != nil {
		return nil, fmt.Errorf("open commit log: %w", err)
	}
	defer func() {
		if err != nil {
			w.closeSegments()
			_ = w.queue.Close() // frees mappings
		}
	}()
	end, lastMs, err := w.findEnd()
	if err != nil {
		return nil, err
	}
	if err := w.settle(end); err != nil {
		return nil, fmt.Errorf("open commit log: %w", err)
	}
	w.put.lastTimestampMs = lastMs
	w.log.readable = w.committed
	w.start()
	return w, nil
}

// findEnd returns where the log ends, and the store time of its last record in ms (0 without one).
func (w *Writer) findEnd() (end ScanEnd, lastMs int64, err error) {
	w.log = &Log{queue: w.queue, probeBytes: defaultProbeBytes}
	if w.o.DurableTo, err = w.log.durableTo(w.o.DurableTo, w.o.DurableBeforeMs); err != nil {
		return ScanEnd{}, 0, err
	}
	s, err := w.log.endScanner(w.o.DurableTo, ScanOptions{CheckCRC: w.o.CheckCRC})
	if err != nil {
		return ScanEnd{}, 0, err
	}
	if f := s.file; f != nil {
		w.logger.Info("the end of the commit log is looked for", slog.String("from", f.Path()), slog.Int64("bytes", w.queue.EndOffset()-f.From()))
	}
	defer s.Close()
	s.skipWhole(context.Background(), pieceBytes, nil)
	for s.Next() {
		lastMs = s.Record().StoreTimestampMs
	}
	end = s.End()
	cut, records := end.Kind == EndTorn, 0
	if end.Kind == EndCorrupt && end.Offset >= w.o.DurableTo {
		if records, cut, err = w.log.unpublished(end); err != nil {
			return end, 0, err
		}
	}
	if end.Kind != EndNone && (cut || end.Kind != EndCorrupt) {
		lost, err := w.log.lostEnd(end, w.o.PromisedTo)
		if err != nil {
			return end, 0, err
		}
		if lost != nil {
			return end, 0, lost
		}
	}
	switch {
	case cut:
		w.logger.Warn("tail of the commit log that was never published is cut off", slog.String("file", end.File), slog.Int64("phyOffset", end.Offset),
			slog.Int("records", records), slog.Any("err", s.Err()))
		if err := w.setTailAside(end.Offset); err != nil {
			return end, 0, err
		}
		if err := w.queue.Truncate(end.Offset); err != nil {
			return end, 0, fmt.Errorf("cut tail of the commit log: %w", err)
		}
	case s.Err() != nil:
		return end, 0, s.Err()
	}
	if left := w.o.FileSize - end.FileOffset; left < message.BlankHeaderSize {
		return end, 0, &CorruptError{
			File: end.File, Offset: end.FileOffset, PhyOffset: end.Offset,
			Got: fmt.Sprintf("the last record leaves %d bytes in the file", left), Want: "room for a filler",
		}
	}
	return end, lastMs, nil
}

// settle makes what is there durable, opens the file that holds the end, or makes it, and sets the positions.
func (w *Writer) settle(end ScanEnd) error {
	for _, f := range w.queue.Files() { // those made ahead as well: of what is made behind them, names may be durable before their length
		if f.End() <= min(w.o.DurableTo, end.Offset) {
			continue
		}
		if err := syncFile(f); err != nil {
			return err
		}
	}
	for _, dir := range append([]string{w.o.Dir}, w.o.MoreDirs...) {
		if err := w.syncNames(filepath.Clean(dir)); err != nil {
			return err
		}
	}
	from := end.Offset - end.Offset%w.o.FileSize
	s, err := w.makeSegment(from)
	if err != nil {
		return err
	}
	if _, there := w.queue.Find(from); !there {
		if err := w.queue.Adopt(s.file); err != nil {
			return errors.Join(err, s.close())
		}
	}
	w.segments.add(s)
	w.put.segment, w.put.wrote = s, end.Offset
	s.populated = max(s.from, end.Offset)
	w.put.populateAt = end.Offset
	w.pos.Set(end.Offset)
	return nil
}

// syncNames makes the names of the files in dir durable, and that of dir itself up to the root: a process that was killed may have
// made any of them without coming to that. A directory that may not be synced is none that it made.
func (w *Writer) syncNames(dir string) error {
	err := w.o.FS.SyncDir(dir)
	switch parent := filepath.Dir(dir); {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		if parent == dir {
			return nil
		}
		return w.syncNames(parent)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EROFS):
		return nil
	}
	return err
}

func syncFile(f *mappedfile.File) error {
	h, err := f.OpenFile()
	if err != nil {
		return err
	}
	return errors.Join(h.Datasync(), h.Close())
}

// start starts the goroutines.
func (w *Writer) start() {
	w.nowMs = w.o.NowMs
	if w.nowMs == nil {
		w.clock = newClock()
	}
	w.stats.begin()
	w.allocator = newAllocator(w, w.put.segment.end)
	w.populator = newPopulator(w)
	w.populator.kick(w.put.wrote)
	w.flusher = newFlusher(w)
	go w.flusher.run()
	if w.o.Mode == WritePooled {
		w.committer = newCommitter(w)
		go w.committer.run()
	}
}

func (w *Writer) now() int64 {
	if w.clock != nil {
		return w.clock.now()
	}
	return w.nowMs()
}

// committed returns the position below which everything is in the files: what is published, when it is stored there right away.
func (w *Writer) committed() int64 {
	if w.staging == nil {
		return w.pos.Wrote()
	}
	return w.pos.Committed()
}

// Log returns the read side. Its Read and Scanner stop at what is committed.
func (w *Writer) Log() *Log { return w.log }

// Positions of a Writer, physical offsets.
type Positions struct{ Wrote, Committed, Flushed, Confirm int64 }

// Positions returns the positions. They were true in this order at some moment during the call.
func (w *Writer) Positions() Positions {
	p := Positions{Flushed: w.pos.Flushed(), Committed: w.committed(), Wrote: w.pos.Wrote()}
	p.Confirm = p.Committed
	if w.o.SyncFlush {
		p.Confirm = p.Flushed
	}
	return p
}

// Close refuses new puts, waits for those that are under way, makes everything durable and lets go of the files; files made ahead are removed. It returns
// what kept it from making everything durable. Readers that hold records keep them. A reservation that is never published makes it wait
// for ever. Idempotent.
func (w *Writer) Close() error {
	w.closeOnce.Do(func() { w.closeErr = w.close() })
	return w.closeErr
}

func (w *Writer) close() error {
	w.lock.Lock()
	w.put.closed = true
	end, number := w.put.wrote, w.put.number
	w.lock.Unlock()
	w.awaitFilled(number)
	err := w.Flush()
	if err == nil && w.pos.Wrote() < end {
		err = w.failure()
	}
	w.over.Store(true)
	w.space.wake()
	w.tail.wake()
	if w.committer != nil {
		close(w.committer.stop)
		<-w.committer.done
	}
	close(w.flusher.stop)
	<-w.flusher.done
	w.flusher.mu.Lock()
	w.flusher.mu.closed = true
	w.flusher.mu.Unlock()
	w.flusher.answer(err)
	w.populator.close()
	w.allocator.close()
	if w.clock != nil {
		w.clock.close()
	}
	w.flusher.syncing.Lock() // a Flush or a commit that came late finds all done, or no file
	defer w.flusher.syncing.Unlock()
	w.committing.Lock()
	defer w.committing.Unlock()
	w.closeSegments()
	return errors.Join(err, w.cutHole(end), w.queue.Close())
}

func (w *Writer) closeSegments() {
	for _, s := range w.segments.all() {
		if err := s.close(); err != nil {
			w.logger.Warn("close of a commit log file failed", slog.String("file", s.file.Path()), slog.Any("err", err))
		}
	}
}
