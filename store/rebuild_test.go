package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/internal/logtest"
	"github.com/tandemq/tandemmq/message"
)

// gate stops a rebuild until it is opened.
type gate struct {
	at   chan int64 // told where the rebuild stands, once for each step
	open chan struct{}
	once sync.Once
}

func newGate() *gate { return &gate{at: make(chan int64, 1000), open: make(chan struct{})} }

func (g *gate) step(phy int64) {
	g.at <- phy
	<-g.open
}

func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

// gated makes every rebuild an online one that stands at its beginning; skip lets so many steps pass.
func gated(o Options, skip int) (Options, *gate) {
	g := newGate()
	o.rebuildBytes = 1
	o.rebuildStep = func(phy int64) {
		if skip--; skip < 0 {
			g.step(phy)
		}
	}
	return o, g
}

// loseQueues removes all consume queues of a closed store.
func loseQueues(t *testing.T, root string) {
	t.Helper()
	l := NewLayout(root)
	for _, dir := range []string{l.ConsumeQueueDir(), l.RocksDir(RocksSeparate)} {
		require.NoError(t, os.RemoveAll(dir))
	}
}

// awaitReady waits until a store that is being rebuilt has everything.
func awaitReady(t *testing.T, s *Store) {
	t.Helper()
	require.Eventually(t, func() bool { return s.views.compared() && s.views.view.brokenNow.Load() == 0 && s.views.behind() == 0 }, 20*time.Second, time.Millisecond)
}

func filledStore(t *testing.T, o Options, n int) (root string) {
	t.Helper()
	root = t.TempDir()
	s := openStore(t, root, o)
	putSome(t, s, n)
	require.NoError(t, s.Close())
	return root
}

func TestRebuildServesAtOnce(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := filledStore(t, o, 100)
		loseQueues(t, root)
		og, g := gated(o, 0)
		og.MaxDispatchBehindBytes = 8 << 10 // less than what was lost
		s := openStore(t, root, og)
		defer g.release()
		k := cq.Key{Topic: "T", QueueID: 1}
		require.EqualValues(t, 100, s.NextOffset("T", 1))
		require.EqualValues(t, 68, s.NextOffset("%LMQ%a", 0))
		m := s.Watermarks().Views[s.views.view.name()]
		require.NotNil(t, m.Rebuilding)
		require.Equal(t, Rebuilding{From: 0, To: s.openedWith, Done: 0}, *m.Rebuilding)
		require.False(t, s.QueueReady(k))
		require.Equal(t, QueueState{Ready: false, Have: 0, Next: 100}, s.QueueState(k))
		require.ErrorIs(t, s.Get(&GetRequest{Topic: "T", QueueID: 1, Offset: 0, MaxMessages: 10}, new(GetResult)), ErrRebuilding)
		require.True(t, s.QueueReady(cq.Key{Topic: "nobody"}), "it has all units that it can have")
		for i := range 5 {
			for _, q := range []int32{0, 1} {
				m := plainMessage("T", "later")
				m.QueueID = q
				r, err := s.Put(t.Context(), m)
				require.NoError(t, err)
				require.EqualValues(t, 100+i, r.Append.QueueOffset)
			}
		}
		g.release()
		awaitReady(t, s)
		require.Nil(t, s.Watermarks().Views[s.views.view.name()].Rebuilding)
		require.Equal(t, QueueState{Ready: true, Have: 105, Next: 105}, s.QueueState(k))
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(root).AbortPath())
		require.NoFileExists(t, NewLayout(root).rebuildMarkPath())
		requireWhole(t, root, o)
	})
}

// bigStore has records for several steps of a rebuild.
func bigStore(t *testing.T, o Options) (root string) {
	t.Helper()
	root = t.TempDir()
	s := openStore(t, root, o)
	for i := range 3000 {
		m := plainMessage("T", "body")
		m.QueueID = int32(i % 3)
		_, err := s.Put(t.Context(), m)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	return root
}

// TestFRB08RebuildGoesOn: a rebuild that is killed, or whose store is closed, goes on where it was, on a store that begins without its queues at each open.
func TestFRB08RebuildGoesOn(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		o.MappedFileSizeCommitLog = 1 << 20
		for _, how := range []string{"kill", "close"} {
			t.Run(how, func(t *testing.T) {
				root := bigStore(t, o)
				loseQueues(t, root)
				og, g := gated(o, 2)
				defer g.release()
				s := openStore(t, root, og)
				at := <-g.at // it stands
				_, err := s.Put(t.Context(), plainMessage("T", "while it is built"))
				require.NoError(t, err)
				switch how {
				case "kill":
					require.NoError(t, s.views.flush(t.Context()))
					copied := crash(t, root)
					g.release()
					_ = s.Close() // stops it, or not
					root = copied
				case "close":
					ended := make(chan error)
					go func() { ended <- s.Close() }()
					<-s.views.stopped // Close has asked it to stop
					g.release()
					require.ErrorContains(t, <-ended, "being built from the log")
				}
				require.FileExists(t, NewLayout(root).AbortPath())
				og, g = gated(o, 0)
				defer g.release()
				s = openStore(t, root, og)
				require.GreaterOrEqual(t, <-g.at, at)
				require.GreaterOrEqual(t, s.views.rebuild.Load().from, at)
				require.Less(t, s.views.rebuild.Load().from, int64(200_000), "it is known how far the queues are")
				require.EqualValues(t, 1001, s.NextOffset("T", 0))
				g.release()
				awaitReady(t, s)
				require.NoError(t, s.Close())
				requireWhole(t, root, o)
			})
		}
	})
}

