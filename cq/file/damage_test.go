package file

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// damage is done to a queue of 120 units: files of slots [0,50), [50,100) and [100,120) with 30 free ones behind.
var damages = []struct {
	name   string
	do     func(t *testing.T, dir string)
	max    int64  // where Bounds sees the end; -1: Bounds reports
	report string // the end of the report's text, of Bounds or (max >= 0) of Check; "" for none
	slot   int64  // the place reported; -1: the whole file
}{
	{name: "none", do: func(*testing.T, string) {}, max: 120},

	// The last unit: what is left of it decides whether it is one.
	{name: "last unit: position zeroed", do: field(119, phyAt, 8, 0), max: 120, slot: 119, report: "got position 0, want more than the 33600 of the unit before"},
	{
		name: "last unit: size zeroed", do: field(119, sizeAt, 4, 0), max: -1, slot: 119,
		report: "got position 33800 size 0 tags 112, want a unit (position >= 0, size > 0) or zeros",
	},
	{name: "last unit: tags zeroed", do: field(119, tagsAt, 8, 0), max: 120},
	{
		name: "last unit: position flipped", do: field(119, phyAt, 8, 0xff), max: -1, slot: 119,
		report: "got position -1 size 150 tags 112, want a unit (position >= 0, size > 0) or zeros",
	},
	{
		name: "last unit: size flipped", do: field(119, sizeAt, 4, 0xff), max: -1, slot: 119,
		report: "got position 33800 size -1 tags 112, want a unit (position >= 0, size > 0) or zeros",
	},
	{name: "last unit: tags flipped", do: field(119, tagsAt, 8, 0xff), max: 120},
	{name: "last unit: all zeroed", do: field(119, 0, 20, 0), max: 119},
	{
		name: "last unit: second half lost", do: field(119, 10, 10, 0), max: -1, slot: 119,
		report: "got position 33800 size 0 tags 0, want a unit (position >= 0, size > 0) or zeros",
	},

	// A hole in the last file.
	{
		name: "hole in the last file", do: field(110, 0, 20, 0), max: -1, slot: 111,
		report: "got a unit (position 32200 size 150), want zeros behind the 10 units at the start of the file",
	},
	{
		name: "first unit of the last file lost", do: field(100, 0, 20, 0), max: -1, slot: 101,
		report: "got a unit (position 30200 size 150), want zeros behind the 0 units at the start of the file",
	},
	{
		name: "impossible unit in the last file", do: field(105, sizeAt, 4, 0x80), max: -1, slot: 105,
		report: "got position 31000 size -2139062144 tags 98, want a unit (position >= 0, size > 0) or zeros",
	},
	{
		name: "something far behind the end", do: field(149, 19, 1, 1), max: -1, slot: 149,
		report: "got position 0 size 0 tags 1, want a unit (position >= 0, size > 0) or zeros",
	},

	// Earlier files.
	{
		name: "last unit of the file before is lost", do: field(99, 0, 20, 0), max: -1, slot: 99,
		report: "got zeros, want a unit below the end of the queue",
	},
	{
		name: "last unit of the file before is impossible", do: field(99, 0, 1, 0x80), max: -1, slot: 99,
		report: "got position -9223372036854746008 size 150 tags 92, want a unit (position >= 0, size > 0) or zeros",
	},
	{name: "hole deep inside", do: field(30, 0, 20, 0), max: 120, slot: 30, report: "got zeros, want a unit below the end of the queue"},
	{
		name: "units swapped deep inside", max: 120, slot: 31, report: "got position 16000, want more than the 16200 of the unit before",
		do: func(t *testing.T, dir string) { putUnits(t, dir, testKey, 30, testUnit(31), testUnit(30)) },
	},
	{
		name: "filler deep inside", max: 120, slot: 30, report: "got filler, want a unit behind the one of position 15800",
		do: func(t *testing.T, dir string) { putUnits(t, dir, testKey, 30, preBlank) },
	},
	{name: "the last file is all zero", max: 100, do: func(t *testing.T, dir string) { patch(t, path(dir, 100), 0, make([]byte, 1000)...) }},

	// The run of files.
	{name: "last file of length zero", max: 100, do: func(t *testing.T, dir string) { require.NoError(t, os.Truncate(path(dir, 100), 0)) }},
	{
		name: "last file cut", max: -1, slot: -1, report: "00000000000000002000: got 999 bytes, want 1000 bytes",
		do: func(t *testing.T, dir string) { require.NoError(t, os.Truncate(path(dir, 100), 999)) },
	},
	{
		name: "first file cut", max: -1, slot: -1, report: "00000000000000000000: got 0 bytes, want 1000 bytes",
		do: func(t *testing.T, dir string) { require.NoError(t, os.Truncate(path(dir, 0), 0)) },
	},
	{
		name: "last file too long", max: -1, slot: -1, report: "00000000000000002000: got 1020 bytes, want 1000 bytes",
		do: func(t *testing.T, dir string) { require.NoError(t, os.Truncate(path(dir, 100), 1020)) },
	},
	{
		name: "file in the middle missing", max: -1, slot: -1,
		report: "00000000000000002000: got this name after 00000000000000000000, want file 00000000000000001000 next",
		do:     func(t *testing.T, dir string) { require.NoError(t, os.Remove(path(dir, 50))) },
	},
	{
		name: "name off the grid", max: -1, slot: -1, report: "00000000000000000020: got this name, want a multiple of the file size 1000",
		do: func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(path(dir, 0)))
			require.NoError(t, os.Remove(path(dir, 50)))
			require.NoError(t, os.Rename(path(dir, 100), filepath.Join(filepath.Dir(path(dir, 0)), "00000000000000000020")))
		},
	},
	{name: "foreign names", max: 120, do: func(t *testing.T, dir string) {
		for _, name := range []string{"00000000000000000000.bak", "99999", "zzz", ".hidden"} {
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path(dir, 0)), name), []byte("x"), 0o644))
		}
		require.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(path(dir, 0)), "99999999999999999999"), 0o755))
	}},
}

