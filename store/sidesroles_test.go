package store

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// Retention goes on while a side is filled: what expires is not filled, and a queue of which the log has nothing left goes on where it ended.
func TestRetentionGoesOnWhileASideIsFilled(t *testing.T) {
	for _, from := range viewKinds {
		for name, rate := range map[string]int64{"before it begins": 0, "in its midst": 64 << 10} {
			t.Run(string(from.kind())+", "+name, func(t *testing.T) {
				needRocksDB(t)
				root := t.TempDir()
				o := combineOptions()
				o.FileReservedTime, o.DeleteFileBatchMax, o.DeleteCommitLogFilesInterval = 0, 1000, time.Millisecond
				o.FlushConsumeQueueThoroughInterval = 2 * time.Millisecond
				o.BackfillBytesPerSec, o.BackfillPutLatency = rate, 0
				s := openStore(t, root, only(o, from))
				for range 3 {
					_, err := s.Put(t.Context(), plainMessage("old", "expires"))
					require.NoError(t, err)
				}
				putSome(t, s, 400)
				_, err := s.Put(t.Context(), plainMessage("mid", "expires"))
				require.NoError(t, err)
				putSome(t, s, 4000)
				require.NoError(t, s.Close())

				gate := make(chan struct{})
				if rate == 0 {
					o.rebuildStep = func(int64) { <-gate }
				}
				s = openCombined(t, root, o)
				lacking := otherKind(from.kind())
				done := func() int64 {
					states, err := s.SideStates()
					require.NoError(t, err)
					if f := states[lacking].Filling; f != nil {
						return f.Done
					}
					return -1
				}
				require.GreaterOrEqual(t, done(), int64(0))
				if rate > 0 {
					require.Eventually(t, func() bool { return done() > 10<<10 }, 20*time.Second, time.Millisecond)
				}
				keep := s.Positions().Wrote - 40<<10
				release := s.RetainFrom("the end", func() int64 { return keep })
				var run CleanRun
				require.Eventually(t, func() bool {
					run = s.CleanNow(t.Context())
					return s.Log().MinOffset() > 600<<10
				}, 20*time.Second, 10*time.Millisecond, "kept: %+v", run.Kept)
				release()
				require.GreaterOrEqual(t, done(), int64(0), "it is still being filled")
				require.Less(t, done(), s.Log().MinOffset())
				close(gate)
				s.SetBackfillPace(0, 0)
				awaitSides(t, s)
				for topic, next := range map[string]int64{"old": 3, "mid": 1, "T": 4400} {
					for _, kind := range combinedKinds {
						q, ok := s.views.sides.side(kind).Queue(cq.Key{Topic: topic})
						require.True(t, ok, "%s on the %s side", topic, kind)
						b, err := q.Bounds()
						require.NoError(t, err)
						require.Equal(t, next, b.Max, "%s on the %s side", topic, kind)
					}
					r, err := s.Put(t.Context(), plainMessage(topic, "more"))
					require.NoError(t, err)
					require.Equal(t, next, r.Append.QueueOffset)
				}
				require.Empty(t, s.views.view.lostRanges(), "what expired is not lost")
				require.Zero(t, verifySides(t, s, VerifySidesOptions{Samples: 5}).different)
				require.NoError(t, s.Close())
				requireWhole(t, root, o)
			})
		}
	}
}

type sidesSum struct {
	different, units, records int64
	at                        map[cq.Key]SideVerdict
}

func verifySides(t *testing.T, s *Store, o VerifySidesOptions) (sum sidesSum) {
	t.Helper()
	sum.at = map[cq.Key]SideVerdict{}
	require.NoError(t, s.VerifySides(t.Context(), o, func(v *SideVerdict) error {
		sum.different += v.Different
		sum.units += v.Units
		sum.records += v.Records
		sum.at[v.Key] = *v
		return nil
	}))
	return sum
}

