package index

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// TestFRB12SpaceAheadIsNoEntry: space that was allocated ahead of the entries, in the newest file or in one made for the next, counts
// after a restart for nothing, whichever way the process stopped. The next entries go there, and the files are those of an index that
// never had any.
func TestFRB12SpaceAheadIsNoEntry(t *testing.T) {
	const geometry = 40 + 4*1500 + 20*700
	makeFile := func(t *testing.T, fsys *faultfs.FS, name string, blocks, warm bool) {
		f, err := fsys.OpenFile(filepath.Join(testDir, name), os.O_RDWR|os.O_CREATE, 0o644)
		require.NoError(t, err)
		require.NoError(t, f.Truncate(geometry))
		if blocks {
			require.NoError(t, f.Preallocate(0, geometry))
		}
		if warm { // every page stored to, with what it had
			b := make([]byte, geometry)
			_, err := f.ReadAt(b, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(b, 0)
			require.NoError(t, err)
		}
		require.NoError(t, f.Close())
	}
	for _, c := range []struct {
		name   string
		files  int  // that have entries
		full   bool // the newest of them
		newest string
		ahead  func(t *testing.T, fsys *faultfs.FS, name string)
	}{
		{"64 KiB reserved behind the last entry", 1, false, firstName, func(*testing.T, *faultfs.FS, string) {}},
		{"the whole file allocated", 1, false, firstName, func(t *testing.T, fsys *faultfs.FS, name string) { makeFile(t, fsys, name, true, false) }},
		{"the whole file warmed", 2, false, secondName, func(t *testing.T, fsys *faultfs.FS, name string) { makeFile(t, fsys, name, true, true) }},
		{"the next file made, behind a full one", 2, true, secondName, func(t *testing.T, fsys *faultfs.FS, _ string) { makeFile(t, fsys, thirdName, false, false) }},
		{"the next file allocated and warmed, behind a full one", 2, true, secondName, func(t *testing.T, fsys *faultfs.FS, _ string) { makeFile(t, fsys, thirdName, true, true) }},
	} {
		for _, unclean := range []bool{false, true} {
			t.Run(c.name+map[bool]string{false: ", clean", true: ", unclean"}[unclean], func(t *testing.T) {
				fsys := newFS()
				o := smallFiles(fsys)
				x := open(t, o)
				log := traffic(8, 900, 0, startMs)
				n := 0
				for ; len(x.files) < c.files || x.files[c.files-1].head.count < 50 || c.full && !x.files[c.files-1].full(); n++ {
					require.NoError(t, x.Append(log[n:n+1]))
				}
				require.Equal(t, filepath.Join(testDir, c.newest), x.files[c.files-1].path)
				if c.files == 1 {
					require.Greater(t, x.files[0].reserved, x.files[0].entryAt(x.files[0].head.count), "blocks are there ahead of the entries")
				}
				infos, from, flushed, want := x.Files(), x.DispatchFrom(), int64(0), images(x)
				require.NoError(t, x.Close())
				for _, f := range infos {
					if f.Full {
						flushed = f.EndMs
					}
				}
				c.ahead(t, fsys, c.newest)

				o.Unclean, o.FlushedToMs = unclean, flushed
				x = open(t, o)
				found := x.Files()
				require.GreaterOrEqual(t, len(found), c.files)
				require.Equal(t, infos, found[:c.files])
				for _, f := range found[c.files:] {
					require.Zero(t, f.Entries)
					require.Zero(t, f.EndPhyOffset)
				}
				require.Equal(t, from, x.DispatchFrom())
				require.LessOrEqual(t, x.IndexMsgTimestampMs(), flushed)
				for i := range c.files {
					require.Equal(t, want[i], x.files[i].b)
				}
				require.NoError(t, x.Append(since(log, from)))
				requireImages(t, reference(t, log), x)
				require.NoError(t, x.Close())
			})
		}
	}
}

// TestFRB12SpaceAheadOnDisk is the same over the machine's filesystem, where reserved blocks are real.
func TestFRB12SpaceAheadOnDisk(t *testing.T) {
	dir := t.TempDir()
	o := Options{HashSlots: 1500, MaxEntries: 20_000, FS: mmap.OS, Now: func() time.Time { return time.UnixMilli(startMs) }}
	x, err := Open(dir, o)
	require.NoError(t, err)
	log := traffic(8, 900, 0, startMs)
	require.NoError(t, x.Append(log[:100]))
	infos, from := x.Files(), x.DispatchFrom()
	require.GreaterOrEqual(t, x.files[0].reserved, x.files[0].entryAt(x.files[0].head.count)+20)
	require.NoError(t, x.Close())
	o.Unclean = true
	x, err = Open(dir, o)
	require.NoError(t, err)
	require.Equal(t, infos, x.Files())
	require.Equal(t, from, x.DispatchFrom())
	require.NoError(t, x.Close())
}
