//go:build interop

package interop

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/golden"
)

// The sequences that break RocketMQ 5.5.0, ended by migrate. One more is ended by the store itself: a side that was cut, under each preference and authority
// (store.TestF16ASideThatIsShortIsRepaired).

// recognised returns what a plan says of a store.
func recognised(t *testing.T, dir string) (states []migrate.StateCode) {
	t.Helper()
	r := tandemmq.Run(t, "migrate", "plan", "--store", dir, "--json")
	var p migrate.Plan
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &p), r.Stderr)
	for _, s := range p.States {
		states = append(states, s.State)
	}
	return states
}

// repaired returns what a repair found.
func repaired(t *testing.T, dir string, code int, flags ...string) migrate.RepairResult {
	t.Helper()
	r := tandemmq.Run(t, append([]string{"migrate", "repair", "--store", dir, "--json"}, flags...)...)
	require.Equal(t, code, r.Code, r.Stderr)
	var res migrate.RepairResult
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &res), r.Stderr)
	return res
}

func plainHow(mode string) how {
	h := combinedHow(mode)
	h.lmq = false
	return h
}

// putPlain opens the store in a mode, puts numbered messages without light queues, and closes it.
func putPlain(t *testing.T, dir, mode string, from, to int64) {
	t.Helper()
	s, err := store.Open(dir, combinedOptions(mode))
	require.NoError(t, err)
	for no := from; no < to; no++ {
		_, err := putNumbered(s, no, false)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
}

// RocketMQ with files, with both, and with RocksDB alone for a while; then with both or files again. By itself it shifts a file queue by one for good, and begins the RocksDB one anew, out of view (F1, F5, F16).
// Repaired before, it goes on in every mode with all there is; repaired afterwards, nothing is lost either.
func TestF16SequenceOfRocksDBAloneForAWhile(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "store")
	putPlain(t, base, "file", 0, 300)
	for _, mode := range []string{"combine", "rocks"} {
		j := job{mode, base, plainHow(mode), appendCount}
		done(t, runJobs(t, []job{j}), j)
	}
	require.Equal(t, []migrate.StateCode{migrate.StateNoHistory, migrate.StateFilesBehind}, recognised(t, base))

	whole := golden.CopyTree(t, base)
	res := repaired(t, whole, 0)
	require.Subset(t, []migrate.Code{migrate.CodeHiddenUnits, migrate.CodeMissingUnits}, res.Findings.Codes())
	require.Empty(t, recognised(t, whole))
	next := requireSequence(t, whole)
	var here, there []job
	for _, mode := range combinedModes {
		here = append(here, job{"repaired/" + mode, golden.CopyTree(t, whole), plainHow(mode), appendCount})
		if mode != "rocks" {
			there = append(there, job{"alone/" + mode, golden.CopyTree(t, base), plainHow(mode), appendCount})
		}
	}
	reports := runJobs(t, append(here, there...))
	for _, j := range here {
		t.Run(j.name, func(t *testing.T) {
			r := done(t, reports, j)
			requireServed(t, r)
			for _, q := range r.opened.Queues {
				require.Equal(t, next[q.Name()], q.Max, q.Name())
			}
			requireContinued(t, r, false)
			requireSequence(t, j.dir)
		})
	}
	for _, j := range there {
		t.Run(j.name, func(t *testing.T) {
			broken := repaired(t, j.dir, 3, "--dry-run")
			require.EqualValues(t, 1, broken.Findings.Counts[migrate.CodeShifted], "RocketMQ does not break it, and this test proves nothing: %v", broken.Findings.First)
			repaired(t, j.dir, 3) // the numbers of the shifted queue are left alone
			left := repaired(t, j.dir, 3, "--dry-run")
			require.Equal(t, []migrate.Code{migrate.CodeShifted}, left.Findings.Codes())
			repaired(t, j.dir, 0, "--renumber")
			require.Empty(t, repaired(t, j.dir, 0, "--dry-run", "--renumber").Findings.Counts)
			requireAlike(t, j.dir)
		})
	}
}

// The log lost its end while both sides had flushed ahead, and RocketMQ went on: units of what was lost lead to other messages. They are named and cut off, and no message that the log has is lost.
func TestF30SequenceOfALogThatLostItsEnd(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "store")
	putPlain(t, base, "combine", 0, 600)
	next := requireSequence(t, base)
	loseEnd(t, base, 40)
	left := requireSequence(t, base)
	require.NotEqual(t, next, left)

	dir := golden.CopyTree(t, base)
	res := repaired(t, dir, 3)
	require.Equal(t, []migrate.Code{migrate.CodeUnitOutsideLog}, res.Left.Codes())
	require.Zero(t, res.Slots)
	res = repaired(t, dir, 0, "--accept-loss")
	require.Positive(t, res.Cut)
	for _, kind := range []string{golden.File, golden.Rocks} {
		requireDumped(t, dir, kind, left)
	}
	here := job{"here", dir, plainHow("combine"), appendCount}
	jobs := []job{here}
	for _, mode := range []string{"combine", "file", "rocks"} {
		jobs = append(jobs, job{"there/" + mode, golden.CopyTree(t, base), plainHow(mode), appendCount})
	}
	reports := runJobs(t, jobs)
	r := done(t, reports, here)
	requireServed(t, r)
	requireContinued(t, r, false)
	for _, j := range jobs[1:] {
		t.Run(j.name, func(t *testing.T) {
			found := repaired(t, j.dir, 3, "--dry-run", "--accept-loss", "--renumber")
			t.Logf("RocketMQ %q, and left %s", reports[j.name].failure, found.Findings.Summary())
			repaired(t, j.dir, 0, "--accept-loss", "--renumber")
			require.Empty(t, repaired(t, j.dir, 0, "--dry-run", "--renumber").Findings.Counts)
			requireAlike(t, j.dir)
		})
	}
}

// requireAlike requires that both sides of a store hold the same.
func requireAlike(t *testing.T, dir string) {
	t.Helper()
	file := flatQueues(t, tandemmq.Dump(t, dir, golden.File))
	require.NotEmpty(t, file)
	require.Equal(t, file, flatQueues(t, tandemmq.Dump(t, dir, golden.Rocks)))
}

// loseEnd zeroes the last records of the log, and what stands between them.
func loseEnd(t *testing.T, dir string, records int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "commitlog", "*"))
	require.NoError(t, err)
	type place struct{ file, at int }
	var places []place
	for i, path := range files {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		for at := 0; at+8 <= len(b); {
			n := int(binary.BigEndian.Uint32(b[at:]))
			if n == 0 || b[at+4] == 0xcb { // a filler
				break
			}
			places = append(places, place{i, at})
			at += n
		}
	}
	from := places[len(places)-records]
	for i := from.file; i < len(files); i++ {
		require.NoError(t, os.Truncate(files[i], int64(from.at)))
		require.NoError(t, os.Truncate(files[i], smallFiles))
		from.at = 0
	}
}
