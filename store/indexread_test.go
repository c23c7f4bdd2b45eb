package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// indexReadOptions make small index files: 7 entries each.
func indexReadOptions() Options {
	o := viewOptions(StoreTypeFile)
	o.MaxHashSlotNum, o.MaxIndexNum = 2, 8
	return o
}

// keylessStore has keyed messages and then some without keys, and was closed.
func keylessStore(t *testing.T, o Options, keyed, keyless int) (root string, end int64) {
	t.Helper()
	root = indexedStore(t, o, keyed)
	s := openStore(t, root, o)
	for range keyless {
		putKeyed(t, s, "T", "", "", "")
	}
	require.NoError(t, s.Close())
	return root, s.Positions().Wrote
}

// TestIndexReadNote: what has no keys is read once for the index, however often the store is opened.
func TestIndexReadNote(t *testing.T) {
	o := indexReadOptions()
	for name, keyed := range map[string]int{"no keys at all": 0, "keys before": 30} {
		t.Run(name, func(t *testing.T) {
			root, end := keylessStore(t, o, keyed, 60)
			for range 3 {
				s := openStore(t, root, o)
				require.Equal(t, end, s.views.index.from)
				require.NoError(t, s.Close())
			}
			st, err := ReadStatus(root, o)
			require.NoError(t, err)
			require.Equal(t, indexName, st.Views[len(st.Views)-1].Name)
			require.Equal(t, "up to the log's end", st.Views[len(st.Views)-1].Text())
			rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o, DryRun: true})
			require.NoError(t, err)
			require.Equal(t, "tandemmq/"+indexReadName, rep.Views[len(rep.Views)-1].Why)

			s := openStore(t, root, o)
			for range 5 {
				putKeyed(t, s, "T", "", "k", "")
			}
			awaitIndex(t, s)
			_, n := found(t, s, QueryRequest{Topic: "T", Key: "k"})
			require.Equal(t, keyed+5, n)
			require.NoError(t, s.Close())
			requireSound(t, root)
		})
	}
}

// TestIndexReadNoteThatDoesNotFit: a note that is damaged, or about other index files, or another log, hides nothing.
func TestIndexReadNoteThatDoesNotFit(t *testing.T) {
	o := indexReadOptions()
	const keyed = 30
	removeIndexFile := func(t *testing.T, root string, i int) {
		files, err := os.ReadDir(NewLayout(root).IndexDir())
		require.NoError(t, err)
		require.Greater(t, len(files), 3)
		if i < 0 {
			i = len(files) - 1
		}
		require.NoError(t, os.Remove(filepath.Join(NewLayout(root).IndexDir(), files[i].Name())))
	}
	tests := map[string]func(t *testing.T, root string){
		"no index":         func(t *testing.T, root string) { require.NoError(t, os.RemoveAll(NewLayout(root).IndexDir())) },
		"first file gone":  func(t *testing.T, root string) { removeIndexFile(t, root, 0) },
		"middle file gone": func(t *testing.T, root string) { removeIndexFile(t, root, 2) },
		"last file gone":   func(t *testing.T, root string) { removeIndexFile(t, root, -1) },
		"an older index": func(t *testing.T, root string) { // of the time before there were 30
			dir := NewLayout(root).IndexDir()
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.CopyFS(dir, os.DirFS(dir+".old")))
		},
		"note gone": func(t *testing.T, root string) { require.NoError(t, os.Remove(NewLayout(root).indexReadPath())) },
		"note of another log": func(t *testing.T, root string) {
			path := NewLayout(root).indexReadPath()
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			n, err := parseIndexRead(b)
			require.NoError(t, err)
			n.last.ms++
			n.files = nil
			require.NoError(t, os.WriteFile(path, n.image(), 0o600))
			require.NoError(t, os.RemoveAll(NewLayout(root).IndexDir()))
		},
		"note beyond the log": func(t *testing.T, root string) {
			path := NewLayout(root).indexReadPath()
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			n, err := parseIndexRead(b)
			require.NoError(t, err)
			n.last.phy = 1 << 40
			require.NoError(t, os.WriteFile(path, n.image(), 0o600))
		},
	}
	for name, harm := range tests {
		t.Run(name, func(t *testing.T) {
			root := indexedStore(t, o, keyed/2)
			dir := NewLayout(root).IndexDir()
			require.NoError(t, os.CopyFS(dir+".old", os.DirFS(dir)))
			s := openStore(t, root, o)
			for range keyed / 2 {
				putKeyed(t, s, "T", "", "k", "")
			}
			for range 30 {
				putKeyed(t, s, "T", "", "", "")
			}
			require.NoError(t, s.Close())
			end := s.Positions().Wrote
			harm(t, root)
			s = openStore(t, root, o)
			require.Less(t, s.views.index.from, end)
			awaitIndex(t, s)
			res, n := found(t, s, QueryRequest{Topic: "T", Key: "k"})
			require.Equal(t, keyed, n)
			require.True(t, res.Complete())
			require.NoError(t, s.Close())
			require.NoError(t, os.RemoveAll(dir+".old"))
			requireSound(t, root)
			s = openStore(t, root, o) // what did not fit has been replaced
			require.Equal(t, end, s.views.index.from)
			require.NoError(t, s.Close())
		})
	}
}

