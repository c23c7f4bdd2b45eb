package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// smallCaches makes readers of RocksDB queues go to the disk.
func smallCaches(o Options) Options {
	o.RocksdbTailBytes, o.RocksdbBlockCacheBytes = -1, 1
	o.MessageIndexEnable = false
	return o
}

// rocksDir returns where the RocksDB of a store lies.
func rocksDir(t *testing.T, root string) string {
	t.Helper()
	dir, _, found, err := NewLayout(root).FindRocks()
	require.NoError(t, err)
	require.True(t, found)
	return dir
}

// damageBlocks flips bytes in the first block of each table of a RocksDB that is open, whose units are made durable before.
func damageBlocks(t *testing.T, s *Store) {
	t.Helper()
	require.NoError(t, s.views.flush(t.Context()))
	dir := rocksDir(t, s.layout.Root)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, name := range tables {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // merged meanwhile
		}
		require.NoError(t, err)
		var b [8]byte
		_, err = f.ReadAt(b[:], 16)
		require.NoError(t, err)
		for i := range b {
			b[i] ^= 0x5a
		}
		_, err = f.WriteAt(b[:], 16)
		require.NoError(t, errors.Join(err, f.Close()))
	}
}

// damageUnits zeroes bytes in the blocks of the largest table of a RocksDB, which has units. Opening the database does not read them.
func damageUnits(t *testing.T, root string) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(rocksDir(t, root), "*.sst"))
	require.NoError(t, err)
	var largest []byte
	var name string
	for _, path := range tables {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		if len(b) > len(largest) {
			largest, name = b, path
		}
	}
	require.NotEmpty(t, name)
	for at := 20; at < len(largest)*3/4; at += 1 << 10 {
		clear(largest[at : at+20])
	}
	require.NoError(t, os.WriteFile(name, largest, 0o644))
}

// mergeBlocks has RocksDB merge its tables, which fails at damage, and ends all writing.
func mergeBlocks(s *Store) {
	if c, ok := s.views.replaceable().(interface {
		Compact(ctx context.Context, progress func(writtenBytes, totalBytes int64)) error
	}); ok {
		_ = c.Compact(context.Background(), nil)
	}
}

// rocksMark returns what is told of RocksDB.
func rocksMark(s *Store) ViewMark { return s.Watermarks().Views["rocks queues"] }

// awaitReplaced waits until a damaged RocksDB was replaced and serves again.
func awaitReplaced(t *testing.T, s *Store) {
	t.Helper()
	require.Eventually(t, func() bool {
		m := rocksMark(s)
		return m.SetAside != "" && !s.replacing.owed() && s.views.compared() && s.views.sides.lacking() == nil && s.views.behind() == 0
	}, 30*time.Second, time.Millisecond, "%+v", rocksMark(s))
	require.Contains(t, rocksMark(s).Damage, "Corruption")
	require.FileExists(t, filepath.Join(rocksMark(s).SetAside, "CURRENT"), "it is kept")
	require.Zero(t, s.flags.Bits())
}

