package store

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// awaitShadow waits until all notes were dealt with, of which there are as many as that.
func awaitShadow(t *testing.T, s *Store, notes int64) (r ShadowReads) {
	t.Helper()
	require.Eventually(t, func() bool {
		r = s.ShadowReads()
		return r.Reads+r.Busy+r.Passed == notes
	}, 20*time.Second, time.Millisecond, "%+v", &r)
	return r
}

// A unit that is wrong on the side that is not read is found by a reader of the other one, which gets its answer all the same; it is judged by the log, and built again where that decides.
func TestShadowReadsFindWhatDiffers(t *testing.T) {
	needRocksDB(t)
	k := cq.Key{Topic: "T", QueueID: 1}
	o := combineOptions()
	o.ShadowReadPercent = 100
	other := func(t *testing.T, root string) cq.Unit { return storedUnit(t, root, cq.Key{Topic: "T"}, 20) }
	for name, c := range map[string]struct {
		prefer  StoreType
		harm    func(t *testing.T, root string)
		decided bool
	}{
		"no unit in files":        {StoreTypeRocksDB, func(t *testing.T, root string) { harmSlot(t, root, "1", 20, harms["zeros"]) }, true},
		"another record in files": {StoreTypeRocksDB, func(t *testing.T, root string) { harmSlot(t, root, "1", 20, slotBytes(t, root, "0", 20)) }, true},
		"another record in RocksDB": {StoreTypeFile, func(t *testing.T, root string) {
			replaceInRocks(t, root, o, k, 20, other(t, root))
		}, true},
		"other tags in RocksDB": {StoreTypeFile, func(t *testing.T, root string) {
			u := storedUnit(t, root, k, 20)
			u.TagsCode++
			replaceInRocks(t, root, o, k, 20, u)
		}, true},
		"the address of no extension unit in RocksDB": {StoreTypeFile, func(t *testing.T, root string) {
			u := storedUnit(t, root, k, 20)
			u.TagsCode = math.MinInt64
			replaceInRocks(t, root, o, k, 20, u)
		}, true},
		"the address of no extension unit in files": {StoreTypeRocksDB, func(t *testing.T, root string) {
			harmSlot(t, root, "1", 20, append(slotBytes(t, root, "1", 20)[:12], 0x80, 0, 0, 0, 0, 0, 0, 0))
		}, true},
		"wrong tags in both": {StoreTypeFile, func(t *testing.T, root string) {
			u := storedUnit(t, root, k, 20)
			u.TagsCode++
			replaceInRocks(t, root, o, k, 20, u)
			harmSlot(t, root, "1", 20, append(slotBytes(t, root, "1", 20)[:12], 0, 0, 0, 0, 0, 0, 0, 9))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := filledStore(t, o, 150)
			c.harm(t, root)
			o := o
			o.CombineCQPreferCQType = c.prefer
			s := openStore(t, root, o)
			defer s.Close()
			awaitSides(t, s)
			var res GetResult
			defer res.Release()
			get(t, s, GetRequest{Topic: "T", QueueID: 1, Offset: 30, MaxMessages: 10}, &res)
			require.Zero(t, awaitShadow(t, s, 1).Found)
			get(t, s, GetRequest{Topic: "T", QueueID: 1, Offset: 15, MaxMessages: 10}, &res)
			require.Len(t, res.Messages, 10)
			r := awaitShadow(t, s, 2)
			require.EqualValues(t, 1, r.Found, "%v", r.Differences)
			require.Contains(t, r.Differences[0], "queue T/1: slot 20 has ")
			if !c.decided {
				require.Contains(t, r.Differences[0], "does not tell")
				return
			}
			require.Contains(t, r.Differences[0], "built again")
			awaitSides(t, s)
			get(t, s, GetRequest{Topic: "T", QueueID: 1, Offset: 15, MaxMessages: 10}, &res)
			require.EqualValues(t, 1, awaitShadow(t, s, 3).Found, "it is mended")
			require.Zero(t, verifySides(t, s, VerifySidesOptions{Samples: 10}).different)
		})
	}
}

