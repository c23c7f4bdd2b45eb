//go:build cgo

package rocks

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

var keyT = cq.Key{Topic: "topic", QueueID: 3}

func testOptions() Options {
	o := MigrationOptions()
	o.Create = true
	o.RocksDB.Units.WriteBufferBytes, o.RocksDB.Offsets.WriteBufferBytes = 64<<10, 64<<10
	return o
}

func openAt(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func openNew(t *testing.T, o Options) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "cq"), o)
}

func reopen(t *testing.T, s *Store, o Options) *Store {
	t.Helper()
	require.NoError(t, s.Close())
	return openAt(t, s.dir, o)
}

// unit is the unit of slot: records of 100 bytes that lie 1,000 bytes apart.
func unit(slot int64) cq.Unit {
	return cq.Unit{PhyOffset: 1000 * slot, Size: 100, TagsCode: -slot, StoreTimestampMs: 1_700_000_000_000 + slot}
}

func units(from, to int64) []cq.Unit {
	var u []cq.Unit
	for ; from < to; from++ {
		u = append(u, unit(from))
	}
	return u
}

func entries(k cq.Key, from, to int64) []cq.Entry {
	var es []cq.Entry
	for ; from < to; from++ {
		es = append(es, cq.Entry{Key: k, QueueOffset: from, Unit: unit(from)})
	}
	return es
}

// appendAll appends and waits until all is readable.
func appendAll(t *testing.T, s *Store, es []cq.Entry, msg ...any) {
	t.Helper()
	require.NoError(t, s.Append(t.Context(), es), msg...)
	require.NoError(t, s.AwaitReadable(t.Context()), msg...)
}

// rows writes rows past the store, as another program may have left them.
func rows(t *testing.T, s *Store, fill func(b *rocks.Batch)) {
	t.Helper()
	b := s.db.NewBatch()
	fill(b)
	require.NoError(t, s.db.Write(b, false))
}

func putRow(b *rocks.Batch, k cq.Key, tag [3]byte, phy, slot int64) {
	b.Put(rocks.Offsets, appendRowKey(nil, k, tag), appendRow(nil, phy, slot))
}

func putUnits(b *rocks.Batch, k cq.Key, from, to int64) {
	for ; from < to; from++ {
		b.PutSlot(appendUnitPrefix(nil, k), from, appendUnit(nil, unit(from)))
	}
}

// countRows counts the rows of a family.
func countRows(t *testing.T, s *Store, f rocks.Family) (n int) {
	t.Helper()
	require.NoError(t, s.db.Scan(f, nil, func(_, _ []byte) bool { n++; return true }))
	return n
}

func boundsOf(t *testing.T, s *Store, k cq.Key) cq.Bounds {
	t.Helper()
	q, ok := s.Queue(k)
	require.True(t, ok)
	b, err := q.Bounds()
	require.NoError(t, err)
	return b
}

func requireUnits(t *testing.T, s *Store, k cq.Key, from int64, want []cq.Unit) {
	t.Helper()
	q, ok := s.Queue(k)
	require.True(t, ok)
	got := make([]cq.Unit, len(want)+1)
	n, err := q.Read(from, got)
	require.NoError(t, err)
	require.Equal(t, want, got[:n])
}

