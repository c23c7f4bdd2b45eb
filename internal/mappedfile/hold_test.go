package mappedfile

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// limit sets the process's limit for one test. Such tests must not run in parallel with others.
func limit(t *testing.T, n int) {
	t.Helper()
	SetLimit(n)
	t.Cleanup(func() { SetLimit(0) })
}

// tenFiles makes a queue of ten files of 100 bytes; file i is filled with byte i+1.
func tenFiles(t *testing.T, o Options) *Queue {
	t.Helper()
	dir := t.TempDir()
	for i := range 10 {
		putFile(t, dir, Name(int64(i)*100), 100, byte(i+1))
	}
	return open(t, dir, o)
}

func hold(t *testing.T, f *File) []byte {
	t.Helper()
	b, err := f.Hold()
	require.NoError(t, err)
	return b
}

func TestIdleMappingsGoFirst(t *testing.T) {
	limit(t, 4)
	regions := mmap.Mapped()
	files := tenFiles(t, Options{}).Files()
	held := hold(t, files[0])
	for range 3 {
		for i, f := range files {
			b := hold(t, f)
			require.Equal(t, bytes.Repeat([]byte{byte(i + 1)}, 100), b)
			f.Release()
			n, most := Usage()
			require.Equal(t, 4, most)
			require.LessOrEqual(t, n, 4)
			require.Equal(t, regions+n, mmap.Mapped())
		}
	}
	require.Equal(t, bytes.Repeat([]byte{1}, 100), held, "a held file stays mapped")
	files[0].Release()
}

// TestWalkSparesFilesInUse walks over many files beside one in steady use.
func TestWalkSparesFilesInUse(t *testing.T) {
	limit(t, 3)
	for hot := range 10 {
		q := tenFiles(t, Options{})
		use := func(i int) { hold(t, q.Files()[i]); q.Files()[i].Release() }
		use(hot)
		for range 3 {
			for i := range 10 {
				use(hot)
				if i != hot {
					use(i)
				}
				require.NotEqual(t, int64(unmapped), q.Files()[hot].state.Load(), "file %d, used before file %d", hot, i)
			}
		}
		require.NoError(t, q.Close())
	}
}

func TestNothingToUnmap(t *testing.T) {
	limit(t, 3)
	files := tenFiles(t, Options{}).Files()
	for i := range 3 {
		hold(t, files[i])
	}
	_, err := files[3].Hold()
	require.ErrorIs(t, err, ErrLimit)
	require.ErrorContains(t, err, files[3].Path())
	require.ErrorContains(t, err, "3 files are held, 3 may be mapped")
	hold(t, files[2])
	files[2].Release()
	_, err = files[3].Hold()
	require.ErrorIs(t, err, ErrLimit, "file 2 still has a holder")
	files[2].Release()
	hold(t, files[3])
	files[3].Release()
	limit(t, 1) // lowered: room is made as files are mapped
	files[0].Release()
	files[1].Release()
	hold(t, files[9])
	files[9].Release()
	n, _ := Usage()
	require.Equal(t, 1, n)
}

func TestDefaultLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "max_map_count")
	require.NoError(t, os.WriteFile(file, []byte("1000\n"), 0o644))
	require.Equal(t, 500, systemLimit(file))
	require.Equal(t, 32765, systemLimit(file+".missing"))
	require.NoError(t, os.WriteFile(file, []byte("many"), 0o644))
	require.Equal(t, 32765, systemLimit(file))
	require.NoError(t, os.WriteFile(file, []byte("1"), 0o644))
	require.Equal(t, 1, systemLimit(file))
	_, most := Usage()
	require.Positive(t, most)
}

