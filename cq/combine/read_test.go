package combine_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
)

// readFrom tells which side a read of the queue comes from.
func readFrom(t *testing.T, d *duo, q cq.Queue, slot int64) cq.Kind {
	t.Helper()
	d.file.reads, d.rocks.reads = 0, 0
	n, err := q.Read(slot, make([]cq.Unit, 1))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, 1, d.file.reads+d.rocks.reads)
	if d.file.reads == 1 {
		return cq.KindFile
	}
	return cq.KindRocks
}

func mustQueue(t *testing.T, s cq.Reader, k cq.Key) cq.Queue {
	t.Helper()
	q, ok := s.Queue(k)
	require.True(t, ok)
	require.Equal(t, k, q.Key())
	return q
}

func TestReadsFollowTheSwitch(t *testing.T) {
	d := newDuo(t, combine.Options{})
	d.rocks.late = true
	require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
	q := mustQueue(t, d, keyA)
	require.Equal(t, cq.KindFile, readFrom(t, d, q, 9))
	require.NoError(t, d.SetPreferred(cq.KindRocks))
	require.Equal(t, cq.KindRocks, d.Preferred())
	require.Equal(t, cq.KindRocks, readFrom(t, d, q, 9), "what was appended can be read there by then")
	require.Equal(t, "rocks", q.Where(0))
	require.Equal(t, cq.KindRocks, readFrom(t, d, mustQueue(t, d, keyA), 9))
	require.NoError(t, d.SetPreferred(cq.KindFile))
	require.Equal(t, cq.KindFile, readFrom(t, d, q, 9))
	require.Error(t, d.SetPreferred("java"))
	require.Error(t, d.SetAuthority("java"))
	require.NoError(t, d.SetAuthority(cq.KindRocks))
	require.Equal(t, cq.KindRocks, d.Authority())
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.SetPreferred(cq.KindRocks), cq.ErrClosed)
	_, err := q.Bounds()
	require.ErrorIs(t, err, cq.ErrClosed)
	require.True(t, d.file.closed && d.rocks.closed)
}

// A queue that the preferred side has all of is read there without waiting for the other one.
func TestFirstReadDoesNotWaitForTheOtherSide(t *testing.T) {
	d := newDuo(t, combine.Options{})
	d.rocks.late = true
	require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
	require.Equal(t, cq.KindFile, readFrom(t, d, mustQueue(t, d, keyA), 9))
	_, shown, _ := d.rocks.Progress()
	require.EqualValues(t, -1, shown)
	// Where it lacks something, what the other has accepted counts.
	require.NoError(t, d.Append(t.Context(), row(keyB, 0, 5, 1000)))
	d.file.m[keyB].first, d.file.m[keyB].units, d.file.m[keyB].shown = 2, d.file.m[keyB].units[2:], 3
	d.rocks.m[keyB].shown = 1
	require.Equal(t, cq.KindRocks, readFrom(t, d, mustQueue(t, d, keyB), 4))
	require.Equal(t, 5, d.rocks.m[keyB].shown)
}

