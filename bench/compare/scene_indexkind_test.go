package compare

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIndexKindScenarios(t *testing.T) {
	requireScenarios(t, IndexKindScenarios())
	for _, engine := range IndexKindScenarios()[0].Engines {
		r := newTestRun(t, engine)
		require.NoError(t, runIndexKind(t.Context(), r, indexSize{indexBatch + 10, 50}), engine)
		requireRun(t, r, "messagesPerSecond")
		require.Equal(t, int64(50), r.Latencies["absent"].Samples)
	}
	require.EqualError(t, runIndexKind(t.Context(), newTestRun(t, "tape"), indexSize{1, 1}), `no index "tape"`)
}

// A message that was not added, and one at another place, are found.
func TestFindOne(t *testing.T) {
	for _, kind := range IndexKindScenarios()[0].Engines {
		x, add, commit, err := openIndex(kind, t.TempDir()+"/index")
		require.NoError(t, err)
		add(indexRequest(indexKey(nil, 3), indexUnique(nil, 3), 3))
		require.NoError(t, commit())
		key := indexQuery(string(indexKey(nil, 3)))
		require.NoError(t, findOne(x, key, 3*indexStep))
		require.ErrorContains(t, findOne(x, key, 4*indexStep), "want 5200")
		require.ErrorContains(t, findOne(x, indexQuery("no such key"), 3*indexStep), "found at [], want 3900")
		require.ErrorContains(t, findOne(x, key, -1), "found at [3900], want -1")
		require.NoError(t, x.Close())
	}
}
