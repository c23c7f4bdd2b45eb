package store

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// told counts what is logged, by message.
type told struct {
	mu sync.Mutex
	n  map[string]int
}

func (*told) Enabled(context.Context, slog.Level) bool { return true }
func (h *told) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h *told) WithGroup(string) slog.Handler          { return h }

func (h *told) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n == nil {
		h.n = make(map[string]int)
	}
	h.n[r.Message]++
	return nil
}

// times returns how often a message was logged that has text in it.
func (h *told) times(text string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for m, times := range h.n {
		if strings.Contains(m, text) {
			n += times
		}
	}
	return n
}

// putDispatched appends a record of topic T, and of light queues, as RocketMQ may have written it: no put would take these names.
func putDispatched(t *testing.T, s *Store, slot int64, light []string) {
	t.Helper()
	m := newMessage("T")
	phy := s.Positions().Wrote
	m.QueueOffset, m.PhyOffset, m.StoreTimestampMs = slot, phy, 1_700_000_000_000+slot
	slots := make([]string, len(light))
	for i := range slots {
		slots[i] = strconv.FormatInt(slot, 10)
	}
	m.Properties = props(message.PropertyMultiDispatch, strings.Join(light, ","), message.PropertyMultiQueueOffset, strings.Join(slots, ","))
	b, err := m.AppendTo(nil)
	require.NoError(t, err)
	require.NoError(t, s.writer.AppendRaw(phy, b))
}

var (
	slashName = cq.LMQPrefix + "a/b"
	nulName   = cq.LMQPrefix + "n\x00l"
	longName  = cq.LMQPrefix + strings.Repeat("x", 300)
	goodName  = cq.LMQPrefix + "good"
	oddNames  = []string{slashName, goodName, nulName, longName}
)

func putOdd(t *testing.T, s *Store, from, to int64) {
	t.Helper()
	for i := from; i < to; i++ {
		putDispatched(t, s, i, oddNames)
	}
}

// requireOdd checks what a store has that got n records of putOdd.
func requireOdd(t *testing.T, s *Store, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return s.views.behind() == 0 && s.views.compared() }, 20*time.Second, time.Millisecond)
	for _, topic := range append([]string{"T"}, oddNames...) {
		kept := topic != longName && (s.views.queues.Kind() != cq.KindFile || topic == "T" || topic == goodName)
		q, ok := s.views.queues.Queue(cq.Key{Topic: topic})
		require.Equal(t, kept, ok, "%q", topic)
		if kept {
			b, err := q.Bounds()
			require.NoError(t, err)
			require.Equal(t, [2]int64{0, n}, [2]int64{b.Min, b.Max}, "%q", topic)
		}
	}
	require.Zero(t, s.views.view.brokenNow.Load())
}

// TestF11NamesThatNoQueueCanHave: what belongs to such a queue is passed over, counted, and told once; nothing else waits for it, nor is the log read for it again and again.
func TestF11NamesThatNoQueueCanHave(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		refused := map[cq.Kind]int{cq.KindFile: 3, cq.KindRocks: 1, cq.KindCombine: 1}
		log := new(told)
		o.Logger, o.MessageIndexEnable = slog.New(log), false
		root := t.TempDir()
		s := openStore(t, root, o)
		n := refused[s.views.queues.Kind()]
		putOdd(t, s, 0, 5)
		requireOdd(t, s, 5)
		require.EqualValues(t, 5*n, s.views.view.unsupported.Load())
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(root).AbortPath())
		require.Equal(t, n, log.times("its name is refused"))

		s = openStore(t, root, o)
		requireOdd(t, s, 5)
		putOdd(t, s, 5, 9)
		requireOdd(t, s, 9)
		require.EqualValues(t, 4*n, s.views.view.unsupported.Load())
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(root).AbortPath())
		require.Zero(t, log.times("built again"), "%v", log.n)
	})
}

// A queue whose name is refused is not built again for ever, by whomever it was found missing.
func TestF11MendingGivesNamesUp(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		o.MessageIndexEnable = false
		root := t.TempDir()
		s := openStore(t, root, o)
		putOdd(t, s, 0, 5)
		requireOdd(t, s, 5)
		v := s.views.view
		v.mu.Lock()
		clear(v.mu.barred)
		v.breakLocked(cq.Key{Topic: longName}, errLost)
		v.mu.Unlock()
		require.NoError(t, v.mend(t.Context(), s.Log()))
		requireOdd(t, s, 5)
		require.Error(t, v.mu.barred[cq.Key{Topic: longName}])
		if d := s.views.sides; d != nil {
			k := cq.Key{Topic: slashName}
			d.gaveUp.Lock()
			delete(d.gaveUp.keys[indexOf(cq.KindFile)], k)
			d.gaveUp.Unlock()
			d.store.Heal(cq.KindFile, k)
			d.store.MarkDiverged(cq.KindFile, k, errLost)
			require.NoError(t, d.mend(t.Context()))
			require.True(t, d.hasGivenUp(cq.KindFile, k))
			require.NoError(t, d.lacking(), "it is nothing that the side could have")
		}
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(root).AbortPath())
	})
}

