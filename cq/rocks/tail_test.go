//go:build cgo

package rocks

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// putTail puts the units of slots [from, to).
func putTail(t *tailCache, prefix string, from, to int64) {
	slot := from - 1
	t.put([]byte(prefix), from, int(to-from), func() cq.Unit { slot++; return unit(slot) })
}

func readTail(t *tailCache, prefix string, from int64, n int) []cq.Unit {
	dst := make([]cq.Unit, n)
	return dst[:t.shard([]byte(prefix)).read([]byte(prefix), from, 0, dst)]
}

func (t *tailCache) bytes() (held, limit int64) {
	for i := range t.shards {
		s := &t.shards[i]
		sum := int64(0)
		for at, q := range s.ring {
			sum += q.bytes()
			if q.at != at || s.tails[q.key] != q {
				panic("ring and map differ")
			}
		}
		if sum != s.bytes || len(s.ring) != len(s.tails) {
			panic(fmt.Sprintf("counted %d bytes of %d", s.bytes, sum))
		}
		held, limit = held+sum, limit+s.limit
	}
	return held, limit
}

func TestTailHoldsTheNewest(t *testing.T) {
	var c tailCache
	c.init(1 << 20)
	require.Empty(t, readTail(&c, "q", 0, 8))
	putTail(&c, "q", 5, 9)
	require.Empty(t, readTail(&c, "q", 4, 8), "below")
	require.Empty(t, readTail(&c, "q", 9, 8), "above")
	require.Empty(t, readTail(&c, "q", -3, 8))
	require.Equal(t, units(5, 9), readTail(&c, "q", 5, 8))
	require.Equal(t, units(7, 8), readTail(&c, "q", 7, 1))
	require.Empty(t, readTail(&c, "p", 5, 8))
	for slot := int64(9); slot < 3*maxTailUnits; slot += 7 { // through all sizes, and round
		putTail(&c, "q", slot, slot+7)
		last := slot + 7
		from := max(last-30, 5)
		require.Equal(t, units(from, last), readTail(&c, "q", from, 99))
	}
	held, limit := c.bytes()
	require.LessOrEqual(t, held, limit)
	putTail(&c, "q", 50_000, 50_002)
	require.Equal(t, units(50_000, 50_002), readTail(&c, "q", 50_000, 9), "not behind the last one: begins anew")
	require.Empty(t, readTail(&c, "q", 49_999, 9))
	putTail(&c, "q", 40, 40+3*maxTailUnits)
	last := int64(40 + 3*maxTailUnits)
	require.Equal(t, units(last-100, last), readTail(&c, "q", last-100, 100), "more than there is room for")
	require.Empty(t, readTail(&c, "q", last-maxTailUnits-1, 100))
	c.forget([]byte("q"))
	require.Empty(t, readTail(&c, "q", last-1, 8))
	putTail(&c, "q", last, last+2)
	require.Empty(t, readTail(&c, "q", last-1, 8), "nothing comes back")
	require.Equal(t, units(last, last+2), readTail(&c, "q", last, 8))
	c.clear()
	require.Empty(t, readTail(&c, "q", last, 8))
}

func TestTailLeavesExpiredUnitsToTheDatabase(t *testing.T) {
	var c tailCache
	c.init(1 << 20)
	putTail(&c, "q", 0, 10)
	dst := make([]cq.Unit, 10)
	s := c.shard([]byte("q"))
	require.Zero(t, s.read([]byte("q"), 3, unit(4).PhyOffset, dst))
	require.Equal(t, 6, s.read([]byte("q"), 4, unit(4).PhyOffset, dst))
}

func TestTailOff(t *testing.T) {
	for _, bytes := range []int64{-1, 0, minTailShardBytes - 1} {
		var c tailCache
		c.init(bytes)
		putTail(&c, "q", 0, 10)
		require.Empty(t, readTail(&c, "q", 0, 8))
		c.forget([]byte("q"))
		c.clear()
	}
}

