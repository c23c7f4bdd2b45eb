//go:build cgo

package e2e

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
	rowstore "github.com/tandemq/tandemmq/internal/rocks"
	"github.com/tandemq/tandemmq/internal/testenv"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/tests/golden"
)

// hurt is one thing that is wrong with a queue on one side.
type hurt struct {
	code  migrate.Code
	side  cq.Kind
	key   cq.Key
	slot  int64
	slots int64 // 0: one
}

func (h hurt) String() string {
	return fmt.Sprintf("%s %s %s %d+%d", h.code, h.side, h.key, h.slot, h.slots)
}

// surgeon hurts queues of a store that has both sides.
type surgeon struct {
	t     *testing.T
	dir   string
	rng   *rand.Rand
	units map[cq.Key][]cq.Unit // as they are right
	keys  []cq.Key             // of queues that are whole
	done  []hurt
}

const hurtRocksDir = "consumequeue_rocksdb"

// newSurgeon reads what is right from the RocksDB side, from slot 0 on.
func newSurgeon(t *testing.T, dir string, seed uint64) *surgeon {
	s := &surgeon{t: t, dir: dir, rng: rand.New(rand.NewPCG(seed, 9)), units: map[cq.Key][]cq.Unit{}}
	s.rocks(func(r *rocks.Store) {
		keys, err := cq.SortedKeys(r)
		require.NoError(t, err)
		for _, k := range keys {
			q, _ := r.Queue(k)
			b, err := q.Bounds()
			require.NoError(t, err)
			u := make([]cq.Unit, b.Max)
			n, err := q.Read(0, u)
			require.NoError(t, err)
			require.EqualValues(t, b.Max, n)
			s.units[k] = u
		}
		s.keys = keys
	})
	s.rng.Shuffle(len(s.keys), func(i, j int) { s.keys[i], s.keys[j] = s.keys[j], s.keys[i] })
	return s
}

func (s *surgeon) rocks(fn func(r *rocks.Store)) {
	s.t.Helper()
	r, err := rocks.Open(filepath.Join(s.dir, hurtRocksDir), rocks.Options{})
	require.NoError(s.t, err)
	fn(r)
	require.NoError(s.t, r.Flush(s.t.Context()))
	require.NoError(s.t, r.Close())
}

// put writes a unit over a slot.
func (s *surgeon) put(side cq.Kind, k cq.Key, slot int64, u cq.Unit) {
	s.t.Helper()
	if side == cq.KindRocks {
		s.rocks(func(r *rocks.Store) {
			require.NoError(s.t, r.Import(s.t.Context(), []cq.Run{{Key: k, From: slot, Units: []cq.Unit{u}}}))
			require.NoError(s.t, r.Publish(s.t.Context(), nil, -1))
		})
		return
	}
	var b [20]byte
	binary.BigEndian.PutUint64(b[:], uint64(u.PhyOffset))
	binary.BigEndian.PutUint32(b[8:], uint32(u.Size))
	binary.BigEndian.PutUint64(b[12:], uint64(u.TagsCode))
	if _, err := os.Stat(s.fileOf(k, slot)); err != nil {
		require.NoError(s.t, os.WriteFile(s.fileOf(k, slot), make([]byte, sampleCQSize), 0o644))
	}
	poke(s.t, s.fileOf(k, slot), slot%(sampleCQSize/20)*20, b[:])
}

func (s *surgeon) fileOf(k cq.Key, slot int64) string {
	return filepath.Join(s.dir, "consumequeue", k.Topic, fmt.Sprint(k.QueueID), fmt.Sprintf("%020d", slot*20/sampleCQSize*sampleCQSize))
}