// A side that is filled from the log passes over what its names do not allow.
func TestF11FilledSideGivesNamesUp(t *testing.T) {
	needRocksDB(t)
	root := t.TempDir()
	o := combineOptions()
	o.MessageIndexEnable, o.MappedFileSizeCommitLog = false, 64<<10
	s := openStore(t, root, only(o, StoreTypeRocksDB))
	putOdd(t, s, 0, 40)
	requireOdd(t, s, 40)
	require.NoError(t, s.Close())
	s = openCombined(t, root, o)
	require.Equal(t, cq.KindFile, s.views.sides.heldKind())
	awaitSides(t, s)
	requireOdd(t, s, 40)
	require.True(t, s.views.sides.store.IsDiverged(cq.KindFile, cq.Key{Topic: slashName}))
	require.False(t, s.views.sides.store.IsDiverged(cq.KindFile, cq.Key{Topic: goodName}))
	putOdd(t, s, 40, 45)
	requireOdd(t, s, 45)
	require.NoError(t, s.Close())
	require.NoFileExists(t, NewLayout(root).AbortPath())
}

// TestF22TopicsCalledAsFilesOfRocksDB: with both stores in one directory their queues cannot be kept in files; RocksDB has them, and they are read from there.
func TestF22TopicsCalledAsFilesOfRocksDB(t *testing.T) {
	needRocksDB(t)
	root := t.TempDir()
	log := new(told)
	o := combineOptions()
	o.MessageIndexEnable, o.Logger = false, slog.New(log)
	o.UseSeparateStorePathForRocksdbCQ = false
	names := []string{"CURRENT", "LOCK", "LOG", "IDENTITY", "MANIFEST-000009", "OPTIONS-000011", "T"} // the numbers are those that the openings below come to
	for round := range 3 {
		s := openStore(t, root, o)
		require.FileExists(t, filepath.Join(NewLayout(root).ConsumeQueueDir(), "CURRENT"))
		for _, topic := range names {
			require.EqualValues(t, round, s.NextOffset(topic, 0))
			_, err := s.Put(t.Context(), plainMessage(topic, "body"))
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return s.views.behind() == 0 && s.views.compared() }, 20*time.Second, time.Millisecond)
		for _, topic := range names {
			require.Len(t, readAll(t, s, topic, 0), round+1, topic)
			require.Equal(t, topic == "T", isDir(filepath.Join(NewLayout(root).ConsumeQueueDir(), topic)), topic)
		}
		require.NoError(t, s.views.sides.lacking())
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(root).AbortPath())
	}
	require.Zero(t, log.times("built again"), "%v", log.n)
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// TestF22RocksDBAmongSuchTopics: where files have such queues already, a RocksDB is not made or opened among them, which would move the queues of a topic LOG away. In a
// directory of its own it has them too.
func TestF22RocksDBAmongSuchTopics(t *testing.T) {
	needRocksDB(t)
	for _, topic := range []string{"LOG", "CURRENT", "MANIFEST-000005", "OPTIONS-000007"} {
		t.Run(topic, func(t *testing.T) {
			root := t.TempDir()
			o := combineOptions()
			o.MessageIndexEnable = false
			s := openStore(t, root, only(o, StoreTypeFile))
			_, err := s.Put(t.Context(), plainMessage(topic, "body"))
			require.NoError(t, err)
			require.NoError(t, s.Close())
			unit := filepath.Join(NewLayout(root).ConsumeQueueDir(), topic, "0", strings.Repeat("0", 20))
			require.FileExists(t, unit)
			shared := o
			shared.UseSeparateStorePathForRocksdbCQ = false
			for _, open := range []func() error{
				func() error { _, err := Open(root, shared); return err },
				func() error {
					_, err := Recover(t.Context(), root, RecoverOptions{Kind: cq.KindRocks, Create: true, Options: &shared})
					return err
				},
			} {
				err = open()
				var name *SharedNameError
				require.ErrorAs(t, err, &name)
				require.Equal(t, topic, name.Topic)
				require.ErrorContains(t, err, "useSeparateStorePathForRocksdbCQ=true")
				require.FileExists(t, unit)
			}
			o.UseSeparateStorePathForRocksdbCQ = true
			s = openCombined(t, root, o)
			awaitSides(t, s)
			require.Len(t, readAll(t, s, topic, 0), 1)
			for _, kind := range combinedKinds {
				require.False(t, s.views.sides.store.IsDiverged(kind, cq.Key{Topic: topic}))
			}
			require.NoError(t, s.Close())
		})
	}
}
