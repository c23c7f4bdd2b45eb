//go:build tandemmq_failpoints

package crash

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/failpoint"
	"github.com/tandemq/tandemmq/store"
)

// A loss of power, as the views see it: of each page of queue and index files that was not synced the disk has an old or the new content, new files are there or
// not; RocksDB has what it had when it was last flushed; the log has everything up to its last sync, and some of the rest. The store then opens, and all
// views say what the log says; once more after a second loss.
func TestViewLoss(t *testing.T) {
	for _, view := range viewModes {
		t.Run(view.name, func(t *testing.T) {
			first, n := seeds(t, 32, 4000)
			met := reach{}
			dir := t.TempDir()
			for i := 0; i < n; {
				l := &lossLife{t: t, view: view, seed: first + uint64(i), met: met, root: filepath.Join(dir, fmt.Sprint("seed", i), "store")}
				l.rng = rand.New(rand.NewPCG(l.seed, 2))
				for range 2 {
					i += l.run()
				}
				require.NoError(t, os.RemoveAll(filepath.Dir(l.root)))
			}
			t.Logf("%v", met)
		})
	}
}

// image is what is in a directory, by path in it.
type image map[string][]byte

// imageOf reads a directory in which nobody writes; RocksDB may remove files in the background, then it is read again.
func imageOf(t *testing.T, root string) image {
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(time.Millisecond) {
		all, err := readTree(root)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		again, err := readTree(root)
		if err == nil && maps.EqualFunc(all, again, bytes.Equal) {
			return all
		}
	}
	require.Fail(t, "the directory does not come to rest")
	return nil
}

func readTree(root string) (image, error) {
	all := make(image)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err == nil {
			all[name], err = os.ReadFile(path)
		}
		return err
	})
	return all, err
}

func (im image) write(t *testing.T, root string) {
	for name, b := range im {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, b, 0o644))
	}
}

// Parts of a store.
func isQueueFile(name string) bool {
	return strings.HasPrefix(name, "consumequeue"+string(filepath.Separator))
}

func isIndexFile(name string) bool {
	return strings.HasPrefix(name, "index"+string(filepath.Separator))
}

func isRocksFile(name string) bool {
	return strings.HasPrefix(name, "consumequeue_rocksdb"+string(filepath.Separator))
}

func isLogFile(name string) bool {
	return strings.HasPrefix(name, "commitlog"+string(filepath.Separator))
}

// lossLife is a store in this process that lives until the power is lost.
type lossLife struct {
	t    *testing.T
	view viewMode
	seed uint64
	rng  *rand.Rand
	met  reach
	root string
	gen  int // losses before

	s       *store.Store
	n       int
	pause   failpoint.Place // where the next flush stops
	arrived chan failpoint.Place
	resume  chan struct{}

	durable image   // of the views, as last made durable
	later   []image // what they were at moments since
}

// hit lets the store flush its views only when it is told to, and stop in the midst of it.
func (l *lossLife) hit(p failpoint.Place) {
	if p == failpoint.LogFlushed || p == l.pause {
		l.arrived <- p
		<-l.resume
	}
}

// flush lets one flush go on, up to the next one or to a place within.
func (l *lossLife) flush(to failpoint.Place) {
	l.pause = to
	l.resume <- struct{}{}
	<-l.arrived
	l.pause = ""
}

