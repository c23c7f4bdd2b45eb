package store

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/internal/logtest"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/tests/golden"
)

// putTo puts messages until the log is at least so long.
func putTo(t *testing.T, s *Store, end int64) {
	t.Helper()
	for s.Positions().Wrote < end {
		putSome(t, s, 1)
	}
}

// editLog edits the log of a store in place: fn gets all of its bytes, from its beginning.
func editLog(t *testing.T, root string, fn func(b []byte)) {
	t.Helper()
	dir := NewLayout(root).CommitLogDir()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var all []byte
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		all = append(all, b...)
	}
	before := bytes.Clone(all)
	fn(all)
	size := len(all) / len(entries)
	for i, e := range entries {
		if b := all[i*size : (i+1)*size]; !bytes.Equal(b, before[i*size:(i+1)*size]) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, e.Name()), b, 0o644))
		}
	}
}

// recordPlaces returns where the records of a log begin, and behind the last one where it ends.
func recordPlaces(t *testing.T, root string) (phys []int64) {
	t.Helper()
	log, err := commitlog.Open(NewLayout(root).CommitLogDir(), commitlog.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	s := log.Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
	defer s.Close()
	end := int64(0)
	for s.Next() {
		phys = append(phys, s.Record().PhyOffset)
		end = s.Record().PhyOffset + int64(s.Record().TotalSize)
	}
	require.NoError(t, s.Err())
	return append(phys, end)
}

// at returns the index of the first place at or behind phy.
func at(places []int64, phy int64) int {
	for i, p := range places {
		if p >= phy {
			return i
		}
	}
	return len(places) - 1
}

// TestEveryViewEndsAtTheSameRecord is the case of one log of which 120 were written, 119.6 flushed and 119 dispatched durably, with half a record at 119.8 and a unit that points to
// 119.9 (KiB here).
func TestEveryViewEndsAtTheSameRecord(t *testing.T) {
	const kib = 1 << 10
	forEachKind(t, func(t *testing.T, o Options) {
		for _, recover := range []bool{false, true} {
			t.Run(fmt.Sprintf("recover=%v", recover), func(t *testing.T) {
				root := t.TempDir()
				s := openStore(t, root, o)
				putTo(t, s, 119*kib)
				awaitDispatch(t, s)
				require.NoError(t, s.views.flush(context.Background()))
				at119 := crash(t, root)
				putTo(t, s, 120*kib)
				awaitDispatch(t, s)
				require.NoError(t, s.views.flush(context.Background())) // so that RocksDB has units to cut
				at120 := crash(t, root)
				require.NoError(t, s.Close())
				// the log of 120; one queue with units up to there, the other with those up to 119; the checkpoint of 119
				l := NewLayout(at120)
				if o.StoreType == StoreTypeFile {
					queue := filepath.Join("consumequeue", "T", "0")
					require.NoError(t, os.RemoveAll(filepath.Join(at120, queue)))
					require.NoError(t, os.CopyFS(filepath.Join(at120, queue), os.DirFS(filepath.Join(at119, queue))))
				}
				for _, name := range []string{"checkpoint", filepath.Join("tandemmq", "queue-offsets")} {
					b, err := os.ReadFile(filepath.Join(at119, name))
					if missing(err) && o.StoreType == StoreTypeRocksDB {
						continue
					}
					if err == nil {
						err = os.WriteFile(filepath.Join(at120, name), b, 0o644)
					}
					require.NoError(t, err)
				}
				places := recordPlaces(t, at120)
				half := at(places, 119*kib+820)
				require.Less(t, half, len(places)-2, "units point behind the half record")
				cut := places[half]
				editLog(t, at120, func(b []byte) { clear(b[cut+60:]) })
				if recover {
					rep, err := Recover(t.Context(), at120, RecoverOptions{Options: &o})
					require.NoError(t, err)
					require.Equal(t, cut, rep.LogEnd)
					require.Equal(t, "torn end", rep.Log.KindText)
					require.True(t, rep.AbortCleared)
					for _, v := range rep.Views {
						require.Equal(t, cut, v.Dispatched, v.Name)
					}
				}
				s = openStore(t, at120, o)
				require.NoError(t, s.awaitViews(t.Context()))
				for name, m := range s.Watermarks().Views {
					require.Equal(t, cut, m.Dispatched, name)
				}
				require.Equal(t, cut, s.Positions().Wrote)
				requireAgree(t, s.Log(), s.views.queues, o)
				require.NoError(t, s.Close())
				requireWhole(t, at120, o)
				require.NoFileExists(t, l.AbortPath())
			})
		}
	})
}

// lossStore is a store of which a part is durable and noted, and that was killed with more behind it. It returns the position that is noted.
func lossStore(t *testing.T) (root string, o Options, durable int64) {
	t.Helper()
	o = viewOptions(StoreTypeFile)
	live := t.TempDir()
	s := openStore(t, live, o)
	putSome(t, s, 50)
	awaitDispatch(t, s)
	require.NoError(t, s.views.flush(context.Background()))
	durable = s.Positions().Flushed
	putSome(t, s, 100)
	awaitDispatch(t, s)
	root = crash(t, live)
	require.NoError(t, s.Close())
	return root, o, durable
}

// page is the first whole page at or behind a position, but one.
func page(phy int64) int64 { return (phy/4096 + 2) * 4096 }

// TestFRB14LostPagesEndTheLog: pages that were never known to be durable, and that a loss of power took, are the end of the log; what lies behind them is set aside. Anything else is
// damage.
func TestFRB14LostPagesEndTheLog(t *testing.T) {
	tests := []struct {
		name string
		hurt func(b []byte, durable int64)
		also func(t *testing.T, l Layout)
		ends bool
	}{
		{name: "a page above", hurt: func(b []byte, d int64) { clear(b[page(d):][:4096]) }, ends: true},
		{name: "two pages above", hurt: func(b []byte, d int64) { clear(b[page(d):][:4096]); clear(b[page(d)+16384:][:4096]) }, ends: true},
		{name: "a page below", hurt: func(b []byte, d int64) { clear(b[page(d)-4*4096:][:4096]) }},
		{name: "flipped bits above", hurt: func(b []byte, d int64) {
			for i := range 200 { // of at least one field that is checked
				b[page(d)+int64(i)] ^= 1
			}
		}},
		{name: "without a checkpoint", hurt: func(b []byte, d int64) { clear(b[page(d):][:4096]) }, also: func(t *testing.T, l Layout) {
			require.NoError(t, os.Remove(l.CheckpointPath()))
		}},
		{name: "with RocketMQ's checkpoint", hurt: func(b []byte, d int64) { clear(b[page(d):][:4096]) }, also: func(t *testing.T, l Layout) {
			b, err := os.ReadFile(l.CheckpointPath())
			require.NoError(t, err)
			clear(b[checkpointBytes:])
			require.NoError(t, os.WriteFile(l.CheckpointPath(), b, 0o644))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, o, durable := lossStore(t)
			l := NewLayout(root)
			places := recordPlaces(t, root)
			editLog(t, root, func(b []byte) { tt.hurt(b, durable) })
			if tt.also != nil {
				tt.also(t, l)
			}
			before := golden.TreeSums(t, l.CommitLogDir())
			if !tt.ends {
				_, err := Open(root, o)
				var damage *DamageError
				require.ErrorAs(t, err, &damage)
				require.ErrorIs(t, err, commitlog.ErrCorrupt)
				require.Len(t, damage.Survey.Damage, 1)
				require.Equal(t, before, golden.TreeSums(t, l.CommitLogDir()))
				require.NoDirExists(t, l.brokenDir())
				return
			}
			s := openStore(t, root, o)
			end := s.Positions().Wrote
			require.Contains(t, places, end)
			require.Greater(t, end, durable)
			require.LessOrEqual(t, end, page(durable))
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
			require.Equal(t, places[:at(places, end)+1], recordPlaces(t, root))
			dirs, err := os.ReadDir(l.brokenDir())
			require.NoError(t, err)
			require.Len(t, dirs, 1)
		})
	}
}

// A store that was never stopped in order, and has noted nothing yet, knows that nothing of it is known to be durable.
func TestNewStoreKnowsThatNothingIsDurable(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	live := t.TempDir()
	s := openStore(t, live, o)
	putSome(t, s, 100)
	awaitDispatch(t, s)
	root := crash(t, live)
	require.NoError(t, s.Close())
	editLog(t, root, func(b []byte) { clear(b[4096:8192]) })
	s = openStore(t, root, o)
	require.Positive(t, s.Positions().Wrote)
	require.LessOrEqual(t, s.Positions().Wrote, int64(4096))
	require.NoError(t, s.Close())
	requireWhole(t, root, o)

	o.BuildConsumeQueues = false // keeps no position up: whatever was noted before counts no more
	s = openStore(t, root, o)
	_, ours, err := readCheckpoint(s.fs, s.layout.CheckpointPath(), time.Now())
	require.NoError(t, err)
	require.False(t, ours)
	require.NoError(t, s.Close())
}

// TestW7DamageUnlinksNothing: three flipped bytes in the third of nine log files. RocketMQ unlinks six files.
func TestW7DamageUnlinksNothing(t *testing.T) {
	for _, policy := range []DamagePolicy{DamageRefuse, DamageMend, DamageAcceptLoss} {
		for _, queues := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/queues=%v", policy, queues), func(t *testing.T) {
				o := viewOptions(StoreTypeFile)
				root := t.TempDir()
				s := openStore(t, root, o)
				putTo(t, s, 8*o.MappedFileSizeCommitLog+5000)
				require.NoError(t, s.Close())
				l := NewLayout(root)
				require.NoError(t, os.WriteFile(l.AbortPath(), nil, 0o644))
				require.NoError(t, os.Remove(l.CheckpointPath()))
				if !queues {
					require.NoError(t, os.RemoveAll(l.ConsumeQueueDir()))
					require.NoError(t, os.Remove(l.queueOffsetsPath()))
				}
				places := recordPlaces(t, root)
				hit := at(places, 2*o.MappedFileSizeCommitLog+3000)
				editLog(t, root, func(b []byte) { copy(b[places[hit]+4:], "???") })
				before := golden.TreeSums(t, l.CommitLogDir())

				o.LogDamagePolicy = policy
				s, err := Open(root, o)
				left := places
				switch policy {
				case DamageRefuse:
					require.ErrorContains(t, err, mappedfile.Name(2*o.MappedFileSizeCommitLog))
					require.ErrorContains(t, err, "--mend")
					require.Equal(t, before, golden.TreeSums(t, l.CommitLogDir()))
					return
				case DamageAcceptLoss:
					left = places[:hit+1]
				}
				require.NoError(t, err)
				require.NoError(t, s.awaitViews(t.Context()))
				require.Equal(t, left, recordPlaces(t, root), "a placeholder has the size of the record it stands for")
				if policy == DamageAcceptLoss {
					requireAgree(t, s.Log(), s.views.queues, o)
				}
				next := s.NextOffset("T", 0)
				r, err := s.Put(t.Context(), plainMessage("T", "goes on"))
				require.NoError(t, err)
				require.Equal(t, next, r.Append.QueueOffset)
				require.NoError(t, s.Close())
				require.NoFileExists(t, l.AbortPath())
				require.DirExists(t, l.brokenDir())
			})
		}
	}
}

