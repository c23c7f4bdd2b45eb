//go:build cgo

package rocks

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/internal/rocks"
	"github.com/tandemq/tandemmq/message"
)

func testOptions() Options {
	o := rocks.MigrationOptions()
	o.Units.WriteBufferBytes, o.Offsets.WriteBufferBytes = 64<<10, 64<<10
	return Options{Create: true, RocksDB: o, bufferBytes: 1 << 10}
}

func open(t testing.TB, dir string, o Options) *Index {
	t.Helper()
	x, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	return x
}

func appendAll(t testing.TB, x *Index, log []message.DispatchRequest) {
	t.Helper()
	for len(log) > 0 {
		var b Batch
		n := min(len(log), 50)
		for i := range log[:n] {
			b.Add(&log[i])
		}
		require.NoError(t, x.AppendBatch(&b))
		log = log[n:]
	}
}

// traffic makes messages over some hours, with keys that are few and contain the separator now and then.
func traffic(seed uint64, n int, stepMs int64) []message.DispatchRequest {
	rnd := rand.New(rand.NewPCG(seed, 1))
	keys := []string{"a", "a@z", "z", "ab", "order", "u3", ""}
	ms := startMs
	log := make([]message.DispatchRequest, n)
	for i := range log {
		uniq := fmt.Sprintf("u%d", i)
		if rnd.IntN(10) == 0 {
			uniq = []string{"", "z", "z@u", "a"}[rnd.IntN(4)]
		}
		log[i] = request(int64(100*i), ms, uniq, keys[rnd.IntN(len(keys))]+" "+keys[rnd.IntN(len(keys))], []string{"t", "t@z", ""}[rnd.IntN(3)])
		ms += rnd.Int64N(stepMs)
	}
	return log
}

// has tells whether a message has the key.
func has(r *message.DispatchRequest, q *index.Query) bool {
	if string(r.Topic) != q.Topic {
		return false
	}
	if q.Type == index.TypeTag {
		return len(r.Tags) > 0 && string(r.Tags) == q.Key
	}
	return len(r.UniqKey) > 0 && string(r.UniqKey) == q.Key || slices.Contains(strings.Fields(string(r.Keys)), q.Key)
}

// TestQueryModel compares random queries with a search through the messages: I9 (keys that begin alike), I15 (newest first, across hours), paging (I10).
func TestQueryModel(t *testing.T) {
	o := testOptions()
	x := open(t, t.TempDir(), o)
	log := traffic(1, 3000, 20_000)
	appendAll(t, x, log)
	span := log[len(log)-1].StoreTimestampMs - startMs
	require.Greater(t, span, int64(5*hourMs))
	rnd := rand.New(rand.NewPCG(2, 2))
	hits := 0
	for range 2000 {
		q := index.Query{Topic: "T1", Key: []string{"a", "a@z", "z", "ab", "u3", fmt.Sprint("u", rnd.IntN(3000)), "none"}[rnd.IntN(7)], Max: rnd.IntN(70), EndMs: math.MaxInt64}
		if rnd.IntN(3) == 0 {
			q.Type, q.Key = index.TypeTag, []string{"t", "t@z", "x"}[rnd.IntN(3)]
		}
		if rnd.IntN(2) == 0 {
			q.BeginMs = startMs + rnd.Int64N(span)
			q.EndMs = q.BeginMs + rnd.Int64N(span)
		}
		if rnd.IntN(4) == 0 {
			q.BeginMs = log[rnd.IntN(len(log))].StoreTimestampMs // to the millisecond
		}
		if rnd.IntN(3) == 0 {
			q.BelowPhyOffset = int64(rnd.IntN(300_000))
		}
		var want []int64
		for i := len(log) - 1; i >= 0 && len(want) < min(q.Max, 64); i-- {
			r := &log[i]
			if has(r, &q) && r.StoreTimestampMs >= q.BeginMs && r.StoreTimestampMs <= q.EndMs && (q.BelowPhyOffset == 0 || r.PhyOffset < q.BelowPhyOffset) {
				want = append(want, r.PhyOffset)
			}
		}
		looks := 0
		q.Looked = func(f index.FileLook) { looks += int(f.Steps) }
		a, err := x.Query(q, func(phy int64) bool { return has(&log[phy/100], &q) })
		require.NoError(t, err)
		require.Equal(t, want, a.PhyOffsets, "%+v", q)
		require.Zero(t, a.BadLinks)
		require.EqualValues(t, a.Steps, looks)
		hits += len(want)
	}
	require.Greater(t, hits, 5000)
}

