package mmap

import (
	"context"
	"fmt"
)

// rewritePiece is how many bytes Rewrite has in hand.
const rewritePiece = 1 << 20

// Rewrite reads bytes [from, to) of f and writes them in place, holes excepted, then syncs the file. It returns how many bytes it wrote.
//
// It is for after a failed sync: the kernel then has pages that it takes for clean and that are not on the disk. Read they give what was put; they are lost when memory
// needs their room, or with the machine. Written again they are dirty, and a sync that succeeds is worth something. Nothing else may write to the range meanwhile.
func Rewrite(ctx context.Context, f File, from, to int64) (n int64, err error) {
	b := make([]byte, min(rewritePiece, max(to-from, 0)))
	for from < to {
		start, end, err := f.NextData(from)
		if err != nil {
			return n, err
		}
		for end = min(end, to); start < end; {
			if err := ctx.Err(); err != nil {
				return n, err
			}
			piece := b[:min(int64(len(b)), end-start)]
			if _, err := f.ReadAt(piece, start); err != nil {
				return n, fmt.Errorf("write again: %w", err)
			}
			if _, err := f.WriteAt(piece, start); err != nil {
				return n, fmt.Errorf("write again: %w", err)
			}
			start += int64(len(piece))
			n += int64(len(piece))
		}
		from = max(end, from+1)
	}
	return n, f.Datasync()
}
