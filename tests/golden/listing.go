package golden

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Listing is what a reader of a store reported: a manifest, the output of `tandemmq store dump`, or of a check program that
// prints the same lines.
type Listing struct {
	Meta     *Meta // nil where the reader prints none
	Queues   []Queue
	Messages []Line // all "msg" lines in the order printed
}

// Meta tells how RocketMQ opened the directory that a manifest describes.
type Meta struct {
	Mode                string `json:"mode"`                // file, rocks or combine
	Prefer              string `json:"prefer"`              // in combine: the kind read from
	AbortFileBeforeOpen bool   `json:"abortFileBeforeOpen"` // the directory was not closed cleanly
	Config              struct {
		CommitLogFileBytes int64 `json:"mappedFileSizeCommitLog"`
		QueueFileBytes     int64 `json:"mappedFileSizeConsumeQueue"`
		IndexSlots         int64 `json:"maxHashSlotNum"`
		IndexEntries       int64 `json:"maxIndexNum"`
		LMQ                bool  `json:"enableLmq"`
	} `json:"config"`
}

// Queue is a "queue" line.
type Queue struct {
	Topic    string          `json:"topic"`
	QueueID  int32           `json:"queueId"`
	Min      int64           `json:"min"` // by the store's own call, so of the kind it prefers
	Max      int64           `json:"max"`
	Readable int64           `json:"readable"` // message lines of this queue
	Stuck    json.RawMessage `json:"stuck,omitempty"`
	File     *Side           `json:"file"` // nil: the store has no queues of that kind
	Rocks    *Side           `json:"rocks"`
	ByTime   []ByTime        `json:"byTime"`
}

// Side is what one kind of queue holds.
type Side struct {
	Min        int64  `json:"min"`
	Max        int64  `json:"max"`
	CQCRC32    uint32 `json:"cqCrc32"` // CRC-32 over the 20-byte units of [Min, Max)
	Unreadable int64  `json:"unreadable"`
}

// ByTime is one answer of the search by store time.
type ByTime struct {
	TimestampMs int64 `json:"ts"`
	Lower       int64 `json:"lower"`
	Upper       int64 `json:"upper"`
}

// Line is one message line.
type Line struct {
	Topic       string
	QueueID     int32
	QueueOffset int64
	JSON        string // the whole line, keys sorted
}

// Decode fills v from the line as encoding/json does.
func (l Line) Decode(v any) error { return json.Unmarshal([]byte(l.JSON), v) }

// Name returns topic/queueId.
func (q Queue) Name() string { return fmt.Sprintf("%s/%d", q.Topic, q.QueueID) }

// Of returns the messages of one queue, in the order printed.
func (l *Listing) Of(q Queue) []Line {
	var of []Line
	for _, m := range l.Messages {
		if m.Topic == q.Topic && m.QueueID == q.QueueID {
			of = append(of, m)
		}
	}
	return of
}

// Manifest returns the manifest of that name: a store's name, or NAME.prefer-rocks for what a combine store served while it
// preferred RocksDB.
func Manifest(tb testing.TB, name string) *Listing {
	tb.Helper()
	packed, err := testdata.ReadFile("testdata/" + name + manifestSuffix)
	require.NoError(tb, err)
	plain, err := gunzip(packed)
	require.NoError(tb, err)
	l, err := Parse(plain)
	require.NoError(tb, err, "manifest of %s", name)
	require.NotNil(tb, l.Meta, "manifest of %s", name)
	return l
}

// Parse reads the lines of a manifest or of a check program. Lines of other types than meta, queue and msg are skipped, save
// for "bad" (bytes served that are not the message asked for), which is an error.
func Parse(lines []byte) (*Listing, error) {
	l := &Listing{}
	err := eachLine(lines, func(kind string, raw []byte) error {
		switch kind {
		case "meta":
			l.Meta = &Meta{}
			return json.Unmarshal(raw, l.Meta)
		case "queue":
			var q Queue
			if err := json.Unmarshal(raw, &q); err != nil {
				return err
			}
			l.Queues = append(l.Queues, q)
		case "msg":
			m, err := parseMessage(raw)
			if err != nil {
				return err
			}
			l.Messages = append(l.Messages, m)
		case "bad":
			return fmt.Errorf("the reader got bytes that are not the message: %s", raw)
		}
		return nil
	})
	return l, err
}

func parseMessage(raw []byte) (Line, error) {
	canonical, err := Canonical(raw)
	if err != nil {
		return Line{}, err
	}
	var at struct {
		Topic       *string `json:"topic"`
		QueueID     *int32  `json:"queueId"`
		QueueOffset *int64  `json:"queueOffset"`
	}
	if err := json.Unmarshal(raw, &at); err != nil {
		return Line{}, err
	}
	if at.Topic == nil || at.QueueID == nil || at.QueueOffset == nil {
		return Line{}, fmt.Errorf("message without topic, queueId or queueOffset: %s", raw)
	}
	return Line{Topic: *at.Topic, QueueID: *at.QueueID, QueueOffset: *at.QueueOffset, JSON: canonical}, nil
}

// eachLine calls fn with the "t" of every line. The error it returns names the line, counted from 1.
func eachLine(lines []byte, fn func(kind string, raw []byte) error) error {
	s := bufio.NewScanner(bytes.NewReader(lines))
	s.Buffer(nil, 1<<20)
	n := 0
	for s.Scan() {
		n++
		var head struct {
			T string `json:"t"`
		}
		if err := json.Unmarshal(s.Bytes(), &head); err != nil {
			return fmt.Errorf("line %d: %w: %s", n, err, s.Bytes())
		}
		if err := fn(head.T, s.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return s.Err()
}

// Canonical returns one JSON object with its keys sorted and its numbers as they were written.
func Canonical(raw []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var o map[string]any
	if err := d.Decode(&o); err != nil {
		return "", err
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(o); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// RequireMessages fails at the first message that differs, is missing or is too many.
func RequireMessages(tb testing.TB, want, got []Line, what string) {
	tb.Helper()
	for i := range min(len(want), len(got)) {
		if want[i].JSON != got[i].JSON {
			require.JSONEq(tb, want[i].JSON, got[i].JSON, "%s: message %d", what, i) // shows the field
			require.Equal(tb, want[i].JSON, got[i].JSON, "%s: message %d", what, i)  // equal as floats, yet not the same digits
		}
	}
	require.Len(tb, got, len(want), "%s: number of messages", what)
}
