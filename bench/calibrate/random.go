package calibrate

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// pageBytes is the size of random reads and writes.
const pageBytes = 4096

// CopyCold copies records of RecordBytes one after the other into a mapped file whose blocks are reserved and whose pages have never been touched, and returns bytes a second.
func CopyCold(dir string, size int64) (bytesPerSecond float64, err error) {
	err = withFile(dir, func(f *os.File) error {
		if err := mmap.Preallocate(f, 0, size); err != nil {
			return err
		}
		region, err := mmap.Map(f, size, true)
		if err != nil {
			return err
		}
		to, record := region.Bytes(), make([]byte, RecordBytes)
		start := time.Now()
		for at := 0; at+RecordBytes <= len(to); at += RecordBytes {
			copy(to[at:], record)
		}
		bytesPerSecond = float64(size) / time.Since(start).Seconds()
		return region.Unmap()
	})
	return bytesPerSecond, named("cold copies", err)
}

func named(what string, err error) error {
	if err != nil {
		return fmt.Errorf("calibrate %s: %w", what, err)
	}
	return nil
}

// Checksum takes the CRC-32 (IEEE) of records of RecordBytes for about d and returns bytes a second.
func Checksum(d time.Duration) (bytesPerSecond float64) {
	record := make([]byte, RecordBytes)
	return RecordBytes * cycle(make([]byte, RecordBytes), d, func([]byte) {
		sum := crc32.ChecksumIEEE(record)
		record[RecordBytes-1] = byte(sum) // so that it cannot be left out by the compiler
	})
}

// RandomWrites writes n pages at random places of a file whose blocks are reserved, and returns writes a second until fdatasync has returned.
func RandomWrites(dir string, size int64, n int) (perSecond float64, err error) {
	err = withFile(dir, func(f *os.File) error {
		if err := errors.Join(mmap.Preallocate(f, 0, size), f.Sync()); err != nil {
			return err
		}
		page := make([]byte, pageBytes)
		start := time.Now()
		for range n {
			if _, err := f.WriteAt(page, rand.Int64N(size/pageBytes)*pageBytes); err != nil {
				return err
			}
		}
		if err := mmap.Datasync(f); err != nil {
			return err
		}
		perSecond = float64(n) / time.Since(start).Seconds()
		return nil
	})
	return perSecond, named("random writes", err)
}

// fillCold writes so many bytes into an empty file, and has the kernel forget them.
func fillCold(f *os.File, size int64) error {
	piece := make([]byte, writePiece)
	for at := int64(0); at < size; at += writePiece {
		if _, err := f.WriteAt(piece[:min(writePiece, size-at)], at); err != nil {
			return err
		}
	}
	return DropCache([]string{f.Name()})
}

// RandomReads reads n pages at random places of a file of which nothing is in memory when it begins, one after the other, and returns reads a second.
func RandomReads(dir string, size int64, n int) (perSecond float64, err error) {
	err = withFile(dir, func(f *os.File) error {
		if err := fillCold(f, size); err != nil {
			return err
		}
		page := make([]byte, pageBytes)
		start := time.Now()
		for range n {
			if _, err := f.ReadAt(page, rand.Int64N(size/pageBytes)*pageBytes); err != nil {
				return err
			}
		}
		perSecond = float64(n) / time.Since(start).Seconds()
		return nil
	})
	return perSecond, named("random reads", err)
}

// Read writes a file of so many bytes, has the kernel forget it, and returns bytes a second of reading it from end to end.
func Read(dir string, size int64) (bytesPerSecond float64, err error) {
	err = withFile(dir, func(f *os.File) error {
		if err := fillCold(f, size); err != nil {
			return err
		}
		bytesPerSecond, err = SequentialRead([]string{f.Name()})
		return err
	})
	return bytesPerSecond, named("sequential reads", err)
}

// BusyAppend is Append beside another who writes a large file of size bytes all the time, again and again.
func BusyAppend(dir string, size int64, d time.Duration) (s Synced, err error) {
	err = withFile(dir, func(f *os.File) error {
		var stop atomic.Bool
		wrote := make(chan error, 1)
		go func() {
			piece := make([]byte, writePiece)
			for at := int64(0); !stop.Load(); at = (at + writePiece) % size {
				if _, err := f.WriteAt(piece, at); err != nil {
					wrote <- err
					return
				}
			}
			wrote <- nil
		}()
		s, err = Append(dir, d)
		stop.Store(true)
		return errors.Join(err, <-wrote)
	})
	return s, named("appends beside writes", err)
}