// field overwrites part of a slot.
func field(slot, at int64, n int, fill byte) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		b := make([]byte, n)
		for i := range b {
			b[i] = fill
		}
		patch(t, path(dir, slot), slot%perFile*20+at, b...)
	}
}

func TestDamage(t *testing.T) {
	for _, tc := range damages {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			putUnits(t, dir, testKey, 0, unitsOf(0, 120)...)
			other := cq.Key{Topic: "t", QueueID: 0}
			putUnits(t, dir, other, 0, unitsOf(0, 2)...)
			tc.do(t, dir)
			s := open(t, dir, Options{FileSizeBytes: perFile * 20})
			q, ok := s.Queue(testKey)
			require.True(t, ok)
			b, err := q.Bounds()
			checked := s.Check(t.Context(), testKey)
			if tc.max >= 0 {
				require.NoError(t, err)
				require.Equal(t, [2]int64{0, tc.max}, [2]int64{b.Min, b.Max})
				err = checked
			} else {
				require.Equal(t, checked, err)
				require.Equal(t, cq.Bounds{}, b)
				require.EqualValues(t, -1, s.DispatchFrom(), "what the store lacks cannot be told")
			}
			require.EqualValues(t, 2, bounds(t, s, other).Max, "the neighbour is not touched")
			require.NoError(t, s.Check(t.Context(), other))
			if tc.report == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, cq.ErrCorrupt)
			require.Contains(t, err.Error(), tc.report)
			if tc.slot >= 0 {
				require.Contains(t, err.Error(), fmt.Sprintf("%s+%d: ", path(dir, tc.slot), tc.slot%perFile*20))
			}
		})
	}
}

// A queue whose first bytes are the damage is there all the same, and says so.
func TestDamageFromTheStart(t *testing.T) {
	dir := t.TempDir()
	putUnits(t, dir, testKey, 0, cq.Unit{PhyOffset: 5})
	s := open(t, dir, Options{})
	require.Equal(t, []cq.Key{testKey}, sortedKeys(s))
	q, ok := s.Queue(testKey)
	require.True(t, ok)
	_, err := q.Bounds()
	require.ErrorIs(t, err, cq.ErrCorrupt)
	require.ErrorContains(t, err, path(dir, 0)+"+0: ")
}

