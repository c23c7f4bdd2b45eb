package store

import (
	"fmt"
	"os"
	"testing"
	"time"

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
		for _, n := range []int64{st.Appended, st.Committed, st.Flushed, st.Confirmed} {
			require.Equal(t, wrote, n)
		}
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
		require.Less(t, st.Flushed, wrote)

		require.NoError(t, os.WriteFile(NewLayout(root).CheckpointPath(), []byte("short"), 0o600))
		st, err = ReadStatus(root, o)
		require.NoError(t, err)
		require.NotEmpty(t, st.CheckpointFault)
	})
}

// The checkpoint of RocketMQ is behind its file queues, which keep no note of their own: what it says is told as that, with the bytes and the time behind it.
func TestReadStatusByCheckpoint(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	s := openStore(t, root, o)
	first := int64(-1)
	for i := range 20 {
		phy := putKeyed(t, s, "T", "", "", "")
		if i == 9 {
			first = phy
		}
		time.Sleep(time.Millisecond) // store times differ
	}
	awaitDispatch(t, s)
	end := s.Positions().Wrote
	ms, err := s.Log().StoreTimestamp(recordEnd(s.Log(), first), 0)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	l := NewLayout(root)
	require.NoError(t, os.Remove(l.queueOffsetsPath()))
	require.NoError(t, os.WriteFile(l.CheckpointPath(), (&Checkpoint{PhysicMsgTimestampMs: ms, LogicsMsgTimestampMs: ms, LogicsPhysicalOffset: first}).appendTo(make([]byte, 0, checkpointFileBytes))[:checkpointBytes], 0o600))
	require.NoError(t, os.Truncate(l.CheckpointPath(), checkpointFileBytes))
	st, err := ReadStatus(root, o)
	require.NoError(t, err)
	require.Empty(t, st.CheckpointFault)
	n := st.Views[0].BehindBytes
	require.True(t, st.Views[0].ByCheckpoint)
	require.Equal(t, end-st.Views[0].Dispatched, n)
	require.Equal(t, st.LastMs-ms, st.Views[0].BehindMs)
	require.Contains(t, st.Views[0].Text(), fmt.Sprintf("as the checkpoint says, which is %d bytes and %d ms before the log's end", n, st.LastMs-ms))
}
