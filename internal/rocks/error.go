//go:build cgo

package rocks

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
)

// ErrClosed is what every call after Close answers.
var ErrClosed = errors.New("RocksDB is closed")

// ErrReadOnly is what every write to a database opened by OpenReadOnly answers.
var ErrReadOnly = errors.New("RocksDB is open read-only")

// Error is an answer of RocksDB, with the operation and the directory.
type Error struct {
	Op   string // what was attempted, e.g. "open" or "read units"
	Dir  string // the database directory
	Text string // RocksDB's status, e.g. "Corruption: ..."
	Err  error  // cause outside RocksDB, may be nil

	families FamilySet // of the database that was to be opened
}

func (e *Error) Error() string {
	s := e.Op + " RocksDB in " + e.Dir + ": " + e.Text
	if e.Err != nil {
		s += e.Err.Error()
	}
	if e.Op == opOpen && e.Err == nil && !e.Locked() && !e.NoSpace() && !strings.Contains(e.Text, "Permission denied") && e.families.view() {
		what := "consume queues"
		if e.families == IndexFamilies {
			what = "message index"
		}
		s += "; its content is a view: rebuild the " + what + " from the CommitLog"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Corruption tells whether RocksDB found its files damaged or missing.
func (e *Error) Corruption() bool {
	return strings.HasPrefix(e.Text, "Corruption") || e.Op == opOpen && strings.Contains(e.Text, "No such file")
}

// Place returns the file of the database that RocksDB names, "" where it names none, and the offset in it of what is wrong, -1 where that is not told.
//
// Source: BlockFetcher, 9.11.2: "block checksum mismatch: stored = 1, computed = 2, type = 4  in /db/000012.sst offset 0 size 3999".
func (e *Error) Place() (file string, offset int64) {
	begin := strings.Index(e.Text, e.Dir+"/")
	if begin < 0 {
		return "", -1
	}
	rest := e.Text[begin+len(e.Dir)+1:]
	name := rest[:len(rest)-len(strings.TrimLeftFunc(rest, func(r rune) bool {
		return r == '.' || r == '-' || r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r))
	}))]
	if name == "" {
		return "", -1
	}
	at, offset := strings.TrimLeft(rest[len(name):], ", "), int64(-1)
	if digits, ok := strings.CutPrefix(at, "offset "); ok {
		digits = digits[:len(digits)-len(strings.TrimLeft(digits, "0123456789"))]
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
			offset = n
		}
	}
	return filepath.Join(e.Dir, strings.TrimRight(name, ".")), offset
}

// Lost tells whether a file that the open database needs is not there any more.
func (e *Error) Lost() bool {
	return e.Op != opOpen && strings.HasPrefix(e.Text, "IO error") && strings.Contains(e.Text, "No such file or directory")
}

// Locked tells whether another process, or another DB of this one, has the database open.
func (e *Error) Locked() bool {
	return strings.Contains(e.Text, "lock") && strings.HasPrefix(e.Text, "IO error")
}

// NoSpace tells whether the disk, or a quota, was full.
func (e *Error) NoSpace() bool {
	return strings.HasPrefix(e.Text, "IO error: No space left on device") || strings.HasPrefix(e.Text, "IO error") && strings.HasSuffix(e.Text, "No space left on device")
}

const opOpen = "open"

func (db *DB) fail(op, text string) error { return &Error{Op: op, Dir: db.dir, Text: text} }