// What was appended is served when it can be read from the side that its queue is read from.
func TestServed(t *testing.T) {
	batch := row(keyA, 0, 10, 0)
	light := []cq.Entry{entry(keyLight, 0, 2000)}
	for _, c := range []struct {
		name     string
		o        combine.Options
		before   func(d *duo)
		batch    []cq.Entry
		served   bool
		inTheEnd bool
	}{
		{name: "files preferred", batch: batch, served: true, inTheEnd: true},
		{name: "RocksDB preferred", o: combine.Options{Preferred: cq.KindRocks}, batch: batch, inTheEnd: true},
		{name: "light queues in RocksDB alone", o: combine.Options{LightInRocks: true}, batch: light},
		{name: "others beside them", o: combine.Options{LightInRocks: true}, batch: batch, served: true, inTheEnd: true},
		{name: "a queue that files lack", before: func(d *duo) { d.MarkDiverged(cq.KindFile, keyA, errors.New("lost")) }, batch: batch},
		{name: "files held", before: func(d *duo) { d.Hold(cq.KindFile) }, batch: batch},
		{name: "a queue that is read from RocksDB", before: func(d *duo) {
			d.rocks.m[keyB] = &fakeQueue{units: []cq.Unit{entry(keyB, 0, 1).Unit}, shown: 1}
			_, err := mustQueue(t, d, keyB).Bounds()
			require.NoError(t, err)
		}, batch: batch},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDuo(t, c.o)
			d.rocks.late = true
			if c.before != nil {
				c.before(d)
			}
			require.NoError(t, d.Append(t.Context(), c.batch))
			require.Equal(t, c.served, d.Served(c.batch))
			require.NoError(t, d.AwaitReadable(t.Context()))
			require.Equal(t, c.inTheEnd, d.Served(c.batch))
		})
	}
}

// Where a side lacks something the other is read, and where both do the one that ends later.
func TestReadsFollowReadiness(t *testing.T) {
	for name, tc := range map[string]struct {
		preferred, other [2]int64 // slots
		want             bool     // the preferred one is read
		ready            [2]bool
	}{
		"the same":                  {[2]int64{0, 10}, [2]int64{0, 10}, true, [2]bool{true, true}},
		"more than the other":       {[2]int64{0, 12}, [2]int64{3, 10}, true, [2]bool{true, false}},
		"begins later":              {[2]int64{3, 10}, [2]int64{0, 10}, false, [2]bool{false, true}},
		"ends earlier":              {[2]int64{0, 9}, [2]int64{0, 10}, false, [2]bool{false, true}},
		"each lacks, ends later":    {[2]int64{3, 12}, [2]int64{0, 10}, true, [2]bool{}},
		"each lacks, ends earlier":  {[2]int64{0, 10}, [2]int64{3, 12}, false, [2]bool{}},
		"absent":                    {[2]int64{}, [2]int64{0, 10}, false, [2]bool{false, true}},
		"the other is absent":       {[2]int64{5, 10}, [2]int64{}, true, [2]bool{true, false}},
		"begins later, ends though": {[2]int64{3, 10}, [2]int64{0, 9}, true, [2]bool{}},
	} {
		for _, sides := range bothSides {
			t.Run(name+"/"+string(sides[0]), func(t *testing.T) {
				d := newDuo(t, combine.Options{Preferred: sides[0]})
				for i, r := range [][2]int64{tc.preferred, tc.other} {
					if r[1] > 0 {
						require.NoError(t, d.side(sides[i]).Append(t.Context(), row(keyA, r[0], r[1], r[0]*100)))
					}
				}
				q := mustQueue(t, d, keyA)
				want := sides[0]
				if !tc.want {
					want = sides[1]
				}
				for range 3 {
					require.Equal(t, want, readFrom(t, d, q, 8))
					require.Equal(t, want, readFrom(t, d, mustQueue(t, d, keyA), 8))
				}
				require.Equal(t, tc.ready[0], d.Ready(sides[0], keyA))
				require.Equal(t, tc.ready[1], d.Ready(sides[1], keyA))
				// Nothing lasts that may change: now the preferred side has all.
				d.side(sides[0]).m[keyA] = &fakeQueue{}
				require.NoError(t, d.side(sides[0]).Append(t.Context(), row(keyA, 0, 13, 0)))
				d.Hold(sides[0])
				require.NoError(t, d.Release(sides[0]))
				require.Equal(t, sides[0], readFrom(t, d, q, 8))
			})
		}
	}
}

