package store

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// requireServes puts and gets a message, with a queue whose next offset is that.
func requireServes(t *testing.T, s *Store, next int64) {
	t.Helper()
	require.Equal(t, next, s.NextOffset("T", 0))
	putKeyed(t, s, "T", "", "later", "")
	awaitDispatch(t, s)
	var got GetResult
	defer got.Release()
	get(t, s, GetRequest{Topic: "T", Offset: next}, &got)
	require.Len(t, got.Messages, 1)
}

// indexedStore makes a store of some messages with keys, and closes it.
func indexedStore(t *testing.T, o Options, n int) (root string) {
	t.Helper()
	root = t.TempDir()
	s := openStore(t, root, o)
	for range n {
		putKeyed(t, s, "T", "", "k", "")
	}
	require.NoError(t, s.Close())
	return root
}

func found(t *testing.T, s *Store, req QueryRequest) (QueryResult, int) {
	t.Helper()
	var res QueryResult
	require.NoError(t, s.Query(req, &res))
	n := len(res.Messages)
	defer res.Release()
	res.Messages = nil
	return QueryResult{IndexedTo: res.IndexedTo, IndexedMs: res.IndexedMs, LogEnd: res.LogEnd, BeginMs: res.BeginMs, EndMs: res.EndMs, NextBelow: res.NextBelow, Answer: res.Answer}, n
}

// TestServesWithoutItsIndex: it cannot be opened at all.
func TestServesWithoutItsIndex(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := indexedStore(t, o, 5)
	require.NoError(t, os.RemoveAll(NewLayout(root).IndexDir()))
	require.NoError(t, os.WriteFile(NewLayout(root).IndexDir(), []byte("in the way"), 0o600))
	s := openStore(t, root, o)
	requireServes(t, s, 5)
	var res QueryResult
	require.ErrorIs(t, s.Query(QueryRequest{Topic: "T", Key: "k"}, &res), ErrNoIndex)
	require.NoError(t, s.Close())
	require.NoFileExists(t, NewLayout(root).AbortPath())
}

// TestServesWhileTheIndexIsMissing: it is made again from the log.
func TestServesWhileTheIndexIsMissing(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := indexedStore(t, o, 5)
	require.NoError(t, os.RemoveAll(NewLayout(root).IndexDir()))
	s := openStore(t, root, o)
	defer s.Close()
	requireServes(t, s, 5)
	awaitIndex(t, s)
	_, n := found(t, s, QueryRequest{Topic: "T", Key: "k"})
	require.Equal(t, 5, n)
}

// readOnlyFS refuses what changes something.
type readOnlyFS struct{ mmap.FS }

func (f readOnlyFS) OpenFile(path string, flag int, perm fs.FileMode) (mmap.File, error) {
	if flag&(os.O_RDWR|os.O_WRONLY|os.O_CREATE) != 0 {
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.EROFS}
	}
	return f.FS.OpenFile(path, flag, perm)
}

func (f readOnlyFS) Mkdir(dir string, _ fs.FileMode) error {
	if _, err := os.Stat(dir); err == nil {
		return fs.ErrExist
	}
	return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.EROFS}
}

func (readOnlyFS) Remove(path string) error {
	return &fs.PathError{Op: "remove", Path: path, Err: syscall.EROFS}
}

func (readOnlyFS) Rename(from, _ string) error {
	return &fs.PathError{Op: "rename", Path: from, Err: syscall.EROFS}
}

