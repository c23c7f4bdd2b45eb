package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// ErrClosed is the reason of a put into a store that was closed, and what its Flush answers.
var ErrClosed = errors.New("store is closed")

// Store is a store directory open for puts. All methods may be called concurrently.
//
// Its goroutines are those of the log's Writer, those of the views (see views.start), and one that writes the running flags down after a failed write or sync. Close
// joins them. Locks, from the outside in: the stripes of the offset table, ascending; the log's put lock.
type Store struct {
	layout Layout
	o      Options // as the store was opened; what is tagged live is read off live()
	// current are the options as they are now; SetOptions changes them, one call at a time.
	current  atomic.Pointer[Options]
	changing sync.Mutex

	fs     mmap.FS
	logger *slog.Logger
	flags  *RunningFlags

	log       appender
	writer    *commitlog.Writer // the same
	syncFlush bool
	maxRecord int64 // bytes that a log file has room for

	offsets *offsetTable
	views   *views // nil: nothing is dispatched
	putters sync.Pool

	arrivals arrivals
	cold     coldReads

	memory memoryBytes
	strays strayUnits

	closed     atomic.Bool
	closeOnce  sync.Once
	closeErr   error
	background sync.WaitGroup

	retention *retention // nil: not started
	holders   holders
	replacing *replacing
	brake     brake

	lock             *Lock // nil: on another filesystem than the machine's, or the caller has it
	abort            abortMark
	keepAbort        bool                                                          // Close leaves the mark
	catchUpSaveBytes int64                                                         // constant, smaller in tests
	catchUpSaveShare time.Duration                                                 // the same
	settleAhead      int                                                           // the same
	rebuildBytes     int64                                                         // the same
	replaces         bool                                                          // a damaged RocksDB is replaced also where load waits
	waits            bool                                                          // load returns when the views have everything, and Close waits for that: offline
	onProgress       func(phase string, total int64, unit string) func(done int64) // told of long work of load; nil: nobody
	openedWith       int64                                                         // wrote position when the store was opened
}

// newStore makes a store that puts into whatever log is set.
func newStore(o Options) *Store {
	s := &Store{
		o: o, fs: o.FS, logger: o.Logger, flags: new(RunningFlags),
		syncFlush: o.FlushDiskType == SyncFlush, maxRecord: o.MappedFileSizeCommitLog - message.BlankHeaderSize,
		offsets: newOffsetTable(o.TopicQueueLockNum), memory: machineMemory(), catchUpSaveBytes: catchUpSaveBytes, catchUpSaveShare: catchUpSaveShare,
		settleAhead:  maxSettleAhead,
		rebuildBytes: rebuildBytes,
		replacing:    newReplacing(),
	}
	s.current.Store(&s.o)
	if o.rebuildBytes > 0 {
		s.rebuildBytes = o.rebuildBytes
	}
	if s.fs == nil {
		s.fs = mmap.OS
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.SetBackfillPace(o.BackfillBytesPerSec, o.BackfillPutLatency)
	s.putters.New = func() any { return newPutter(s) }
	return s
}

// Open opens the store at root for puts, and makes one when there is none. It does, in this order:
//
//  1. takes the store's lock, before it looks at anything (W30): *InUseError names the process that has it;
//  2. refuses a store of which Options.OnLocked says so, and a directory that does not support the sides of consume queues that the options ask for (*SidesError, F15, F16): one side alone that is not there, or lacks what the other
//     has; nothing is changed;
//  3. writes the abort mark, durably, before it changes anything (W31);
//  4. opens the log, which cuts a torn tail off; a log with valid records behind damage is refused with file and offset (*DamageError), unless LogDamagePolicy says
//     otherwise, or it is the work of a loss of power (docs/recovery.md);
//  5. brings the consume queues to agree with the log (see openViews). Where more than 64 MiB of the log have to be dispatched for that, they are built while the store
//     serves: Watermarks tells how far they are, QueueState whether a queue is complete. Puts get their right offsets from the beginning.
//
// Without BuildConsumeQueues the queues are not looked at, nor written: the whole log is read instead of 5, and the next offset of
// a queue is what follows its last record. RocketMQ builds the queues when it opens the store after the abort mark (see Close).
// A queue whose records have all expired then begins at 0 again; the Logger is warned when the log's beginning has.
//
// On error nothing stays open or locked. What was made stays, and the abort mark too, unless the log was refused as it was
// found.
//
// Options.FS other than nil is no place that other processes know of: no lock is taken there.
//
// Source: DefaultMessageStore.load, start, 5.5.0, which lock last, mark last and take records of version 1 alone for the
// offsets.
func Open(root string, o Options) (*Store, error) {
	if root == "" { // which would be the current directory
		return nil, errors.New("open store: no directory was named")
	}
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", root, err)
	}
	s := newStore(o)
	s.layout = NewLayout(root)
	if err := s.open(); err != nil {
		return nil, s.openError(err)
	}
	return s, nil
}

