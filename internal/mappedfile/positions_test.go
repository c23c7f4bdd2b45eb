package mappedfile

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPositions(t *testing.T) {
	var p Positions
	p.Set(1 << 40)
	p.AdvanceWrote(1<<40 + 100)
	p.AdvanceCommitted(1<<40 + 80)
	p.AdvanceFlushed(1<<40 + 80)
	is := func(wrote, committed, flushed int64) {
		t.Helper()
		require.Equal(t, []int64{wrote, committed, flushed}, []int64{p.Wrote() - 1<<40, p.Committed() - 1<<40, p.Flushed() - 1<<40})
	}
	is(100, 80, 80)
	p.AdvanceWrote(1<<40 + 99)
	p.AdvanceCommitted(1<<40 + 7)
	p.AdvanceFlushed(-1)
	is(100, 80, 80)
	require.PanicsWithValue(t, "mappedfile: flushed position 1099511627857 overtakes committed position 1099511627856", func() { p.AdvanceFlushed(1<<40 + 81) })
	require.PanicsWithValue(t, "mappedfile: committed position 1099511627877 overtakes wrote position 1099511627876", func() { p.AdvanceCommitted(1<<40 + 101) })
	is(100, 80, 80)
	p.Set(1<<40 + 5)
	is(5, 5, 5)
	require.Panics(t, func() { p.Set(-1) })
}

// TestPositionsInOrder reads while all three advance.
func TestPositionsInOrder(t *testing.T) {
	var p Positions
	const last = 20_000
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range int64(last) {
			p.AdvanceWrote(i + 1)
		}
	})
	wg.Go(func() {
		for p.Committed() < last {
			p.AdvanceCommitted(p.Wrote())
		}
	})
	for range 2 { // the flushes may end in either order
		wg.Go(func() {
			for before := int64(0); p.Flushed() < last; {
				p.AdvanceFlushed(p.Committed())
				now := p.Flushed()
				assert.GreaterOrEqual(t, now, before)
				before = now
			}
		})
	}
	wg.Go(func() {
		for {
			flushed := p.Flushed()
			committed := p.Committed()
			wrote := p.Wrote()
			if !assert.True(t, flushed <= committed && committed <= wrote) || flushed == last {
				return
			}
		}
	})
	wg.Wait()
}