// Files of the usual length are mostly holes, whose borders are those of disk blocks and not of units.
func TestSparseFiles(t *testing.T) {
	const size = DefaultFileBytes
	write := func(t *testing.T, dir string, from int64, units []cq.Unit) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path(dir, 0)), 0o755))
		f, err := os.OpenFile(path(dir, 0), os.O_RDWR|os.O_CREATE, 0o644)
		require.NoError(t, err)
		require.NoError(t, f.Truncate(size))
		require.NoError(t, f.Close())
		var b []byte
		for _, u := range units {
			b = cq.AppendUnit(b, u)
		}
		patch(t, path(dir, 0), from*20, b...)
	}
	for _, n := range []int64{1, 204, 205, 206, 819, 820, 3199, 3200, 3201, 3277, 20_000, 300_000} {
		t.Run(fmt.Sprintf("%d units", n), func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, 0, unitsOf(0, n))
			s := open(t, dir, Options{MinPhyOffset: testUnit(n / 2).PhyOffset})
			b := bounds(t, s, testKey)
			require.Equal(t, [2]int64{n / 2, n}, [2]int64{b.Min, b.Max})
			require.NoError(t, s.Check(t.Context(), testKey))
		})
	}
	for _, slot := range []int64{1500, 2048, 3200, 299_999} {
		t.Run(fmt.Sprintf("a unit at slot %d behind a hole", slot), func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, 0, unitsOf(0, 1024)) // whole blocks: not even a zero before the hole
			write(t, dir, slot, unitsOf(slot, slot+1))
			s := open(t, dir, Options{})
			q, _ := s.Queue(testKey)
			_, err := q.Bounds()
			require.ErrorContains(t, err, fmt.Sprintf("%s+%d: got a unit", path(dir, 0), slot*20))
			require.ErrorContains(t, err, "zeros behind the 1024 units")
		})
	}
}

// A reader of a damaged queue gets every unit that is there, and stops at a hole without an error.
func TestF24ReadAroundHole(t *testing.T) {
	dir := t.TempDir()
	putUnits(t, dir, testKey, 0, unitsOf(0, 120)...)
	field(30, 0, 20, 0)(t, dir)
	field(40, sizeAt, 4, 0xff)(t, dir)
	s := open(t, dir, Options{ReadOnly: true})
	q, ok := s.Queue(testKey)
	require.True(t, ok)
	buf := make([]cq.Unit, 200)
	for _, tc := range []struct {
		from int64
		n    int
	}{{0, 30}, {29, 1}, {30, 0}, {31, 9}, {39, 1}, {41, 9}, {50, 50}, {100, 20}} {
		n, err := q.Read(tc.from, buf)
		require.NoError(t, err, "from %d", tc.from)
		require.Equal(t, tc.n, n, "from %d", tc.from)
		require.Equal(t, append([]cq.Unit{}, unitsOf(tc.from, tc.from+int64(tc.n))...), buf[:n])
	}
	_, err := q.Read(40, buf)
	var ce *cq.CorruptError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, path(dir, 40), ce.File)
	require.EqualValues(t, 800, ce.Offset)
}

// After a crash that lost a page a replay of the log closes the hole, and what was behind it is judged anew.
func TestReplayClosesHole(t *testing.T) {
	dir := t.TempDir()
	putUnits(t, dir, testKey, 0, unitsOf(0, 120)...)
	for slot := int64(105); slot < 110; slot++ {
		field(slot, 0, 20, 0)(t, dir)
	}
	s := open(t, dir, Options{})
	q, _ := s.Queue(testKey)
	_, err := q.Bounds()
	require.ErrorIs(t, err, cq.ErrCorrupt)
	for slot := int64(90); slot < 125; slot++ {
		require.NoError(t, s.Append(t.Context(), []cq.Entry{{Key: testKey, QueueOffset: slot, Unit: testUnit(slot)}}))
	}
	require.EqualValues(t, 125, bounds(t, s, testKey).Max)
	require.NoError(t, s.Check(t.Context(), testKey))
}

