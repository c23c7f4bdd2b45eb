package cqtest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// OpenOptions is what a case asks of Harness.Open.
type OpenOptions struct {
	// MinPhyOffset is the physical offset of the first byte that the CommitLog still holds; 0 when nothing has expired.
	MinPhyOffset int64
	// ReadOnly asks for a store that refuses every write with cq.ErrReadOnly and changes no byte on disk.
	ReadOnly bool
}

// Harness tells the suite how to reach one implementation.
type Harness struct {
	// Open opens the store kept under dir, creating what it needs unless it is to be read-only. dir exists. The suite
	// closes what it returns, and never opens a directory that it has not closed before.
	Open func(dir string, o OpenOptions) (cq.Store, error)
	// Importer returns the bulk side of a store that Open returned. Nil: the store itself implements cq.Importer.
	Importer func(s cq.Store) cq.Importer
	// KeepsTime tells that units come back with the StoreTimestampMs they were given; otherwise with cq.NoTimestamp.
	KeepsTime bool
	// TimeMayVary tells that some units come back with their time and some without, whatever KeepsTime says: reads are switched between the sides of a
	// combined store.
	TimeMayVary bool
	// IgnoreFile names files (slash separated, relative to dir) that a read-only open may write all the same, such as a
	// database's own log. Nil: none.
	IgnoreFile func(path string) bool
}

// Run runs every case as a subtest of t.
func Run(t *testing.T, h Harness) {
	require.NotNil(t, h.Open, "Harness.Open")
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"Read", readCases},
		{"Append", appendCases},
		{"Reopen", reopenCases},
		{"Min", minCases},
		{"Expire", expireCases},
		{"Truncate", truncateCases},
		{"Import", importCases},
		{"Skip", skipCases},
		{"Trim", trimCases},
		{"Closed", closedCases},
		{"ReadOnly", readOnlyCases},
		{"Concurrent", concurrentCases},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) {
					c.run(t, &env{Harness: h, dir: t.TempDir()})
				})
			}
		})
	}
}

type testCase struct {
	name string
	run  func(t *testing.T, e *env)
}

// env is one case's directory.
type env struct {
	Harness
	dir string
}

