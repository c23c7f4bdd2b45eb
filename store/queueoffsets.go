package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// The file queue-offsets notes which offset comes next in each queue, by the records of the log up to a position, when all units up to there are durable. Files of
// a queue cannot tell when their end was lost; this can. It is a note: without it, or with one that does not fit, the log is read instead.
//
//	offset  width  name           type  meaning
//	0       4      magic          u32   0x544d5131 ("TMQ1")
//	4       8      phyOffset      i64   everything below is counted, and has durable units
//	12      8      lastOffset     i64   where the last record below phyOffset begins, -1 without one
//	20      8      lastTimestamp  i64   its store time in ms
//	28      4      count          i32   rows
//	32      ...    rows
//	end-4   4      crc            u32   CRC-32 (IEEE) of all bytes before
//
//	row: topicLen u16, topic, queueId i32, next i64; the top bit of next is set for a queue that gets offsets and no units,
//	the bit below it for one of which neither log nor queues have anything left; then
//	begins i64, the first slot of a file queue below which the log has no record, plus 1, as far as the log had to be read for that, otherwise 0
//
// A file with the magic 0x544d5130 ("TMQ0") has rows without begins.
//
// All integers are big-endian.
const (
	queueOffsetsMagic  = 0x544d5131
	queueOffsetsMagic0 = 0x544d5130
	queueOffsetsHeader = 32
	queueOffsetsCRC    = 4
	queueOffsetsRow    = 2 + 4 + 8 + 8 // without the topic
	queueOffsetsRow0   = 2 + 4 + 8
	queueOffsetsName   = "queue-offsets"
	goneBit            = 1 << 62
	unitlessBit        = 1 << 63
)

// queueOffsets is what the file says.
type queueOffsets struct {
	phyOffset int64
	last      recordMark // the last record below: a log that does not have it is another one
	next      map[cq.Key]queueState
	found     int64 // how many beginnings had been found out in this run; not in the file
}

func (l Layout) queueOffsetsPath() string { return filepath.Join(l.StateDir(), queueOffsetsName) }

func (q *queueOffsets) image() []byte {
	size := queueOffsetsHeader + queueOffsetsCRC
	for k := range q.next {
		size += queueOffsetsRow + len(k.Topic)
	}
	be := binary.BigEndian
	b := be.AppendUint32(make([]byte, 0, size), queueOffsetsMagic)
	b = be.AppendUint64(b, uint64(q.phyOffset))
	b = be.AppendUint64(b, uint64(q.last.phy))
	b = be.AppendUint64(b, uint64(q.last.ms))
	b = be.AppendUint32(b, uint32(len(q.next)))
	for k, state := range q.next {
		next := uint64(state.next)
		if state.unitless {
			next |= unitlessBit
		}
		if state.gone {
			next |= goneBit
		}
		b = be.AppendUint16(b, uint16(len(k.Topic)))
		b = append(b, k.Topic...)
		b = be.AppendUint32(b, uint32(k.QueueID))
		b = be.AppendUint64(b, next)
		b = be.AppendUint64(b, uint64(state.begins))
	}
	return be.AppendUint32(b, crc32.ChecksumIEEE(b))
}

var errQueueOffsets = errors.New("not what this module writes")

func parseQueueOffsets(b []byte) (*queueOffsets, error) {
	be := binary.BigEndian
	n := len(b) - queueOffsetsCRC
	row := queueOffsetsRow
	if n >= queueOffsetsHeader && be.Uint32(b) == queueOffsetsMagic0 {
		row = queueOffsetsRow0
	}
	if n < queueOffsetsHeader || be.Uint32(b) != queueOffsetsMagic && row == queueOffsetsRow || be.Uint32(b[n:]) != crc32.ChecksumIEEE(b[:n]) {
		return nil, errQueueOffsets
	}
	q := &queueOffsets{phyOffset: int64(be.Uint64(b[4:])), last: recordMark{phy: int64(be.Uint64(b[12:])), ms: int64(be.Uint64(b[20:]))}}
	count := int(be.Uint32(b[28:]))
	rows := b[queueOffsetsHeader:n]
	q.next = make(map[cq.Key]queueState, min(count, len(rows)/row))
	for range count {
		if len(rows) < row {
			return nil, errQueueOffsets
		}
		size := int(be.Uint16(rows))
		if len(rows) < row+size {
			return nil, errQueueOffsets
		}
		k := cq.Key{Topic: string(rows[2 : 2+size]), QueueID: int32(be.Uint32(rows[2+size:]))}
		next := be.Uint64(rows[6+size:])
		state := queueState{next: int64(next &^ (unitlessBit | goneBit)), unitless: next&unitlessBit != 0, gone: next&goneBit != 0}
		if row == queueOffsetsRow {
			state.begins = int64(be.Uint64(rows[14+size:]))
		}
		q.next[k] = state
		rows = rows[row+size:]
	}
	if len(rows) > 0 {
		return nil, errQueueOffsets
	}
	return q, nil
}

// maxQueueOffsetsBytes bounds what is read: some 10 million queues.
const maxQueueOffsetsBytes = 1 << 30

// readQueueOffsets reads the file; nil and no error when there is none.
func readQueueOffsets(fsys mmap.FS, path string) (*queueOffsets, error) {
	b, err := readFile(fsys, path, maxQueueOffsetsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		var q *queueOffsets
		if q, err = parseQueueOffsets(b); err == nil {
			return q, nil
		}
	}
	return nil, fmt.Errorf("read queue offsets %s: %w", path, err)
}

func writeQueueOffsets(fsys mmap.FS, path string, q *queueOffsets) error {
	if err := makeDir(fsys, filepath.Dir(path)); err != nil {
		return err
	}
	return replaceFile(fsys, path, q.image())
}

// fits tells whether the note is about this log, which ends at end: it has the last record that the note counted, at its place.
func (q *queueOffsets) fits(log *commitlog.Log, end int64) bool {
	if q.phyOffset > end || q.phyOffset < log.MinOffset() {
		return false
	}
	if q.last.phy < 0 || q.last.phy < log.MinOffset() {
		return q.phyOffset == 0 || q.last.phy >= 0 // nothing there to compare with
	}
	var r message.Record
	release, err := log.Read(q.last.phy, 0, false, &r)
	if err != nil {
		return false
	}
	defer release()
	behind := q.last.phy + int64(r.TotalSize)
	return r.StoreTimestampMs == q.last.ms && (behind == q.phyOffset || log.FileEnd(q.last.phy) == q.phyOffset) // a filler may follow
}

// owesUnits tells whether any queue should have units.
func (q *queueOffsets) owesUnits() bool {
	for _, state := range q.next {
		if !state.unitless && !state.gone {
			return true
		}
	}
	return false
}

// removeQueueOffsets removes a note that does not fit, durably: the log may grow to where it would seem to.
func removeQueueOffsets(fsys mmap.FS, path string) error {
	err := fsys.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, fsys.SyncDir(filepath.Dir(path)))
}
