package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Flag is a state of the store in which it does less than usual; values add up.
//
//	bit   name                set when                            forbids                    outlives a restart
//	0x01  NOT_READABLE        an operator says so                 reads                      no
//	0x02  NOT_WRITEABLE       a write or flush of the log failed  puts, writes to queues     yes
//	0x04  LOGICS_QUEUE_ERROR  a write to a queue failed           puts, writes to queues     yes
//	0x08  INDEX_FILE_ERROR    no index file could be made         puts, writes to queues     yes
//	0x10  DISK_FULL           the disk of the log is full         puts                       no
//	0x20  FENCED              the controller says so              puts                       no
//	0x40  LOGIC_DISK_FULL     the disk of RocksDB queues is full  puts, writes to queues     no
//
// No flag forbids to flush what was accepted (W9).
//
// Source: RunningFlags, 5.5.0, which keeps all of them in memory only.
type Flag uint32

// The flags.
const (
	FlagNotReadable      Flag = 0x01
	FlagNotWriteable     Flag = 0x02
	FlagLogicsQueueError Flag = 0x04
	FlagIndexFileError   Flag = 0x08
	FlagDiskFull         Flag = 0x10
	FlagFenced           Flag = 0x20
	FlagLogicDiskFull    Flag = 0x40

	// errorFlags outlive a restart: what caused them does, too. A full disk is looked at anew.
	errorFlags   = FlagNotWriteable | FlagLogicsQueueError | FlagIndexFileError
	noPutFlags   = errorFlags | FlagDiskFull | FlagFenced | FlagLogicDiskFull
	noQueueFlags = errorFlags | FlagLogicDiskFull
)

var flagNames = [...]string{"NOT_READABLE", "NOT_WRITEABLE", "LOGICS_QUEUE_ERROR", "INDEX_FILE_ERROR", "DISK_FULL", "FENCED", "LOGIC_DISK_FULL"}

// String returns RocketMQ's names, joined by '|'; "" for none.
func (f Flag) String() string {
	var names []string
	for rest := uint32(f); rest != 0; rest &= rest - 1 {
		if i := bits.TrailingZeros32(rest); i < len(flagNames) {
			names = append(names, flagNames[i])
		} else {
			names = append(names, fmt.Sprintf("Flag(%#x)", 1<<i))
		}
	}
	return strings.Join(names, "|")
}

// MarshalText is String.
func (f Flag) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// parseFlag is the inverse of String for one flag; 0 for a name that is none.
func parseFlag(name string) Flag {
	for i, n := range flagNames {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

// FlagError is an error flag that is set: when, and why.
type FlagError struct {
	Flag   Flag      `json:"flag"`
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`
}

// RunningFlags are the flags of one store. Asking takes one atomic load. Set and Clear of an error flag write
// <root>/tandemmq/running-flags.json and sync it: hold no lock then that a put takes. The zero value has no flag set and
// writes nothing. All methods may be called concurrently.
type RunningFlags struct {
	bits atomic.Uint32

	fs   mmap.FS
	path string // "": nothing is written

	mu struct {
		sync.Mutex
		errors  []FlagError // of the error flags that are set, oldest first
		others  []FlagError // of the other flags that are set; never written down
		unsaved bool        // the file says something else
	}
}

// runningFlagsName is the file in the state directory.
const runningFlagsName = "running-flags.json"

const runningFlagsVersion = 1

// flagsFile is the JSON in it.
type flagsFile struct {
	Version int         `json:"version"`
	Flags   []flagEntry `json:"flags"`
}

type flagEntry struct {
	Flag   string    `json:"flag"`
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`
}

// OpenRunningFlags reads the error flags that an earlier run of the store left in its state directory. A file that cannot be
// understood sets NOT_WRITEABLE: nobody knows what it said, so the store opens, is read, and takes puts when somebody has
// looked and cleared the flag. fsys nil: mmap.OS. An error is a failed read.
func OpenRunningFlags(fsys mmap.FS, stateDir string) (*RunningFlags, error) {
	if fsys == nil {
		fsys = mmap.OS
	}
	r := &RunningFlags{fs: fsys, path: filepath.Join(stateDir, runningFlagsName)}
	b, err := readFile(fsys, r.path, 1<<20)
	if missing(err) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read running flags: %w", err)
	}
	if r.mu.errors, err = parseFlags(b); err != nil {
		r.mu.errors = []FlagError{{Flag: FlagNotWriteable, Time: time.Now().UTC(), Reason: fmt.Sprintf("read running flags %s: %v", r.path, err)}}
	}
	for _, e := range r.mu.errors {
		r.bits.Or(uint32(e.Flag))
	}
	return r, nil
}

func parseFlags(b []byte) ([]FlagError, error) {
	var file flagsFile
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, err
	}
	if file.Version != runningFlagsVersion {
		return nil, fmt.Errorf("version %d, want %d", file.Version, runningFlagsVersion)
	}
	var set []FlagError
	for _, e := range file.Flags {
		f := parseFlag(e.Flag)
		if f&errorFlags == 0 {
			return nil, fmt.Errorf("%q is no error flag", e.Flag)
		}
		set = append(set, FlagError{Flag: f, Time: e.Time, Reason: e.Reason})
	}
	return set, nil
}