// TestBounds: what other programs, RocketMQ above all, may have left.
func TestBounds(t *testing.T) {
	const none = -1
	for _, c := range []struct {
		name   string
		fill   func(b *rocks.Batch)
		minPhy int64
		want   cq.Bounds
	}{
		{"no min row", func(b *rocks.Batch) {
			putUnits(b, keyT, 0, 10)
			putRow(b, keyT, tagMax, 9000, 9)
		}, 0, cq.Bounds{Min: 0, Max: 10, MinPhyOffset: 0, MaxPhyOffset: 9100, LastPhyOffset: 9000}},
		{"front expired", func(b *rocks.Batch) {
			putUnits(b, keyT, 0, 10)
			putRow(b, keyT, tagMax, 9000, 9)
		}, 4001, cq.Bounds{Min: 5, Max: 10, MinPhyOffset: 5000, MaxPhyOffset: 9100, LastPhyOffset: 9000}},
		{"front expired and removed, min row behind", func(b *rocks.Batch) {
			putUnits(b, keyT, 5, 10)
			putRow(b, keyT, tagMax, 9000, 9)
			putRow(b, keyT, tagMin, 2000, 2)
		}, 7000, cq.Bounds{Min: 7, Max: 10, MinPhyOffset: 7000, MaxPhyOffset: 9100, LastPhyOffset: 9000}},
		{"min row hides what is below", func(b *rocks.Batch) {
			putUnits(b, keyT, 0, 10)
			putRow(b, keyT, tagMax, 9000, 9)
			putRow(b, keyT, tagMin, 6000, 6)
		}, 0, cq.Bounds{Min: 6, Max: 10, MinPhyOffset: 6000, MaxPhyOffset: 9100, LastPhyOffset: 9000}},
		{"min row beyond max", func(b *rocks.Batch) {
			putUnits(b, keyT, 0, 10)
			putRow(b, keyT, tagMax, 9000, 9)
			putRow(b, keyT, tagMin, 60000, 60)
		}, 0, cq.Bounds{Min: 10, Max: 10, MinPhyOffset: none, MaxPhyOffset: 9100, LastPhyOffset: 9000}},
		{"hole at the front", func(b *rocks.Batch) {
			putUnits(b, keyT, 3, 10)
			putRow(b, keyT, tagMax, 9000, 9)
		}, 0, cq.Bounds{Min: 3, Max: 10, MinPhyOffset: 3000, MaxPhyOffset: 9100, LastPhyOffset: 9000}},
		{"all expired", func(b *rocks.Batch) {
			putUnits(b, keyT, 0, 10)
			putRow(b, keyT, tagMax, 9000, 9)
		}, 50_000, cq.Bounds{Min: 10, Max: 10, MinPhyOffset: none, MaxPhyOffset: 9100, LastPhyOffset: 9000}},
		{"all expired and removed", func(b *rocks.Batch) {
			putRow(b, keyT, tagMax, 9000, 9)
		}, 50_000, cq.Bounds{Min: 10, Max: 10, MinPhyOffset: none, MaxPhyOffset: none, LastPhyOffset: none}},
		{"all removed, log unknown", func(b *rocks.Batch) {
			putRow(b, keyT, tagMax, 9000, 9)
		}, -1, cq.Bounds{Min: 10, Max: 10, MinPhyOffset: none, MaxPhyOffset: none, LastPhyOffset: none}},
		{"empty but advanced", func(b *rocks.Batch) {
			putRow(b, keyT, tagMax, 0, 9)
			putRow(b, keyT, tagMin, 0, 10)
		}, 0, cq.Bounds{Min: 10, Max: 10, MinPhyOffset: none, MaxPhyOffset: none, LastPhyOffset: none}},
		{"set to a new beginning above units", func(b *rocks.Batch) {
			putUnits(b, keyT, 0, 10)
			putRow(b, keyT, tagMax, 0, 9)
			putRow(b, keyT, tagMin, 0, 10)
		}, 0, cq.Bounds{Min: 10, Max: 10, MinPhyOffset: none, MaxPhyOffset: none, LastPhyOffset: none}},
		{"units above max", func(b *rocks.Batch) {
			putUnits(b, keyT, 0, 10)
			putRow(b, keyT, tagMax, 4000, 4)
		}, 0, cq.Bounds{Min: 0, Max: 5, MinPhyOffset: 0, MaxPhyOffset: 4100, LastPhyOffset: 4000}},
		{"one unit at 0", func(b *rocks.Batch) {
			putUnits(b, keyT, 0, 1)
			putRow(b, keyT, tagMax, 0, 0)
		}, 0, cq.Bounds{Min: 0, Max: 1, MinPhyOffset: 0, MaxPhyOffset: 100, LastPhyOffset: 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := testOptions()
			o.MinPhyOffset = c.minPhy
			s := openNew(t, o)
			rows(t, s, c.fill)
			s = reopen(t, s, o)
			all := countRows(t, s, rocks.Offsets)
			for range 2 { // the second time from memory
				require.Equal(t, c.want, boundsOf(t, s, keyT))
			}
			require.Equal(t, all, countRows(t, s, rocks.Offsets), "asking writes nothing")
			q, _ := s.Queue(keyT)
			_, err := q.Read(c.want.Max, make([]cq.Unit, 1))
			var re *cq.RangeError
			require.ErrorAs(t, err, &re)
			require.Equal(t, cq.RangeError{Key: keyT, Want: c.want.Max, Min: c.want.Min, Max: c.want.Max}, *re)
		})
	}
}