// deleteRow deletes the row of a slot.
func (s *surgeon) deleteRow(k cq.Key, slot int64) {
	s.t.Helper()
	db, err := rowstore.Open(filepath.Join(s.dir, hurtRocksDir), rowstore.MigrationOptions())
	require.NoError(s.t, err)
	key := binary.BigEndian.AppendUint32(nil, uint32(len(k.Topic)))
	key = append(append(append(key, 1), k.Topic...), 1)
	key = append(binary.BigEndian.AppendUint32(key, uint32(k.QueueID)), 1)
	key = binary.BigEndian.AppendUint64(key, uint64(slot))
	b := db.NewBatch()
	b.Delete(rowstore.Units, key)
	require.NoError(s.t, db.Write(b, false))
	require.NoError(s.t, db.Flush())
	require.NoError(s.t, db.Close())
}

// next takes a queue that is still whole, and any slot of it.
func (s *surgeon) next() (k cq.Key, n, slot int64) {
	k, s.keys = s.keys[0], s.keys[1:]
	n = int64(len(s.units[k]))
	return k, n, s.rng.Int64N(n)
}

func (s *surgeon) note(code migrate.Code, side cq.Kind, k cq.Key, slot, slots int64) {
	if slots == 1 {
		slots = 0
	}
	s.done = append(s.done, hurt{code, side, k, slot, slots})
}

// changes are the ways to hurt a queue by one unit.
func (s *surgeon) changes(side cq.Kind) {
	for _, c := range []struct {
		code   migrate.Code
		change func(k cq.Key, slot int64, u *cq.Unit)
	}{
		{migrate.CodeWrongSize, func(_ cq.Key, _ int64, u *cq.Unit) { u.Size += 1 + s.rng.Int32N(100) }},
		{migrate.CodeWrongTags, func(_ cq.Key, _ int64, u *cq.Unit) { u.TagsCode ^= 1 << s.rng.IntN(31) }},
		{migrate.CodeUnitOutsideLog, func(_ cq.Key, _ int64, u *cq.Unit) { u.PhyOffset = 1<<40 + s.rng.Int64N(1<<30) }},
		{migrate.CodeWrongPosition, func(k cq.Key, slot int64, u *cq.Unit) { // of the same queue
			*u = s.units[k][(slot+1+s.rng.Int64N(int64(len(s.units[k]))-1))%int64(len(s.units[k]))]
		}},
		{migrate.CodeWrongPosition, func(_ cq.Key, slot int64, u *cq.Unit) { *u = s.units[s.keys[0]][slot%int64(len(s.units[s.keys[0]]))] }},
		{migrate.CodeWrongPosition, func(_ cq.Key, _ int64, u *cq.Unit) { u.PhyOffset += 1 + s.rng.Int64N(20) }}, // of no record
		{migrate.CodeWrongTime, func(_ cq.Key, _ int64, u *cq.Unit) { u.StoreTimestampMs += 1 - 2*s.rng.Int64N(2) }},
		{migrate.CodeWrongTags, func(_ cq.Key, _ int64, u *cq.Unit) { u.TagsCode = math.MinInt64 }}, // the address of an extension unit, and there is none
		{migrate.CodeWrongTags, func(_ cq.Key, _ int64, u *cq.Unit) { u.TagsCode = math.MinInt32 - 1 }},
		{migrate.CodeWrongTags, func(_ cq.Key, _ int64, u *cq.Unit) { u.TagsCode = -1 << 40 }},
	} {
		if c.code == migrate.CodeWrongTime && side == cq.KindFile {
			continue // files keep none
		}
		k, n, slot := s.next()
		if c.code == migrate.CodeUnitOutsideLog && slot == n-1 { // at the end it may be the log that is short
			slot--
		}
		u := s.units[k][slot]
		c.change(k, slot, &u)
		s.put(side, k, slot, u)
		s.note(c.code, side, k, slot, 0)
	}
}

