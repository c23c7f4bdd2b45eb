//go:build interop

package interop

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// The differences of docs/decisions/0007, by the names that stand there.
const (
	diffUnknown   = "unknown queue"            // asking makes it
	diffNoRecord  = "no record"                // bytes that begin no record are answered as one, or fail
	diffKeys      = "key by hash"              // what merely hashes alike, or was stored at another time, is answered and counted; repeats are
	diffUpperZero = "time before the first"    // RocksDB: 0 instead of the first offset there is
	diffExpired   = "time in an expired queue" // RocksDB: -1; files: a time below 0 fails
	diffSteps     = "time where clocks went back"
	diffNoCount   = "no messages wanted" // RocksDB fails
	diffOverflow  = "offset that overflows"
	diffLost      = "lost unit"
	diffUnequal   = "unequal"
)

// compare tells whether an answer of RocketMQ's is ours, or differs as it is written down that it does; what names the difference, "" for none.
func (o *opened) compare(c *call, mine, theirs *answer) (what string, ok bool) {
	if theirs.Failure == "" && same(mine, theirs) {
		return "", true
	}
	q, known := o.known[cq.Key{Topic: c.Topic, QueueID: c.QueueID}]
	rocks := o.how.mode == "rocks" || o.how.mode == "combine" && (o.how.prefer == "rocks" || o.how.lmqRocks && strings.HasPrefix(c.Topic, message.LMQPrefix))
	switch c.Op {
	case "get":
		if !known {
			want := answer{Status: "NO_MESSAGE_IN_QUEUE", Next: mine.Next}
			return diffUnknown, mine.Status == "NO_MATCHED_LOGIC_QUEUE" && same(&want, theirs)
		}
		if o.lost {
			return diffLost, o.goesOn(c, mine, theirs)
		}
		if rocks && c.Count < 1 && theirs.Failure != "" {
			return diffNoCount, len(mine.Messages) <= 1
		}
	case "min":
		if !known {
			return diffUnknown, mine.Value == -1 && theirs.Value == 0 && theirs.Failure == ""
		}
	case "time":
		if !known {
			break
		}
		switch {
		case q.min == q.max && (rocks && theirs.Value == -1 || !rocks && c.TimeMs < 0 && theirs.Failure != ""):
			return diffExpired, mine.Value == q.min
		case rocks && !o.steps && c.Upper && theirs.Value == 0 && len(q.times) > 0 && q.times[0] > c.TimeMs:
			return diffUpperZero, mine.Value == q.min
		case o.steps:
			return diffSteps, o.isBoundary(q, c, mine.Value)
		}
	case "storeTime":
		if !rocks && (c.Offset > math.MaxInt64/20 || c.Offset < math.MinInt64/20) {
			return diffOverflow, mine.Value == -1
		}
	case "look", "select":
		if o.at[c.Offset] == nil {
			return diffNoRecord, mine.None
		}
	case "query":
		if len(mine.Messages)+len(theirs.Messages) == 0 && theirs.Failure == "" {
			return "", true // we tell how far the index has come, RocketMQ does not
		}
		return diffKeys, o.sameKeys(c, mine, theirs)
	}
	return diffUnequal, false
}

func same(a, b *answer) bool {
	return a.Status == b.Status && a.Next == b.Next && a.Min == b.Min && a.Max == b.Max && a.Total == b.Total && a.Slave == b.Slave &&
		a.Value == b.Value && a.None == b.None && a.Failure == b.Failure && slices.Equal(a.Messages, b.Messages)
}

// goesOn tells whether we step over lost units alone: we answer the messages of all other slots, and begin with those that RocketMQ answers.
func (o *opened) goesOn(c *call, mine, theirs *answer) bool {
	slot, found := c.Offset, 0
	for ; slot < mine.Next; slot++ {
		if astray(slot, mine.Max) {
			continue
		}
		if found >= len(mine.Messages) || mine.Messages[found][0] != slot {
			return false
		}
		found++
	}
	for _, m := range theirs.Messages {
		if r := o.at[m[1]]; r == nil || m[2] != r.size {
			continue // an empty one, of a slot without a unit
		}
		if !slices.Contains(mine.Messages, m) {
			return false
		}
	}
	return found == len(mine.Messages) && mine.Next > c.Offset && mine.Min == theirs.Min && mine.Max == theirs.Max
}

