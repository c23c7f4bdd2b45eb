package commitlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// A log that ends below a position up to which it was durable has lost its end: no crash does that. It is damage to the end of the log, dealt with as its operator says. In either way
// of a repair the log goes on behind what it has lost, and neither a physical offset nor a queue offset is given twice:
//
//	before  | records | zeros, or a torn record |                                        promised to: here, in a file that is gone
//	after   | records | filler                  | filler of a whole file, for each one | zeros
//
// The files of a log that has none left begin behind what it has lost.

// LostEndError tells that a log ends below a position up to which it was durable. It matches ErrCorrupt.
type LostEndError struct {
	File       string // where the log ends; empty where it has no file
	FileOffset int64
	End        int64 // physical offset
	PromisedTo int64 // the log was durable up to here
}

func (e *LostEndError) Error() string {
	return fmt.Sprintf("commit log ends at %s+%d (physical offset %d), and was durable up to physical offset %d: it has lost its end", e.File, e.FileOffset, e.End, e.PromisedTo)
}

// Is matches ErrCorrupt.
func (e *LostEndError) Is(target error) bool { return target == ErrCorrupt }

// PastFiller returns the physical offset behind the filler at end, where a scan of the log ended; end itself where none stands there.
func (l *Log) PastFiller(end int64) (int64, error) {
	f, ok := l.queue.Find(end)
	if !ok {
		return end, nil
	}
	data, err := f.Hold()
	if err != nil {
		return 0, fmt.Errorf("read commit log: %w", err)
	}
	defer f.Release()
	err = mmap.GuardFault(func() error {
		if size, blank := message.BlankSize(data[end-f.From():]); blank && end+int64(size) == f.End() {
			end = f.End()
		}
		return nil
	})
	return end, err
}

// lostEnd returns a *LostEndError for a log that ends at end and was durable up to a position above; nil for any other.
func (l *Log) lostEnd(end ScanEnd, promised int64) (*LostEndError, error) {
	if end.Offset >= promised {
		return nil, nil
	}
	past, err := l.PastFiller(end.Offset)
	if err != nil || past >= promised {
		return nil, err
	}
	return &LostEndError{File: end.File, FileOffset: end.FileOffset, End: end.Offset, PromisedTo: promised}, nil
}

// damage describes the lost end as damage.
func (e *LostEndError) damage(before, storeMs int64) Damage {
	return Damage{
		From: e.End, To: e.PromisedTo, File: e.File, FileOffset: e.FileOffset, LostEnd: true, before: before, storeMs: storeMs,
		Reason: fmt.Sprintf("the log ends here, and was durable up to physical offset %d: its end is lost", e.PromisedTo),
	}
}

// maxLostFiles bounds how many files a repair makes for an end that is lost: 64 TiB of log in files of RocketMQ's size.
const maxLostFiles = 1 << 16

// errCutFile tells that a file is not as long as it was.
var errCutFile = errors.New("the file ends in the middle of a record, so it has been cut short: give it the length back that the files of this log have (mappedFileSizeCommitLog), as with truncate -s, and start again")

// goOn lets the log go on behind the end that it has lost, d. The manifest of a is written before the first change.
func (r *Recovery) goOn(ctx context.Context, a *aside, d *Damage) (replaced int64, err error) {
	q := r.log.queue
	size := q.FileSize()
	if size == 0 {
		return 0, errors.New("go on behind the lost end of the commit log: no file tells how long its files are: give mappedFileSizeCommitLog")
	}
	target := (d.To + size - 1) / size * size
	if n := (target - d.From) / size; n > maxLostFiles && len(q.Files()) > 0 {
		return 0, fmt.Errorf("go on behind the lost end of the commit log: %d files of %d bytes would be made, up to physical offset %d; want at most %d", n, size, d.To, maxLostFiles)
	}
	if f, ok := q.Find(d.From); ok {
		last, err := lastByte(q, d.From)
		if err != nil {
			return 0, err
		}
		if last == f.End() && len(q.Files()) == 1 {
			return 0, fmt.Errorf("go on behind the lost end of the commit log: %s+%d: %w", f.Path(), d.FileOffset, errCutFile)
		}
		if err := a.save(q, d.From, last); err != nil {
			return 0, err
		}
	}
	if err := a.write(); err != nil {
		return 0, err
	}
	for _, f := range q.Files() {
		if f.End() <= d.From {
			continue
		}
		if f.From() >= target {
			if err := eraseAll(f); err != nil {
				return 0, err
			}
			continue
		}
		if err := fill(f, max(d.From-f.From(), 0)); err != nil {
			return 0, fmt.Errorf("go on behind the lost end of the commit log: %w", err)
		}
	}
	from := q.EndOffset()
	if from < 0 {
		from = target
	}
	for ; from <= target; from += size {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		f, err := q.Create(from)
		if err == nil && from < target {
			err = fill(f, 0)
		}
		if err == nil {
			err = q.Adopt(f)
		}
		if err != nil {
			return 0, fmt.Errorf("go on behind the lost end of the commit log: %w", err)
		}
	}
	r.logger.Warn("the commit log goes on behind the end that it has lost", slog.Int64("lostFrom", d.From), slog.Int64("lostTo", d.To), slog.Int64("phyOffset", target), slog.String("dir", a.dir))
	return target - d.From, nil
}

// fill makes the bytes of f from pos on a filler, durably.
func fill(f *mappedfile.File, pos int64) error {
	if f.Size()-pos < message.BlankHeaderSize {
		return fmt.Errorf("%s: %d bytes at its end are too few for a filler", f.Path(), f.Size()-pos)
	}
	p := patch{file: f, from: pos, to: f.Size(), filler: true, sparse: true}
	return p.apply()
}
