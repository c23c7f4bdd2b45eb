package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// truth is what a log says of its queues, found out here and not by the store.
type truth struct {
	min, end int64
	keys     map[key]place // offset -1: in no queue
	queues   map[queue]*slots
}

// slots are consecutive ones of a queue.
type slots struct {
	from  int64
	units []cq.Unit
	keys  []key
}

func (s *slots) next() int64 { return s.from + int64(len(s.units)) }

// truthOf reads a log up to its end, or up to what is no record.
func truthOf(t *testing.T, log *commitlog.Log) *truth {
	tr := &truth{min: max(log.MinOffset(), 0), keys: make(map[key]place), queues: make(map[queue]*slots)}
	tr.end = tr.min
	scan := log.Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
	defer scan.Close()
	for scan.Next() {
		tr.take(t, scan.Record())
	}
	var end *commitlog.EndError
	if err := scan.Err(); err != nil && !errors.As(err, &end) {
		require.NoError(t, err)
	}
	return tr
}

func (tr *truth) take(t *testing.T, r *message.Record) {
	k, ok := keyOf(r.Body)
	if !ok {
		require.Failf(t, "nobody put this", "at %d: body %q", r.PhyOffset, r.Body)
	}
	if first, twice := tr.keys[k]; twice {
		require.Failf(t, "a message is in the log twice", "%+v at %d and at %d", k, first.phy, r.PhyOffset)
	}
	tr.end = r.PhyOffset + int64(r.TotalSize)
	p := place{queue{string(r.Topic), r.QueueID}, r.QueueOffset, r.PhyOffset}
	if !owesUnit(r.SysFlag) {
		p.offset = -1
		tr.keys[k] = p
		return
	}
	tr.keys[k] = p
	u := cq.Unit{PhyOffset: r.PhyOffset, Size: r.TotalSize, TagsCode: tagsCodeOf(t, r), StoreTimestampMs: r.StoreTimestampMs}
	tr.put(t, p.queue, p.offset, u, k)
	names, _ := r.Property(message.PropertyMultiDispatch)
	offsets, _ := r.Property(message.PropertyMultiQueueOffset)
	if len(names) == 0 {
		return
	}
	at := strings.Split(string(offsets), ",")
	for i, name := range strings.Split(string(names), ",") {
		require.Less(t, i, len(at), "light queues without offsets at %d", r.PhyOffset)
		slot, err := strconv.ParseInt(at[i], 10, 64)
		require.NoError(t, err)
		tr.put(t, queue{name, 0}, slot, u, k)
	}
}

func (tr *truth) put(t *testing.T, q queue, slot int64, u cq.Unit, k key) {
	s := tr.queues[q]
	if s == nil {
		if tr.min == 0 && slot != 0 {
			require.Failf(t, "a queue does not begin at 0", "%+v at %d: got %d", q, u.PhyOffset, slot)
		}
		s = &slots{from: slot}
		tr.queues[q] = s
	}
	if slot != s.next() {
		require.Failf(t, "offsets have a gap or repeat", "%+v at %d: got %d, want %d", q, u.PhyOffset, slot, s.next())
	}
	s.units, s.keys = append(s.units, u), append(s.keys, k)
}

// tagsCodeOf is the hash of Java's strings, or the time when a delayed message is due.
func tagsCodeOf(t *testing.T, r *message.Record) int64 {
	if delay, ok := r.Property(message.PropertyDelay); ok {
		level, err := strconv.Atoi(string(delay))
		require.NoError(t, err)
		return r.StoreTimestampMs + []time.Duration{time.Second, 5 * time.Second, 10 * time.Second}[level-1].Milliseconds()
	}
	tags, _ := r.Property(message.PropertyTags)
	h := int32(0)
	for _, c := range utf16.Encode([]rune(string(tags))) {
		h = 31*h + int32(c)
	}
	return int64(h)
}