// open opens the case's directory and closes it again at the end of the case, if the case did not.
func (e *env) open(t *testing.T, o OpenOptions) cq.Store {
	t.Helper()
	s, err := e.Open(e.dir, o)
	require.NoError(t, err)
	require.NotNil(t, s)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// reopen closes s and opens the directory again.
func (e *env) reopen(t *testing.T, s cq.Store, o OpenOptions) cq.Store {
	t.Helper()
	require.NoError(t, s.Close())
	return e.open(t, o)
}

func (e *env) importer(t *testing.T, s cq.Store) cq.Importer {
	t.Helper()
	if e.Importer != nil {
		return e.Importer(s)
	}
	im, ok := s.(cq.Importer)
	require.True(t, ok, "the store is no cq.Importer and Harness.Importer is nil")
	return im
}

// stored returns u as this store gives it back.
func (e *env) stored(u cq.Unit) cq.Unit {
	if !e.KeepsTime {
		u.StoreTimestampMs = cq.NoTimestamp
	}
	return u
}

// Log is an imaginary CommitLog: it assigns physical offsets and remembers which unit belongs to which slot.
type Log struct {
	end   int64
	count int64
	next  map[cq.Key]int64
	units map[cq.Key]map[int64]cq.Unit
}

// NewLog returns a log whose first record lies at phyOffset.
func NewLog(phyOffset int64) *Log {
	return &Log{end: phyOffset, next: map[cq.Key]int64{}, units: map[cq.Key]map[int64]cq.Unit{}}
}

// StartQueue makes the next record of k take slot.
func (l *Log) StartQueue(k cq.Key, slot int64) { l.next[k] = slot }

// Put adds a record of k and returns its entry. Every third record is followed by one that owes no unit.
func (l *Log) Put(k cq.Key) cq.Entry {
	l.count++
	u := cq.Unit{
		PhyOffset:        l.end,
		Size:             int32(100 + l.count%57),
		TagsCode:         (l.count%5 - 2) * 1_000_003,
		StoreTimestampMs: 1_700_000_000_000 + l.count,
	}
	l.end = u.End()
	if l.count%3 == 0 {
		l.end += 91
	}
	e := cq.Entry{Key: k, QueueOffset: l.next[k], Unit: u}
	if l.units[k] == nil {
		l.units[k] = map[int64]cq.Unit{}
	}
	l.units[k][e.QueueOffset] = u
	l.next[k]++
	return e
}

// PutN adds n records, one of each key in turn.
func (l *Log) PutN(n int, keys ...cq.Key) []cq.Entry {
	out := make([]cq.Entry, 0, n)
	for i := range n {
		out = append(out, l.Put(keys[i%len(keys)]))
	}
	return out
}

// Cut forgets every record that starts at or above phyOffset, as recovery does; the next record lies there.
func (l *Log) Cut(phyOffset int64) {
	for k, m := range l.units {
		for slot, u := range m {
			if u.PhyOffset >= phyOffset {
				delete(m, slot)
				l.next[k] = min(l.next[k], slot)
			}
		}
		if len(m) == 0 {
			delete(l.units, k)
			delete(l.next, k)
		}
	}
	l.end = phyOffset
}

// Units returns the units of k in slot order, and the first slot.
func (l *Log) Units(k cq.Key) (from int64, units []cq.Unit) {
	slots := make([]int64, 0, len(l.units[k]))
	for s := range l.units[k] {
		slots = append(slots, s)
	}
	slices.Sort(slots)
	for _, s := range slots {
		units = append(units, l.units[k][s])
	}
	if len(slots) > 0 {
		from = slots[0]
	}
	return from, units
}

// Keys returns the keys that have units, sorted.
func (l *Log) Keys() []cq.Key {
	keys := make([]cq.Key, 0, len(l.units))
	for k := range l.units {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, cq.Key.Compare)
	return keys
}

// appendAll appends and waits until all of it can be read.
func appendAll(t *testing.T, s cq.Store, entries []cq.Entry) {
	t.Helper()
	require.NoError(t, s.Append(context.Background(), entries))
	await(t, s)
}

func await(t *testing.T, s cq.Store) {
	t.Helper()
	require.NoError(t, s.AwaitReadable(context.Background()))
}

func mustQueue(t *testing.T, s cq.Reader, k cq.Key) cq.Queue {
	t.Helper()
	q, ok := s.Queue(k)
	require.True(t, ok, "queue %s is missing", k)
	require.Equal(t, k, q.Key())
	return q
}

func mustBounds(t *testing.T, s cq.Reader, k cq.Key) cq.Bounds {
	t.Helper()
	b, err := mustQueue(t, s, k).Bounds()
	require.NoError(t, err, "bounds of %s", k)
	return b
}

func keysOf(s cq.Reader) []cq.Key {
	keys, err := cq.SortedKeys(s)
	if err != nil {
		panic(err) // the cases list open stores over directories that can be read
	}
	return keys
}

// readAll reads [from, to) with a buffer of chunk units and stops early at a slot without a unit.
func readAll(t *testing.T, q cq.Queue, from, to int64, chunk int) []cq.Unit {
	t.Helper()
	var out []cq.Unit
	buf := make([]cq.Unit, chunk)
	for from < to {
		n, err := q.Read(from, buf)
		require.NoError(t, err, "read %s at %d", q.Key(), from)
		require.LessOrEqual(t, n, len(buf))
		if n == 0 {
			break
		}
		out = append(out, buf[:n]...)
		from += int64(n)
	}
	return out
}

// requireEqualsLog checks that the store holds exactly the log's units: keys, bounds and every unit. minPhy is the one
// that the store was opened with.
func (e *env) requireEqualsLog(t *testing.T, s cq.Reader, l *Log, minPhy int64) {
	t.Helper()
	require.Equal(t, l.Keys(), keysOf(s), "keys present")
	for _, k := range l.Keys() {
		from, units := l.Units(k)
		end := from + int64(len(units))
		first := 0
		for first < len(units) && units[first].PhyOffset < minPhy {
			first++
		}
		b := mustBounds(t, s, k)
		require.Equal(t, from+int64(first), b.Min, "min of %s", k)
		require.Equal(t, end, b.Max, "max of %s", k)
		require.Equal(t, first == len(units), b.Empty())
		if first == len(units) {
			require.EqualValues(t, -1, b.MinPhyOffset)
			continue
		}
		last := units[len(units)-1]
		require.Equal(t, units[first].PhyOffset, b.MinPhyOffset, "min phy of %s", k)
		require.Equal(t, last.PhyOffset, b.LastPhyOffset, "last phy of %s", k)
		require.Equal(t, last.End(), b.MaxPhyOffset, "max phy of %s", k)
		want := make([]cq.Unit, 0, len(units))
		for _, u := range units[first:] {
			want = append(want, e.stored(u))
		}
		require.Equal(t, want, readAll(t, mustQueue(t, s, k), b.Min, b.Max, 64), "units of %s", k)
	}
}

// tree returns the content of every file under dir as path -> digest, directories as "dir".
func (e *env) tree(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(e.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(e.dir, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if e.IgnoreFile != nil && e.IgnoreFile(rel) {
			return nil
		}
		if d.IsDir() {
			out[rel] = "dir"
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		out[rel] = fmt.Sprintf("%d bytes %x", len(b), sha256.Sum256(b))
		return nil
	})
	require.NoError(t, err)
	return out
}

// Keys used by the cases. Their names are what operators have: retry topics, light queues, names that RocksDB also uses.
var (
	keyA     = cq.Key{Topic: "topic-a", QueueID: 0}
	keyA1    = cq.Key{Topic: "topic-a", QueueID: 1}
	keyB     = cq.Key{Topic: "B", QueueID: 7}
	keyRetry = cq.Key{Topic: "%RETRY%group_1", QueueID: 0}
	keyLMQ   = cq.Key{Topic: cq.LMQPrefix + "a|b-c_d", QueueID: 0}
	keyCur   = cq.Key{Topic: "CURRENT", QueueID: 3}
	allKeys  = []cq.Key{keyA, keyA1, keyB, keyRetry, keyLMQ, keyCur}
)