// files hurts what only files have.
func (s *surgeon) files() {
	const perFile = sampleCQSize / 20
	k, n, _ := s.next()
	slot := s.rng.Int64N(n - 1)
	s.put(cq.KindFile, k, slot, cq.Unit{})
	s.note(migrate.CodeHole, cq.KindFile, k, slot, 0)

	k, n, _ = s.next() // its last units are gone
	tail := 1 + s.rng.Int64N(n%perFile+perFile)
	for at := n - tail; at < n; at++ {
		s.put(cq.KindFile, k, at, cq.Unit{})
	}
	s.note(migrate.CodeMissingUnits, cq.KindFile, k, n-tail, tail)

	k, _, _ = s.next() // its first file is gone
	require.NoError(s.t, os.Remove(s.fileOf(k, 0)))
	s.note(migrate.CodeMissingUnits, cq.KindFile, k, 0, perFile)

	k, n, _ = s.next() // a file in the middle is gone, and what is left is no queue
	require.NoError(s.t, os.Remove(s.fileOf(k, perFile)))
	s.note(migrate.CodeMissingUnits, cq.KindFile, k, 0, n)

	k, n, _ = s.next() // the queue is gone
	require.NoError(s.t, os.RemoveAll(filepath.Dir(s.fileOf(k, 0))))
	s.note(migrate.CodeMissingQueue, cq.KindFile, k, 0, n)

	s.tails(cq.KindFile)

	from, n, _ := s.next() // a queue of nobody's records
	extra := cq.Key{Topic: "no_such_topic", QueueID: from.QueueID}
	require.NoError(s.t, os.CopyFS(filepath.Dir(s.fileOf(extra, 0)), os.DirFS(filepath.Dir(s.fileOf(from, 0)))))
	s.note(migrate.CodeExtraQueue, cq.KindFile, extra, 0, n)
}

// tails puts units behind the end of a queue that lead to records of another one.
func (s *surgeon) tails(side cq.Kind) {
	k, n, _ := s.next()
	other := s.units[s.keys[0]]
	count := 1 + s.rng.Int64N(20)
	for i := range count {
		s.put(side, k, n+i, other[int64(len(other))-count+i])
	}
	if side == cq.KindRocks {
		s.reinit(k, 0, n+count, other[len(other)-1].PhyOffset)
	}
	s.note(migrate.CodeDirtyTail, side, k, n, count)
}

// database hurts what only RocksDB has.
func (s *surgeon) database() {
	k, n, _ := s.next()
	slot := 1 + s.rng.Int64N(n-1)
	s.deleteRow(k, slot)
	s.note(migrate.CodeHole, cq.KindRocks, k, slot, 0)

	k, n, slot = s.next() // a truncation that went too far (F3), and left the units (F30)
	slot = max(slot, 1)
	s.reinit(k, 0, slot, s.units[k][slot-1].PhyOffset)
	s.note(migrate.CodeMissingUnits, cq.KindRocks, k, slot, n-slot)
	s.note(migrate.CodeDirtyRows, cq.KindRocks, k, slot, 0)

	k, n, slot = s.next() // units of an earlier end, behind this one
	s.put(cq.KindRocks, k, n+3, s.units[k][slot])
	s.note(migrate.CodeDirtyRows, cq.KindRocks, k, n+3, 0)

	k, n, _ = s.next() // begun anew where the other side ends (F16): the units are there, and hidden
	s.reinit(k, n, n, s.units[k][n-1].PhyOffset)
	s.note(migrate.CodeHiddenUnits, cq.KindRocks, k, 0, n)

	k, n, slot = s.next() // without history (F14)
	slot = max(slot, 1)
	s.rocks(func(r *rocks.Store) { require.NoError(s.t, r.DropQueue(s.t.Context(), k)) })
	s.rocks(func(r *rocks.Store) {
		require.NoError(s.t, r.Import(s.t.Context(), []cq.Run{{Key: k, From: slot, Units: s.units[k][slot:]}}))
		require.NoError(s.t, r.Publish(s.t.Context(), []cq.QueueEnd{{Key: k, Min: slot, MinPhyOffset: s.units[k][slot].PhyOffset, Max: n, LastPhyOffset: s.units[k][n-1].PhyOffset}}, -1))
	})
	s.note(migrate.CodeMissingUnits, cq.KindRocks, k, 0, slot)

	k, n, _ = s.next()
	s.rocks(func(r *rocks.Store) { require.NoError(s.t, r.DropQueue(s.t.Context(), k)) })
	s.note(migrate.CodeMissingQueue, cq.KindRocks, k, 0, n)

	s.tails(cq.KindRocks)
}

