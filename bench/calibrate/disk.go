package calibrate

import (
	"fmt"
	"os"
	"time"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Synced is the bare cost of making small appends durable, one after the other.
type Synced struct {
	PerSecond float64 `json:"perSecond"` // appends of RecordBytes, each followed by fdatasync
	Latency   Summary `json:"latency"`
	// DeviceBytesPerSync is what the block device wrote for each; negative when that cannot be told.
	DeviceBytesPerSync float64 `json:"deviceBytesPerSync"`
}

// appendFileBytes bounds the file of Append; at its end the appends begin again at the front.
const appendFileBytes = 256 << 20

// Append writes a record with pwrite into a file whose blocks are reserved and calls fdatasync, for about d.
func Append(dir string, d time.Duration) (s Synced, err error) {
	err = withFile(dir, func(f *os.File) error {
		if err := mmap.Preallocate(f, 0, appendFileBytes); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		device := DeviceOf(dir)
		before, known := device.Written()
		record, latency, n := make([]byte, RecordBytes), NewLatency(), 0
		start := time.Now()
		for last := start; last.Sub(start) < d; n++ {
			record[0] = byte(n)
			if _, err := f.WriteAt(record, int64(n)*RecordBytes%appendFileBytes); err != nil {
				return err
			}
			if err := mmap.Datasync(f); err != nil {
				return err
			}
			now := time.Now()
			latency.Record(now.Sub(last))
			last = now
		}
		s = Synced{PerSecond: float64(n) / time.Since(start).Seconds(), Latency: latency.Summary(), DeviceBytesPerSync: -1}
		if after, ok := device.Written(); ok && known {
			s.DeviceBytesPerSync = float64(after-before) / float64(n)
		}
		return nil
	})
	if err != nil {
		return Synced{}, fmt.Errorf("calibrate appends: %w", err)
	}
	return s, nil
}

// writePiece is the size of one write of WriteBack.
const writePiece = 1 << 20

// WriteBack writes size bytes one after the other into a new file, as dd does, and returns bytes a second until
// fdatasync has returned.
func WriteBack(dir string, size int64) (bytesPerSecond float64, err error) {
	err = withFile(dir, func(f *os.File) error {
		piece := make([]byte, writePiece)
		for i := range piece {
			piece[i] = byte(i)
		}
		start := time.Now()
		for off := int64(0); off < size; off += writePiece {
			if _, err := f.WriteAt(piece[:min(writePiece, size-off)], off); err != nil {
				return err
			}
		}
		if err := mmap.Datasync(f); err != nil {
			return err
		}
		bytesPerSecond = float64(size) / time.Since(start).Seconds()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("calibrate write-back: %w", err)
	}
	return bytesPerSecond, nil
}
