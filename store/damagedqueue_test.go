package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/logtest"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// A file of one queue that is too short or missing is damage: the queue is built again, and nobody else is held up.
func TestDamagedQueueFileIsNoReasonNotToOpen(t *testing.T) {
	needRocksDB(t)
	for name, harm := range map[string]func(dir string) error{
		"cut":     func(dir string) error { return os.Truncate(filepath.Join(dir, mappedfile.Name(0)), 300) },
		"missing": func(dir string) error { return os.Remove(filepath.Join(dir, mappedfile.Name(1000))) },
	} {
		for _, o := range []Options{viewOptions(StoreTypeFile), combineOptions()} {
			for _, recover := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/combined=%v/recover=%v", name, o.RocksdbCQDoubleWriteEnable, recover), func(t *testing.T) {
					root := filledStore(t, o, 150)
					require.NoError(t, harm(filepath.Join(NewLayout(root).ConsumeQueueDir(), "T", "1")))
					if recover {
						rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o})
						require.NoError(t, err)
						require.True(t, rep.AbortCleared)
						requireWhole(t, root, o)
					}
					s := openStore(t, root, o)
					require.EqualValues(t, 150, s.NextOffset("T", 1))
					require.NoError(t, s.awaitViews(t.Context()))
					require.Len(t, readAll(t, s, "T", 1), 150)
					require.NoError(t, s.Close())
					requireWhole(t, root, o)
				})
			}
		}
	}
}

// FR-B04: files that all have another size are no damage: the option is wrong, and both are named.
func TestFRB04QueueFilesOfAnotherSize(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := filledStore(t, o, 150)
	before := listTree(NewLayout(root).ConsumeQueueDir())
	wrong := o
	wrong.MappedFileSizeConsumeQueue = 2000
	_, err := Open(root, wrong)
	require.ErrorContains(t, err, "mappedFileSizeConsumeQueue is 2000, and the queue files in "+NewLayout(root).ConsumeQueueDir()+" have 1000 bytes")
	require.Equal(t, before, listTree(NewLayout(root).ConsumeQueueDir()))
}

// Recover deals with a database without CURRENT as Open does.
func TestRecoverSetsRemnantsOfRocksDBAside(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeRocksDB)
	root := filledStore(t, o, 60)
	damageQueues(t, root, o)
	rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o, DryRun: true})
	require.NoError(t, err)
	require.Len(t, rep.Notes, 1)
	require.Contains(t, rep.Notes[0], "has no file CURRENT: it is set aside, and its queues are built from the log")
	rep, err = Recover(t.Context(), root, RecoverOptions{Options: &o})
	require.NoError(t, err)
	require.True(t, rep.AbortCleared)
	requireWhole(t, root, o)
	o.QueueDamagePolicy = QueueDamageRefuse
	damageQueues(t, root, o)
	_, err = Recover(t.Context(), root, RecoverOptions{Options: &o})
	require.Error(t, err)
}

