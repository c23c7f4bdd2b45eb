package mappedfile

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
)

// TestHoldersBesideAll has readers hold and read below the published position while files are made ahead, adopted, written to,
// synced, pushed out and removed. The mappings are Go slices, so the race detector sees what readers and the writer do to them;
// a reader of an unmapped file would find faultfs.PoisonByte.
func TestHoldersBesideAll(t *testing.T) {
	const (
		size  = 256
		files = 60
	)
	limit(t, 6) // 4 readers and the writer hold one each
	fsys := faultfs.New(faultfs.Options{})
	q, err := Open("/log", Options{FS: fsys, Writable: true, FileSize: size, Allocate: true})
	require.NoError(t, err)
	at := func(off int64) byte { return byte(off % 199) } // never faultfs.PoisonByte
	require.Less(t, byte(198), byte(faultfs.PoisonByte))

	var pos Positions
	made := make(chan *File, 2)
	var wg sync.WaitGroup
	wg.Go(func() { // makes files ahead
		defer close(made)
		for i := range int64(files) {
			f, err := q.Create(i * size)
			if !assert.NoError(t, err) {
				return
			}
			made <- f
		}
	})
	wg.Go(func() { // writes
		for f := range made {
			assert.NoError(t, q.Adopt(f))
			for part := int64(0); part < size; part += size / 4 {
				b, err := f.Hold()
				if !assert.NoError(t, err) {
					return
				}
				for i := part; i < part+size/4; i++ {
					b[i] = at(f.From() + i)
				}
				f.Release()
				pos.AdvanceWrote(f.From() + part + size/4)
			}
		}
	})
	wg.Go(func() { // syncs and removes
		for end := int64(0); end < files*size; {
			end = pos.Wrote()
			if f, ok := q.Find(end - 1); ok {
				h, err := f.OpenFile()
				if assert.NoError(t, err) {
					assert.NoError(t, h.Datasync())
					assert.NoError(t, h.Close())
				}
			}
			pos.AdvanceCommitted(end)
			pos.AdvanceFlushed(end)
			for len(q.Files()) > 8 {
				assert.NoError(t, q.RemoveFirst())
			}
		}
	})
	for r := range int64(4) {
		wg.Go(func() {
			for off := int64(0); off < files*size-1; {
				end := pos.Wrote()
				first := q.MinOffset()
				if end == 0 || first < 0 || first >= end {
					continue
				}
				off = end - 1 - (end-1-first)*r/4
				f, ok := q.Find(off)
				if !ok {
					continue
				}
				b, err := f.Hold()
				if err != nil {
					assert.ErrorIs(t, err, ErrRemoved)
					continue
				}
				from, to := f.From(), min(f.End(), end)
				for i := from; i < to; i++ {
					if b[i-from] != at(i) {
						assert.Equal(t, at(i), b[i-from], "byte %d", i)
						break
					}
				}
				f.Release()
				off = end - 1
			}
		})
	}
	wg.Wait()
	require.NoError(t, q.Close())
	require.Zero(t, fsys.Mappings())
	require.Zero(t, fsys.OpenFiles())
}
