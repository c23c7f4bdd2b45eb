//go:build cgo

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/tests/golden"
)

// without drops the parts of a store that a migration to RocksDB may write.
func without(sums map[string]string, prefixes ...string) map[string]string {
	out := map[string]string{}
next:
	for path, sum := range sums {
		for _, p := range prefixes {
			if path == p || strings.HasPrefix(path, p+"/") {
				continue next
			}
		}
		out[path] = sum
	}
	return out
}

func phase(t *testing.T, dir string) string {
	var st struct{ Phase string }
	require.NoError(t, json.Unmarshal([]byte(tandemmq.MustRun(t, "migrate", "status", "--store", dir, "--json").Stdout), &st))
	return st.Phase
}

func dump(t *testing.T, dir, side string) string {
	return tandemmq.MustRun(t, "store", "dump", "--store", dir, "--cq", side).Stdout
}

// The steps one by one, with the source untouched at each, then back.
func TestMigrateStepByStep(t *testing.T) {
	for _, layout := range []string{"separate", "shared"} {
		t.Run(layout, func(t *testing.T) {
			dir := sample(t)
			want := dump(t, dir, "file")
			before := treeSums(t, dir)
			// In the shared layout RocksDB's plain files lie in consumequeue/ itself.
			source := func() map[string]string {
				s := without(treeSums(t, dir), "consumequeue_rocksdb", "tandemmq", "config/topics", "config/subscriptionGroups", "config/consumerOffsets") // the databases, not the files
				for path := range s {
					if filepath.Dir(path) == "consumequeue" && s[path] != "dir" {
						delete(s, path)
					}
				}
				return s
			}
			step := func(args ...string) golden.Result {
				return tandemmq.MustRun(t, append([]string{"migrate", args[0], "--store", dir, "--layout", layout}, args[1:]...)...)
			}

			step("plan")
			require.Equal(t, before, treeSums(t, dir), "plan writes nothing")
			require.Equal(t, "absent", phase(t, dir))
			step("backfill")
			require.Equal(t, "verifying", phase(t, dir))
			step("verify")
			require.Equal(t, "verified", phase(t, dir))
			step("cutover")
			require.Equal(t, "verified", phase(t, dir), "without --yes nothing happens")
			r := step("cutover", "--yes")
			require.Equal(t, "cutover", phase(t, dir))
			require.Contains(t, r.Stdout, "storeType=defaultRocksDB")
			require.Contains(t, r.Stdout, "useSeparateStorePathForRocksdbCQ="+map[string]string{"separate": "true", "shared": "false"}[layout])
			require.Equal(t, before, source(), "the source was changed")
			require.Equal(t, want, dump(t, dir, "rocks"))
			require.Equal(t, want, dump(t, dir, "file"))

			done := treeSums(t, dir)
			for _, again := range [][]string{{"run", "--yes"}, {"backfill"}, {"cutover", "--yes"}} {
				r := step(again...)
				require.Contains(t, strings.ToLower(r.Stdout), "nothing to do", "FR-G10: %v", again)
			}
			require.Contains(t, step("verify").Stdout, "equal")
			require.Equal(t, done, treeSums(t, dir), "FR-G10: what is migrated already is not written again")

			tandemmq.MustRun(t, "migrate", "rollback", "--store", dir)
			require.Equal(t, "cutover", phase(t, dir))
			r = tandemmq.MustRun(t, "migrate", "rollback", "--store", dir, "--yes")
			require.Contains(t, r.Stdout, "storeType=default\n")
			require.Equal(t, "rolled-back", phase(t, dir))
			require.Equal(t, without(before, "checkpoint"), without(source(), "checkpoint"))
			require.Equal(t, want, dump(t, dir, "file"))

			// And forth again, over the database that is still there.
			tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes")
			require.Equal(t, "cutover", phase(t, dir))
			require.Equal(t, want, dump(t, dir, "rocks"))
		})
	}
}

