package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/tests/golden"
)

// A log that has lost files in its middle is refused by name; with mend fillers take their place, what lies before and behind is kept and served at its own offsets, and the slots between are told
// and passed.
func TestIssue5Part4MissingLogFiles(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		for name, lose := range map[string][]int64{"one": {1}, "two in a row and one": {1, 2, 4}} {
			for _, queues := range []string{"there", "lost"} {
				t.Run(name+", queues "+queues, func(t *testing.T) {
					root := t.TempDir()
					s := openStore(t, root, o)
					putTo(t, s, 6*o.MappedFileSizeCommitLog)
					require.NoError(t, s.awaitViews(t.Context()))
					end := s.Positions().Wrote
					next := s.NextOffset("T", 0)
					require.NoError(t, s.Close())
					places := placesOf(t, root, o, cq.Key{Topic: "T"})
					l := NewLayout(root)
					var gone []string
					var lost []int64
					for _, n := range lose {
						from := n * o.MappedFileSizeCommitLog
						gone = append(gone, filepath.Join(l.CommitLogDir(), mappedfile.Name(from)))
						require.NoError(t, os.Remove(gone[len(gone)-1]))
						for slot, p := range places {
							if p.phy >= from && p.phy < from+o.MappedFileSizeCommitLog {
								lost = append(lost, int64(slot))
							}
						}
					}
					if queues == "lost" {
						loseQueues(t, root)
					}
					before := golden.TreeSums(t, root)
					for _, ro := range []RecoverOptions{{}, {DryRun: true}, {Damage: DamageAcceptLoss}} {
						ro.Options = &o
						rep, err := Recover(t.Context(), root, ro)
						var missing *MissingFilesError
						require.ErrorAs(t, err, &missing)
						require.ErrorIs(t, err, commitlog.ErrCorrupt)
						require.Len(t, missing.Files, len(gone))
						require.ErrorContains(t, err, gone[0]+": missing (physical offsets 16384 to 32768)")
						require.ErrorContains(t, err, "tandemmq store recover --store "+root+" --mend")
						require.Nil(t, rep.Log)
					}
					rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o, Damage: DamageMend, DryRun: true})
					require.NoError(t, err)
					require.Len(t, rep.Missing, len(gone))
					require.Equal(t, before, golden.TreeSums(t, root), "nothing is changed")

					rep, err = Recover(t.Context(), root, RecoverOptions{Options: &o, Damage: DamageMend, Check: true})
					require.NoError(t, err)
					require.True(t, rep.AbortCleared)
					requireReportSound(t, rep.Checked)
					var named []string
					for _, f := range rep.Missing {
						named = append(named, f.Path)
						require.FileExists(t, f.Path)
					}
					require.Equal(t, gone, named)
					var told []int64
					for _, r := range rep.Lost {
						for slot := r.From; r.Topic == "T" && r.QueueID == 0 && slot < r.To; slot++ {
							told = append(told, slot)
						}
					}
					require.Equal(t, lost, told)
					manifests, err := filepath.Glob(filepath.Join(l.brokenDir(), "*", "manifest.json"))
					require.NoError(t, err)
					require.Len(t, manifests, 1)

					s = openStore(t, root, o)
					require.NoError(t, s.awaitViews(t.Context()))
					require.Equal(t, end, s.Positions().Wrote, "no place is another")
					require.Equal(t, next, s.NextOffset("T", 0))
					require.Equal(t, but(next, lost...), readHoled(t, s, "T", 0, 0))
					putSome(t, s, 1)
					require.Equal(t, next+1, s.NextOffset("T", 0))
					require.NoError(t, s.Close())
					checked, err := Check(t.Context(), root, CheckOptions{Deep: true})
					require.NoError(t, err)
					requireReportSound(t, checked)
				})
			}
		}
	})
}

// requireReportSound shows the first findings of a check that found errors.
func requireReportSound(t *testing.T, rep *CheckReport) {
	t.Helper()
	require.True(t, rep.Sound, "%v", rep.Findings[:min(len(rep.Findings), 5)])
}