// TestIndexReadNoteDamaged: each byte of the note is looked at.
func TestIndexReadNoteDamaged(t *testing.T) {
	n := indexRead{last: recordMark{phy: 4711, ms: 42}, files: []indexReadFile{{20240101000000000, 0, 99, 7}, {20240101000000001, 100, 4711, 3}}}
	image := n.image()
	read, err := parseIndexRead(image)
	require.NoError(t, err)
	require.Equal(t, &n, read)
	require.Len(t, image, indexReadHeader+2*indexReadRow+indexReadCRC)
	for i := range image {
		_, err = parseIndexRead(image[:i])
		require.Error(t, err, "cut at %d", i)
		image[i] ^= 0x10
		_, err = parseIndexRead(image)
		require.Error(t, err, "byte %d", i)
		image[i] ^= 0x10
	}
}

// TestIndexReadNoteOlderThanTheIndex: a crash leaves a note that is older than the index files. It is used as far as it goes, and what came later is found.
func TestIndexReadNoteOlderThanTheIndex(t *testing.T) {
	o := indexReadOptions()
	root, noted := keylessStore(t, o, 10, 20)
	path := NewLayout(root).indexReadPath()
	note, err := os.ReadFile(path)
	require.NoError(t, err)
	s := openStore(t, root, o)
	for i := range 40 {
		putKeyed(t, s, "T", "", []string{"k", ""}[i%2], "")
	}
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(path, note, 0o600))
	require.NoError(t, os.WriteFile(NewLayout(root).AbortPath(), nil, 0o600))
	s = openStore(t, root, o)
	require.Greater(t, s.views.index.from, noted)
	require.Less(t, s.views.index.from, s.Positions().Wrote)
	awaitIndex(t, s)
	_, n := found(t, s, QueryRequest{Topic: "T", Key: "k"})
	require.Equal(t, 30, n)
	require.NoError(t, s.Close())
	requireSound(t, root)
}

// TestIndexReadNoteAfterRetention: files of log and index that have expired take nothing from what is noted.
func TestIndexReadNoteAfterRetention(t *testing.T) {
	o := indexReadOptions()
	root, end := keylessStore(t, o, 60, 500)
	files, err := os.ReadDir(NewLayout(root).CommitLogDir())
	require.NoError(t, err)
	require.Greater(t, len(files), 2)
	require.NoError(t, os.Remove(filepath.Join(NewLayout(root).CommitLogDir(), files[0].Name())))
	s := openStore(t, root, o)
	require.Equal(t, end, s.views.index.from)
	_, err = s.views.index.expire(s.Log().MinOffset())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	s = openStore(t, root, o)
	require.Equal(t, end, s.views.index.from)
	require.NoError(t, s.Close())
}

// TestRebuildOfTheIndexForgetsItsNote: who has the index built again gets all of it, whatever was noted of the old one; here that a log with keys had none.
func TestRebuildOfTheIndexForgetsItsNote(t *testing.T) {
	o := indexReadOptions()
	root, _ := keylessStore(t, o, 20, 1)
	path := NewLayout(root).indexReadPath()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	n, err := parseIndexRead(b)
	require.NoError(t, err)
	n.files = nil
	require.NoError(t, os.WriteFile(path, n.image(), 0o600))
	_, err = Rebuild(t.Context(), root, RebuildOptions{Index: true, Options: &o, Given: []string{}})
	require.NoError(t, err)
	requireSound(t, root)
	v, err := OpenView(root, ViewOptions{LogOnly: true})
	require.NoError(t, err)
	x, err := v.OpenIndex()
	require.NoError(t, err)
	entries := 0
	for _, f := range x.Files() {
		entries += int(f.Entries)
	}
	require.Equal(t, 20, entries)
	require.NoError(t, x.Close())
	require.NoError(t, v.Close())
}
