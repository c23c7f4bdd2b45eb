package migrate

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/migrate/state"
)

// told is a Progress that remembers what it was told.
type told struct {
	sync.Mutex
	phases []string
	last   int64
}

func (p *told) Phase(name string, _ int64, _ string) func(int64) {
	p.phases = append(p.phases, name)
	return func(done int64) {
		p.Lock()
		defer p.Unlock()
		p.last = max(p.last, done)
	}
}

// What is told of long work is passed on, and taken down with its beginning and end, however often it is told.
func TestRecorder(t *testing.T) {
	dir := t.TempDir()
	p := &told{}
	r, err := NewRecorder(dir, p)
	require.NoError(t, err)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r.now = func() time.Time { return now }
	update := r.Phase("backfill", 1000, "bytes")
	for i := range int64(100) {
		now = now.Add(recordEvery / 5)
		update(i + 1)
	}
	update(50) // of a worker that was late
	update = r.Phase("verify", 10, "queues")
	var workers sync.WaitGroup
	for i := range int64(10) {
		workers.Go(func() { update(i + 1) })
	}
	workers.Wait()
	require.NoError(t, r.Close())
	require.Equal(t, []string{"backfill", "verify"}, p.phases)
	require.EqualValues(t, 100, p.last)

	all, err := state.LoadSamples(dir)
	require.NoError(t, err)
	require.Len(t, all, 23, "four in a second, and the ends")
	require.Equal(t, state.Sample{Time: all[0].Time, Work: "backfill", Of: 1000, Unit: "bytes"}, all[0])
	require.EqualValues(t, 100, all[20].Done)
	require.EqualValues(t, 10, all[len(all)-1].Done)
	require.Equal(t, "verify", all[len(all)-1].Work)
}