// reinit writes the rows of a queue's ends and leaves its units alone.
func (s *surgeon) reinit(k cq.Key, minSlot, maxSlot, lastPhy int64) {
	s.t.Helper()
	db, err := rowstore.Open(filepath.Join(s.dir, hurtRocksDir), rowstore.MigrationOptions())
	require.NoError(s.t, err)
	b := db.NewBatch()
	for tag, v := range map[string][2]int64{"max": {lastPhy, maxSlot - 1}, "min": {0, minSlot}} {
		key := binary.BigEndian.AppendUint32(nil, uint32(len(k.Topic)))
		key = append(append(append(key, 1), k.Topic...), 1)
		key = append(append(key, tag...), 1)
		key = binary.BigEndian.AppendUint32(key, uint32(k.QueueID))
		b.Put(rowstore.Offsets, key, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(v[0])), uint64(v[1])))
	}
	require.NoError(s.t, db.Write(b, false))
	require.NoError(s.t, db.Flush())
	require.NoError(s.t, db.Close())
}

// found reads a file of findings.
func found(t *testing.T, path string) (all []hurt) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var fd migrate.Finding
		require.NoError(t, json.Unmarshal(sc.Bytes(), &fd))
		all = append(all, hurt{fd.Code, fd.Side, cq.Key{Topic: fd.Topic, QueueID: fd.QueueID}, fd.QueueOffset, fd.Slots})
	}
	return all
}

// journaled reads what a repair was about to change.
func journaled(t *testing.T, dir string) (all []hurt) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "tandemmq", migrate.JournalFileName))
	require.NoError(t, err)
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var l struct{ Finding *migrate.Finding }
		require.NoError(t, json.Unmarshal(sc.Bytes(), &l))
		if fd := l.Finding; fd != nil {
			all = append(all, hurt{fd.Code, fd.Side, cq.Key{Topic: fd.Topic, QueueID: fd.QueueID}, fd.QueueOffset, fd.Slots})
		}
	}
	return all
}

// seenByUnits are what a verification names exactly that reads a record here and there, and what it found. It tells of the others in coarser words, or not at all: that the files of a queue contradict one
// another, that a queue of nobody's records is on one side; and of rows that nobody reads, nothing.
func (s *surgeon) seenByUnits(found []hurt) (all []hurt) {
	for _, h := range s.done {
		bad := slices.ContainsFunc(found, func(f hurt) bool { return f.code == migrate.CodeBadQueue && f.key == h.key && f.side == h.side })
		if bad || h.code == migrate.CodeDirtyRows || h.code == migrate.CodeExtraQueue {
			continue
		}
		all = append(all, h)
	}
	return all
}

func texts(all []hurt) []string {
	out := make([]string, 0, len(all))
	for _, h := range all {
		out = append(out, h.String())
	}
	slices.Sort(out)
	return out
}

// bothSides is a store with enough queues for one hurt each and some to spare, verified and not cut over.
func bothSides(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "store")
	tandemmq.MustRun(t, "store", "generate", "--store", dir, "--messages", "12800", "--topics", "4", "--queues", "10", "--body", "30",
		"--commitlog-size", fmt.Sprint(sampleLogSize), "--cq-file-size", fmt.Sprint(sampleCQSize))
	tandemmq.MustRun(t, "migrate", "run", "--store", dir)
	return dir
}

