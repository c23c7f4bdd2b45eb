package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/tests/golden"
)

func TestCheckStateFiles(t *testing.T) {
	s := newCheckedStore(t)
	l := NewLayout(s.root)
	require.NoError(t, UpdateCheckpoint(l.CheckpointPath(), func(c *Checkpoint) {
		c.LogicsPhysicalOffset, c.ConfirmPhyOffset = s.end+1, s.end+1
		c.PhysicMsgTimestampMs = s.records[len(s.records)-1].StoreTimestampMs + 1
	}))
	rep := s.check(CheckOptions{})
	require.Equal(t, []string{"warning checkpoint-ahead state", "warning checkpoint-ahead state", "warning checkpoint-ahead state"}, briefs(rep))

	require.NoError(t, os.Truncate(l.CheckpointPath(), 20))
	require.Equal(t, []string{"warning checkpoint state"}, briefs(s.check(CheckOptions{})))
	require.NoError(t, os.Remove(l.CheckpointPath()))
	require.Equal(t, []string{"notice checkpoint state"}, briefs(s.check(CheckOptions{})))

	topics := []brokerTopic{{"sample_0", 2}, {"sample_2", 2}}
	require.NoError(t, os.WriteFile(l.TopicsPath(), encodeTopics(topics, 1), 0o644))
	require.Equal(t, []string{"warning topic-not-in-table state sample_1", "notice checkpoint state"}, briefs(s.check(CheckOptions{})))
	require.NoError(t, os.RemoveAll(filepath.Join(s.root, "consumequeue", "sample_1")))
	rep = s.check(CheckOptions{Deep: true})
	require.True(t, rep.Sound, "a topic that was deleted")
	require.Equal(t, CheckDeletedTopic, rep.Counts[1].Code)
	require.EqualValues(t, len(s.units[cq.Key{Topic: "sample_1"}])+len(s.units[cq.Key{Topic: "sample_1", QueueID: 1}]), rep.Counts[1].Count)
	require.NoError(t, os.WriteFile(l.TopicsPath(), []byte("{"), 0o644))
	rep = s.check(CheckOptions{Deep: true})
	require.False(t, rep.Sound, "nothing tells that it was")
	require.Equal(t, CheckMissingQueue, rep.Findings[0].Code)
	require.Contains(t, briefs(rep), "warning topics-unreadable state")
}

func TestCheckRocksPlaces(t *testing.T) {
	s := newCheckedStore(t)
	l := NewLayout(s.root)
	require.NoError(t, os.Mkdir(l.RocksDir(RocksSeparate), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(l.RocksDir(RocksSeparate), "MANIFEST-000001"), nil, 0o644))
	for _, kind := range []cq.Kind{"", cq.KindCombine} {
		rep := s.check(CheckOptions{Deep: true, Kind: kind})
		require.Equal(t, []string{"error rocks-place rocks"}, briefs(rep))
		require.Equal(t, []string{"file"}, rep.Sides)
	}
	for _, layout := range []RocksLayout{RocksSeparate, RocksShared} {
		require.NoError(t, os.WriteFile(filepath.Join(l.RocksDir(layout), "CURRENT"), nil, 0o644))
	}
	rep := s.check(CheckOptions{Deep: true})
	require.Equal(t, []string{"error rocks-place rocks"}, briefs(rep))
	require.Contains(t, rep.Findings[0].Text, "both")
	require.NoError(t, os.RemoveAll(filepath.Join(s.root, "consumequeue")))
	rep, err := Check(t.Context(), s.root, CheckOptions{Deep: true}) // one place alone, and no database that can be opened
	if errors.Is(err, cq.ErrNoRocksDB) {
		return
	}
	require.NoError(t, err)
	require.Equal(t, []string{"error bad-side rocks"}, briefs(rep))
	require.Empty(t, rep.Sides, "no records are told to lack queues that cannot be read")
}

// boundsQueue is a queue of any bounds.
type boundsQueue struct {
	cq.Queue
	b cq.Bounds
}

func (q boundsQueue) Bounds() (cq.Bounds, error) { return q.b, nil }

func TestCheckBadBounds(t *testing.T) {
	for _, b := range []cq.Bounds{{Min: 5, Max: 4}, {Min: -1, Max: 4}, {Min: 4, Max: 4}, {}} {
		c := newChecker(t.Context(), t.TempDir(), CheckOptions{})
		q := &checkedQueue{key: queueA}
		q.sides[sideRocks].q = boundsQueue{b: b}
		require.NoError(t, c.readBounds(q))
		want := []string{}
		if b.Min < 0 || b.Min > b.Max {
			want = append(want, "error bad-bounds rocks sample_0/1")
		}
		require.Equal(t, want, briefs(c.report()))
		require.Equal(t, len(want) == 0, q.sides[sideRocks].usable())
	}
}

