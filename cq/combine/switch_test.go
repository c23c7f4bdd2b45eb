//go:build cgo

package combine_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
	"github.com/tandemq/tandemmq/cq/cqtest"
)

// Readers see no queue lose a unit, and none that is wrong, while reads are switched to and fro, a queue diverges on the side that is read
// and is healed, and a side is held and released.
func TestSwitchingBesideReaders(t *testing.T) {
	s, err := openCombined(t.TempDir(), cqtest.OpenOptions{}, combine.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	unitAt := func(q int, slot int64) cq.Unit {
		return cq.Unit{PhyOffset: slot*1000 + int64(q)*200, Size: int32(101 + slot%49), TagsCode: slot - int64(q), StoreTimestampMs: cq.NoTimestamp}
	}
	const rounds, readers = 120, 3
	stop := make(chan struct{})
	errs := make([]error, readers)
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() { errs[i] = readAlong(s, stop, unitAt) })
	}
	from := int64(0)
	for round := range rounds {
		var batch []cq.Entry
		for slot := from; slot < from+7; slot++ {
			for q, k := range lostKeys {
				batch = append(batch, cq.Entry{Key: k, QueueOffset: slot, Unit: unitAt(q, slot)})
			}
		}
		from += 7
		require.NoError(t, s.Append(t.Context(), batch))
		side, other := bothKinds[round%2], bothKinds[1-round%2]
		switch round % 4 {
		case 1:
			s.MarkDiverged(other, lostKeys[0], errors.New("on purpose"))
		case 2: // what was appended meanwhile is brought in, to either side
			for _, kind := range bothKinds {
				if !s.IsDiverged(kind, lostKeys[0]) {
					continue
				}
				to, _ := s.Side(kind)
				require.NoError(t, to.Append(t.Context(), entriesOf(lostKeys[0], from-14, from, func(slot int64) cq.Unit { return unitAt(0, slot) })))
				s.Heal(kind, lostKeys[0])
			}
		case 3:
			require.NoError(t, s.SetPreferred(other))
			s.Hold(side)
			require.NoError(t, s.Append(t.Context(), entriesOf(lostKeys[1], from, from+1, func(slot int64) cq.Unit { return unitAt(1, slot) })))
			to, _ := s.Side(side)
			require.NoError(t, to.Append(t.Context(), entriesOf(lostKeys[1], from, from+1, func(slot int64) cq.Unit { return unitAt(1, slot) })))
			require.NoError(t, s.Release(side))
		}
		require.NoError(t, s.SetPreferred(side))
		require.NoError(t, s.SetAuthority(other))
	}
	close(stop)
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.NoError(t, s.AwaitReadable(t.Context()))
	for _, k := range lostKeys {
		v, err := s.Verify(t.Context(), k, combine.Units)
		require.NoError(t, err)
		require.True(t, v.OK(), "%v", v.Differences)
		require.GreaterOrEqual(t, v.Compared, from)
	}
	require.Empty(t, s.Diverged())
}

func entriesOf(k cq.Key, from, to int64, unit func(slot int64) cq.Unit) (out []cq.Entry) {
	for slot := from; slot < to; slot++ {
		out = append(out, cq.Entry{Key: k, QueueOffset: slot, Unit: unit(slot)})
	}
	return out
}

func readAlong(s *combine.Store, stop <-chan struct{}, unitAt func(q int, slot int64) cq.Unit) error {
	queues := map[int]cq.Queue{}
	last := map[int]int64{}
	buf := make([]cq.Unit, 50)
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		for i, k := range lostKeys {
			q, ok := queues[i]
			if !ok {
				if q, ok = s.Queue(k); !ok {
					continue
				}
				queues[i] = q
			}
			b, err := q.Bounds()
			if err != nil {
				return err
			}
			if b.Max < last[i] || b.Min != 0 {
				return fmt.Errorf("bounds of %s are [%d, %d) after a max of %d", k, b.Min, b.Max, last[i])
			}
			last[i] = b.Max
			from := max(0, b.Max-int64(len(buf)))
			n, err := q.Read(from, buf)
			if err != nil {
				return err
			}
			for j, u := range buf[:n] {
				if want := unitAt(i, from+int64(j)); !u.SameRecord(want) {
					return fmt.Errorf("%s slot %d is %+v, want %+v", k, from+int64(j), u, want)
				}
			}
		}
	}
}
