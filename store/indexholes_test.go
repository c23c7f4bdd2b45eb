package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/message"
)

// TestIndexFilesThatAreGone: index files that are gone from the middle or the front are noticed by whoever opens the index, and their entries come back from the log.
func TestIndexFilesThatAreGone(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.MaxHashSlotNum, o.MaxIndexNum = 2, 8 // 7 entries a file
	for name, gone := range map[string][]int{"middle": {2, 3}, "front": {0}} {
		harmed := func(t *testing.T) (root string, files []string) {
			root = indexedStore(t, o, 60)
			dir := NewLayout(root).IndexDir()
			all, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Greater(t, len(all), 6)
			for _, i := range gone {
				require.NoError(t, os.Remove(filepath.Join(dir, all[i].Name())))
			}
			for _, f := range all {
				files = append(files, filepath.Join(dir, f.Name()))
			}
			return root, files
		}
		check := func(t *testing.T, root string, deep bool) map[CheckCode]int64 {
			rep, err := Check(t.Context(), root, CheckOptions{Deep: deep})
			require.NoError(t, err)
			codes := map[CheckCode]int64{}
			for _, c := range rep.Counts {
				codes[c.Code] = c.Count
			}
			return codes
		}
		t.Run(name+"/read", func(t *testing.T) {
			root, _ := harmed(t)
			require.Equal(t, map[CheckCode]int64{CheckIndexMissing: 1}, check(t, root, false))
			require.Equal(t, map[CheckCode]int64{CheckIndexMissing: 1}, check(t, root, true))
			st, err := ReadStatus(root, o)
			require.NoError(t, err)
			for _, v := range st.Views {
				if v.Name == indexName {
					require.Contains(t, v.Text(), "is gone")
					require.Positive(t, v.BehindBytes)
				}
			}
			v, err := OpenView(root, ViewOptions{LogOnly: true})
			require.NoError(t, err)
			x, err := v.OpenIndex()
			require.NoError(t, err)
			var res QueryResult
			require.NoError(t, v.Query(x, QueryRequest{Topic: "T", Key: "k"}, &res))
			require.False(t, res.Complete())
			res.Release()
			require.NoError(t, x.Close())
			require.NoError(t, v.Close())
		})
		t.Run(name+"/open", func(t *testing.T) {
			root, _ := harmed(t)
			s := openStore(t, root, o)
			awaitIndex(t, s)
			res, n := found(t, s, QueryRequest{Topic: "T", Key: "k"})
			require.Equal(t, 60, n)
			require.True(t, res.Complete())
			require.NoError(t, s.Close())
			require.Empty(t, check(t, root, true))
		})
		t.Run(name+"/recover", func(t *testing.T) {
			root, _ := harmed(t)
			rep, err := Recover(t.Context(), root, RecoverOptions{Options: &o, Check: true})
			require.NoError(t, err)
			for _, v := range rep.Views {
				if v.Name == indexName {
					require.Contains(t, v.Why, "is gone")
				}
			}
			require.True(t, rep.Checked.Sound)
			require.Empty(t, check(t, root, true))
		})
		t.Run(name+"/read-only", func(t *testing.T) {
			root, _ := harmed(t)
			o := o
			o.IndexFileWriteEnable = false
			s := openStore(t, root, o)
			res, _ := found(t, s, QueryRequest{Topic: "T", Key: "k"})
			require.False(t, res.Complete())
			require.NoError(t, s.Close())
		})
	}
}

// TestIndexFilesWithRecordsWithoutKeysBetween: what has no keys has no entries, and is no hole.
func TestIndexFilesWithRecordsWithoutKeysBetween(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.MaxHashSlotNum, o.MaxIndexNum = 2, 8
	root := t.TempDir()
	s := openStore(t, root, o)
	for i := range 100 {
		key := ""
		if i%3 == 1 {
			key = "k"
		}
		putKeyed(t, s, "T", "", key, "")
	}
	require.NoError(t, s.Close())
	for _, deep := range []bool{false, true} {
		rep, err := Check(t.Context(), root, CheckOptions{Deep: deep})
		require.NoError(t, err)
		require.Empty(t, rep.Findings)
	}
	s = openStore(t, root, o)
	require.Nil(t, s.views.index.hole)
	require.NoError(t, s.Close())
}

