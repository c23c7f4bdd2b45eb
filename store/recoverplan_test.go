package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// A dry run says of each view what the recovery then does, and changes nothing.
func TestIssue5Part5DryRunTellsOfTheViews(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		for _, c := range []struct {
			name string
			hurt func(t *testing.T, root string)
			plan string // of each view
		}{
			{name: "killed", hurt: func(*testing.T, string) {}, plan: "bytes of the log are dispatched to it"},
			{name: "queues and index lost", hurt: func(t *testing.T, root string) {
				loseQueues(t, root)
				require.NoError(t, os.RemoveAll(NewLayout(root).IndexDir()))
			}, plan: "it is built from the log; "},
		} {
			t.Run(c.name, func(t *testing.T) {
				live := t.TempDir()
				s := openStore(t, live, o)
				putSome(t, s, 100)
				require.NoError(t, s.awaitViews(t.Context()))
				require.NoError(t, s.views.flush(context.Background()))
				putSome(t, s, 50)
				root := crash(t, live)
				require.NoError(t, s.Close())
				c.hurt(t, root)
				before := golden.TreeSums(t, root)
				dry, err := Recover(t.Context(), root, RecoverOptions{Options: &o, DryRun: true})
				require.NoError(t, err)
				require.Equal(t, before, golden.TreeSums(t, root))
				rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o})
				require.NoError(t, err)
				plans := make(map[string]RecoveredView)
				for _, v := range dry.Views {
					plans[v.Name] = v
					if v.Name != indexName || c.name != "killed" { // its last messages may all be without keys
						require.Contains(t, v.Plan, c.plan)
					}
				}
				require.Contains(t, plans, indexName)
				for _, v := range rep.Views {
					if v.From >= 0 { // the others share what is told of a side
						require.Equal(t, v.From, plans[v.Name].From, v.Name)
					}
					require.Empty(t, v.Plan)
				}
			})
		}
	})
	t.Run("damage", func(t *testing.T) {
		needRocksDB(t)
		o := combineOptions()
		root := filledStore(t, o, 100)
		l := NewLayout(root)
		removeRocks(t, root, func(name string) bool { return name == currentFile })
		require.NoError(t, os.Truncate(filepath.Join(l.ConsumeQueueDir(), "T", "0", "00000000000000000000"), 77))
		before := golden.TreeSums(t, root)
		dry, err := Recover(t.Context(), root, RecoverOptions{Options: &o, DryRun: true})
		require.NoError(t, err)
		require.Equal(t, before, golden.TreeSums(t, root))
		require.Contains(t, dry.Views[0].Plan, "1 queues that are damaged are built from the log")
		require.Contains(t, dry.Views[1].Plan, "it is set aside; it is built from the log; ")
		require.Contains(t, dry.Views[1].Why, "has no file CURRENT")
		require.Equal(t, []string{"file queues", "rocks queues", "index"}, []string{dry.Views[0].Name, dry.Views[1].Name, dry.Views[2].Name})
		require.Equal(t, "tandemmq/index-read", dry.Views[2].Why)
		require.NoError(t, os.Remove(l.indexReadPath()))
		dry, err = Recover(t.Context(), root, RecoverOptions{Options: &o, DryRun: true})
		require.NoError(t, err)
		require.Equal(t, "the last message that has entries", dry.Views[2].Why)
	})
}
