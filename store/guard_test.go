package store

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/tests/golden"
)

// gap is what a refusal says of T/0.
func gap(kind cq.Kind, from, to int) string {
	return "queue T/0: " + sideDoes(kind, "lack") + " slots " + strconv.Itoa(from) + " to " + strconv.Itoa(to-1)
}

// TestF15GuardOfOpening opens stores in every state on every side: what would serve from a side that lacks something, or give offsets by it, is refused before a byte is changed, and says which
// queues and slots are meant and what can be done. Everything else serves all messages and goes on numbering where it was.
func TestF15GuardOfOpening(t *testing.T) {
	needRocksDB(t)
	onlyFile, onlyRocks, both := viewOptions(StoreTypeFile), viewOptions(StoreTypeRocksDB), combineOptions()
	keep := func(t *testing.T, root, note string) {
		t.Helper()
		require.NoError(t, os.Remove(NewLayout(root).keptPath()))
		if note != "" {
			put(t, NewLayout(root).StateDir(), state.FileName, note)
		}
	}
	for _, state := range []struct {
		name        string
		make        func(t *testing.T, root string)
		files, rock []string // what the refusal of that side alone says; nil: it serves
		both        []string
	}{
		{name: "new", make: func(*testing.T, string) {}},
		{
			name: "files alone", make: func(t *testing.T, root string) { openPuts(t, root, onlyFile, guardPuts) },
			rock: []string{"has its queues in files, and none in RocksDB", gap(cq.KindRocks, 0, guardPuts), "tandemmq migrate run --store ROOT --to rocks --yes", "storeType=default"},
		},
		{
			name: "RocksDB alone", make: func(t *testing.T, root string) { openPuts(t, root, onlyRocks, guardPuts) },
			files: []string{"has its queues in RocksDB, and none in files", gap(cq.KindFile, 0, guardPuts), "tandemmq migrate run --store ROOT --to file --yes", "storeType=defaultRocksDB"},
		},
		{name: "both", make: func(t *testing.T, root string) { openPuts(t, root, both, guardPuts) }},
		{
			name: "both, nothing noted", make: func(t *testing.T, root string) {
				openPuts(t, root, both, guardPuts)
				keep(t, root, "")
			},
		},
		{
			name: "both, RocksDB lost", make: func(t *testing.T, root string) {
				openPuts(t, root, both, guardPuts)
				loseSide(t, root, cq.KindRocks)
			},
			rock: []string{"keeps its queues in files and RocksDB (tandemmq/queue-sides.json), and those in RocksDB are gone", gap(cq.KindRocks, 0, guardPuts), "tandemmq store rebuild --store ROOT --queues rocks --yes"},
		},
		{
			name: "both, files lost", make: func(t *testing.T, root string) {
				openPuts(t, root, both, guardPuts)
				loseSide(t, root, cq.KindFile)
			},
			files: []string{"and those in files are gone", gap(cq.KindFile, 0, guardPuts), "tandemmq store rebuild --store ROOT --queues file --yes"},
		},
		{
			name: "both, both lost", make: func(t *testing.T, root string) {
				openPuts(t, root, both, guardPuts)
				loseQueues(t, root)
			},
		},
		{
			name: "files alone, lost", make: func(t *testing.T, root string) {
				openPuts(t, root, onlyFile, guardPuts)
				loseQueues(t, root)
			},
			rock: []string{"kept its queues in files (tandemmq/queue-sides.json), where they are gone", "storeType=default", "tandemmq store rebuild --store ROOT --queues rocks --create --yes"},
		},
		{
			name: "RocksDB alone, lost", make: func(t *testing.T, root string) {
				openPuts(t, root, onlyRocks, guardPuts)
				loseQueues(t, root)
			},
			files: []string{"kept its queues in RocksDB (tandemmq/queue-sides.json), where they are gone", "storeType=defaultRocksDB", "tandemmq store rebuild --store ROOT --queues file --create --yes"},
		},
		{
			name: "RocksDB alone, lost, nothing noted", make: func(t *testing.T, root string) {
				openPuts(t, root, onlyRocks, guardPuts)
				loseQueues(t, root)
				keep(t, root, "")
			},
			files: []string{"kept its queues in RocksDB (the checkpoint, which no file queue has ever set), where they are gone"},
		},
		{
			name: "both, then files alone for a while", make: func(t *testing.T, root string) {
				openPuts(t, root, both, guardPuts-60)
				openPuts(t, root, onlyFile, 60)
			},
			rock: []string{gap(cq.KindRocks, guardPuts-60, guardPuts), "queue T/1: ", "rocksdbCQDoubleWriteEnable=true", "tandemmq store rebuild --store ROOT --queues rocks --yes"},
		},
		{
			name: "both, then RocksDB alone for a while", make: func(t *testing.T, root string) {
				openPuts(t, root, both, guardPuts-60)
				openPuts(t, root, onlyRocks, 60)
			},
			files: []string{gap(cq.KindFile, guardPuts-60, guardPuts), "queue T/1: ", "tandemmq store rebuild --store ROOT --queues file --yes"},
		},
		{
			name: "both, then files alone for a moment", make: func(t *testing.T, root string) { // given to it before it serves
				openPuts(t, root, both, guardPuts-2)
				openPuts(t, root, onlyFile, 2)
			},
		},
		{
			name: "both, then RocksDB alone for a moment", make: func(t *testing.T, root string) {
				openPuts(t, root, both, guardPuts-2)
				openPuts(t, root, onlyRocks, 2)
			},
		},
		{
			name: "both, the first file of a queue lost", make: func(t *testing.T, root string) {
				openPuts(t, root, both, guardPuts)
				loseBeginning(t, root, cq.KindFile)
			},
			files: []string{gap(cq.KindFile, 0, 50), "tandemmq store rebuild --store ROOT --queues file --yes"},
		},
		{
			name: "both, RocksDB without history (F14)", make: func(t *testing.T, root string) {
				openPuts(t, root, both, guardPuts)
				loseBeginning(t, root, cq.KindRocks)
				keep(t, root, "")
			},
			rock: []string{gap(cq.KindRocks, 0, 50), "tandemmq store rebuild --store ROOT --queues rocks --yes"},
		},
		{
			name: "migrated to RocksDB, files left behind", make: func(t *testing.T, root string) {
				openPuts(t, root, both, guardPuts-60)
				openPuts(t, root, onlyRocks, 60)
				keep(t, root, `{"version":1,"phase":"cutover","from":"file","to":"rocks","history":[{"event":"cutover"}]}`)
			},
			files: []string{gap(cq.KindFile, guardPuts-60, guardPuts), "tandemmq migrate rollback --store ROOT --yes"},
		},
		{
			name: "migrated to RocksDB, which is lost", make: func(t *testing.T, root string) {
				openPuts(t, root, both, guardPuts)
				loseSide(t, root, cq.KindRocks)
				keep(t, root, `{"version":1,"phase":"cutover","from":"file","to":"rocks","history":[{"event":"cutover"}]}`)
			},
			files: []string{"keeps its queues in RocksDB (tandemmq/migration.json), where they are gone, and those in files were left behind", "tandemmq store recover --store ROOT --kind file"},
			rock:  []string{"and those in RocksDB are gone", gap(cq.KindRocks, 0, guardPuts)},
		},
		{
			name: "RocksDB in both places", make: func(t *testing.T, root string) {
				openPuts(t, root, both, guardPuts)
				l := NewLayout(root)
				require.NoError(t, os.MkdirAll(l.RocksDir(RocksSeparate), 0o755))
				put(t, l.RocksDir(RocksSeparate), currentFile, "MANIFEST-000001\n")
			},
			files: []string{"hold a database", "move the one that is not in use away"}, rock: []string{"hold a database"}, both: []string{"hold a database"},
		},
		{
			name: "both, RocksDB without CURRENT", make: func(t *testing.T, root string) {
				openPuts(t, root, both, guardPuts)
				removeRocks(t, root, func(name string) bool { return name == currentFile })
			},
			files: []string{"CURRENT is missing", "tandemmq store recover --store ROOT"},
			rock:  []string{"those in RocksDB are gone", gap(cq.KindRocks, 0, guardPuts), "tandemmq store rebuild --store ROOT --queues rocks --yes"},
		},
	} {
		t.Run(state.name, func(t *testing.T) {
			made := t.TempDir()
			state.make(t, made)
			n := int64(guardPuts)
			if state.name == "new" {
				n = 0
			}
			for _, way := range []struct {
				name   string
				o      Options
				refuse []string
			}{
				{"file", onlyFile, state.files},
				{"rocks", onlyRocks, state.rock},
				{"both file file", sidesOf(both, StoreTypeFile, StoreTypeFile), state.both},
				{"both rocks file", sidesOf(both, StoreTypeRocksDB, StoreTypeFile), state.both},
				{"both file rocks", sidesOf(both, StoreTypeFile, StoreTypeRocksDB), state.both},
				{"both rocks rocks", sidesOf(both, StoreTypeRocksDB, StoreTypeRocksDB), state.both},
			} {
				t.Run(way.name, func(t *testing.T) {
					root := t.TempDir()
					require.NoError(t, os.CopyFS(root, os.DirFS(made)))
					before := golden.TreeSums(t, root)
					s, err := Open(root, guarded(way.o))
					if way.refuse != nil {
						require.Error(t, err)
						for _, text := range way.refuse {
							require.ErrorContains(t, err, strings.ReplaceAll(text, "ROOT", root))
						}
						require.Equal(t, before, golden.TreeSums(t, root), "nothing is changed")
						return
					}
					require.NoError(t, err)
					require.Equal(t, n, s.NextOffset("T", 0), "before anything is built")
					requireSoon(t, s, n)
					putSome(t, s, 1)
					require.Equal(t, n+1, s.NextOffset("T", 0))
					require.NoError(t, s.awaitViews(t.Context()))
					require.Len(t, readAll(t, s, "T", 0), int(n)+1)
					require.NoError(t, s.Close())
					requireWhole(t, root, way.o)
				})
			}
		})
	}
}