// Each unit is compared, some with their records, and a comparison that goes on has the checksum of one that begins anew.
func TestVerifySides(t *testing.T) {
	needRocksDB(t)
	root := t.TempDir()
	s := openCombined(t, root, combineOptions())
	defer s.Close()
	putSome(t, s, 100)
	awaitSides(t, s)
	first := verifySides(t, s, VerifySidesOptions{Samples: 10})
	require.Zero(t, first.different)
	require.EqualValues(t, 200+34*2+34*2, first.units, "T twice, %LMQ%a, %LMQ%b0 and %LMQ%b1")
	require.Greater(t, first.records, int64(40))
	putSome(t, s, 50)
	awaitSides(t, s)
	more := verifySides(t, s, VerifySidesOptions{Begin: func(k cq.Key) (int64, uint32) { return first.at[k].To, first.at[k].CRC }})
	all := verifySides(t, s, VerifySidesOptions{})
	k := cq.Key{Topic: "T", QueueID: 1}
	require.EqualValues(t, 50, more.at[k].Units)
	require.EqualValues(t, 100, more.at[k].From)
	require.EqualValues(t, 150, all.at[k].Units)
	require.Equal(t, all.at[k].CRC, more.at[k].CRC)
	require.Zero(t, all.records)
	var b []byte
	require.NoError(t, s.Close())
	for slot := range 150 {
		b = append(b, slotBytes(t, root, "1", slot)...)
	}
	require.Equal(t, crc32.ChecksumIEEE(b), all.at[k].CRC, "of the bytes in the queue's files")

	single := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	defer single.Close()
	require.ErrorIs(t, single.VerifySides(t.Context(), VerifySidesOptions{}, nil), ErrNotCombined)
	_, err := single.SideRoles()
	require.ErrorIs(t, err, ErrNotCombined)
	_, err = single.SideStates()
	require.ErrorIs(t, err, ErrNotCombined)
	require.ErrorIs(t, single.SetSideRoles(SideRoles{}), ErrNotCombined)
}

// What each side has is told by topic; light queues that one side has alone are no part of it.
func TestTopicUnits(t *testing.T) {
	needRocksDB(t)
	o := combineOptions()
	o.CombineCQUseRocksdbForLmq = true
	s := openCombined(t, t.TempDir(), o)
	defer s.Close()
	putSome(t, s, 20)
	_, err := s.Put(t.Context(), plainMessage("U", "x"))
	require.NoError(t, err)
	awaitSides(t, s)
	of := func() map[string]TopicUnits {
		list, err := s.TopicUnits(t.Context())
		require.NoError(t, err)
		m := map[string]TopicUnits{}
		for _, one := range list {
			m[one.Topic] = one
		}
		return m
	}
	m := of()
	require.Equal(t, TopicUnits{Topic: "T", Queues: 2, Files: 40, Rocks: 40}, m["T"])
	require.Equal(t, TopicUnits{Topic: "U", Queues: 1, Files: 1, Rocks: 1}, m["U"])
	require.Zero(t, m["%LMQ%a"].Queues)
	require.NoError(t, s.views.sides.side(cq.KindRocks).(cq.Dropper).DropQueue(t.Context(), cq.Key{Topic: "T", QueueID: 1}))
	s.views.sides.giveUp(cq.KindRocks, cq.Key{Topic: "U"})
	m = of()
	u := m["T"]
	require.EqualValues(t, 20, u.Of(cq.KindRocks))
	require.EqualValues(t, 40, u.Of(cq.KindFile))
	require.Equal(t, 1, m["U"].Given)

	single := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	defer single.Close()
	_, err = single.TopicUnits(t.Context())
	require.ErrorIs(t, err, ErrNotCombined)
}

