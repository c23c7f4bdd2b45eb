package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/tests/golden"
)

// goldenStore is a store that RocketMQ wrote.
type goldenStore struct {
	name, mode string
	o          Options // of its broker
}

func goldenStores(t *testing.T) (list []goldenStore) {
	t.Helper()
	for _, name := range golden.Names() {
		meta := golden.Manifest(t, name).Meta
		if meta.Mode != golden.File && !hasRocks(t) {
			continue
		}
		o := DefaultOptions()
		o.MappedFileSizeCommitLog, o.MappedFileSizeConsumeQueue = meta.Config.CommitLogFileBytes, meta.Config.QueueFileBytes
		o.MaxHashSlotNum, o.MaxIndexNum = int(meta.Config.IndexSlots), int(meta.Config.IndexEntries)
		o.EnableLmq, o.EnableMultiDispatch = meta.Config.LMQ, meta.Config.LMQ
		list = append(list, goldenStore{name, meta.Mode, o})
	}
	return list
}

func hasRocks(t *testing.T) bool {
	t.Helper()
	s, err := Open(t.TempDir(), viewOptions(StoreTypeRocksDB))
	if err == nil {
		require.NoError(t, s.Close())
	}
	return err == nil
}

// kinds are the sides that the store has.
func (g *goldenStore) kinds() []StoreType {
	switch g.mode {
	case golden.File:
		return []StoreType{StoreTypeFile}
	case golden.Rocks:
		return []StoreType{StoreTypeRocksDB}
	}
	return viewKinds
}

// losses are what happens to a directory between two runs. False: the store has nothing of that kind.
var losses = []struct {
	name string
	do   func(t *testing.T, g *goldenStore, l Layout) bool
}{
	{"nothing", func(*testing.T, *goldenStore, Layout) bool { return true }},
	{"index", func(t *testing.T, _ *goldenStore, l Layout) bool {
		require.NoError(t, os.RemoveAll(l.IndexDir()))
		return true
	}},
	{"all queues", func(t *testing.T, _ *goldenStore, l Layout) bool {
		require.NoError(t, os.RemoveAll(l.ConsumeQueueDir()))
		return true
	}},
	{"one queue", func(t *testing.T, g *goldenStore, l Layout) bool {
		if g.mode == golden.Rocks {
			return false
		}
		topics, err := listDirs(l.ConsumeQueueDir())
		require.NoError(t, err)
		ids, err := listDirs(filepath.Join(l.ConsumeQueueDir(), topics[len(topics)/2]))
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(filepath.Join(l.ConsumeQueueDir(), topics[len(topics)/2], ids[0])))
		return true
	}},
	{"RocksDB", func(t *testing.T, g *goldenStore, l Layout) bool {
		dir, _, found, err := l.FindRocks()
		require.NoError(t, err)
		if !found {
			return false
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			if !e.IsDir() {
				require.NoError(t, os.Remove(filepath.Join(dir, e.Name())))
			}
		}
		return true
	}},
	{"checkpoint missing", func(t *testing.T, _ *goldenStore, l Layout) bool { return os.Remove(l.CheckpointPath()) == nil }},
	{"checkpoint of zeros", func(t *testing.T, _ *goldenStore, l Layout) bool {
		require.NoError(t, os.WriteFile(l.CheckpointPath(), make([]byte, 4096), 0o644))
		return true
	}},
	{"checkpoint of noise", func(t *testing.T, g *goldenStore, l Layout) bool {
		b := make([]byte, 4096)
		r := rand.New(rand.NewPCG(1, uint64(len(g.name))))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		require.NoError(t, os.WriteFile(l.CheckpointPath(), b, 0o644))
		return true
	}},
	{"checkpoint of the future", func(t *testing.T, _ *goldenStore, l Layout) bool {
		ms := time.Now().Add(24 * time.Hour).UnixMilli()
		c := Checkpoint{PhysicMsgTimestampMs: ms, LogicsMsgTimestampMs: ms, IndexMsgTimestampMs: ms, LogicsPhysicalOffset: 1 << 40}
		require.NoError(t, WriteCheckpoint(l.CheckpointPath(), c))
		return true
	}},
}