func TestCheckProgress(t *testing.T) {
	s := newCheckedStore(t)
	s.flipLog(s.records[3].PhyOffset + 4)
	type phase struct {
		name, unit string
		total      int64
		done       atomic.Int64
	}
	for _, deep := range []bool{true, false} {
		var phases []*phase
		s.check(CheckOptions{Deep: deep, Workers: 3, Progress: func(name string, total int64, unit string) func(int64) {
			p := &phase{name: name, unit: unit, total: total}
			phases = append(phases, p)
			return func(done int64) {
				for old := p.done.Load(); done > old && !p.done.CompareAndSwap(old, done); old = p.done.Load() {
				}
			}
		}})
		var names []string
		for _, p := range phases {
			names = append(names, p.name+" in "+p.unit)
			require.Positive(t, p.total)
			require.Equal(t, p.total, p.done.Load(), p.name)
		}
		require.Equal(t, []string{"bounds in queues", "log in bytes", "queues in queues"}, names)
	}
}

func TestCheckErrors(t *testing.T) {
	_, err := Check(t.Context(), filepath.Join(t.TempDir(), "none"), CheckOptions{})
	require.ErrorContains(t, err, "no such directory")
	root, _ := generate(t, variedOptions())
	_, err = Check(t.Context(), root, CheckOptions{Kind: cq.KindRocks})
	require.ErrorContains(t, err, "no RocksDB consume queues")
	_, err = Check(t.Context(), root, CheckOptions{Kind: "tape"})
	require.ErrorContains(t, err, "tape")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, deep := range []bool{false, true} {
		_, err = Check(ctx, root, CheckOptions{Deep: deep})
		require.ErrorIs(t, err, context.Canceled)
	}
	_, release := holdStore(t, root)
	defer release()
	_, err = Check(t.Context(), root, CheckOptions{})
	var inUse *InUseError
	require.ErrorAs(t, err, &inUse)
}

// The lock is shared with other readers.
func TestCheckSharesTheLock(t *testing.T) {
	root, _ := generate(t, variedOptions())
	lock, err := LockShared(root)
	require.NoError(t, err)
	defer lock.Close()
	_, err = Check(t.Context(), root, CheckOptions{})
	require.NoError(t, err)
}

// An empty store is sound, and one whose queues were never made is not.
func TestCheckEmpty(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "commitlog"), 0o755))
	for _, deep := range []bool{false, true} {
		rep, err := Check(t.Context(), root, CheckOptions{Deep: deep})
		require.NoError(t, err)
		require.Equal(t, []string{"notice checkpoint state"}, briefs(rep))
		require.EqualValues(t, -1, rep.LogMin)
		require.Zero(t, rep.LogEnd)
	}
	s := newCheckedStore(t)
	require.NoError(t, os.RemoveAll(filepath.Join(s.root, "consumequeue")))
	rep := s.check(CheckOptions{Deep: true})
	require.Equal(t, []CheckCode{CheckMissingQueue, CheckMissingSide}, []CheckCode{rep.Counts[0].Code, rep.Counts[1].Code})
	require.False(t, rep.Sound)
}

// stamps are the digests of everything below a store and the times of its files and directories.
func stamps(t *testing.T, root string) map[string]string {
	t.Helper()
	sums := golden.TreeSums(t, root)
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		st, err := d.Info()
		require.NoError(t, err)
		rel, err := filepath.Rel(root, path)
		require.NoError(t, err)
		sums[rel] += fmt.Sprintf(" %s %d %d", st.Mode(), st.Size(), st.ModTime().UnixNano())
		return nil
	}))
	return sums
}

// A check changes no byte and no time, whatever state the store is in.
func TestCheckWritesNothing(t *testing.T) {
	s := newCheckedStore(t)
	noLock := newCheckedStore(t)
	require.NoError(t, os.Remove(filepath.Join(noLock.root, "lock")))
	broken := newCheckedStore(t)
	broken.flipLog(broken.records[5].PhyOffset + 100)
	broken.pokeLog(broken.end, 1, 2, 3)
	require.NoError(t, os.WriteFile(filepath.Join(broken.root, "abort"), nil, 0o644))
	roots := []string{s.root, noLock.root, broken.root, golden.Unpack(t, "file-abort")}
	for _, root := range roots {
		before := stamps(t, root)
		for _, deep := range []bool{false, true} {
			_, err := Check(t.Context(), root, CheckOptions{Deep: deep})
			require.NoError(t, err)
			require.Equal(t, before, stamps(t, root))
		}
	}
}

// With hardly any memory the result is the same: windows that take turns lose no count.
func TestCheckWithFewWindows(t *testing.T) {
	s := newCheckedStore(t)
	s.pokeUnit(queueA, 60, cq.Unit{})
	c := newChecker(t.Context(), s.root, CheckOptions{Deep: true, Workers: 2})
	c.windowUnits = 3 * windowMinUnits
	require.NoError(t, c.run())
	rep := c.report()
	require.Equal(t, []string{"error hole file sample_0/1 slot 60"}, briefs(rep))
	require.Equal(t, rep.Units-1, rep.Proven)
}

func TestUnitWindowsAreBounded(t *testing.T) {
	for _, queues := range []int{0, 1, 100, 1000, 100_000, 1_000_000, 10_000_000} {
		for _, sides := range []int{1, 2} {
			w := newUnitWindows(windowBudgetUnits, queues, sides)
			require.LessOrEqual(t, len(w.places)*w.units, windowBudgetUnits)
			require.LessOrEqual(t, len(w.places), windowBudgetUnits/windowMinUnits)
			require.NotEmpty(t, w.places)
		}
	}
}
