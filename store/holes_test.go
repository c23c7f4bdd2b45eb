package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// A slot in a file queue of viewOptions, 50 units to a file.
func harmSlot(t *testing.T, root string, id string, slot int, b []byte) {
	t.Helper()
	path := filepath.Join(NewLayout(root).ConsumeQueueDir(), "T", id, mappedfile.Name(int64(slot/50*1000)))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(b, int64(slot%50*unitBytes))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// slotBytes returns what a file queue has in a slot.
func slotBytes(t *testing.T, root string, id string, slot int) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(NewLayout(root).ConsumeQueueDir(), "T", id, mappedfile.Name(int64(slot/50*1000))))
	require.NoError(t, err)
	return b[slot%50*unitBytes:][:unitBytes]
}

var harms = map[string][]byte{
	"zeros":      make([]byte, unitBytes),
	"impossible": bytes.Repeat([]byte{0xff}, unitBytes),
}

// readPatiently reads a queue to its end, waiting while it is being built again. waited tells that it was.
func readPatiently(t *testing.T, s *Store, topic string, id int32) (list []string, waited bool) {
	t.Helper()
	var res GetResult
	defer res.Release()
	deadline := time.Now().Add(20 * time.Second)
	for at := int64(0); ; at = res.NextOffset {
		err := s.Get(&GetRequest{Topic: topic, QueueID: id, Offset: at, MaxMessages: 7}, &res)
		for ; errors.Is(err, ErrRebuilding) && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			waited = true
			err = s.Get(&GetRequest{Topic: topic, QueueID: id, Offset: at, MaxMessages: 7}, &res)
		}
		require.NoError(t, err)
		if res.Status == GetOffsetOverflowOne {
			return list, waited
		}
		list = append(list, bodies(t, &res)...)
	}
}

// A slot in the middle of a file queue that has lost its unit is not stepped over: in a combined store the other side has it, in files alone the queue is built again.
func TestHoleInAQueueIsNotSteppedOver(t *testing.T) {
	for name, harm := range harms {
		for _, kind := range []cq.Kind{cq.KindFile, cq.KindCombine} {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				o := viewOptions(StoreTypeFile)
				if kind == cq.KindCombine {
					needRocksDB(t)
					o = combineOptions()
				}
				root := filledStore(t, o, 150)
				harmSlot(t, root, "1", 20, harm)
				s := openStore(t, root, o)
				defer s.Close()
				list, waited := readPatiently(t, s, "T", 1)
				require.Len(t, list, 150)
				require.False(t, waited && kind == cq.KindCombine, "the other side has it at once")
				require.NoError(t, s.awaitViews(t.Context()))
				require.NoError(t, s.Close())
				requireWhole(t, root, o)
			})
		}
	}
}

// lateQueue is a queue whose slot has no unit when it is read first.
type lateQueue struct {
	cq.Queue
	slot  int64
	reads int
}

func (q *lateQueue) Read(from int64, dst []cq.Unit) (int, error) {
	if from <= q.slot && q.slot < from+int64(len(dst)) {
		if q.reads++; q.reads == 1 {
			if from == q.slot {
				return 0, nil
			}
			dst, q.reads = dst[:q.slot-from], 0
		}
	}
	return q.Queue.Read(from, dst)
}

// A slot that is filled just after it was read without a unit is read again: the log has been asked for it by then, but it did have something.
func TestHoleThatIsFilledMeanwhile(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := filledStore(t, o, 150)
	harmSlot(t, root, "1", 20, harms["zeros"])
	s := openStore(t, root, o)
	defer s.Close()
	list, _ := readPatiently(t, s, "T", 1)
	require.Len(t, list, 150)
	q, ok, err := s.queueFor("read", cq.Key{Topic: "T", QueueID: 1})
	require.NoError(t, err)
	require.True(t, ok)
	res := GetResult{MaxOffset: 150}
	defer res.Release()
	g := getter{s: s, o: s.live(), req: GetRequest{Topic: "T", QueueID: 1, MaxMessages: 30}, res: &res, queue: &lateQueue{Queue: q, slot: 20}, log: s.writer.Log()}
	require.NoError(t, g.scan())
	require.Len(t, res.Messages, 30)
	require.EqualValues(t, 30, res.NextOffset)
}

