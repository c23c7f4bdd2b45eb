//go:build cgo

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/golden"
)

// checkStore runs `store check --json` and returns each finding in short, and the summary.
func checkStore(t *testing.T, dir string, flags ...string) (code int, found []string, sum store.CheckReport) {
	t.Helper()
	r := tandemmq.Run(t, append([]string{"store", "check", "--store", dir, "--json", "--limit", "100000"}, flags...)...)
	found = []string{}
	for line := range strings.Lines(r.Stdout) {
		var f struct {
			T string `json:"t"`
			store.CheckFinding
		}
		require.NoError(t, json.Unmarshal([]byte(line), &f), "%s\n%s", line, r.Stderr)
		if f.T == "summary" {
			require.NoError(t, json.Unmarshal([]byte(line), &sum))
			continue
		}
		require.Equal(t, "finding", f.T)
		if f.Side == "rocks" && f.QueueOffset >= 0 {
			require.Equal(t, fmt.Sprintf("unit %s/%d slot %d", f.Topic, f.QueueID, f.QueueOffset), f.Row)
			require.FileExists(t, filepath.Join(f.File, "CURRENT"))
		}
		text := fmt.Sprintf("%s %s %s", f.Severity, f.Code, f.Side)
		if f.Topic != "" {
			text += fmt.Sprintf(" %s/%d", f.Topic, f.QueueID)
		}
		if f.QueueOffset >= 0 {
			text += fmt.Sprintf(" slot %d", f.QueueOffset)
		}
		found = append(found, text)
	}
	require.Equal(t, sum.Sound, r.Code == 0, "%s", r.Stderr)
	return r.Code, found, sum
}

// stamps are digests, times and modes of everything below a store.
func stamps(t *testing.T, root string) map[string]string {
	t.Helper()
	sums := treeSums(t, root)
	for rel := range sums {
		st, err := os.Lstat(filepath.Join(root, rel))
		require.NoError(t, err)
		sums[rel] += fmt.Sprintf(" %s %d %d", st.Mode(), st.Size(), st.ModTime().UnixNano())
	}
	return sums
}

// What RocketMQ left is sound, and a check changes neither a byte nor a time of it.
func TestCheckGoldenStores(t *testing.T) {
	for _, name := range golden.Names() {
		t.Run(name, func(t *testing.T) {
			dir := golden.Unpack(t, name)
			before := stamps(t, dir)
			for _, flags := range [][]string{nil, {"--deep"}, {"--deep", "--workers", "1"}} {
				code, found, sum := checkStore(t, dir, flags...)
				require.Zero(t, code, found)
				if name == "combine-upgrade" { // its RocksDB was filled from the day it was switched on (F14)
					for _, f := range found {
						require.Contains(t, f, "warning begins-later rocks")
					}
				} else {
					require.Zero(t, sum.Warnings, found)
				}
				require.Equal(t, before, stamps(t, dir))
				if flags != nil {
					require.Equal(t, sum.Units, sum.Proven)
				}
			}
		})
	}
	// Of the two sides of this store one began later: alone it lacks what was before.
	dir := golden.Unpack(t, "combine-upgrade")
	code, _, sum := checkStore(t, dir, "--deep", "--kind", "file")
	require.Zero(t, code)
	require.Contains(t, sum.NotChecked, "the rocks queues")
	code, found, _ := checkStore(t, dir, "--deep", "--kind", "rocks")
	require.Equal(t, 3, code)
	for _, f := range found {
		require.Contains(t, f, "error below-min log")
	}
}

// rocksOf opens the database of a store for writing, calls fn and closes it.
func rocksOf(t *testing.T, dir string, fn func(s *rocks.Store)) {
	t.Helper()
	s, err := rocks.Open(filepath.Join(dir, "consumequeue"), rocks.Options{})
	require.NoError(t, err)
	fn(s)
	require.NoError(t, s.Close())
}

