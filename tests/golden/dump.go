package golden

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The kinds of queue that `store dump --cq` takes.
const (
	File  = "file"
	Rocks = "rocks"
)

// Dump is the queue and message lines of `tandemmq store dump --cq KIND`.
type Dump struct {
	Queues   []string // canonical JSON
	Messages []Line
}

// ExpectedDump derives from the store's manifest what a dump of that kind of queue prints. It returns false when the store
// has no queues of that kind.
func ExpectedDump(tb testing.TB, name, kind string) (Dump, bool) {
	tb.Helper()
	m := Manifest(tb, name)
	switch m.Meta.Mode {
	case "combine":
		if kind == Rocks {
			m = Manifest(tb, name+".prefer-rocks")
		}
	default:
		if m.Meta.Mode != kind {
			return Dump{}, false
		}
	}
	var e Dump
	for _, q := range m.Queues {
		side := q.File
		if kind == Rocks {
			side = q.Rocks
		}
		e.Queues = append(e.Queues, flatQueue(tb, q, side))
	}
	e.Messages = m.Messages
	return e, true
}

// flatQueue is the queue line of a dump: one kind's figures beside the queue's name.
func flatQueue(tb testing.TB, q Queue, s *Side) string {
	tb.Helper()
	require.NotNil(tb, s, "manifest: queue %s lacks the kind it was read through", q.Name())
	raw, err := json.Marshal(map[string]any{
		"t": "queue", "topic": q.Topic, "queueId": q.QueueID, "min": s.Min, "max": s.Max, "readable": q.Readable,
		"cqCrc32": s.CQCRC32, "unreadable": s.Unreadable,
	})
	require.NoError(tb, err)
	c, err := Canonical(raw)
	require.NoError(tb, err)
	return c
}

// ParseDump reads the output of `tandemmq store dump`. A line that is neither a queue nor a message is an error.
func ParseDump(out []byte) (Dump, error) {
	var e Dump
	err := eachLine(out, func(kind string, raw []byte) error {
		switch kind {
		case "queue":
			c, err := Canonical(raw)
			e.Queues = append(e.Queues, c)
			return err
		case "msg":
			m, err := parseMessage(raw)
			e.Messages = append(e.Messages, m)
			return err
		}
		return fmt.Errorf("unexpected line %s", raw)
	})
	return e, err
}