// TestTailStaysWithinItsBytes: whatever is put, memory is bounded; what is read stays longer than what is not.
func TestTailStaysWithinItsBytes(t *testing.T) {
	var c tailCache
	c.init(256 << 10)
	r := rand.New(rand.NewPCG(3, 4))
	next := map[string]int64{}
	put := func(name string, n int64) {
		putTail(&c, name, next[name], next[name]+n)
		next[name] += n
	}
	hits := 0
	for i := range 20_000 {
		put(fmt.Sprintf("queue-%05d", r.IntN(3000)), 1+r.Int64N(40))
		put("hot", 3)
		if len(readTail(&c, "hot", next["hot"]-30, 99)) == 30 {
			hits++
		}
		if i%1000 == 0 {
			held, limit := c.bytes()
			require.LessOrEqual(t, held, limit)
		}
	}
	held, limit := c.bytes()
	require.LessOrEqual(t, held, limit)
	require.Greater(t, held, limit/2)
	require.Greater(t, hits, 19_000, "a queue that is read stays")
	for name, n := range next {
		if got := readTail(&c, name, n-1, 4); len(got) > 0 {
			require.Equal(t, units(n-1, n), got)
		}
	}
}

// TestTailAgreesWithTheDatabase: after whatever changes stored units, a store with the newest in memory answers as one without.
func TestTailAgreesWithTheDatabase(t *testing.T) {
	ctx := t.Context()
	other := func(from, to int64) []cq.Unit { // other records in the same slots
		all := units(from, to)
		for i := range all {
			all[i].TagsCode = 99
		}
		return all
	}
	tests := map[string]func(t *testing.T, s *Store){
		"append":       func(*testing.T, *Store) {},
		"truncate":     func(t *testing.T, s *Store) { require.NoError(t, s.TruncateDirty(ctx, unit(70).PhyOffset)) },
		"truncate all": func(t *testing.T, s *Store) { require.NoError(t, s.TruncateDirty(ctx, 0)) },
		"truncate and append": func(t *testing.T, s *Store) {
			require.NoError(t, s.TruncateDirty(ctx, unit(70).PhyOffset))
			var es []cq.Entry
			for i, u := range other(70, 75) {
				es = append(es, cq.Entry{Key: keyT, QueueOffset: 70 + int64(i), Unit: u})
			}
			appendNow(t, s, es)
		},
		"drop": func(t *testing.T, s *Store) { require.NoError(t, s.DropQueue(ctx, keyT)) },
		"drop and begin anew": func(t *testing.T, s *Store) {
			require.NoError(t, s.DropQueue(ctx, keyT))
			appendNow(t, s, entries(keyT, 90, 95))
		},
		"import over it": func(t *testing.T, s *Store) {
			require.NoError(t, s.Import(ctx, []cq.Run{{Key: keyT, From: 80, Units: other(80, 90)}}))
		},
		"import and publish": func(t *testing.T, s *Store) {
			require.NoError(t, s.Import(ctx, []cq.Run{{Key: keyT, From: 100, Units: units(100, 120)}}))
			end := cq.QueueEnd{Key: keyT, Min: 0, Max: 120, LastPhyOffset: unit(119).PhyOffset}
			require.NoError(t, s.Publish(ctx, []cq.QueueEnd{end}, unit(119).End()))
		},
		"expire": func(t *testing.T, s *Store) {
			require.NoError(t, s.SetMinPhyOffset(unit(60).PhyOffset))
			_, err := s.Expire(ctx, 0)
			require.NoError(t, err)
			require.NoError(t, s.Flush(ctx))
			require.NoError(t, s.Compact(ctx, nil)) // now they are gone
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			s := openNew(t, tailOptions(1<<20))
			appendNow(t, s, entries(keyT, 0, 100))
			q, ok := s.Queue(keyT)
			require.True(t, ok)
			n, err := q.Read(50, make([]cq.Unit, 100))
			require.NoError(t, err)
			require.Equal(t, 50, n)
			change(t, s)
			requireTailAgrees(t, s, q)
		})
	}
}

// tailOptions are those of testOptions with room for the newest units.
func tailOptions(tailBytes int64) Options {
	o := testOptions()
	o.TailBytes = tailBytes
	return o
}

