package commitlog

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

func TestRead(t *testing.T) {
	b := newBuilder(t, 2048, 4096)
	for i := range 40 {
		b.add(i * 11)
	}
	l := b.open()
	for i, phy := range b.records {
		want := testMessage(phy, i*11)
		for _, size := range []int32{b.sizes[i], 0, -1} {
			var r message.Record
			release, err := l.Read(phy, size, true, &r)
			require.NoError(t, err)
			require.Equal(t, phy, r.PhyOffset)
			require.True(t, bytes.Equal(want.Body, r.Body))
			release()
		}
		ts, err := l.StoreTimestamp(phy, b.sizes[i])
		require.NoError(t, err)
		require.Equal(t, want.StoreTimestampMs, ts)
	}

	var r message.Record
	release, err := l.Read(b.records[5], 0, true, &r)
	require.NoError(t, err)
	body := bytes.Clone(r.Body)
	require.NoError(t, l.Close())
	require.Equal(t, body, r.Body, "valid until released, even if the log is closed")
	release()
}

func TestReadRefuses(t *testing.T) {
	b := newBuilder(t, 2048, 4096)
	for range 20 {
		b.add(100)
	}
	size := b.sizes[0]
	filler := b.records[indexOfFile(b, 1)-1] + int64(size)
	moved, flipped := b.records[2], b.records[3]
	b.at(moved)[phyOffsetAt+7]++
	b.at(flipped)[100]++ // in the body
	dir := b.write()
	regions := mmap.Mapped()
	l := openLog(t, dir)
	for _, c := range []struct {
		name  string
		phy   int64
		size  int32
		crc   bool
		class error  // ErrOffsetOutOfRange, or ErrCorrupt
		cause error  // of the message package; nil for none
		text  string // part of the message
	}{
		{"expired", 4095, size, false, ErrOffsetOutOfRange, nil, "outside of the files, [4096, "},
		{"negative", -1, size, false, ErrOffsetOutOfRange, nil, "physical offset -1"},
		{"smallest", math.MinInt64, size, false, ErrOffsetOutOfRange, nil, ""},
		{"beyond the files", b.first + int64(len(b.files))*2048, size, false, ErrOffsetOutOfRange, nil, ""},
		{"largest", math.MaxInt64, math.MaxInt32, false, ErrOffsetOutOfRange, nil, ""},
		{"size too small", b.records[1], size - 1, false, ErrCorrupt, nil, "got a record of"},
		{"size too large", b.records[1], size + 1, false, ErrCorrupt, nil, "got a record of"},
		{"size past the file", b.records[1], 2048, false, ErrCorrupt, nil, "bytes to the end of the file, want a record of 2048 bytes"},
		{"largest size", b.records[1], math.MaxInt32, false, ErrCorrupt, nil, "bytes to the end of the file"},
		{"inside a record", b.records[1] + 4, 0, false, ErrCorrupt, message.ErrCorrupt, ""},
		{"filler", filler, 0, false, ErrCorrupt, message.ErrBlank, "filler"},
		{"last bytes of a file", 4096 + 2048 - 1, 0, false, ErrCorrupt, message.ErrEnd, ""},
		{"never written", b.end(), 0, false, ErrCorrupt, message.ErrEnd, "end of records"},
		{"another record's offset", moved, size, false, ErrCorrupt, nil, "want " + "4"},
		{"body damaged", flipped, size, true, ErrCorrupt, message.ErrCorrupt, "bodyCRC"},
		{"body damaged, unchecked", flipped, size, false, nil, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r message.Record
			release, err := l.Read(c.phy, c.size, c.crc, &r)
			if c.class == nil {
				require.NoError(t, err)
				release()
				return
			}
			require.Nil(t, release)
			require.ErrorIs(t, err, c.class)
			require.ErrorContains(t, err, c.text)
			if c.cause != nil {
				require.ErrorIs(t, err, c.cause)
			}
			if errors.Is(c.class, ErrCorrupt) {
				var ce *CorruptError
				require.ErrorAs(t, err, &ce)
				i := int((c.phy - b.first) / 2048)
				require.Equal(t, b.path(dir, i), ce.File)
				require.Equal(t, c.phy-b.first-int64(i)*2048, ce.Offset)
				require.Equal(t, c.phy, ce.PhyOffset)
			}
			if !c.crc { // StoreTimestamp checks no body
				_, err = l.StoreTimestamp(c.phy, c.size)
				require.ErrorIs(t, err, c.class)
			}
		})
	}
	require.NoError(t, l.Close())
	require.Equal(t, regions, mmap.Mapped(), "a failed Read must not keep its hold")
}
