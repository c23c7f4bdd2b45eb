//go:build cgo

package crash

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// killed runs a command and kills it after d. It tells whether the command was still running then.
func killed(t *testing.T, d time.Duration, bin string, args ...string) bool {
	cmd := exec.Command(bin, args...)
	require.NoError(t, cmd.Start())
	timer := time.AfterFunc(d, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	return !timer.Stop() && err != nil
}

func phaseOf(t *testing.T, bin *golden.Binary, dir string) string {
	var st struct{ Phase string }
	require.NoError(t, json.Unmarshal([]byte(bin.MustRun(t, "migrate", "status", "--store", dir, "--json").Stdout), &st))
	return st.Phase
}

// Kill -9 of a migration at random moments, in each direction and on the way back: repeated, it ends the same, and never
// is there a cutover over an incomplete side.
func TestKillMigrate(t *testing.T) {
	tmp := t.TempDir()
	bin, err := golden.Build(tmp)
	require.NoError(t, err)
	path := filepath.Join(tmp, "tandemmq")
	dir := filepath.Join(tmp, "store")
	bin.MustRun(t, "store", "generate", "--store", dir, "--messages", "15000", "--topics", "3", "--queues", "4", "--body", "60",
		"--commitlog-size", strconv.Itoa(1<<20), "--cq-file-size", "5000")
	want := bin.MustRun(t, "store", "dump", "--store", dir, "--cq", "file").Stdout

	// forward builds the database, back builds the files, rollback gives reads back to the files.
	type direction struct {
		name    string
		prepare func(t *testing.T)
		args    []string
		target  string // kind that reads belong to at the end
		end     string
	}
	clear := func(names ...string) {
		for _, n := range names {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, n)))
		}
	}
	chunk := []string{"--chunk-units", "750"} // twenty imports, so that a kill meets one
	forward := append([]string{"migrate", "run", "--store", dir, "--yes"}, chunk...)
	for _, d := range []direction{
		{"file to rocks", func(*testing.T) { clear("consumequeue_rocksdb", "tandemmq") }, forward, "rocks", "cutover"},
		{"rollback", func(t *testing.T) {
			clear("consumequeue_rocksdb", "tandemmq")
			bin.MustRun(t, forward...)
			// The file side falls behind: its queues lose their last files, as if written before a long time on RocksDB.
			entries, err := filepath.Glob(filepath.Join(dir, "consumequeue", "*", "*", "*"))
			require.NoError(t, err)
			for _, e := range entries {
				if filepath.Base(e) >= "00000000000000010000" {
					require.NoError(t, os.Remove(e))
				}
			}
			setBackfilledTo(t, dir, 0)
		}, []string{"migrate", "rollback", "--store", dir, "--yes"}, "file", "rolled-back"},
		{"rocks to file", func(t *testing.T) {
			if phaseOf(t, bin, dir) == "rolled-back" || phaseOf(t, bin, dir) == "absent" {
				clear("tandemmq")
			}
			clear("consumequeue", "tandemmq")
		}, append([]string{"migrate", "run", "--store", dir, "--to", "file", "--cq-file-size", "5000", "--yes"}, chunk...), "file", "cutover"},
	} {
		t.Run(d.name, func(t *testing.T) {
			n, rng := kills(t, 4)
			d.prepare(t)
			start := time.Now()
			bin.MustRun(t, d.args...)
			whole := time.Since(start)
			require.Equal(t, want, bin.MustRun(t, "store", "dump", "--store", dir, "--cq", d.target).Stdout)

			seen := reach{}
			for i := 0; i < n || len(seen) == 0 && i < 20*n; i++ {
				d.prepare(t)
				for range 2 { // sometimes killed again while it resumes; the third time it may finish
					if !killed(t, time.Duration(rng.Int64N(int64(whole))), path, d.args...) {
						whole = max(whole*3/4, 5*time.Millisecond) // it was done, perhaps in less time than the first one took
						break
					}
					at := phaseOf(t, bin, dir)
					seen[at]++
					if at == d.end {
						require.Equal(t, want, bin.MustRun(t, "store", "dump", "--store", dir, "--cq", d.target).Stdout, "kill %d: an incomplete %s", i, d.end)
					}
				}
				bin.MustRun(t, d.args...)
				require.Equal(t, d.end, phaseOf(t, bin, dir), "kill %d", i)
				require.Equal(t, want, bin.MustRun(t, "store", "dump", "--store", dir, "--cq", d.target).Stdout, "kill %d", i)
			}
			t.Logf("phases in which a kill was met: %v", seen)
			require.NotEmpty(t, seen, "no kill met the run")
		})
	}
}

// setBackfilledTo rewrites the offset from which a rollback resumes.
func setBackfilledTo(t *testing.T, dir string, phy int64) {
	path := filepath.Join(dir, "tandemmq", "migration.json")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var st map[string]any
	require.NoError(t, json.Unmarshal(b, &st))
	st["backfilledTo"] = phy
	b, err = json.Marshal(st)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b, 0o600), fmt.Sprint(phy))
}