// Each kind of divergence, on each side, at random places of one store: verify finds and names all of them at its full level, repair heals them, and what was whole is not touched.
func TestRepairHealsWhatVerifyNames(t *testing.T) {
	base := bothSides(t)
	wantFile, wantRocks := dump(t, base, "file"), dump(t, base, "rocks")
	seeds := uint64(3)
	if testenv.Race {
		seeds = 1
	}
	if os.Getenv("TANDEMMQ_SEEDS") == "full" {
		seeds = 200
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir := golden.CopyTree(t, base)
			s := newSurgeon(t, dir, seed)
			s.changes(cq.KindFile)
			s.changes(cq.KindRocks)
			s.files()
			s.database()
			whole := s.keys
			require.NotEmpty(t, whole)
			before := treeSums(t, dir)

			out := filepath.Join(t.TempDir(), "findings")
			want := texts(s.done)
			r := tandemmq.Run(t, "migrate", "repair", "--store", dir, "--dry-run", "--findings", out)
			require.Equal(t, 3, r.Code, r.Stderr)
			require.Equal(t, want, texts(found(t, out)))
			require.Equal(t, before, treeSums(t, dir), "a dry run wrote something")

			r = tandemmq.Run(t, "migrate", "verify", "--store", dir, "--level", "all", "--findings", out)
			require.Equal(t, 3, r.Code, r.Stderr)
			require.Subset(t, texts(found(t, out)), want)
			r = tandemmq.Run(t, "migrate", "verify", "--store", dir, "--samples", "1000000", "--findings", out)
			require.Equal(t, 3, r.Code, r.Stderr)
			seen := found(t, out)
			require.Subset(t, texts(seen), texts(s.seenByUnits(seen)), "what the two sides show is named as if all records had been read")

			tandemmq.MustRun(t, "migrate", "repair", "--store", dir)
			require.Equal(t, wantFile, dump(t, dir, "file"))
			require.Equal(t, wantRocks, dump(t, dir, "rocks"))
			require.Equal(t, want, texts(journaled(t, dir)))
			after := treeSums(t, dir)
			for _, k := range whole {
				for path, sum := range before {
					if strings.HasPrefix(path, fmt.Sprintf("consumequeue/%s/%d/", k.Topic, k.QueueID)) {
						require.Equal(t, sum, after[path], path)
					}
				}
			}
			tandemmq.MustRun(t, "migrate", "verify", "--store", dir, "--level", "all")
			again := treeSums(t, dir)
			r = tandemmq.MustRun(t, "migrate", "repair", "--store", dir)
			require.Contains(t, r.Stdout, "nothing to do")
			require.Equal(t, again, treeSums(t, dir), "a second repair wrote something")
			tandemmq.MustRun(t, "migrate", "cutover", "--store", dir, "--yes")
		})
	}
}

// The state says that a repair is under way until it has come to its end: nothing else goes on from the middle of one.
func TestRepairPhases(t *testing.T) {
	s := newSurgeon(t, bothSides(t), 5)
	status := func() (st migrate.State) {
		require.NoError(t, json.Unmarshal([]byte(tandemmq.MustRun(t, "migrate", "status", "--store", s.dir, "--json").Stdout), &st))
		return st
	}
	s.changes(cq.KindRocks)
	tandemmq.MustRun(t, "migrate", "repair", "--store", s.dir)
	var last [3]migrate.HistoryEntry
	copy(last[:], status().History[len(status().History)-3:])
	require.Equal(t, [3]migrate.Event{migrate.EventDiverged, migrate.EventRepairStart, migrate.EventRepairEnd}, [3]migrate.Event{last[0].Event, last[1].Event, last[2].Event})
	require.Equal(t, [3]migrate.Phase{migrate.PhaseDiverged, migrate.PhaseRepairing, migrate.PhaseVerifying}, [3]migrate.Phase{last[0].Phase, last[1].Phase, last[2].Phase})

	st := status() // as if it had been killed when all was written
	require.NoError(t, st.Apply(migrate.EventDiverged, "test", "", time.Now()))
	require.NoError(t, st.Apply(migrate.EventRepairStart, "test", "", time.Now()))
	require.NoError(t, st.Save(filepath.Join(s.dir, "tandemmq")))
	for _, args := range [][]string{{"verify"}, {"run"}, {"backfill"}, {"cutover", "--yes"}} {
		r := tandemmq.Run(t, append([]string{"migrate", args[0], "--store", s.dir}, args[1:]...)...)
		require.Equal(t, 1, r.Code, "%s: %s", args[0], r.Stdout)
		require.Contains(t, r.Stderr, "repair", args[0])
	}
	require.Equal(t, migrate.PhaseRepairing, status().Phase)
	require.Contains(t, tandemmq.MustRun(t, "migrate", "repair", "--store", s.dir).Stdout, "nothing to do")
	require.Equal(t, migrate.PhaseVerifying, status().Phase)
	tandemmq.MustRun(t, "migrate", "verify", "--store", s.dir)
	require.Equal(t, migrate.PhaseVerified, status().Phase)
}