// run lives, loses power in some ways, looks at what is left, and goes on with one of them. It returns how many ways.
func (l *lossLife) run() int {
	t := l.t
	l.arrived, l.resume = make(chan failpoint.Place), make(chan struct{})
	mode := putModes[[]int{0, 0, 2, 3, 5}[l.rng.IntN(5)]]
	o := l.view.options(mode)
	o.UseSeparateStorePathForRocksdbCQ = true
	o.FlushConsumeQueueThoroughInterval = time.Millisecond
	o.FlushIntervalCommitLog = time.Hour
	var err error
	l.s, err = store.Open(l.root, o)
	require.NoError(t, err)
	release := l.s.RetainFrom("the last files", func() int64 { return l.s.Positions().Wrote - lossKeep*workLogFile })
	failpoint.Set(l.hit)
	<-l.arrived
	next := make(map[queue]int64)
	l.flush("")
	l.durable, l.later = imageOf(t, l.root), nil
	for range 3 + l.rng.IntN(8) {
		l.work(next)
		switch l.rng.IntN(4) {
		case 0:
			l.flush("")
			l.durable, l.later = imageOf(t, l.root), nil
		case 1:
			l.later = append(l.later, imageOf(t, l.root))
		case 2:
			l.clean()
		}
	}
	stop := []failpoint.Place{"", failpoint.QueuesFlushed, failpoint.QueuesFlushed, failpoint.FileReplaced, failpoint.OffsetsNoted}[l.rng.IntN(5)]
	if stop != "" {
		l.flush(stop)
		l.met["in a flush: "+string(stop)]++
	}
	p := l.s.Positions()
	left := imageOf(t, l.root)
	tr := truthOf(t, l.s.Log())
	if stop != "" { // the queues are durable, the index may not be
		maps.DeleteFunc(l.durable, func(name string, _ []byte) bool { return isQueueFile(name) || isRocksFile(name) })
		for name, b := range left {
			if isQueueFile(name) || isRocksFile(name) {
				l.durable[name] = b
			}
		}
		l.later = nil
	}
	failpoint.Set(nil)
	close(l.resume)
	release()
	require.NoError(t, l.s.Close())

	ways := 4
	for way := range ways {
		cut := min(max((p.Flushed+l.rng.Int64N(p.Wrote-p.Flushed+8192))/4096*4096, p.Flushed), p.Wrote) // whole pages: a disk writes no others
		root := filepath.Join(filepath.Dir(l.root), fmt.Sprintf("left-%d-%d", l.gen, way))
		l.mix(left, cut).write(t, root)
		l.met["losses"]++
		l.look(root, mode, tr, cut, next)
		if way < ways-1 {
			require.NoError(t, os.RemoveAll(root))
			continue
		}
		require.NoError(t, os.RemoveAll(l.root))
		l.root = root
	}
	l.gen++
	return ways
}

// work puts some messages and waits until the views have them.
func (l *lossLife) work(next map[queue]int64) {
	for range 10 + l.rng.IntN(150) {
		k := key{l.gen + 1, 0, l.n, 0}
		l.n++
		_, _, err := putWork(l.s, l.rng, k)
		require.NoError(l.t, err, "seed %d", l.seed)
	}
	require.Eventually(l.t, func() bool {
		for _, v := range l.s.Watermarks().Views {
			if v.BehindBytes > 0 && l.s.Positions().Confirm > v.Dispatched {
				return false
			}
		}
		return true
	}, time.Minute, time.Millisecond, "seed %d: %+v", l.seed, l.s.Watermarks())
	for q, s := range truthOf(l.t, l.s.Log()).queues {
		next[q] = s.next()
	}
}

// clean has log files removed that may go, and the views trimmed. It takes flushes to do so, which are free meanwhile.
func (l *lossLife) clean() {
	failpoint.Set(nil)
	l.resume <- struct{}{}
	trimmed := make(chan struct{}, 16)
	failpoint.Set(func(p failpoint.Place) {
		if p == failpoint.QueuesTrimmed {
			trimmed <- struct{}{}
		}
	})
	removed := len(l.s.CleanNow(l.t.Context()).Removed)
	l.met["files removed"] += removed
	if removed > 0 {
		select {
		case <-trimmed:
		case <-time.After(time.Minute):
			require.Fail(l.t, "nothing is trimmed")
		}
		time.Sleep(20 * time.Millisecond) // the index, and RocksDB's compaction
	}
	failpoint.Set(l.hit)
	<-l.arrived
	l.flush("")
	l.durable, l.later = imageOf(l.t, l.root), nil
}

