package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// cutManifestStore is a closed store of which RocksDB has been made durable several times. The queues of topic "old" have no record in the log any more.
func cutManifestStore(t *testing.T, o Options) (root string, next map[cq.Key]int64) {
	t.Helper()
	root = t.TempDir()
	s := openStore(t, root, o)
	putTo(t, s, o.MappedFileSizeCommitLog/2)
	require.NoError(t, s.awaitViews(t.Context()))
	require.NoError(t, s.views.flush(t.Context()))
	require.NoError(t, s.Close())
	s = openStore(t, root, o) // with a manifest of its own
	require.NoError(t, s.awaitViews(t.Context()))
	for range 3 {
		putTopic(t, s, "old", 4)
		require.NoError(t, s.awaitViews(t.Context()))
		require.NoError(t, s.views.flush(t.Context()))
	}
	require.Less(t, s.Positions().Wrote, o.MappedFileSizeCommitLog)
	putTo(t, s, 2*o.MappedFileSizeCommitLog)
	require.NoError(t, s.awaitViews(t.Context()))
	require.NoError(t, s.views.flush(t.Context()))
	require.NoError(t, s.Close())
	require.NoError(t, os.Remove(filepath.Join(NewLayout(root).CommitLogDir(), mappedfile.Name(0))))
	return root, map[cq.Key]int64{{Topic: "old"}: 6, {Topic: "old", QueueID: 1}: 6, {Topic: "T"}: s.NextOffset("T", 0), {Topic: "T", QueueID: 1}: s.NextOffset("T", 1)}
}

// TestManifestThatWasCut: RocksDB would open with a manifest that has lost its end as it was at an earlier time. It is set aside instead, and built from the log: nothing is lost, and no offset
// is given twice, also not of a queue of which the log has no record.
func TestManifestThatWasCut(t *testing.T) {
	needRocksDB(t)
	for name, o := range map[string]Options{"rocks": viewOptions(StoreTypeRocksDB), "combine": combineOptions()} {
		o.MessageIndexEnable = false
		t.Run(name, func(t *testing.T) {
			whole, next := cutManifestStore(t, o)
			s := openStore(t, copyTree(t, whole), o) // the log has lost its first file: what stays is what is to come back
			require.NoError(t, s.awaitViews(t.Context()))
			for k, n := range next {
				require.Equal(t, n, s.NextOffset(k.Topic, k.QueueID), "%v", k)
			}
			want := readHoled(t, s, "T", 0, mustMin(t, s))
			require.NotEmpty(t, want)
			require.NoError(t, s.Close())
			manifest, err := filepath.Rel(whole, filepath.Join(rocksDir(t, whole), rocksText(rocksDir(t, whole), currentFile)))
			require.NoError(t, err)
			b, err := os.ReadFile(filepath.Join(whole, manifest))
			require.NoError(t, err)
			harms := map[string][]byte{"zeros at its end": append(append([]byte{}, b[:len(b)*3/4]...), make([]byte, len(b)-len(b)*3/4)...)}
			for _, cut := range []int{0, 1, len(b) / 4, len(b) / 2, len(b) * 2 / 3, len(b) * 3 / 4, len(b) * 7 / 8, len(b) - 40, len(b) - 1} {
				harms[fmt.Sprintf("cut to %d of %d", cut, len(b))] = b[:cut]
			}
			for name, b := range harms {
				t.Run(name, func(t *testing.T) {
					root := copyTree(t, whole)
					require.NoError(t, os.WriteFile(filepath.Join(root, manifest), b, 0o600))

					_, err := OpenView(root, ViewOptions{Kind: cq.KindRocks})
					var remnants *RemnantsError
					require.ErrorAs(t, err, &remnants)
					require.ErrorContains(t, err, "tandemmq/"+manifestNoteName)
					checked, err := Check(t.Context(), root, CheckOptions{})
					require.NoError(t, err)
					require.False(t, checked.Sound)
					require.Equal(t, CheckRocksPlace, codeOf(checked, CheckRocksPlace))
					dry, err := Recover(t.Context(), root, RecoverOptions{Options: &o, DryRun: true})
					require.NoError(t, err)
					require.Contains(t, fmt.Sprint(dry.Notes), "would be opened as it was at an earlier time")

					s := openStore(t, root, o)
					require.NoError(t, s.awaitViews(t.Context()))
					require.Equal(t, want, readHoled(t, s, "T", 0, mustMin(t, s)))
					for k, n := range next {
						require.Equal(t, n, s.NextOffset(k.Topic, k.QueueID), "%v", k)
					}
					putTopic(t, s, "old", 2)
					require.NoError(t, s.awaitViews(t.Context()))
					require.EqualValues(t, 7, maxOffsetOf(t, s, "old"))
					require.NoError(t, s.Close())
					requireSound(t, root)
					aside, err := newestAside(NewLayout(root), "rocksdb")
					require.NoError(t, err)
					kept, err := os.ReadFile(filepath.Join(aside, filepath.Base(manifest)))
					require.NoError(t, err)
					require.Equal(t, b, kept)
					require.NoDirExists(t, filepath.Join(aside, salvageName))
					s = openStore(t, root, o) // what was noted is of the new one
					require.EqualValues(t, 7, maxOffsetOf(t, s, "old"))
					require.NoError(t, s.Close())
					again, err := newestAside(NewLayout(root), "rocksdb")
					require.NoError(t, err)
					require.Equal(t, aside, again)
				})
			}
		})
	}
}