// replaceLoad puts and reads until it is stopped, and then tells how many messages were put onto each queue. No reader is sent back or past a message.
func replaceLoad(t *testing.T, s *Store, put int) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var bad error
	running.Go(func() {
		for ; ctx.Err() == nil; put++ {
			for id := range int32(2) {
				m := plainMessage("T", fmt.Sprintf("body %d", put))
				m.QueueID = id
				if r, err := s.Put(context.Background(), m); err != nil || r.Append.QueueOffset != int64(put) {
					bad = fmt.Errorf("put %d: %w, offset %d", put, err, r.Append.QueueOffset)
					return
				}
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
	read := make([]error, 2)
	for id := range read {
		running.Go(func() {
			res := new(GetResult)
			defer res.Release()
			for at := int64(0); ctx.Err() == nil; {
				err := s.Get(&GetRequest{Topic: "T", QueueID: int32(id), Offset: at, MaxMessages: 16}, res)
				if errors.Is(err, ErrRebuilding) || err == nil && res.Status == GetOffsetOverflowOne {
					if at > 0 && err == nil {
						at = 0 // all over again: what is old is read from the disk
					}
					time.Sleep(time.Millisecond)
					continue
				}
				if err == nil && res.Status == GetOffsetFoundNull && res.NextOffset == at {
					continue
				}
				if err != nil || res.Status != GetFound {
					read[id] = fmt.Errorf("get at %d: %w, %v, next %d", at, err, res.Status, res.NextOffset)
					return
				}
				for _, m := range res.Messages {
					if m.QueueOffset != at {
						read[id] = fmt.Errorf("offset %d where %d is next", m.QueueOffset, at)
						return
					}
					at++
				}
			}
		})
	}
	return func() int {
		cancel()
		running.Wait()
		require.NoError(t, errors.Join(bad, read[0], read[1]))
		return put
	}
}

var meetings = map[string]func(s *Store){
	"by a reader": func(*Store) {}, // replaceLoad has them
	"by a merge":  mergeBlocks,
}

// A block of RocksDB is damaged while a combined store serves: files serve, the database is set aside, another is built, compared, and serves again as options say, without a restart.
func TestFRF12CombinedStoreReplacesADamagedRocksDB(t *testing.T) {
	needRocksDB(t)
	for name, meet := range meetings {
		for _, first := range []StoreType{StoreTypeRocksDB, StoreTypeFile} {
			t.Run(fmt.Sprintf("%s, %s first", name, first.kind()), func(t *testing.T) {
				o := smallCaches(combineOptions())
				o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = first, first
				o.CombineCQUseRocksdbForLmq = true
				root := t.TempDir()
				s := openCombined(t, root, o)
				putSome(t, s, 300)
				awaitSides(t, s)
				damageBlocks(t, s)
				stop := replaceLoad(t, s, 300)
				meet(s)
				if first == StoreTypeFile { // nobody reads it
					readLight(t, s)
				}
				awaitReplaced(t, s)
				n := stop()
				awaitSides(t, s)
				require.EqualValues(t, n, s.NextOffset("T", 0))
				require.Equal(t, first.kind(), s.views.sides.store.Preferred())
				require.Equal(t, first.kind(), s.views.sides.store.Authority())
				require.True(t, s.views.sides.store.Ready(cq.KindRocks, cq.Key{Topic: "T", QueueID: 1}))
				require.Empty(t, s.views.sides.store.Diverged())
				require.Len(t, readAll(t, s, "T", 1), n)
				require.Len(t, readAll(t, s, "%LMQ%a", 0), 200)
				require.NoFileExists(t, s.layout.endsOwedPath())
				require.NoError(t, s.Close())
				requireWhole(t, root, only(o, StoreTypeRocksDB))
				s = openStore(t, root, only(o, StoreTypeRocksDB))
				require.Len(t, readAll(t, s, "T", 0), n)
				require.NoError(t, s.Close())
			})
		}
	}
}

// Damage that was there when the store was opened: light queues that RocksDB has alone can be read again, without a restart, and `recover` mends it too.
func TestFRF12DamageInAClosedRocksDBIsReplaced(t *testing.T) {
	needRocksDB(t)
	combined := smallCaches(combineOptions())
	combined.CombineCQUseRocksdbForLmq = true
	for name, o := range map[string]Options{"light queues alone": combined, "all queues": smallCaches(viewOptions(StoreTypeRocksDB))} {
		for _, how := range []string{"opened", "recovered", "recovered after a kill"} {
			t.Run(name+", "+how, func(t *testing.T) {
				root := filledStore(t, o, 3000)
				damageUnits(t, root)
				if how == "recovered after a kill" {
					_, err := markAbort(newStore(o).fs, NewLayout(root).AbortPath())
					require.NoError(t, err)
				}
				if how != "opened" {
					rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o})
					require.NoError(t, err)
					require.True(t, rep.AbortCleared)
				}
				s := openStore(t, root, o)
				readLight(t, s)
				whole := func() bool {
					return !s.replacing.owed() && s.views.compared() && s.views.sides.lacking() == nil && s.views.behind() == 0
				}
				require.Eventually(t, whole, 20*time.Second, time.Millisecond)
				require.Len(t, readAll(t, s, "%LMQ%a", 0), 2000)
				if how == "opened" {
					require.NotEmpty(t, rocksMark(s).SetAside)
				} else if s.views.sides != nil {
					require.Empty(t, rocksMark(s).SetAside, "it was replaced before")
				}
				require.NoError(t, s.Close())
				require.NoFileExists(t, NewLayout(root).AbortPath())
			})
		}
	}
}

// readLight reads a light queue until it can be read.
func readLight(t *testing.T, s *Store) {
	t.Helper()
	res := new(GetResult)
	defer res.Release()
	require.Eventually(t, func() bool {
		err := s.Get(&GetRequest{Topic: "%LMQ%a", MaxMessages: 100}, res)
		if err != nil {
			require.ErrorIs(t, err, ErrRebuilding)
			return false
		}
		if res.Status == GetOffsetFoundNull { // met as it was taken away: the reader asks again from where it was
			require.Zero(t, res.NextOffset)
			return false
		}
		require.Equal(t, GetFound, res.Status)
		return true
	}, 20*time.Second, time.Millisecond)
}

// The same of a store with RocksDB alone: reads of what is not built again yet are refused with ErrRebuilding, and nothing else changes for anybody.
func TestFRF12DamagedRocksDBAloneIsReplaced(t *testing.T) {
	needRocksDB(t)
	for name, meet := range meetings {
		t.Run(name, func(t *testing.T) {
			o := smallCaches(viewOptions(StoreTypeRocksDB))
			root := t.TempDir()
			s := openStore(t, root, o)
			putSome(t, s, 300)
			awaitDispatch(t, s)
			damageBlocks(t, s)
			stop := replaceLoad(t, s, 300)
			meet(s)
			awaitReplaced(t, s)
			n := stop()
			awaitDispatch(t, s)
			require.EqualValues(t, n, s.NextOffset("T", 0))
			require.Len(t, readAll(t, s, "T", 1), n)
			require.Len(t, readAll(t, s, "%LMQ%a", 0), 200)
			require.NoFileExists(t, s.layout.endsOwedPath())
			aside := rocksMark(s).SetAside
			require.NoError(t, s.Close())
			require.NoFileExists(t, s.layout.AbortPath())
			requireWhole(t, root, o)
			st, err := ReadStatus(root, o)
			require.NoError(t, err)
			require.Equal(t, []string{aside}, st.SetAside)
		})
	}
}

// A queue whose records have all expired goes on at its max in a database that takes the place of a damaged one, also one that RocksDB alone knows.
func TestFRF12ReplacedRocksDBKeepsEndsOfExpiredQueues(t *testing.T) {
	needRocksDB(t)
	both := smallCaches(combineOptions())
	both.CombineCQUseRocksdbForLmq = true
	for name, o := range map[string]Options{"combined": both, "alone": smallCaches(viewOptions(StoreTypeRocksDB))} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			s := openStore(t, root, only(o, StoreTypeRocksDB)) // files have nothing of it, and nobody notes it
			for range 7 {
				m := plainMessage("Old", "body")
				m.Properties = message.AppendProperty(nil, message.PropertyMultiDispatch, "%LMQ%old")
				_, err := s.Put(t.Context(), m)
				require.NoError(t, err)
			}
			putSome(t, s, 200)
			require.NoError(t, s.Close())
			require.NoError(t, os.Remove(filepath.Join(NewLayout(root).CommitLogDir(), "00000000000000000000")))
			s = openStore(t, root, o)
			require.NoError(t, s.awaitViews(t.Context()))
			damageBlocks(t, s)
			mergeBlocks(s)
			putSome(t, s, 1)
			awaitReplaced(t, s)
			for _, k := range []cq.Key{{Topic: "Old"}, {Topic: "%LMQ%old"}} {
				require.EqualValues(t, 7, s.NextOffset(k.Topic, 0))
				requireEnd(t, s.views.replaceable(), k, 7)
			}
			require.EqualValues(t, 201, s.NextOffset("T", 1))
			r, err := s.Put(t.Context(), plainMessage("Old", "another"))
			require.NoError(t, err)
			require.EqualValues(t, 7, r.Append.QueueOffset)
			awaitDispatch(t, s)
			require.Equal(t, []int64{7}, readHoled(t, s, "Old", 0, 7))
			require.NoError(t, s.Close())
		})
	}
}