// mix returns what is on the disk after a loss of power, of what was last there, and a log that is durable below cut.
func (l *lossLife) mix(left image, cut int64) image {
	out := make(image)
	rocks := l.durable
	if l.rng.IntN(3) == 0 {
		rocks = left
	}
	for name, b := range rocks {
		if isRocksFile(name) {
			out[name] = b
		}
	}
	gone := make(map[string]bool) // directories of which the newer files are not there
	for _, name := range slices.Sorted(maps.Keys(left)) {
		b := left[name]
		switch {
		case isRocksFile(name):
		case isLogFile(name):
			out[name] = cutLog(l.t, name, b, cut)
		case isQueueFile(name) || isIndexFile(name):
			old, there := l.durable[name]
			dir := filepath.Dir(name)
			if !there && (gone[dir] || l.rng.IntN(4) == 0) {
				gone[dir] = true
				continue
			}
			out[name] = l.pages(name, old, b)
		default:
			out[name] = b
		}
	}
	return out
}

// pages mixes a file page by page. A file that is not there yet has zeros. Now and then most pages are old, or new.
func (l *lossLife) pages(name string, old, b []byte) []byte {
	mixed := make([]byte, len(b))
	copy(mixed, old)
	bias := l.rng.IntN(5)
	for at := 0; at < len(b); at += 4096 {
		end := min(at+4096, len(b))
		switch pick := l.rng.IntN(4); {
		case pick < bias:
			copy(mixed[at:end], b[at:end])
		case pick == 3 && len(l.later) > 0:
			if c := l.later[l.rng.IntN(len(l.later))][name]; len(c) == len(b) {
				copy(mixed[at:end], c[at:end])
			}
		}
	}
	return mixed
}

// cutLog returns a log file without what lies at or above cut.
func cutLog(t *testing.T, name string, b []byte, cut int64) []byte {
	var from int64
	_, err := fmt.Sscanf(filepath.Base(name), "%d", &from)
	require.NoError(t, err)
	if cut >= from+int64(len(b)) {
		return b
	}
	short := make([]byte, len(b))
	copy(short, b[:max(cut-from, 0)])
	return short
}

// look opens what is left and requires that its log has what was durable, and that all views agree with it. Now and then the power is lost again while the store is
// opened; what is left then is looked at as well.
func (l *lossLife) look(root string, mode putMode, tr *truth, cut int64, next map[queue]int64) {
	l.t.Helper()
	var again image
	place := []failpoint.Place{failpoint.QueueTruncated, failpoint.RecordsRead, failpoint.QueuesMended, failpoint.FileReplaced}[l.rng.IntN(4)]
	count := 1 + l.rng.IntN(3)
	failpoint.Set(func(p failpoint.Place) {
		if p == place && count > 0 {
			if count--; count == 0 {
				again, _ = readTree(root)
			}
		}
	})
	r := l.expect(root, mode, tr, cut, next)
	s, err := store.Open(root, l.view.options(mode))
	failpoint.Set(nil)
	require.NoError(l.t, err, r)
	require.NoError(l.t, s.Close(), r)
	r.verify(l.t)
	if again == nil || l.rng.IntN(2) == 0 {
		return
	}
	root += "-again"
	again.write(l.t, root)
	l.met["again at "+string(place)]++
	l.expect(root, mode, tr, cut, next).verify(l.t)
	require.NoError(l.t, os.RemoveAll(root))
}

// expect says what is promised of a store whose log is durable below cut.
func (l *lossLife) expect(root string, mode putMode, tr *truth, cut int64, next map[queue]int64) *workRun {
	r := newWorkRun(l.view, root, l.seed, l.met)
	r.runs = l.gen*100 + l.met["losses"]%100 + 1
	r.putMode, r.keep = mode, lossKeep
	ends := make(map[int64]int64)
	lost := make(map[queue]int64)
	for q, s := range tr.queues {
		for i, u := range s.units {
			ends[u.PhyOffset] = u.End()
			if _, there := lost[q]; u.End() > cut && !there {
				lost[q] = s.from + int64(i)
			}
		}
	}
	for k, p := range tr.keys {
		if end, ok := ends[p.phy]; ok && end <= cut {
			r.due[k], r.from[k] = p, p.phy
		}
	}
	for q, n := range next {
		r.next[q] = n
		if at, ok := lost[q]; ok {
			r.next[q] = at
			l.met["queues cut"]++
			if at > 0 && at == tr.queues[q].from {
				l.met["queues cut whose other messages have expired"]++
			}
		}
		if r.next[q] == 0 {
			delete(r.next, q)
		}
	}
	return r
}