// TestI9KeysThatBeginAlike: rows of key a@z are candidates for key a, and use up nothing when the record says no; those of unique keys are told apart without it.
func TestI9KeysThatBeginAlike(t *testing.T) {
	x := open(t, t.TempDir(), testOptions())
	log := []message.DispatchRequest{request(0, startMs, "u", "a", "")}
	for i := int64(1); i <= 300; i++ {
		log = append(log, request(100*i, startMs, fmt.Sprint("a@", i), "a@z", ""))
	}
	log = append(log, request(30_100, startMs, "a@7@x", "", ""))
	appendAll(t, x, log)
	q := index.Query{Topic: "T1", Key: "a", Max: 1, EndMs: math.MaxInt64}
	a, err := x.Query(q, func(phy int64) bool { return has(&log[phy/100], &q) })
	require.NoError(t, err)
	require.Equal(t, []int64{0}, a.PhyOffsets)
	require.Equal(t, 300, a.Rejected)
	a, err = x.Query(index.Query{Topic: "T1", Key: "a@7", Max: 9, EndMs: math.MaxInt64}, nil)
	require.NoError(t, err)
	require.Equal(t, []int64{700}, a.PhyOffsets)
}

// TestI10PagesOfUniqueKeysAndOddKeys: going on below what was found comes to every message once, whatever is in the keys.
func TestI10PagesOfUniqueKeysAndOddKeys(t *testing.T) {
	x := open(t, t.TempDir(), testOptions())
	const n = 700
	var log []message.DispatchRequest
	for i := range int64(n) {
		log = append(log, request(100*i, startMs+i*30_000, "same@key", "k@", ""))
	}
	appendAll(t, x, log)
	for _, key := range []string{"same@key", "k@"} {
		got, below := []int64{}, int64(0)
		for {
			a, err := x.Query(index.Query{Topic: "T1", Key: key, Max: 64, EndMs: math.MaxInt64, BelowPhyOffset: below}, nil)
			require.NoError(t, err)
			if len(a.PhyOffsets) == 0 {
				break
			}
			got = append(got, a.PhyOffsets...)
			if below = got[len(got)-1]; below == 0 {
				break // nothing is below the log's first message
			}
		}
		require.Len(t, got, n)
		require.True(t, slices.IsSortedFunc(got, func(a, b int64) int { return int(b - a) }))
	}
}

// TestI15NewestFirst: under a limit it is the newest messages that are answered, across hours, and within one whatever their unique keys are.
func TestI15NewestFirst(t *testing.T) {
	x := open(t, t.TempDir(), testOptions())
	var log []message.DispatchRequest
	for i := range int64(100) {
		log = append(log, request(100*i, startMs+i*hourMs/40, fmt.Sprint((i*37)%100), "k", ""))
	}
	appendAll(t, x, log)
	a, err := x.Query(index.Query{Topic: "T1", Key: "k", Max: 60, EndMs: math.MaxInt64}, nil)
	require.NoError(t, err)
	require.Len(t, a.PhyOffsets, 60)
	for i, phy := range a.PhyOffsets {
		require.EqualValues(t, 9900-100*i, phy)
	}
}

// TestI11AFailedWriteLosesNothing: progress does not pass a batch that could not be written, and the batch can be tried again.
func TestI11AFailedWriteLosesNothing(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir, testOptions())
	log := traffic(3, 100, 1000)
	appendAll(t, x, log[:50])
	require.NoError(t, x.Flush())
	refusing, err := rocks.OpenReadOnly(dir, x.o.RocksDB)
	require.NoError(t, err)
	real := x.db
	x.db = refusing
	var b Batch
	for i := range log[50:] {
		b.Add(&log[50+i])
	}
	require.ErrorIs(t, x.AppendBatch(&b), rocks.ErrReadOnly)
	x.db = real
	require.NoError(t, refusing.Close())
	require.EqualValues(t, 5000, x.DispatchFrom())
	_, ms := x.Last()
	require.Equal(t, log[49].StoreTimestampMs, ms)
	require.NoError(t, x.AppendBatch(&b))
	require.EqualValues(t, 10_000, x.DispatchFrom())
	requireSame(t, x, log)
}