// TestMigrateTakesTheBrokersRocksDBOptions: what is written is what the broker with that configuration would write.
func TestMigrateTakesTheBrokersRocksDBOptions(t *testing.T) {
	for _, c := range []struct{ conf, units string }{
		{"", "kLZ4Compression"},
		{"brokerName=b\nrocksdbCompressionType=snappy\n", "kSnappyCompression"},
	} {
		dir := sample(t)
		want := dump(t, dir, "file")
		args := []string{"migrate", "run", "--store", dir, "--yes"}
		if c.conf != "" {
			conf := filepath.Join(t.TempDir(), "broker.conf")
			require.NoError(t, os.WriteFile(conf, []byte(c.conf), 0o644))
			args = append(args, "--conf", conf)
		}
		tandemmq.MustRun(t, args...)
		require.Equal(t, want, dump(t, dir, "rocks"))
		paths, err := filepath.Glob(filepath.Join(dir, "consumequeue_rocksdb", "OPTIONS-*"))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		b, err := os.ReadFile(paths[len(paths)-1])
		require.NoError(t, err)
		_, units, _ := strings.Cut(string(b), `[CFOptions "default"]`)
		units, _, _ = strings.Cut(units, "[TableOptions")
		require.Contains(t, units, "  compression="+c.units+"\n")
	}
	dir, conf := sample(t), filepath.Join(t.TempDir(), "broker.conf")
	require.NoError(t, os.WriteFile(conf, []byte("rocksdbCompressionType=LZ4\n"), 0o644))
	r := tandemmq.Run(t, "migrate", "run", "--store", dir, "--yes", "--conf", conf)
	require.NotZero(t, r.Code)
	require.Contains(t, r.Stderr, "rocksdbCompressionType")
	require.NoDirExists(t, filepath.Join(dir, "consumequeue_rocksdb"))
}

func TestMigrateRocksToFile(t *testing.T) {
	dir := sample(t)
	want := dump(t, dir, "file")
	tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "tandemmq")))
	rocks := treeSums(t, filepath.Join(dir, "consumequeue_rocksdb"))

	r := tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--to", "file", "--cq-file-size", "1000", "--yes")
	require.Contains(t, r.Stdout, "mappedFileSizeConsumeQueue=1000")
	require.Equal(t, want, dump(t, dir, "file"))
	require.Equal(t, rocks, treeSums(t, filepath.Join(dir, "consumequeue_rocksdb")), "the source was changed")
	st, err := os.Stat(segment(t, queueDir(t, dir, 0, 0), 0))
	require.NoError(t, err)
	require.EqualValues(t, 1000, st.Size())

	tandemmq.MustRun(t, "migrate", "rollback", "--store", dir, "--yes")
	require.Equal(t, want, dump(t, dir, "rocks"))
}