// stepFS tells of files that are renamed out of a directory.
type stepFS struct {
	mmap.FS
	dir    string
	before func(name string)
}

func (f *stepFS) Rename(from, to string) error {
	if filepath.Dir(from) == f.dir && IsRocksFile(filepath.Base(from)) {
		f.before(filepath.Base(from))
	}
	return f.FS.Rename(from, to)
}

// Killed at any moment of a replacement the store opens, in any way, and has everything.
func TestFRF12ReplacementIsKilled(t *testing.T) {
	needRocksDB(t)
	both := smallCaches(combineOptions())
	both.CombineCQPreferCQType, both.CombineAssignOffsetCQType = StoreTypeRocksDB, StoreTypeRocksDB
	both.CombineCQUseRocksdbForLmq = true
	for name, o := range map[string]Options{"combined": both, "alone": smallCaches(viewOptions(StoreTypeRocksDB))} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			var copies []string
			var harmed bool
			kill := func(when string) {
				if harmed && !slices.ContainsFunc(copies, func(c string) bool { return strings.HasPrefix(c, when+"=") }) {
					copies = append(copies, when+"="+crash(t, root))
				}
			}
			og := o
			og.rebuildStep = func(int64) { kill("filling") }
			s := newStore(og)
			s.layout, s.rebuildBytes = NewLayout(root), 2000
			s.fs = &stepFS{FS: mmap.OS, dir: s.layout.RocksDir(RocksShared), before: func(name string) {
				kill("moving " + strings.TrimRight(name, "0123456789.st")) // CURRENT first, then the others
			}}
			require.NoError(t, s.open())
			putSome(t, s, 150)
			require.NoError(t, s.awaitViews(t.Context()))
			damageBlocks(t, s)
			harmed = true
			mergeBlocks(s)
			putSome(t, s, 1)
			awaitReplaced(t, s)
			copies = append(copies, "replaced="+crash(t, root))
			require.NoError(t, s.Close())
			require.Greater(t, len(copies), 4, "%v", copies)
			for i, c := range copies {
				when, at, _ := strings.Cut(c, "=")
				reopen := []Options{o}
				if name == "combined" && i%2 == 1 { // RocksDB alone is refused before it has what files have
					reopen = []Options{o, only(o, StoreTypeRocksDB)}
				}
				for _, o := range reopen {
					s := openStore(t, at, o)
					for _, k := range []cq.Key{{Topic: "T"}, {Topic: "T", QueueID: 1}} {
						require.EqualValues(t, 151, s.NextOffset(k.Topic, k.QueueID), when)
					}
					require.NoError(t, s.awaitViews(t.Context()), when)
					require.Len(t, readAll(t, s, "T", 1), 151, when)
					require.Len(t, readAll(t, s, "%LMQ%b1", 0), 51, when)
					require.NoError(t, s.Close(), when)
					requireWhole(t, at, only(o, StoreTypeRocksDB))
				}
			}
		})
	}
}

