package commitlog

import (
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// Files leave the log at its beginning alone, oldest first. Which may go is the caller's decision; what is here sees to it that the log
// stays one.

// LogFile is a file of the log.
type LogFile struct {
	Path      string
	From, End int64 // physical offsets of its first byte, and just past its last
}

// Files lists the files, oldest first, those made ahead included.
func (l *Log) Files() []LogFile {
	files := l.queue.Files()
	list := make([]LogFile, len(files))
	for i, f := range files {
		list[i] = LogFile{f.Path(), f.From(), f.End()}
	}
	return list
}

// First returns the oldest file; false when there is none.
func (l *Log) First() (LogFile, bool) {
	files := l.queue.Files()
	if len(files) == 0 {
		return LogFile{}, false
	}
	return LogFile{files[0].Path(), files[0].From(), files[0].End()}, true
}

// ChangedMs returns when the filesystem says that the file which begins at from last changed, in Unix milliseconds.
func (l *Log) ChangedMs(from int64) (int64, error) { return l.queue.ChangedMs(from) }

// ErrNoRecord is what LastStoreTime answers of a file without a valid record.
var ErrNoRecord = errors.New("no record in the file")

// firstTailWindow is how much of the end of a file is searched at first for its last record, and four times as much after each failure.
const firstTailWindow = 64 << 10

// LastStoreTime returns the store time, in Unix milliseconds, of the last record in the file that begins at from. It reads the end of the file: the
// last 64 KiB, and more only when no record begins there. What is no record between records is passed over.
//
// Errors: *RangeError without such a file; ErrNoRecord; those of a file that cannot be read.
func (l *Log) LastStoreTime(from int64) (ms int64, err error) {
	f, ok := l.queue.Find(from)
	if !ok {
		return 0, &RangeError{PhyOffset: from, Min: l.queue.MinOffset(), Max: l.queue.EndOffset()}
	}
	data, err := f.Hold()
	if err != nil {
		return 0, fmt.Errorf("look for the last record of %s: %w", f.Path(), err)
	}
	defer f.Release()
	data = data[:min(f.Size(), max(l.readTo()-f.From(), 0))]
	found := false
	err = mmap.GuardFault(func() error {
		for window := int64(firstTailWindow); !found; window *= 4 {
			low := max(int64(len(data))-window, 0)
			ms, found = lastStoredAt(f, data, low)
			if low == 0 {
				break
			}
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: %w", f.Path(), ErrNoRecord)
	}
	return ms, err
}

// lastStoredAt returns the store time of the last record that begins at byte low or above.
func lastStoredAt(f *mappedfile.File, data []byte, low int64) (ms int64, found bool) {
	size := int64(len(data))
	for at := findRecord(f, data, low, low, size); at >= 0; at = findRecord(f, data, low, low, size) {
		var r message.Record
		for at < size && r.Decode(data[at:], false) == nil && r.PhyOffset == f.From()+at {
			ms, found = r.StoreTimestampMs, true
			at += int64(r.TotalSize)
		}
		if n, blank := message.BlankSize(data[min(at, size):]); blank && at+int64(n) == f.Size() {
			break
		}
		low = at // damage
	}
	return ms, found
}

// KeptError tells that the first file of a log must not be removed.
type KeptError struct {
	File LogFile
	Why  string
}

func (e *KeptError) Error() string {
	return fmt.Sprintf("remove %s from the commit log: %s", e.File.Path, e.Why)
}

// RemoveFirst unlinks the first file, durably when it returns nil: the log then begins with the next one. Readers that hold records of it keep them.
// removed is true when the file is gone; with an error then, that is not yet durable.
//
// A file that cannot be unlinked stays, the error says why, and a later call tries again (W34). A *KeptError is the answer while the file behind it
// has no durable record: the log always keeps its last record and with it its end and its clock.
func (w *Writer) RemoveFirst() (f LogFile, removed bool, err error) {
	f, ok := w.log.First()
	if !ok {
		return f, false, errors.New("remove the first file of the commit log: there is none")
	}
	if flushed := w.pos.Flushed(); flushed <= f.End {
		return f, false, &KeptError{f, fmt.Sprintf("it holds the last durable record; the log is flushed to %d", flushed)}
	}
	if err = w.queue.RemoveFirst(); err != nil {
		err = fmt.Errorf("commit log: %w", err)
	}
	return f, w.log.MinOffset() > f.From, err
}
