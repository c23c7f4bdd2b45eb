package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// InspectCheckpoint returns the fields of a checkpoint file as its bytes have them, and why a start would not believe it; fault is nil when it would. Of a file that is cut the fields
// that are there.
func InspectCheckpoint(path string) (fields []message.Field, fault, err error) {
	b, err := readFile(mmap.OS, path, checkpointFileBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("read checkpoint: %w", err)
	}
	_, _, fault = readCheckpoint(mmap.OS, path, time.Now())
	whole := b
	b = append(b, make([]byte, checkpointFileBytes-len(b))...)
	var c Checkpoint
	c.decode(b)
	for i, f := range c.fields() {
		field := message.Field{Name: checkpointNames[i], Offset: int64(8 * i), Width: 8, Value: *f}
		if i < checkpointTimes {
			field.Text = message.TimeText(*f)
		}
		fields = append(fields, field)
	}
	return slices.DeleteFunc(append(fields, checkpointTrailer(b)...), func(f message.Field) bool { return f.Offset+f.Width > int64(len(whole)) }), fault, nil
}

// checkpointTrailer returns the fields behind those of RocketMQ.
func checkpointTrailer(b []byte) []message.Field {
	be := binary.BigEndian
	flushed, magic, crc := be.Uint64(b[checkpointFlushedAt:]), be.Uint32(b[checkpointMagicAt:]), be.Uint32(b[checkpointCRCAt:])
	var copied Checkpoint
	copied.decode(b[checkpointTrailerAt:])
	state, sum, by := "differs: RocketMQ has written since", "right", "0x544d5132, written by this program"
	if string(b[:checkpointBytes]) == string(b[checkpointTrailerAt:checkpointFlushedAt]) {
		state = "as bytes 0 to 47"
	}
	if want := crc32.ChecksumIEEE(b[checkpointTrailerAt:checkpointCRCAt]); crc != want {
		sum = fmt.Sprintf("wrong: the bytes have %d", want)
	}
	if magic != checkpointMagic {
		by = fmt.Sprintf("want 0x%08x", uint32(checkpointMagic))
	}
	if flushed == 0 && magic == 0 && crc == 0 && copied == (Checkpoint{}) {
		state, sum, by = "none: RocketMQ wrote the file", "", ""
	}
	var out []message.Field
	for i, f := range copied.fields() {
		out = append(out, message.Field{Name: "copy of " + checkpointNames[i], Offset: int64(checkpointTrailerAt + 8*i), Width: 8, Value: *f})
	}
	out[0].Text = state
	return append(out,
		message.Field{Name: "logFlushedOffset", Offset: checkpointFlushedAt, Width: 8, Value: int64(flushed)},
		message.Field{Name: "magic", Offset: checkpointMagicAt, Width: 4, Value: magic, Text: by},
		message.Field{Name: "crc", Offset: checkpointCRCAt, Width: 4, Value: crc, Text: sum},
	)
}

// NextOffset is a row of the note of next offsets.
type NextOffset struct {
	Topic   string `json:"topic"`
	QueueID int32  `json:"queueId"`
	Next    int64  `json:"next"`
	// Unitless: the queue gets offsets and no units. Gone: neither log nor queues have anything of it left.
	Unitless bool `json:"unitless,omitempty"`
	Gone     bool `json:"gone,omitempty"`
}

// QueueOffsetsNote is what the file queue-offsets says.
type QueueOffsetsNote struct {
	Path          string       `json:"path"`
	PhyOffset     int64        `json:"phyOffset"`     // everything below is counted
	LastPhyOffset int64        `json:"lastPhyOffset"` // where the last record below begins, -1 without one
	LastMs        int64        `json:"lastTimestamp"`
	Fits          bool         `json:"fits"` // the log has that record; a note that does not fit is not used
	Queues        []NextOffset `json:"queues"`
}

// ErrNoNote is what QueueOffsets answers where there is no such file.
var ErrNoNote = errors.New("the store has no note of next offsets (file queue-offsets)")

// QueueOffsets reads the note of next offsets of file queues, rows sorted by topic and queue. Errors: ErrNoNote; a file that this module has not written, or that is damaged.
func (v *View) QueueOffsets() (*QueueOffsetsNote, error) {
	path := v.Layout.queueOffsetsPath()
	note, err := readQueueOffsets(mmap.OS, path)
	if err == nil && note == nil {
		err = fmt.Errorf("read queue offsets %s: %w", path, ErrNoNote)
	}
	if err != nil {
		return nil, err
	}
	out := &QueueOffsetsNote{Path: path, PhyOffset: note.phyOffset, LastPhyOffset: note.last.phy, LastMs: note.last.ms, Queues: []NextOffset{}}
	out.Fits = note.fits(v.Log, v.Log.EndOffset())
	for _, k := range slices.SortedFunc(maps.Keys(note.next), cq.Key.Compare) {
		st := note.next[k]
		out.Queues = append(out.Queues, NextOffset{Topic: k.Topic, QueueID: k.QueueID, Next: st.next, Unitless: st.unitless, Gone: st.gone})
	}
	return out, nil
}
