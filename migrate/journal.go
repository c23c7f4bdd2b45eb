package migrate

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// JournalFileName is the file beside the state in which a repair names what it is about to change, one JSON object a line. It is only ever added to.
const JournalFileName = "repair.jsonl"

// journalLine is one of them. A repair begins with "start" and, when it was not cut off, ends with "end".
type journalLine struct {
	What    string    `json:"what"` // start, finding, drop, end
	Time    time.Time `json:"time"`
	Actor   string    `json:"actor,omitempty"` // of a start
	Finding *Finding  `json:"finding,omitempty"`
	Topic   string    `json:"topic,omitempty"` // of a drop: a queue that is removed, to be made anew or not
	QueueID int32     `json:"queueId,omitempty"`
	Side    cq.Kind   `json:"side,omitempty"`
	Slots   int64     `json:"slots,omitempty"` // of an end: that were written
}

// journal writes them. The first error sticks.
type journal struct {
	path, actor string
	f           *os.File
	w           *bufio.Writer
	dirty       bool
	err         error
}

// open goes on with the file, in the directory of the state that was saved before.
func (j *journal) open() error {
	f, err := os.OpenFile(j.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("write repair journal: %w", err)
	}
	j.f, j.w = f, bufio.NewWriterSize(f, 1<<16)
	if st, err := f.Stat(); err == nil && st.Size() > 0 {
		_ = j.w.WriteByte('\n') // a line that was cut off ends here
	}
	j.put(journalLine{What: "start", Actor: j.actor})
	return errors.Join(j.sync(), mmap.SyncDir(filepath.Dir(j.path)))
}

func (j *journal) put(l journalLine) {
	l.Time = time.Now().UTC().Truncate(time.Millisecond)
	b, err := json.Marshal(l)
	if err == nil {
		_, err = j.w.Write(append(b, '\n'))
	}
	j.err, j.dirty = errors.Join(j.err, err), true
}

func (j *journal) finding(f Finding) { j.put(journalLine{What: "finding", Finding: &f}) }

func (j *journal) dropped(k cq.Key, side cq.Kind) {
	j.put(journalLine{What: "drop", Topic: k.Topic, QueueID: k.QueueID, Side: side})
}

// sync makes durable what was put.
func (j *journal) sync() error {
	if !j.dirty || j.err != nil {
		return j.err
	}
	if j.err = j.w.Flush(); j.err == nil {
		j.err = j.f.Sync()
	}
	j.dirty = false
	if j.err != nil {
		j.err = fmt.Errorf("write repair journal: %w", j.err)
	}
	return j.err
}

func (j *journal) end(slots int64) error {
	j.put(journalLine{What: "end", Slots: slots})
	return j.sync()
}

func (j *journal) close() error { return errors.Join(j.sync(), j.f.Close()) }

// unfinished returns the queues that a repair which did not come to its end had removed.
func (j *journal) unfinished() (map[cq.Key]bool, error) {
	f, err := os.Open(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read repair journal: %w", err)
	}
	defer f.Close()
	removed := make(map[cq.Key]bool)
	for r := bufio.NewReaderSize(f, 1<<16); ; {
		b, err := r.ReadBytes('\n')
		var l journalLine
		if json.Unmarshal(b, &l) == nil { // a line that was cut off says nothing: what it announces was not begun
			switch l.What {
			case "drop":
				removed[cq.Key{Topic: l.Topic, QueueID: l.QueueID}] = true
			case "end":
				clear(removed)
			}
		}
		if errors.Is(err, io.EOF) {
			return removed, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read repair journal: %w", err)
		}
	}
}
