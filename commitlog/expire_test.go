package commitlog

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/message"
)

// W41: a file is as old as its last record, whatever the filesystem says of it.
func TestW41LastStoreTime(t *testing.T) {
	const body = 200
	last := func(b *builder) int64 { return 1_700_000_000_500 + b.records[len(b.records)-1] }
	for name, c := range map[string]struct {
		fileSize int64
		make     func(b *builder) (wantMs int64) // of the first file; 0: no record
	}{
		"filler behind it":    {16 << 10, func(b *builder) int64 { b.add(body, body, body); ms := last(b); b.roll().add(body); return ms }},
		"one record":          {16 << 10, func(b *builder) int64 { b.add(body); ms := last(b); b.roll().add(body); return ms }},
		"the log's last file": {16 << 10, func(b *builder) int64 { b.add(body, body); return last(b) }},
		"long last record":    {1 << 20, func(b *builder) int64 { b.add(body, 800_000); ms := last(b); b.roll().add(body); return ms }},
		"long filler":         {1 << 20, func(b *builder) int64 { b.add(body, body); ms := last(b); b.roll().add(body); return ms }},
		"many records": {1 << 20, func(b *builder) int64 {
			for range 2000 {
				b.add(body)
			}
			ms := last(b)
			b.roll().add(body)
			return ms
		}},
		"damage before it": {16 << 10, func(b *builder) int64 {
			b.add(body, body, body)
			clear(b.at(b.records[1])[:50])
			ms := last(b)
			b.roll().add(body)
			return ms
		}},
		"damage is the end": {16 << 10, func(b *builder) int64 {
			b.add(body, body)
			ms := last(b)
			b.add(body)
			clear(b.at(b.records[2])[:50])
			b.roll().add(body)
			return ms
		}},
		"nothing but damage": {16 << 10, func(b *builder) int64 {
			b.add(body)
			clear(b.at(b.records[0])[:50])
			b.roll().add(body)
			return 0
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder(t, c.fileSize, 0)
			want := c.make(b)
			dir := b.write()
			now := time.Now()
			require.NoError(t, os.Chtimes(b.path(dir, 0), now, now))
			l := openLog(t, dir)
			ms, err := l.LastStoreTime(0)
			if want == 0 {
				require.ErrorIs(t, err, ErrNoRecord)
				return
			}
			require.NoError(t, err)
			require.Equal(t, want, ms)
			_, err = l.LastStoreTime(1 << 40)
			require.ErrorIs(t, err, ErrOffsetOutOfRange)
			changed, err := l.ChangedMs(0)
			require.NoError(t, err)
			require.Equal(t, now.UnixMilli(), changed)
		})
	}
}

// The first files go one by one, as far as there is a durable record behind them; a reader keeps what it holds; the log that is left is scanned from
// its beginning, and goes on where it ended.
func TestRemoveFirst(t *testing.T) {
	forModes(t, func(t *testing.T, fsys *faultfs.FS, o WriterOptions) {
		w := openWriter(t, o)
		_, removed, err := w.RemoveFirst()
		var kept *KeptError
		require.ErrorAs(t, err, &kept)
		require.False(t, removed)
		var first Reservation
		for n := int64(0); w.Positions().Wrote < 3*o.FileSize; n++ {
			r, err := appendMessage(w, lossMessage(0, n))
			require.NoError(t, err)
			if n == 0 {
				first = r
			}
		}
		require.NoError(t, w.Flush())
		var held message.Record
		release, err := w.Log().Read(first.PhyOffset, 0, true, &held)
		require.NoError(t, err)
		for i := range int64(3) {
			require.Equal(t, i*o.FileSize, w.Log().MinOffset())
			f, removed, err := w.RemoveFirst()
			require.NoError(t, err)
			require.True(t, removed)
			require.Equal(t, i*o.FileSize, f.From)
		}
		_, removed, err = w.RemoveFirst()
		require.ErrorAs(t, err, &kept)
		require.ErrorContains(t, err, "holds the last durable record")
		require.False(t, removed)
		require.EqualValues(t, 0, held.QueueOffset, "a held record stays")
		release()
		var r message.Record
		_, err = w.Log().Read(first.PhyOffset, 0, true, &r)
		var gone *RangeError
		require.ErrorAs(t, err, &gone)
		require.Equal(t, 3*o.FileSize, gone.Min)
		end := w.Positions().Wrote
		require.NoError(t, w.Close())
		for _, left := range []*faultfs.FS{fsys, fsys.CrashSeed(1)} {
			o.FS = left
			w = openWriter(t, o)
			require.Equal(t, 3*o.FileSize, w.Log().MinOffset())
			require.Equal(t, end, w.Positions().Wrote)
			_, err = appendMessage(w, lossMessage(0, 1000))
			require.NoError(t, err)
			require.NoError(t, w.Close())
		}
	})
}

// W34: a file that cannot be unlinked stays the log's first, and goes when it can be.
func TestW34FailedUnlinkKeepsTheFile(t *testing.T) {
	forModes(t, func(t *testing.T, fsys *faultfs.FS, o WriterOptions) {
		w := openWriter(t, o)
		for n := int64(0); w.Positions().Wrote < 2*o.FileSize; n++ {
			_, err := appendMessage(w, lossMessage(0, n))
			require.NoError(t, err)
		}
		require.NoError(t, w.Flush())
		fsys.Inject(func(op faultfs.Op) error {
			if op.Kind == faultfs.Remove {
				return syscall.EPERM
			}
			return nil
		})
		for range 2 {
			_, removed, err := w.RemoveFirst()
			require.ErrorIs(t, err, syscall.EPERM)
			require.False(t, removed)
			require.Zero(t, w.Log().MinOffset(), "the log begins where it can be read (FR-J03)")
		}
		fsys.Inject(nil)
		_, removed, err := w.RemoveFirst()
		require.NoError(t, err)
		require.True(t, removed)
		require.NoError(t, w.Close())
	})
}
