package calibrate

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// DropCache syncs the files and has the kernel forget what it has of them in memory, so that the next reader waits for the disk.
func DropCache(paths []string) error {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if err := errors.Join(mmap.Datasync(f), mmap.DropCache(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// SequentialRead reads the files from end to end, one after the other, in pieces of 1 MiB, and returns bytes a second. What is in memory is read from there.
func SequentialRead(paths []string) (bytesPerSecond float64, err error) {
	return SequentialReadOf(paths, math.MaxInt64)
}

// SequentialReadOf is SequentialRead of the first bytes of the files: behind those of a log there is nothing on the disk.
func SequentialReadOf(paths []string, bytes int64) (bytesPerSecond float64, err error) {
	piece, total, start := make([]byte, 1<<20), int64(0), time.Now()
	for _, path := range paths {
		n, err := readThrough(path, piece, bytes-total)
		if err != nil {
			return 0, fmt.Errorf("calibrate reads: %w", err)
		}
		total += n
	}
	return float64(total) / time.Since(start).Seconds(), nil
}

func readThrough(path string, piece []byte, most int64) (n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for n < most {
		k, err := f.Read(piece[:min(int64(len(piece)), most-n)])
		n += int64(k)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