// contents returns all rows of messages.
func contents(t testing.TB, x *Index) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	require.NoError(t, x.Rows(func(r Row) bool {
		all[string(r.Key)] = r.StoreMs
		return true
	}, func(err error) { require.NoError(t, err) }))
	return all
}

// requireSame compares the rows with those of a log.
func requireSame(t testing.TB, x *Index, log []message.DispatchRequest) {
	t.Helper()
	want := map[string]int64{}
	for i := range log {
		for _, key := range Keys(nil, &log[i]) {
			want[string(key)] = log[i].StoreTimestampMs
		}
	}
	require.Equal(t, want, contents(t, x))
}

// TestI12ExpiryBeginsAtZero: all that is older goes, however long the pause was; what the log may still have stays.
func TestI12ExpiryBeginsAtZero(t *testing.T) {
	x := open(t, t.TempDir(), testOptions())
	old := request(0, startMs-2*365*24*hourMs, "old", "k", "t") // two years before
	before := request(100, startMs-2*hourMs, "before", "k", "t")
	set := request(400, startMs-1, "clock set back", "k", "t")
	log := []message.DispatchRequest{old, before, request(300, startMs, "first", "k", "t"), set, request(500, startMs+1, "last", "k", "t")}
	appendAll(t, x, log)
	removed, err := x.Expire(startMs)
	require.NoError(t, err)
	require.True(t, removed)
	requireSame(t, x, log[2:])
	removed, err = x.Expire(startMs + 1)
	require.NoError(t, err)
	require.False(t, removed, "once an hour")
	from := x.DispatchFrom()
	require.NoError(t, x.Close())
	x = open(t, x.dir, testOptions())
	require.Equal(t, from, x.DispatchFrom(), "progress stays")
	requireSame(t, x, log[2:])
}

// TestI13WhatRocketMQIndexedIsNotTakenForAll: rows of progress that RocketMQ wrote do not say that nothing is missing below; messages without a unique key are indexed.
func TestI13WhatRocketMQIndexedIsNotTakenForAll(t *testing.T) {
	x := open(t, t.TempDir(), testOptions())
	require.EqualValues(t, -1, x.DispatchFrom())
	log := traffic(4, 300, 1000)
	b := x.db.NewBatch() // as RocketMQ does, from the middle on
	for i := range log[200:] {
		for _, key := range Keys(nil, &log[200+i]) {
			b.Put(rocks.Units, key, be(log[200+i].StoreTimestampMs))
		}
	}
	b.Put(rocks.Units, lastOffsetRow, be(log[299].PhyOffset))
	b.Put(rocks.Units, lastTimeRow, be(log[299].StoreTimestampMs))
	require.NoError(t, x.db.Write(b, false))
	require.NoError(t, x.Close())
	x = open(t, x.dir, testOptions())
	require.EqualValues(t, -1, x.DispatchFrom())
	appendAll(t, x, log[:100])
	phy, ms := x.Last()
	require.Equal(t, []int64{log[299].PhyOffset, log[299].StoreTimestampMs}, []int64{phy, ms}, "RocketMQ's never go back")
	appendAll(t, x, log[100:])
	require.EqualValues(t, 30_000, x.DispatchFrom())
	requireSame(t, x, log)
}

func be(n int64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(n >> (56 - 8*i))
	}
	return b
}

// TestAnyResume feeds the log again from any message, after a clean stop and after a kill.
func TestAnyResume(t *testing.T) {
	log := traffic(5, 400, 5000)
	for _, stop := range []int{1, 2, 250, 399} {
		for _, killed := range []bool{false, true} {
			dir := t.TempDir()
			o := testOptions()
			o.RocksDB.AvoidFlushDuringShutdown = killed
			x, err := Open(dir, o)
			require.NoError(t, err)
			appendAll(t, x, log[:stop/2])
			require.NoError(t, x.Flush())
			appendAll(t, x, log[:stop])
			require.EqualValues(t, stop/2, x.Skipped())
			if killed {
				require.NoError(t, x.db.Close())
			} else {
				require.NoError(t, x.Close())
			}
			x = open(t, dir, testOptions())
			from := x.DispatchFrom()
			if killed {
				require.GreaterOrEqual(t, from, int64(stop/2*100-100))
			} else {
				require.EqualValues(t, stop*100, from)
			}
			appendAll(t, x, log[max(0, from)/100:])
			requireSame(t, x, log)
		}
	}
}