// A file queue that is damaged while the store serves is built again: reads are refused by name, or answered from the other side, until it is whole.
func TestFileQueueDamagedWhileServing(t *testing.T) {
	needRocksDB(t)
	harms := map[string]func(t *testing.T, path string){
		"an impossible unit": func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte{0xff}, 408) // a negative size
			require.NoError(t, err)
			require.NoError(t, f.Close())
		},
		"a file that is cut": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
	}
	type harmed struct {
		o    Options
		harm func(t *testing.T, path string)
		read bool
	}
	cases := map[string]harmed{}
	for name, harm := range harms {
		for _, read := range []bool{false, true} {
			cases[fmt.Sprintf("%s, alone, read before=%v", name, read)] = harmed{viewOptions(StoreTypeFile), harm, read}
			cases[fmt.Sprintf("%s, beside RocksDB, read before=%v", name, read)] = harmed{combineOptions(), harm, read}
		}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := c.o
			root := filledStore(t, o, 1500)
			s := openStore(t, root, o)
			require.NoError(t, s.awaitViews(t.Context()))
			if c.read { // its files are mapped, and touching what was cut off faults
				require.Len(t, readAll(t, s, "T", 1), 1500)
			}
			c.harm(t, filepath.Join(NewLayout(root).ConsumeQueueDir(), "T", "1", mappedfile.Name(1000)))
			refused := 0
			for _, k := range []cq.Key{{Topic: "T"}, {Topic: "T", QueueID: 1}, {Topic: "%LMQ%a"}, {Topic: "%LMQ%b0"}, {Topic: "%LMQ%b1"}} {
				end := s.NextOffset(k.Topic, k.QueueID)
				require.Positive(t, end)
				res := new(GetResult)
				for at := int64(0); at < end; {
					err := s.Get(&GetRequest{Topic: k.Topic, QueueID: k.QueueID, Offset: at, MaxMessages: 100}, res)
					if err != nil {
						require.ErrorIs(t, err, ErrRebuilding)
						refused++
						require.Less(t, refused, 100, "%v", err)
						require.Eventually(t, func() bool { return s.QueueReady(k) }, 20*time.Second, time.Millisecond)
						continue
					}
					require.Equal(t, GetFound, res.Status, "%v at %d", k, at)
					require.Equal(t, at, res.Messages[0].QueueOffset)
					at = res.NextOffset
				}
				res.Release()
				require.Equal(t, end, s.NextOffset(k.Topic, k.QueueID))
			}
			if v := s.views; v.sides == nil {
				v.view.mu.Lock()
				require.Positive(t, v.view.mu.known[cq.Key{Topic: "T", QueueID: 1}].filled, "the damage was met")
				v.view.mu.Unlock()
			} else {
				require.Zero(t, refused, "the other side has it")
			}
			require.NoError(t, s.awaitViews(t.Context()))
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
		})
	}
}

// A file queue that was cut is met by dispatch too: the queue alone is built again, on the side with authority as well, and puts go on, before and after a restart.
func TestFileQueueCutUnderDispatch(t *testing.T) {
	needRocksDB(t)
	byRocks := combineOptions()
	byRocks.CombineAssignOffsetCQType = StoreTypeRocksDB
	for name, o := range map[string]Options{"alone": viewOptions(StoreTypeFile), "beside RocksDB": combineOptions(), "beside RocksDB, which has authority": byRocks} {
		for _, mapped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, mapped=%v", name, mapped), func(t *testing.T) {
				root := filledStore(t, o, 70)
				s := openStore(t, root, o)
				require.NoError(t, s.awaitViews(t.Context()))
				n := 70
				if mapped {
					putSome(t, s, 5)
					n += 5
				}
				require.NoError(t, s.awaitViews(t.Context()))
				require.NoError(t, os.Truncate(filepath.Join(NewLayout(root).ConsumeQueueDir(), "T", "1", mappedfile.Name(1000)), 0))
				putSome(t, s, 20)
				n += 20
				require.NoError(t, s.awaitViews(t.Context()))
				require.Zero(t, s.Flags().Bits())
				list, _ := readPatiently(t, s, "T", 1)
				require.Len(t, list, n)
				require.NoError(t, s.Close())
				requireWhole(t, root, o)
				s = openStore(t, root, o)
				putSome(t, s, 1)
				require.NoError(t, s.Close())
				requireWhole(t, root, o)
			})
		}
	}
}

// With queueDamagePolicy=refuse nothing is built: puts end, the log says so, and so it does when the store is opened again.
func TestFileQueueCutUnderDispatchIsRefused(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.QueueDamagePolicy = QueueDamageRefuse
	var log logtest.Log
	o.Logger = log.Logger()
	root := filledStore(t, o, 70)
	s := openStore(t, root, o)
	putSome(t, s, 5)
	require.NoError(t, s.awaitViews(t.Context()))
	require.NoError(t, os.Truncate(filepath.Join(NewLayout(root).ConsumeQueueDir(), "T", "1", mappedfile.Name(1000)), 0))
	putSome(t, s, 1)
	require.Eventually(t, func() bool { return s.Flags().Bits()&FlagLogicsQueueError != 0 }, 60*time.Second, 5*time.Millisecond)
	require.Contains(t, log.String(), "PUTS ARE REFUSED")
	require.ErrorContains(t, s.PutsRefused(), "store recover --store")
	_ = s.Close() // its last flush fails too
	log.Reset()
	s = openStore(t, root, o)
	require.Contains(t, log.String(), "PUTS ARE REFUSED, as an earlier run has left a flag")
	require.Contains(t, log.String(), "LOGICS_QUEUE_ERROR")
	_ = s.Close()
}