// With queueDamagePolicy=refuse, and from the fourth time on, damage stays what it is.
func TestFRF12DamageThatStays(t *testing.T) {
	needRocksDB(t)
	for _, often := range []bool{false, true} {
		t.Run(fmt.Sprintf("often=%v", often), func(t *testing.T) {
			o := smallCaches(combineOptions())
			o.CombineCQPreferCQType = StoreTypeRocksDB
			if !often {
				o.QueueDamagePolicy = QueueDamageRefuse
			}
			root := t.TempDir()
			s := openCombined(t, root, o)
			putSome(t, s, 100)
			awaitSides(t, s)
			for range maxReplaced {
				if often {
					damageBlocks(t, s)
					s.replacing.mu.Lock()
					s.replacing.mu.to = ""
					s.replacing.mu.Unlock()
					mergeBlocks(s)
					putSome(t, s, 1)
					awaitReplaced(t, s)
				}
			}
			damageBlocks(t, s)
			mergeBlocks(s)
			putSome(t, s, 1)
			require.Eventually(t, func() bool { return s.views.sides.store.Failure(cq.KindRocks) != nil }, 20*time.Second, time.Millisecond)
			awaitDispatch(t, s)
			require.Len(t, readAll(t, s, "T", 1), int(s.NextOffset("T", 1)), "files serve")
			require.False(t, s.replacing.now())
			require.NotEmpty(t, rocksMark(s).Failure)
			require.ErrorContains(t, s.Close(), "was given up")
		})
	}
}

// The files of RocksDB are removed under a store that serves: what a flush finds out is dealt with as damage is.
func TestFRF12FilesOfRocksDBAreRemovedWhileServing(t *testing.T) {
	needRocksDB(t)
	for name, o := range map[string]Options{"combined": combineOptions(), "alone": viewOptions(StoreTypeRocksDB)} {
		t.Run(name, func(t *testing.T) {
			o := smallCaches(o)
			o.UseSeparateStorePathForRocksdbCQ = true
			root := t.TempDir()
			s := openStore(t, root, o)
			putSome(t, s, 50)
			require.NoError(t, s.awaitViews(t.Context()))
			require.NoError(t, os.RemoveAll(rocksDir(t, root)))
			putSome(t, s, 50)
			awaitDispatch(t, s)
			_ = s.views.flush(t.Context())
			require.Eventually(t, func() bool {
				return !s.replacing.owed() && s.views.compared() && s.views.sides.lacking() == nil && s.views.behind() == 0 && rocksMark(s).Durable > 0
			}, 20*time.Second, time.Millisecond)
			require.NoError(t, s.views.flush(t.Context()))
			require.Len(t, readAll(t, s, "T", 1), 100)
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
		})
	}
}
