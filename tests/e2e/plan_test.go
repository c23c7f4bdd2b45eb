//go:build cgo

package e2e

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/store"
)

// onDisk is what a directory and all below it occupy.
func onDisk(t *testing.T, dir string) (n int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err == nil {
			n += i.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	}))
	return n
}

// What a plan says of the space that a migration takes is right to 30 in a hundred, with few long queues and with many short ones, in both directions; it is found out without leaving anything behind.
func TestPlanEstimatesSpace(t *testing.T) {
	skipUnderRace(t)
	for name, shape := range map[string][3]int{"few long queues": {30000, 2, 2}, "many short queues": {4000, 4, 40}, "queues of one or two": {400, 4, 50}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			tandemmq.MustRun(t, "store", "generate", "--store", dir, "--messages", strconv.Itoa(shape[0]), "--topics", strconv.Itoa(shape[1]), "--queues", strconv.Itoa(shape[2]), "--body", "60", "--commitlog-size", strconv.Itoa(4<<20))
			check := func(to, target string) {
				t.Helper()
				before := treeSums(t, dir)
				var p migrate.Plan
				require.NoError(t, json.Unmarshal([]byte(tandemmq.MustRun(t, "migrate", "plan", "--store", dir, "--to", to, "--json").Stdout), &p))
				require.Empty(t, p.Warnings, "it was measured")
				require.Equal(t, before, treeSums(t, dir))
				leftovers, err := filepath.Glob(filepath.Join(dir, "tandemmq", "plan-*"))
				require.NoError(t, err)
				require.Empty(t, leftovers)
				tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--to", to)
				require.InEpsilon(t, onDisk(t, filepath.Join(dir, target)), p.DiskNeeded, 0.3, "to %s", to)
				require.Positive(t, p.EstimateBackfill)
				require.Positive(t, p.EstimateVerify)
				require.GreaterOrEqual(t, p.DiskPeak, p.DiskNeeded)
			}
			check("rocks", "consumequeue_rocksdb")
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "tandemmq")))
			check("file", "consumequeue")
		})
	}
}

// What room the other side of a store that is open will take is told as well, within the same bounds, and nothing is left of how it was found out.
func TestSpaceOfAnOpenStore(t *testing.T) {
	for name, shape := range map[string][3]int{"few long queues": {30000, 2, 2}, "many short queues": {4000, 4, 40}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			tandemmq.MustRun(t, "store", "generate", "--store", dir, "--messages", strconv.Itoa(shape[0]), "--topics", strconv.Itoa(shape[1]), "--queues", strconv.Itoa(shape[2]), "--body", "60")
			o := store.DefaultOptions()
			o.CleanFileForciblyEnable = false
			s, err := store.Open(dir, o)
			require.NoError(t, err)
			all := map[cq.Kind]int64{}
			for _, to := range []cq.Kind{cq.KindRocks, cq.KindFile} {
				e := migrate.NewSpaceEstimate(to, o.MappedFileSizeConsumeQueue, dir)
				keys, err := s.Queues()
				require.NoError(t, err)
				for _, k := range keys {
					b, _, err := s.Bounds(k)
					require.NoError(t, err)
					e.Add(k, b)
				}
				var peak int64
				all[to], peak, err = e.Bytes(t.Context(), func(k cq.Key, from int64, dst []cq.Unit) (int, error) {
					n, _, _, err := s.Units(k.Topic, k.QueueID, from, dst)
					return n, err
				}, func(cq.Kind) (migrate.Target, string, func() error, error) { return s.OpenScratchRocks() })
				require.NoError(t, err)
				require.GreaterOrEqual(t, peak, all[to])
			}
			require.NoError(t, s.Close())
			leftovers, err := filepath.Glob(filepath.Join(dir, "tandemmq", "plan-*"))
			require.NoError(t, err)
			require.Empty(t, leftovers)
			require.InEpsilon(t, onDisk(t, filepath.Join(dir, "consumequeue")), all[cq.KindFile], 0.3)
			tandemmq.MustRun(t, "migrate", "run", "--store", dir)
			require.InEpsilon(t, onDisk(t, filepath.Join(dir, "consumequeue_rocksdb")), all[cq.KindRocks], 0.3)
		})
	}
}