// TestW5CutBytesDoNotComeBack: what was cut off is erased, so that a record put there later is not followed by old ones.
func TestW5CutBytesDoNotComeBack(t *testing.T) {
	root, o, _ := lossStore(t)
	places := recordPlaces(t, root)
	hit := at(places, places[len(places)-1]-3000)
	// the record gets shorter by exactly one later, so that old bytes would fit behind the new record
	editLog(t, root, func(b []byte) { b[places[hit]+4] ^= 1 })
	require.NoError(t, os.Remove(NewLayout(root).CheckpointPath()))
	o.LogDamagePolicy = DamageAcceptLoss
	s := openStore(t, root, o)
	require.Equal(t, places[hit], s.Positions().Wrote)
	require.NoError(t, s.Close())
	for range 2 {
		s = openStore(t, root, o)
		require.Equal(t, places[hit], s.Positions().Wrote, "nothing came back")
		require.NoError(t, s.Close())
	}
	editLog(t, root, func(b []byte) {
		require.Equal(t, make([]byte, len(b)-int(places[hit])), b[places[hit]:])
	})
}

// TestW8FirstUndispatchedRecordGetsItsUnit: a store that was closed in order lost the last unit of a queue. RocketMQ dispatches what is above the end of the last unit's record, and not what is at it.
func TestW8FirstUndispatchedRecordGetsItsUnit(t *testing.T) {
	for _, note := range []bool{true, false} {
		for _, crashed := range []bool{true, false} {
			t.Run(fmt.Sprintf("note=%v/crashed=%v", note, crashed), func(t *testing.T) {
				o := viewOptions(StoreTypeFile)
				root := t.TempDir()
				s := openStore(t, root, o)
				for range 3 {
					_, err := s.Put(t.Context(), plainMessage("T", "body"))
					require.NoError(t, err)
				}
				require.NoError(t, s.Close())
				l := NewLayout(root)
				path := filepath.Join(l.ConsumeQueueDir(), "T", "0", mappedfile.Name(0))
				b, err := os.ReadFile(path)
				require.NoError(t, err)
				clear(b[2*20:])
				require.NoError(t, os.WriteFile(path, b, 0o644))
				if !note {
					require.NoError(t, os.Remove(l.queueOffsetsPath()))
				}
				if crashed {
					require.NoError(t, os.WriteFile(l.AbortPath(), nil, 0o644))
				}
				s = openStore(t, root, o)
				require.Equal(t, int64(3), s.NextOffset("T", 0))
				require.NoError(t, s.Close())
				requireWhole(t, root, o)
			})
		}
	}
}

