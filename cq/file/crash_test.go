package file

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/testenv"
)

// crashImage is what a store directory holds: content by path.
type crashImage map[string][]byte

func imageOf(t *testing.T, dir string) crashImage {
	t.Helper()
	m := crashImage{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		m[rel] = b
		return err
	}))
	return m
}

// lose returns what a loss of power leaves of after, when before was durable: each block old or new; of files that are new, the name or not, with or
// without their length, the last one of a queue first.
func lose(r *rand.Rand, before, after crashImage, block int) crashImage {
	out := crashImage{}
	chance := r.IntN(5) // how much was written back: 0 nothing new, 4 nearly all
	missing := map[string]bool{}
	for _, path := range sortedPaths(after) {
		content := after[path]
		old, known := before[path]
		if !known {
			if dir := filepath.Dir(path); missing[dir] || r.IntN(5) > chance {
				missing[dir] = true // a file behind one whose name is not durable has none either
				continue
			}
			old = make([]byte, len(content))
			if r.IntN(8) == 0 && lastOf(after, path) {
				out[path] = nil
				continue
			}
		}
		b := append([]byte{}, old...)
		for at := 0; at < len(b); at += block {
			if r.IntN(4) < chance {
				copy(b[at:min(at+block, len(b))], content[at:])
			}
		}
		out[path] = b
	}
	return out
}

func sortedPaths(m crashImage) []string {
	var paths []string
	for p := range m {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

func lastOf(m crashImage, path string) bool {
	for p := range m {
		if filepath.Dir(p) == filepath.Dir(path) && p > path {
			return false
		}
	}
	return true
}

func (m crashImage) write(t *testing.T, dir string) {
	t.Helper()
	for p, b := range m {
		p = filepath.Join(dir, p)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, b, 0o644))
	}
}

// TestReplayRepairsEveryCrash: whatever mix of old and new blocks a loss of power leaves, cutting off what the log does not have and replaying it from the
// last flush on gives the queues that the log describes, without a refusal, and the store goes on from there.
func TestReplayRepairsEveryCrash(t *testing.T) {
	const fileUnits, images = 700, 25 // 14,000 bytes: units lie across the borders of pages and sectors
	seeds := uint64(8)
	if testenv.Race {
		seeds = 2
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 7))
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			dir := t.TempDir()
			log := newReplayLog(r)
			s := open(t, dir, Options{FileSizeBytes: fileUnits * 20})
			log.grow(r, r.IntN(2500))
			require.NoError(t, s.Append(t.Context(), log.entries))
			require.NoError(t, s.Flush(t.Context()))
			flushed := len(log.entries)
			before := imageOf(t, dir)
			log.grow(r, 1+r.IntN(2500))
			require.NoError(t, s.Append(t.Context(), log.entries[flushed:]))
			after := imageOf(t, dir)
			require.NoError(t, s.Close())
			for range images {
				block := 4096
				if r.IntN(3) == 0 {
					block = sectorBytes
				}
				image := lose(r, before, after, block)
				log.requireReplay(t, r, image, flushed, fileUnits*20)
			}
		})
	}
}

// replayLog is a log as queues see it.
type replayLog struct {
	entries []cq.Entry
	keys    []cq.Key
	next    map[cq.Key]int64
	end     int64
}

func newReplayLog(r *rand.Rand) *replayLog {
	l := &replayLog{next: map[cq.Key]int64{}, end: r.Int64N(1 << 40)}
	for i := range 3 {
		k := cq.Key{Topic: "t", QueueID: int32(i)}
		l.keys = append(l.keys, k)
		if i > 0 {
			l.next[k] = r.Int64N(3000) // it begins late, with filler below it
		}
	}
	return l
}

func (l *replayLog) grow(r *rand.Rand, n int) {
	for range n {
		k := l.keys[min(r.IntN(6), 2)] // the last one has most
		u := cq.Unit{PhyOffset: l.end, Size: 91 + r.Int32N(400), TagsCode: int64(int32(r.Uint32())), StoreTimestampMs: cq.NoTimestamp}
		l.entries = append(l.entries, cq.Entry{Key: k, QueueOffset: l.next[k], Unit: u})
		l.next[k]++
		l.end = u.End()
	}
}

// requireReplay opens an image, lets the log end somewhere behind what was flushed, replays and compares.
func (l *replayLog) requireReplay(t *testing.T, r *rand.Rand, image crashImage, flushed int, fileBytes int64) {
	dir := t.TempDir()
	image.write(t, dir)
	end := flushed + r.IntN(len(l.entries)-flushed+1)
	s := open(t, dir, Options{FileSizeBytes: fileBytes})
	logEnd := l.entries[0].Unit.PhyOffset
	if end > 0 {
		logEnd = l.entries[end-1].Unit.End()
	}
	require.NoError(t, s.TruncateDirty(t.Context(), logEnd))
	if r.IntN(2) == 0 { // somebody looks meanwhile
		for k, err := range s.Queues() {
			require.NoError(t, err)
			_, ok := s.Queue(k)
			require.True(t, ok)
		}
	}
	for at := flushed; at < end; {
		n := min(1+r.IntN(300), end-at)
		require.NoError(t, s.Append(t.Context(), l.entries[at:at+n]))
		at += n
	}
	// Another log goes on behind the end: what was there before must not show.
	other := &replayLog{entries: append([]cq.Entry{}, l.entries[:end]...), keys: l.keys, next: map[cq.Key]int64{}, end: logEnd}
	for _, k := range l.keys {
		other.next[k] = l.first(k)
	}
	for _, e := range other.entries {
		other.next[e.Key] = e.QueueOffset + 1
	}
	other.grow(r, 400)
	require.NoError(t, s.Append(t.Context(), other.entries[end:]))
	for range 2 {
		for _, k := range l.keys {
			want, first := other.units(k), other.first(k)
			if len(want) == 0 {
				continue
			}
			require.NoError(t, s.Check(t.Context(), k))
			require.Equal(t, [2]int64{first, first + int64(len(want))}, [2]int64{bounds(t, s, k).Min, bounds(t, s, k).Max})
			require.Equal(t, want, readUnits(t, s, k, first, len(want)))
		}
		require.NoError(t, s.Close())
		s = open(t, dir, Options{FileSizeBytes: fileBytes, ReadOnly: true})
	}
	require.NoError(t, s.Close())
	require.NoError(t, os.RemoveAll(dir))
}

func (l *replayLog) first(k cq.Key) int64 {
	for _, e := range l.entries {
		if e.Key == k {
			return e.QueueOffset
		}
	}
	return l.next[k]
}

func (l *replayLog) units(k cq.Key) (out []cq.Unit) {
	for _, e := range l.entries {
		if e.Key == k {
			out = append(out, e.Unit)
		}
	}
	return out
}
