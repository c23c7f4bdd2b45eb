package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/index"
	indexrocks "github.com/tandemq/tandemmq/index/rocks"
	"github.com/tandemq/tandemmq/message"
)

// forEachIndex runs a test over index files, an index in RocksDB, and both, whichever is asked first.
func forEachIndex(t *testing.T, test func(t *testing.T, o Options)) {
	for _, c := range []struct {
		name               string
		write, read, rocks bool
	}{{"files", true, true, false}, {"rocks", false, false, true}, {"both", true, true, true}, {"both, rocks first", true, false, true}} {
		t.Run(c.name, func(t *testing.T) {
			if c.rocks {
				needRocksDB(t)
			}
			o := viewOptions(StoreTypeFile)
			o.IndexFileWriteEnable, o.IndexFileReadEnable, o.IndexRocksDBEnable = c.write, c.read, c.rocks
			test(t, o)
		})
	}
}

// TestIndexesAnswerAlike: the same questions have the same answers, whichever index there is, after a stop, a kill, and the loss of all of it.
func TestIndexesAnswerAlike(t *testing.T) {
	forEachIndex(t, func(t *testing.T, o Options) {
		root := t.TempDir()
		s := openStore(t, root, o)
		at := []int64{
			putKeyed(t, s, "T", "u0", "Aa other", "tagA"), putKeyed(t, s, "T", "u1", "BB", "tagB"), putKeyed(t, s, "U", "u2", "Aa", "tagA"),
			putKeyed(t, s, "T", "u3", "x  Aa Aa", "tagA"), putKeyed(t, s, "T", "", "Aa@z", "tag@A"), putKeyed(t, s, "T", "z@u", "no", ""),
		}
		check := func(s *Store) {
			t.Helper()
			awaitIndex(t, s)
			for _, c := range []struct {
				req  QueryRequest
				want []int64
			}{
				{QueryRequest{Topic: "T", Key: "Aa"}, []int64{at[0], at[3]}},
				{QueryRequest{Topic: "T", Key: "Aa", Max: 1}, []int64{at[3]}},
				{QueryRequest{Topic: "T", Key: "BB", Max: 1}, []int64{at[1]}},
				{QueryRequest{Topic: "T", Key: "u1", Type: index.TypeUniqKey}, []int64{at[1]}},
				{QueryRequest{Topic: "T", Key: "z@u", Type: index.TypeUniqKey}, []int64{at[5]}},
				{QueryRequest{Topic: "T", Key: "tagA", Type: index.TypeTag}, []int64{at[0], at[3]}},
				{QueryRequest{Topic: "T", Key: "tag@A", Type: index.TypeTag}, []int64{at[4]}},
				{QueryRequest{Topic: "T", Key: "Aa@z"}, []int64{at[4]}},
				{QueryRequest{Topic: "U", Key: "Aa"}, []int64{at[2]}},
				{QueryRequest{Topic: "T", Key: "nobody"}, nil},
				{QueryRequest{Topic: "T", Key: "Aa", EndMs: 1000}, nil},
			} {
				var res QueryResult
				require.NoError(t, s.Query(c.req, &res))
				var got []int64
				for _, m := range res.Messages {
					got = append(got, m.PhyOffset)
				}
				require.Equal(t, c.want, got, "%+v", c.req)
				require.True(t, res.Complete())
				require.Positive(t, res.IndexedMs)
				res.Release()
			}
		}
		check(s)
		copied := crash(t, root)
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(root).AbortPath())
		for _, root := range []string{root, copied} {
			for range 2 {
				s := openStore(t, root, o)
				check(s)
				require.NoError(t, s.Close())
				requireWhole(t, root, o)
				l := NewLayout(root)
				require.NoError(t, os.RemoveAll(l.IndexDir()))
				require.NoError(t, os.RemoveAll(l.RocksIndexDir()))
			}
		}
	})
}

// TestI13ANewRocksIndexIsFilled: with all that the log has, messages without a unique key too, while the store serves.
func TestI13ANewRocksIndexIsFilled(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	s := openStore(t, root, o)
	for i := range 300 {
		putKeyed(t, s, "T", "", fmt.Sprint("k", i), "")
	}
	require.NoError(t, s.Close())
	o.IndexFileWriteEnable, o.IndexFileReadEnable, o.IndexRocksDBEnable = false, false, true
	s = openStore(t, root, o)
	defer s.Close()
	require.Nil(t, s.views.index)
	awaitIndex(t, s)
	for i := range 300 {
		res, n := found(t, s, QueryRequest{Topic: "T", Key: fmt.Sprint("k", i)})
		require.Equal(t, 1, n, "k%d", i)
		require.True(t, res.Complete())
	}
}