// isBoundary tells whether the times left and right of a slot make it the answer of a search, as package cq tells.
func (o *opened) isBoundary(q *queueFacts, c *call, slot int64) bool {
	first := q.max - int64(len(q.times))
	at := func(slot int64) int64 {
		switch {
		case slot < q.min:
			return math.MinInt64
		case slot >= q.max:
			return math.MaxInt64
		}
		return q.times[slot-first]
	}
	if c.Upper {
		return at(slot) <= c.TimeMs && (at(slot+1) > c.TimeMs || slot+1 == q.max) || slot == q.min && at(slot) > c.TimeMs
	}
	return (at(slot) >= c.TimeMs || slot == q.max) && (slot == q.min || at(slot-1) < c.TimeMs)
}

// sameKeys tells whether two answers by key agree as far as RocketMQ's can be right: of what it answers, that which has the topic, the key and the time asked for, once
// each, is what we answer. We answer more where the hits that are none took up its number, or where the seconds in its index hide what was stored in the first second.
func (o *opened) sameKeys(c *call, mine, theirs *answer) bool {
	if theirs.Failure != "" || len(theirs.Messages) > 0 && mine.Value != theirs.Value {
		return false
	}
	limit := min(int(c.Count), 64)
	full := len(theirs.Messages) >= limit
	right := map[int64]bool{}
	for _, m := range theirs.Messages {
		r := o.at[m[1]]
		if r == nil || m[2] != r.size {
			return false // not even a record
		}
		if o.hits(c, r) {
			right[m[1]] = true
		}
	}
	for _, m := range mine.Messages {
		r := o.at[m[1]]
		switch {
		case r == nil || !o.hits(c, r):
			return false
		case right[m[1]]:
			delete(right, m[1])
		case !full && r.ms >= c.BeginMs+1000 && !o.steps:
			return false // theirs has no reason not to have it
		}
	}
	return (len(right) == 0 || len(mine.Messages) >= limit) && slices.IsSortedFunc(mine.Messages, func(a, b message4) int { return int(a[1] - b[1]) })
}

func (o *opened) hits(c *call, r *fact) bool {
	if r.topic != c.Topic || r.ms < c.BeginMs || r.ms > c.EndMs {
		return false
	}
	if c.IndexType == "T" {
		return r.tags == c.Key
	}
	return slices.Contains(r.keys, c.Key)
}

// tally counts what was compared.
type tally struct{ calls, statuses, differences map[string]int }

func newTally() *tally {
	return &tally{map[string]int{}, map[string]int{}, map[string]int{}}
}

func (n *tally) count(c *call, mine *answer, difference string) {
	n.calls[c.Op]++
	if c.Op == "get" {
		n.statuses[mine.Status]++
	}
	if c.FilterType != "" {
		n.calls["get, "+c.FilterType]++
	}
	if difference != "" {
		n.differences[difference]++
	}
}

func (n *tally) log(t *testing.T) {
	t.Helper()
	for _, m := range []map[string]int{n.calls, n.statuses, n.differences} {
		var line string
		for _, name := range slices.Sorted(maps.Keys(m)) {
			line += fmt.Sprintf("  %s: %d", name, m[name])
		}
		t.Log(line)
	}
}

// requireBroad requires that the calls met everything that they are there for.
func (n *tally) requireBroad(t *testing.T) {
	t.Helper()
	for _, status := range []string{
		"NO_MATCHED_LOGIC_QUEUE", "OFFSET_TOO_SMALL", "OFFSET_OVERFLOW_ONE", "OFFSET_OVERFLOW_BADLY", "NO_MATCHED_MESSAGE", "FOUND",
	} {
		require.Greater(t, n.statuses[status], 50, status)
	}
	for _, difference := range []string{diffUnknown, diffNoRecord, diffKeys, diffExpired} {
		require.Positive(t, n.differences[difference], difference)
	}
}