// TestW13MissingLogFileIsNamed: a log without a file in the middle is not opened, nor read for ever.
func TestW13MissingLogFileIsNamed(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	s := openStore(t, root, o)
	putTo(t, s, 4*o.MappedFileSizeCommitLog)
	require.NoError(t, s.Close())
	l := NewLayout(root)
	gone := mappedfile.Name(2 * o.MappedFileSizeCommitLog)
	require.NoError(t, os.Remove(filepath.Join(l.CommitLogDir(), gone)))
	before := golden.TreeSums(t, l.CommitLogDir())
	_, err := Open(root, o)
	require.ErrorContains(t, err, gone)
	require.NoFileExists(t, l.AbortPath(), "it was found in order but for that")
	for _, p := range []DamagePolicy{DamageRefuse, DamageAcceptLoss} { // DamageMend fills it in
		_, err = Recover(t.Context(), root, RecoverOptions{Damage: p, Options: &o})
		require.ErrorContains(t, err, gone)
	}
	require.NoFileExists(t, l.AbortPath())
	require.Equal(t, before, golden.TreeSums(t, l.CommitLogDir()))
}

// TestW20RecoveryStopsAtARecordOfAnotherPlace: a whole record, copied behind the last one, is not of this log.
func TestW20RecoveryStopsAtARecordOfAnotherPlace(t *testing.T) {
	root, o, _ := lossStore(t)
	places := recordPlaces(t, root)
	end := places[len(places)-1]
	editLog(t, root, func(b []byte) { copy(b[end:], b[places[3]:places[5]]) })
	rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o})
	require.NoError(t, err)
	require.Equal(t, end, rep.LogEnd)
	require.Equal(t, "torn end", rep.Log.KindText)
	require.Equal(t, places, recordPlaces(t, root))
	requireWhole(t, root, o)
}