// A repair that is killed, wherever it is, is repeated and ends as an undisturbed one.
func TestKillRepair(t *testing.T) {
	skipUnderRace(t)
	base := bothSides(t)
	wantFile, wantRocks := dump(t, base, "file"), dump(t, base, "rocks")
	s := newSurgeon(t, base, 77)
	s.changes(cq.KindFile)
	s.changes(cq.KindRocks)
	s.files()
	s.database()
	start := time.Now()
	tandemmq.MustRun(t, "migrate", "repair", "--store", golden.CopyTree(t, base))
	whole := time.Since(start)
	kills := 4
	if os.Getenv("TANDEMMQ_SEEDS") == "full" {
		kills = 200
	}
	met, again := 0, 0
	for i := 0; i < kills || met == 0 && i < 20*kills; i++ {
		dir := golden.CopyTree(t, base)
		for round := range 3 { // killed again while it goes on
			cmd := exec.Command(filepath.Join(binDir, "tandemmq"), "migrate", "repair", "--store", dir)
			require.NoError(t, cmd.Start())
			time.Sleep(time.Duration(s.rng.Int64N(int64(whole))))
			_ = cmd.Process.Kill()
			if cmd.Wait() == nil { // it was done, in less time than the first one took
				whole = max(whole*3/4, 5*time.Millisecond)
				break
			}
			require.Equal(t, -1, cmd.ProcessState.ExitCode(), "kill %d, round %d", i, round)
			if met++; round > 0 {
				again++
			}
		}
		tandemmq.MustRun(t, "migrate", "repair", "--store", dir)
		require.Equal(t, wantFile, dump(t, dir, "file"), "kill %d", i)
		require.Equal(t, wantRocks, dump(t, dir, "rocks"), "kill %d", i)
		require.Contains(t, tandemmq.MustRun(t, "migrate", "status", "--store", dir).Stdout, ": verifying\n")
		tandemmq.MustRun(t, "migrate", "verify", "--store", dir, "--level", "all")
	}
	require.Positive(t, met, "no kill met a repair")
	t.Logf("%d stores repaired, %d kills, %d of them of a repair that went on after one", kills, met, again)
}

