package rocks

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/tandemq/tandemmq/internal/rocks"
)

// RocksDBOptions are the options of the database itself.
type RocksDBOptions = rocks.Options

// Options say how an index is opened. The zero value of each field stands for its default.
type Options struct {
	// Create makes an empty database where there is none; otherwise Open fails there with fs.ErrNotExist.
	Create bool
	// ReadOnly opens without changing a byte. It then shows the state at the time of opening.
	ReadOnly bool
	// MaxResults bounds the answer of one query (maxMsgsNumBatch); 0: 64.
	MaxResults int
	// RocksDB holds the options of the database; the zero value stands for DefaultRocksDB. Its Families are always those of an index.
	RocksDB RocksDBOptions
	// Logger gets what needs an operator's eye; nil: none.
	Logger *slog.Logger

	// bufferBytes is the constant, smaller in tests.
	bufferBytes int
}

const defaultMaxResults = 64

// DefaultRocksDB returns the options of the database: those of consume queues, with less memory. RocketMQ has a cache of 1 GiB and six memtables of 128 MiB here, and further ones for the
// families beside it, whether or not anybody asks for a key; and blocks of 128 KiB without compression.
//
// Source: RocksDBOptionsFactory, MessageRocksDBStorage, 5.5.0.
func DefaultRocksDB() RocksDBOptions {
	const mib = 1 << 20
	o := rocks.DefaultOptions()
	o.Units.WriteBufferBytes, o.Units.BlockCacheBytes = 32*mib, 128*mib
	o.Units.RewriteAfter = 0 // nothing expires in place
	o.Units.Level0Trigger, o.Units.Level0Slowdown, o.Units.Level0Stop = 8, 20, 36
	o.Offsets.WriteBufferBytes, o.Offsets.BlockCacheBytes = 4*mib, 8*mib
	return o
}

// withDefaults fills the fields left out and joins every fault of the others.
func (o Options) withDefaults() (Options, error) {
	if o.RocksDB == (RocksDBOptions{}) {
		o.RocksDB = DefaultRocksDB()
	}
	o.RocksDB.CreateIfMissing, o.RocksDB.Families = o.Create, rocks.IndexFamilies
	if o.MaxResults == 0 {
		o.MaxResults = defaultMaxResults
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.bufferBytes == 0 {
		o.bufferBytes = bufferBytes
	}
	var faults []error
	if o.MaxResults < 1 {
		faults = append(faults, fmt.Errorf("MaxResults %d < 1", o.MaxResults))
	}
	return o, errors.Join(faults...)
}

// bufferBytes is how much is read from RocksDB in one call. A row that is longer is none of ours: topic, key and unique key have less than 66,000 bytes together.
const bufferBytes = 128 << 10
