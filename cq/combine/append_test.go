package combine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
)

var bothKinds = []cq.Kind{cq.KindFile, cq.KindRocks}

// bothSides are the two kinds, each with the other.
var bothSides = [2][2]cq.Kind{{cq.KindFile, cq.KindRocks}, {cq.KindRocks, cq.KindFile}}

// TestF21BadCombinations: each is refused in words, and what 5.5.0 merely does not start with is supported.
func TestF21BadCombinations(t *testing.T) {
	f, r := newFake(cq.KindFile), newFake(cq.KindRocks)
	for name, tc := range map[string]struct {
		a, b cq.Store
		o    combine.Options
		want string
	}{
		"one store":                     {f, nil, combine.Options{}, "two stores are needed"},
		"twice the same kind":           {f, newFake(cq.KindFile), combine.Options{}, "both stores are of kind file"},
		"prefers what is not there":     {f, r, combine.Options{Preferred: "java"}, `preferred: no store of kind "java" is combined here, only file and rocks`},
		"authority of what is not here": {f, r, combine.Options{Authority: "java"}, `authority: no store of kind "java"`},
		"light queues without RocksDB":  {f, newFake("other"), combine.Options{LightInRocks: true}, `light queues in RocksDB alone: no store of kind "rocks"`},
	} {
		_, err := combine.New(tc.a, tc.b, tc.o)
		require.ErrorContains(t, err, tc.want, name)
	}
	for _, prefer := range []cq.Kind{"", cq.KindFile, cq.KindRocks} {
		for _, authority := range []cq.Kind{"", cq.KindFile, cq.KindRocks} {
			for _, light := range []bool{false, true} {
				d := newDuo(t, combine.Options{Preferred: prefer, Authority: authority, LightInRocks: light})
				require.NoError(t, d.Append(t.Context(), []cq.Entry{entry(keyA, 0, 0), entry(keyLight, 0, 0)}))
				for _, k := range []cq.Key{keyA, keyLight} {
					_, ok := d.Queue(k)
					require.True(t, ok, "%s", k)
				}
				require.False(t, f.closed)
			}
		}
	}
}

func TestBatchIsNotCopied(t *testing.T) {
	d := newDuo(t, combine.Options{LightInRocks: true})
	batch := append(row(keyA, 0, 10, 0), row(keyB, 0, 10, 5000)...)
	require.NoError(t, d.Append(t.Context(), batch))
	require.Same(t, &batch[0], &d.file.got[0])
	require.Same(t, &batch[0], &d.rocks.got[0])
	batch = append(row(keyA, 10, 20, 9000), entry(keyLight, 0, 9900))
	require.NoError(t, d.Append(t.Context(), batch))
	require.Same(t, &batch[0], &d.rocks.got[0])
	require.Len(t, d.file.got, 10)
}

// One side refuses what the other accepts, whichever has authority, and wherever in the batch.
func TestOneSideRefuses(t *testing.T) {
	for _, authority := range bothKinds {
		for _, sides := range bothSides {
			behind, other := sides[0], sides[1]
			t.Run(string(authority)+" has authority/"+string(behind)+" is behind", func(t *testing.T) {
				d := newDuo(t, combine.Options{Authority: authority, Preferred: behind})
				require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
				q, ok := d.Queue(keyA)
				require.True(t, ok)
				lost := d.side(behind).m[keyA]
				lost.units, lost.shown = lost.units[:7], 7

				batch := []cq.Entry{entry(keyB, 0, 2000), entry(keyA, 10, 2100), entry(keyA, 11, 2200), entry(keyB, 1, 2300)}
				require.NoError(t, d.Append(t.Context(), batch))
				require.Equal(t, [2]int{2, 2}, d.count(keyB))
				require.Len(t, d.side(other).m[keyA].units, 12)
				require.Len(t, lost.units, 7, "passed over")
				require.True(t, d.IsDiverged(behind, keyA))
				require.False(t, d.IsDiverged(other, keyA))
				require.False(t, d.Ready(behind, keyA))
				require.True(t, d.Ready(other, keyA))
				require.Len(t, d.told, 1)
				require.Equal(t, d.told, d.Diverged())
				require.Equal(t, behind, d.told[0].Side)
				var gap *cq.GapError
				require.ErrorAs(t, d.told[0].Err, &gap)
				require.EqualValues(t, 7, gap.Max)
				b, err := q.Bounds()
				require.NoError(t, err)
				require.EqualValues(t, 12, b.Max, "a handle that was there before follows")

				require.NoError(t, d.Append(t.Context(), row(keyA, 12, 15, 3000)))
				require.Len(t, lost.units, 7)
				require.Len(t, d.told, 1, "told once")
				lost.units = append(lost.units, d.side(other).m[keyA].units[7:]...)
				d.Heal(behind, keyA)
				require.Empty(t, d.Diverged())
				require.True(t, d.Ready(behind, keyA))
				require.NoError(t, d.Append(t.Context(), row(keyA, 15, 16, 4000)))
				require.Equal(t, [2]int{16, 16}, d.count(keyA))
			})
		}
	}
}