// A unit that is wrong on a side is found, named, and built again where the log proves the other one.
func TestVerifySidesFindsWhatDiffers(t *testing.T) {
	needRocksDB(t)
	o := combineOptions()
	k := cq.Key{Topic: "T", QueueID: 1}
	for name, harm := range map[string]func(t *testing.T, root string){
		"zeros in files":          func(t *testing.T, root string) { harmSlot(t, root, "1", 20, harms["zeros"]) },
		"impossible in files":     func(t *testing.T, root string) { harmSlot(t, root, "1", 20, harms["impossible"]) },
		"another record in files": func(t *testing.T, root string) { harmSlot(t, root, "1", 20, slotBytes(t, root, "0", 20)) },
		"another slot in files":   func(t *testing.T, root string) { harmSlot(t, root, "1", 20, slotBytes(t, root, "1", 21)) },
		"other tags in files": func(t *testing.T, root string) {
			harmSlot(t, root, "1", 20, append(slotBytes(t, root, "1", 20)[:12], 0, 0, 0, 0, 0, 0, 0, 9))
		},
		"another record in RocksDB": func(t *testing.T, root string) {
			replaceInRocks(t, root, o, k, 20, storedUnit(t, root, cq.Key{Topic: "T"}, 21))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := filledStore(t, o, 150)
			harm(t, root)
			s := openStore(t, root, o)
			defer s.Close()
			awaitSides(t, s)
			found := verifySides(t, s, VerifySidesOptions{})
			v := found.at[k]
			require.False(t, v.OK())
			require.True(t, v.Mending)
			require.Contains(t, fmt.Sprint(v.Words()), "slot 20")
			require.Equal(t, v.Different, found.different, "no other queue")
			awaitSides(t, s)
			require.Zero(t, verifySides(t, s, VerifySidesOptions{Samples: 10}).different)
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
		})
	}
	t.Run("the same wrong unit on both sides", func(t *testing.T) {
		root := filledStore(t, o, 150)
		harmSlot(t, root, "1", 20, slotBytes(t, root, "0", 20))
		replaceInRocks(t, root, o, k, 20, storedUnit(t, root, cq.Key{Topic: "T"}, 20))
		s := openStore(t, root, o)
		defer s.Close()
		awaitSides(t, s)
		require.Zero(t, verifySides(t, s, VerifySidesOptions{}).different, "the sides are the same")
		v := verifySides(t, s, VerifySidesOptions{Samples: 1000}).at[k]
		require.EqualValues(t, 2, v.Different)
		require.Contains(t, v.Words()[0], "slot 20, file side: wrong-position: the record at")
		require.Contains(t, v.Words()[0], "belongs to T/0")
		require.False(t, v.Mending, "nobody knows what is right")
	})
}

// Reads and authority follow the roles.
func TestSideRoles(t *testing.T) {
	needRocksDB(t)
	s := openCombined(t, t.TempDir(), combineOptions())
	defer s.Close()
	putSome(t, s, 50)
	awaitSides(t, s)
	want := SideRoles{Preferred: cq.KindFile, Authority: cq.KindFile, Topics: []string{"T"}}
	require.NoError(t, s.SetSideRoles(want))
	got, err := s.SideRoles()
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Len(t, readAll(t, s, "T", 0), 50)
	require.NoError(t, s.SetSideRoles(SideRoles{Preferred: cq.KindRocks, Authority: cq.KindRocks}))
	putSome(t, s, 5)
	awaitSides(t, s)
	require.Len(t, readAll(t, s, "T", 0), 55)
	require.Equal(t, cq.KindCombine, s.QueueKind())
	require.True(t, s.FilesHaveLight())
	require.False(t, s.OpenedUnclean())
}