// requireRecovered requires that every record of the log has its units, on all sides, and can be found by its keys; and that nothing else is in the queues.
func (g *goldenStore) requireRecovered(t *testing.T, l Layout, records int64) {
	t.Helper()
	require.NoFileExists(t, l.AbortPath())
	rep, err := Check(t.Context(), l.Root, CheckOptions{Deep: true})
	require.NoError(t, err)
	require.Empty(t, rep.Errors, "%v", rep.Findings)
	require.Equal(t, records, rep.Records)
	require.Len(t, rep.Sides, len(g.kinds()))
	if g.mode == golden.File { // in the others RocksDB may begin in the middle
		o := g.o
		requireWhole(t, l.Root, o)
	}
	g.requireIndexed(t, l)
}

// requireIndexed looks each record of the log up by its keys.
func (g *goldenStore) requireIndexed(t *testing.T, l Layout) {
	t.Helper()
	log, err := commitlog.Open(l.CommitLogDir(), commitlog.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	ix, err := index.Open(l.IndexDir(), index.Options{HashSlots: int32(g.o.MaxHashSlotNum), MaxEntries: int32(g.o.MaxIndexNum), ReadOnly: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, ix.Close()) }()
	require.Empty(t, ix.Faults())
	s := log.Scanner(-1, commitlog.ScanOptions{})
	defer s.Close()
	for n := 0; s.Next(); n++ {
		r := s.Record()
		key, ok := r.Property(message.PropertyUniqKey)
		if !ok || !r.OwesUnit() || n%7 != 0 {
			continue
		}
		phy := r.PhyOffset
		found, err := ix.Query(index.Query{Topic: string(r.Topic), Key: string(key), Max: 10, EndMs: math.MaxInt64}, func(at int64) bool { return at == phy })
		require.NoError(t, err)
		require.Equal(t, []int64{phy}, found.PhyOffsets, "%s", key)
	}
	require.NoError(t, s.Err())
}

// recordsOf counts the records of the log.
func recordsOf(t *testing.T, l Layout) (n int64) {
	t.Helper()
	log, err := commitlog.Open(l.CommitLogDir(), commitlog.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	s := log.Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
	defer s.Close()
	for s.Next() {
		n++
	}
	require.NoError(t, s.Err())
	return n
}

// open opens and closes the store.
func (g *goldenStore) open(t *testing.T, root string) {
	t.Helper()
	o := g.o
	o.StoreType, o.RocksdbCQDoubleWriteEnable = g.kinds()[0], len(g.kinds()) > 1
	s := openStore(t, root, o)
	require.NoError(t, s.awaitViews(t.Context()))
	require.NoError(t, s.Close())
}

// Whatever is lost of a store beside its log comes back from the log: when the store is opened, and by Recover, after a stop in order and after a crash.
func TestStoresRecoverFromTheirLog(t *testing.T) {
	for _, g := range goldenStores(t) {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for i, loss := range losses {
				if (i+len(g.name))%sweepStep != 0 {
					continue
				}
				for _, crashed := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/crashed=%v", loss.name, crashed), func(t *testing.T) {
						l := NewLayout(golden.Unpack(t, g.name))
						records := recordsOf(t, l)
						if !loss.do(t, &g, l) {
							t.SkipNow()
						}
						if !crashed {
							g.open(t, l.Root)
							g.requireRecovered(t, l, records)
							return
						}
						require.NoError(t, os.WriteFile(l.AbortPath(), []byte("1"), 0o644))
						kind := map[string]cq.Kind{golden.File: cq.KindFile, golden.Rocks: cq.KindRocks, "combine": cq.KindCombine}[g.mode]
						rep, err := Recover(t.Context(), l.Root, RecoverOptions{Kind: kind, Create: true, Options: g.options(loss.name)})
						require.NoError(t, err)
						require.True(t, rep.AbortCleared)
						g.requireRecovered(t, l, records)
					})
				}
			}
		})
	}
}

// options are given to Recover where it cannot read them off what is left.
func (g *goldenStore) options(loss string) *Options {
	switch loss {
	case "index", "all queues":
		return &g.o
	}
	return nil
}
