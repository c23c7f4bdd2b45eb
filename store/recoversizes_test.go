package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// fileLengths returns the lengths of all files below dir that have 20-digit names, and how many have them.
func fileLengths(t *testing.T, dir string) map[int64]int {
	t.Helper()
	lengths := make(map[int64]int)
	for _, path := range listTree(dir) {
		if len(filepath.Base(path)) != 20 {
			continue
		}
		st, err := os.Stat(path)
		require.NoError(t, err)
		lengths[st.Size()]++
	}
	return lengths
}

// TestFRB04RecoverTakesSizesFromDisk: what lies on the disk counts where nobody has said otherwise, whatever the options' defaults are; what was said and is contradicted is
// refused before anything is changed, with both numbers; and where nothing is left to ask, the size that is taken is told.
func TestFRB04RecoverTakesSizesFromDisk(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	partial := func(change func(*Options)) *Options {
		p := DefaultOptions()
		change(&p)
		return &p
	}
	tests := []struct {
		name    string
		lose    bool // the queues, and the index
		options *Options
		given   []string
		says    []string // in the error
		notes   []string
		queue   int64 // length of a queue file afterwards
	}{
		{name: "nothing given", queue: 1000},
		{name: "something else given", options: partial(func(p *Options) { p.MessageDelayLevel = "1s 5s" }), given: []string{"messageDelayLevel"}, queue: 1000},
		{name: "an empty configuration", options: partial(func(*Options) {}), given: []string{}, queue: 1000},
		{name: "the same given", options: partial(func(p *Options) { p.MappedFileSizeConsumeQueue = 1000 }), given: []string{"mappedFileSizeConsumeQueue"}, queue: 1000},
		{
			name: "other queue files given", options: partial(func(p *Options) { p.MappedFileSizeConsumeQueue = 2000 }), given: []string{"mappedFileSizeConsumeQueue"},
			says: []string{"mappedFileSizeConsumeQueue=2000", "1000 bytes", "consumequeue"},
		},
		{
			name: "other log files given", options: partial(func(p *Options) { p.MappedFileSizeCommitLog = 32 << 10 }), given: []string{"mappedFileSizeCommitLog"},
			says: []string{"mappedFileSizeCommitLog=32768", "16384 bytes", "commitlog"},
		},
		{
			name: "another index given", options: partial(func(p *Options) { p.MaxHashSlotNum, p.MaxIndexNum = 500, 2000 }), given: []string{"maxHashSlotNum", "maxIndexNum"},
			says: []string{"maxHashSlotNum=500 and maxIndexNum=2000", "index"},
		},
		{
			name: "all lost, nothing given", lose: true, queue: 6_000_000,
			notes: []string{"new ones get mappedFileSizeConsumeQueue=6000000, RocketMQ's default", "maxHashSlotNum=5000000 and maxIndexNum=20000000", "--conf"},
		},
		{
			name: "all lost, sizes given", lose: true, queue: 2000,
			options: partial(func(p *Options) { p.MappedFileSizeConsumeQueue, p.MaxHashSlotNum, p.MaxIndexNum = 2000, 100, 400 }),
			given:   []string{"mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum"},
		},
	}
	image := filledStore(t, o, 120)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			require.NoError(t, os.CopyFS(root, os.DirFS(image)))
			l := NewLayout(root)
			if tt.lose {
				require.NoError(t, os.RemoveAll(l.ConsumeQueueDir()))
				require.NoError(t, os.RemoveAll(l.IndexDir()))
			}
			before := listTree(root)
			rep, err := Recover(t.Context(), root, RecoverOptions{Options: tt.options, Given: tt.given, DryRun: len(tt.says) == 0})
			if len(tt.says) > 0 {
				for _, part := range tt.says {
					require.ErrorContains(t, err, part)
				}
				require.Equal(t, before, listTree(root))
				return
			}
			require.NoError(t, err)
			if tt.lose && tt.given == nil {
				for _, part := range tt.notes {
					require.Contains(t, strings.Join(rep.Notes, "\n"), part)
				}
				return // 420 MB of index are not made to prove it
			}
			rep, err = Recover(t.Context(), root, RecoverOptions{Options: tt.options, Given: tt.given, Check: true})
			require.NoError(t, err)
			require.NotContains(t, strings.Join(rep.Notes, "\n"), "default;")
			require.Len(t, fileLengths(t, l.ConsumeQueueDir()), 1)
			require.Positive(t, fileLengths(t, l.ConsumeQueueDir())[tt.queue])
			require.True(t, rep.Checked.Sound, "%v", rep.Checked.Findings)
			requireSound(t, root)
		})
	}
}