// TestW29ForeignFilesAreLeftAlone: what is no part of the store keeps it neither closed nor is it touched.
func TestW29ForeignFilesAreLeftAlone(t *testing.T) {
	root, o, _ := lossStore(t)
	l := NewLayout(root)
	foreign := []string{
		filepath.Join(l.CommitLogDir(), "notes.txt"), filepath.Join(l.CommitLogDir(), "99999999999999999999x"), filepath.Join(l.CommitLogDir(), "zz", "file"),
		filepath.Join(l.ConsumeQueueDir(), "README"), filepath.Join(l.ConsumeQueueDir(), "T", "0", "notes"), filepath.Join(l.ConsumeQueueDir(), "T", "x", "file"), filepath.Join(l.IndexDir(), "notes"),
	}
	for _, path := range foreign {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("mine"), 0o644))
	}
	rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o})
	require.NoError(t, err)
	require.True(t, rep.AbortCleared)
	s := openStore(t, root, o)
	putSome(t, s, 1)
	require.NoError(t, s.Close())
	requireWhole(t, root, o)
	for _, path := range foreign {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "mine", string(b))
	}
}

// TestW43EmptiedLogTakesItsViewsAlong: the log is gone, and index, queues and checkpoint speak of it. New messages get units and are found by their keys.
func TestW43EmptiedLogTakesItsViewsAlong(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		for _, crashed := range []bool{false, true} {
			t.Run(fmt.Sprintf("crashed=%v", crashed), func(t *testing.T) {
				root := t.TempDir()
				s := openStore(t, root, o)
				putSome(t, s, 60)
				require.NoError(t, s.Close())
				l := NewLayout(root)
				require.NoError(t, os.RemoveAll(l.CommitLogDir()))
				require.NoError(t, os.Mkdir(l.CommitLogDir(), 0o755))
				if crashed {
					require.NoError(t, os.WriteFile(l.AbortPath(), nil, 0o644))
				}
				_, err := Open(root, o)
				require.ErrorIs(t, err, commitlog.ErrCorrupt, "it has lost its end")
				accepting := o
				accepting.LogDamagePolicy = DamageAcceptLoss
				s = openStore(t, root, accepting)
				for i := range 20 {
					m := plainMessage("T", "new")
					m.Properties = message.AppendProperty(nil, message.PropertyUniqKey, fmt.Sprintf("new%d", i))
					_, err := s.Put(t.Context(), m)
					require.NoError(t, err)
				}
				require.NoError(t, s.awaitViews(t.Context()))
				for name, m := range s.Watermarks().Views {
					require.Zero(t, m.BehindBytes, name)
					require.Zero(t, m.Conflicts, name)
				}
				require.NoError(t, s.Close())
				g := goldenStore{o: o}
				g.requireIndexed(t, l)
				log, err := commitlog.Open(l.CommitLogDir(), commitlog.Options{})
				require.NoError(t, err)
				require.NoError(t, log.Close())
				v, err := OpenView(root, ViewOptions{Kind: o.StoreType.kind()})
				require.NoError(t, err)
				defer func() { require.NoError(t, v.Close()) }()
				for k, err := range v.Queues.Queues() {
					require.NoError(t, err)
					q, _ := v.Queues.Queue(k)
					b, err := q.Bounds()
					require.NoError(t, err)
					if k.Topic != "T" || k.QueueID != 0 {
						require.Equal(t, b.Min, b.Max, "%s has units of the log that is gone", k)
						continue
					}
					require.Equal(t, int64(20), b.Max-b.Min)
				}
			})
		}
	})
}