func TestHeldBytesOutliveTheQueue(t *testing.T) {
	want := bytes.Repeat([]byte{5}, 100)
	for name, end := range map[string]func(q *Queue) error{
		"close":    func(q *Queue) error { return q.Close() },
		"truncate": func(q *Queue) error { return q.Truncate(200) },
	} {
		t.Run(name, func(t *testing.T) {
			regions := mmap.Mapped()
			q := tenFiles(t, Options{Writable: true})
			f := q.Files()[4]
			b := hold(t, f)
			require.Equal(t, want, hold(t, f))
			require.NoError(t, end(q))
			_, err := f.Hold()
			require.ErrorIs(t, err, map[string]error{"close": ErrClosed, "truncate": ErrRemoved}[name])
			require.ErrorContains(t, err, f.Path())
			f.Release()
			require.Equal(t, want, b)
			require.Equal(t, regions+1, mmap.Mapped())
			f.Release()
			require.Equal(t, regions, mmap.Mapped(), "the last holder unmaps")
		})
	}
}

func TestReleaseTooOften(t *testing.T) {
	f := tenFiles(t, Options{}).Files()[0]
	hold(t, f)
	f.Releaser()()
	require.PanicsWithValue(t, "mappedfile: "+f.Path()+" released more often than held", f.Release)
	f.state.Store(0) // so that Close finds it idle
	require.Panics(t, func() { _ = f.Advise(0, 1, mmap.WillNeed) })
}

func TestLockMemory(t *testing.T) {
	f := tenFiles(t, Options{}).Files()[0]
	require.Panics(t, func() { _ = f.LockMemory(0, 100) }, "without holding it")
	hold(t, f)
	defer f.Release()
	if err := f.LockMemory(0, 100); err != nil {
		t.Skip("this process may lock no memory:", err)
	}
	require.Contains(t, vmFlags(t, f.Path()), "lo")
	require.NoError(t, f.UnlockMemory(0, 100))
	require.NotContains(t, vmFlags(t, f.Path()), "lo")
	require.Error(t, f.LockMemory(0, 101), "outside of the file")
}

func TestHoldErrors(t *testing.T) {
	q := tenFiles(t, Options{})
	used, _ := Usage()
	cut, missing := q.Files()[1], q.Files()[2]
	require.NoError(t, os.Truncate(cut.Path(), 60))
	require.NoError(t, os.Remove(missing.Path()))
	_, err := cut.Hold()
	require.ErrorContains(t, err, cut.Path()+": the file is too short: it has 60 bytes, want 100")
	_, err = missing.Hold()
	require.ErrorIs(t, err, os.ErrNotExist)
	now, _ := Usage()
	require.Equal(t, used, now, "a failed Hold gives its place back")
}

func TestConcurrentHolders(t *testing.T) {
	limit(t, 9) // 8 holders of one file each, ten files: idle ones have to go all the time
	regions := mmap.Mapped()
	q := tenFiles(t, Options{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 3000 {
				n := (i*7 + g*3) % 10
				f := q.Files()[n]
				b, err := f.Hold()
				if !assert.NoError(t, err) {
					return
				}
				if b[0] != byte(n+1) || b[99] != byte(n+1) {
					assert.Fail(t, "foreign bytes", f.Path())
				}
				f.Release()
			}
		})
	}
	wg.Wait()
	require.NoError(t, q.Close())
	require.NoError(t, q.Close())
	require.Equal(t, regions, mmap.Mapped())
}

// TestCloseUnderHolders closes while others hold: each holder either has the bytes or gets ErrClosed.
func TestCloseUnderHolders(t *testing.T) {
	regions := mmap.Mapped()
	for range 50 {
		q := tenFiles(t, Options{})
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					f := q.Files()[(i+g)%10]
					b, err := f.Hold()
					if err != nil {
						assert.ErrorIs(t, err, ErrClosed)
						return
					}
					assert.Equal(t, byte((i+g)%10+1), b[50])
					f.Release()
				}
			})
		}
		require.NoError(t, q.Close())
		wg.Wait()
	}
	require.Equal(t, regions, mmap.Mapped())
}

func BenchmarkHold(b *testing.B) {
	dir := b.TempDir()
	putFile(b, dir, Name(0), 100, 1)
	f := open(b, dir, Options{}).Files()[0]
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := f.Hold(); err != nil {
				b.Error(err)
				return
			}
			f.Release()
		}
	})
}
