package calibrate

import (
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestMemory(t *testing.T) {
	dir := t.TempDir()
	c, err := memory(dir, 1<<20, time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, c.CopyPerSecond)
	require.Positive(t, c.CopyCRCNanos)
	require.Positive(t, c.PopulateNanos)
	requireEmpty(t, dir)

	_, err = Memory(filepath.Join(dir, "nowhere"), time.Millisecond)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "calibrate memory: ")
}

// Every record's place is stored to, in order, and a rest at the end that holds none is not.
func TestCycle(t *testing.T) {
	to := make([]byte, 3*RecordBytes+100)
	n := byte(0)
	require.Positive(t, cycle(to, 0, func(dst []byte) {
		require.Len(t, dst, RecordBytes)
		if n < 3 {
			n++
			dst[0] = n
		}
	}))
	want := make([]byte, len(to))
	want[0], want[RecordBytes], want[2*RecordBytes] = 1, 2, 3
	require.Equal(t, crc32.ChecksumIEEE(want), crc32.ChecksumIEEE(to))
}

func TestAppend(t *testing.T) {
	dir := t.TempDir()
	s, err := Append(dir, time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, s.PerSecond)
	require.Positive(t, s.Latency.Samples)
	require.GreaterOrEqual(t, s.Latency.Max, s.Latency.P50)
	requireEmpty(t, dir)

	_, err = Append(filepath.Join(dir, "nowhere"), time.Millisecond)
	require.ErrorContains(t, err, "calibrate appends: ")
}

func TestWriteBack(t *testing.T) {
	dir := t.TempDir()
	rate, err := WriteBack(dir, writePiece+1)
	require.NoError(t, err)
	require.Positive(t, rate)
	requireEmpty(t, dir)

	_, err = WriteBack(filepath.Join(dir, "nowhere"), 1)
	require.ErrorContains(t, err, "calibrate write-back: ")
}

func TestDevice(t *testing.T) {
	tests := []struct {
		name, stat string
		bytes      int64
		ok         bool
	}{
		{"of a disk", " 1 2 3 4 5 6 7 8 9 10 11 12\n", 7 * 512, true},
		{"cut short", "1 2 3 4 5 6", 0, false},
		{"no number", "1 2 3 4 5 6 x", 0, false},
		{"empty", "", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bytes, ok := parseWritten(tt.stat)
			require.Equal(t, tt.ok, ok)
			require.Equal(t, tt.bytes, bytes)
		})
	}
	for _, path := range []string{"/proc", filepath.Join(t.TempDir(), "nowhere")} {
		_, ok := DeviceOf(path).Written()
		require.False(t, ok, path)
	}
}

func TestLatency(t *testing.T) {
	require.Zero(t, NewLatency().Summary())
	a, b := NewLatency(), NewLatency()
	for i := range 1000 {
		if i%2 == 0 {
			a.Record(time.Duration(i+1) * time.Microsecond)
		} else {
			b.Record(time.Duration(i+1) * time.Microsecond)
		}
	}
	b.Record(2 * maxLatency)
	a.Merge(b)
	got := a.Summary()
	require.EqualValues(t, 1001, got.Samples)
	require.InEpsilon(t, 501*time.Microsecond, got.P50, 0.01)
	require.InEpsilon(t, 991*time.Microsecond, got.P99, 0.01)
	require.InEpsilon(t, 1000*time.Microsecond, got.P999, 0.01)
	require.Equal(t, 2*maxLatency, got.Max)

	one := NewLatency()
	one.Record(1234567)
	require.Equal(t, Summary{1, 1234567, 1234567, 1234567, 1234567}, one.Summary())
}

func TestSequentialRead(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	require.NoError(t, os.WriteFile(a, make([]byte, 3<<20+7), 0o644))
	require.NoError(t, os.WriteFile(b, nil, 0o644))
	require.NoError(t, DropCache([]string{a, b}))
	for most, want := range map[int64]int64{math.MaxInt64: 3<<20 + 7, 2<<20 + 1: 2<<20 + 1, 0: 0} {
		n, err := readThrough(a, make([]byte, 1<<20), most)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	rate, err := SequentialRead([]string{a, b})
	require.NoError(t, err)
	require.Positive(t, rate)
	_, err = SequentialRead([]string{filepath.Join(dir, "nowhere")})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorIs(t, DropCache([]string{filepath.Join(dir, "nowhere")}), os.ErrNotExist)
}

func TestSpread(t *testing.T) {
	v, ok := Spread([]float64{3, 1, 2})
	require.True(t, ok)
	require.Equal(t, [3]float64{1, 2, 3}, v)
	for _, bad := range [][]float64{nil, {1, math.NaN()}, {math.Inf(1)}} {
		_, ok := Spread(bad)
		require.False(t, ok)
	}
}

func TestTouch(t *testing.T) {
	for _, bytes := range []int64{0, 1, 3 << 20} {
		require.NoError(t, Touch(bytes))
	}
}