func TestBothSidesRefuse(t *testing.T) {
	for _, authority := range bothKinds {
		d := newDuo(t, combine.Options{Authority: authority})
		require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
		batch := []cq.Entry{entry(keyB, 0, 2000), entry(keyA, 12, 2100), entry(keyB, 1, 2200)}
		var gap *cq.GapError
		require.ErrorAs(t, d.Append(t.Context(), batch), &gap)
		require.Equal(t, cq.GapError{Key: keyA, Want: 12, Max: 10, PhyOffset: 2100}, *gap)
		require.Equal(t, [2]int{1, 1}, d.count(keyB), "what is before it, and nothing after")
		accepted, _, _ := d.Progress()
		require.EqualValues(t, 2010, accepted)

		batch = []cq.Entry{entry(keyB, 1, 2200), entry(keyA, 3, 2300), entry(keyB, 2, 2400)}
		var conflict *cq.ConflictError
		require.ErrorAs(t, d.Append(t.Context(), batch), &conflict)
		require.Equal(t, [2]int{2, 2}, d.count(keyB))
		require.Empty(t, d.told, "both are alike")

		// For different reasons: the authority's answer counts, the other side has diverged.
		other := d.rocks
		if authority == cq.KindRocks {
			other = d.file
		}
		other.m[keyA].units = other.m[keyA].units[:8]
		require.ErrorAs(t, d.Append(t.Context(), []cq.Entry{entry(keyA, 12, 2500)}), &gap)
		require.EqualValues(t, 10, gap.Max)
		require.True(t, d.IsDiverged(other.kind, keyA))
		// It is the authority's alone now.
		require.ErrorAs(t, d.Append(t.Context(), []cq.Entry{entry(keyB, 2, 2400), entry(keyA, 12, 2500), entry(keyB, 3, 2600)}), &gap)
		require.Equal(t, [2]int{3, 3}, d.count(keyB))
		// Dropped, it begins anew on both, which heals it.
		require.NoError(t, d.DropQueue(t.Context(), keyA))
		require.Empty(t, d.Diverged())
		require.NoError(t, d.Append(t.Context(), row(keyA, 12, 15, 2500)))
		require.Equal(t, [2]int{3, 3}, d.count(keyA))
	}
}

func TestRepeatOnOneSide(t *testing.T) {
	d := newDuo(t, combine.Options{})
	batch := row(keyA, 0, 20, 0)
	require.NoError(t, d.Append(t.Context(), batch))
	d.rocks.m[keyA].units = d.rocks.m[keyA].units[:5]
	require.NoError(t, d.Append(t.Context(), batch))
	require.Equal(t, [2]int{20, 20}, d.count(keyA))
	require.Empty(t, d.told)
}