// What a repair does not decide by itself: units that the log may have lost, queues of deleted topics, shifted queues, one side alone.
func TestRepairLeavesWhatTheLogDoesNotDecide(t *testing.T) {
	base := bothSides(t)
	want := dump(t, base, "file")
	s := newSurgeon(t, base, 5)
	k, n, _ := s.next()
	left := func(t *testing.T, dir string, code migrate.Code, flags ...string) {
		t.Helper()
		before := treeSums(t, dir)
		r := tandemmq.Run(t, append([]string{"migrate", "repair", "--store", dir}, flags...)...)
		require.Equal(t, 3, r.Code, r.Stderr)
		require.Contains(t, r.Stderr, "tandemmq: repair found 1 x "+string(code)+"\n")
		require.Equal(t, before, treeSums(t, dir))
	}
	t.Run("units behind the end of the log", func(t *testing.T) {
		s.dir = golden.CopyTree(t, base)
		for i := range int64(3) {
			s.put(cq.KindFile, k, n+i, cq.Unit{PhyOffset: 1<<40 + 100*i, Size: 100})
		}
		left(t, s.dir, migrate.CodeUnitOutsideLog)
		tandemmq.MustRun(t, "migrate", "repair", "--store", s.dir, "--accept-loss")
		require.Equal(t, want, dump(t, s.dir, "file"))
	})
	t.Run("a shifted queue", func(t *testing.T) {
		s.dir = golden.CopyTree(t, base)
		for i := n / 2; i < n; i++ {
			u := cq.Unit{}
			if i+1 < n {
				u = s.units[k][i+1]
			}
			s.put(cq.KindFile, k, i, u)
		}
		left(t, s.dir, migrate.CodeShifted)
		tandemmq.MustRun(t, "migrate", "repair", "--store", s.dir, "--renumber")
		require.Equal(t, want, dump(t, s.dir, "file"))
	})
	t.Run("a queue that no side has", func(t *testing.T) {
		s.dir = golden.CopyTree(t, base)
		require.NoError(t, os.RemoveAll(filepath.Dir(s.fileOf(k, 0))))
		s.rocks(func(r *rocks.Store) { require.NoError(t, r.DropQueue(t.Context(), k)) })
		left(t, s.dir, migrate.CodeMissingQueue)
		tandemmq.MustRun(t, "migrate", "repair", "--store", golden.CopyTree(t, s.dir), "--missing-queues", "skip")
		tandemmq.MustRun(t, "migrate", "repair", "--store", s.dir, "--missing-queues", "build")
		require.Equal(t, want, dump(t, s.dir, "file"))
		require.Equal(t, want, dump(t, s.dir, "rocks"))
	})
	t.Run("one side alone, after a cutover", func(t *testing.T) {
		s.dir = golden.CopyTree(t, base)
		tandemmq.MustRun(t, "migrate", "cutover", "--store", s.dir, "--yes")
		s.put(cq.KindFile, k, 3, s.units[k][7])
		s.put(cq.KindRocks, k, 4, s.units[k][7])
		r := tandemmq.MustRun(t, "migrate", "repair", "--store", s.dir)
		require.Contains(t, r.Stdout, "(rocks)")
		require.Contains(t, r.Stdout, "1 slots written")
		require.Equal(t, want, dump(t, s.dir, "rocks"))
		require.NotEqual(t, want, dump(t, s.dir, "file"))
		require.Equal(t, "cutover", phase(t, s.dir))
		tandemmq.MustRun(t, "migrate", "repair", "--store", s.dir, "--side", "both")
		require.Equal(t, want, dump(t, s.dir, "file"))
	})
	t.Run("files alone", func(t *testing.T) {
		s.dir = golden.CopyTree(t, base)
		for _, d := range []string{hurtRocksDir, "tandemmq"} {
			require.NoError(t, os.RemoveAll(filepath.Join(s.dir, d)))
		}
		s.put(cq.KindFile, k, 3, s.units[k][7])
		s.put(cq.KindFile, k, n-1, cq.Unit{})
		tandemmq.MustRun(t, "migrate", "repair", "--store", s.dir)
		require.Equal(t, want, dump(t, s.dir, "file"))
		require.NoDirExists(t, filepath.Join(s.dir, hurtRocksDir))
	})
	t.Run("refused", func(t *testing.T) {
		s.dir = golden.CopyTree(t, base)
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, "abort"), nil, 0o600))
		r := tandemmq.Run(t, "migrate", "repair", "--store", s.dir)
		require.Equal(t, 1, r.Code)
		require.Contains(t, r.Stderr, "recover first")
		require.Equal(t, 2, tandemmq.Run(t, "migrate", "repair", "--store", s.dir, "--side", "tape").Code)
	})
}

