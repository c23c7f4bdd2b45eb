package calibrate

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"syscall"
	"time"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// RecordBytes is the size of the records that calibration copies and appends.
const RecordBytes = 1024

// Sizes of Memory. The region is larger than the caches that belong to one core, as a log is; the batch is how many
// records are copied between two looks at the clock, so that the looks cost nothing.
const (
	regionBytes = 256 << 20
	copyBatch   = 4096
)

// Copy is what storing a record costs at the very least.
type Copy struct {
	// CopyPerSecond is M: records of RecordBytes that one thread copies into mapped and populated pages of a file, a second.
	CopyPerSecond float64 `json:"copyPerSecond"`
	// CopyCRCNanos is the time of one such copy with the CRC-32 of the record taken before it.
	CopyCRCNanos float64 `json:"copyCrcNanos"`
	// PopulateNanos is the time to bring in one page of the file, with its blocks reserved before: what no store can do without
	// for every new page of a log, on whatever thread.
	PopulateNanos float64 `json:"populateNanos"`
}

// Memory measures both rates for about d each, in a file below dir.
func Memory(dir string, d time.Duration) (Copy, error) { return memory(dir, regionBytes, d) }

func memory(dir string, size int64, d time.Duration) (c Copy, err error) {
	err = withFile(dir, func(f *os.File) error {
		region, took, err := populated(f, size)
		if err != nil {
			return err
		}
		c.PopulateNanos = float64(took) * float64(os.Getpagesize()) / float64(size)
		defer func() { _ = region.Unmap() }()
		to, record := region.Bytes(), make([]byte, RecordBytes)
		for i := range record {
			record[i] = byte(i)
		}
		c.CopyPerSecond = cycle(to, d, func(dst []byte) { copy(dst, record) })
		// The sum goes into the record: neither can be left out by the compiler.
		perSecond := cycle(to, d, func(dst []byte) {
			sum := crc32.ChecksumIEEE(record[:RecordBytes-4])
			record[RecordBytes-1] = byte(sum)
			copy(dst, record)
		})
		c.CopyCRCNanos = 1e9 / perSecond
		return nil
	})
	if err != nil {
		return Copy{}, fmt.Errorf("calibrate memory: %w", err)
	}
	return c, nil
}

// cycle calls store with one record's place after the other, from the front again at the end, for about d, and returns
// the calls a second.
func cycle(to []byte, d time.Duration, store func(dst []byte)) float64 {
	start, n, at := time.Now(), 0, 0
	for {
		for range copyBatch {
			store(to[at : at+RecordBytes])
			if at += RecordBytes; at+RecordBytes > len(to) {
				at = 0
			}
		}
		n += copyBatch
		if elapsed := time.Since(start); elapsed >= d {
			return float64(n) / elapsed.Seconds()
		}
	}
}

// populatePiece is how much is populated in one call: longer ones hold up everybody who needs the address space.
const populatePiece = 4 << 20

// populated maps the file in full, with every page present and writable, and tells how long bringing them in took.
func populated(f *os.File, size int64) (region *mmap.Region, took time.Duration, err error) {
	if err := mmap.Preallocate(f, 0, size); err != nil {
		return nil, 0, err
	}
	if region, err = mmap.Map(f, size, true); err != nil {
		return nil, 0, err
	}
	start := time.Now()
	for off := int64(0); off < size; off += populatePiece {
		if err := region.Advise(off, min(populatePiece, size-off), mmap.PopulateWrite); err != nil {
			// A kernel before 5.14: the blocks are there, so touching is as good.
			b := region.Bytes()
			for i := off; i < size; i += int64(os.Getpagesize()) {
				b[i] = 0
			}
			break
		}
	}
	return region, time.Since(start), nil
}

// Touch brings so many bytes of memory in and gives them back, but not more than half of what is free.
func Touch(bytes int64) error {
	var s syscall.Sysinfo_t
	if err := syscall.Sysinfo(&s); err != nil {
		return fmt.Errorf("free memory: %w", err)
	}
	if free := int64(s.Freeram) * int64(s.Unit); bytes > free/2 {
		bytes = free / 2
	}
	if bytes < int64(os.Getpagesize()) {
		return nil
	}
	b, err := syscall.Mmap(-1, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS|syscall.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("bring in %d bytes of memory: %w", bytes, err)
	}
	return syscall.Munmap(b)
}

// withFile gives use a new file below dir and removes it afterwards, whatever happens.
func withFile(dir string, use func(*os.File) error) error {
	f, err := os.CreateTemp(dir, "calibrate-")
	if err != nil {
		return err
	}
	return errors.Join(use(f), f.Close(), os.Remove(f.Name()))
}