// TestServesWhileTheIndexIsReadOnly: it answers what it has, and says how far that goes.
func TestServesWhileTheIndexIsReadOnly(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	root := indexedStore(t, o, 5)
	end := int64(0)
	o.indexFS = readOnlyFS{mmap.OS}
	s := openStore(t, root, o)
	end = s.Positions().Wrote
	requireServes(t, s, 5)
	res, n := found(t, s, QueryRequest{Topic: "T", Key: "k"})
	require.Equal(t, 5, n)
	require.Equal(t, end, res.IndexedTo)
	require.False(t, res.Complete())
	res, n = found(t, s, QueryRequest{Topic: "T", Key: "later"})
	require.Zero(t, n)
	require.False(t, res.Complete(), "not indexed, which is not absent")
	require.NoError(t, s.Close())
	require.NoFileExists(t, NewLayout(root).AbortPath())

	o.indexFS = nil
	s = openStore(t, root, o)
	defer s.Close()
	awaitIndex(t, s)
	res, n = found(t, s, QueryRequest{Topic: "T", Key: "later"})
	require.Equal(t, 1, n)
	require.True(t, res.Complete())
}

// TestServesWhileTheIndexIsCorrupt: damaged files are set aside and come back from the log; one that is damaged under way loses nothing but answers.
func TestServesWhileTheIndexIsCorrupt(t *testing.T) {
	t.Parallel() // it mostly waits
	o := viewOptions(StoreTypeFile)
	root := indexedStore(t, o, 5)
	names, err := filepath.Glob(filepath.Join(NewLayout(root).IndexDir(), "*"))
	require.NoError(t, err)
	for _, name := range names {
		st, err := os.Stat(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, []byte(strings.Repeat("damage!", int(st.Size()/7+1)))[:st.Size()], 0o600))
	}
	s := openStore(t, root, o)
	requireServes(t, s, 5)
	awaitIndex(t, s)
	_, n := found(t, s, QueryRequest{Topic: "T", Key: "k"})
	require.Equal(t, 5, n)

	names, err = filepath.Glob(filepath.Join(NewLayout(root).IndexDir(), "*[0-9]"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(names[len(names)-1], 0)) // the mapping faults
	requireServes(t, s, 6)
	var res QueryResult
	require.ErrorIs(t, s.Query(QueryRequest{Topic: "T", Key: "k"}, &res), mmap.ErrFault)
	require.Empty(t, res.Messages)
	s.flags = new(RunningFlags)
	_ = s.Close() // tells that the index has failed
	s = openStore(t, root, o)
	defer s.Close()
	requireServes(t, s, 7)
	awaitIndex(t, s)
	_, n = found(t, s, QueryRequest{Topic: "T", Key: "k"})
	require.Equal(t, 5, n)
}

// gatedFS makes files when the gate is open.
type gatedFS struct {
	mmap.FS
	open chan struct{}
}

func (f gatedFS) OpenFile(path string, flag int, perm fs.FileMode) (mmap.File, error) {
	if flag&os.O_CREATE != 0 {
		<-f.open
	}
	return f.FS.OpenFile(path, flag, perm)
}

// TestServesWhileTheIndexIsRebuilt: an answer says that nothing is indexed yet, and afterwards that what is not found is absent.
func TestServesWhileTheIndexIsRebuilt(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.rebuildBytes = 64
	root := indexedStore(t, o, 5)
	require.NoError(t, os.RemoveAll(NewLayout(root).IndexDir()))
	gate := make(chan struct{})
	o.indexFS = gatedFS{mmap.OS, gate}
	open := sync.OnceFunc(func() { close(gate) })
	s := openStore(t, root, o)
	defer s.Close()
	defer open()
	requireServes(t, s, 5)
	res, n := found(t, s, QueryRequest{Topic: "T", Key: "k"})
	require.Zero(t, n)
	require.Zero(t, res.IndexedTo)
	require.Zero(t, res.IndexedMs)
	require.Equal(t, s.Positions().Confirm, res.LogEnd)
	require.False(t, res.Complete())
	mark := s.Watermarks().Views["index"]
	require.NotNil(t, mark.Rebuilding)
	require.Equal(t, s.Positions().Wrote, mark.BehindBytes)
	open()
	awaitIndex(t, s)
	res, n = found(t, s, QueryRequest{Topic: "T", Key: "k"})
	require.Equal(t, 5, n)
	require.True(t, res.Complete())
	require.Equal(t, res.Answer.LastMs, res.IndexedMs)
	res, n = found(t, s, QueryRequest{Topic: "T", Key: "nobody"})
	require.Zero(t, n)
	require.True(t, res.Complete(), "absent")
}

