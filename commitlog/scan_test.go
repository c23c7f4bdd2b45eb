package commitlog

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

func TestScanReturnsEveryRecord(t *testing.T) {
	for _, first := range []int64{0, 3 * 4096} {
		b := newBuilder(t, 4096, first)
		for i := range 100 {
			b.add(i * 7)
		}
		require.Greater(t, len(b.files), 5)
		regions := mmap.Mapped()
		l := b.open()
		require.Equal(t, first, l.MinOffset())
		require.Equal(t, int64(4096), l.FileSize())
		require.Equal(t, int64(len(b.files))*4096, l.Size())
		for _, o := range []ScanOptions{{}, {CheckCRC: true}, {NoReadahead: true}} {
			s := l.Scanner(-1, o)
			for i := 0; s.Next(); i++ {
				want := testMessage(b.records[i], i*7)
				got := s.Record()
				require.Equal(t, b.records[i], got.PhyOffset)
				require.Equal(t, b.sizes[i], got.TotalSize)
				require.Equal(t, want.Topic, string(got.Topic))
				require.Equal(t, want.Body, append([]byte{}, got.Body...))
				require.Equal(t, string(want.Properties), string(got.Properties))
				require.Equal(t, want.StoreTimestampMs, got.StoreTimestampMs)
				require.Equal(t, EndNone, s.End().Kind)
			}
			require.NoError(t, s.Err())
			require.Equal(t, clean(b, l, b.end()), s.End())
			s.Close()
			s.Close()
			require.False(t, s.Next())
		}
		half := l.Scanner(-1, ScanOptions{})
		require.True(t, half.Next())
		half.Close()
		require.False(t, half.Next(), "after Close")
		require.NoError(t, half.Err())
		require.Equal(t, EndNone, half.End().Kind)
		require.NoError(t, l.Close())
		require.Equal(t, regions, mmap.Mapped(), "every file held was let go")
	}
}

// clean is the end of a log at phy that nothing follows.
func clean(b *builder, l *Log, phy int64) ScanEnd {
	i := min(int((phy-b.first)/b.fileSize), len(b.files)-1)
	from := b.first + int64(i)*b.fileSize
	return ScanEnd{Kind: EndClean, Offset: phy, File: b.path(l.Dir(), i), FileOffset: phy - from, NextValid: -1}
}

func TestScanFrom(t *testing.T) {
	b := newBuilder(t, 2048, 2*2048)
	for range 30 {
		b.add(100)
	}
	l := b.open()
	n := len(b.records)
	for _, c := range []struct {
		name  string
		from  int64
		first int // index of the first record expected
	}{
		{"minus one", -1, 0},
		{"far below", math.MinInt64, 0},
		{"zero", 0, 0},
		{"minimum", 2 * 2048, 0},
		{"second record", b.records[1], 1},
		{"last record", b.records[n-1], n - 1},
		{"end", b.end(), n},
		{"filler", b.records[indexOfFile(b, 1)-1] + int64(b.sizes[0]), indexOfFile(b, 1)},
		{"file", 3 * 2048, indexOfFile(b, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := scan(t, l, c.from, ScanOptions{CheckCRC: true})
			require.NoError(t, got.err)
			require.Equal(t, b.records[c.first:], append([]int64{}, got.records...))
			require.Equal(t, b.end(), got.end.Offset)
		})
	}
	t.Run("end of the last file", func(t *testing.T) {
		full := b.first + int64(len(b.files))*2048
		got := scan(t, l, full, ScanOptions{})
		require.NoError(t, got.err)
		require.Equal(t, full, got.end.Offset)
		require.Equal(t, int64(2048), got.end.FileOffset)
	})
	t.Run("beyond the files", func(t *testing.T) {
		got := scan(t, l, math.MaxInt64, ScanOptions{})
		require.ErrorIs(t, got.err, ErrOffsetOutOfRange)
		require.Equal(t, EndNone, got.end.Kind)
	})
	t.Run("no boundary", func(t *testing.T) {
		got := scan(t, l, b.records[3]+1, ScanOptions{})
		require.ErrorIs(t, got.err, ErrCorrupt)
		require.Equal(t, b.records[3]+1, got.end.Offset)
		require.Equal(t, b.records[4], got.end.NextValid)
	})
}

// indexOfFile returns the index of the first record of file i.
func indexOfFile(b *builder, i int) int {
	for n, phy := range b.records {
		if phy >= b.first+int64(i)*b.fileSize {
			return n
		}
	}
	return len(b.records)
}

func TestEmptyLogs(t *testing.T) {
	for name, dir := range map[string]string{"missing": t.TempDir() + "/missing", "empty": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, dir)
			require.Equal(t, int64(-1), l.MinOffset())
			require.Zero(t, l.FileSize())
			require.Zero(t, l.Size())
			require.Equal(t, dir, l.Dir())
			for _, from := range []int64{-1, 0} {
				got := scan(t, l, from, ScanOptions{})
				require.NoError(t, got.err)
				require.Equal(t, ScanEnd{Kind: EndClean, NextValid: -1}, got.end)
			}
			require.ErrorIs(t, scan(t, l, 1, ScanOptions{}).err, ErrOffsetOutOfRange)
			end, err := l.End(ScanOptions{})
			require.NoError(t, err)
			require.Equal(t, EndClean, end.Kind)
			_, err = l.Read(0, 0, true, new(message.Record))
			require.ErrorIs(t, err, ErrOffsetOutOfRange)
		})
	}
	b := newBuilder(t, 4096, 0).roll().roll()
	got := scan(t, b.open(), -1, ScanOptions{})
	require.NoError(t, got.err)
	require.Equal(t, EndClean, got.end.Kind)
	require.Zero(t, got.end.Offset)
}