// TestFRE05CutToTheLog: after the log lost its end, what comes in its place is indexed, and nothing is left of what was there.
func TestFRE05CutToTheLog(t *testing.T) {
	for _, step := range []int64{10, 100_000, 20 * hourMs} {
		for _, at := range []int{0, 1, 150, 299, 300} {
			x := open(t, t.TempDir(), testOptions())
			log := traffic(6, 300, step)
			appendAll(t, x, log)
			require.NoError(t, x.TruncateDirty(int64(at*100)))
			requireSame(t, x, log[:at])
			require.EqualValues(t, at*100, x.DispatchFrom())
			other := traffic(7, 310, step)
			log = append(log[:at:at], other[at:]...)
			appendAll(t, x, log[at:])
			requireSame(t, x, log)
			require.NoError(t, x.Close())
			x = open(t, x.dir, testOptions())
			require.EqualValues(t, 31_000, x.DispatchFrom())
		}
	}
}

// TestClear: every row goes, and the families beside stay.
func TestClear(t *testing.T) {
	x := open(t, t.TempDir(), testOptions())
	log := traffic(8, 100, 1000)
	appendAll(t, x, log)
	require.ElementsMatch(t, []string{"default", "timer", "trans"}, x.db.Families())
	require.NoError(t, x.Clear())
	require.Empty(t, contents(t, x))
	require.EqualValues(t, -1, x.DispatchFrom())
	require.NoError(t, x.Close())
	x = open(t, x.dir, testOptions())
	require.EqualValues(t, -1, x.DispatchFrom())
	appendAll(t, x, log)
	requireSame(t, x, log)
}

func TestReadOnlyAndClosed(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "none"), Options{ReadOnly: true})
	require.ErrorIs(t, err, fs.ErrNotExist)
	has, err := Exists(filepath.Join(dir, "none"), RocksDBOptions{})
	require.NoError(t, err)
	require.False(t, has)
	x := open(t, dir, testOptions())
	has, err = Exists(dir, RocksDBOptions{})
	require.NoError(t, err)
	require.False(t, has, "a database without rows")
	log := traffic(9, 10, 1000)
	appendAll(t, x, log)
	require.NoError(t, x.Flush())
	has, err = Exists(dir, RocksDBOptions{})
	require.NoError(t, err)
	require.True(t, has)
	o := testOptions()
	o.ReadOnly = true
	r := open(t, dir, o)
	requireSame(t, r, log)
	var b Batch
	b.Add(&log[0])
	require.ErrorIs(t, r.AppendBatch(&b), index.ErrReadOnly)
	require.ErrorIs(t, r.Flush(), index.ErrReadOnly)
	require.ErrorIs(t, r.TruncateDirty(0), index.ErrReadOnly)
	require.ErrorIs(t, r.Clear(), index.ErrReadOnly)
	_, err = r.Expire(startMs)
	require.ErrorIs(t, err, index.ErrReadOnly)
	require.NoError(t, x.Close())
	require.NoError(t, x.Close())
	_, err = x.Query(index.Query{Topic: "T1", Key: "a", Max: 1, EndMs: 1 << 60}, nil)
	require.ErrorIs(t, err, index.ErrClosed)
	_, err = Open(dir, Options{MaxResults: -1})
	require.ErrorContains(t, err, "MaxResults -1")

	require.NoError(t, os.Remove(filepath.Join(dir, "CURRENT")))
	_, err = Open(dir, testOptions())
	require.ErrorIs(t, err, index.ErrCorrupt)
	require.ErrorContains(t, err, "rebuild the message index")
}

// TestFRE03Clamp: no count and no number of steps goes beyond what is configured.
func TestFRE03Clamp(t *testing.T) {
	o := testOptions()
	o.MaxResults = 10
	x := open(t, t.TempDir(), o)
	var log []message.DispatchRequest
	for i := range int64(2000) {
		log = append(log, request(i*100, startMs, "", "k", ""))
	}
	appendAll(t, x, log)
	q := index.Query{Topic: "T1", Key: "k", Max: math.MaxInt32, EndMs: math.MaxInt64}
	a, err := x.Query(q, nil)
	require.NoError(t, err)
	require.Equal(t, []int64{199_900, 199_800}, a.PhyOffsets[:2])
	require.Len(t, a.PhyOffsets, 10)
	for _, n := range []int{0, -1, math.MinInt} {
		q.Max = n
		a, err = x.Query(q, nil)
		require.NoError(t, err)
		require.Empty(t, a.PhyOffsets)
	}
	q.Max = 5
	a, err = x.Query(q, func(phy int64) bool { return phy == 0 })
	require.NoError(t, err)
	require.Equal(t, []int64{0}, a.PhyOffsets, "rejected hits use up nothing")
	q.MaxSteps = 100
	a, err = x.Query(q, func(int64) bool { return false })
	require.NoError(t, err)
	require.True(t, a.Limited)
	require.EqualValues(t, 100, a.Steps)
}

