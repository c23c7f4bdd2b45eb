package mmap

import (
	"errors"
	"hash/crc32"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// cutRegion maps three pages of a file and cuts the file after the first.
func cutRegion(t *testing.T) *Region {
	t.Helper()
	f := newFile(t, make([]byte, 3*pageSize))
	r, err := Map(f, 3*pageSize, true)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Unmap()) })
	require.NoError(t, f.Truncate(pageSize))
	return r
}

func TestGuardFaultNamesTheByte(t *testing.T) {
	r := cutRegion(t)
	b := r.Bytes()
	var sink byte
	for _, c := range []struct {
		name string
		fn   func()
		off  int64 // of the fault, when exact
	}{
		{"load", func() { sink = b[pageSize+5] }, pageSize + 5},
		{"store", func() { b[2*pageSize+7] = 1 }, 2*pageSize + 7},
		{"copy", func() { copy(make([]byte, 100), b[2*pageSize+1:]) }, -1},
		{"checksum", func() { sink = byte(crc32.ChecksumIEEE(b[pageSize:])) }, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := GuardFault(func() error { c.fn(); return nil })
			require.ErrorIs(t, err, ErrFault)
			var fault *FaultError
			require.ErrorAs(t, err, &fault)
			require.Equal(t, r.path, fault.Path)
			if c.off >= 0 {
				require.Equal(t, c.off, fault.Offset)
			}
			require.GreaterOrEqual(t, fault.Offset, pageSize)
			require.ErrorContains(t, err, r.path)
		})
	}
	require.NoError(t, GuardFault(func() error { sink = b[pageSize-1]; return nil }), "what is left of the file can be read")
	_ = sink
}

func TestGuardFaultPassesOthers(t *testing.T) {
	mine := errors.New("mine")
	require.Equal(t, mine, GuardFault(func() error { return mine }))
	require.PanicsWithValue(t, "mine", func() { _ = GuardFault(func() error { panic("mine") }) })
	require.Panics(t, func() {
		var p *FaultError
		_ = GuardFault(func() error { p.Offset = 1; return nil })
	}, "a nil pointer is no fault of a file")
	require.Panics(t, func() {
		_ = GuardFault(func() error { panic(addrError{1}) })
	}, "an address outside of every region")
}

type addrError struct{ addr uintptr }

func (e addrError) Error() string { return "fault elsewhere" }
func (e addrError) RuntimeError() {}
func (e addrError) Addr() uintptr { return e.addr }

func TestGuardFaultRestoresTheSetting(t *testing.T) {
	r := cutRegion(t)
	var sink byte
	read := func() error { sink = r.Bytes()[pageSize]; return nil }
	for _, before := range []bool{false, true} {
		old := debug.SetPanicOnFault(before)
		require.ErrorIs(t, GuardFault(read), ErrFault)
		require.ErrorIs(t, GuardFault(func() error { return GuardFault(read) }), ErrFault)
		require.NoError(t, GuardFault(func() error { return nil }))
		require.Panics(t, func() { _ = GuardFault(func() error { panic("other") }) })
		require.Equal(t, before, debug.SetPanicOnFault(old))
	}
	_ = sink
}