// A side is moved out of a store as a whole, also when that is cut off and repeated, and nothing of the other one goes with it.
func TestRetire(t *testing.T) {
	needRocksDB(t)
	for _, layout := range []bool{false, true} {
		for _, kept := range viewKinds {
			t.Run(fmt.Sprintf("%s kept, separate %v", kept.kind(), layout), func(t *testing.T) {
				o := combineOptions()
				o.UseSeparateStorePathForRocksdbCQ = layout
				root := filledStore(t, o, 150)
				l := NewLayout(root)
				to := filepath.Join(l.StateDir(), "retired", "x")
				gone := otherKind(kept.kind())
				if gone == cq.KindFile { // as if it had been cut off
					require.NoError(t, os.MkdirAll(filepath.Join(to, "consumequeue"), 0o755))
					require.NoError(t, os.Rename(filepath.Join(l.ConsumeQueueDir(), "T"), filepath.Join(to, "consumequeue", "T")))
				} else {
					place := RocksShared
					if layout {
						place = RocksSeparate
					}
					require.NoError(t, os.MkdirAll(filepath.Join(to, filepath.Base(l.RocksDir(place))), 0o755))
					require.NoError(t, os.Rename(filepath.Join(l.RocksDir(place), currentFile), filepath.Join(to, filepath.Base(l.RocksDir(place)), currentFile)))
				}
				for range 2 {
					require.NoError(t, Retire(l, gone, to))
				}
				has, err := l.hasKind(gone)
				require.NoError(t, err)
				require.False(t, has)
				requireWhole(t, root, only(o, kept))
				s := openStore(t, root, only(o, kept))
				putSome(t, s, 5)
				awaitDispatch(t, s)
				require.Len(t, readAll(t, s, "T", 1), 155)
				require.NoError(t, s.Close())
				entries, err := os.ReadDir(to)
				require.NoError(t, err)
				require.NotEmpty(t, entries)

				s = openStore(t, root, o) // and back: the side is made anew
				awaitSides(t, s)
				require.NoError(t, s.Close())
				requireWhole(t, root, o)
			})
		}
	}
}

// Puts are timed only while somebody wants it; one in a hundred that is slow is no reason to brake, more are.
func TestBrake(t *testing.T) {
	var b brake
	b.budget.Store(int64(time.Nanosecond))
	b.end(b.begin())
	require.Zero(t, b.puts.Load(), "nobody wants to know")
	release := b.use()
	slow := func() { b.end(time.Now().Add(-time.Second)) }
	fast := func() { b.end(time.Now().Add(time.Hour)) }
	at := time.Now()
	look := func() bool {
		at = at.Add(2 * brakeWindow)
		return b.over(at)
	}
	require.False(t, look(), "no puts")
	for range 99 {
		fast()
	}
	slow()
	require.False(t, look())
	fast()
	slow()
	require.True(t, look())
	require.True(t, b.over(at), "until the window is over")
	require.False(t, look())
	b.budget.Store(0)
	slow()
	require.False(t, look(), "no bound")
	release()
	require.True(t, b.begin().IsZero())
}

// Whoever wants it is told how long puts took, whichever way they were put, and of each once.
func TestTimePuts(t *testing.T) {
	for _, flush := range []FlushDiskType{AsyncFlush, SyncFlush} {
		o := putOptions()
		o.FlushDiskType = flush
		s := overFiles(t, o)
		puts := func() {
			_, err := s.Put(t.Context(), newMessage("T"))
			require.NoError(t, err)
			for _, put := range []func(context.Context, *message.Message, func(PutResult, error)){s.PutFunc, s.PutBatchFunc} {
				done := make(chan error)
				m := newMessage("T")
				m.Body = batchBody(t, 3)
				go put(t.Context(), m, func(_ PutResult, err error) { done <- err })
				require.NoError(t, <-done)
			}
		}
		puts()
		take, stop := s.TimePuts()
		other, stopOther := s.TimePuts()
		require.Zero(t, take().Total(), "before anybody wanted to know")
		puts()
		require.EqualValues(t, 3, take().Total())
		require.Zero(t, take().Total())
		stop()
		puts()
		require.EqualValues(t, 6, other().Total())
		stopOther()
		puts()
		require.Zero(t, other().Total(), "nobody wants to know any more")
	}
}

// What is read too fast is paid for later, and a wait ends with its context.
func TestBraking(t *testing.T) {
	var b brake
	p := &braking{b: &b}
	require.NoError(t, p.pause(t.Context(), 1<<40), "no bound")
	b.bytesPerSec.Store(1 << 20)
	require.NoError(t, p.pause(t.Context(), 1<<10))
	require.GreaterOrEqual(t, p.credit, -1024.0)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	require.ErrorIs(t, p.pause(ctx, 1<<40), context.Canceled, "it would be a million seconds")
	require.Less(t, p.credit, -1e11)
	time.AfterFunc(20*time.Millisecond, func() { b.bytesPerSec.Store(1 << 40) })
	require.NoError(t, p.pause(t.Context(), 0), "the bound is another one now")
	require.Zero(t, p.credit)
}
