package combine_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
)

// A side that is suspended, the authority too, is neither written to nor read; the other one says which offset comes next. Renewed, filled and released it is what it was.
func TestSideIsReplaced(t *testing.T) {
	for _, kind := range bothKinds {
		for _, failed := range []bool{false, true} {
			d := newDuo(t, combine.Options{Preferred: kind, Authority: kind, LightInRocks: kind == cq.KindRocks})
			out, stays := d.side(kind), d.side(otherOf(kind))
			require.NoError(t, d.Append(t.Context(), row(keyA, 0, 3, 0)))
			q, ok := d.Queue(keyA)
			require.True(t, ok)
			broken := errors.New("broken")
			if failed {
				out.broken = broken
				require.ErrorIs(t, d.Append(t.Context(), row(keyA, 3, 4, 300)), broken)
			}
			d.MarkDiverged(kind, keyB, errors.New("it lacks something"))
			require.NoError(t, d.Suspend(kind, broken))
			require.Equal(t, broken, d.Failure(kind))
			require.True(t, d.Held(kind))
			require.Error(t, d.SetPreferred(kind))
			require.Error(t, d.Suspend(otherOf(kind), broken), "one side has to serve")

			out.m, out.broken, out.end, out.shown = map[cq.Key]*fakeQueue{}, nil, -1, -1
			batch := row(keyA, 3, 5, 300)
			if kind == cq.KindRocks { // it is passed over: the owner has it from elsewhere
				batch = append(batch, entry(keyLight, 0, 500))
			}
			require.NoError(t, d.Append(t.Context(), batch))
			d.Renew(kind)
			require.NoError(t, d.Failure(kind))
			require.False(t, d.IsDiverged(kind, keyB))
			require.NoError(t, d.Append(t.Context(), row(keyA, 5, 6, 600)))
			require.Empty(t, out.m)
			n, err := d.NextOffset(keyA)
			require.NoError(t, err)
			require.EqualValues(t, 6, n)
			b, err := q.Bounds()
			require.NoError(t, err)
			require.EqualValues(t, 6, b.Max)
			require.Equal(t, string(otherOf(kind)), q.Where(0))
			require.Len(t, stays.m[keyA].units, 6)

			require.NoError(t, out.Append(t.Context(), append(append(row(keyA, 0, 3, 0), row(keyA, 3, 5, 300)...), entry(keyA, 5, 600))))
			require.NoError(t, d.Release(kind))
			require.Equal(t, string(kind), q.Where(0))
			require.Equal(t, kind, d.Authority())
			require.NoError(t, d.Append(t.Context(), row(keyA, 6, 7, 700)))
			require.Equal(t, [2]int{7, 7}, d.count(keyA))
			require.Len(t, d.told, 1)
			require.NoError(t, d.Close())
			require.ErrorIs(t, d.Suspend(kind, broken), cq.ErrClosed)
		}
	}
}

func otherOf(kind cq.Kind) cq.Kind {
	if kind == cq.KindFile {
		return cq.KindRocks
	}
	return cq.KindFile
}

// Asking for a queue takes no memory, however often, and follows a switch.
func TestQueueTakesNoMemory(t *testing.T) {
	d := newDuo(t, combine.Options{})
	require.NoError(t, d.Append(t.Context(), append(row(keyA, 0, 3, 0), row(keyB, 0, 3, 300)...)))
	var where string
	ask := func() {
		for _, k := range []cq.Key{keyA, keyB} {
			q, ok := d.Queue(k)
			if !ok || q.Key() != k {
				t.Fatal(k)
			}
			where = q.Where(0)
		}
	}
	for _, kind := range []cq.Kind{cq.KindFile, cq.KindRocks} {
		require.NoError(t, d.SetPreferred(kind))
		ask()
		require.Equal(t, string(kind), where)
		require.Zero(t, testing.AllocsPerRun(100, ask))
	}
	require.NoError(t, d.DropQueue(t.Context(), keyA))
	_, ok := d.Queue(keyA)
	require.False(t, ok)
}