// A cutover is refused, with the reasons, whenever it is not proven that both sides are equal now.
func TestCutoverRefused(t *testing.T) {
	skipUnderRace(t)
	refused := func(t *testing.T, dir string, code int, words ...string) {
		before := phase(t, dir)
		r := tandemmq.Run(t, "migrate", "cutover", "--store", dir, "--yes")
		require.Equal(t, code, r.Code, r.Stderr)
		for _, w := range words {
			require.Contains(t, r.Stderr, w)
		}
		require.Equal(t, before, phase(t, dir))
	}
	t.Run("nothing done", func(t *testing.T) { refused(t, sample(t), 1, "absent", "backfill") })
	t.Run("not verified", func(t *testing.T) {
		dir := sample(t)
		tandemmq.MustRun(t, "migrate", "backfill", "--store", dir)
		refused(t, dir, 1, "verifying", "run verify first")
	})
	t.Run("a unit changed since", func(t *testing.T) {
		dir := sample(t)
		tandemmq.MustRun(t, "migrate", "run", "--store", dir)
		poke(t, segment(t, queueDir(t, dir, 1, 1), 2), 12, []byte{0, 0, 0, 0, 9, 9, 9, 9})
		refused(t, dir, 3, "wrong-tags: queue sample_1/1: file side: slot 200", "consumequeue/sample_1/1/00000000000000004000+0")
	})
	t.Run("a queue came", func(t *testing.T) {
		dir := sample(t)
		tandemmq.MustRun(t, "migrate", "run", "--store", dir)
		from := queueDir(t, dir, 1, 1)
		require.NoError(t, os.CopyFS(filepath.Join(filepath.Dir(from), "7"), os.DirFS(from)))
		refused(t, dir, 3, "only-in-source", "sample_1/7")
	})
	t.Run("a queue grew", func(t *testing.T) {
		dir := sample(t)
		tandemmq.MustRun(t, "migrate", "run", "--store", dir)
		from := queueDir(t, dir, 1, 1)
		last := segment(t, from, segments(t, from)-1)
		b, err := os.ReadFile(last)
		require.NoError(t, err)
		end := bytes.Index(b, make([]byte, 20)) / 20 * 20
		poke(t, last, int64(end), b[:20])
		refused(t, dir, 3, "max-differs: queue sample_1/1")
	})
	t.Run("both sides of a queue went", func(t *testing.T) {
		dir := sample(t)
		tandemmq.MustRun(t, "migrate", "run", "--store", dir)
		require.NoError(t, os.RemoveAll(queueDir(t, dir, 1, 1)))
		r, err := rocks.Open(filepath.Join(dir, "consumequeue_rocksdb"), rocks.Options{})
		require.NoError(t, err)
		require.NoError(t, r.DropQueue(t.Context(), cq.Key{Topic: "sample_1", QueueID: 1}))
		require.NoError(t, r.Flush(t.Context()))
		require.NoError(t, r.Close())
		refused(t, dir, 1, "the number of queues was 6 when verified and is 5 now", "queue sample_1/1 is gone")
	})
	certificate := func(t *testing.T, change func(lines []string) []string) string {
		dir := sample(t)
		tandemmq.MustRun(t, "migrate", "run", "--store", dir)
		path := filepath.Join(dir, "tandemmq", "certificate.jsonl")
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		lines := change(strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n"))
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
		return dir
	}
	t.Run("the certificate lacks a queue", func(t *testing.T) {
		dir := certificate(t, func(l []string) []string { return l[:len(l)-1] })
		refused(t, dir, 1, "certificate.jsonl", "it was changed", "verify again")
	})
	t.Run("the certificate is of an earlier build", func(t *testing.T) {
		dir := certificate(t, func(l []string) []string { return l[1:] })
		refused(t, dir, 1, "does not say what was compared", "verify again")
	})
	t.Run("the certificate went", func(t *testing.T) {
		dir := sample(t)
		tandemmq.MustRun(t, "migrate", "run", "--store", dir)
		require.NoError(t, os.Remove(filepath.Join(dir, "tandemmq", "certificate.jsonl")))
		refused(t, dir, 1, "certificate.jsonl", "verify again")
	})
	t.Run("a queue went", func(t *testing.T) {
		dir := sample(t)
		tandemmq.MustRun(t, "migrate", "run", "--store", dir)
		require.NoError(t, os.RemoveAll(queueDir(t, dir, 1, 1)))
		refused(t, dir, 3, "only-in-target")
	})
	t.Run("the target went", func(t *testing.T) {
		dir := sample(t)
		tandemmq.MustRun(t, "migrate", "run", "--store", dir)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue_rocksdb")))
		refused(t, dir, 1, "rocks side is gone")
	})
	t.Run("the certificate is of another state", func(t *testing.T) {
		dir := sample(t)
		tandemmq.MustRun(t, "migrate", "run", "--store", dir)
		state := filepath.Join(dir, "tandemmq", "migration.json")
		b, err := os.ReadFile(state)
		require.NoError(t, err)
		at := strings.Index(string(b), `"digest": "`) + len(`"digest": "`)
		b[at] ^= 1
		require.NoError(t, os.WriteFile(state, b, 0o600))
		refused(t, dir, 1, "verify again")
	})
}

// The side that was left is written once more after the cutover, by a broker started with the old broker.conf: no step
// says that all is well, and rollback and run lead out of it.
func TestSourceWrittenAfterCutover(t *testing.T) {
	dir := sample(t)
	tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes")
	later := filepath.Join(t.TempDir(), "later") // the same messages, and 500 more
	tandemmq.MustRun(t, append([]string{"store", "generate", "--store", later, "--messages", "3500"}, sampleFlags...)...)
	for _, d := range []string{"commitlog", "consumequeue"} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, d)))
		require.NoError(t, os.Rename(filepath.Join(later, d), filepath.Join(dir, d)))
	}
	want := dump(t, dir, "file")
	before := treeSums(t, dir)
	for _, args := range [][]string{{"run", "--yes"}, {"backfill"}, {"verify"}, {"cutover", "--yes"}} {
		r := tandemmq.Run(t, append([]string{"migrate", args[0], "--store", dir}, args[1:]...)...)
		require.Equal(t, 3, r.Code, "%v: %s%s", args, r.Stdout, r.Stderr)
		require.Regexp(t, "max-differs|source-behind", r.Stderr, "%v", args)
		require.Contains(t, r.Stderr, "migrate rollback, then migrate run", "%v", args)
	}
	require.Equal(t, before, treeSums(t, dir))
	tandemmq.MustRun(t, "migrate", "rollback", "--store", dir, "--yes")
	require.Equal(t, want, dump(t, dir, "file"))
	tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes")
	require.Equal(t, want, dump(t, dir, "rocks"))
}

