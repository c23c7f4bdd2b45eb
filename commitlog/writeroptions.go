package commitlog

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"

	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// WriteMode says how bytes get into the log's files. Readers see the files through their mappings in every mode.
type WriteMode int

// The write modes. What an acknowledgement is worth in each is written in docs/durability.md.
const (
	// WriteMapped stores records into the mapping of the file, whose pages another goroutine brings in ahead. A record is in
	// the page cache, and so survives the process, when Publish returns.
	WriteMapped WriteMode = iota
	// WriteStaged collects records in memory; the flush writes all there are with one call and one sync. From some 16 waiting
	// producers on it syncs twice as many messages as WriteMapped: the kernel protects a mapped page again after each writeback, and the next
	// store to it faults.
	WriteStaged
	// WritePooled collects records in memory as WriteStaged does; a commit loop of its own writes them, at CommitInterval or at CommitLeastPages. What is not yet
	// committed is not visible to readers and dies with the process (transientStorePoolEnable).
	WritePooled
	// WriteThrough writes records with one call before Publish returns (writeWithoutMmap). Under synchronous flush it is the flush that
	// writes, as in WriteStaged: who does not wait for it has nothing that survives the process.
	WriteThrough
)

func (m WriteMode) String() string {
	switch m {
	case WriteMapped:
		return "mmap"
	case WriteStaged:
		return "staged"
	case WritePooled:
		return "pool"
	case WriteThrough:
		return "pwrite"
	}
	return fmt.Sprintf("WriteMode(%d)", int(m))
}

// WriterOptions of OpenWriter. Take them from DefaultWriterOptions. Names in parentheses are RocketMQ's.
type WriterOptions struct {
	// FS is where the log lives. nil: mmap.OS.
	FS mmap.FS
	// Dir holds the log's files, and is created when it is missing. MoreDirs hold further files of it and take new ones in turn; of
	// ReadOnlyDirs the files are read and nothing else (storePathCommitLog, readOnlyCommitLogStorePaths).
	Dir          string
	MoreDirs     []string
	ReadOnlyDirs []string
	// DirFull tells which of several directories shall get no new file. nil: none is full.
	DirFull func(dir string) bool
	// FileSize is the length of each file in bytes (mappedFileSizeCommitLog); files of another length are refused.
	FileSize int64

	// SyncFlush: AwaitFlush is what puts wait for, and Positions().Confirm, where readers of messages stop, is what is flushed (flushDiskType). The Log itself can
	// be read up to what is committed.
	SyncFlush bool
	Mode      WriteMode
	// PutLock guards the reservation of space. nil: a sync.Mutex.
	PutLock sync.Locker

	// Pace is when bytes are written and flushed. SetPace changes it.
	Pace

	// BufferBytes bounds what is reserved and not yet in the files, in the modes that collect in memory.
	BufferBytes int64
	// UndurableBytes bounds what is reserved and not yet durable under synchronous flush: with a stalled disk puts are refused
	// beyond it instead of filling memory. 0: no bound, which is the rule of asynchronous flush.
	UndurableBytes int64

	// PopulateAheadBytes is how far ahead of the write position the pages of the mapping are brought in (WriteMapped). 0: not at all.
	PopulateAheadBytes int64
	// Warm brings in all pages of a file when it is made, and LockMemory keeps them in memory until the file is full
	// (warmMapedFileEnable).
	Warm       bool
	LockMemory bool
	// Random advises the kernel not to read ahead in the log's files (dataReadAheadEnable = false).
	Random bool

	// DurableTo is the physical offset below which the log is known to be whole: it was stopped cleanly (math.MaxInt64), or a checkpoint
	// tells. The scan for the end begins with the last file that begins with a record, or with the file of this offset where that is
	// earlier: a loss of power may take pages of any file that was not yet durable and leave those of the file behind it, and
	// what would be appended there stands behind a hole. 0: nothing is known, all files are scanned.
	DurableTo int64
	// DurableBeforeMs stands in for DurableTo where that is 0: what was stored before this time, in ms since the epoch, is known to be whole, as RocketMQ's checkpoint tells
	// it. The scan begins with the last file whose first record was. 0: nothing is known.
	DurableBeforeMs int64
	// PromisedTo is a physical offset up to which the log was durable: one that ends below has lost its end, is left as it is, and OpenWriter answers a *LostEndError. 0: not known.
	PromisedTo int64
	// CheckCRC verifies the checksum of bodies in the scan for the end of the log (checkCRCOnRecover).
	CheckCRC bool

	// SetAsideDir is where the bytes of a torn tail go before they are cut off. "": they are gone.
	SetAsideDir string

	// NowMs returns the store's clock in ms since the epoch. nil: the system's.
	NowMs func() int64
	// OnFailure is told, once, the error after which the log takes no more. It must not call the Writer. nil: nobody.
	OnFailure func(error)
	// Logger gets what needs an operator's eye: a torn tail that was cut, slow flushes, files that cannot be made. nil: discard.
	Logger *slog.Logger
}

