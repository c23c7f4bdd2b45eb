package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/internal/logtest"
	"github.com/tandemq/tandemmq/message"
)

// viewKinds are the stores of consume queues.
var viewKinds = []StoreType{StoreTypeFile, StoreTypeRocksDB}

func (t StoreType) kind() cq.Kind {
	if t == StoreTypeRocksDB {
		return cq.KindRocks
	}
	return cq.KindFile
}

// viewOptions are small: log files of 16 KiB, queue files of 50 units.
func viewOptions(t StoreType) Options {
	o := putOptions()
	o.BuildConsumeQueues = true
	o.MappedFileSizeCommitLog = 16 << 10
	o.MappedFileSizeConsumeQueue = 1000
	o.StoreType = t
	o.EnableLmq, o.EnableMultiDispatch = true, true
	o.MaxHashSlotNum, o.MaxIndexNum = 100, 400
	return o
}

// forEachKind runs a test over files, RocksDB and both.
func forEachKind(t *testing.T, test func(t *testing.T, o Options)) {
	forEachSide(t, test)
	t.Run(string(cq.KindCombine), func(t *testing.T) {
		needRocksDB(t)
		test(t, combineOptions())
	})
}

// forEachSide runs a test over files and RocksDB.
func forEachSide(t *testing.T, test func(t *testing.T, o Options)) {
	for _, k := range viewKinds {
		t.Run(string(k.kind()), func(t *testing.T) {
			if k == StoreTypeRocksDB {
				needRocksDB(t)
			}
			test(t, viewOptions(k))
		})
	}
}

// combineOptions are those of viewOptions for a combined store.
func combineOptions() Options {
	o := viewOptions(StoreTypeFile)
	o.RocksdbCQDoubleWriteEnable = true
	return o
}

// eachSide returns the options with which each of the sides is read alone.
func eachSide(o Options) (list []Options) {
	if !o.RocksdbCQDoubleWriteEnable {
		return []Options{o}
	}
	for _, t := range viewKinds {
		one := o
		one.StoreType, one.RocksdbCQDoubleWriteEnable = t, false
		list = append(list, one)
	}
	return list
}

// needRocksDB skips a test in a binary without it.
func needRocksDB(t *testing.T) {
	t.Helper()
	if _, err := rocks.Open(t.TempDir(), rocks.Options{Create: true}); errors.Is(err, cq.ErrNoRocksDB) {
		t.Skip("built without cgo: no RocksDB")
	}
}

func openStore(t *testing.T, root string, o Options) *Store {
	t.Helper()
	s, err := Open(root, o)
	require.NoError(t, err)
	return s
}

// putSome puts n messages onto each of some queues; every third is also dispatched to light queues.
func putSome(t *testing.T, s *Store, n int) {
	t.Helper()
	for i := range n {
		for _, q := range []int32{0, 1} {
			m := plainMessage("T", fmt.Sprintf("body %d", i))
			m.QueueID = q
			m.Properties = message.AppendProperty(nil, message.PropertyTags, fmt.Sprintf("tag%d", i%3))
			if i%3 == 0 {
				m.Properties = message.AppendProperty(m.Properties, message.PropertyMultiDispatch, fmt.Sprintf("%%LMQ%%a,%%LMQ%%b%d", q))
			}
			_, err := s.Put(t.Context(), m)
			require.NoError(t, err)
		}
	}
}

// awaitDispatch waits until the queues are at the end of the log, and whole.
func awaitDispatch(t *testing.T, s *Store) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.views.view.mu.Lock()
		defer s.views.view.mu.Unlock()
		return s.views.behind() == 0 && len(s.views.view.mu.broken) == 0
	}, 20*time.Second, time.Millisecond)
}

// requireWhole opens what is on disk and checks that the queues hold a unit for each record that owes one, and no other.
func requireWhole(t *testing.T, root string, o Options) {
	t.Helper()
	for _, o := range eachSide(o) {
		v, err := OpenView(root, ViewOptions{Kind: o.StoreType.kind()})
		require.NoError(t, err)
		requireAgree(t, v.Log, v.Queues, o)
		require.NoError(t, v.Close())
	}
}

