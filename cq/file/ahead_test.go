package file

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// aheadBytes is how far ahead of the units blocks are reserved.
const aheadBytes = 64 << 10

// TestFRB12SpaceAheadIsNoUnit: space that was allocated ahead of the units, warmed or not, in the file of the last unit or in one made
// for the next, counts after a restart for nothing: not for the max, not as accepted, readable or durable. The next units go there.
func TestFRB12SpaceAheadIsNoUnit(t *testing.T) {
	const fileBytes = 5 * aheadBytes / 20 * 20
	const slots = int64(fileBytes / 20)
	makeFile := func(t *testing.T, dir string, slot int64, how func(f *os.File) error) {
		f, err := os.OpenFile(pathOf(dir, slot, fileBytes), os.O_RDWR|os.O_CREATE, 0o644)
		require.NoError(t, err)
		require.NoError(t, f.Truncate(fileBytes))
		require.NoError(t, how(f))
		require.NoError(t, f.Close())
	}
	allocate := func(f *os.File) error { return mmap.Preallocate(f, 0, fileBytes) }
	warm := func(f *os.File) error { // every page stored to, with what it had
		b, err := os.ReadFile(f.Name())
		if err == nil {
			_, err = f.WriteAt(b, 0)
		}
		return err
	}
	sparse := func(*os.File) error { return nil }
	for _, tc := range []struct {
		name  string
		units int64
		ahead func(t *testing.T, dir string)
	}{
		{"blocks reserved behind the last unit", 100, func(*testing.T, string) {}},
		{"the whole file allocated", 100, func(t *testing.T, dir string) { makeFile(t, dir, 0, allocate) }},
		{"the whole file warmed", 100, func(t *testing.T, dir string) { makeFile(t, dir, 0, warm) }},
		{"the next file made", 100, func(t *testing.T, dir string) { makeFile(t, dir, slots, sparse) }},
		{"the next file made, behind a full one", slots, func(t *testing.T, dir string) { makeFile(t, dir, slots, sparse) }},
		{"the next two files allocated", slots, func(t *testing.T, dir string) {
			makeFile(t, dir, slots, allocate)
			makeFile(t, dir, 2*slots, allocate)
		}},
		{"the next two files warmed", slots - 1, func(t *testing.T, dir string) {
			makeFile(t, dir, slots, warm)
			makeFile(t, dir, 2*slots, warm)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := t.TempDir()
			s := open(t, before, Options{FileSizeBytes: fileBytes})
			require.NoError(t, s.Append(t.Context(), entries(testKey, 0, tc.units)))
			require.NoError(t, s.Flush(t.Context()))
			used := (tc.units*20 + 4095) / 4096 * 4096
			require.GreaterOrEqual(t, allocated(t, pathOf(before, 0, fileBytes)), min(used, fileBytes), "blocks are there ahead of the units")
			dir := t.TempDir() // as a process that was killed leaves it
			require.NoError(t, os.CopyFS(dir, os.DirFS(before)))
			require.NoError(t, s.Close())
			if tc.units*20+aheadBytes < fileBytes {
				makeFile(t, dir, 0, func(f *os.File) error { return mmap.Preallocate(f, 0, used) }) // a copy does not keep them
			}
			tc.ahead(t, dir)

			end := testUnit(tc.units - 1).End()
			for range 2 { // the second time after a stop in order
				s = open(t, dir, Options{FileSizeBytes: fileBytes})
				require.Equal(t, tc.units, bounds(t, s, testKey).Max)
				require.NoError(t, s.Check(t.Context(), testKey))
				require.Equal(t, end, s.DispatchFrom())
				accepted, readable, durable := s.Progress()
				require.Equal(t, [3]int64{-1, -1, -1}, [3]int64{accepted, readable, durable})
				require.NoError(t, s.Close())
			}
			s = open(t, dir, Options{FileSizeBytes: fileBytes})
			var gap *cq.GapError
			require.ErrorAs(t, s.Append(t.Context(), entries(testKey, tc.units+1, tc.units+2)), &gap)
			more := tc.units + slots
			require.NoError(t, s.Append(t.Context(), entries(testKey, tc.units, more)))
			require.NoError(t, s.Check(t.Context(), testKey))
			q, ok := s.Queue(testKey)
			require.True(t, ok)
			got := make([]cq.Unit, 0, more)
			for buf := make([]cq.Unit, 4096); int64(len(got)) < more; {
				n, err := q.Read(int64(len(got)), buf)
				require.NoError(t, err)
				require.Positive(t, n)
				got = append(got, buf[:n]...)
			}
			require.Equal(t, unitsOf(0, more), got)
		})
	}
}

// TestFRB12QueueOfSpaceIsNone: a queue of which a killed process left no more than a file made for it is not there, and begins with its
// first unit.
func TestFRB12QueueOfSpaceIsNone(t *testing.T) {
	dir := t.TempDir()
	putUnits(t, dir, testKey, 0, cq.Unit{})
	s := open(t, dir, Options{FileSizeBytes: perFile * 20})
	_, ok := s.Queue(testKey)
	require.False(t, ok)
	require.NoError(t, s.Append(t.Context(), entries(testKey, 0, 3)))
	require.EqualValues(t, 3, bounds(t, s, testKey).Max)
	require.NoError(t, s.Close())
	requireFiles(t, dir, map[string][]byte{"00000000000000000000": fileOf(0, 3, 0)})
}

// allocated returns how many bytes of blocks a file has.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	require.NoError(t, err)
	return st.Sys().(*syscall.Stat_t).Blocks * 512
}

// pathOf is path, for files of another size.
func pathOf(dir string, slot, fileBytes int64) string {
	return filepath.Join(filepath.Dir(path(dir, 0)), mappedfile.Name(slot*20/fileBytes*fileBytes))
}