// openError says which store could not be opened, and for what.
func (s *Store) openError(err error) error {
	var inUse *InUseError
	switch {
	case errors.As(err, &inUse):
		return err // says it all
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("open store %s for writing: %w", s.layout.Root, err)
	}
	return fmt.Errorf("open store %s: %w", s.layout.Root, err)
}

func (s *Store) open() (err error) {
	if err := makeDir(s.fs, s.layout.Root); err != nil {
		return err
	}
	if s.o.FS == nil {
		if s.lock, err = LockExclusive(s.layout.Root); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, s.lock.Close())
			}
		}()
		if s.o.OnLocked != nil {
			if err := s.o.OnLocked(); err != nil {
				return err
			}
		}
		if s.o.BuildConsumeQueues {
			if err := s.checkSides(); err != nil {
				return err
			}
		}
		if err := s.lock.mark(); err != nil {
			return err
		}
		if err := s.layout.RemoveScratch(); err != nil {
			s.logger.Warn("what was left of an attempt stays", slog.Any("err", err)) // takes room, and nothing else
		}
	}
	if err := s.load(); err != nil {
		return err
	}
	s.startRetention()
	return nil
}

// load opens what is in the store's directory, which is locked.
func (s *Store) load() (err error) {
	if s.flags, err = OpenRunningFlags(s.o.FS, s.layout.StateDir()); err != nil {
		return err
	}
	for _, e := range s.flags.Errors() {
		s.logger.Error("PUTS ARE REFUSED, as an earlier run has left a flag: when its cause is gone, recover the stopped store", slog.String("flag", e.Flag.String()), slog.Time("since", e.Time),
			slog.String("err", e.Reason), slog.String("then", "tandemmq store recover --store "+s.layout.Root))
	}
	if s.abort, err = markAbort(s.fs, s.layout.AbortPath()); err != nil {
		return err
	}
	return s.openLog()
}

// openLog opens the log and reads it.
func (s *Store) openLog() error {
	w, err := s.openWriter()
	if err != nil {
		var file *mappedfile.FileError
		isLayout := errors.As(err, &file)
		if isLayout {
			err = fmt.Errorf("mappedFileSizeCommitLog is %d: %w", s.o.MappedFileSizeCommitLog, err)
		}
		if isLayout || errors.Is(err, commitlog.ErrCorrupt) { // refused as it was found
			err = errors.Join(err, s.abort.undo())
		}
		return err
	}
	s.log, s.writer = w, w
	s.openedWith = w.Positions().Wrote
	if s.o.BuildConsumeQueues && s.o.FS == nil {
		err = s.openViews(s.abort.found)
	} else if err = s.seed(w.Log()); err == nil {
		err = s.forgetDurable()
	}
	if err != nil {
		err = errors.Join(err, w.Close())
		s.background.Wait()
	}
	return err
}

// seed sets the next offset of every queue from the records of the log.
func (s *Store) seed(log *commitlog.Log) error {
	scan := log.Scanner(-1, commitlog.ScanOptions{CheckCRC: s.o.CheckCRCOnRecover})
	defer scan.Close()
	for scan.Next() {
		s.offsets.observe(scan.Record())
	}
	if err := scan.Err(); err != nil {
		return err
	}
	if from := log.MinOffset(); from > 0 {
		s.logger.Warn("the log's beginning has expired: a queue whose records are all gone begins at 0 again", slog.Int64("phyOffset", from))
	}
	return nil
}

// admitPut tells why no put is taken now.
func (s *Store) admitPut() error {
	switch {
	case s.closed.Load():
		return &PutError{PutServiceNotAvailable, ErrClosed}
	case s.o.BrokerRole == Slave:
		return &PutError{PutServiceNotAvailable, errors.New("the store is a SLAVE, which takes no puts")}
	case !s.flags.CanPut():
		return &PutError{PutServiceNotAvailable, s.flagsError()}
	}
	return nil
}

// flagsError says which flags forbid puts, and why they are set.
func (s *Store) flagsError() error {
	err := fmt.Errorf("running flags %v", s.flags)
	for _, e := range s.flags.Reasons() {
		err = fmt.Errorf("%w; %v since %v: %s", err, e.Flag, e.Time, e.Reason)
	}
	if s.flags.Bits()&errorFlags != 0 {
		err = fmt.Errorf("%w; when the cause is gone, `tandemmq store recover --store %s` of the stopped store clears them", err, s.layout.Root)
	}
	return errors.Join(err, s.log.Failure())
}

// PutsRefused says why the running flags forbid puts, and what is to be done; nil: they do not.
func (s *Store) PutsRefused() error {
	if s.flags.CanPut() {
		return nil
	}
	return s.flagsError()
}