func TestContradictions(t *testing.T) {
	for _, c := range []struct {
		name string
		fill func(b *rocks.Batch)
		text string
	}{
		{"last unit is missing", func(b *rocks.Batch) {
			putUnits(b, keyT, 0, 9)
			putRow(b, keyT, tagMax, 9000, 9)
		}, "max row topic/3 slot 9): got no unit, want a unit of record 9000"},
		{"max row and unit disagree", func(b *rocks.Batch) {
			putUnits(b, keyT, 0, 10)
			putRow(b, keyT, tagMax, 8999, 9)
		}, "got record 8999, want record 9000 as in the unit"},
		{"impossible last unit", func(b *rocks.Batch) {
			b.PutSlot(appendUnitPrefix(nil, keyT), 0, appendUnit(nil, cq.Unit{PhyOffset: 7, Size: 0}))
			putRow(b, keyT, tagMax, 7, 0)
		}, "unit topic/3 slot 0): got position 7 and size 0"},
		{"impossible first unit", func(b *rocks.Batch) {
			putUnits(b, keyT, 0, 3)
			b.PutSlot(appendUnitPrefix(nil, keyT), 0, appendUnit(nil, cq.Unit{PhyOffset: 7, Size: -1}))
			putRow(b, keyT, tagMax, 2000, 2)
		}, "unit topic/3 slot 0): got position 7 and size -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openNew(t, testOptions())
			rows(t, s, c.fill)
			s = reopen(t, s, testOptions())
			q, ok := s.Queue(keyT)
			require.True(t, ok)
			_, err := q.Bounds()
			require.ErrorIs(t, err, cq.ErrCorrupt)
			require.ErrorContains(t, err, s.dir)
			require.ErrorContains(t, err, c.text)
		})
	}
}

func TestReadStopsAtHolesAndBadUnits(t *testing.T) {
	s := openNew(t, testOptions())
	rows(t, s, func(b *rocks.Batch) {
		putUnits(b, keyT, 0, 5)
		putUnits(b, keyT, 8, 20)
		b.PutSlot(appendUnitPrefix(nil, keyT), 12, appendUnit(nil, cq.Unit{PhyOffset: -4, Size: 7}))
		putRow(b, keyT, tagMax, 19000, 19)
	})
	s = reopen(t, s, testOptions())
	requireUnits(t, s, keyT, 0, units(0, 5))
	requireUnits(t, s, keyT, 5, []cq.Unit{})
	requireUnits(t, s, keyT, 7, []cq.Unit{})
	requireUnits(t, s, keyT, 8, units(8, 12))
	requireUnits(t, s, keyT, 13, units(13, 20))
	q, _ := s.Queue(keyT)
	_, err := q.Read(12, make([]cq.Unit, 3))
	require.ErrorIs(t, err, cq.ErrCorrupt)
	require.ErrorContains(t, err, "unit topic/3 slot 12")
}