func TestPreferredSideCatchesUp(t *testing.T) {
	d := newDuo(t, combine.Options{Preferred: cq.KindRocks})
	d.rocks.late = true
	require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
	q := mustQueue(t, d, keyA)
	require.Equal(t, cq.KindRocks, readFrom(t, d, q, 9), "units that come late are waited for")
	// While a batch comes to one side first, nothing changes.
	d.file.after = func() {
		b, err := q.Bounds()
		require.NoError(t, err)
		require.EqualValues(t, 10, b.Max)
		require.Equal(t, cq.KindRocks, readFrom(t, d, mustQueue(t, d, keyA), 9))
	}
	require.NoError(t, d.Append(t.Context(), row(keyA, 10, 12, 1000)))
	d.file.after = nil

	// What it really lacks comes by a replay.
	keyC := cq.Key{Topic: "c"}
	for _, from := range []int64{0, 5} {
		require.NoError(t, d.file.Append(t.Context(), row(keyC, 0, 10, 2000)))
		if from > 0 {
			require.NoError(t, d.rocks.Append(t.Context(), row(keyC, 0, from, 2000)))
		}
		q = mustQueue(t, d, keyC)
		require.Equal(t, cq.KindFile, readFrom(t, d, q, 9))
		require.NoError(t, d.Append(t.Context(), row(keyC, 0, 10, 2000)))
		require.Equal(t, cq.KindFile, readFrom(t, d, q, 9))
		require.NoError(t, d.Flush(t.Context()))
		require.Equal(t, cq.KindRocks, readFrom(t, d, q, 9))
		keyC.QueueID++
	}

	// One that begins later is as good as the other once what it lacks has expired.
	for i, f := range []*fake{d.file, d.rocks} {
		require.NoError(t, f.Append(t.Context(), row(keyB, int64(5*i), 10, int64(500*i))))
	}
	require.NoError(t, d.AwaitReadable(t.Context()))
	q = mustQueue(t, d, keyB)
	require.Equal(t, cq.KindFile, readFrom(t, d, q, 9))
	require.NoError(t, d.SetMinPhyOffset(500))
	require.Equal(t, cq.KindRocks, readFrom(t, d, q, 9))
}

// What the log's min changes while a queue is looked at is not remembered wrongly.
func TestChangeDuringALook(t *testing.T) {
	d := newDuo(t, combine.Options{})
	require.NoError(t, d.rocks.Append(t.Context(), row(keyA, 0, 10, 0)))
	require.NoError(t, d.file.Append(t.Context(), row(keyA, 5, 10, 500)))
	d.file.during = func() { require.NoError(t, d.SetMinPhyOffset(500)) }
	q := mustQueue(t, d, keyA)
	require.Nil(t, d.file.during)
	require.Equal(t, cq.KindFile, readFrom(t, d, q, 7))
}

func TestReadsDoNotAllocate(t *testing.T) {
	d := newDuo(t, combine.Options{Preferred: cq.KindRocks})
	require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
	keyC := cq.Key{Topic: "ends earlier"}
	for _, k := range []cq.Key{keyB, keyC} {
		d.file.m[k] = &fakeQueue{units: d.file.m[keyA].units, shown: 10}
	}
	d.rocks.m[keyB] = &fakeQueue{first: 2, units: d.file.m[keyA].units[2:], shown: 8}
	d.rocks.m[keyC] = &fakeQueue{units: d.file.m[keyA].units, shown: 9}
	buf := make([]cq.Unit, 4)
	for _, k := range []cq.Key{keyA, keyB, keyC} {
		q := mustQueue(t, d, k)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := q.Read(3, buf); err != nil {
				panic(err)
			}
		}), "%s", k)
	}
}

