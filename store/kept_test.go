package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/tests/golden"
)

// What tells on which sides a store keeps its queues: its own note, unless a migration has moved them since; and where nothing was noted, traces of file queues or of RocksDB.
func TestKeptSides(t *testing.T) {
	const moved = `{"version":1,"phase":"cutover","from":"file","to":"rocks","history":[{"event":"plan"},{"event":"cutover"}]}`
	for _, c := range []struct {
		name            string
		note, migration string
		checkpoint      Checkpoint
		config          string
		want            Kept
	}{
		{name: "nothing"},
		{name: "note", note: `{"sides":["file","rocks"],"moves":0}`, want: Kept{File: true, RocksDB: true, By: keptByNote}},
		{name: "a note that is damaged", note: `{"sides":`, checkpoint: Checkpoint{LogicsMsgTimestampMs: 1}, want: Kept{File: true, By: "logicsMsgTimestamp of the checkpoint, which file queues have set"}},
		{name: "migration", migration: moved, want: Kept{RocksDB: true, By: "tandemmq/migration.json"}},
		{name: "a note before the migration", note: `{"sides":["file"],"moves":0}`, migration: moved, want: Kept{RocksDB: true, By: "tandemmq/migration.json"}},
		{name: "a note after it", note: `{"sides":["file","rocks"],"moves":1}`, migration: moved, want: Kept{File: true, RocksDB: true, By: keptByNote}},
		{name: "a migration that is under way", note: `{"sides":["file"],"moves":0}`, migration: `{"version":1,"phase":"backfilling","from":"file","to":"rocks"}`, want: Kept{File: true, By: keptByNote}},
		{name: "a migration that was planned", migration: `{"version":1,"phase":"planned","from":"rocks","to":"file"}`, want: Kept{RocksDB: true, By: "tandemmq/migration.json"}},
		{
			name: "finalized", note: `{"sides":["file","rocks"],"moves":1}`,
			migration: `{"version":1,"phase":"finalized","from":"file","to":"rocks","kept":"rocks","rocksLayout":"separate","history":[{"event":"cutover"},{"event":"finalize-end"}]}`,
			want:      Kept{RocksDB: true, Separate: true, By: keptByMigration},
		},
		{name: "a store that was never migrated", migration: `{"version":1,"phase":"absent"}`},
		{name: "RocketMQ's configuration", config: "topics", want: Kept{RocksDB: true, By: "config/topics, which RocketMQ makes beside RocksDB queues"}},
		{name: "RocksDB alone", checkpoint: Checkpoint{PhysicMsgTimestampMs: 1}, want: Kept{RocksDB: true, By: "the checkpoint, which no file queue has ever set"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			l := NewLayout(root)
			if c.note != "" {
				put(t, l.StateDir(), keptName, c.note)
			}
			if c.migration != "" {
				put(t, l.StateDir(), state.FileName, c.migration)
			}
			if c.config != "" {
				put(t, filepath.Join(root, "config", c.config), currentFile, "MANIFEST-000001\n")
			}
			require.NoError(t, WriteCheckpoint(l.CheckpointPath(), c.checkpoint))
			got, err := l.KeptBefore()
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// What RocketMQ leaves of its stores tells which they were when their queues are gone: recover builds those.
func TestIssue5Part2RecoverBuildsTheKindThatWasThere(t *testing.T) {
	needRocksDB(t)
	for _, c := range []struct {
		fixture string
		want    []string
	}{
		{"rocks-normal", []string{"rocks"}}, {"file-normal", []string{"file"}},
	} {
		t.Run(c.fixture, func(t *testing.T) {
			root := golden.Unpack(t, c.fixture)
			loseQueues(t, root)
			if c.want[0] == "rocks" { // the fixture had no broker
				put(t, filepath.Join(root, "config", "topics"), currentFile, "MANIFEST-000001\n")
			}
			checked, err := Check(t.Context(), root, CheckOptions{})
			require.NoError(t, err)
			require.Equal(t, c.want, checked.LostSides)
			require.Empty(t, checked.Sides)
			rep, err := Recover(t.Context(), root, RecoverOptions{Check: true})
			require.NoError(t, err)
			require.Equal(t, c.want, rep.Sides)
			require.True(t, rep.Checked.Sound, "%v", rep.Checked.Findings)
			require.Contains(t, rep.Notes[0], "where the store kept them")
			k, err := NewLayout(root).Kept()
			require.NoError(t, err)
			require.Equal(t, c.want[0] == "rocks", k.RocksDB)
			require.Equal(t, c.want[0] == "file", k.File)
		})
	}
	for _, o := range []Options{viewOptions(StoreTypeFile), viewOptions(StoreTypeRocksDB), combineOptions()} {
		root := filledStore(t, o, 100)
		loseQueues(t, root)
		rep, err := Recover(t.Context(), root, RecoverOptions{Check: true})
		require.NoError(t, err)
		require.Equal(t, []string{rep.Sides[0]}, rep.Sides[:1])
		require.Len(t, rep.Sides, len(eachSide(o)))
		require.Equal(t, string(eachSide(o)[0].StoreType.kind()), rep.Sides[0])
		require.True(t, rep.Checked.Sound)
		requireWhole(t, root, o)
	}
}

// A side that the store does not keep is built only when that is said, and then the store keeps both; a broker with files alone goes on.
func TestIssue5Part3RebuildOfASideThatIsNotKept(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeFile)
	root := filledStore(t, o, 100)
	l := NewLayout(root)
	before := golden.TreeSums(t, root)
	for _, dry := range []bool{true, false} {
		_, err := Rebuild(t.Context(), root, RebuildOptions{Kind: cq.KindRocks, DryRun: dry, Options: &o})
		var none *NoSideError
		require.ErrorAs(t, err, &none)
		require.ErrorContains(t, err, "`tandemmq migrate run --store "+root+" --to rocks` moves them there, and proves it; --create makes rocks queues from the log all the same, and the store keeps both then")
		require.Equal(t, before, golden.TreeSums(t, root))
	}
	rep, err := Rebuild(t.Context(), root, RebuildOptions{Kind: cq.KindRocks, Create: true, Options: &o})
	require.NoError(t, err)
	require.Contains(t, rep.Notes[0], "the store had no rocks queues: they are built from the log, beside the file queues, and it keeps both from now on")
	k, err := l.Kept()
	require.NoError(t, err)
	require.Equal(t, Kept{File: true, RocksDB: true, By: keptByNote}, k)
	checked, err := Check(t.Context(), root, CheckOptions{Deep: true})
	require.NoError(t, err)
	require.True(t, checked.Sound)
	require.Equal(t, []string{"file", "rocks"}, checked.Sides)

	s := openStore(t, root, o)
	putSome(t, s, 10)
	require.NoError(t, s.Close())
	requireWhole(t, root, o)
	require.NoFileExists(t, l.AbortPath())
	k, err = l.Kept()
	require.NoError(t, err)
	require.Equal(t, Kept{File: true, By: keptByNote}, k, "RocksDB is left behind")
	removeRocks(t, root, IsRocksFile)
	checked, err = Check(t.Context(), root, CheckOptions{})
	require.NoError(t, err)
	require.True(t, checked.Sound, "a store that keeps files alone has lost nothing: %v", checked.Findings)
}

// A side that is kept and lost is built like one that is there, by itself and as one of those that the store keeps.
func TestIssue5Part1ALostSideIsBuilt(t *testing.T) {
	needRocksDB(t)
	o := combineOptions()
	for _, lost := range combinedKinds {
		for name, build := range map[string]func(root string) error{
			"rebuild": func(root string) error {
				_, err := Rebuild(t.Context(), root, RebuildOptions{Kind: lost, Options: &o})
				return err
			},
			"rebuild of all": func(root string) error {
				_, err := Rebuild(t.Context(), root, RebuildOptions{Options: &o})
				return err
			},
			"recover": func(root string) error {
				_, err := Recover(t.Context(), root, RecoverOptions{Options: &o})
				return err
			},
		} {
			t.Run(name+" "+string(lost), func(t *testing.T) {
				root := filledStore(t, o, 100)
				loseSide(t, root, lost)
				require.NoError(t, build(root))
				requireWhole(t, root, o)
				checked, err := Check(t.Context(), root, CheckOptions{Deep: true})
				require.NoError(t, err)
				require.True(t, checked.Sound, "%v", checked.Findings)
			})
		}
	}
	root := filledStore(t, o, 100)
	loseSide(t, root, cq.KindFile)
	before, err := os.ReadDir(NewLayout(root).ConsumeQueueDir())
	require.NoError(t, err)
	_, err = Rebuild(t.Context(), root, RebuildOptions{Index: true, Options: &o})
	require.NoError(t, err)
	after, err := os.ReadDir(NewLayout(root).ConsumeQueueDir())
	require.NoError(t, err)
	for _, e := range after {
		require.False(t, e.IsDir(), "the index alone was asked for: %s", e.Name())
	}
	require.NotEmpty(t, before)
}