// A side that the store does not have is not made in passing: a migration moves queues. Where the store has none at all they have to go somewhere.
func TestRecoverMakesNoSideUnasked(t *testing.T) {
	needRocksDB(t)
	for _, have := range viewKinds {
		for _, kind := range []cq.Kind{cq.KindFile, cq.KindRocks, cq.KindCombine} {
			if kind == have.kind() {
				continue
			}
			t.Run(string(have.kind())+" asked for "+string(kind), func(t *testing.T) {
				o := viewOptions(have)
				root := filledStore(t, o, 60)
				before := listTree(root)
				lacks := cq.KindRocks
				if have == StoreTypeRocksDB {
					lacks = cq.KindFile
				}
				for _, dry := range []bool{true, false} {
					_, err := Recover(t.Context(), root, RecoverOptions{Kind: kind, DryRun: dry})
					var none *NoSideError
					require.ErrorAs(t, err, &none)
					require.Equal(t, lacks, none.Kind)
					require.ErrorContains(t, err, "tandemmq migrate run")
					require.ErrorContains(t, err, "--create")
					require.Equal(t, before, listTree(root))
				}
				rep, err := Recover(t.Context(), root, RecoverOptions{Kind: kind, Create: true, Options: &o, Check: true})
				require.NoError(t, err)
				require.Contains(t, rep.Notes, "the store had no "+string(lacks)+" queues: they are built from the log, beside the "+string(have.kind())+" queues, and it keeps both from now on; a broker that is told no storeType feeds both, one with storeType="+string(have)+" the "+string(have.kind())+" queues alone")
				require.True(t, rep.Checked.Sound, "%v", rep.Checked.Findings)
				requireSound(t, root)
			})
		}
	}
	o := viewOptions(StoreTypeFile)
	root := filledStore(t, o, 60)
	require.NoError(t, os.RemoveAll(NewLayout(root).ConsumeQueueDir()))
	var none *NoSideError
	_, err := Recover(t.Context(), root, RecoverOptions{Kind: cq.KindRocks, Options: &o})
	require.ErrorAs(t, err, &none)
	require.ErrorContains(t, err, "it kept its queues in files (tandemmq/queue-sides.json), where they are gone: `tandemmq store rebuild --store "+root+" --queues file --yes` builds them again there")
	_, err = Recover(t.Context(), root, RecoverOptions{Kind: cq.KindRocks, Create: true, Options: &o})
	require.NoError(t, err)
	requireSound(t, root)
}

// What a recovery leaves as it is, the check at its end finds: here an index entry of another hash, which only a rebuild replaces.
func TestRecoverChecksWhatItLeaves(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := filledStore(t, o, 60)
	dir := NewLayout(root).IndexDir()
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	path := filepath.Join(dir, names[0].Name())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[indexHeaderBytes+indexSlotBytes*o.MaxHashSlotNum+indexEntryBytes+3] += byte(o.MaxHashSlotNum) // of the first entry; place 0 is never used
	require.NoError(t, os.WriteFile(path, b, 0o644))
	rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o})
	require.NoError(t, err)
	require.Nil(t, rep.Checked, "it was not asked for")
	rep, err = Recover(t.Context(), root, RecoverOptions{Options: &o, Check: true})
	require.NoError(t, err)
	require.False(t, rep.Checked.Sound)
	require.Equal(t, CheckIndexEntry, rep.Checked.Findings[0].Code)
	rep, err = Recover(t.Context(), root, RecoverOptions{Options: &o, Check: true, DryRun: true})
	require.NoError(t, err)
	require.Nil(t, rep.Checked, "nothing was recovered")

	elsewhere := t.TempDir()
	require.NoError(t, os.CopyFS(elsewhere, os.DirFS(NewLayout(root).CommitLogDir())))
	o.StorePathCommitLog = []string{elsewhere}
	rep, err = Recover(t.Context(), root, RecoverOptions{Options: &o, Check: true})
	require.NoError(t, err)
	require.Nil(t, rep.Checked)
	require.Contains(t, rep.NotChecked, elsewhere)
}

// What nobody has is not built: not by a dry run either. What only the log has is.
func TestFRF13RebuildOfAnUnknownQueue(t *testing.T) {
	forEachSide(t, func(t *testing.T, o Options) {
		root := filledStore(t, o, 60)
		before := listTree(root)
		for _, k := range []struct {
			topic string
			id    int32
			says  string
		}{{"nope", -1, `no queue of topic "nope"`}, {"T", 7, "no queue T/7"}, {"%LMQ%nope", 0, "no queue %LMQ%nope/0"}} {
			for _, dry := range []bool{true, false} {
				_, err := Rebuild(t.Context(), root, RebuildOptions{Kind: o.StoreType.kind(), Topic: k.topic, QueueID: k.id, Options: &o, DryRun: dry})
				var unknown *UnknownQueueError
				require.ErrorAs(t, err, &unknown)
				require.Equal(t, UnknownQueueError{Topic: k.topic, QueueID: k.id}, *unknown)
				require.ErrorContains(t, err, k.says)
				require.Equal(t, before, listTree(root))
			}
		}
	})
	for _, k := range []cq.Key{{Topic: "T", QueueID: 1}, {Topic: "%LMQ%a"}} {
		o := viewOptions(StoreTypeFile)
		root := filledStore(t, o, 60)
		require.NoError(t, os.RemoveAll(filepath.Join(NewLayout(root).ConsumeQueueDir(), k.Topic)))
		_, err := Rebuild(t.Context(), root, RebuildOptions{Kind: cq.KindFile, Topic: k.Topic, QueueID: k.QueueID, Options: &o, DryRun: true})
		require.NoError(t, err, "the log has records of it")
		rep, err := Rebuild(t.Context(), root, RebuildOptions{Kind: cq.KindFile, Topic: k.Topic, QueueID: k.QueueID, Options: &o})
		require.NoError(t, err)
		require.EqualValues(t, 1, rep.Views[0].Queues)
	}
}
