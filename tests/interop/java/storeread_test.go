//go:build interop

package java

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/store"
)

// StorePut builds the queues that its mode says, and StoreRead reads all that is in them.
func TestStoreRead(t *testing.T) {
	t.Parallel()
	classPath, err := Build(t.Context())
	require.NoError(t, err)
	for _, mode := range []string{"file", "rocks", "combine"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			out, err := Command(t.Context(), classPath, t.TempDir(), nil, "StorePut", dir, "--messages", "100", "--topics", "2", "--queues", "2",
				"--mode", mode, "--prefer", "rocks", "--assign", "rocks").Output()
			require.NoError(t, err, string(out))
			l := store.NewLayout(dir)
			files, err := l.HasFileQueues()
			require.NoError(t, err)
			require.Equal(t, mode != "rocks", files)
			_, _, rocks, err := l.FindRocks()
			require.NoError(t, err)
			require.Equal(t, mode != "file", rocks)

			out, err = Command(t.Context(), classPath, t.TempDir(), nil, "StoreRead", dir, mode, "rocks", "rocks", "50").Output()
			require.NoError(t, err, string(out))
			var m struct {
				ReadyMillis, PullPerSecond float64
				GetP50Nanos, TimeP50Nanos  int64
				NewestP50Nanos             int64
				QueryP50Nanos              int64
				Queues, Messages           int64
			}
			require.NoError(t, json.Unmarshal(out, &m), string(out))
			require.EqualValues(t, 4, m.Queues)
			require.EqualValues(t, 100, m.Messages)
			require.Positive(t, m.ReadyMillis)
			require.Positive(t, m.PullPerSecond)
			require.Positive(t, m.GetP50Nanos)
			require.Positive(t, m.TimeP50Nanos)
			require.Positive(t, m.NewestP50Nanos)
			require.Positive(t, m.QueryP50Nanos)
			has, err := l.HasAbort()
			require.NoError(t, err)
			require.False(t, has)
		})
	}
}