// TestW49NoDatabaseWithoutNeed: a store of file queues opens no RocksDB.
func TestW49NoDatabaseWithoutNeed(t *testing.T) {
	root, o, _ := lossStore(t)
	_, err := Recover(t.Context(), root, RecoverOptions{Options: &o})
	require.NoError(t, err)
	s := openStore(t, root, o)
	putSome(t, s, 1)
	require.NoError(t, s.Close())
	require.NoDirExists(t, filepath.Join(root, "rocksdbstore"))
	_, _, found, err := NewLayout(root).FindRocks()
	require.NoError(t, err)
	require.False(t, found)
}

// A failed sync leaves a flag that outlives the process; Recover clears it, after it has written again what may not be on the disk.
func TestRecoverClearsErrorFlags(t *testing.T) {
	root, o, durable := lossStore(t)
	l := NewLayout(root)
	flags, err := OpenRunningFlags(nil, l.StateDir())
	require.NoError(t, err)
	require.NoError(t, flags.Set(FlagNotWriteable|FlagLogicsQueueError, "sync failed"))
	s := openStore(t, root, o)
	_, err = s.Put(t.Context(), plainMessage("T", "refused"))
	require.ErrorIs(t, err, PutServiceNotAvailable)
	require.NoError(t, s.Close())

	rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o, DryRun: true})
	require.NoError(t, err)
	require.Len(t, rep.Flags, 2)
	require.Zero(t, rep.RewrittenBytes)
	require.FileExists(t, filepath.Join(l.StateDir(), runningFlagsName))
	rep, err = Recover(t.Context(), root, RecoverOptions{Options: &o})
	require.NoError(t, err)
	require.GreaterOrEqual(t, rep.RewrittenBytes, rep.LogEnd-durable)
	s = openStore(t, root, o)
	require.Zero(t, s.Flags().Bits())
	putSome(t, s, 1)
	require.NoError(t, s.Close())
	requireWhole(t, root, o)
}