// A queue that one side has lost is found by a reader at its end, who gets nothing.
func TestShadowReadsFindAQueueThatIsLost(t *testing.T) {
	needRocksDB(t)
	o := combineOptions()
	o.ShadowReadPercent = 100
	s := openCombined(t, t.TempDir(), o)
	defer s.Close()
	putSome(t, s, 20)
	awaitSides(t, s)
	k := cq.Key{Topic: "T", QueueID: 1}
	require.NoError(t, s.views.sides.side(cq.KindRocks).(cq.Dropper).DropQueue(t.Context(), k))
	var res GetResult
	defer res.Release()
	get(t, s, GetRequest{Topic: "T", QueueID: 1, Offset: 20, MaxMessages: 10}, &res)
	require.Equal(t, GetOffsetOverflowOne, res.Status)
	r := awaitShadow(t, s, 1)
	require.Equal(t, []string{"queue T/1: one side has it, and the other has not"}, r.Differences)
	awaitSides(t, s)
	require.Zero(t, verifySides(t, s, VerifySidesOptions{}).different, "it was built again")
}

// Each read of a sound store is compared, whatever goes on meanwhile: puts, and retention that deletes what readers are at. No difference is found, whichever side serves.
func TestShadowReadsOfASoundStore(t *testing.T) {
	needRocksDB(t)
	for _, prefer := range viewKinds {
		t.Run(string(prefer.kind()), func(t *testing.T) {
			o := combineOptions()
			o.ShadowReadPercent, o.CombineCQPreferCQType = 100, prefer
			o.FileReservedTime, o.DeleteFileBatchMax, o.DeleteCommitLogFilesInterval = 0, 1000, time.Millisecond
			o.FlushConsumeQueueThoroughInterval = 2 * time.Millisecond // what is not durable in the queues stays in the log
			s := openCombined(t, t.TempDir(), o)
			defer s.Close()
			var wg sync.WaitGroup
			var end atomic.Bool
			for q := range int32(2) {
				wg.Go(func() {
					for i := 0; i < 1500; i++ {
						m := plainMessage("T", fmt.Sprintf("body %d", i))
						m.QueueID = q
						if _, err := s.Put(t.Context(), m); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			var readers sync.WaitGroup
			for q := range int32(4) { // half of them at the end, half from the beginning again and again
				readers.Go(func() {
					var res GetResult
					defer res.Release()
					for at := int64(0); !end.Load(); time.Sleep(100 * time.Microsecond) {
						if err := s.Get(&GetRequest{Topic: "T", QueueID: q % 2, Offset: at, MaxMessages: 16}, &res); err != nil {
							t.Error(err)
							return
						}
						if at = res.NextOffset; q >= 2 && at > res.MinOffset+100 {
							at = 0
						}
					}
				})
			}
			readers.Go(func() {
				for !end.Load() {
					s.CleanNow(t.Context())
					time.Sleep(5 * time.Millisecond)
				}
			})
			wg.Wait()
			require.Eventually(t, func() bool { return s.ShadowReads().Reads > 100 && s.Log().MinOffset() > 0 }, 20*time.Second, time.Millisecond)
			end.Store(true)
			readers.Wait()
			awaitSides(t, s)
			r := s.ShadowReads()
			require.Zero(t, r.Found, "%v", r.Differences)
			require.Positive(t, r.Units)
			require.Zero(t, verifySides(t, s, VerifySidesOptions{}).different)
		})
	}
}

// The share can be changed while the store runs. Nobody waits for the comparison: what is too much is counted, and left.
func TestShadowReadsAreAFew(t *testing.T) {
	needRocksDB(t)
	o := combineOptions()
	o.ShadowReadPercent = 0
	s := openCombined(t, t.TempDir(), o)
	defer s.Close()
	putSome(t, s, 20)
	awaitSides(t, s)
	require.Len(t, readAll(t, s, "T", 1), 20)
	require.Zero(t, s.ShadowReads())
	o = s.Options()
	o.ShadowReadPercent = 100
	require.NoError(t, s.SetOptions(o))
	require.Len(t, readAll(t, s, "T", 1), 20)
	require.Eventually(t, func() bool { return s.ShadowReads().Units >= 20 }, 20*time.Second, time.Millisecond)
	o.ShadowReadPercent = 101
	require.ErrorContains(t, s.SetOptions(o), "shadowReadPercent")

	var d sides
	d.shadow.notes = make(chan *shadowRead, 3)
	d.shadow.setPercent(50)
	for range 1000 {
		d.shadowed(cq.Key{Topic: "T"}, 0, &GetResult{})
	}
	require.Len(t, d.shadow.notes, 3)
	require.InDelta(t, 500, d.shadow.busy.Load()+3, 150)

	single := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	defer single.Close()
	require.Zero(t, single.ShadowReads())
}
