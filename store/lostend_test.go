package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/tests/golden"
)

// endsOf returns the max offset of each queue.
func endsOf(t *testing.T, s *Store) map[cq.Key]int64 {
	t.Helper()
	ends := make(map[cq.Key]int64)
	for k, err := range s.views.queues.Queues() {
		require.NoError(t, err)
		q, _ := s.views.queues.Queue(k)
		b, err := q.Bounds()
		require.NoError(t, err)
		ends[k] = b.Max
	}
	return ends
}

func fileThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lostEndStore is a store of several log files that was stopped in order. It returns the path of the last one, which has records.
func lostEndStore(t *testing.T, o Options) (root, last string, ends map[cq.Key]int64, end int64) {
	t.Helper()
	root = t.TempDir()
	s := openStore(t, root, o)
	putTo(t, s, 3*o.MappedFileSizeCommitLog+o.MappedFileSizeCommitLog/2)
	require.NoError(t, s.awaitViews(t.Context()))
	ends, end = endsOf(t, s), s.Positions().Wrote
	require.NoError(t, s.Close())
	l := NewLayout(root)
	return root, filepath.Join(l.CommitLogDir(), mappedfile.Name(3*o.MappedFileSizeCommitLog)), ends, end
}

// TestLostEndOfTheLogIsDamage: a log that ends below what was durable is refused, whatever of it is left; with either decision it goes on behind what it has lost, and gives
// neither an offset nor a place twice.
func TestLostEndOfTheLogIsDamage(t *testing.T) {
	losses := map[string]func(t *testing.T, l Layout, last string){
		"removed": func(t *testing.T, _ Layout, last string) { require.NoError(t, os.Remove(last)) },
		"emptied": func(t *testing.T, _ Layout, last string) { require.NoError(t, os.Truncate(last, 0)) },
		"zeros": func(t *testing.T, _ Layout, last string) {
			info, err := os.Stat(last)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(last, 0))
			require.NoError(t, os.Truncate(last, info.Size()))
		},
		"torn": func(t *testing.T, _ Layout, last string) {
			info, err := os.Stat(last)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(last, 1000))
			require.NoError(t, os.Truncate(last, info.Size()))
		},
		"all": func(t *testing.T, l Layout, _ string) {
			require.NoError(t, os.RemoveAll(l.CommitLogDir()))
			require.NoError(t, os.Mkdir(l.CommitLogDir(), 0o755))
		},
	}
	forEachKind(t, func(t *testing.T, o Options) {
		for name, lose := range losses {
			for _, unclean := range []bool{false, true} {
				for _, policy := range []DamagePolicy{DamageMend, DamageAcceptLoss} {
					t.Run(name+" "+string(policy)+map[bool]string{true: " after a kill"}[unclean], func(t *testing.T) {
						root, last, ends, end := lostEndStore(t, o)
						l := NewLayout(root)
						lose(t, l, last)
						if unclean {
							require.NoError(t, os.WriteFile(l.AbortPath(), nil, 0o644))
						}
						before := golden.TreeSums(t, l.CommitLogDir())
						var damage *DamageError
						_, err := Open(root, o)
						require.ErrorAs(t, err, &damage)
						require.ErrorIs(t, err, commitlog.ErrCorrupt)
						require.ErrorContains(t, err, "has lost its end")
						rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o})
						require.ErrorAs(t, err, &damage)
						require.Len(t, rep.Log.Damage, 1)
						require.True(t, rep.Log.Damage[0].LostEnd)
						require.Equal(t, end, rep.Log.Damage[0].To)
						st, err := ReadStatus(root, o)
						require.NoError(t, err)
						require.Equal(t, end-max(st.EndPhyOffset, 0), st.LostEndBytes)
						if name != "all" {
							found, err := Check(context.Background(), root, CheckOptions{Deep: true})
							require.NoError(t, err)
							require.False(t, found.Sound)
							require.Positive(t, found.Errors)
						}
						require.Equal(t, before, golden.TreeSums(t, l.CommitLogDir()), "nothing is changed")
						require.Equal(t, unclean, fileThere(l.AbortPath()))

						if o.StoreType == StoreTypeFile {
							o.LogDamagePolicy = policy
							defer func() { o.LogDamagePolicy = DamageRefuse }()
						} else {
							rep, err = Recover(t.Context(), root, RecoverOptions{Options: &o, Damage: policy})
							require.NoError(t, err)
							require.Equal(t, name == "all", len(rep.LostEnd) == 0, "units before the log's beginning have expired")
							require.GreaterOrEqual(t, rep.LogEnd, end)
						}
						s := openStore(t, root, o)
						require.NoError(t, s.awaitViews(t.Context()))
						require.GreaterOrEqual(t, s.Positions().Wrote, end, "no place is given twice")
						for k, want := range ends {
							require.Equal(t, want, s.NextOffset(k.Topic, k.QueueID), "%v: no offset is given twice", k)
						}
						for range 2 {
							m := plainMessage("T", "behind")
							m.Properties = message.AppendProperty(nil, message.PropertyUniqKey, "behind")
							res, err := s.Put(t.Context(), m)
							require.NoError(t, err)
							require.GreaterOrEqual(t, res.Append.QueueOffset, ends[cq.Key{Topic: "T"}])
							require.NoError(t, s.awaitViews(t.Context()))
							require.NoError(t, s.Close())
							s = openStore(t, root, o)
						}
						require.Equal(t, ends[cq.Key{Topic: "T"}]+2, s.NextOffset("T", 0))
						require.NoError(t, s.Close())
						require.NoFileExists(t, l.AbortPath())
					})
				}
			}
		}
	})
}

