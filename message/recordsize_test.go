package message

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecordSize(t *testing.T) {
	m := Message{Topic: "T", Body: []byte("b"), BornHost: hostOf("127.0.0.1:1"), StoreHost: hostOf("127.0.0.1:1")}
	b, err := m.AppendTo(nil)
	require.NoError(t, err)
	size, ok := RecordSize(b[:BlankHeaderSize])
	require.True(t, ok)
	require.EqualValues(t, len(b), size)
	for name, bad := range map[string][]byte{
		"too short": b[:BlankHeaderSize-1],
		"zeros":     make([]byte, 100),
		"too small": append([]byte{0, 0, 0, 9}, b[4:]...),
		"no magic":  append(bytes.Clone(b[:4]), make([]byte, 20)...),
	} {
		_, ok := RecordSize(bad)
		require.False(t, ok, name)
	}
}