// TestQueryDefaultWindow: without bounds it is the last days up to the newest message, whenever that was; given bounds count as they are.
func TestQueryDefaultWindow(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.MaxRocksDBIndexQueryDays = 2
	s := openStore(t, t.TempDir(), o)
	defer s.Close()
	putKeyed(t, s, "T", "", "k", "")
	putKeyed(t, s, "T", "", "k", "")
	awaitIndex(t, s)
	_, last := s.views.index.index.Last()
	const days = 2 * 24 * int64(time.Hour/time.Millisecond)
	for _, c := range []struct{ begin, end, wantBegin, wantEnd int64 }{
		{0, 0, last - days, math.MaxInt64},
		{0, math.MaxInt64, 0, math.MaxInt64},
		{5, 0, 5, math.MaxInt64},
		{0, last, 0, last},
	} {
		res, n := found(t, s, QueryRequest{Topic: "T", Key: "k", BeginMs: c.begin, EndMs: c.end})
		require.Equal(t, []int64{c.wantBegin, c.wantEnd}, []int64{res.BeginMs, res.EndMs})
		require.Equal(t, 2, n)
	}
}

// TestQueryExplains: files and hours looked at, and why hits were turned down; nothing of it when nobody asked.
func TestQueryExplains(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	s := openStore(t, t.TempDir(), o)
	defer s.Close()
	at := putKeyed(t, s, "T", "", "Aa", "")
	hit := putKeyed(t, s, "T", "", "BB", "") // hashes like Aa
	awaitIndex(t, s)
	var e QueryExplanation
	res, n := found(t, s, QueryRequest{Topic: "T", Key: "BB", Explain: &e})
	require.Equal(t, 1, n)
	require.Equal(t, 1, res.Answer.Rejected)
	require.Equal(t, []RejectedHit{{at, "its message has other keys of the same hash"}}, e.Rejected)
	require.Len(t, e.Indexes, 1)
	look := e.Indexes[0]
	require.Equal(t, "index", look.Name)
	require.Equal(t, s.Positions().Wrote, look.IndexedTo)
	require.Len(t, look.Files, 1)
	require.Equal(t, NewLayout(s.layout.Root).IndexDir(), filepath.Dir(look.Files[0].Path))
	require.Equal(t, index.FileLook{Path: look.Files[0].Path, BeginMs: look.Files[0].BeginMs, EndMs: look.IndexedMs, Steps: 2, Hits: 2}, look.Files[0])

	var quiet QueryResult
	defer quiet.Release()
	ask := func(e *QueryExplanation) float64 {
		return testing.AllocsPerRun(100, func() { _ = s.Query(QueryRequest{Topic: "T", Key: "BB", Explain: e}, &quiet) })
	}
	require.Less(t, ask(nil), ask(&QueryExplanation{}))
	require.Equal(t, hit, quiet.Messages[0].PhyOffset)
}

// TestI10QueryPages: page after page until there is nothing older, each message once, newest first.
func TestI10QueryPages(t *testing.T) {
	forEachIndex(t, func(t *testing.T, o Options) {
		s := openStore(t, t.TempDir(), o)
		defer s.Close()
		var want, got []int64
		for range 50 {
			want = append(want, putKeyed(t, s, "T", "one@key", "k@y", ""))
		}
		awaitIndex(t, s)
		for _, key := range []string{"one@key", "k@y"} {
			got = got[:0]
			var res QueryResult
			for below := int64(0); ; below = res.NextBelow {
				require.NoError(t, s.Query(QueryRequest{Topic: "T", Key: key, Max: 7, BelowPhyOffset: below}, &res))
				var page []int64
				for _, m := range res.Messages {
					page = append(page, m.PhyOffset)
				}
				got = append(page, got...)
				if res.NextBelow == 0 {
					break
				}
			}
			require.Equal(t, want, got)
			res.Release()
		}
	})
}