// Bits returns the flags that are set.
func (r *RunningFlags) Bits() Flag { return Flag(r.bits.Load()) }

// CanPut tells whether puts are taken.
func (r *RunningFlags) CanPut() bool { return r.Bits()&noPutFlags == 0 }

// CanWriteQueue tells whether records may be dispatched to queues. Records that were put before the disk was full, or by the
// master of a fenced store, still are.
func (r *RunningFlags) CanWriteQueue() bool { return r.Bits()&noQueueFlags == 0 }

// CanRead tells whether messages are handed out.
func (r *RunningFlags) CanRead() bool { return r.Bits()&FlagNotReadable == 0 }

// String returns the names of the flags that are set.
func (r *RunningFlags) String() string { return r.Bits().String() }

// Errors returns the error flags that are set, oldest first.
func (r *RunningFlags) Errors() []FlagError {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]FlagError(nil), r.mu.errors...)
}

// Reasons returns every flag that is set with the reason that was given, error flags first.
func (r *RunningFlags) Reasons() []FlagError {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.mu.errors, r.mu.others)
}

// noteOthersLocked keeps the reason of flags that are no error flags: the latest, and the time of the first.
func (r *RunningFlags) noteOthersLocked(f Flag, reason string) {
	for rest := f &^ errorFlags; rest != 0; rest &= rest - 1 {
		one := rest & -rest
		if i := slices.IndexFunc(r.mu.others, func(e FlagError) bool { return e.Flag == one }); i >= 0 {
			r.mu.others[i].Reason = reason
			continue
		}
		r.mu.others = append(r.mu.others, FlagError{Flag: one, Time: time.Now().UTC(), Reason: reason})
	}
}

// Set sets the flags of f, at once and whatever it returns. Those of an error are written down with the time and the reason;
// a flag that is set already keeps the first. The error says that the file could not be written: then the flag holds for this
// run, and the next Set or Clear tries again.
func (r *RunningFlags) Set(f Flag, reason string) error {
	r.bits.Or(uint32(f))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteOthersLocked(f, reason)
	if f&errorFlags == 0 {
		r.bits.Or(uint32(f)) // a Clear between the first line and the lock
		return nil
	}
	for rest := f & errorFlags; rest != 0; rest &= rest - 1 {
		one := rest & -rest
		if r.indexLocked(one) < 0 {
			r.mu.errors = append(r.mu.errors, FlagError{Flag: one, Time: time.Now().UTC(), Reason: reason})
			r.mu.unsaved = true
		}
	}
	r.bits.Or(uint32(f)) // a Clear between the first line and the lock
	return r.saveLocked()
}

// Clear clears the flags of f. Error flags are cleared in the file first: after an error they are still set.
func (r *RunningFlags) Clear(f Flag) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.others = slices.DeleteFunc(r.mu.others, func(e FlagError) bool { return e.Flag&f != 0 })
	if f&errorFlags != 0 {
		before := r.mu.errors
		r.mu.errors = nil
		for _, e := range before {
			if e.Flag&f == 0 {
				r.mu.errors = append(r.mu.errors, e)
			} else {
				r.mu.unsaved = true
			}
		}
		if err := r.saveLocked(); err != nil {
			r.mu.errors = before
			return err
		}
	}
	r.bits.And(^uint32(f))
	return nil
}

// indexLocked returns where flag is in the list, -1 for nowhere.
func (r *RunningFlags) indexLocked(flag Flag) int {
	for i, e := range r.mu.errors {
		if e.Flag == flag {
			return i
		}
	}
	return -1
}

// saveLocked writes the file if it says something else.
func (r *RunningFlags) saveLocked() error {
	if r.path == "" || !r.mu.unsaved {
		return nil
	}
	file := flagsFile{Version: runningFlagsVersion, Flags: []flagEntry{}}
	for _, e := range r.mu.errors {
		file.Flags = append(file.Flags, flagEntry{Flag: e.Flag.String(), Time: e.Time, Reason: e.Reason})
	}
	b, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return fmt.Errorf("write running flags: %w", err)
	}
	dir := filepath.Dir(r.path)
	if err := r.fs.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write running flags: %w", err)
	}
	if err := r.fs.SyncDir(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("write running flags: %w", err)
	}
	if err := replaceFile(r.fs, r.path, append(b, '\n')); err != nil {
		return fmt.Errorf("write running flags: %w", err)
	}
	r.mu.unsaved = false
	return nil
}
