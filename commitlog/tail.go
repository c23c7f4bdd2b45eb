package commitlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// Chunk returns the bytes of the log from physical offset from on: to the end of their file, or to where readers stop. They are nil, with release nil, where from is that place itself. They
// stay valid until release is called, exactly once; touching them may fault, see GuardFault. Nothing is verified.
//
// Errors: *RangeError for a position that the log has no file for; ErrClosed, and why a file could not be mapped.
//
// Source: CommitLog.getData, 5.5.0.
func (l *Log) Chunk(from int64) (b []byte, release func(), err error) {
	to := l.readTo()
	if from == to {
		return nil, nil, nil
	}
	f, ok := l.queue.Find(from)
	if !ok || from > to {
		return nil, nil, &RangeError{PhyOffset: from, Min: l.queue.MinOffset(), Max: to}
	}
	data, err := f.Hold()
	if errors.Is(err, mappedfile.ErrRemoved) { // meanwhile
		return nil, nil, &RangeError{PhyOffset: from, Min: max(f.End(), l.queue.MinOffset()), Max: to}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read commit log at physical offset %d: %w", from, err)
	}
	end := min(f.Size(), to-f.From())
	return data[from-f.From() : end : end], f.Releaser(), nil
}

// FileEnd returns the physical offset just past the file that holds phy.
func (l *Log) FileEnd(phy int64) int64 {
	size := l.FileSize()
	return phy - phy%size + size
}

// AwaitConfirm returns when messages beyond physical offset from may be read: Positions().Confirm, or with uncommitted set
// Positions().Committed, is above it. It returns false when ctx ends first, or a write or sync has failed or the log was closed and nothing more will come.
//
// It costs the puts nothing while nobody waits.
func (w *Writer) AwaitConfirm(ctx context.Context, from int64, uncommitted bool) bool {
	for {
		ch, done := w.tail.await()
		p := w.Positions()
		end := p.Confirm
		if uncommitted {
			end = p.Committed
		}
		if end > from || w.over.Load() || w.diskFailure() != nil { // behind a hole nothing comes, but before it something may
			done()
			return end > from
		}
		select {
		case <-ch:
			done()
		case <-ctx.Done():
			done()
			return false
		}
	}
}
