package commitlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// Rewrite writes all bytes at and above physical offset from again, in place, and syncs them, see mmap.Rewrite. It returns how many. Cut off, it is begun anew; the log is the same all the
// time.
func (r *Recovery) Rewrite(ctx context.Context, from int64) (n int64, err error) {
	if r.o.ReadOnly {
		return 0, fmt.Errorf("write commit log again: %w", mappedfile.ErrReadOnly)
	}
	total := max(r.log.queue.EndOffset()-max(from, r.log.MinOffset()), 0)
	for _, f := range r.log.queue.Files() {
		if f.End() <= from || f.ReadOnly() {
			continue
		}
		h, err := f.OpenFile()
		if err != nil {
			return n, err
		}
		more, err := mmap.Rewrite(ctx, h, max(from-f.From(), 0), f.Size())
		n += more
		if err := errors.Join(err, h.Close()); err != nil {
			return n, err
		}
		r.progress(f.End()-max(from, r.log.MinOffset()), total)
	}
	return n, nil
}