// TestRebuildOfAnExpiredBeginning: queues begin where the log does, all in one go.
func TestRebuildOfAnExpiredBeginning(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := filledStore(t, o, 200)
		require.NoError(t, os.Remove(filepath.Join(NewLayout(root).CommitLogDir(), "00000000000000000000")))
		loseQueues(t, root)
		og, g := gated(o, 0)
		var told logtest.Log
		og.Logger = told.Logger()
		s := openStore(t, root, og)
		require.EqualValues(t, 200, s.NextOffset("T", 1))
		g.release()
		awaitReady(t, s)
		require.Zero(t, s.views.view.gaps.Load())
		q, ok := s.views.queues.Queue(cq.Key{Topic: "T", QueueID: 1})
		require.True(t, ok)
		b, err := q.Bounds()
		require.NoError(t, err)
		require.Positive(t, b.Min)
		require.EqualValues(t, 200, b.Max)
		require.NoError(t, s.Close())
		require.NotContains(t, told.String(), "lacks units", "no queue is broken because of what has expired")
		requireWhole(t, root, o)
	})
}

// TestRebuildOfSomeFileQueues: single queues and topics, gone or damaged, come back while the store serves.
func TestRebuildOfSomeFileQueues(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	for name, harm := range map[string]func(dir string) error{
		"queue": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "T", "1")) },
		"topic": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "T")) },
		"file":  func(dir string) error { return os.Remove(filepath.Join(dir, "T", "1", fmt.Sprintf("%020d", 2000))) },
		"unit": func(dir string) error {
			path := filepath.Join(dir, "T", "1", fmt.Sprintf("%020d", 2000))
			b, err := os.ReadFile(path)
			if err == nil {
				clear(b[200:400])
				err = os.WriteFile(path, b, 0o644)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := filledStore(t, o, 150)
			require.NoError(t, harm(NewLayout(root).ConsumeQueueDir()))
			oo := o
			oo.rebuildBytes = 1
			s := openStore(t, root, oo)
			m := plainMessage("T", "while it is built")
			m.QueueID = 1
			r, err := s.Put(t.Context(), m)
			require.NoError(t, err)
			require.EqualValues(t, 150, r.Append.QueueOffset)
			awaitReady(t, s)
			require.True(t, s.QueueReady(cq.Key{Topic: "T", QueueID: 1}))
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
		})
	}
}

// TestMendingGoesOn: how far broken queues are built again is kept, and believed only where there is a queue.
func TestMendingGoesOn(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := filledStore(t, o, 100)
		s := openStore(t, root, o)
		v := s.views.view
		k := cq.Key{Topic: "T", QueueID: 1}
		v.onBroken = nil
		v.mu.Lock()
		v.breakLocked(k, errLost)
		v.mu.Unlock()
		f := v.filler(v.queues, s.Log())
		f.keys[k] = false
		require.NoError(t, v.saveMending(t.Context(), f, 12345))
		require.EqualValues(t, 12345, v.mendFrom(s.Log()))
		copied := crash(t, root)
		require.NoError(t, s.Close())

		again := func(change func()) int64 {
			if change != nil {
				change()
			}
			b := &views{s: newStore(o), queues: s.views.queues}
			b.s.layout = NewLayout(copied)
			q, err := b.s.openQueuesOf(t)
			require.NoError(t, err)
			defer func() { require.NoError(t, q.Close()) }()
			b.queues = q
			b.view = newQueueView(q, message.DefaultDelayLevels(), true, func(string) bool { return false }, b.s.logger)
			b.view.mu.delivered = 1 << 20
			require.NoError(t, b.loadBroken(false))
			require.EqualValues(t, 1, b.view.brokenNow.Load())
			return b.view.mu.mended[k]
		}
		require.EqualValues(t, 12345, again(nil))
		if o.StoreType == StoreTypeFile {
			require.Zero(t, again(func() { require.NoError(t, os.RemoveAll(filepath.Join(NewLayout(copied).ConsumeQueueDir(), "T", "1"))) }))
		}
		s = openStore(t, copied, o)
		awaitReady(t, s)
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(copied).brokenQueuesPath())
		requireWhole(t, copied, o)
	})
}

// openQueuesOf opens the queues of a store whose log is not open.
func (s *Store) openQueuesOf(t *testing.T) (cq.Store, error) {
	t.Helper()
	if s.o.StoreType == StoreTypeRocksDB {
		return s.openRocks(0)
	}
	return file.Open(s.layout.ConsumeQueueDir(), file.Options{FileSizeBytes: s.o.queueFileBytes()})
}

