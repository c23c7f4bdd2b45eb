package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Sizes of the checkpoint file.
const (
	checkpointBytes     = 48   // six i64
	checkpointFileBytes = 4096 // RocketMQ maps one page; the rest is zero
)

// Checkpoint is the file checkpoint: how far flushes had come. All integers are big-endian i64.
//
//	offset  width  name                    meaning                                                            field
//	0       8      physicMsgTimestamp      store time (ms) of the newest message known flushed in the log     PhysicMsgTimestampMs
//	8       8      logicsMsgTimestamp      store time (ms) of the newest message whose unit was flushed       LogicsMsgTimestampMs
//	16      8      indexMsgTimestamp       end time (ms) of the last full index file that was flushed         IndexMsgTimestampMs
//	24      8      masterFlushedOffset     high availability: the master's flushed phyOffset                  MasterFlushedOffset
//	32      8      confirmPhyOffset        confirm offset, a phyOffset                                        ConfirmPhyOffset
//	40      8      logicsPhysicalOffset    phyOffset of the START of the newest record with a flushed unit    LogicsPhysicalOffset
//	48      4048   -                       zero
//
// An abnormal start of RocketMQ replays the log from LogicsPhysicalOffset (0: from LogicsMsgTimestampMs), so a smaller value
// there costs time and a larger one hides units.
//
// Source: StoreCheckpoint, 5.5.0.
type Checkpoint struct {
	PhysicMsgTimestampMs int64
	LogicsMsgTimestampMs int64
	IndexMsgTimestampMs  int64
	MasterFlushedOffset  int64
	ConfirmPhyOffset     int64
	LogicsPhysicalOffset int64
}

func (c *Checkpoint) fields() [6]*int64 {
	return [6]*int64{&c.PhysicMsgTimestampMs, &c.LogicsMsgTimestampMs, &c.IndexMsgTimestampMs, &c.MasterFlushedOffset, &c.ConfirmPhyOffset, &c.LogicsPhysicalOffset}
}

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

// ReadCheckpoint reads a checkpoint file. A file of no length (RocketMQ died while it made it) reads as zeros, as it does
// there. Errors: fs.ErrNotExist when there is none; a file cut within its 48 bytes is named with its length.
func ReadCheckpoint(path string) (Checkpoint, error) {
	var c Checkpoint
	f, err := os.Open(path)
	if err != nil {
		return c, fmt.Errorf("read checkpoint: %w", err)
	}
	defer f.Close()
	var b [checkpointBytes]byte
	n, err := io.ReadFull(f, b[:])
	switch {
	case errors.Is(err, io.EOF): // nothing at all
	case errors.Is(err, io.ErrUnexpectedEOF):
		return c, fmt.Errorf("read checkpoint %s: %d bytes, want %d", path, n, checkpointFileBytes)
	case err != nil:
		return c, fmt.Errorf("read checkpoint: %w", err)
	default:
		c.decode(b[:])
	}
	return c, nil
}

// WriteCheckpoint writes a checkpoint file in place and makes it durable, creating it when it is missing. In place, as
// RocketMQ does it: the 48 bytes lie in one sector, which a disk writes whole or not at all. Bytes from 48 on are kept.
func WriteCheckpoint(path string, c Checkpoint) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("write checkpoint: %w", cerr)
		}
	}()
	st, err := f.Stat()
	if err == nil && st.Size() < checkpointFileBytes {
		err = f.Truncate(checkpointFileBytes)
	}
	if err == nil {
		_, err = f.WriteAt(c.appendTo(make([]byte, 0, checkpointBytes)), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = mmap.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write checkpoint %s: %w", path, err)
	}
	return nil
}

// UpdateCheckpoint reads the file, lets change alter what it will, and writes it back; a missing file starts at zeros.
// The caller holds the store's lock.
func UpdateCheckpoint(path string, change func(*Checkpoint)) error {
	c, err := ReadCheckpoint(path)
	if err != nil && !missing(err) {
		return err
	}
	change(&c)
	return WriteCheckpoint(path, c)
}
