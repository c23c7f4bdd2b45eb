package mmap

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// newFile makes an open file of that content.
func newFile(t *testing.T, content []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	_, err = f.Write(content)
	require.NoError(t, err)
	return f
}

func TestRegionSharesTheFile(t *testing.T) {
	before := Mapped()
	f := newFile(t, make([]byte, 10_000))
	w, err := Map(f, 10_000, true)
	require.NoError(t, err)
	r, err := Map(f, 5000, false)
	require.NoError(t, err)
	require.Equal(t, before+2, Mapped())
	require.Len(t, w.Bytes(), 10_000)
	require.Len(t, r.Bytes(), 5000)

	copy(w.Bytes()[4990:], "hello, mapped file")
	require.NoError(t, w.Flush(4990, 18))
	require.Equal(t, "hello, map", string(r.Bytes()[4990:]))

	require.NoError(t, f.Close(), "the mapping does not need the descriptor")
	require.Equal(t, byte('h'), r.Bytes()[4990])
	b, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	require.Equal(t, "hello, mapped file", string(b[4990:5008]))
	require.NoError(t, w.Unmap())
	require.NoError(t, r.Unmap())
	require.Equal(t, before, Mapped())
}

func TestUnmapTwice(t *testing.T) {
	f := newFile(t, make([]byte, 4096))
	a, err := Map(f, 4096, false)
	require.NoError(t, err)
	require.NoError(t, a.Unmap())
	b, err := Map(f, 4096, false) // the kernel likes to give the same address again
	require.NoError(t, err)
	require.NoError(t, a.Unmap())
	require.Equal(t, byte(0), b.Bytes()[4095], "the second Unmap must not take b's pages")
	require.NoError(t, b.Unmap())

	require.Nil(t, a.Bytes())
	require.ErrorIs(t, a.Flush(0, 1), ErrUnmapped)
	require.ErrorIs(t, a.Advise(0, 1, WillNeed), ErrUnmapped)
}

func TestMapRefuses(t *testing.T) {
	f := newFile(t, make([]byte, 100))
	for name, size := range map[string]int64{"zero": 0, "negative": -1, "longer than the file": 101, "huge": math.MaxInt64} {
		t.Run(name, func(t *testing.T) {
			_, err := Map(f, size, false)
			require.ErrorContains(t, err, f.Name())
		})
	}
	closed := newFile(t, make([]byte, 100))
	require.NoError(t, closed.Close())
	_, err := Map(closed, 100, false)
	require.ErrorIs(t, err, os.ErrClosed)
}

func TestRanges(t *testing.T) {
	f := newFile(t, make([]byte, 9000))
	r, err := Map(f, 9000, true)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Unmap()) }()
	for _, c := range []struct {
		name   string
		off, n int64
		ok     bool
	}{
		{"all", 0, 9000, true},
		{"unaligned", 4097, 10, true},
		{"nothing", 9000, 0, true},
		{"last byte", 8999, 1, true},
		{"negative offset", -1, 1, false},
		{"negative length", 0, -1, false},
		{"past the end", 8999, 2, false},
		{"behind the end", 9001, 0, false},
		{"overflow", 1, math.MaxInt64, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := map[string]error{"flush": r.Flush(c.off, c.n)}
			for name, a := range map[string]Advice{
				"normal": Normal, "sequential": Sequential, "random": Random, "willneed": WillNeed,
				"dontneed": DontNeed, "populate read": PopulateRead, "populate write": PopulateWrite,
			} {
				calls[name] = r.Advise(c.off, c.n, a)
			}
			for name, err := range calls {
				if c.ok && !errors.Is(err, errors.ErrUnsupported) {
					require.NoError(t, err, name)
				}
				if !c.ok {
					require.ErrorContains(t, err, "outside [0, 9000)", name)
				}
			}
		})
	}
	require.ErrorContains(t, r.Advise(0, 1, Advice(99)), "unknown advice 99")
}

func TestAdviceLosesNothing(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 1024)
	f := newFile(t, want)
	r, err := Map(f, int64(len(want)), true)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Unmap()) }()
	r.Bytes()[0] = 'X'
	want[0] = 'X'
	for _, a := range []Advice{DontNeed, PopulateWrite, DontNeed, PopulateRead} {
		require.NoError(t, r.Advise(0, int64(len(want)), a))
		require.True(t, bytes.Equal(want, r.Bytes()))
	}
}

// What was just written is in the page cache; what the kernel was asked to forget is not, where the filesystem can forget.
func TestResident(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	size := 200 * pageSize
	require.NoError(t, os.WriteFile(path, make([]byte, size), 0o644))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	r, err := Map(f, size, false)
	require.NoError(t, err)
	in, err := r.Resident(1, size-1)
	require.NoError(t, err)
	require.True(t, in)
	_, err = r.Resident(1, size)
	require.ErrorContains(t, err, path)
	require.NoError(t, r.Unmap())
	_, err = r.Resident(0, 1)
	require.ErrorIs(t, err, ErrUnmapped)

	require.NoError(t, Datasync(f))
	require.NoError(t, DropCache(f))
	r, err = Map(f, size, false)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Unmap()) }()
	if in, err = r.Resident(0, size); err == nil && in {
		t.Skip("the filesystem keeps what it was asked to forget")
	}
	require.NoError(t, err)
	require.Zero(t, r.Bytes()[150*pageSize])
	in, err = r.Resident(150*pageSize+7, 1)
	require.NoError(t, err)
	require.True(t, in)
}
