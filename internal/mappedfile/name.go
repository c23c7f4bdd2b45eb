package mappedfile

import (
	"errors"
	"fmt"
	"strconv"
)

// nameDigits is the length of a file name: the decimal digits of math.MaxInt64, 19, and one more.
// Source: UtilAll.offset2FileName, 5.5.0.
const nameDigits = 20

// Name returns the name of the file whose first byte is at position off >= 0.
func Name(off int64) string { return fmt.Sprintf("%0*d", nameDigits, off) }

// ParseName is the inverse of Name. It is false for everything that Name never returns.
func ParseName(s string) (off int64, ok bool) {
	if len(s) != nameDigits {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	off, err := strconv.ParseInt(s, 10, 64)
	return off, err == nil
}

// Classes of error.
var (
	ErrLayout   = errors.New("directory is no run of equal files")
	ErrClosed   = errors.New("files are closed")
	ErrRemoved  = errors.New("file was removed from its queue")
	ErrReadOnly = errors.New("file queue is open read-only")
	ErrLimit    = errors.New("limit of mapped files reached")
)

var errNoSize = errors.New("the directory is empty and no file size was given")

// FileError names the file that breaks the run. It matches ErrLayout.
type FileError struct {
	Path   string
	Offset int64 // position of the file's first byte, by its name
	Want   string
	Got    string
}

func (e *FileError) Error() string {
	return fmt.Sprintf("open mapped file %s: got %s, want %s", e.Path, e.Got, e.Want)
}

// Is matches ErrLayout.
func (e *FileError) Is(target error) bool { return target == ErrLayout }
