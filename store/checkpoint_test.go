package store

import (
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The checkpoint of a plain run of RocketMQ 5.5.0 that was shut down cleanly; its last record starts at 44912.
const goldenCheckpoint = "000001a2292afc1d" + "000001a2292afc3f" + "0000000000000000" + "0000000000000000" + "0000000000000000" + "000000000000af70"

var goldenCheckpointFields = Checkpoint{PhysicMsgTimestampMs: 0x1a2292afc1d, LogicsMsgTimestampMs: 0x1a2292afc3f, LogicsPhysicalOffset: 44912}

func TestCheckpointGolden(t *testing.T) {
	b, err := hex.DecodeString(goldenCheckpoint)
	require.NoError(t, err)
	require.Len(t, b, checkpointBytes)
	path := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, os.WriteFile(path, append(b, make([]byte, 4096-48)...), 0o644))
	c, err := ReadCheckpoint(path)
	require.NoError(t, err)
	require.Equal(t, goldenCheckpointFields, c)
	require.Equal(t, b, c.appendTo(nil))
}

// Every field has its own place: what is written is read back, and the file has the size RocketMQ maps.
func TestCheckpointRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	want := Checkpoint{1, 2, 3, -4, 5 << 40, 6}
	require.NoError(t, WriteCheckpoint(path, want))
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 4096, st.Size())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for i, last := range []byte{1, 2, 3, 0xfc, 0, 6} {
		require.Equal(t, last, b[8*i+7], "field %d", i)
	}
	got, err := ReadCheckpoint(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestUpdateCheckpointKeepsTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	b := make([]byte, 4096)
	for i := range b {
		b[i] = byte(i)
	}
	require.NoError(t, os.WriteFile(path, b, 0o644))
	require.NoError(t, UpdateCheckpoint(path, func(c *Checkpoint) { c.LogicsPhysicalOffset = 7 }))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	copy(b[40:48], []byte{0, 0, 0, 0, 0, 0, 0, 7})
	require.Equal(t, b, got)

	fresh := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, UpdateCheckpoint(fresh, func(c *Checkpoint) { c.LogicsPhysicalOffset = 7 }))
	c, err := ReadCheckpoint(fresh)
	require.NoError(t, err)
	require.Equal(t, Checkpoint{LogicsPhysicalOffset: 7}, c)
}

func TestReadCheckpointDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	_, err := ReadCheckpoint(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	c, err := ReadCheckpoint(path)
	require.NoError(t, err)
	require.Zero(t, c)
	require.NoError(t, os.WriteFile(path, make([]byte, 47), 0o644))
	_, err = ReadCheckpoint(path)
	require.EqualError(t, err, "read checkpoint "+path+": 47 bytes, want 4096")
	require.Error(t, UpdateCheckpoint(path, func(*Checkpoint) {}))
}