// TestQueryBesideWriting asks while messages are added, cut and expired.
func TestQueryBesideWriting(t *testing.T) {
	x := open(t, t.TempDir(), testOptions())
	log := traffic(10, 1500, 10_000)
	var done sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		done.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				a, err := x.Query(index.Query{Topic: "T1", Key: "order", Max: 64, EndMs: math.MaxInt64}, nil)
				if err != nil || a.BadLinks > 0 || !slices.IsSortedFunc(a.PhyOffsets, func(a, b int64) int { return int(b - a) }) {
					t.Errorf("query: %v %+v", err, a)
					return
				}
			}
		})
	}
	for i := 0; i < len(log); i += 100 {
		appendAll(t, x, log[i:i+100])
		require.NoError(t, x.TruncateDirty(int64(i+50)*100))
		appendAll(t, x, log[i+50:i+100])
		_, err := x.Expire(log[max(0, i-500)].StoreTimestampMs)
		require.NoError(t, err)
	}
	close(stop)
	done.Wait()
}

// FuzzQuery asks a database whose rows have any damage, and reads it in every other way. Nothing panics or loops, what is answered is no negative offset, and the index can be
// written to and asked again.
//
// The damage is a list of rows: a byte that says what the row is made from, and up to 15 bytes that are put over its end.
func FuzzQuery(f *testing.F) {
	log := traffic(11, 40, 600_000)
	var keys [][]byte
	for i := range log {
		keys = Keys(keys, &log[i])
	}
	keys = append(keys, lastOffsetRow, lastTimeRow, indexedToRow)
	f.Add([]byte{}, "a", uint32(7))
	f.Add([]byte("\x03\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"), "a", uint32(7))
	f.Add(bytes.Repeat([]byte{0xff}, 64), "u3", uint32(1<<31))
	f.Fuzz(func(t *testing.T, damage []byte, key string, word uint32) {
		x := open(t, t.TempDir(), testOptions())
		appendAll(t, x, log)
		b := x.db.NewBatch()
		for ; len(damage) > 0; damage = damage[min(16, len(damage)):] {
			piece := damage[1:min(16, len(damage))]
			row := slices.Clone(keys[int(damage[0])%len(keys)])
			copy(row[max(0, len(row)-len(piece)):], piece)
			value := be(startMs)
			if damage[0]&1 == 1 {
				value = piece
			}
			b.Put(rocks.Units, row, value)
			if damage[0]&2 == 2 {
				b.Put(rocks.Units, piece, value)
			}
		}
		require.NoError(t, x.db.Write(b, false))
		require.NoError(t, x.Close())
		x = open(t, x.dir, testOptions())
		for _, q := range []index.Query{
			{EndMs: math.MaxInt64}, {BeginMs: math.MinInt64, EndMs: math.MaxInt64, Type: index.TypeTag}, {BeginMs: int64(word) << 10, EndMs: int64(word) << 11},
		} {
			q.Topic, q.Key, q.Max, q.BelowPhyOffset = "T1", key, 64, int64(word)
			a, err := x.Query(q, func(phy int64) bool { require.GreaterOrEqual(t, phy, int64(0)); return phy%200 == 0 })
			require.NoError(t, err)
			require.Less(t, a.Steps, int64(2000))
		}
		n := 0
		require.NoError(t, x.Rows(func(Row) bool { n++; return true }, func(error) { n++ }))
		require.Less(t, n, 1000)
		_, err := x.Expire(int64(word) << 10)
		require.NoError(t, err)
		require.NoError(t, x.TruncateDirty(int64(word)))
		if from := x.DispatchFrom(); from < math.MaxInt32 {
			m := request(max(from, 0), startMs, "fresh", key, "")
			appendAll(t, x, []message.DispatchRequest{m})
			a, err := x.Query(index.Query{Topic: "T1", Key: "fresh", Max: 64, EndMs: math.MaxInt64}, nil)
			require.NoError(t, err)
			require.Contains(t, a.PhyOffsets, m.PhyOffset)
		}
	})
}