func TestWriteFails(t *testing.T) {
	for _, authority := range bothKinds {
		for _, sides := range bothSides {
			d := newDuo(t, combine.Options{Authority: authority, Preferred: sides[0]})
			failing, other := d.side(sides[0]), d.side(sides[1])
			require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
			q, _ := d.Queue(keyA)
			failing.broken = errors.New("disk on fire")
			err := d.Append(t.Context(), row(keyA, 10, 20, 2000))
			if sides[0] == authority {
				for range 3 {
					require.ErrorIs(t, err, failing.broken)
					require.NoError(t, d.Failure(sides[0]))
					err = d.Append(t.Context(), row(keyA, 10, 20, 2000))
				}
				_, err := d.NextOffset(keyA)
				require.ErrorIs(t, err, failing.broken)
				require.ErrorIs(t, d.Flush(t.Context()), failing.broken)
				continue
			}
			require.NoError(t, err)
			require.ErrorIs(t, d.Failure(sides[0]), failing.broken)
			require.Len(t, other.m[keyA].units, 20)
			require.False(t, d.Ready(sides[0], keyA))
			b, err := q.Bounds()
			require.NoError(t, err)
			require.EqualValues(t, 20, b.Max)
			next, err := d.NextOffset(keyA)
			require.NoError(t, err)
			require.EqualValues(t, 20, next)
			require.Empty(t, d.told, "it is no divergence")
			require.NoError(t, d.Flush(t.Context()))
			require.NoError(t, d.AwaitReadable(t.Context()))
			_, _, durable := d.Progress()
			require.EqualValues(t, 2910, durable)
			require.EqualValues(t, 910, d.DispatchFrom(), "what the failed side lacks may not be forgotten")
			require.ErrorIs(t, d.SetPreferred(sides[0]), failing.broken)
			require.ErrorIs(t, d.SetAuthority(sides[0]), failing.broken)
			require.ErrorIs(t, d.Release(sides[0]), failing.broken)
		}
	}
}

func TestFlushFails(t *testing.T) {
	d := newDuo(t, combine.Options{})
	require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
	d.rocks.broken = errors.New("disk on fire")
	require.NoError(t, d.Flush(t.Context()))
	require.ErrorIs(t, d.Failure(cq.KindRocks), d.rocks.broken)
	_, _, durable := d.Progress()
	require.EqualValues(t, 910, durable)
}

// A side that waits for room is not given up, takes nothing upon it, and is told of by Flush unless something else is wrong too.
func TestFlushThatWaitsForRoom(t *testing.T) {
	d := newDuo(t, combine.Options{})
	require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
	d.rocks.full = fmt.Errorf("flush: %w", cq.ErrNoRoom)
	require.ErrorIs(t, d.Flush(t.Context()), cq.ErrNoRoom)
	require.NoError(t, d.Failure(cq.KindRocks))
	require.ErrorIs(t, d.Waiting(cq.KindRocks), cq.ErrNoRoom)
	require.NoError(t, d.Waiting(cq.KindFile))
	require.ErrorIs(t, d.SetPreferred(cq.KindRocks), cq.ErrNoRoom)
	require.ErrorIs(t, d.SetAuthority(cq.KindRocks), cq.ErrNoRoom)
	require.NoError(t, d.Append(t.Context(), row(keyA, 10, 20, 1000)))
	d.file.broken = errors.New("disk on fire")
	require.NotErrorIs(t, d.Flush(t.Context()), cq.ErrNoRoom)
	d.file.broken, d.rocks.full = nil, nil
	require.NoError(t, d.Flush(t.Context()))
}

func TestEndedContextIsNoFailure(t *testing.T) {
	d := newDuo(t, combine.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.Append(ctx, row(keyA, 0, 10, 0)), context.Canceled)
	require.ErrorIs(t, d.Flush(ctx), context.Canceled)
	require.ErrorIs(t, d.AwaitReadable(ctx), context.Canceled)
	ctx, cancel = context.WithCancel(t.Context())
	d.file.after = cancel // between the two
	require.ErrorIs(t, d.Append(ctx, row(keyA, 0, 10, 0)), context.Canceled)
	d.file.after = nil
	for _, kind := range bothKinds {
		require.NoError(t, d.Failure(kind))
	}
	require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
	require.Equal(t, [2]int{10, 10}, d.count(keyA))
	require.Empty(t, d.told)
}