// agree requires that the queues on disk are what the log says, slot by slot. next has what comes next at least in queues of which the log may have nothing
// left, and is brought up to what they say.
func (tr *truth) agree(t *testing.T, queues cq.Reader, m viewMode, next map[queue]int64, what string) {
	kind := queues.Kind()
	what = fmt.Sprintf("%s, %s", what, kind)
	for q, s := range tr.queues {
		if !m.has(kind, q) {
			continue
		}
		have, ok := queues.Queue(cq.Key{Topic: q.Topic, QueueID: q.ID})
		if !ok {
			require.Failf(t, "a queue is missing", "%s: %+v, the log has [%d, %d)", what, q, s.from, s.next())
		}
		b, err := have.Bounds()
		require.NoError(t, err, "%s: %+v", what, q)
		if b.Min != s.from || b.Max != s.next() {
			require.Failf(t, "bounds of a queue", "%s: %+v: got [%d, %d), want [%d, %d)", what, q, b.Min, b.Max, s.from, s.next())
		}
		tr.agreeUnits(t, have, s, s.from, math.MaxInt64, what)
	}
	for q, n := range next {
		if tr.queues[q] != nil || !m.has(kind, q) {
			continue
		}
		have, ok := queues.Queue(cq.Key{Topic: q.Topic, QueueID: q.ID})
		if !ok {
			require.Failf(t, "a queue without messages is forgotten", "%s: %+v had %d", what, q, n)
		}
		b, err := have.Bounds()
		require.NoError(t, err, "%s: %+v", what, q)
		if b.Min != b.Max || b.Max < n { // more: what nobody was told of has expired as well
			require.Failf(t, "bounds of a queue without messages", "%s: %+v: got [%d, %d), want %d", what, q, b.Min, b.Max, n)
		}
		next[q] = b.Max
	}
	for k, err := range queues.Queues() {
		require.NoError(t, err, what)
		q := queue{k.Topic, k.QueueID}
		if !slices.Contains(workQueues(), q) {
			require.Failf(t, "a queue that nobody put to", "%s: %+v", what, q)
		}
		if _, told := next[q]; told || tr.queues[q] != nil {
			continue
		}
		have, ok := queues.Queue(k)
		require.True(t, ok, "%s: %+v", what, q)
		b, err := have.Bounds()
		require.NoError(t, err, "%s: %+v", what, q)
		if b.Min != b.Max || b.Max > 0 && tr.min == 0 {
			require.Failf(t, "units of a queue whose messages are not in the log", "%s: %+v: got [%d, %d), the log is [%d, %d)", what, q, b.Min, b.Max, tr.min, tr.end)
		}
		if b.Max > 0 {
			next[q] = b.Max // messages that nobody was told of have expired
		}
	}
}

// agreeUnits compares the units of records below a place in the log.
func (tr *truth) agreeUnits(t *testing.T, have cq.Queue, s *slots, from, below int64, what string) {
	got := make([]cq.Unit, 64)
	for at := from; at < s.next(); {
		if s.units[at-s.from].PhyOffset >= below {
			return
		}
		n, err := have.Read(at, got)
		require.NoError(t, err, "%s: %s slot %d", what, have.Key(), at)
		if n == 0 {
			require.Failf(t, "a slot without a unit", "%s: %s slot %d of [%d, %d)", what, have.Key(), at, s.from, s.next())
		}
		for i := range min(n, int(s.next()-at)) {
			want := s.units[at-s.from+int64(i)]
			if got[i].StoreTimestampMs == cq.NoTimestamp {
				want.StoreTimestampMs = cq.NoTimestamp
			}
			if want.PhyOffset < below && got[i] != want {
				require.Failf(t, "a unit is not what the log says", "%s: %s slot %d: got %+v, want %+v", what, have.Key(), at+int64(i), got[i], want)
			}
		}
		at += int64(n)
	}
}

// requireClaims requires of a store that nobody has recovered yet: what its checkpoint says to be in the queues is there, and no more is said than the log
// has. What is noted as broken is claimed of no queue. It returns how far the checkpoint goes.
func requireClaims(t *testing.T, root string, m viewMode, what string) int64 {
	broken := notedBroken(t, root)
	c, err := store.ReadCheckpoint(store.NewLayout(root).CheckpointPath())
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	require.NoError(t, err, what)
	for _, kind := range m.kinds {
		v, err := store.OpenView(root, store.ViewOptions{Kind: kind})
		if err != nil && (c.LogicsPhysicalOffset <= 0 || kind == cq.KindRocks && m.combined()) {
			continue // being made
		}
		require.NoError(t, err, what)
		tr := truthOf(t, v.Log)
		require.LessOrEqual(t, c.LogicsPhysicalOffset, tr.end, "%s: the checkpoint knows more than the log", what)
		below := int64(0) // zero says that nothing is known
		if c.LogicsPhysicalOffset > 0 {
			below = c.LogicsPhysicalOffset + 1
		}
		if kind == cq.KindRocks && m.combined() {
			below = 0 // the checkpoint speaks of the files (F37)
		}
		if kind == cq.KindRocks {
			below = max(below, v.Queues.DispatchFrom())
		}
		for q, s := range tr.queues {
			if s.units[0].PhyOffset >= below || !m.has(kind, q) || broken[q][""] || broken[q][string(kind)] {
				continue
			}
			have, ok := v.Queues.Queue(cq.Key{Topic: q.Topic, QueueID: q.ID})
			if !ok {
				require.Failf(t, "the checkpoint claims a queue that is not there", "%s: %+v, below %d", what, q, below)
			}
			tr.agreeUnits(t, have, s, s.from, below, fmt.Sprintf("%s: claimed below %d", what, below))
		}
		require.NoError(t, v.Close())
	}
	return c.LogicsPhysicalOffset
}

// notedBroken returns the queues that are noted to lack units, each with the sides, "" for all.
func notedBroken(t *testing.T, root string) map[queue]map[string]bool {
	b, err := os.ReadFile(filepath.Join(root, "tandemmq", "broken-queues.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	var file struct {
		Queues []struct {
			Topic   string
			QueueID int32
			Side    string
		}
	}
	require.NoError(t, json.Unmarshal(b, &file))
	noted := make(map[queue]map[string]bool)
	for _, q := range file.Queues {
		k := queue{q.Topic, q.QueueID}
		if noted[k] == nil {
			noted[k] = make(map[string]bool)
		}
		noted[k][q.Side] = true
	}
	return noted
}