// TestOddRows: the checkpoint and whatever else has not the shape of an end is passed over, by opening and by truncation.
func TestOddRows(t *testing.T) {
	s := openNew(t, testOptions())
	other := cq.Key{Topic: "other"}
	rows(t, s, func(b *rocks.Batch) {
		putRow(b, keyT, tagMin, 0, 0)                    // no max row
		putRow(b, cq.Key{Topic: "never"}, tagMax, 0, -1) // max 0
		putRow(b, cq.Key{}, tagMax, 1, 1)                // 14 bytes of key
		putRow(b, cq.Key{Topic: "x"}, [3]byte{}, 1, 1)   // another tag
		b.Put(rocks.Offsets, []byte("?"), []byte("?"))   // anything
		b.Put(rocks.Offsets, appendRowKey(nil, cq.Key{Topic: "short"}, tagMax), make([]byte, 15))
		b.Put(rocks.Offsets, checkpointKey, binary.BigEndian.AppendUint64(nil, 9100))
		putUnits(b, other, 0, 10)
		putRow(b, other, tagMax, 9000, 9)
	})
	s = reopen(t, s, testOptions())
	keys, err := cq.SortedKeys(s)
	require.NoError(t, err)
	require.Equal(t, []cq.Key{other}, keys)
	require.EqualValues(t, 9100, s.DispatchFrom())
	require.NoError(t, s.TruncateDirty(t.Context(), 3000))
	require.EqualValues(t, 3000, s.DispatchFrom())
	require.EqualValues(t, 3, boundsOf(t, s, other).Max)

	rows(t, s, func(b *rocks.Batch) { b.Put(rocks.Offsets, checkpointKey, []byte("seven b")) })
	require.NoError(t, s.Close())
	_, err = Open(s.dir, testOptions())
	require.ErrorIs(t, err, cq.ErrCorrupt)
	require.ErrorContains(t, err, "(checkpoint): got 7, want 8 bytes")
}

func TestF11AppendRefusesWhatHasNoRow(t *testing.T) {
	good := cq.Entry{Key: cq.Key{Topic: strings.Repeat("x", MaxTopicBytes)}, Unit: unit(1)}
	for _, c := range []struct {
		name   string
		change func(e *cq.Entry)
		text   string
		queue  bool // nothing of the queue can be held
	}{
		{"long topic", func(e *cq.Entry) { e.Key.Topic += "x" }, "282 bytes is longer than 281", true},
		{"no topic", func(e *cq.Entry) { e.Key.Topic = "" }, "topic is empty", true},
		{"negative queue", func(e *cq.Entry) { e.Key.QueueID = -1 }, "queue id is negative", true},
		{"the checkpoint's row", func(e *cq.Entry) { e.Key = cq.Key{Topic: checkpointTopic} }, "checkpoint", true},
		{"negative slot", func(e *cq.Entry) { e.QueueOffset = -1 }, "slot -1", false},
		{"negative position", func(e *cq.Entry) { e.Unit.PhyOffset = -1 }, "record -1", false},
		{"no size", func(e *cq.Entry) { e.Unit.Size = 0 }, "size 0", false},
		{"filler", func(e *cq.Entry) { e.Unit = cq.Unit{Size: cq.PreBlankSize} }, "size 2147483647", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openNew(t, testOptions())
			bad := good
			c.change(&bad)
			err := s.Append(t.Context(), []cq.Entry{entries(keyT, 0, 1)[0], bad, entries(keyT, 1, 2)[0]})
			require.ErrorContains(t, err, c.text)
			if c.queue {
				var refused *cq.QueueError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, bad.Key, refused.Key)
				require.ErrorAs(t, s.CheckName(bad.Key), &refused)
			} else {
				var refused *cq.EntryError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, []any{bad.Key, bad.QueueOffset, bad.Unit.PhyOffset}, []any{refused.Key, refused.QueueOffset, refused.PhyOffset})
				require.NoError(t, s.CheckName(bad.Key))
			}
			require.NoError(t, s.AwaitReadable(t.Context()))
			requireUnits(t, s, keyT, 0, units(0, 1))
			appendAll(t, s, append(entries(keyT, 1, 2), good), "it does not stick")
			requireUnits(t, s, keyT, 0, units(0, 2))
			requireUnits(t, s, good.Key, 0, units(1, 2))
			require.Error(t, s.Import(t.Context(), []cq.Run{{Key: bad.Key, From: bad.QueueOffset, Units: []cq.Unit{bad.Unit}}}))
		})
	}
}