// onFailure sets NOT_WRITEABLE when the log takes no more. The log may hold its put lock, so the file is written elsewhere.
func (s *Store) onFailure(err error) {
	s.background.Go(func() { s.setFlag(FlagNotWriteable, err) })
}

// setFlag sets an error flag, and writes it down.
func (s *Store) setFlag(flag Flag, reason error) {
	if s.flags.Bits()&flag == 0 {
		s.logger.Error("PUTS ARE REFUSED from now on, until the cause is gone and the stopped store was recovered", slog.String("flag", flag.String()), slog.Any("err", reason),
			slog.String("then", "tandemmq store recover --store "+s.layout.Root))
	}
	if err := s.flags.Set(flag, reason.Error()); err != nil {
		s.logger.Error("running flags could not be written", slog.Any("err", err))
	}
}

func (s *Store) isBatchTopic(topic string) bool {
	return s.o.IsBatchTopic != nil && s.o.IsBatchTopic(topic)
}

// NextOffset returns the offset that the next message of a queue gets, 0 for one that was never put to. Light queues have
// id 0. It makes nothing.
//
// Source: DefaultMessageStore.getMaxOffsetInQueue with committed false, 5.5.0.
func (s *Store) NextOffset(topic string, queueID int32) int64 { return s.offsets.next(topic, queueID) }

// Log returns the log for reading, up to what is committed. Under synchronous flush that is more than what is durable: who must not see a message that a power loss
// can take back stops at Positions().Confirm (ScanOptions.To), as the consume queues do.
func (s *Store) Log() *commitlog.Log { return s.writer.Log() }

// Positions returns how far the log is written, committed, flushed and confirmed.
func (s *Store) Positions() commitlog.Positions { return s.log.Positions() }

// Stats returns the counters of the log's Writer.
func (s *Store) Stats() commitlog.Stats { return s.writer.Stats() }

// Flush makes everything that was put durable. ErrClosed after Close, which has done so.
func (s *Store) Flush() error {
	if s.closed.Load() {
		return ErrClosed
	}
	return s.writer.Flush()
}

// Flags returns the running flags. Those that forbid puts do so from the next put on.
func (s *Store) Flags() *RunningFlags { return s.flags }

// closeTimeout bounds how long Close dispatches what is left to the consume queues. What it does not come to is dispatched when the
// store is next opened.
const closeTimeout = 5 * time.Minute

// Close refuses new puts, waits for those under way, makes everything durable, brings the consume queues to the end of the
// log and lets go of the store, the lock last. It returns what went wrong with it, and what is left to do. Idempotent.
//
// It removes the abort mark, which says that the store was left in order, when it was: everything is durable, every record has its
// units, and those are durable too. With messages of batch queues (Options.IsBatchTopic), for which this version makes no units, it stays. Where the consume queues are not built (BuildConsumeQueues), the mark goes only if
// nothing was put and there was none before: RocketMQ then starts its abnormal recovery, which builds the units from the log, of the last
// commitLogRecoverMaxNum files (10). With its normal one it would miss messages.
//
// Source: DefaultMessageStore.shutdown, 5.5.0, which drains at most 10 files' worth and keeps the mark of a store whose disk was full (W19, W42).
func (s *Store) Close() error {
	s.closed.Store(true)
	s.closeOnce.Do(func() {
		var left, err error
		if s.retention != nil {
			s.retention.close()
		}
		s.offsets.passAll() // nobody takes a place in the log from here on
		if s.views != nil {
			_ = s.writer.AwaitPublished() // what was taken before; Flush tells what is wrong
			err = s.writer.Flush()
			ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
			var cerr error
			left, cerr = s.views.close(ctx)
			err = errors.Join(err, cerr)
			cancel()
		}
		s.arrivals.close()
		err = errors.Join(err, s.log.Close())
		s.background.Wait()
		if err == nil && left == nil {
			err = s.leaveInOrder()
		}
		if left != nil {
			left = fmt.Errorf("store %s was not left in order; it is recovered when it is next opened: %w", s.layout.Root, left)
		}
		s.closeErr = errors.Join(err, left, s.lock.Close())
	})
	return s.closeErr
}

// leaveInOrder removes the abort mark of a store that is.
func (s *Store) leaveInOrder() error {
	wrote := s.log.Positions().Wrote
	switch {
	case s.keepAbort:
	case s.views != nil && s.views.view.batchQueues() > 0:
		s.logger.Warn("the abort mark stays: batch queues have no units, which RocketMQ's recovery makes", slog.Int("queues", s.views.view.batchQueues()))
	case s.views != nil && s.views.follow.from.Load() == wrote:
		return s.abort.remove()
	case s.views != nil:
		return fmt.Errorf("%d bytes of the log are not dispatched: the abort mark stays", wrote-s.views.follow.from.Load())
	case s.views == nil && wrote == s.openedWith:
		return s.abort.undo()
	}
	return nil
}
