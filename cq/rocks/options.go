package rocks

import (
	"log/slog"

	"github.com/tandemq/tandemmq/internal/rocks"
)

// RocksDBOptions are the options of the database itself.
type RocksDBOptions = rocks.Options

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
	// Logger receives messages; nil discards them.
	Logger *slog.Logger
}

// DefaultOptions returns the options of a serving store; see the fields of RocksDBOptions for the values.
func DefaultOptions() Options { return Options{RocksDB: rocks.DefaultOptions()} }

// MigrationOptions returns the options for filling and verifying a store offline in little memory.
func MigrationOptions() Options { return Options{RocksDB: rocks.MigrationOptions()} }

// withDefaults fills what was left open.
func (o Options) withDefaults(dir string) Options {
	if o.RocksDB == (RocksDBOptions{}) {
		o.RocksDB = rocks.DefaultOptions()
	}
	o.RocksDB.CreateIfMissing = o.Create
	if o.IngestDir == "" {
		o.IngestDir = dir + ".ingest"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
