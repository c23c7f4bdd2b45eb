package online

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// Topics that lack most come first, with how fast they come closer; what was compared of them is counted.
func TestTopics(t *testing.T) {
	f, root := newFake(), t.TempDir()
	m := openFake(t, f, root, nil)
	m.Close()
	at := time.Unix(1000, 0)
	m.now = func() time.Time { return at }
	f.topics = []store.TopicUnits{
		{Topic: "a", Queues: 2, Files: 100, Rocks: 40, Diverged: 1}, {Topic: "b", Queues: 3, Files: 50, Rocks: 50}, {Topic: "c", Queues: 1, Files: 500, Rocks: 100, Given: 1},
	}
	require.NoError(t, m.Begin(t.Context(), "me", BeginOptions{To: cq.KindRocks}))
	list, more, err := m.Topics(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, 1, more)
	require.Equal(t, []Topic{
		{Topic: "c", Queues: 1, Units: 500, Filled: 100, Differ: 1, SecondsLeft: -1},
		{Topic: "a", Queues: 2, Units: 100, Filled: 40, Diverged: 1, SecondsLeft: -1},
	}, list)
	f.topics[2].Rocks, f.topics[0].Files, f.topics[0].Rocks = 300, 110, 60 // a gets 10 more meanwhile
	list, _, err = m.Topics(t.Context(), 0)
	require.NoError(t, err)
	require.EqualValues(t, 100, list[0].Filled, "what was found a moment ago is told again")
	require.Equal(t, 1, f.looks)
	at = at.Add(2 * time.Second)
	list, more, err = m.Topics(t.Context(), 0)
	require.NoError(t, err)
	require.Zero(t, more)
	require.Equal(t, []Topic{
		{Topic: "c", Queues: 1, Units: 500, Filled: 300, Differ: 1, UnitsPerSecond: 100, SecondsLeft: 2},
		{Topic: "a", Queues: 2, Units: 110, Filled: 60, Diverged: 1, UnitsPerSecond: 5, SecondsLeft: 10},
		{Topic: "b", Queues: 3, Units: 50, Filled: 50},
	}, list)

	f.differ[keyB] = "unit at slot 3"
	_, err = m.compare(t.Context(), "verify", scope{})
	require.Error(t, err)
	m.mu.st.Online.CanaryTopics = []string{"b"}
	list, _, err = m.Topics(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, [3]int{1, 0, 1}, [3]int{list[1].Verified, list[1].Different, list[2].Different})
	require.True(t, list[2].Canary)

	f.single = true
	at = at.Add(time.Minute)
	_, _, err = m.Topics(t.Context(), 0)
	require.ErrorIs(t, err, store.ErrNotCombined)
}

// How far a comparison is, and each side behind the log.
func TestStatusOfAComparison(t *testing.T) {
	f := newFake()
	m := openFake(t, f, t.TempDir(), nil)
	m.Close()
	at := time.Unix(1000, 0)
	m.now = func() time.Time { return at }
	require.Nil(t, m.Status().Verifying)
	m.mu.Lock()
	m.mu.begun, m.mu.done, m.mu.of, m.mu.units = at.Add(-10*time.Second), 20, 100, 5000
	m.mu.Unlock()
	require.Equal(t, &Verifying{Queues: 20, Of: 100, Units: 5000, UnitsPerSecond: 500, SecondsLeft: 40}, m.Status().Verifying)
	require.Equal(t, Lag{Bytes: 7, Ms: 70}, m.Status().Lag[cq.KindRocks])
	require.Equal(t, state.Absent, m.Status().Phase)
}