// TestRepeatWithinOneCall: what the same call has staged counts as stored.
func TestRepeatWithinOneCall(t *testing.T) {
	s := openNew(t, testOptions())
	other := cq.Entry{Key: keyT, QueueOffset: 1, Unit: unit(7)}
	err := s.Append(t.Context(), append(entries(keyT, 0, 3), other))
	var conflict *cq.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, cq.ConflictError{Key: keyT, QueueOffset: 1, Stored: unit(1), New: unit(7)}, *conflict)
	require.NoError(t, s.AwaitReadable(t.Context()))
	requireUnits(t, s, keyT, 0, units(0, 3))
	appendAll(t, s, append(entries(keyT, 3, 5), entries(keyT, 4, 7)...))
	requireUnits(t, s, keyT, 0, units(0, 7))
	late := entries(keyT, 6, 7)[0]
	late.Unit.StoreTimestampMs++
	require.ErrorAs(t, s.Append(t.Context(), []cq.Entry{late}), &conflict, "another time is another unit")
	late.Unit.StoreTimestampMs = cq.NoTimestamp
	appendAll(t, s, []cq.Entry{late}, "unless it is not known")
}

// TestF13CheckpointNeverFalls: what is dispatched again after a restart is older than the checkpoint.
func TestF13CheckpointNeverFalls(t *testing.T) {
	s := openNew(t, testOptions())
	other := cq.Key{Topic: "other"}
	appendAll(t, s, entries(keyT, 0, 10))
	require.EqualValues(t, 9100, s.DispatchFrom())
	appendAll(t, s, entries(other, 0, 3))
	require.EqualValues(t, 9100, s.DispatchFrom())
	require.NoError(t, s.Publish(t.Context(), nil, 5000))
	s = reopen(t, s, testOptions())
	require.EqualValues(t, 9100, s.DispatchFrom())
	require.NoError(t, s.Publish(t.Context(), nil, 9900))
	s = reopen(t, s, testOptions())
	require.EqualValues(t, 9900, s.DispatchFrom())
}

func TestOnlyTheUnflushedTailIsLost(t *testing.T) {
	o := testOptions()
	o.RocksDB.AvoidFlushDuringShutdown = true // as a kill
	s := openNew(t, o)
	appendAll(t, s, entries(keyT, 0, 20))
	_, _, durable := s.Progress()
	require.EqualValues(t, -1, durable)
	require.NoError(t, s.Flush(t.Context()))
	appendAll(t, s, entries(keyT, 20, 30))
	accepted, readable, durable := s.Progress()
	require.Equal(t, []int64{29_100, 29_100, 19_100}, []int64{accepted, readable, durable})

	s = reopen(t, s, o)
	require.EqualValues(t, 19_100, s.DispatchFrom())
	require.EqualValues(t, 20, boundsOf(t, s, keyT).Max)
	appendAll(t, s, entries(keyT, 15, 30), "dispatch resumes, some of it again")
	requireUnits(t, s, keyT, 0, units(0, 30))
}

// TestF9FailureSticks takes the directory away under the database.
func TestF9FailureSticks(t *testing.T) {
	s := openNew(t, testOptions())
	appendAll(t, s, entries(keyT, 0, 3))
	require.NoError(t, os.Rename(s.dir, s.dir+".away"))
	failure := s.Flush(t.Context())
	require.ErrorContains(t, failure, "flush RocksDB in "+s.dir)
	require.NoError(t, os.Rename(s.dir+".away", s.dir))
	require.Equal(t, failure, s.Append(t.Context(), entries(keyT, 3, 4)))
	require.Equal(t, failure, s.Publish(t.Context(), nil, 5))
	requireUnits(t, s, keyT, 0, units(0, 3))
}

