//go:build interop

package interop

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// appendCount messages are sent to a store that is continued: several to each queue, and over the edge of a queue file in
// the stores with small ones.
const appendCount = 60

// openedAs is how RocketMQ opens the store a manifest describes, in one mode.
func openedAs(m *golden.Listing, mode string) how {
	c := m.Meta.Config
	return how{mode: mode, lmq: c.LMQ, sizes: sizes{
		commitLog: c.CommitLogFileBytes, queue: c.QueueFileBytes, indexSlots: c.IndexSlots, indexEntries: c.IndexEntries,
	}}
}

// requireQueues compares bounds, counts and the search by time of every queue, and each kind's units with the sides that
// want gives for it.
func requireQueues(t *testing.T, want, got *golden.Listing, sides func(want golden.Queue) (file, rocks *golden.Side)) {
	t.Helper()
	require.Equal(t, names(want), names(got), "the queues there are")
	for i, w := range want.Queues {
		w.File, w.Rocks = sides(w)
		require.Equal(t, w, got.Queues[i], "queue %s", w.Name())
	}
}

func names(l *golden.Listing) []string {
	var all []string
	for _, q := range l.Queues {
		all = append(all, q.Name())
	}
	return all
}

// requireContinued checks a job that sent messages: what was there is served as before, the new messages follow in the next
// slots, none is missing and nothing else appeared.
func requireContinued(t *testing.T, r report, lmq bool) {
	t.Helper()
	require.NotNil(t, r.appended)
	require.Equal(t, names(r.opened), names(r.appended))
	more := map[string]int64{}
	var own, light int64
	for _, g := range r.grown {
		name := golden.Queue{Topic: g.Topic, QueueID: g.QueueID}.Name()
		more[name] = g.After - g.Before
		if strings.HasPrefix(g.Topic, "%LMQ%") {
			light += g.After - g.Before
		} else {
			own += g.After - g.Before
		}
	}
	require.EqualValues(t, appendCount, own)
	require.Equal(t, lmq, light > 0, "messages dispatched to light queues")
	for i, q := range r.opened.Queues {
		after := r.appended.Queues[i]
		require.Equal(t, q.Min, after.Min, q.Name())
		require.Equal(t, q.Max+more[q.Name()], after.Max, q.Name())
		before, now := r.opened.Of(q), r.appended.Of(q)
		require.Len(t, now, len(before)+int(more[q.Name()]), q.Name())
		golden.RequireMessages(t, before, now[:len(before)], q.Name())
		for k, m := range now[len(before):] {
			require.Equal(t, q.Max+int64(k), m.QueueOffset, q.Name())
			require.Contains(t, m.JSON, `"tags":"Appended`, q.Name())
		}
	}
}

// sidesOf says which kinds of queue a store of that mode has to show with the units that the wanted listing was read from.
func sidesOf(mode string) func(want golden.Queue) (file, rocks *golden.Side) {
	return func(want golden.Queue) (file, rocks *golden.Side) {
		units := want.File
		if want.Rocks != nil && want.Rocks.Min <= want.Min && want.Rocks.Max >= want.Max {
			units = want.Rocks
		}
		switch mode {
		case "file":
			return units, nil
		case "rocks":
			return nil, units
		}
		return units, units
	}
}
