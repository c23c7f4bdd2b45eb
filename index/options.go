package index

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Options say how an index is opened. The zero value of each field stands for its default.
type Options struct {
	// HashSlots is the number of slots of a file (maxHashSlotNum); 0: 5,000,000.
	HashSlots int32
	// MaxEntries is the number of entries of a file, the unused first one included (maxIndexNum); 0: 20,000,000. Files are
	// 40 + 4*HashSlots + 20*MaxEntries bytes long, at most 2^31-1. A file of another length is not read.
	MaxEntries int32
	// MaxResults bounds the answer of one query (maxMsgsNumBatch); 0: 64.
	MaxResults int
	// ReadOnly opens without changing a byte, also of a directory that somebody writes to.
	ReadOnly bool
	// Unclean says that the process which wrote the directory last did not come to Close. What is in the files is then
	// verified, see Open.
	Unclean bool
	// FlushedToMs is indexMsgTimestamp of the checkpoint: files that end before it are complete on the disk. 0: not known,
	// every file is verified after an unclean stop.
	FlushedToMs int64
	// FS holds the directory; nil: mmap.OS.
	FS mmap.FS
	// Logger gets a line for each file made, cut or removed; nil: none.
	Logger *slog.Logger
	// Now is the clock that names files; nil: time.Now.
	Now func() time.Time
}

// Limits of Options and their defaults.
const (
	defaultHashSlots  = 5_000_000
	defaultMaxEntries = 20_000_000
	defaultMaxResults = 64
	minMaxEntries     = 2 // entry 0 is not used
)

// withDefaults fills the fields left out and joins every fault of the others.
func (o Options) withDefaults() (Options, error) {
	if o.HashSlots == 0 {
		o.HashSlots = defaultHashSlots
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = defaultMaxEntries
	}
	if o.MaxResults == 0 {
		o.MaxResults = defaultMaxResults
	}
	if o.FS == nil {
		o.FS = mmap.OS
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	var faults []error
	if o.HashSlots < 1 {
		faults = append(faults, fmt.Errorf("HashSlots %d < 1", o.HashSlots))
	}
	if o.MaxEntries < minMaxEntries {
		faults = append(faults, fmt.Errorf("MaxEntries %d < %d", o.MaxEntries, minMaxEntries))
	}
	if o.MaxResults < 1 {
		faults = append(faults, fmt.Errorf("MaxResults %d < 1", o.MaxResults))
	}
	if n := (layout{o.HashSlots, o.MaxEntries}).fileBytes(); n > maxFileBytes {
		faults = append(faults, fmt.Errorf("%d HashSlots and %d MaxEntries make files of %d bytes, more than %d", o.HashSlots, o.MaxEntries, n, maxFileBytes))
	}
	return o, errors.Join(faults...)
}