// Defaults of WriterOptions, those of 5.5.0 where it has the option.
//
// Source: MessageStoreConfig, 5.5.0.
const (
	defaultFileSize       = 1 << 30
	defaultBufferBytes    = 64 << 20
	defaultUndurableBytes = 256 << 20
	defaultPopulateAhead  = 64 << 20
)

// DefaultWriterOptions returns the options of an asynchronously flushed, memory-mapped log in dir.
func DefaultWriterOptions(dir string) WriterOptions {
	return WriterOptions{
		Dir: dir, FileSize: defaultFileSize,
		Pace:        DefaultPace(),
		BufferBytes: defaultBufferBytes, UndurableBytes: defaultUndurableBytes, PopulateAheadBytes: defaultPopulateAhead,
		CheckCRC: true,
	}
}

// minFileSize leaves room for the smallest record and a filler.
const minFileSize = message.MinRecordSize + message.BlankHeaderSize

// Validate returns every fault of o, joined.
func (o *WriterOptions) Validate() error {
	var faults []error
	check := func(name string, v, low, high int64) {
		if v < low || v > high {
			faults = append(faults, fmt.Errorf("%s is %d, want %d to %d", name, v, low, high))
		}
	}
	if o.Dir == "" {
		faults = append(faults, errors.New("no directory"))
	}
	check("file size", o.FileSize, minFileSize, math.MaxInt32) // a filler announces up to a whole file in 32 bits
	check("write mode", int64(o.Mode), int64(WriteMapped), int64(WriteThrough))
	check("flush interval in ns", int64(o.FlushInterval), 1, math.MaxInt64)
	check("flush thorough interval in ns", int64(o.FlushThoroughInterval), 1, math.MaxInt64)
	check("flush least pages", int64(o.FlushLeastPages), 0, math.MaxInt32)
	check("sync flush timeout in ns", int64(o.SyncFlushTimeout), 1, math.MaxInt64)
	check("commit interval in ns", int64(o.CommitInterval), 1, math.MaxInt64)
	check("commit thorough interval in ns", int64(o.CommitThoroughInterval), 1, math.MaxInt64)
	check("commit least pages", int64(o.CommitLeastPages), 0, math.MaxInt32)
	check("buffer bytes", o.BufferBytes, 1, math.MaxInt64)
	check("undurable bytes", o.UndurableBytes, 0, math.MaxInt64)
	check("durable to", o.DurableTo, 0, math.MaxInt64)
	check("promised to", o.PromisedTo, 0, math.MaxInt64)
	check("durable before", o.DurableBeforeMs, 0, math.MaxInt64)
	check("populate ahead bytes", o.PopulateAheadBytes, 0, math.MaxInt64)
	if o.Mode == WriteStaged && !o.SyncFlush {
		// Its flush is what writes. Asynchronously it would be the pool without a commit loop.
		faults = append(faults, errors.New("write mode staged needs synchronous flush; for asynchronous flush there is the pool"))
	}
	if o.LockMemory && !o.Warm {
		faults = append(faults, errors.New("locking memory needs warm files"))
	}
	return errors.Join(faults...)
}