// A store that grew between the steps: backfill goes on from where it was, and what was verified is verified again.
func TestSourceWrittenBeforeCutover(t *testing.T) {
	dir := sample(t)
	tandemmq.MustRun(t, "migrate", "run", "--store", dir)
	later := filepath.Join(t.TempDir(), "later")
	tandemmq.MustRun(t, append([]string{"store", "generate", "--store", later, "--messages", "3500"}, sampleFlags...)...)
	for _, d := range []string{"commitlog", "consumequeue"} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, d)))
		require.NoError(t, os.Rename(filepath.Join(later, d), filepath.Join(dir, d)))
	}
	for _, step := range []string{"verify", "cutover"} {
		r := tandemmq.Run(t, "migrate", step, "--store", dir)
		require.Equal(t, 1, r.Code, r.Stderr)
		require.Contains(t, r.Stderr, "run backfill again")
	}
	var b struct{ Units, ResumedFrom int64 }
	require.NoError(t, json.Unmarshal([]byte(tandemmq.MustRun(t, "migrate", "backfill", "--store", dir, "--json").Stdout), &b))
	require.EqualValues(t, 500, b.Units, "only what is new")
	require.Positive(t, b.ResumedFrom)
	require.Equal(t, 1, tandemmq.Run(t, "migrate", "cutover", "--store", dir, "--yes").Code)
	tandemmq.MustRun(t, "migrate", "verify", "--store", dir)
	tandemmq.MustRun(t, "migrate", "cutover", "--store", dir, "--yes")
	require.Equal(t, dump(t, dir, "file"), dump(t, dir, "rocks"))
}

