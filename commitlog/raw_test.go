package commitlog

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/message"
)

// rawRecord is a record that says it stands at phy and was stored at that time.
func rawRecord(t *testing.T, phy, storeMs int64) []byte {
	t.Helper()
	m := queueMessage(0, phy)
	m.PhyOffset, m.StoreTimestampMs = phy, storeMs
	b, err := m.AppendTo(nil)
	require.NoError(t, err)
	return b
}

// Bytes of another log are taken at the very end of this one, when they are whole records and fillers that stand where they say, and as they are.
func TestW26RawBytesGoWhereTheySayTheyAre(t *testing.T) {
	const fileSize = 4 * faultfs.PageBytes
	flip := func(b []byte, at int) []byte {
		b = slices.Clone(b)
		b[at] ^= 1
		return b
	}
	for _, m := range testModes {
		t.Run(m.name, func(t *testing.T) {
			fsys := faultfs.New(faultfs.Options{})
			o := lossOptions(fsys, m.sync, m.mode)
			o.NowMs = func() int64 { return 1000 }
			w, err := OpenWriter(o)
			require.NoError(t, err)
			var want []byte
			put := func(b []byte) {
				t.Helper()
				err := w.AppendRaw(int64(len(want)), b)
				var busy *BusyError
				for errors.As(err, &busy) && w.AwaitSpace(busy, 10*time.Second) {
					err = w.AppendRaw(int64(len(want)), b)
				}
				require.NoError(t, err)
				want = append(want, b...)
				require.EqualValues(t, len(want), w.Positions().Wrote)
			}
			put(append(rawRecord(t, 0, 5000), rawRecord(t, int64(len(rawRecord(t, 0, 0))), 6000)...))
			end := int64(len(want))
			good := rawRecord(t, end, 7000)
			var pe *PositionError
			for _, phy := range []int64{-1, 0, end - 1, end + 1, end + fileSize} {
				require.ErrorAs(t, w.AppendRaw(phy, rawRecord(t, phy, 1)), &pe, "at %d", phy)
				require.Equal(t, &PositionError{PhyOffset: phy, End: end}, pe)
			}
			filler := message.AppendBlank(nil, int32(fileSize-end))
			for name, b := range map[string][]byte{
				"of another place":              rawRecord(t, end+1, 1),
				"cut":                           good[:len(good)-1],
				"too long":                      append(slices.Clone(good), 0),
				"another body":                  flip(good, 84),
				"magic":                         flip(good, 4),
				"zeros":                         make([]byte, 100),
				"second of another place":       append(slices.Clone(good), good...),
				"filler without what follows":   filler,
				"filler of another size":        append(message.AppendBlank(nil, int32(fileSize-end-1)), make([]byte, fileSize-end-8)...),
				"filler, then more":             append(append(slices.Clone(filler), make([]byte, fileSize-end-8)...), 1),
				"too little room for a filler":  spacedRecord(t, end, fileSize-end-4),
				"more than the rest of a file":  slices.Concat(filler, make([]byte, fileSize-end-8), rawRecord(t, fileSize, 1)),
				"no room for a filler":          spacedRecord(t, end, fileSize-end),
				"nothing":                       nil,
				"more than a file":              make([]byte, fileSize+1),
				"a record beyond the file size": spacedRecord(t, end, fileSize),
			} {
				err := w.AppendRaw(end, b)
				require.Error(t, err, name)
				require.Equal(t, end, w.Positions().Wrote, name)
				require.NoError(t, w.Failure(), name)
			}
			put(good)
			// The other log's filler, whatever stands in it, and a file that a record and a bare filler fill.
			left := fileSize - int64(len(want))
			put(append(message.AppendBlank(nil, int32(left)), bytes.Repeat([]byte{7}, int(left-8))...))
			put(spacedRecord(t, fileSize, fileSize-8))
			put(message.AppendBlank(nil, 8))
			put(rawRecord(t, 2*fileSize, 8000))

			// Store times go on from those of the other log.
			r := reserve(t, w, queueMessage(0, 0))
			require.EqualValues(t, 8000, r.StoreTimestampMs)
			msg := queueMessage(0, 0)
			require.NoError(t, w.Publish(r, filling(r, msg)))
			require.NoError(t, w.Flush())
			log, err := Open(lossDir, Options{FS: fsys.CrashSeed(0)})
			require.NoError(t, err)
			got := scan(t, log, -1, ScanOptions{CheckCRC: true})
			require.NoError(t, got.err)
			require.Len(t, got.records, 6)
			for _, f := range log.queue.Files() {
				data, err := f.Hold()
				require.NoError(t, err)
				n := min(int64(len(want))-f.From(), f.Size())
				require.True(t, n <= 0 || bytes.Equal(data[:n], want[f.From():f.From()+n]), "%s is not as the other log has it", f.Path())
				f.Release()
			}
			require.NoError(t, log.Close())
			require.NoError(t, w.Close())
			require.ErrorIs(t, w.AppendRaw(w.Positions().Wrote, rawRecord(t, w.Positions().Wrote, 1)), ErrClosed)
		})
	}
}

// spacedRecord is a record of exactly that size.
func spacedRecord(t *testing.T, phy, size int64) []byte {
	t.Helper()
	m := queueMessage(0, phy)
	m.PhyOffset = phy
	m.Body = nil
	n, err := m.EncodedSize()
	require.NoError(t, err)
	m.Body = bytes.Repeat([]byte{'b'}, int(size)-n)
	b, err := m.AppendTo(nil)
	require.NoError(t, err)
	require.Len(t, b, int(size))
	return b
}
