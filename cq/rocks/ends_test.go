//go:build cgo

package rocks

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// TestEndTable compares with a map through growth, removal and reuse.
func TestEndTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	table, model := newEndTable(), map[cq.Key]end{}
	key := func() cq.Key {
		n := rng.IntN(3000)
		if n%3 == 0 {
			return cq.Key{Topic: fmt.Sprintf("%%LMQ%%%d", n)}
		}
		return cq.Key{Topic: strings.Repeat("t", 1+n%40), QueueID: int32(n)}
	}
	check := func() {
		t.Helper()
		require.Equal(t, len(model), table.len())
		require.Equal(t, model, maps.Collect(table.all()))
		for range 500 {
			k := key()
			want, present := model[k]
			got, ok := table.get(k)
			require.Equal(t, present, ok)
			require.Equal(t, want, got)
		}
	}
	for phase, removals := range []int{1, 1, 9, 5, 1} { // of 10
		for range 4000 {
			k := key()
			if rng.IntN(10) < removals {
				delete(model, k)
				table.remove(k)
			} else {
				e := end{max: rng.Int64(), lastPhy: rng.Int64(), minSlot: int64(phase), lastSize: rng.Int32()}
				model[k] = e
				table.put(k, e)
			}
		}
		check()
	}
	for k := range maps.Clone(model) {
		delete(model, k)
		table.remove(k)
	}
	check()
	require.Empty(t, table.rows[0][0], "nothing is left")
}

// TestEndTableLongTopics: a topic is never split, whatever its length.
func TestEndTableLongTopics(t *testing.T) {
	table := newEndTable()
	for n := 1; n <= 65_535; n += 997 {
		table.put(cq.Key{Topic: strings.Repeat("x", n), QueueID: int32(n)}, end{max: int64(n)})
	}
	for n := 1; n <= 65_535; n += 997 {
		e, ok := table.get(cq.Key{Topic: strings.Repeat("x", n), QueueID: int32(n)})
		require.True(t, ok)
		require.EqualValues(t, n, e.max)
	}
}