func sidesOf(o Options, prefer, assign StoreType) Options {
	o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = prefer, assign
	return o
}

// requireSoon reads T/0 from its beginning, as soon as it can be read: nobody is sent elsewhere by a side that is being built.
func requireSoon(t *testing.T, s *Store, n int64) {
	t.Helper()
	var res GetResult
	defer res.Release()
	at, deadline := int64(0), time.Now().Add(20*time.Second)
	for at < n {
		err := s.Get(&GetRequest{Topic: "T", QueueID: 0, Offset: at, MaxMessages: 32}, &res)
		if errors.Is(err, ErrRebuilding) {
			require.True(t, time.Now().Before(deadline), "it is built")
			time.Sleep(time.Millisecond)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, GetFound, res.Status, "at slot %d", at)
		require.Equal(t, at+int64(len(res.Messages)), res.NextOffset, "no slot is stepped over")
		at = res.NextOffset
	}
}

// Numbers that one side alone knows, since the log has no record of them any more, are not given again: the other side by itself is refused, and serves when both were open.
func TestIssue9Part9NumbersThatOneSideKnows(t *testing.T) {
	needRocksDB(t)
	both := combineOptions()
	for _, stale := range viewKinds {
		t.Run(string(stale.kind()), func(t *testing.T) {
			root := t.TempDir()
			l := NewLayout(root)
			fresh := only(both, StoreTypeFile)
			if stale == StoreTypeFile {
				fresh = only(both, StoreTypeRocksDB)
			}
			for i, o := range []Options{both, fresh} {
				s := openStore(t, root, guarded(o))
				for range 3 + i {
					_, err := s.Put(t.Context(), plainMessage("Old", "body"))
					require.NoError(t, err)
				}
				if i == 1 {
					putSome(t, s, 200)
				}
				require.NoError(t, s.awaitViews(t.Context()))
				require.NoError(t, s.Close())
			}
			rep, err := Clean(t.Context(), root, CleanOptions{Options: &fresh})
			require.NoError(t, err)
			require.Positive(t, rep.Queues)
			require.NoError(t, os.Remove(l.queueOffsetsPath())) // RocketMQ keeps no such note
			before := golden.TreeSums(t, root)
			o := only(both, stale)
			_, err = Open(root, guarded(o))
			var sides *SidesError
			require.ErrorAs(t, err, &sides)
			require.ErrorContains(t, err, "queue Old/0: "+sideDoes(stale.kind(), "lack")+" the numbers of slots 3 to 6")
			require.Equal(t, before, golden.TreeSums(t, root))

			s := openStore(t, root, guarded(both))
			require.EqualValues(t, 7, s.NextOffset("Old", 0))
			require.NoError(t, s.awaitViews(t.Context()))
			require.NoError(t, s.Close())
			s = openStore(t, root, guarded(o))
			require.EqualValues(t, 7, s.NextOffset("Old", 0))
			_, err = s.Put(t.Context(), plainMessage("Old", "body"))
			require.NoError(t, err)
			require.EqualValues(t, 8, s.NextOffset("Old", 0))
			require.NoError(t, s.Close())
		})
	}
}