// A side that cannot hold a queue, for its name or for want of room, goes on with the others.
func TestUnfitEntry(t *testing.T) {
	for _, authority := range bothKinds {
		d := newDuo(t, combine.Options{Authority: authority})
		bad := errors.New("the topic is too long")
		batch := []cq.Entry{entry(keyB, 0, 0), entry(keyA, 0, 100), entry(keyB, 1, 200)}
		d.rocks.unfit[keyA] = bad
		err := d.Append(t.Context(), batch)
		if authority == cq.KindRocks {
			require.ErrorIs(t, err, bad)
			require.Empty(t, d.told)
			require.Equal(t, [2]int{1, 1}, d.count(keyB))
			continue
		}
		require.NoError(t, err)
		require.True(t, d.IsDiverged(cq.KindRocks, keyA))
		require.NoError(t, d.Failure(cq.KindRocks))
		require.Equal(t, [2]int{2, 2}, d.count(keyB))
		require.Equal(t, [2]int{1, 0}, d.count(keyA))
	}
}

func TestLightQueues(t *testing.T) {
	d := newDuo(t, combine.Options{LightInRocks: true, Preferred: cq.KindFile})
	d.rocks.late = true
	batch := []cq.Entry{entry(keyA, 0, 0), entry(keyLight, 0, 0), entry(keyA, 1, 100), entry(keyLight, 1, 100), entry(keyLight, 2, 200)}
	require.NoError(t, d.Append(t.Context(), batch))
	require.Equal(t, [2]int{0, 3}, d.count(keyLight))
	require.Equal(t, [2]int{2, 2}, d.count(keyA))
	_, readable, _ := d.Progress()
	require.EqualValues(t, -1, readable)
	require.NoError(t, d.Flush(t.Context()))
	accepted, readable, durable := d.Progress()
	require.Equal(t, [3]int64{210, 210, 210}, [3]int64{accepted, readable, durable}, "the files lack nothing that is theirs")
	q, ok := d.Queue(keyLight)
	require.True(t, ok)
	b, err := q.Bounds()
	require.NoError(t, err)
	require.EqualValues(t, 3, b.Max)
	require.True(t, d.Ready(cq.KindRocks, keyLight))
	require.False(t, d.Ready(cq.KindFile, keyLight))
	keys, err := cq.SortedKeys(d)
	require.NoError(t, err)
	require.Equal(t, []cq.Key{keyLight, keyA}, keys)
	v, err := d.Verify(t.Context(), keyLight, combine.Units)
	require.NoError(t, err)
	require.True(t, v.Alone && v.OK())

	// RocksDB is the authority for them: a refusal is answered, and so is the end of it.
	var gap *cq.GapError
	require.ErrorAs(t, d.Append(t.Context(), []cq.Entry{entry(keyA, 2, 300), entry(keyLight, 7, 300), entry(keyA, 3, 400)}), &gap)
	require.Equal(t, [2]int{3, 3}, d.count(keyA))
	next, err := d.NextOffset(keyLight)
	require.NoError(t, err)
	require.EqualValues(t, 3, next)
	d.rocks.broken = errors.New("disk on fire")
	require.ErrorIs(t, d.Append(t.Context(), []cq.Entry{entry(keyA, 3, 400), entry(keyLight, 3, 400), entry(keyA, 4, 500)}), d.rocks.broken)
	require.Equal(t, [2]int{4, 3}, d.count(keyA), "entries before it are accepted on what is left")
	require.NoError(t, d.Append(t.Context(), []cq.Entry{entry(keyA, 4, 500)}))
	_, err = d.NextOffset(keyLight)
	require.ErrorIs(t, err, d.rocks.broken)
}