func TestOpenErrors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	for _, o := range []Options{{}, {ReadOnly: true}, {ReadOnly: true, Create: true}} {
		_, err := Open(dir, o)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoDirExists(t, dir)
	}
	s := openNew(t, testOptions())
	appendAll(t, s, entries(keyT, 0, 3))
	require.NoError(t, s.Close())
	tables, err := filepath.Glob(filepath.Join(s.dir, "*.sst"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(tables[0]))
	_, err = Open(s.dir, testOptions())
	require.ErrorIs(t, err, cq.ErrCorrupt)
	require.ErrorContains(t, err, s.dir)
	require.ErrorContains(t, err, "rebuild the consume queues from the CommitLog")

	_, err = Open(t.TempDir(), Options{Create: true, RocksDB: RocksDBOptions{MaxCalls: -1}})
	require.ErrorContains(t, err, "max calls -1")
}

func TestF29F38MinFollowsTheLog(t *testing.T) {
	s := openNew(t, testOptions())
	appendAll(t, s, entries(keyT, 0, 1000))
	require.EqualValues(t, 0, boundsOf(t, s, keyT).Min)
	require.NoError(t, s.SetMinPhyOffset(400_500))
	require.EqualValues(t, 401, boundsOf(t, s, keyT).Min)
	require.NoError(t, s.SetMinPhyOffset(100))
	require.EqualValues(t, 401, boundsOf(t, s, keyT).Min, "a log's min does not fall")
	before := countRows(t, s, rocks.Units)
	require.Equal(t, 1000, before)
	require.NoError(t, s.Compact(t.Context(), nil))
	require.Equal(t, 599, countRows(t, s, rocks.Units))
	require.Equal(t, cq.Bounds{Min: 401, Max: 1000, MinPhyOffset: 401_000, MaxPhyOffset: 999_100, LastPhyOffset: 999_000}, boundsOf(t, s, keyT))
	appendAll(t, s, entries(keyT, 390, 420), "repeats of units that are gone are accepted")
	require.Equal(t, 599, countRows(t, s, rocks.Units))
	// Everything expires: still no end of the queue, and cleaning it again is quiet.
	require.NoError(t, s.SetMinPhyOffset(2_000_000))
	require.NoError(t, s.Compact(t.Context(), nil))
	require.NoError(t, s.Compact(t.Context(), nil))
	require.Zero(t, countRows(t, s, rocks.Units))
	require.Equal(t, cq.Bounds{Min: 1000, Max: 1000, MinPhyOffset: -1, MaxPhyOffset: 999_100, LastPhyOffset: 999_000}, boundsOf(t, s, keyT))
}

func TestManyQueues(t *testing.T) {
	const n = 100_000
	s := openNew(t, testOptions())
	ends := make([]cq.QueueEnd, 0, n)
	for i := range n {
		ends = append(ends, cq.QueueEnd{Key: cq.Key{Topic: fmt.Sprintf("%%LMQ%%client-%d", i)}, Max: int64(i + 1), Min: int64(i + 1)})
	}
	require.NoError(t, s.Publish(t.Context(), ends, 77))
	s = reopen(t, s, testOptions())
	require.Equal(t, n, countKeys(t, s))
	require.EqualValues(t, 77, s.DispatchFrom())
	require.EqualValues(t, 500, boundsOf(t, s, ends[499].Key).Max)
	require.NoError(t, s.TruncateDirty(context.Background(), 0))
	require.Zero(t, countKeys(t, s))
	s = reopen(t, s, testOptions())
	require.Zero(t, countKeys(t, s))
	require.Equal(t, 1, countRows(t, s, rocks.Offsets), "the checkpoint")
}

func countKeys(t *testing.T, s *Store) (n int) {
	t.Helper()
	for _, err := range s.Queues() {
		require.NoError(t, err)
		n++
	}
	return n
}
