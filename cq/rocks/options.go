package rocks

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/tandemq/tandemmq/internal/rocks"
)

// RocksDBOptions are the options of the database itself.
type RocksDBOptions = rocks.Options

// Compression of table blocks.
type Compression = rocks.Compression

// The compressions.
const (
	NoCompression = rocks.NoCompression
	Snappy        = rocks.Snappy
	LZ4           = rocks.LZ4
	ZSTD          = rocks.ZSTD
)

// Stats are the sizes of a store, in bytes.
type Stats = rocks.Stats

// Options of a store.
type Options struct {
	// Create makes an empty store where there is none; otherwise Open fails there with fs.ErrNotExist.
	Create bool
	// ReadOnly opens the store without changing a byte in its directory. It then shows the state at the time of opening.
	ReadOnly bool
	// MinPhyOffset is the CommitLog's min physical offset in bytes: units below it have expired. 0: the log begins at 0; -1: not
	// known, every stored unit counts as readable. SetMinPhyOffset moves it.
	MinPhyOffset int64
	// RocksDB holds the options of the database; the zero value stands for DefaultOptions().RocksDB.
	RocksDB RocksDBOptions
	// IngestDir is where Import builds table files: a directory in the database's file system, not inside the database. Empty:
	// the store's directory with ".ingest" appended. It exists only between the first Import and Close.
	IngestDir string
	// TailBytes bounds the memory for the newest units of queues that were written to lately, over all queues; who reads there need not enter RocksDB.
	// 0: DefaultTailBytes; negative: none.
	TailBytes int64
	// Commit says how units get written.
	Commit CommitOptions
	// OnDamage is told, once for each database that was opened, of the first answer of RocksDB which says that its files are damaged or gone. Who found it calls it, with locks
	// held: it must not call the store. nil: nobody.
	OnDamage func(err error)
	// Logger receives messages; nil discards them.
	Logger *slog.Logger
}

// CommitOptions say how much may be accepted ahead of what is written, and what becomes of a write that fails. Zero stands for the default in each field.
type CommitOptions struct {
	// MaxPendingUnits is how many units may be accepted and not yet written; Append waits where there are as many. 100,000, about 6 MB.
	// Source: RocksGroupCommitService, a queue of 100,000 requests, 5.5.0.
	MaxPendingUnits int
	// MaxAttempts is how often a write is tried before its error sticks. 10; RocketMQ has no bound. One that meets damaged files of the database is not tried again.
	MaxAttempts int
	// Backoff is the time before the second attempt, which doubles from one to the next up to MaxBackoff. 10 ms and 2 s.
	Backoff, MaxBackoff time.Duration
	// NoSpaceFor is how long a write is tried again while the disk is full, however many attempts that takes: retention gives space back, and RocksDB
	// goes on by itself once there is some. 10 min.
	NoSpaceFor time.Duration
}

func (o CommitOptions) withDefaults() CommitOptions {
	o.MaxPendingUnits = cmp.Or(o.MaxPendingUnits, 100_000)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, 10)
	o.Backoff = cmp.Or(o.Backoff, 10*time.Millisecond)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 2*time.Second)
	o.NoSpaceFor = cmp.Or(o.NoSpaceFor, 10*time.Minute)
	return o
}

func (o CommitOptions) validate() error {
	if o.MaxPendingUnits < 0 || o.MaxAttempts < 0 || o.Backoff < 0 || o.MaxBackoff < 0 || o.NoSpaceFor < 0 {
		return fmt.Errorf("options of the committer %+v: a number is negative", o)
	}
	return nil
}

// backoff returns how long to wait after that many failed attempts.
func (o CommitOptions) backoff(attempts int) time.Duration {
	return min(o.Backoff<<min(attempts-1, 20), o.MaxBackoff)
}

// failure is what kind of failure a write met.
type failure int

const (
	passing failure = iota // another attempt may succeed
	noSpace                // the disk is full
	damage                 // files of the database are damaged: it takes nothing more
)

// again tells whether a write that failed so often, for so long, is tried again.
func (o CommitOptions) again(kind failure, attempts int, since time.Duration) bool {
	return kind != damage && (attempts < o.MaxAttempts || kind == noSpace && since < o.NoSpaceFor)
}

// DefaultTailBytes is the room for about a million units.
const DefaultTailBytes = 32 << 20

// DefaultOptions returns the options of a serving store; see the fields of RocksDBOptions for the values.
func DefaultOptions() Options { return Options{RocksDB: rocks.DefaultOptions()} }

// MigrationOptions returns the options for filling and verifying a store offline in little memory.
func MigrationOptions() Options { return Options{RocksDB: rocks.MigrationOptions(), TailBytes: -1} }

// withDefaults fills what was left open.
func (o Options) withDefaults(dir string) Options {
	if o.RocksDB == (RocksDBOptions{}) {
		o.RocksDB = rocks.DefaultOptions()
	}
	o.RocksDB.CreateIfMissing = o.Create
	o.Commit = o.Commit.withDefaults()
	o.TailBytes = cmp.Or(o.TailBytes, DefaultTailBytes)
	if o.IngestDir == "" {
		o.IngestDir = dir + ".ingest"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
