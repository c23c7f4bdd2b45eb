package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Sizes and places in the checkpoint file.
const (
	checkpointBytes     = 48              // six i64
	checkpointTrailerAt = checkpointBytes // a copy of them
	checkpointFlushedAt = checkpointTrailerAt + checkpointBytes
	checkpointMagicAt   = checkpointFlushedAt + 8
	checkpointCRCAt     = checkpointMagicAt + 4
	checkpointZeroAt    = checkpointCRCAt + 4
	checkpointFileBytes = 4096 // RocketMQ maps one page

	checkpointMagic = 0x544d5132 // "TMQ2"
)

// Checkpoint is the file checkpoint: how far flushes had come. All integers are big-endian.
//
//	offset  width  name                    type  meaning                                                            field
//	0       8      physicMsgTimestamp      i64   store time (ms) of the newest message known flushed in the log     PhysicMsgTimestampMs
//	8       8      logicsMsgTimestamp      i64   store time (ms) of the newest message whose unit was flushed       LogicsMsgTimestampMs
//	16      8      indexMsgTimestamp       i64   end time (ms) of the last full index file that was flushed         IndexMsgTimestampMs
//	24      8      masterFlushedOffset     i64   high availability: the master's flushed phyOffset                  MasterFlushedOffset
//	32      8      confirmPhyOffset        i64   confirm offset, a phyOffset                                        ConfirmPhyOffset
//	40      8      logicsPhysicalOffset    i64   phyOffset of the START of the newest record with a flushed unit    LogicsPhysicalOffset
//	48      48     copy                    -     bytes 0 to 47 again; zero in RocketMQ's own files
//	96      8      logFlushedOffset        i64   phyOffset below which the log was durable; zero in RocketMQ's own files    LogFlushedOffset
//	104     4      magic                   u32   0x544d5132; zero in RocketMQ's own files
//	108     4      crc                     u32   CRC-32 (IEEE) of bytes 48 to 107; zero in RocketMQ's own files
//	112     3984   -                       -     zero
//
// RocketMQ reads and rewrites bytes 0 to 47 in place and never looks at the rest. So bytes 0 to 47 that equal an intact copy were written here; if they
// differ from an intact copy, RocketMQ has written since, and they count as long as a store can have such values;
// without an intact copy nothing but zeros may stand behind them. Anything else is damage (W46).
//
// An abnormal start of RocketMQ replays the log from LogicsPhysicalOffset (0: from LogicsMsgTimestampMs), so a smaller value
// there costs time and a larger one hides units. Zeros everywhere say that nothing is known.
//
// Source: StoreCheckpoint, 5.5.0.
type Checkpoint struct {
	PhysicMsgTimestampMs int64 `json:"physicMsgTimestamp"`
	LogicsMsgTimestampMs int64 `json:"logicsMsgTimestamp"`
	IndexMsgTimestampMs  int64 `json:"indexMsgTimestamp"`
	MasterFlushedOffset  int64 `json:"masterFlushedOffset"`
	ConfirmPhyOffset     int64 `json:"confirmPhyOffset"`
	LogicsPhysicalOffset int64 `json:"logicsPhysicalOffset"`

	// LogFlushedOffset is an addition, which RocketMQ does not know of: 0 when it wrote the file last.
	LogFlushedOffset int64 `json:"logFlushedOffset"`
}

func (c *Checkpoint) fields() [6]*int64 {
	return [6]*int64{&c.PhysicMsgTimestampMs, &c.LogicsMsgTimestampMs, &c.IndexMsgTimestampMs, &c.MasterFlushedOffset, &c.ConfirmPhyOffset, &c.LogicsPhysicalOffset}
}

// checkpointNames are the fields in the order of fields; the first checkpointTimes are times.
var checkpointNames = [6]string{"physicMsgTimestamp", "logicsMsgTimestamp", "indexMsgTimestamp", "masterFlushedOffset", "confirmPhyOffset", "logicsPhysicalOffset"}

const checkpointTimes = 3

// appendTo appends the 48 bytes.
func (c *Checkpoint) appendTo(dst []byte) []byte {
	for _, f := range c.fields() {
		dst = binary.BigEndian.AppendUint64(dst, uint64(*f))
	}
	return dst
}

// decode reads the first 48 bytes of b.
func (c *Checkpoint) decode(b []byte) {
	for i, f := range c.fields() {
		*f = int64(binary.BigEndian.Uint64(b[8*i:]))
	}
}

// image returns the whole file.
func (c *Checkpoint) image() []byte {
	b := c.appendTo(make([]byte, 0, checkpointFileBytes))
	b = c.appendTo(b)
	b = binary.BigEndian.AppendUint64(b, uint64(c.LogFlushedOffset))
	b = binary.BigEndian.AppendUint32(b, checkpointMagic)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[checkpointTrailerAt:checkpointCRCAt]))
	return b[:checkpointFileBytes]
}

// CheckpointFault is what is wrong with a checkpoint file.
type CheckpointFault int

// The faults.
const (
	CheckpointShort      CheckpointFault = iota + 1 // cut: neither empty nor 4096 bytes
	CheckpointDamaged                               // what stands behind the 48 bytes is neither zero nor an intact copy
	CheckpointImpossible                            // a value that no store can have
	CheckpointFuture                                // a time later than now; of a clock that was set back, or of damage
)

func (f CheckpointFault) String() string {
	switch f {
	case CheckpointShort:
		return "short"
	case CheckpointDamaged:
		return "damaged"
	case CheckpointImpossible:
		return "impossible"
	case CheckpointFuture:
		return "in the future"
	}
	return fmt.Sprintf("CheckpointFault(%d)", int(f))
}