// One side of a store is broken: FRI-5, and where the log decides, the side that is wrong.
func TestCheckBothSides(t *testing.T) {
	k := cq.Key{Topic: "peer_14_0", QueueID: 1}
	queue := fmt.Sprintf("%s/%d", k.Topic, k.QueueID)
	fileUnit := func(dir string, slot int64) (string, int64) {
		return filepath.Join(dir, "consumequeue", k.Topic, strconv.Itoa(int(k.QueueID)), "00000000000000000000"), slot * 20
	}
	units := func(t *testing.T, s *rocks.Store, from int64, n int) []cq.Unit {
		q, ok := s.Queue(k)
		require.True(t, ok)
		u := make([]cq.Unit, n)
		got, err := q.Read(from, u)
		require.NoError(t, err)
		require.Equal(t, n, got)
		return u
	}
	bounds := func(t *testing.T, s *rocks.Store) cq.Bounds {
		q, _ := s.Queue(k)
		b, err := q.Bounds()
		require.NoError(t, err)
		return b
	}
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, dir string) (want []string)
		code   int
	}{
		{"swapped file units", func(t *testing.T, dir string) []string {
			path, at := fileUnit(dir, 6)
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			poke(t, path, at, append(append([]byte{}, b[at+20:at+40]...), b[at:at+20]...))
			return []string{
				"error other-slot file " + queue + " slot 6", "error other-slot file " + queue + " slot 7",
				"error unit-differs both " + queue + " slot 6", "error unit-differs both " + queue + " slot 7",
			}
		}, 3},
		{"a RocksDB row of another record", func(t *testing.T, dir string) []string {
			rocksOf(t, dir, func(s *rocks.Store) {
				require.NoError(t, s.Import(t.Context(), []cq.Run{{Key: k, From: 6, Units: units(t, s, 8, 1)}}))
			})
			return []string{"error other-slot rocks " + queue + " slot 6", "error unit-differs both " + queue + " slot 6"}
		}, 3},
		{"a RocksDB row with the wrong time", func(t *testing.T, dir string) []string {
			rocksOf(t, dir, func(s *rocks.Store) {
				u := units(t, s, 6, 1)
				u[0].StoreTimestampMs++
				require.NoError(t, s.Import(t.Context(), []cq.Run{{Key: k, From: 6, Units: u}}))
			})
			return []string{"error wrong-time rocks " + queue + " slot 6"}
		}, 3},
		{"a lost file queue", func(t *testing.T, dir string) []string {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue", k.Topic, strconv.Itoa(int(k.QueueID)))))
			return []string{"error one-sided file " + queue}
		}, 3},
		{"a lost RocksDB queue", func(t *testing.T, dir string) []string {
			rocksOf(t, dir, func(s *rocks.Store) { require.NoError(t, s.DropQueue(t.Context(), k)) })
			return []string{"warning one-sided rocks " + queue}
		}, 0},
		{"a file queue that ends earlier", func(t *testing.T, dir string) []string {
			var last int64
			rocksOf(t, dir, func(s *rocks.Store) { last = bounds(t, s).Max - 1 })
			path, at := fileUnit(dir, last)
			poke(t, path, at, make([]byte, 20))
			return []string{"error next-offset file " + queue, "error max-differs both " + queue}
		}, 3},
		{"a RocksDB min row that hides units", func(t *testing.T, dir string) []string {
			rocksOf(t, dir, func(s *rocks.Store) {
				b, u := bounds(t, s), units(t, s, 3, 1)
				require.NoError(t, s.Publish(t.Context(), []cq.QueueEnd{{
					Key: k, Min: 3, MinPhyOffset: u[0].PhyOffset, Max: b.Max, LastPhyOffset: b.LastPhyOffset,
				}}, s.DispatchFrom()))
			})
			return []string{"error min-inexact rocks " + queue + " slot 2", "warning begins-later rocks " + queue}
		}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := golden.Unpack(t, "combine-normal")
			want := tc.damage(t, dir)
			code, found, _ := checkStore(t, dir, "--deep")
			require.Equal(t, want, found)
			require.Equal(t, tc.code, code)
		})
	}
}

// A RocksDB queue that is gone, in a store that has no other side.
func TestCheckLostRocksQueue(t *testing.T) {
	dir := golden.Unpack(t, "rocks-lmq")
	var k cq.Key
	var n int64
	rocksOf(t, dir, func(s *rocks.Store) {
		for key, err := range s.Queues() {
			require.NoError(t, err)
			if key.IsLMQ() && (k.Topic == "" || key.Compare(k) < 0) {
				k = key
			}
		}
		q, _ := s.Queue(k)
		b, err := q.Bounds()
		require.NoError(t, err)
		n = b.Max
		require.NoError(t, s.DropQueue(t.Context(), k))
	})
	code, found, _ := checkStore(t, dir, "--deep")
	require.Equal(t, 3, code)
	require.Len(t, found, int(n))
	for slot, f := range found {
		require.Equal(t, fmt.Sprintf("error missing-queue log %s slot %d", k, slot), f)
	}
}

// The command as a person sees it.
func TestCheckCommand(t *testing.T) {
	dir := sample(t)
	r := tandemmq.MustRun(t, "store", "check", "--store", dir, "--deep")
	out := r.Stdout
	require.Contains(t, out, "units       3,000, of them proven 3,000\n")
	require.True(t, strings.HasSuffix(out, "Result: sound\n"), out)
	require.Contains(t, r.Stderr, "log: ")

	path := segment(t, queueDir(t, dir, 0, 1), 1)
	poke(t, path, 40, make([]byte, 20))
	for _, flags := range [][]string{{"--deep"}, {"--deep", "--quiet"}} {
		r = tandemmq.Run(t, append([]string{"store", "check", "--store", dir}, flags...)...)
		require.Equal(t, 3, r.Code)
		require.Contains(t, r.Stdout, "error FRI-1 hole: queue sample_0/1: slot 102 holds no unit, and the queue runs from 0 to 496 ["+path+"+40]\n")
		require.True(t, strings.HasSuffix(r.Stdout, "Result: NOT SOUND\n"))
		require.Contains(t, r.Stderr, "tandemmq: store "+dir+" is not sound: 1 error\n")
		require.Equal(t, len(flags) == 1, strings.Contains(r.Stderr, "log: "), "progress")
	}
	require.Equal(t, 1, tandemmq.Run(t, "store", "check", "--store", filepath.Join(dir, "none")).Code)
	require.Equal(t, 2, tandemmq.Run(t, "store", "check", "--store", dir, "--kind", "tape").Code)
}

// After a migration the side that reads belong to is checked, and both when asked for.
func TestCheckAfterMigration(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	tandemmq.MustRun(t, append([]string{"store", "generate", "--store", dir, "--messages", "2000", "--lmq", "7", "--delayed", "--transactions"}, sampleFlags...)...)
	tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes")
	for _, tc := range []struct {
		flags []string
		sides []string
	}{
		{nil, []string{"rocks"}},
		{[]string{"--kind", "file"}, []string{"file"}},
		{[]string{"--kind", "both"}, []string{"file", "rocks"}},
	} {
		code, found, sum := checkStore(t, dir, append(tc.flags, "--deep")...)
		require.Zero(t, code)
		require.Empty(t, found)
		require.Equal(t, tc.sides, sum.Sides)
		require.Equal(t, sum.Units, sum.Proven)
	}
}