// TestI14OptionsHideNothing: messages are found whichever index the options turn on or off, prefer, or have left behind.
func TestI14OptionsHideNothing(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeFile)
	root := t.TempDir()
	n := 0
	for _, c := range []struct{ write, read, rocks bool }{
		{true, true, false}, {false, true, true}, {true, true, true}, {false, true, true}, {true, false, true}, {true, true, false}, {false, false, true},
	} {
		o.IndexFileWriteEnable, o.IndexFileReadEnable, o.IndexRocksDBEnable = c.write, c.read, c.rocks
		s := openStore(t, root, o)
		for range 5 {
			putKeyed(t, s, "T", "", "k", "")
			n++
		}
		awaitIndex(t, s)
		res, got := found(t, s, QueryRequest{Topic: "T", Key: "k"})
		require.Equal(t, n, got, "%+v", c)
		require.True(t, res.Complete())
		require.NoError(t, s.Close())
		require.NoFileExists(t, NewLayout(root).AbortPath())
	}
}

// TestI14TheOtherIndexAnswers where the preferred one lags or cannot be read.
func TestI14TheOtherIndexAnswers(t *testing.T) {
	needRocksDB(t)
	o := viewOptions(StoreTypeFile)
	o.IndexRocksDBEnable = true
	s := openStore(t, t.TempDir(), o)
	defer s.Close()
	want := putKeyed(t, s, "T", "", "k", "")
	awaitIndex(t, s)
	v := s.views
	end := v.index.follow.from.Load()
	v.index.follow.from.Store(0) // as while it is built again
	var e QueryExplanation
	res, n := found(t, s, QueryRequest{Topic: "T", Key: "k", Explain: &e})
	require.Equal(t, 1, n, "once, though both have it")
	require.True(t, res.Complete())
	require.Equal(t, []string{"index", "rocks index"}, []string{e.Indexes[0].Name, e.Indexes[1].Name})
	v.index.follow.from.Store(end)
	e = QueryExplanation{}
	_, n = found(t, s, QueryRequest{Topic: "T", Key: "k", Explain: &e})
	require.Equal(t, 1, n)
	require.Len(t, e.Indexes, 1, "one will do")

	v.s.o.IndexFileReadEnable = false
	require.NoError(t, v.rocksIndex.index.Close())
	e = QueryExplanation{}
	var got QueryResult
	defer got.Release()
	require.NoError(t, s.Query(QueryRequest{Topic: "T", Key: "k", Explain: &e}, &got))
	require.Equal(t, want, got.Messages[0].PhyOffset)
	require.Contains(t, e.Indexes[0].Failure, "closed")
	v.rocksIndex = nil // Close would tell
}

// TestI18NoDatabaseUnlessAsked: none is made or opened for files, and one that is gone or damaged keeps no store from serving.
func TestI18NoDatabaseUnlessAsked(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := indexedStore(t, o, 5)
	dir := NewLayout(root).RocksIndexDir()
	require.NoDirExists(t, dir)
	needRocksDB(t)
	for _, harm := range []func() error{
		func() error { return os.Remove(filepath.Join(dir, "CURRENT")) },
		func() error { return os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("MANIFEST-999999\n"), 0o600) },
		func() error { return os.WriteFile(filepath.Join(dir, "CURRENT"), nil, 0o600) },
	} {
		o.IndexRocksDBEnable = true
		require.NoError(t, os.RemoveAll(dir))
		s := openStore(t, root, o)
		awaitIndex(t, s)
		require.NoError(t, s.Close())
		require.NoError(t, harm())
		for _, o.IndexRocksDBEnable = range []bool{false, true} {
			s = openStore(t, root, o)
			next := s.NextOffset("T", 0)
			requireServes(t, s, next)
			awaitIndex(t, s)
			_, n := found(t, s, QueryRequest{Topic: "T", Key: "k"})
			require.Equal(t, 5, n, "the files have them")
			require.NoError(t, s.Close())
			require.NoFileExists(t, NewLayout(root).AbortPath())
		}
	}
}

