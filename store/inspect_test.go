package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

func fieldNamed(t *testing.T, fields []message.Field, name string) message.Field {
	t.Helper()
	for _, f := range fields {
		if f.Name == name {
			return f
		}
	}
	require.Fail(t, "no field "+name)
	return message.Field{}
}

func TestInspectCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	c := Checkpoint{PhysicMsgTimestampMs: 1, LogicsMsgTimestampMs: 2, IndexMsgTimestampMs: 3, MasterFlushedOffset: 4, ConfirmPhyOffset: 5, LogicsPhysicalOffset: 6, LogFlushedOffset: 7}
	require.NoError(t, WriteCheckpoint(path, c))
	fields, fault, err := InspectCheckpoint(path)
	require.NoError(t, err)
	require.NoError(t, fault)
	at := int64(0)
	for _, f := range fields {
		require.Equal(t, at, f.Offset, f.Name)
		at += f.Width
	}
	require.EqualValues(t, checkpointZeroAt, at)
	for i, name := range checkpointNames {
		require.Equal(t, int64(i+1), fieldNamed(t, fields, name).Value)
	}
	require.Equal(t, int64(7), fieldNamed(t, fields, "logFlushedOffset").Value)
	require.Equal(t, "right", fieldNamed(t, fields, "crc").Text)
	require.Equal(t, "as bytes 0 to 47", fieldNamed(t, fields, "copy of physicMsgTimestamp").Text)

	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, tt := range []struct {
		name        string
		change      func(b []byte) []byte
		fields      int
		copied, crc string
		fault       bool
	}{
		{"RocketMQ wrote since", func(b []byte) []byte { b[47]++; return b }, 15, "differs: RocketMQ has written since", "right", false},
		{"RocketMQ's own", func(b []byte) []byte { clear(b[48:]); return b }, 15, "none: RocketMQ wrote the file", "", false},
		{"damaged copy", func(b []byte) []byte { b[60]++; return b }, 15, "differs", "wrong", true},
		{"cut", func(b []byte) []byte { return b[:40] }, 5, "", "", true},
		{"empty", func([]byte) []byte { return nil }, 0, "", "", false},
	} {
		require.NoError(t, os.WriteFile(path, tt.change(append([]byte{}, whole...)), 0o644))
		fields, fault, err := InspectCheckpoint(path)
		require.NoError(t, err, tt.name)
		require.Len(t, fields, tt.fields, tt.name)
		require.Equal(t, tt.fault, fault != nil, "%s: %v", tt.name, fault)
		if tt.fields == 15 {
			require.Contains(t, fieldNamed(t, fields, "copy of physicMsgTimestamp").Text, tt.copied, tt.name)
			require.Contains(t, fieldNamed(t, fields, "crc").Text, tt.crc, tt.name)
		}
	}
	_, _, err = InspectCheckpoint(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