// CheckpointError tells that a checkpoint file is there and cannot be believed. A start warns and recovers as if it were all
// zeros, which takes longer and loses nothing.
type CheckpointError struct {
	Path   string
	Fault  CheckpointFault
	Detail string // what was found and what was expected
}

func (e *CheckpointError) Error() string {
	return fmt.Sprintf("read checkpoint %s: %s: %s", e.Path, e.Fault, e.Detail)
}

// ReadCheckpoint reads a checkpoint file. A file of no length (RocketMQ died while it made it) reads as zeros, as it does
// there. Errors: fs.ErrNotExist when there is none; *CheckpointError, with the fields as the file has them in case it is
// only CheckpointFuture and with zeros otherwise; or a failed read.
func ReadCheckpoint(path string) (Checkpoint, error) {
	c, _, err := readCheckpoint(mmap.OS, path, time.Now())
	return c, err
}

// readCheckpoint is ReadCheckpoint; ours tells that this module was the last to write the file.
func readCheckpoint(fsys mmap.FS, path string, now time.Time) (c Checkpoint, ours bool, err error) {
	b, err := readFile(fsys, path, checkpointFileBytes)
	if err != nil {
		return c, false, fmt.Errorf("read checkpoint: %w", err)
	}
	if len(b) == 0 {
		return c, false, nil
	}
	bad := func(fault CheckpointFault, format string, args ...any) error {
		return &CheckpointError{Path: path, Fault: fault, Detail: fmt.Sprintf(format, args...)}
	}
	if len(b) < checkpointFileBytes {
		return c, false, bad(CheckpointShort, "%d bytes, want %d", len(b), checkpointFileBytes)
	}
	want := binary.BigEndian.Uint32(b[checkpointCRCAt:])
	intact := binary.BigEndian.Uint32(b[checkpointMagicAt:]) == checkpointMagic && want == crc32.ChecksumIEEE(b[checkpointTrailerAt:checkpointCRCAt])
	zeroFrom := checkpointTrailerAt
	if intact {
		zeroFrom = checkpointZeroAt
	}
	for i, v := range b[zeroFrom:] {
		if v != 0 {
			return c, false, bad(CheckpointDamaged, "byte %d is 0x%02x, and there is no intact copy of the first %d bytes behind them", zeroFrom+i, v, checkpointBytes)
		}
	}
	c.decode(b)
	fault, detail := c.check(now)
	if fault == CheckpointImpossible {
		return Checkpoint{}, false, bad(fault, "%s", detail)
	}
	if fault != 0 {
		err = bad(fault, "%s", detail)
	}
	ours = intact && string(b[:checkpointBytes]) == string(b[checkpointTrailerAt:checkpointFlushedAt])
	if ours {
		c.LogFlushedOffset = max(int64(binary.BigEndian.Uint64(b[checkpointFlushedAt:])), 0)
	}
	return c, ours, err
}

// What check puts up with. The clock of a machine is set back by seconds now and then; a century is no clock's fault.
const (
	checkpointAheadOfClock = time.Minute
	checkpointNoClock      = 100 * 365 * 24 * time.Hour
	checkpointMaxPhyOffset = 1 << 60 // an exabyte of log
)

// check looks for values that no store can have. RocketMQ has -1 in positions that it does not know.
func (c *Checkpoint) check(now time.Time) (fault CheckpointFault, detail string) {
	for i, f := range c.fields() {
		low, high := int64(-1), int64(checkpointMaxPhyOffset)
		if i < checkpointTimes {
			low, high = 0, now.Add(checkpointNoClock).UnixMilli()
		}
		if *f < low || *f > high {
			return CheckpointImpossible, fmt.Sprintf("%s is %d, want %d to %d", checkpointNames[i], *f, low, high)
		}
		if latest := now.Add(checkpointAheadOfClock).UnixMilli(); i < checkpointTimes && *f > latest && fault == 0 {
			fault, detail = CheckpointFuture, fmt.Sprintf("%s is %d, want at most %d, the clock of this machine", checkpointNames[i], *f, latest)
		}
	}
	return fault, detail
}

// WriteCheckpoint replaces the checkpoint file and makes it durable: after a crash at any point the old one or the new one is
// there. The caller holds the store's lock.
func WriteCheckpoint(path string, c Checkpoint) error { return writeCheckpoint(mmap.OS, path, c) }

func writeCheckpoint(fsys mmap.FS, path string, c Checkpoint) error {
	if err := replaceFile(fsys, path, c.image()); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return nil
}

// UpdateCheckpoint reads the file, lets change alter what it will, and writes it back; a missing file starts at zeros, and
// times in the future are kept. The caller holds the store's lock. A file that cannot be believed is an error and stays as it is.
func UpdateCheckpoint(path string, change func(*Checkpoint)) error {
	c, err := ReadCheckpoint(path)
	var bad *CheckpointError
	switch {
	case err == nil || missing(err):
	case errors.As(err, &bad) && bad.Fault == CheckpointFuture:
	case bad != nil:
		return fmt.Errorf("%w (move the file away: the next start then recovers from the log alone, and takes longer)", err)
	default:
		return err
	}
	change(&c)
	return WriteCheckpoint(path, c)
}

// readFile returns the first limit bytes of a file, or all of it if it has less.
func readFile(fsys mmap.FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(size, limit))
	if n, err := f.ReadAt(b, 0); err != nil && (n < len(b) || !errors.Is(err, io.EOF)) {
		return nil, err
	}
	return b, nil
}