// TestI19IndexBacklogCounts: what an index has not read is in Watermarks, keeps the log's files, and the store from counting as left in order.
func TestI19IndexBacklogCounts(t *testing.T) {
	t.Parallel() // it mostly waits
	needRocksDB(t)
	o := viewOptions(StoreTypeFile)
	o.IndexRocksDBEnable = true
	root := t.TempDir()
	s := openStore(t, root, o)
	putKeyed(t, s, "T", "", "k", "")
	awaitIndex(t, s)
	before := s.Positions().Wrote
	require.NoError(t, s.views.rocksIndex.index.Close()) // it takes nothing more
	putKeyed(t, s, "T", "", "k", "")
	awaitDispatch(t, s)
	require.Eventually(t, func() bool { return s.Watermarks().Views["rocks index"].Failure != "" }, 30*time.Second, time.Millisecond)
	mark := s.Watermarks().Views["rocks index"]
	require.Equal(t, before, mark.Dispatched)
	require.Equal(t, s.Positions().Wrote-before, mark.BehindBytes)
	require.Zero(t, s.Watermarks().Views["index"].BehindBytes)
	require.NoError(t, s.views.flush(t.Context())) // of the queues; the index is told of in the log
	require.Contains(t, s.needed(s.Positions().Wrote), "rocks index has come to")
	require.ErrorContains(t, s.Close(), "not dispatched to the index")
	require.FileExists(t, NewLayout(root).AbortPath())
	s = openStore(t, root, o)
	awaitIndex(t, s)
	_, n := found(t, s, QueryRequest{Topic: "T", Key: "k"})
	require.Equal(t, 2, n)
	require.NoError(t, s.Close())
	require.NoFileExists(t, NewLayout(root).AbortPath())
}

// TestRocksIndexOffline: status, check, rebuild and recover know the index in RocksDB without being told.
func TestRocksIndexOffline(t *testing.T) {
	needRocksDB(t)
	forEachIndex(t, func(t *testing.T, o Options) {
		if !o.IndexRocksDBEnable {
			t.Skip("no index in RocksDB")
		}
		root := t.TempDir()
		l := NewLayout(root)
		s := openStore(t, root, o)
		for i := range 200 {
			putKeyed(t, s, "T", fmt.Sprint("u", i), fmt.Sprintf("k@%d k", i), "t")
		}
		require.NoError(t, s.Close())
		st, err := ReadStatus(root, o)
		require.NoError(t, err)
		last := st.Views[len(st.Views)-1]
		require.Equal(t, ViewStatus{Name: "rocks index", Dispatched: st.EndPhyOffset}, last)
		requireSound(t, root)

		entries := func() map[string]int64 {
			x, err := indexrocks.Open(l.RocksIndexDir(), indexrocks.Options{ReadOnly: true})
			require.NoError(t, err)
			defer x.Close()
			all := map[string]int64{}
			require.NoError(t, x.Rows(func(r indexrocks.Row) bool { all[string(r.Key)] = r.PhyOffset; return true }, func(err error) { t.Error(err) }))
			return all
		}
		want := entries()
		require.Len(t, want, 800)
		rebuilt, err := Rebuild(t.Context(), root, RebuildOptions{Index: true, QueueID: -1})
		require.NoError(t, err)
		names := []string{}
		for _, v := range rebuilt.Views {
			names = append(names, v.Name)
		}
		require.Contains(t, names, "rocks index")
		require.Equal(t, o.IndexFileWriteEnable, len(names) == 2, "%v", names)
		require.Equal(t, want, entries())
		requireSound(t, root)

		require.NoError(t, os.WriteFile(l.AbortPath(), nil, 0o600))
		rep, err := Recover(t.Context(), root, RecoverOptions{})
		require.NoError(t, err)
		require.Equal(t, rep.LogEnd, rep.Views[len(rep.Views)-1].Dispatched)
		require.Equal(t, "rocks index", rep.Views[len(rep.Views)-1].Name)
		require.Equal(t, want, entries())

		x, err := indexrocks.Open(l.RocksIndexDir(), indexrocks.Options{})
		require.NoError(t, err)
		require.NoError(t, x.Clear())
		var b indexrocks.Batch
		var phy int64
		for _, phy = range want {
			break
		}
		var m message.Record
		v, err := OpenView(root, ViewOptions{LogOnly: true})
		require.NoError(t, err)
		release, err := v.MessageAt(phy, &m)
		require.NoError(t, err)
		ms := m.StoreTimestampMs
		release()
		require.NoError(t, v.Close())
		b.Add(&message.DispatchRequest{Topic: []byte("T"), PhyOffset: phy, Size: 1, StoreTimestampMs: ms, Keys: []byte("another")})
		b.Add(&message.DispatchRequest{Topic: []byte("T"), PhyOffset: st.EndPhyOffset + 7, Size: 1, StoreTimestampMs: ms, Tags: []byte("t")})
		require.NoError(t, x.AppendBatch(&b))
		require.NoError(t, x.Close())
		checked, err := Check(t.Context(), root, CheckOptions{Deep: true})
		require.NoError(t, err)
		text := ""
		for _, f := range checked.Findings {
			if f.Side == checkSideIndex {
				text += string(f.Code) + ": " + f.String() + "\n"
			}
		}
		require.Contains(t, text, "index-entry")
		require.Contains(t, text, "leads to a record without such a key")
		require.Contains(t, text, "index-outside")
		_, err = Rebuild(t.Context(), root, RebuildOptions{Index: true, QueueID: -1})
		require.NoError(t, err)
		require.Equal(t, want, entries(), "nothing of it is left")
	})
}