// TestLostEndBehindRocketMQ: RocketMQ's checkpoint promises nothing; units behind the log's end do, after a stop in order. After any other they are normal.
func TestLostEndBehindRocketMQ(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		for _, unclean := range []bool{false, true} {
			root, last, _, _ := lostEndStore(t, o)
			l := NewLayout(root)
			b, err := os.ReadFile(l.CheckpointPath())
			require.NoError(t, err)
			clear(b[checkpointBytes:])
			require.NoError(t, os.WriteFile(l.CheckpointPath(), b, 0o644))
			require.NoError(t, os.Remove(last))
			if unclean {
				require.NoError(t, os.WriteFile(l.AbortPath(), nil, 0o644))
			}
			s, err := Open(root, o)
			if unclean {
				require.NoError(t, err)
				require.NoError(t, s.awaitViews(t.Context()))
				require.NoError(t, s.Close())
				continue
			}
			require.ErrorContains(t, err, "has lost its end")
		}
	})
}

// TestLostEndInAFileCutShort: where the only file was cut, nothing tells how long files are; nothing is made up.
func TestLostEndInAFileCutShort(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	s := openStore(t, root, o)
	putTo(t, s, o.MappedFileSizeCommitLog/2)
	end := s.Positions().Wrote
	require.NoError(t, s.Close())
	l := NewLayout(root)
	path := filepath.Join(l.CommitLogDir(), mappedfile.Name(0))
	require.NoError(t, os.Truncate(path, 5000))
	var damage *DamageError
	_, err := Recover(t.Context(), root, RecoverOptions{})
	require.ErrorAs(t, err, &damage)
	_, err = Recover(t.Context(), root, RecoverOptions{Damage: DamageAcceptLoss})
	require.ErrorContains(t, err, "cut short")
	require.ErrorContains(t, err, path)
	require.NoError(t, os.Truncate(path, o.MappedFileSizeCommitLog))
	rep, err := Recover(t.Context(), root, RecoverOptions{Damage: DamageAcceptLoss})
	require.NoError(t, err)
	require.GreaterOrEqual(t, rep.LogEnd, end)
	require.True(t, rep.AbortCleared)
}

// TestAcceptedLossIsAcceptedOnce: a log that was cut at damage in its middle ends below what was durable, and that was said to be right.
func TestAcceptedLossIsAcceptedOnce(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root, _, _, _ := lostEndStore(t, o)
		places := recordPlaces(t, root)
		cut := places[at(places, 3*o.MappedFileSizeCommitLog+1)]
		editLog(t, root, func(b []byte) { b[cut+4] ^= 1 })
		_, err := Open(root, o)
		var damage *DamageError
		require.ErrorAs(t, err, &damage)
		rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o, Damage: DamageAcceptLoss})
		require.NoError(t, err)
		require.Equal(t, cut, rep.LogEnd)
		s := openStore(t, root, o)
		require.NoError(t, s.Close())
	})
}

// TestRecoverRefusesALogThatCannotBeOpened: a dry run fails where the run would, and neither leaves an abort mark.
func TestRecoverRefusesALogThatCannotBeOpened(t *testing.T) {
	root := t.TempDir()
	l := NewLayout(root)
	require.NoError(t, os.Mkdir(l.CommitLogDir(), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(l.CommitLogDir(), mappedfile.Name(0)), []byte("twenty-nine bytes of anything"), 0o644))
	for _, dryRun := range []bool{true, false} {
		_, err := Recover(t.Context(), root, RecoverOptions{DryRun: dryRun})
		require.ErrorContains(t, err, "file size is 29")
		require.NoFileExists(t, l.AbortPath())
	}
}