// A slot whose record the log has lost as well is stepped over, once the log was asked, and the queue is not built again each time.
func TestHoleWithoutARecordIsSteppedOver(t *testing.T) {
	for _, kind := range []cq.Kind{cq.KindFile, cq.KindCombine} {
		t.Run(string(kind), func(t *testing.T) {
			o := viewOptions(StoreTypeFile)
			if kind == cq.KindCombine {
				needRocksDB(t)
				o = combineOptions()
			}
			root := filledStore(t, o, 150)
			u := storedUnit(t, root, cq.Key{Topic: "T", QueueID: 1}, 20)
			log, err := os.OpenFile(filepath.Join(NewLayout(root).CommitLogDir(), mappedfile.Name(0)), os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = log.WriteAt(make([]byte, 8), u.PhyOffset)
			require.NoError(t, err)
			require.NoError(t, log.Close())
			harmSlot(t, root, "1", 20, harms["zeros"])
			s := openStore(t, root, o)
			defer s.Close()
			list, _ := readPatiently(t, s, "T", 1)
			require.Len(t, list, 149)
			s.views.view.mu.Lock()
			filled := s.views.view.mu.known[cq.Key{Topic: "T", QueueID: 1}].filled
			s.views.view.mu.Unlock()
			require.EqualValues(t, 150, filled, "the log was asked first")
			list, waited := readPatiently(t, s, "T", 1)
			require.Len(t, list, 149)
			require.False(t, waited)
		})
	}
}

// storedUnit reads a unit of a closed store's file queues.
func storedUnit(t *testing.T, root string, k cq.Key, slot int64) cq.Unit {
	t.Helper()
	v, err := OpenView(root, ViewOptions{Kind: cq.KindFile})
	require.NoError(t, err)
	defer v.Close()
	q, ok := v.Queues.Queue(k)
	require.True(t, ok)
	var u [1]cq.Unit
	n, err := q.Read(slot, u[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	return u[0]
}

// While what a crash left is dispatched again beside readers, a slot that the crash has emptied is not stepped over: dispatch fills it. With RocksDB preferred as well, whose
// ends are behind then, so that files are read.
func TestHoleIsNotSteppedOverWhileTheLogIsReplayed(t *testing.T) {
	for _, prefer := range []StoreType{"", StoreTypeFile, StoreTypeRocksDB} {
		t.Run("combined, preferred: "+string(prefer), func(t *testing.T) {
			o := viewOptions(StoreTypeFile)
			if prefer != "" {
				needRocksDB(t)
				o = combineOptions()
				o.CombineCQPreferCQType = prefer
			}
			root := filledStore(t, o, 150)
			l := NewLayout(root)
			require.NoError(t, os.WriteFile(l.AbortPath(), nil, 0o644))
			require.NoError(t, os.Remove(l.CheckpointPath())) // nothing is known of the files
			require.NoError(t, os.Remove(l.queueOffsetsPath()))
			harmSlot(t, root, "1", 20, harms["zeros"])
			if prefer == StoreTypeRocksDB { // and its own are lost
				require.NoError(t, os.RemoveAll(l.RocksDir(RocksSeparate)))
			}
			og, g := gated(o, 0)
			s := openStore(t, root, og)
			defer s.Close()
			defer g.release()
			var res GetResult
			defer res.Release()
			require.NoError(t, s.Get(&GetRequest{Topic: "T", QueueID: 1, Offset: 10, MaxMessages: 32}, &res))
			if len(res.Messages) <= 10 {
				require.EqualValues(t, 20, res.NextOffset, "what is before it is served")
				require.ErrorIs(t, s.Get(&GetRequest{Topic: "T", QueueID: 1, Offset: 20, MaxMessages: 32}, &res), ErrRebuilding)
			}
			g.release()
			list, _ := readPatiently(t, s, "T", 1)
			require.Len(t, list, 150)
			require.NoError(t, s.awaitViews(t.Context()))
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
		})
	}
}

// A slot that was left empty since the log had lost its record is passed without asking the log again.
func TestKeptSlotIsNotAskedFor(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := filledStore(t, o, 150)
	harmSlot(t, root, "1", 20, lostSlot())
	s := openStore(t, root, o)
	defer s.Close()
	list, waited := readPatiently(t, s, "T", 1)
	require.Len(t, list, 149)
	require.False(t, waited)
	require.Zero(t, s.views.view.mu.known[cq.Key{Topic: "T", QueueID: 1}].filled)
}

// lostSlot is what a queue file has in the slot of a record that the log has lost.
func lostSlot() []byte {
	u := cq.LostUnit()
	b := binary.BigEndian.AppendUint64(nil, uint64(u.PhyOffset))
	b = binary.BigEndian.AppendUint32(b, uint32(u.Size))
	return binary.BigEndian.AppendUint64(b, uint64(u.TagsCode))
}

// queueDamagePolicy=refuse has nothing built: the reader is told which slot it is.
func TestHoleIsRefusedWhereNothingIsToBeBuilt(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := filledStore(t, o, 150)
	harmSlot(t, root, "1", 20, harms["zeros"])
	o.QueueDamagePolicy = QueueDamageRefuse
	s := openStore(t, root, o)
	defer s.Close()
	var res GetResult
	defer res.Release()
	err := s.Get(&GetRequest{Topic: "T", QueueID: 1, Offset: 20, MaxMessages: 1}, &res)
	require.ErrorIs(t, err, cq.ErrCorrupt)
	require.ErrorContains(t, err, "slot 20 of queue T/1 has no unit")
	require.Zero(t, s.views.view.brokenNow.Load())
}