func requireAgree(t *testing.T, log *commitlog.Log, queues cq.Reader, o Options) {
	t.Helper()
	want := map[cq.Key][]cq.Unit{}
	first := map[cq.Key]int64{}
	parse := newQueueView(nopStore{kind: o.StoreType.kind()}, message.DefaultDelayLevels(), true, func(string) bool { return false }, nil)
	s := log.Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
	defer s.Close()
	for s.Next() {
		parse.add(s.Record())
		for _, e := range parse.entries {
			if _, ok := first[e.Key]; !ok {
				first[e.Key] = e.QueueOffset
			}
			require.Equal(t, first[e.Key]+int64(len(want[e.Key])), e.QueueOffset, "%s", e.Key)
			want[e.Key] = append(want[e.Key], e.Unit)
		}
		parse.entries = parse.entries[:0]
	}
	require.NoError(t, s.Err())
	keys, err := cq.SortedKeys(queues)
	require.NoError(t, err)
	require.Len(t, keys, len(want))
	for k, units := range want {
		q, ok := queues.Queue(k)
		require.True(t, ok, "%s", k)
		b, err := q.Bounds()
		require.NoError(t, err)
		require.Equal(t, first[k]+int64(len(units)), b.Max, "%s", k)
		got := make([]cq.Unit, len(units))
		for n := 0; n < len(got); {
			m, err := q.Read(first[k]+int64(n), got[n:])
			require.NoError(t, err)
			require.NotZero(t, m, "%s slot %d", k, first[k]+int64(n))
			n += m
		}
		for i := range units {
			if o.StoreType.kind() == cq.KindFile {
				units[i].StoreTimestampMs = cq.NoTimestamp
			}
			if queues.Kind() == cq.KindCombine { // from either side
				got[i].StoreTimestampMs = units[i].StoreTimestampMs
			}
			require.Equal(t, units[i], got[i], "%s slot %d", k, first[k]+int64(i))
		}
	}
}

// nopStore is a kind and nothing else.
type nopStore struct {
	cq.Store
	kind cq.Kind
}

func (s nopStore) Kind() cq.Kind { return s.kind }

func TestQueuesFollowTheLog(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		for round := range 3 {
			s := openStore(t, root, o)
			require.Equal(t, int64(round*100), s.NextOffset("T", 0))
			require.Equal(t, int64(round*68), s.NextOffset("%LMQ%a", 0))
			putSome(t, s, 100)
			awaitDispatch(t, s)
			requireAgree(t, s.Log(), s.views.queues, o)
			require.NoError(t, s.Close())
			require.NoFileExists(t, NewLayout(root).AbortPath())
			requireWhole(t, root, o)
			o.FlushDiskType = [...]FlushDiskType{SyncFlush, AsyncFlush, SyncFlush}[round]
		}
	})
}

// crash copies the store as a kill would leave it. Files come and go meanwhile, those of RocksDB and those that are written beside what they replace: a copy counts when the same
// files were there before and after it, and none went while it was made.
func crash(t *testing.T, root string) string {
	t.Helper()
	for try := 0; ; try++ {
		before, rocks, dir := listTree(root), lengthsOfRocks(t, root), t.TempDir()
		err := os.CopyFS(dir, os.DirFS(root))
		if err == nil && slices.Equal(before, listTree(root)) && maps.Equal(rocks, lengthsOfRocks(t, root)) {
			return dir
		}
		require.Less(t, try, 1000, "%v", err)
	}
}

// listTree lists the files below root.
func listTree(root string) (names []string) {
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, path)
		}
		return nil
	})
	return names
}