// TestFRB08CatchUpGoesOn: a long catch-up that was cut off goes on where it was, not from the beginning.
func TestFRB08CatchUpGoesOn(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		live := t.TempDir()
		s := openStore(t, live, o)
		putTo(t, s, 5<<18)
		require.NoError(t, s.Close())
		l := NewLayout(live)
		require.NoError(t, os.RemoveAll(l.ConsumeQueueDir()))
		require.NoError(t, os.Remove(l.CheckpointPath()))
		require.NoError(t, os.RemoveAll(l.queueOffsetsPath()))
		require.NoError(t, os.WriteFile(l.AbortPath(), nil, 0o644))

		cut := ""
		s = newStore(o)
		s.layout, s.catchUpSaveBytes, s.catchUpSaveShare, s.settleAhead = l, 1<<18, 0, 1
		s.onProgress = func(phase string, total int64, unit string) func(int64) {
			return func(done int64) {
				if strings.HasPrefix(phase, "dispatch") && cut == "" && done > total/2 {
					cut = crash(t, live)
				}
			}
		}
		require.NoError(t, s.load())
		require.NoError(t, s.Close())
		require.NotEmpty(t, cut)

		var logged logtest.Log
		o.Logger = slog.New(slog.NewJSONHandler(&logged, nil))
		s = openStore(t, cut, o)
		require.NoError(t, s.Close())
		var from int64
		for line := range strings.Lines(logged.String()) {
			if _, rest, ok := strings.Cut(line, `"consume queues are brought up to the log","phyOffset":`); ok {
				_, err := fmt.Sscan(rest[:strings.IndexByte(rest, ',')], &from)
				require.NoError(t, err)
			}
		}
		require.Greater(t, from, int64(256<<10))
		requireWhole(t, cut, o)
	})
}

// After a log was mended, index entries of what was lost are still there. Recovery says so, and what it names removes them.
func TestMendedLogLeavesIndexEntries(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := indexedStore(t, o, 10)
	places := recordPlaces(t, root)
	editLog(t, root, func(b []byte) { copy(b[places[3]+4:], "???") })
	rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o, Damage: DamageMend, Full: true})
	require.NoError(t, err)
	require.Contains(t, strings.Join(rep.Notes, "\n"), "index entries of what was lost")
	indexErrors := func() (n int64) {
		checked, err := Check(t.Context(), root, CheckOptions{Deep: true})
		require.NoError(t, err)
		for _, c := range checked.Counts {
			if c.Code == CheckIndexEntry {
				n += c.Count
			}
		}
		return n
	}
	require.EqualValues(t, 1, indexErrors())
	_, err = Rebuild(t.Context(), root, RebuildOptions{Index: true, Options: &o})
	require.NoError(t, err)
	require.Zero(t, indexErrors())
}
