//go:build interop

package java

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/store"
)

// StoreOpen counts what lies in the queues, and keeps the abort mark where there was one.
func TestStoreOpen(t *testing.T) {
	t.Parallel()
	classPath, err := Build(t.Context())
	require.NoError(t, err)
	for _, kind := range []string{"file", "rocks"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			cmd := Command(t.Context(), classPath, t.TempDir(), nil, "StorePut", dir, "--messages", "100", "--topics", "2", "--queues", "2")
			out, err := cmd.Output()
			require.NoError(t, err, string(out))
			l := store.NewLayout(dir)
			for range 2 {
				out, err := Command(t.Context(), classPath, t.TempDir(), nil, "StoreOpen", dir, kind).Output()
				require.NoError(t, err, string(out))
				var m struct {
					LoadMillis, StartMillis, ReadyMillis float64
					Queues, Messages                     int64
				}
				require.NoError(t, json.Unmarshal(out, &m), string(out))
				require.EqualValues(t, 4, m.Queues)
				require.EqualValues(t, 100, m.Messages)
				require.Positive(t, m.LoadMillis)
				require.GreaterOrEqual(t, m.ReadyMillis, m.LoadMillis)
				has, err := l.HasAbort()
				require.NoError(t, err)
				require.False(t, has)
			}
		})
	}
}