func TestQueuesAfterAKill(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		putSome(t, s, 50)
		awaitDispatch(t, s)
		require.NoError(t, s.views.flush(context.Background()))
		putSome(t, s, 50)
		awaitDispatch(t, s)
		copied := crash(t, root)
		require.NoError(t, s.Close())
		require.FileExists(t, NewLayout(copied).AbortPath())
		s = openStore(t, copied, o)
		require.Equal(t, int64(100), s.NextOffset("T", 1))
		putSome(t, s, 5)
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(copied).AbortPath())
		requireWhole(t, copied, o)
	})
}

// TestW15LostQueuesAreBuiltAgain takes queues away from a store that was stopped in order: all of them, from the first record on.
func TestW15LostQueuesAreBuiltAgain(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		putSome(t, s, 900) // more than 10 log files
		require.NoError(t, s.Close())
		require.Greater(t, s.openedFiles(), 10)
		require.NoError(t, os.RemoveAll(NewLayout(root).ConsumeQueueDir()))
		s = openStore(t, root, o)
		require.Equal(t, int64(900), s.NextOffset("T", 0))
		require.NoError(t, s.Close())
		requireWhole(t, root, o)
	})
}

// openedFiles counts the files of the log.
func (s *Store) openedFiles() int {
	entries, err := os.ReadDir(s.layout.CommitLogDir())
	if err != nil {
		return 0
	}
	return len(entries)
}

