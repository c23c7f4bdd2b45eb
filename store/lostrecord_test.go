package store

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// recordPlace is where a record of a queue lies.
type recordPlace struct {
	phy  int64
	size int64
}

// placesOf returns where the records of a queue lie, by slot.
func placesOf(t *testing.T, root string, o Options, k cq.Key) (list []recordPlace) {
	t.Helper()
	v, err := OpenView(root, ViewOptions{Kind: eachSide(o)[0].StoreType.kind()})
	require.NoError(t, err)
	defer func() { require.NoError(t, v.Close()) }()
	q, ok := v.Queues.Queue(k)
	require.True(t, ok)
	b, err := q.Bounds()
	require.NoError(t, err)
	var u [1]cq.Unit
	for slot := b.Min; slot < b.Max; slot++ {
		n, err := q.Read(slot, u[:])
		require.NoError(t, err)
		require.Equal(t, 1, n)
		list = append(list, recordPlace{u[0].PhyOffset, int64(u[0].Size)})
	}
	return list
}

// patchLog changes bytes of the log at a physical offset.
func patchLog(t *testing.T, root string, fileBytes, phy int64, change func(b []byte)) {
	t.Helper()
	dir := NewLayout(root).CommitLogDir()
	path := filepath.Join(dir, fmt.Sprintf("%020d", phy/fileBytes*fileBytes))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	change(b[phy%fileBytes:])
	require.NoError(t, os.WriteFile(path, b, 0o644))
}

// readHoled reads a queue from its beginning as a consumer does, and returns the slots that it got.
func readHoled(t *testing.T, s *Store, topic string, id int32, from int64) (slots []int64) {
	t.Helper()
	res := new(GetResult)
	defer res.Release()
	for at := from; ; {
		require.NoError(t, s.Get(&GetRequest{Topic: topic, QueueID: id, Offset: at, MaxMessages: 7}, res))
		if res.Status == GetOffsetOverflowOne {
			return slots
		}
		for _, m := range res.Messages {
			var r message.Record
			require.NoError(t, r.Decode(m.Record, true))
			slots = append(slots, m.QueueOffset)
		}
		require.Greater(t, res.NextOffset, at, "no progress: %v", res.Status)
		at = res.NextOffset
	}
}

// but returns 0 to n-1 without some.
func but(n int64, lost ...int64) (slots []int64) {
	for i := range n {
		if !slices.Contains(lost, i) {
			slots = append(slots, i)
		}
	}
	return slots
}

// One record that the log has lost costs one slot of its queue, and not all the messages before it, however the queue is built again.
func TestALostRecordCostsOneSlot(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		for _, how := range []string{"opened", "online", "recovered", "rebuilt"} {
			t.Run(how, func(t *testing.T) {
				root := filledStore(t, o, 150)
				k := cq.Key{Topic: "T", QueueID: 1}
				places := placesOf(t, root, o, k)
				for _, slot := range []int{40, 41, 120} {
					patchLog(t, root, o.MappedFileSizeCommitLog, places[slot].phy, func(b []byte) { clear(b[4:60]) })
				}
				rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o, Damage: DamageMend, Full: true})
				require.NoError(t, err)
				require.NotEmpty(t, rep.Log.Damage)
				want := []LostRange{{Topic: "T", QueueID: 1, From: 40, To: 42}, {Topic: "T", QueueID: 1, From: 120, To: 121}}
				switch how {
				case "opened", "online":
					loseQueues(t, root)
					if how == "online" {
						o.rebuildBytes = 1
					}
				case "recovered":
					loseQueues(t, root)
					rep, err = Recover(t.Context(), root, RecoverOptions{Options: &o})
					require.NoError(t, err)
					require.Subset(t, rep.Lost, want)
				case "rebuilt":
					built, err := Rebuild(t.Context(), root, RebuildOptions{Kind: o.StoreType.kind(), Topic: "T", QueueID: 1, Options: &o})
					if o.RocksdbCQDoubleWriteEnable {
						built, err = Rebuild(t.Context(), root, RebuildOptions{Kind: cq.KindCombine, Topic: "T", QueueID: 1, Options: &o})
					}
					require.NoError(t, err)
					require.Equal(t, want, built.Lost)
				}
				s := openStore(t, root, o)
				require.NoError(t, s.awaitViews(t.Context()))
				require.EqualValues(t, 150, s.NextOffset("T", 1))
				got := readHoled(t, s, "T", 1, 0)
				require.Equal(t, but(150, 40, 41, 120), got)
				m := plainMessage("T", "after")
				m.QueueID = 1
				r, err := s.Put(t.Context(), m)
				require.NoError(t, err)
				require.EqualValues(t, 150, r.Append.QueueOffset)
				require.NoError(t, s.Close())

				s = openStore(t, root, o)
				require.NoError(t, s.awaitViews(t.Context()))
				require.Zero(t, s.views.view.gaps.Load(), "what is lost is not looked for again")
				require.Len(t, readHoled(t, s, "T", 1, 0), 148)
				require.NoError(t, s.Close())
				checked, err := Check(t.Context(), root, CheckOptions{Deep: true})
				require.NoError(t, err)
				lost := 0
				for _, f := range checked.Findings {
					if f.Topic == "T" && f.QueueID == 1 {
						require.Equal(t, CheckLostRecord, f.Code, "%v", f)
						require.Equal(t, CheckWarning, f.Severity)
					}
					if f.Code == CheckLostRecord && f.Topic == "T" && f.QueueID == 1 && f.Side != checkSideBoth {
						lost++
						require.Contains(t, []string{"slots 40 to 41", "slots 120 to 120"}, f.Got)
					}
				}
				require.Equal(t, 2*len(eachSide(o)), lost)
			})
		}
	})
}

// A number that a flipped bit made wrong is known by the records beside it: nothing is lost when the queue is built again.
func TestAWrongQueueOffsetIsKnownByItsNeighbours(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		for _, slot := range []int{0, 1, 77, 78, 148} {
			for _, bit := range []uint{0, 3, 6, 7, 12, 19} {
				t.Run(fmt.Sprintf("slot=%d/bit=%d", slot, bit), func(t *testing.T) {
					root := filledStore(t, o, 150)
					places := placesOf(t, root, o, cq.Key{Topic: "T", QueueID: 1})
					patchLog(t, root, o.MappedFileSizeCommitLog, places[slot].phy, func(b []byte) {
						const at = 20 // queueOffset
						binary.BigEndian.PutUint64(b[at:], binary.BigEndian.Uint64(b[at:])^1<<bit)
					})
					loseQueues(t, root)
					s := openStore(t, root, o)
					require.NoError(t, s.awaitViews(t.Context()))
					require.EqualValues(t, 150, s.NextOffset("T", 1))
					require.Equal(t, but(150), readHoled(t, s, "T", 1, 0))
					require.NoError(t, s.Close())
				})
			}
		}
	})
}
