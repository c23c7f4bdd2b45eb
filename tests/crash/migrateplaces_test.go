//go:build cgo && tandemmq_failpoints

package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/failpoint"
	"github.com/tandemq/tandemmq/tests/golden"
)

// A migration killed between two of its steps, in each direction: repeated, it ends as an undisturbed one.
func TestKillMigrateAtPlaces(t *testing.T) {
	tmp := t.TempDir()
	bin, err := golden.Build(tmp)
	require.NoError(t, err)
	path := filepath.Join(tmp, "tandemmq-places")
	out, err := exec.Command("go", "build", "-tags", "tandemmq_failpoints", "-o", path, "github.com/tandemq/tandemmq/cmd/tandemmq").CombinedOutput()
	require.NoError(t, err, "%s", out)
	dir := filepath.Join(t.TempDir(), "store")
	bin.MustRun(t, "store", "generate", "--store", dir, "--messages", "6000", "--topics", "3", "--queues", "4", "--body", "60",
		"--commitlog-size", strconv.Itoa(1<<20), "--cq-file-size", "2000")
	want := bin.MustRun(t, "store", "dump", "--store", dir, "--cq", "file").Stdout
	args := []string{"migrate", "run", "--store", dir, "--chunk-units", "1000", "--yes"}
	for _, d := range []struct {
		to   string
		args []string
		gone []string
	}{
		{"rocks", args, []string{"consumequeue_rocksdb", "tandemmq"}},
		{"file", append(args, "--to", "file", "--cq-file-size", "2000"), []string{"consumequeue", "tandemmq"}},
	} {
		for _, at := range []struct {
			place failpoint.Place
			times int
		}{{failpoint.ChunkImported, 3}, {failpoint.BackfillComplete, 1}} {
			for n := range at.times {
				what := fmt.Sprintf("to %s, killed at %s:%d", d.to, at.place, n+1)
				for _, g := range d.gone {
					require.NoError(t, os.RemoveAll(filepath.Join(dir, g)))
				}
				for range 2 { // the second time it goes on from the first
					cmd := exec.Command(path, d.args...)
					cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%d", failpoint.Env, at.place, n+1))
					out, err := cmd.CombinedOutput()
					if err == nil {
						break // there is less to do
					}
					require.Equal(t, -1, cmd.ProcessState.ExitCode(), "%s: %s", what, out)
				}
				bin.MustRun(t, d.args...)
				require.Equal(t, "cutover", phaseOf(t, bin, dir), what)
				require.Equal(t, want, bin.MustRun(t, "store", "dump", "--store", dir, "--cq", d.to).Stdout, what)
			}
		}
		// What was migrated is the source of the other direction.
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "tandemmq")))
	}
}

// A repair that is killed has the state say that it is not complete, and goes on when it is repeated.
func TestKillRepairAtPlaces(t *testing.T) {
	tmp := t.TempDir()
	bin, err := golden.Build(tmp)
	require.NoError(t, err)
	path := filepath.Join(tmp, "tandemmq-places")
	out, err := exec.Command("go", "build", "-tags", "tandemmq_failpoints", "-o", path, "github.com/tandemq/tandemmq/cmd/tandemmq").CombinedOutput()
	require.NoError(t, err, "%s", out)
	dir := filepath.Join(t.TempDir(), "store")
	bin.MustRun(t, "store", "generate", "--store", dir, "--messages", "600", "--topics", "1", "--queues", "2", "--body", "60", "--commitlog-size", strconv.Itoa(1<<20), "--cq-file-size", "2000")
	bin.MustRun(t, "migrate", "run", "--store", dir)
	want := bin.MustRun(t, "store", "dump", "--store", dir, "--cq", "file").Stdout
	files, err := filepath.Glob(filepath.Join(dir, "consumequeue", "*", "0", "*"))
	require.NoError(t, err)
	f, err := os.OpenFile(files[0], os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, 20), 5*20)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	cmd := exec.Command(path, "migrate", "repair", "--store", dir)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:1", failpoint.Env, failpoint.ChunkImported))
	require.Error(t, cmd.Run())
	require.Equal(t, -1, cmd.ProcessState.ExitCode())
	require.Equal(t, "repairing", phaseOf(t, bin, dir))
	require.Equal(t, 1, bin.Run(t, "migrate", "verify", "--store", dir).Code)
	bin.MustRun(t, "migrate", "repair", "--store", dir)
	require.Equal(t, "verifying", phaseOf(t, bin, dir))
	require.Equal(t, want, bin.MustRun(t, "store", "dump", "--store", dir, "--cq", "file").Stdout)
	bin.MustRun(t, "migrate", "run", "--store", dir, "--yes")
	require.Equal(t, "cutover", phaseOf(t, bin, dir))
}