// TestFillerFillsAnotherStore: the units of all queues go into a store that nobody else feeds, while puts go on; at its end nothing is missing.
func TestFillerFillsAnotherStore(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := filledStore(t, o, 200)
		s := openStore(t, root, o)
		target, err := file.Open(t.TempDir(), file.Options{FileSizeBytes: 1000})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var putting sync.WaitGroup
		putting.Go(func() {
			for ctx.Err() == nil {
				_, err := s.Put(t.Context(), plainMessage("U", "meanwhile"))
				require.NoError(t, err)
			}
		})
		f := s.views.view.filler(target, s.Log())
		f.all = true
		var to int64
		f.done = func() error {
			to = s.views.view.mu.delivered // with dispatch held up
			return nil
		}
		require.NoError(t, f.run(t.Context()))
		cancel()
		putting.Wait()
		require.Equal(t, to, f.at.Load())
		for _, k := range []cq.Key{{Topic: "T"}, {Topic: "T", QueueID: 1}, {Topic: "%LMQ%a"}} {
			q, ok := target.Queue(k)
			require.True(t, ok, k)
			b, err := q.Bounds()
			require.NoError(t, err)
			require.Equal(t, s.NextOffset(k.Topic, k.QueueID), b.Max, k)
		}
		require.NoError(t, target.Close())
		require.NoError(t, s.Close())
	})
}

// TestFRF12DamagedRocksDBIsSetAside: whatever is wrong with the directory of RocksDB, the queues come back from the log, and nothing but its own files is moved.
func TestFRF12DamagedRocksDBIsSetAside(t *testing.T) {
	needRocksDB(t)
	glob := func(t *testing.T, dir, pattern string) string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, names)
		return names[0]
	}
	for name, harm := range map[string]func(t *testing.T, dir string){
		"CURRENT gone": func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "CURRENT"))) },
		"CURRENT nonsense": func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("MANIFEST-999999\n"), 0o644))
		},
		"MANIFEST gone": func(t *testing.T, dir string) { require.NoError(t, os.Remove(glob(t, dir, "MANIFEST-*"))) },
		"MANIFEST damaged": func(t *testing.T, dir string) {
			path := glob(t, dir, "MANIFEST-*")
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			for i := range b[:40] {
				b[i] ^= 0x5a
			}
			require.NoError(t, os.WriteFile(path, b, 0o644))
		},
		"SST gone":    func(t *testing.T, dir string) { require.NoError(t, os.Remove(glob(t, dir, "*.sst"))) },
		"SST damaged": func(t *testing.T, dir string) { require.NoError(t, os.Truncate(glob(t, dir, "*.sst"), 50)) },
	} {
		for _, separate := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/separate=%v", name, separate), func(t *testing.T) {
				o := viewOptions(StoreTypeRocksDB)
				o.UseSeparateStorePathForRocksdbCQ = separate
				root := filledStore(t, o, 60)
				l := NewLayout(root)
				dir, _, found, err := l.FindRocks()
				require.NoError(t, err)
				require.True(t, found)
				other := filepath.Join(dir, "T", "0", "00000000000000000000") // as of a file queue
				require.NoError(t, os.MkdirAll(filepath.Dir(other), 0o755))
				require.NoError(t, os.WriteFile(other, []byte("not RocksDB's"), 0o644))
				harm(t, dir)
				before := listTree(dir)

				refuse := o
				refuse.QueueDamagePolicy = QueueDamageRefuse
				_, err = Open(root, refuse)
				require.ErrorContains(t, err, "queueDamagePolicy")
				require.Subset(t, listTree(dir), before)
				require.NoDirExists(t, l.brokenDir())

				og, g := gated(o, 0)
				s := openStore(t, root, og)
				require.EqualValues(t, 60, s.NextOffset("T", 1))
				g.release()
				awaitReady(t, s)
				require.NoError(t, s.Close())
				requireWhole(t, root, o)
				b, err := os.ReadFile(other)
				require.NoError(t, err)
				require.Equal(t, "not RocksDB's", string(b))
				now, _, _, err := l.FindRocks()
				require.NoError(t, err)
				require.Equal(t, dir, now, "it is where it was")
				aside := listTree(l.brokenDir())
				require.NotEmpty(t, aside)
				for _, path := range aside {
					require.True(t, IsRocksFile(filepath.Base(path)), path)
					require.True(t, strings.HasPrefix(path, filepath.Join(l.brokenDir(), "rocksdb-1")), path)
				}
			})
		}
	}
}

// Recovery waits for queues to be built again, and builds them once, however much there is to build.
func TestRecoverBuildsLostQueuesAgain(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		putSome(t, s, 200)
		require.NoError(t, s.Close())
		loseQueues(t, root)
		o.rebuildBytes = 1
		rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o})
		require.NoError(t, err)
		require.Equal(t, rep.LogEnd, rep.Views[0].Dispatched)
		o.rebuildBytes = 0
		s = openStore(t, root, o)
		require.Nil(t, s.views.rebuild.Load())
		require.NoError(t, s.Close())
	})
}
