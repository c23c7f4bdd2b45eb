package store

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadStatus(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		_, err := ReadStatus(root, o)
		var used *InUseError
		require.ErrorAs(t, err, &used)
		putSome(t, s, 20)
		awaitDispatch(t, s)
		copied := crash(t, root)
		wrote := s.Positions().Wrote
		require.NoError(t, s.Close())

		st, err := ReadStatus(root, o)
		require.NoError(t, err)
		require.False(t, st.Unclean)
		require.Zero(t, st.MinPhyOffset)
		require.Equal(t, wrote, st.EndPhyOffset)
		require.Equal(t, "clean end", st.LogEnd)
		require.Positive(t, st.FirstMs)
		require.GreaterOrEqual(t, st.LastMs, st.FirstMs)
		names := map[string]ViewStatus{}
		for _, v := range st.Views {
			names[v.Name] = v
		}
		queues := names[string(o.StoreType.kind())+" queues"]
		require.Equal(t, wrote, queues.Dispatched)
		require.Equal(t, "up to the log's end", queues.Text())
		require.Contains(t, names, "index")

		st, err = ReadStatus(copied, o)
		require.NoError(t, err)
		require.True(t, st.Unclean)

		require.NoError(t, os.WriteFile(NewLayout(root).CheckpointPath(), []byte("short"), 0o600))
		st, err = ReadStatus(root, o)
		require.NoError(t, err)
		require.NotEmpty(t, st.CheckpointFault)
	})
}