// TestW12QueueWithAGapIsMended takes the end of one queue away, and another queue whole, in a store that was stopped in order. The next message
// to them finds that out.
func TestW12QueueWithAGapIsMended(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	s := openStore(t, root, o)
	putSome(t, s, 120)
	require.NoError(t, s.Close())
	dir := NewLayout(root).ConsumeQueueDir()
	require.NoError(t, os.Remove(filepath.Join(dir, "T", "0", fmt.Sprintf("%020d", 2000))))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "%LMQ%b1")))
	s = openStore(t, root, o)
	require.Equal(t, int64(120), s.NextOffset("T", 0), "the log knows, whatever is left of the queue")
	_, err := s.Put(t.Context(), plainMessage("U", "other queues go on"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	requireWhole(t, root, o)
}

// plainMessage is a message with a body.
func plainMessage(topic, body string) *message.Message {
	m := newMessage(topic)
	m.Body = []byte(body)
	m.Properties = nil
	return m
}

// TestPutsWaitForQueuesFarBehind holds dispatch up: puts are refused while the queues are too far behind, and taken again when they are not.
func TestPutsWaitForQueuesFarBehind(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.MaxDispatchBehindBytes = 4096
	o.OsPageCacheBusyTimeOutMills = 20 * time.Millisecond
	s := openStore(t, t.TempDir(), o)
	s.views.view.mu.Lock() // nothing can be delivered
	var err error
	for n := 0; n < 1000 && err == nil; n++ {
		_, err = s.Put(t.Context(), plainMessage("T", "body"))
	}
	require.ErrorIs(t, err, PutOSPageCacheBusy)
	require.ErrorContains(t, err, "maxDispatchBehindBytes is 4096")
	require.Greater(t, s.Watermarks().Appended, int64(4096))
	s.views.view.mu.Unlock()
	awaitDispatch(t, s)
	_, err = s.Put(t.Context(), plainMessage("T", "body"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// TestSlotTakenTwiceIsCounted: of two records with one slot the first keeps it, the other is counted, and what follows is dispatched.
func TestSlotTakenTwiceIsCounted(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		putSome(t, s, 3)
		awaitDispatch(t, s)
		s.offsets.Lock(s.offsets.Stripe("T", 0))
		*s.offsets.rowLocked(s.offsets.Stripe("T", 0), "T", 0) = 1 // what 5.5.0 does to itself
		s.offsets.Unlock(s.offsets.Stripe("T", 0))
		for range 3 { // slots 1 and 2 again, then 3
			_, err := s.Put(t.Context(), plainMessage("T", "again"))
			require.NoError(t, err)
		}
		awaitDispatch(t, s)
		m := s.Watermarks().Views[s.views.view.name()]
		require.Equal(t, int64(2), m.Conflicts)
		require.Empty(t, m.Failure)
		q, ok := s.views.queues.Queue(cq.Key{Topic: "T"})
		require.True(t, ok)
		b, err := q.Bounds()
		require.NoError(t, err)
		require.Equal(t, int64(4), b.Max)
		require.NoError(t, s.Close())
	})
}

// TestFRB07PoisonDoesNotStopDispatch: one record that a view cannot take is counted, and the others are delivered.
func TestFRB07PoisonDoesNotStopDispatch(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	s := openStore(t, t.TempDir(), o)
	v := &poisoned{view: s.views.view, at: 5}
	f := newFollower(v, s.Log(), s.logger, 0)
	for range 10 {
		_, err := s.Put(t.Context(), plainMessage("T", "body"))
		require.NoError(t, err)
	}
	awaitDispatch(t, s)
	require.NoError(t, f.catchUp(t.Context(), s.Positions().Confirm, nil))
	require.Equal(t, int64(1), f.poison.Load())
	require.Equal(t, 9, v.got)
	require.NoError(t, s.Close())
}

// poisoned is a view that panics over one record.
type poisoned struct {
	view
	at, n, got int
}

func (p *poisoned) add(*message.Record) {
	if p.n++; p.n == p.at {
		panic("cannot take it")
	}
	p.got++
}

func (p *poisoned) turn() batch { return nil }

func (p *poisoned) deliver(context.Context, batch, int64) error { return nil }

// TestFRB11HoleInTheLog damages a record in the middle of a log: what lies behind it is dispatched, and what was stepped over is told.
func TestFRB11HoleInTheLog(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	s := openStore(t, root, o)
	putSome(t, s, 200)
	require.NoError(t, s.Close())
	path := filepath.Join(NewLayout(root).CommitLogDir(), fmt.Sprintf("%020d", o.MappedFileSizeCommitLog))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	copy(b[4:], "????") // the magic of the file's first record
	require.NoError(t, os.WriteFile(path, b, 0o644))
	log, err := commitlog.Open(NewLayout(root).CommitLogDir(), commitlog.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	v := new(counted)
	f := newFollower(v, log, s.logger, 0)
	require.NoError(t, f.catchUp(t.Context(), s.Positions().Confirm, nil))
	require.Equal(t, 399, v.got)
	require.Positive(t, f.holes.Load())
}

// counted is a view that counts.
type counted struct{ got int }

func (*counted) name() string                                { return "counted" }
func (c *counted) add(*message.Record)                       { c.got++ }
func (*counted) turn() batch                                 { return nil }
func (*counted) deliver(context.Context, batch, int64) error { return nil }

// TestIndexFollowsTheLog finds each message by its key, also after a kill, and after the index was taken away.
func TestIndexFollowsTheLog(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	n := 0
	put := func(s *Store, more int) {
		for range more {
			m := plainMessage("T", "body")
			m.Properties = message.AppendProperty(nil, message.PropertyKeys, fmt.Sprintf("key%d", n))
			_, err := s.Put(t.Context(), m)
			require.NoError(t, err)
			n++
		}
	}
	requireFound := func(s *Store) {
		require.Eventually(t, func() bool { return indexBehind(s) == 0 }, 20*time.Second, time.Millisecond)
		for i := range n {
			a, err := s.views.index.index.Query(index.Query{Topic: "T", Key: fmt.Sprintf("key%d", i), Max: 10, EndMs: math.MaxInt64}, func(phy int64) bool {
				var r message.Record
				release, err := s.Log().Read(phy, 0, true, &r)
				require.NoError(t, err)
				defer release()
				keys, _ := r.Property(message.PropertyKeys)
				return string(keys) == fmt.Sprintf("key%d", i)
			})
			require.NoError(t, err)
			require.Len(t, a.PhyOffsets, 1, "key%d", i)
		}
	}
	s := openStore(t, root, o)
	put(s, 500)
	requireFound(s)
	copied := crash(t, root)
	require.NoError(t, s.Close())
	for _, lose := range []func(root string) error{
		func(string) error { return nil },
		func(root string) error { return os.RemoveAll(NewLayout(root).IndexDir()) },
	} {
		for _, root := range []string{copied, root} {
			require.NoError(t, lose(root))
			s := openStore(t, root, o)
			before := n
			put(s, 50)
			requireFound(s)
			n = before // each store has its own
			require.NoError(t, s.Close())
			require.NoFileExists(t, NewLayout(root).AbortPath())
			requireWhole(t, root, o)
		}
		n += 50
	}
}

// TestStoreGoesOnWithoutItsIndex opens a store whose index cannot be opened.
func TestStoreGoesOnWithoutItsIndex(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	require.NoError(t, os.WriteFile(NewLayout(root).IndexDir(), nil, 0o600)) // a file in its place
	s := openStore(t, root, o)
	putSome(t, s, 10)
	awaitDispatch(t, s)
	require.NotContains(t, s.Watermarks().Views, "index")
	require.NoError(t, s.Close())
	requireWhole(t, root, o)
}

// TestBatchQueuesGoOn: no store of queues has batch queues, so what comes next in them is known by the log alone.
func TestBatchQueuesGoOn(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		o.IsBatchTopic = func(topic string) bool { return topic == "Batch" }
		root := t.TempDir()
		put := func(s *Store) {
			m := newMessage("Batch")
			m.Body = batchBody(t, 5)
			m.Properties = props("UNIQ_KEY", "u")
			_, err := s.PutBatch(t.Context(), m)
			require.NoError(t, err)
			_, err = s.Put(t.Context(), plainMessage("Batch", "one more"))
			require.NoError(t, err)
			_, err = s.Put(t.Context(), plainMessage("T", "another queue"))
			require.NoError(t, err)
		}
		for round := range int64(3) {
			s := openStore(t, root, o)
			require.Equal(t, 6*round, s.NextOffset("Batch", 0))
			put(s)
			if round == 1 { // killed
				awaitDispatch(t, s)
				copied := crash(t, root)
				require.NoError(t, s.Close())
				root = copied
				continue
			}
			require.NoError(t, s.Close())
			require.FileExists(t, NewLayout(root).AbortPath(), "RocketMQ has to make the units")
		}
	})
}

// TestLightOffsetsWithoutUnitsGoOn: with enableLmq alone, file queues get no units of light queues, and their offsets are known by the log.
func TestLightOffsetsWithoutUnitsGoOn(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.EnableMultiDispatch = false
	root := t.TempDir()
	for round := range int64(3) {
		s := openStore(t, root, o)
		require.Equal(t, 2*round, s.NextOffset("%LMQ%a", 0))
		for range 2 {
			_, err := s.Put(t.Context(), lightMessage("%LMQ%a"))
			require.NoError(t, err)
		}
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(root).AbortPath())
	}
}

// TestLogIsReadForBatchTopicsAlone: a store of RocksDB queues that was closed in order is opened without the log being read, unless there are topics of batch queues, which
// only the log knows of.
func TestLogIsReadForBatchTopicsAlone(t *testing.T) {
	needRocksDB(t)
	for name, c := range map[string]struct {
		has  func() bool
		read bool
	}{"there are none": {func() bool { return false }, false}, "there are": {func() bool { return true }, true}, "nobody knows": {nil, true}} {
		t.Run(name, func(t *testing.T) {
			root, o := t.TempDir(), viewOptions(StoreTypeRocksDB)
			s := openStore(t, root, o)
			putSome(t, s, 10)
			require.NoError(t, s.Close())
			var told logtest.Log
			o.Logger = told.Logger()
			o.IsBatchTopic, o.HasBatchTopics = func(string) bool { return false }, c.has
			require.NoError(t, openStore(t, root, o).Close())
			require.Equal(t, c.read, strings.Contains(told.String(), "the log is read for the offsets of its queues"), told.String())
		})
	}
}
