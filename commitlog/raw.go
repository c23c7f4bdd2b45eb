package commitlog

import (
	"fmt"

	"github.com/tandemq/tandemmq/message"
)

// AppendRaw appends b, whole records and fillers as another log has them, of one file, and publishes them. phy must be the end of the log, and is where
// the first of them says that it stands (W26). A filler is the last in b and comes with all bytes to the end of its file. Store times go on from
// those in b.
//
// Errors are those of Reserve and Publish; *PositionError; *CorruptError, whose File is empty, when b is anything else, with
// CheckCRC also for a body of another checksum. On error nothing was appended, but for those of Publish.
//
// Source: CommitLog.appendData, 5.5.0, which ignores the offset.
func (w *Writer) AppendRaw(phy int64, b []byte) error {
	size := int64(len(b))
	if size > w.o.FileSize || size == 0 {
		return &SizeError{Bytes: size, MaxBytes: w.o.FileSize}
	}
	if left := w.o.FileSize - phy%w.o.FileSize; phy >= 0 && size > left {
		return &SizeError{Bytes: size, MaxBytes: left}
	}
	lastMs, err := w.checkRaw(phy, b)
	if err != nil {
		return err
	}
	var r, filler Reservation
	w.lock.Lock()
	err = w.reserveRawLocked(&r, &filler, phy, size, lastMs)
	w.unlockPut(r.StoreTimestampMs)
	if err != nil {
		return err
	}
	return w.Publish(&r, func(dst []byte) error {
		copy(dst[message.BlankHeaderSize:], b[message.BlankHeaderSize:])
		copy(dst[:message.BlankHeaderSize], b) // last: see message.Message.PutTo
		return nil
	})
}

// checkRaw verifies that b is whole records and fillers of positions from phy on, and returns the latest store time in ms, 0 without
// a record.
func (w *Writer) checkRaw(phy int64, b []byte) (lastMs int64, err error) {
	for at := 0; at < len(b); {
		here := phy + int64(at)
		fail := func(got, want string, cause error) (int64, error) {
			return 0, &CorruptError{Offset: int64(at), PhyOffset: here, Got: got, Want: want, Err: cause}
		}
		if size, blank := message.BlankSize(b[at:]); blank {
			if left := w.o.FileSize - here%w.o.FileSize; int64(size) != left || int64(len(b)-at) != left {
				return fail(fmt.Sprintf("a filler of %d bytes, of which %d are there", size, len(b)-at), fmt.Sprintf("%d bytes to the end of the file", left), nil)
			}
			return lastMs, nil
		}
		var rec message.Record
		if err := rec.Decode(b[at:], w.o.CheckCRC); err != nil {
			return fail("", "", err)
		}
		if rec.PhyOffset != here {
			return fail(fmt.Sprintf("a record of physical offset %d", rec.PhyOffset), fmt.Sprintf("%d", here), nil)
		}
		lastMs = max(lastMs, rec.StoreTimestampMs)
		at += int(rec.TotalSize)
		if left := w.roomBehind(phy + int64(at)); left < message.BlankHeaderSize {
			return fail(fmt.Sprintf("a record that leaves %d bytes in its file", left), "room for a filler", nil)
		}
	}
	return lastMs, nil
}

// roomBehind returns how many bytes are left behind position end, which is not 0, in the file of the byte before it.
func (w *Writer) roomBehind(end int64) int64 {
	return (w.o.FileSize - end%w.o.FileSize) % w.o.FileSize
}

// reserveRawLocked takes size bytes at phy, which must be the end of the log. They fit into the file that holds phy.
func (w *Writer) reserveRawLocked(r, filler *Reservation, phy, size, lastMs int64) error {
	r.StoreTimestampMs = w.now()
	if phy != w.put.wrote {
		return &PositionError{PhyOffset: phy, End: w.put.wrote}
	}
	if err := w.reserveLocked(r, filler, size, 0); err != nil { // no filler: a file is ended by the bytes of the other log
		return err
	}
	w.put.lastTimestampMs = max(w.put.lastTimestampMs, lastMs)
	return nil
}