// requireTailAgrees reads every slot through the memory and past it.
func requireTailAgrees(t *testing.T, s *Store, q cq.Queue) {
	t.Helper()
	key := q.Key()
	plain := &queue{s: s, key: key, prefix: appendUnitPrefix(nil, key)}
	for from := int64(0); from < 130; from++ {
		for _, n := range []int{1, 7} {
			got, want := make([]cq.Unit, n), make([]cq.Unit, n)
			gotN, gotErr := q.Read(from, got)
			wantN, wantErr := plain.Read(from, want)
			require.Equal(t, wantErr, gotErr, "slot %d", from)
			if gotN < wantN { // it may stop early, at the end of what is in memory
				require.Positive(t, gotN)
				wantN = gotN
			}
			require.Equal(t, want[:wantN], got[:gotN], "slot %d", from)
		}
	}
}

// TestTailEndsWithTheStore: a closed store has nothing in memory either.
func TestTailEndsWithTheStore(t *testing.T) {
	s := openNew(t, tailOptions(1<<20))
	appendNow(t, s, entries(keyT, 0, 10))
	q, ok := s.Queue(keyT)
	require.True(t, ok)
	require.NoError(t, s.Close())
	_, err := q.Read(5, make([]cq.Unit, 1))
	require.ErrorIs(t, err, cq.ErrClosed)
}

// TestReadsWithoutC: reads of the newest units and the bounds of a queue that was looked at before go without RocksDB, and allocate nothing.
func TestReadsWithoutC(t *testing.T) {
	s := openNew(t, tailOptions(1<<20))
	appendNow(t, s, entries(keyT, 0, 100))
	q, ok := s.Queue(keyT)
	require.True(t, ok)
	want, err := q.Bounds()
	require.NoError(t, err)
	require.NoError(t, s.db.Close())
	t.Cleanup(func() { s.mu.closed = true }) // there is nothing to close any more
	dst := make([]cq.Unit, 40)
	n, err := q.Read(60, dst)
	require.NoError(t, err)
	require.Equal(t, units(60, 100), dst[:n])
	b, err := q.Bounds()
	require.NoError(t, err)
	require.Equal(t, want, b)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = q.Read(60, dst)
		_, _ = q.Bounds()
	}))
}

// TestTailUnderWriters: readers see the units that were appended and no others while queues are written, cut and dropped.
func TestTailUnderWriters(t *testing.T) {
	o := tailOptions(64 << 10)
	s, err := Open(filepath.Join(t.TempDir(), "cq"), o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	const queues, rounds = 6, 60
	keys := make([]cq.Key, queues)
	for i := range keys {
		keys[i] = cq.Key{Topic: "race", QueueID: int32(i)}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			dst := make([]cq.Unit, 32)
			for {
				select {
				case <-done:
					return
				default:
				}
				q, ok := s.Queue(keys[r.IntN(queues)])
				if !ok {
					continue
				}
				b, err := q.Bounds()
				if err != nil || b.Empty() {
					continue
				}
				from := b.Min + r.Int64N(b.Max-b.Min)
				n, err := q.Read(from, dst)
				if err != nil {
					if !errors.Is(err, cq.ErrOffsetOutOfRange) {
						t.Error(err)
					}
					continue
				}
				for j, u := range dst[:n] {
					if u != unit(from+int64(j)) {
						t.Errorf("slot %d: %+v", from+int64(j), u)
					}
				}
			}
		})
	}
	next := make([]int64, queues)
	for round := range rounds {
		for i, k := range keys {
			require.NoError(t, s.Append(t.Context(), entries(k, next[i], next[i]+50)))
			next[i] += 50
		}
		require.NoError(t, s.AwaitReadable(t.Context()))
		switch round % 6 {
		case 2:
			require.NoError(t, s.TruncateDirty(t.Context(), unit(next[0]-20).PhyOffset))
			for i := range next {
				next[i] = min(next[i], next[0]-20)
			}
			for i, k := range keys {
				_, ok := s.Queue(k)
				require.True(t, ok, "queue %d", i)
			}
		case 4:
			require.NoError(t, s.DropQueue(t.Context(), keys[round%queues]))
			next[round%queues] = next[(round+1)%queues]
		}
	}
	close(done)
	wg.Wait()
	s.tail.bytes()
}