// A cut of a damaged queue leaves no dirty unit, on whichever side of the hole.
func TestTruncateDamaged(t *testing.T) {
	for _, tc := range []struct {
		name      string
		cut, hole int64
		max       int64 // -1: still damaged
	}{
		{"dirty units behind the hole", 115, 105, -1},
		{"dirty units on both sides", 103, 105, 103},
		{"dirty from the hole on", 106, 105, 105},
		{"dirty units in the file before", 60, 105, 60},
		{"a hole below the cut", 60, 30, 60},
		{"hole at the end of the file before", 100, 99, 99},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			putUnits(t, dir, testKey, 0, unitsOf(0, 120)...)
			field(tc.hole, 0, 20, 0)(t, dir)
			s := open(t, dir, Options{})
			require.NoError(t, s.TruncateDirty(t.Context(), testUnit(tc.cut).PhyOffset))
			require.NoError(t, s.Close())
			s = open(t, dir, Options{ReadOnly: true})
			q, ok := s.Queue(testKey)
			require.True(t, ok)
			b, err := q.Bounds()
			if tc.max < 0 {
				require.ErrorIs(t, err, cq.ErrCorrupt)
			} else {
				require.NoError(t, err)
				require.Equal(t, tc.max, b.Max)
			}
			files, err := filepath.Glob(filepath.Join(filepath.Dir(path(dir, 0)), "*"))
			require.NoError(t, err)
			for _, f := range files {
				content, err := os.ReadFile(f)
				require.NoError(t, err)
				for at := 0; at < len(content); at += unitBytes {
					require.Less(t, decodeUnit(content[at:]).PhyOffset, testUnit(tc.cut).PhyOffset, "%s+%d", f, at)
				}
			}
		})
	}
}

// A file that shrinks under a mapping is an error of the read, not the end of the process.
func TestFileCutWhileMapped(t *testing.T) {
	dir := t.TempDir()
	putUnits(t, dir, testKey, 0, unitsOf(0, 120)...)
	s := open(t, dir, Options{ReadOnly: true})
	q, _ := s.Queue(testKey)
	buf := make([]cq.Unit, 1)
	_, err := q.Read(0, buf)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path(dir, 0), 0))
	_, err = q.Read(0, buf)
	require.ErrorIs(t, err, mmap.ErrFault)
	require.ErrorContains(t, err, path(dir, 0))
	_, err = q.Read(60, buf)
	require.NoError(t, err)
}

// FuzzQueueFiles: whatever two files hold, bounds and reads neither panic nor loop, reads return valid units only, and a
// queue that reports no damage has a unit or filler in its last slot and nothing but zeros behind it.
func FuzzQueueFiles(f *testing.F) {
	var seed []byte
	for _, u := range unitsOf(0, 7) {
		seed = cq.AppendUnit(seed, u)
	}
	f.Add(seed, int64(0), int64(0))
	f.Add(append(cq.AppendUnit(cq.AppendUnit(nil, preBlank), synthetic(5)), seed...), int64(11_000), int64(40))
	f.Add(append(seed[:100:100], make([]byte, 40)...), int64(10_400), int64(1))
	f.Fuzz(func(t *testing.T, content []byte, minPhy, base int64) {
		const size = 4 * unitBytes
		base = min(max(base, 0), 1<<40) / size * size
		dir := t.TempDir()
		qdir := queueDir(filepath.Join(dir, "consumequeue"), testKey)
		require.NoError(t, os.MkdirAll(qdir, 0o755))
		content = append(content, make([]byte, 2*size)...)[:2*size]
		for i := range int64(2) {
			name := fmt.Sprintf("%020d", base+i*size)
			require.NoError(t, os.WriteFile(filepath.Join(qdir, name), content[i*size:(i+1)*size], 0o644))
		}
		s := open(t, dir, Options{MinPhyOffset: minPhy, FileSizeBytes: size})
		q, ok := s.Queue(testKey)
		if !ok {
			require.Equal(t, make([]byte, 2*size), content)
			return
		}
		b, err := q.Bounds()
		if err != nil {
			require.ErrorIs(t, err, cq.ErrCorrupt)
			require.Zero(t, b)
			return
		}
		require.LessOrEqual(t, b.Min, b.Max)
		for i := b.Max*unitBytes - base; i < 2*size; i++ {
			require.Zero(t, content[i])
		}
		if at := b.Max*unitBytes - base - unitBytes; at >= 0 {
			require.True(t, valid(decodeUnit(content[at:])))
		}
		buf := make([]cq.Unit, 3)
		for slot := base / unitBytes; slot < b.Max; slot++ {
			n, err := q.Read(slot, buf)
			if err != nil {
				require.ErrorIs(t, err, cq.ErrCorrupt)
			}
			for _, u := range buf[:n] {
				require.True(t, valid(u) && !filler(u))
			}
		}
	})
}