// What each level compares, and what it leaves to the next.
func TestVerifyLevels(t *testing.T) {
	dir := sample(t)
	tandemmq.MustRun(t, "migrate", "backfill", "--store", dir)
	certificate := filepath.Join(dir, "tandemmq", "certificate.jsonl")
	r := tandemmq.MustRun(t, "migrate", "verify", "--store", dir, "--level", "counts")
	require.Contains(t, r.Stdout, "of 6 queues are equal")
	require.NoFileExists(t, certificate)
	require.Equal(t, "verifying", phase(t, dir))
	for _, tc := range []struct {
		level    string
		samples  int64
		searches int64
	}{{"units", 3000, 0}, {"records", 3000, 0}, {"time", 3000, 180}, {"all", 3000, 180}} {
		var v migrate.VerifyResult
		require.NoError(t, json.Unmarshal([]byte(tandemmq.MustRun(t, "migrate", "verify", "--store", dir, "--level", tc.level, "--json").Stdout), &v))
		require.EqualValues(t, tc.level, v.Level)
		require.EqualValues(t, 3000, v.Units)
		require.Equal(t, tc.samples, v.Samples, tc.level)
		require.Equal(t, tc.searches, v.Searches, tc.level)
		b, err := os.ReadFile(certificate)
		require.NoError(t, err)
		var c migrate.Certificate
		first, _, _ := strings.Cut(string(b), "\n")
		require.NoError(t, json.Unmarshal([]byte(first), &c))
		require.Equal(t, migrate.Certificate{
			Version: 1, From: "file", To: "rocks", Level: v.Level, Samples: v.Samples, Actor: c.Actor, Fingerprint: v.Fingerprint,
		}, c)
		require.NotEmpty(t, c.Actor)
	}
	require.Equal(t, 2, tandemmq.Run(t, "migrate", "verify", "--store", dir, "--level", "most").Code)

	key, slot := cq.Key{Topic: "sample_1", QueueID: 1}, int64(0)
	change := func(do func(u *cq.Unit)) {
		s, err := rocks.Open(filepath.Join(dir, "consumequeue_rocksdb"), rocks.Options{})
		require.NoError(t, err)
		q, _ := s.Queue(key)
		b, err := q.Bounds()
		require.NoError(t, err)
		slot = (b.Max - 1) / 4 // its time is searched for, and its record is not sampled
		var u [1]cq.Unit
		_, err = q.Read(slot, u[:])
		require.NoError(t, err)
		do(&u[0])
		require.NoError(t, s.Import(t.Context(), []cq.Run{{Key: key, From: slot, Units: u[:]}}))
		require.NoError(t, s.Close())
	}
	verdict := func(level string) (code int, out string) {
		r := tandemmq.Run(t, "migrate", "verify", "--store", dir, "--level", level, "--samples", "1")
		return r.Code, r.Stderr
	}
	change(func(u *cq.Unit) { u.StoreTimestampMs -= 100 }) // files keep no times to compare with
	for level, want := range map[string]string{
		"counts": "", "units": "", "time": "time-search: queue sample_1/1",
		"records": fmt.Sprintf("wrong-time: queue sample_1/1: rocks side: slot %d", slot), "all": fmt.Sprintf("wrong-time: queue sample_1/1: rocks side: slot %d", slot),
	} {
		code, out := verdict(level)
		if want == "" {
			require.Zero(t, code, level)
			continue
		}
		require.Equal(t, 3, code, level)
		require.Contains(t, out, want)
	}
	change(func(u *cq.Unit) { u.StoreTimestampMs += 100; u.TagsCode++ })
	for level, want := range map[string]int{"counts": 0, "units": 3} {
		code, out := verdict(level)
		require.Equal(t, want, code, out)
	}
}

// A damaged target is found by verify, exit code 3, and mended by a new backfill.
func TestVerifyFindsDifference(t *testing.T) {
	dir := sample(t)
	want := dump(t, dir, "file")
	tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes")
	tandemmq.MustRun(t, "migrate", "rollback", "--store", dir, "--yes")
	tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--to", "rocks")
	require.Equal(t, "verified", phase(t, dir))
	// The source is what an operator can damage from outside; the comparison sees a difference, whoever is wrong.
	path := segment(t, queueDir(t, dir, 0, 0), 3)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	poke(t, path, 8, []byte{0, 0, 0, 99})
	r := tandemmq.Run(t, "migrate", "verify", "--store", dir)
	require.Equal(t, 3, r.Code, r.Stderr)
	require.Contains(t, r.Stderr, "wrong-size: queue sample_0/0: file side: slot 300")
	require.Equal(t, "diverged", phase(t, dir))
	require.Equal(t, 1, tandemmq.Run(t, "migrate", "cutover", "--store", dir, "--yes").Code)

	require.NoError(t, os.WriteFile(path, b, 0o600))
	tandemmq.MustRun(t, "migrate", "run", "--store", dir, "--yes")
	require.Equal(t, want, dump(t, dir, "rocks"))
}