// A plan says in words in which of its half-done states RocketMQ has left a store, and a run or a repair heals it.
func TestPlanRecognises(t *testing.T) {
	skipUnderRace(t)
	base := bothSides(t)
	want := dump(t, base, "file")
	require.NoError(t, os.RemoveAll(filepath.Join(base, "tandemmq"))) // as RocketMQ leaves it
	s := newSurgeon(t, base, 3)
	type state = migrate.StateCode
	for _, tc := range []struct {
		name   string
		hurt   func()
		states []state
		run    bool // from files to RocksDB heals it, too
	}{
		{"whole", func() {}, nil, true},
		{"F14 no history", func() {
			k, _, _ := s.next()
			u := s.units[k]
			s.rocks(func(r *rocks.Store) { require.NoError(t, r.DropQueue(t.Context(), k)) })
			s.rocks(func(r *rocks.Store) {
				require.NoError(t, r.Import(t.Context(), []cq.Run{{Key: k, From: 50, Units: u[50:]}}))
				require.NoError(t, r.Publish(t.Context(), []cq.QueueEnd{{Key: k, Min: 50, MinPhyOffset: u[50].PhyOffset, Max: int64(len(u)), LastPhyOffset: u[len(u)-1].PhyOffset}}, -1))
			})
		}, []state{migrate.StateNoHistory}, true},
		{"F16 F19 begun anew", func() {
			k, n, _ := s.next()
			s.reinit(k, n, n, s.units[k][n-1].PhyOffset)
		}, []state{migrate.StateBegunAnew}, true},
		{"F3 F30 cut too far, and the rows left", func() {
			k, n, _ := s.next()
			s.reinit(k, 0, n-40, s.units[k][n-41].PhyOffset)
		}, []state{migrate.StateRocksBehind, migrate.StateDirtyRows}, true},
		{"files behind", func() {
			k, n, _ := s.next()
			for slot := n - 30; slot < n; slot++ {
				s.put(cq.KindFile, k, slot, cq.Unit{})
			}
		}, []state{migrate.StateFilesBehind}, false},
		{"a queue on one side", func() {
			k, _, _ := s.next()
			require.NoError(t, os.RemoveAll(filepath.Dir(s.fileOf(k, 0))))
		}, []state{migrate.StateOneSided}, false},
		{"a queue that contradicts itself", func() {
			k, n, _ := s.next()
			s.put(cq.KindFile, k, n-2, cq.Unit{})
		}, []state{migrate.StateUnreadable}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.dir = golden.CopyTree(t, base)
			tc.hurt()
			before := treeSums(t, s.dir)
			r := tandemmq.Run(t, "migrate", "plan", "--store", s.dir, "--json")
			var p migrate.Plan
			require.NoError(t, json.Unmarshal([]byte(r.Stdout), &p), r.Stderr)
			require.Equal(t, before, treeSums(t, s.dir))
			got := []state{}
			for _, st := range p.States {
				require.NotEmpty(t, st.Text)
				got = append(got, st.State)
			}
			require.Equal(t, append([]state{migrate.StateSeparate}, tc.states...), got)
			require.Contains(t, tandemmq.Run(t, "migrate", "plan", "--store", s.dir).Stdout, "  recognised: ")

			mended := golden.CopyTree(t, s.dir)
			tandemmq.MustRun(t, "migrate", "repair", "--store", mended)
			require.Equal(t, want, dump(t, mended, "file"))
			require.Equal(t, want, dump(t, mended, "rocks"))
			if tc.run {
				tandemmq.MustRun(t, "migrate", "run", "--store", s.dir, "--yes", "--level", "all")
				require.Equal(t, want, dump(t, s.dir, "rocks"))
			}
		})
	}
}