// What is known of a million queues that were read takes little memory, however long their names.
func TestReadinessIsCompact(t *testing.T) {
	const queues = 200_000
	d := newDuo(t, combine.Options{})
	d.file.quick, d.rocks.quick = true, true
	units := []cq.Unit{{PhyOffset: 1, Size: 1}}
	for i := range queues {
		k := cq.Key{Topic: fmt.Sprintf("a-topic-with-a-rather-long-name-of-%d", i/4), QueueID: int32(i % 4)}
		d.file.m[k] = &fakeQueue{units: units, shown: 1}
		d.rocks.m[k] = d.file.m[k]
	}
	keys := slices.Collect(func(yield func(cq.Key) bool) {
		for k := range d.file.m {
			if !yield(k) {
				return
			}
		}
	})
	before := heap()
	for _, k := range keys {
		mustQueueQuietly(d, k)
	}
	grown := heap() - before
	runtime.KeepAlive(keys)
	require.Less(t, grown/queues, int64(64), "bytes a queue")
	require.Greater(t, grown/queues, int64(15), "it is remembered at all")
	runtime.KeepAlive(d)
}

func mustQueueQuietly(s cq.Reader, k cq.Key) {
	if _, ok := s.Queue(k); !ok {
		panic(k)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestQueuesAreListedOnce(t *testing.T) {
	for _, held := range []cq.Kind{"", cq.KindFile, cq.KindRocks} {
		d := newDuo(t, combine.Options{})
		require.NoError(t, d.Append(t.Context(), []cq.Entry{entry(keyA, 0, 0)}))
		require.NoError(t, d.file.Append(t.Context(), []cq.Entry{entry(keyB, 0, 0)}))
		require.NoError(t, d.rocks.Append(t.Context(), []cq.Entry{entry(keyLight, 0, 0)}))
		want := []cq.Key{keyLight, keyA, keyB}
		if held != "" {
			d.Hold(held)
			want = map[cq.Kind][]cq.Key{cq.KindFile: {keyLight, keyA}, cq.KindRocks: {keyA, keyB}}[held]
		}
		keys, err := cq.SortedKeys(d)
		require.NoError(t, err)
		require.Equal(t, want, keys)
		for _, err := range d.Queues() {
			require.NoError(t, err)
			break
		}
	}
}

func TestNextOffset(t *testing.T) {
	for _, authority := range bothKinds {
		d := newDuo(t, combine.Options{Authority: authority})
		d.rocks.late = true
		next, err := d.NextOffset(keyA)
		require.NoError(t, err)
		require.Zero(t, next)
		require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
		next, err = d.NextOffset(keyA)
		require.NoError(t, err)
		require.EqualValues(t, 10, next, "what was accepted counts, readable or not")
		require.Empty(t, d.told)

		for _, sides := range bothSides {
			k := cq.Key{Topic: "behind " + string(sides[0])}
			require.NoError(t, d.Append(t.Context(), row(k, 0, 10, 2000)))
			lost := d.side(sides[0]).m[k]
			lost.units, lost.shown = lost.units[:4], 4
			d.Hold(sides[0])
			next, err = d.NextOffset(k)
			require.NoError(t, err)
			require.EqualValues(t, 10, next, "an offset is never given twice, whatever is held")
			require.False(t, d.IsDiverged(sides[0], k))
			require.NoError(t, d.Release(sides[0]))
			for range 2 {
				next, err = d.NextOffset(k)
				require.NoError(t, err)
				require.EqualValues(t, 10, next)
				require.True(t, d.IsDiverged(sides[0], k))
			}
			last := d.told[len(d.told)-1]
			require.Equal(t, &combine.BehindError{Key: k, Side: sides[0], Other: sides[1], Max: 4, OtherMax: 10}, last.Err)
			require.ErrorIs(t, last.Err, cq.ErrDiverged)
		}
		require.Len(t, d.told, 2)
	}
}

func TestCutAndExpiryReachBothSides(t *testing.T) {
	d := newDuo(t, combine.Options{})
	require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
	d.file.cutErr = errors.New("no such file")
	d.Hold(cq.KindRocks)
	require.ErrorIs(t, d.TruncateDirty(t.Context(), 500), d.file.cutErr)
	require.Equal(t, [2]int{10, 5}, d.count(keyA), "the other is cut all the same, held or not")
	require.NoError(t, d.Release(cq.KindRocks))
	accepted, readable, durable := d.Progress()
	require.Equal(t, [3]int64{500, 500, -1}, [3]int64{accepted, readable, durable})
	d.file.broken = errors.New("disk on fire")
	done, err := d.Expire(t.Context(), 0)
	require.ErrorIs(t, err, d.file.broken)
	require.Equal(t, cq.Expired{Queues: 1, Files: 1, Bytes: 10}, done)
	require.NoError(t, d.SetMinPhyOffset(300))
	require.Equal(t, [2]int64{300, 300}, [2]int64{d.file.minPhy, d.rocks.minPhy})
}

// TestF23VerifyComparesUnits: max, min, positions and every unit, not the max alone.
func TestF23VerifyComparesUnits(t *testing.T) {
	fresh := func() *duo {
		d := newDuo(t, combine.Options{})
		require.NoError(t, d.Append(t.Context(), row(keyA, 0, 1500, 0)))
		for i := range d.file.m[keyA].units {
			d.file.m[keyA].units[i].StoreTimestampMs = cq.NoTimestamp
		}
		return d
	}
	d := fresh()
	v, err := d.Verify(t.Context(), keyA, combine.Units)
	require.NoError(t, err)
	require.True(t, v.OK())
	require.EqualValues(t, 1500, v.Compared)
	v, err = d.Verify(t.Context(), cq.Key{Topic: "nobody"}, combine.Units)
	require.NoError(t, err)
	require.True(t, v.OK())

	// The same ends, and two units in the middle that differ.
	for i, u := range []*cq.Unit{&d.rocks.m[keyA].units[700], &d.file.m[keyA].units[701]} {
		u.TagsCode += int64(i) + 1
	}
	v, err = d.Verify(t.Context(), keyA, combine.Counts)
	require.NoError(t, err)
	require.True(t, v.OK())
	require.Zero(t, v.Compared)
	v, err = d.Verify(t.Context(), keyA, combine.Units)
	require.NoError(t, err)
	require.EqualValues(t, 2, v.Different)
	require.EqualValues(t, 1500, v.Compared)
	require.Len(t, v.Differences, 2)
	require.EqualValues(t, 700, v.Differences[0].QueueOffset)
	require.Equal(t, [2]int64{7, 8}, [2]int64{v.Differences[0].Units[0].TagsCode, v.Differences[0].Units[1].TagsCode})
	require.Equal(t, [2]string{"file", "rocks"}, v.Differences[0].Where)
	require.Contains(t, v.Differences[0].String(), "unit at slot 700")

	what := func(v combine.Verdict) (out []string) {
		for _, x := range v.Differences {
			out = append(out, x.What)
		}
		return out
	}
	d = fresh()
	q := d.rocks.m[keyA]
	q.first, q.units, q.shown = 3, q.units[3:1490], 1487
	v, err = d.Verify(t.Context(), keyA, combine.Units)
	require.NoError(t, err)
	require.Equal(t, []string{"max", "min", "min phy", "last phy"}, what(v))
	require.Equal(t, [2]int64{3, 1490}, [2]int64{v.From, v.To})
	require.EqualValues(t, 1487, v.Compared)
	require.Equal(t, "max: 1500 and 1490", v.Differences[0].String())

	delete(d.rocks.m, keyA)
	v, err = d.Verify(t.Context(), keyA, combine.Units)
	require.NoError(t, err)
	require.Equal(t, []string{"presence"}, what(v))

	// Another record in every slot: counted all, listed in part.
	d = fresh()
	for i := range d.rocks.m[keyA].units {
		d.rocks.m[keyA].units[i].Size++
	}
	v, err = d.Verify(t.Context(), keyA, combine.Units)
	require.NoError(t, err)
	require.EqualValues(t, 1500, v.Different)
	require.Len(t, v.Differences, combine.MaxDifferences)
}