// A record with several keys, of which one has no entry, is found by a deep check.
func TestCheckKeyWithoutEntry(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	s := openStore(t, root, o)
	for range 5 {
		putKeyed(t, s, "T", "", "a b c", "")
	}
	require.NoError(t, s.Close())
	log, err := OpenView(root, ViewOptions{LogOnly: true})
	require.NoError(t, err)
	dir := NewLayout(root).IndexDir()
	require.NoError(t, os.RemoveAll(dir))
	x, err := index.Open(dir, index.Options{HashSlots: int32(o.MaxHashSlotNum), MaxEntries: int32(o.MaxIndexNum)})
	require.NoError(t, err)
	scan := log.Log.Scanner(-1, commitlog.ScanOptions{})
	for i := 0; scan.Next(); i++ {
		d := scan.Record().DispatchRequest(nil)
		if i == 2 {
			d.Keys = []byte("a c")
		}
		require.NoError(t, x.Append([]message.DispatchRequest{d}))
	}
	scan.Close()
	require.NoError(t, x.Close())
	require.NoError(t, log.Close())
	rep, err := Check(t.Context(), root, CheckOptions{Deep: true})
	require.NoError(t, err)
	require.Len(t, rep.Findings, 1)
	require.Equal(t, CheckIndexMissing, rep.Findings[0].Code)
	require.Contains(t, rep.Findings[0].Text, "1 of the 3 keys")
}

// TestIndexIsAPlainFile: what stands in the place of the index is in nobody's way. It is told, and set aside where the index is built anew.
func TestIndexIsAPlainFile(t *testing.T) {
	forEachKind(t, func(t *testing.T, o Options) {
		root := indexedStore(t, o, 5)
		dir := NewLayout(root).IndexDir()
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.WriteFile(dir, []byte("in the way"), 0o600))
		const told = "is no directory"

		rep, err := Check(t.Context(), root, CheckOptions{})
		require.NoError(t, err)
		require.Len(t, rep.Findings, 1)
		require.Equal(t, CheckIndexFile, rep.Findings[0].Code)
		require.Contains(t, rep.Findings[0].Text, told)

		st, err := ReadStatus(root, o)
		require.NoError(t, err)
		require.Contains(t, st.Views[len(st.Views)-1].Text(), told)

		d, err := Detect(root, o, nil)
		require.NoError(t, err)
		require.Contains(t, strings.Join(d.Notes, "\n"), told)
		s := openStore(t, root, d.Options)
		require.NoError(t, s.Close())

		v, err := OpenView(root, ViewOptions{LogOnly: true})
		require.NoError(t, err)
		_, err = v.OpenIndex()
		require.ErrorIs(t, err, ErrNoIndex)
		require.ErrorContains(t, err, told)
		require.NoError(t, v.Close())

		recovered, err := Recover(t.Context(), root, RecoverOptions{Options: &o, Given: []string{}})
		require.NoError(t, err)
		require.Contains(t, strings.Join(recovered.Notes, "\n"), told)
		require.False(t, recovered.AbortCleared)

		dry, err := Rebuild(t.Context(), root, RebuildOptions{DryRun: true, Index: true, Options: &o, Given: []string{}})
		require.NoError(t, err)
		require.Contains(t, strings.Join(dry.Notes, "\n"), told)
		require.FileExists(t, dir)
		built, err := Rebuild(t.Context(), root, RebuildOptions{Index: true, Options: &o, Given: []string{}})
		require.NoError(t, err)
		require.Contains(t, strings.Join(built.Notes, "\n"), "what stood in the place of the index is in ")
		require.NotContains(t, strings.Join(built.Notes, "\n"), told)
		kept, err := filepath.Glob(filepath.Join(NewLayout(root).brokenDir(), "*", "index"))
		require.NoError(t, err)
		require.Len(t, kept, 1)
		require.FileExists(t, kept[0])
		_, err = Recover(t.Context(), root, RecoverOptions{Options: &o, Given: []string{}})
		require.NoError(t, err)
		rep, err = Check(t.Context(), root, CheckOptions{Deep: true})
		require.NoError(t, err)
		require.Empty(t, rep.Findings)
	})
}