// TestManifestThatWasCutOffline: the commands that mend a stopped store do the same.
func TestManifestThatWasCutOffline(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeRocksDB)
	o.MessageIndexEnable = false
	whole, next := cutManifestStore(t, o)
	for name, mend := range map[string]func(t *testing.T, root string){
		"recover": func(t *testing.T, root string) {
			rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o})
			require.NoError(t, err)
			require.Empty(t, rep.Forgotten)
		},
		"rebuild": func(t *testing.T, root string) {
			_, err := Rebuild(t.Context(), root, RebuildOptions{Kind: cq.KindRocks, Options: &o})
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := copyTree(t, whole)
			manifest := filepath.Join(rocksDir(t, root), rocksText(rocksDir(t, root), currentFile))
			st, err := os.Stat(manifest)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(manifest, st.Size()*3/4))
			mend(t, root)
			s := openStore(t, root, o)
			for k, n := range next {
				require.Equal(t, n, s.NextOffset(k.Topic, k.QueueID), "%v", k)
			}
			require.NoError(t, s.Close())
			requireSound(t, root)
		})
	}
}

func codeOf(rep *CheckReport, code CheckCode) CheckCode {
	for _, c := range rep.Counts {
		if c.Code == code {
			return code
		}
	}
	return ""
}

// TestManifestNoteIsNoObstacle: a note that is damaged, of another database or of an older manifest says nothing, and who opens the database with RocksDB alone moves on.
func TestManifestNoteIsNoObstacle(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeRocksDB)
	whole := filledStore(t, o, 100)
	l := NewLayout(whole)
	dir := rocksDir(t, whole)
	n := l.readManifestNote()
	require.NotNil(t, n)
	require.Equal(t, rocksText(dir, currentFile), n.Manifest)
	st, err := os.Stat(filepath.Join(dir, n.Manifest))
	require.NoError(t, err)
	require.Equal(t, st.Size(), n.Bytes, "noted after the database was closed")
	for name, harm := range map[string]func(t *testing.T, l Layout){
		"gone":    func(t *testing.T, l Layout) { require.NoError(t, os.Remove(l.manifestNotePath())) },
		"damaged": func(t *testing.T, l Layout) { patch(t, l.manifestNotePath(), 20, []byte("\x00\x00")) },
		"another number": func(t *testing.T, l Layout) {
			b, err := os.ReadFile(l.manifestNotePath())
			require.NoError(t, err)
			b[len(b)-4] ^= 1
			require.NoError(t, os.WriteFile(l.manifestNotePath(), b, 0o600))
		},
		"another database": func(t *testing.T, l Layout) {
			require.NoError(t, os.WriteFile(filepath.Join(rocksDir(t, l.Root), identityFile), []byte("another"), 0o600))
		},
		"opened by somebody else since": func(t *testing.T, l Layout) {
			other := o
			other.MessageIndexEnable = false
			b, err := os.ReadFile(l.manifestNotePath())
			require.NoError(t, err)
			s := openStore(t, l.Root, other)
			require.NoError(t, s.Close())
			require.NoError(t, os.WriteFile(l.manifestNotePath(), b, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := copyTree(t, whole)
			harm(t, NewLayout(root))
			s := openStore(t, root, o)
			require.NoError(t, s.Close())
			aside, err := newestAside(NewLayout(root), "rocksdb")
			require.NoError(t, err)
			require.Empty(t, aside)
			requireSound(t, root)
		})
	}
}

func copyTree(t *testing.T, root string) string {
	t.Helper()
	to := t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(root)))
	return to
}

func mustMin(t *testing.T, s *Store) int64 {
	t.Helper()
	n, err := s.MinOffset("T", 0)
	require.NoError(t, err)
	return n
}
