package compare

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadModeScenarios(t *testing.T) {
	requireScenarios(t, ReadModeScenarios())
	for _, engine := range []string{readMapped, readPread} {
		for _, state := range []readState{readHot, readCold} {
			for _, random := range []bool{false, true} {
				r := newTestRun(t, engine)
				require.NoError(t, runReadMode(t.Context(), r, readSize{state, random, 200, 20 * time.Millisecond}))
				requireRun(t, r, "bytesPerSecond")
				if !random || state == readCold {
					require.GreaterOrEqual(t, r.Latencies["read"].Samples, int64(1))
				}
			}
		}
	}
	require.ErrorContains(t, runReadMode(t.Context(), newTestRun(t, "tape"), readSize{readCold, false, 1, time.Second}), `no read mode "tape"`)
}

// A byte that is not what was written is found, by either.
func TestReadModeChecks(t *testing.T) {
	r := newTestRun(t, readMapped)
	path, err := r.readInput(100)
	require.NoError(t, err)
	for at, want := range map[int64]string{50*readRecord + 7: "where 50 should be", 50*readRecord + 900: "record 50 has a wrong checksum"} {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		b[at] ^= 1
		bad := filepath.Join(t.TempDir(), "bad")
		require.NoError(t, os.WriteFile(bad, b, 0o600))
		for _, engine := range []string{readMapped, readPread} {
			r.Engine = engine
			require.ErrorContains(t, readMode(t.Context(), r, readSize{readHot, false, 100, time.Second}, bad), want)
		}
	}
}

func TestMemoryGroup(t *testing.T) {
	root := t.TempDir()
	own := filepath.Join(root, "own")
	require.NoError(t, os.Mkdir(own, 0o755))
	_, err := memoryGroupOf(root, "4:memory:/x\n")
	require.ErrorContains(t, err, "no cgroups of version 2")
	_, err = memoryGroupOf(root, "0::/own\n")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(own, "cgroup.subtree_control"), []byte("cpu\n"), 0o600))
	_, err = memoryGroupOf(root, "0::/own\n")
	require.ErrorContains(t, err, own+" shares no memory out")
	require.NoError(t, os.WriteFile(filepath.Join(own, "cgroup.subtree_control"), []byte("cpu memory\n"), 0o600))
	g, err := memoryGroupOf(root, "4:memory:/x\n0::/own\n")
	require.NoError(t, err)

	var in string
	g.remove = func(dir string) error {
		in = dir
		b, err := os.ReadFile(filepath.Join(dir, "memory.high"))
		require.NoError(t, err)
		require.Equal(t, "4096", string(b))
		b, err = os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		require.NoError(t, err)
		require.NotEmpty(t, b)
		return os.RemoveAll(dir)
	}
	leave, err := g.enter(4096)
	require.NoError(t, err)
	require.NoError(t, leave())
	require.Equal(t, own, filepath.Dir(in))
	b, err := os.ReadFile(filepath.Join(own, "cgroup.procs"))
	require.NoError(t, err)
	require.NotEmpty(t, b, "the process is back where it was")
}