// A tags code in the range of the addresses of extension units is a wrong one in a store that has no extension files: on either side each level that compares units finds it, the check does,
// and repair heals it.
func TestTagsInRangeOfExtAddresses(t *testing.T) {
	dir := sample(t)
	tandemmq.MustRun(t, "migrate", "run", "--store", dir)
	s := newSurgeon(t, dir, 1)
	k := s.keys[0]
	for _, side := range []cq.Kind{cq.KindFile, cq.KindRocks} {
		for i, tags := range []int64{math.MinInt64, math.MinInt32 - 1, -1 << 40} {
			slot := int64(150 + i)
			u := s.units[k][slot]
			u.TagsCode = tags
			s.put(side, k, slot, u)
			for _, level := range []string{"units", "all"} {
				r := tandemmq.Run(t, "migrate", "verify", "--store", dir, "--level", level)
				require.Equal(t, 3, r.Code, "%s side, %d: %s", side, tags, r.Stderr)
				require.Contains(t, r.Stderr, fmt.Sprintf("wrong-tags: queue %s: %s side: slot %d", k, side, slot))
			}
			r := tandemmq.Run(t, "store", "check", "--store", dir, "--deep", "--kind", "both")
			require.Equal(t, 3, r.Code, "%s side, %d: %s", side, tags, r.Stdout)
			require.Contains(t, r.Stdout, "wrong-tags")
			tandemmq.MustRun(t, "migrate", "repair", "--store", dir)
			tandemmq.MustRun(t, "migrate", "verify", "--store", dir, "--level", "all")
		}
	}
}

// What the target holds and the source does not is never dropped unasked.
func TestTargetHoldsMore(t *testing.T) {
	dir := sample(t)
	tandemmq.MustRun(t, "migrate", "run", "--store", dir)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "tandemmq")))
	extra := filepath.Join(dir, "consumequeue", "gone")
	require.NoError(t, os.Rename(filepath.Dir(queueDir(t, dir, 0, 0)), extra)) // its records stay in the log
	before := treeSums(t, dir)
	r := tandemmq.Run(t, "migrate", "backfill", "--store", dir, "--missing-queues", "skip")
	require.Equal(t, 3, r.Code, r.Stderr)
	require.Equal(t, before, treeSums(t, dir))
}

func TestUsage(t *testing.T) {
	dir := sample(t)
	for _, args := range [][]string{
		{"migrate", "run"},
		{"migrate", "run", "--store", dir, "--to", "disk"},
		{"migrate", "run", "--store", dir, "--layout", "other"},
		{"migrate", "run", "--store", dir, "--missing-queues", "perhaps"},
		{"migrate", "run", "--store", dir, "--cq-file-size", "7"},
		{"migrate", "run", "--store", dir, "--no-such-flag"},
		{"migrate", "nothing", "--store", dir},
		{"store", "dump", "--store", dir, "--cq", "paper"},
	} {
		r := tandemmq.Run(t, args...)
		require.Equal(t, 2, r.Code, "%v: %s", args, r.Stderr)
		require.NotEmpty(t, r.Stderr)
	}
	r := tandemmq.Run(t, "migrate", "plan", "--store", filepath.Join(dir, "nowhere"))
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, "nowhere")
}

// --json prints one document and nothing else, whatever the step.
func TestJSON(t *testing.T) {
	dir := sample(t)
	for _, args := range [][]string{{"plan"}, {"backfill"}, {"verify"}, {"cutover"}, {"run", "--yes"}, {"status"}, {"rollback", "--yes"}} {
		r := tandemmq.MustRun(t, append([]string{"migrate", args[0], "--store", dir, "--json"}, args[1:]...)...)
		require.True(t, json.Valid([]byte(r.Stdout)), "%v: %s", args, r.Stdout)
		require.Empty(t, r.Stderr, "%v", args)
	}
	t.Run("errors too", func(t *testing.T) {
		dir := sample(t)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), nil, 0o600))
		r := tandemmq.Run(t, "migrate", "plan", "--store", dir, "--json")
		require.Equal(t, 1, r.Code)
		require.True(t, json.Valid([]byte(r.Stdout)), r.Stdout)
		require.Contains(t, r.Stdout, "recover first")
	})
}
