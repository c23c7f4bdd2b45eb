package calibrate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMachineText(t *testing.T) {
	m := MachineInfo{CPU: "c", Processors: 2, MemoryKiB: "8 kB", Kernel: "6.1", Filesystem: "ext4 (rw)", Device: "unknown", Go: "go1.26"}
	require.Equal(t, "c, 2 processors, GOMAXPROCS 2, memory 8 kB, Linux 6.1, ext4 (rw), device counters unknown\ngo1.26; files are made by each program as it does by default", m.String())
	require.Empty(t, warning(m.Filesystem))
	m.TandemMQ, m.Warning = "tandemmq 1", warning("tmpfs (rw,size=1)")
	require.Contains(t, m.String(), "\ntandemmq 1, go1.26; ")
	require.Contains(t, m.String(), "\nWARNING: tmpfs is in memory")

	other := m
	other.Go = "go1.27"
	was, is := m.Differs(other)
	require.Equal(t, was, is)
	other.Kernel = "6.2"
	was, is = m.Differs(other)
	require.Contains(t, was, "6.1")
	require.Contains(t, is, "6.2")
}
