package mmap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryFile(t *testing.T) {
	f, err := MemoryFile("/log/00", 1<<20, []byte("head"))
	require.NoError(t, err)
	require.Equal(t, "/log/00", f.Name())
	m, err := f.Map(1<<20, false)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, "head\x00", string(m.Bytes()[:5]))
	require.Zero(t, m.Bytes()[1<<20-1])
	require.NoError(t, m.Unmap())
	_, err = MemoryFile("x", -1, nil)
	require.ErrorContains(t, err, "x")
}