func TestOpenErrors(t *testing.T) {
	b := newBuilder(t, 4096, 0).roll().roll().roll()
	dir := b.write()
	require.NoError(t, os.Remove(b.path(dir, 1)))
	_, err := Open(dir, Options{})
	require.ErrorIs(t, err, mappedfile.ErrLayout)
	require.ErrorContains(t, err, "open commit log")
	require.ErrorContains(t, err, b.path(dir, 2))
	require.NoError(t, os.Truncate(b.path(dir, 2), 1))
	require.NoError(t, os.Rename(b.path(dir, 2), b.path(dir, 1)))
	_, err = Open(dir, Options{})
	require.ErrorContains(t, err, "got 1 bytes, want 4096 bytes")
}

func TestScanClosedLog(t *testing.T) {
	l := newBuilder(t, 4096, 0).add(10).open()
	before := l.Scanner(-1, ScanOptions{})
	defer before.Close()
	require.NoError(t, l.Close())
	require.True(t, before.Next(), "what is held stays")
	got := scan(t, l, -1, ScanOptions{})
	require.ErrorIs(t, got.err, mappedfile.ErrClosed)
	require.Equal(t, EndNone, got.end.Kind)
	_, err := l.End(ScanOptions{})
	require.ErrorIs(t, err, mappedfile.ErrClosed)
	_, err = l.Read(0, 0, false, new(message.Record))
	require.ErrorIs(t, err, mappedfile.ErrClosed)
}

// TestScanSurvivesACutFile cuts a file under a running scan: the fault must become an error.
func TestScanSurvivesACutFile(t *testing.T) {
	regions := mmap.Mapped()
	const fileSize = 64 << 10
	b := newBuilder(t, fileSize, 0)
	for range 300 {
		b.add(500)
	}
	require.Greater(t, len(b.files), 2)
	dir := b.write()

	t.Run("the file being scanned", func(t *testing.T) {
		l := openLog(t, dir)
		s := l.Scanner(-1, ScanOptions{CheckCRC: true})
		defer s.Close()
		require.True(t, s.Next())
		release, err := l.Read(b.records[40], 0, true, new(message.Record)) // mapped, and stays so
		require.NoError(t, err)
		defer release()
		require.NoError(t, os.Truncate(b.path(dir, 0), 8192))
		for s.Next() {
		}
		var fault *mmap.FaultError
		require.ErrorAs(t, s.Err(), &fault)
		require.Equal(t, b.path(dir, 0), fault.Path)
		require.GreaterOrEqual(t, fault.Offset, int64(8192))
		require.ErrorContains(t, s.Err(), b.path(dir, 0)+"+")
		require.Equal(t, EndNone, s.End().Kind)

		_, err = l.Read(b.records[40], 0, true, new(message.Record))
		require.ErrorIs(t, err, mmap.ErrFault)
		require.NoError(t, os.Truncate(b.path(dir, 0), fileSize))
	})
	t.Run("a file to come", func(t *testing.T) {
		l := openLog(t, dir)
		s := l.Scanner(fileSize, ScanOptions{})
		defer s.Close()
		require.True(t, s.Next())
		require.NoError(t, os.Truncate(b.path(dir, 2), 100))
		for s.Next() {
		}
		require.ErrorContains(t, s.Err(), b.path(dir, 2)+": the file is too short: it has 100 bytes, want 65536")
		require.Equal(t, EndNone, s.End().Kind)
	})
	t.Run("the probe", func(t *testing.T) {
		require.NoError(t, os.Truncate(b.path(dir, 2), fileSize))
		l := openLog(t, dir) // file 0 lost its records above 8192
		f, _ := l.queue.Find(2 * fileSize)
		_, err := f.Hold()
		require.NoError(t, err)
		defer f.Release()
		f1, _ := l.queue.Find(fileSize)
		_, err = f1.Hold()
		require.NoError(t, err)
		defer f1.Release()
		require.NoError(t, os.Truncate(b.path(dir, 1), 0))
		got := scan(t, l, -1, ScanOptions{})
		require.ErrorIs(t, got.err, mmap.ErrFault)
		require.ErrorContains(t, got.err, b.path(dir, 1))
	})
	t.Cleanup(func() { require.Equal(t, regions, mmap.Mapped()) })
}

func TestScanAllocatesNothing(t *testing.T) {
	b := newBuilder(t, 1<<20, 0)
	for range 500 {
		b.add(200)
	}
	l := b.open()
	s := l.Scanner(-1, ScanOptions{CheckCRC: true})
	defer s.Close()
	require.Zero(t, testing.AllocsPerRun(300, func() {
		if !s.Next() {
			t.Error("log too short")
		}
	}))
	var r message.Record
	require.Zero(t, testing.AllocsPerRun(300, func() {
		release, err := l.Read(b.records[7], b.sizes[7], true, &r)
		if err != nil {
			t.Error(err)
			return
		}
		release()
	}))
}