func TestHold(t *testing.T) {
	for _, sides := range bothSides {
		d := newDuo(t, combine.Options{Preferred: sides[0]})
		held, other := sides[0], sides[1]
		d.Hold(held)
		require.True(t, d.Held(held) && !d.Held(other))
		require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
		require.Empty(t, d.side(held).m)
		q, ok := d.Queue(keyA)
		require.True(t, ok)
		b, err := q.Bounds()
		require.NoError(t, err)
		require.EqualValues(t, 10, b.Max)
		require.Error(t, d.SetPreferred(held))
		require.Error(t, d.SetAuthority(held))
		_, err = d.NextOffset(keyA)
		require.NoError(t, err)
		require.Empty(t, d.told, "it is known to lack something")
		// A queue that is dropped meanwhile has to be built again there by its owner.
		require.NoError(t, d.DropQueue(t.Context(), keyB))
		require.True(t, d.IsDiverged(held, keyB))
		d.Heal(held, keyB)

		into, _ := d.Side(held)
		require.NoError(t, into.(cq.Importer).Import(t.Context(), []cq.Run{{Key: keyA, Units: d.side(other).m[keyA].units}}))
		require.NoError(t, d.Release(held))
		require.NoError(t, d.Append(t.Context(), row(keyA, 10, 12, 1000)))
		require.Equal(t, [2]int{12, 12}, d.count(keyA))
		before := d.side(held).reads
		_, err = q.Read(0, make([]cq.Unit, 1))
		require.NoError(t, err)
		require.Equal(t, before+1, d.side(held).reads, "it is read now")

		// What was known of the one that was read all along is looked at again.
		d = newDuo(t, combine.Options{Preferred: other})
		d.Hold(held)
		require.NoError(t, d.Append(t.Context(), row(keyA, 3, 10, 300)))
		q = mustQueue(t, d, keyA)
		require.Equal(t, other, readFrom(t, d, q, 5))
		require.NoError(t, d.side(held).Append(t.Context(), row(keyA, 0, 10, 0)))
		require.NoError(t, d.Release(held))
		require.Equal(t, held, readFrom(t, d, q, 5))

		d.Hold(cq.KindFile)
		d.Hold(cq.KindRocks)
		require.ErrorContains(t, d.Append(t.Context(), row(keyA, 12, 13, 2000)), "both sides are held")
	}
}

// TestAppendContract holds random batches over sides that lack, or have other, units against the contract: an error names the first
// entry that no responsible side accepts, what is before it is on every side that is responsible, and nothing from it on is on any.
func TestAppendContract(t *testing.T) {
	keys := []cq.Key{keyA, keyB, keyLight, {Topic: "c"}}
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 1))
		light := r.IntN(2) == 0
		d := newDuo(t, combine.Options{Authority: bothKinds[r.IntN(2)], LightInRocks: light})
		phy := int64(1000)
		for _, k := range keys {
			for _, f := range []*fake{d.file, d.rocks} {
				require.NoError(t, f.Append(t.Context(), row(k, 0, 5+r.Int64N(2)*r.Int64N(3), 0)))
			}
			for _, kind := range bothKinds {
				if r.IntN(6) == 0 && !d.IsDiverged(cq.KindFile, k) {
					d.MarkDiverged(kind, k, errors.New("on purpose"))
				}
			}
		}
		var batch []cq.Entry
		next := map[cq.Key]int64{}
		for range 1 + r.IntN(12) {
			k := keys[r.IntN(len(keys))]
			slot := 5 + next[k] + r.Int64N(2)*r.Int64N(4)
			next[k]++
			batch = append(batch, entry(k, slot, phy))
			phy += 100
		}
		err := d.Append(t.Context(), batch)
		stop := len(batch)
		if err != nil {
			require.ErrorIs(t, err, cq.ErrDiverged)
			stop = refusedAt(batch, err)
			require.GreaterOrEqual(t, stop, 0, "seed %d: %v", seed, err)
		}
		for i, e := range batch {
			for _, f := range []*fake{d.file, d.rocks} {
				q := f.m[e.Key]
				stored := e.QueueOffset < int64(len(q.units)) && q.units[e.QueueOffset].SameRecord(e.Unit)
				responsible := !d.IsDiverged(f.kind, e.Key) && (!light || e.Key != keyLight || f.kind == cq.KindRocks)
				switch {
				case i >= stop:
					require.False(t, stored, "seed %d: entry %d is behind the error at %d, and on the %s side", seed, i, stop, f.kind)
				case responsible:
					require.True(t, stored, "seed %d: entry %d of %d is not on the %s side", seed, i, stop, f.kind)
				}
			}
		}
	}
}

func refusedAt(batch []cq.Entry, err error) int {
	var gap *cq.GapError
	var conflict *cq.ConflictError
	for i, e := range batch {
		switch {
		case errors.As(err, &gap) && e.Key == gap.Key && e.Unit.PhyOffset == gap.PhyOffset,
			errors.As(err, &conflict) && e.Key == conflict.Key && e.Unit == conflict.New:
			return i
		}
	}
	return -1
}
