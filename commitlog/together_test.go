package commitlog

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// outcome is what a scan came to.
type outcome struct {
	records, bytes int64
	lastMs         int64 // of the last record
	end            ScanEnd
	err            string
}

// scanAll scans a log alone, or over pieces of so many bytes.
func scanAll(ctx context.Context, t *testing.T, l *Log, size int64) (r outcome, skipped int64) {
	s := l.Scanner(-1, ScanOptions{CheckCRC: true})
	defer s.Close()
	if size > 0 {
		told := int64(-1)
		p := s.skipWhole(ctx, size, func(phy int64) {
			require.Greater(t, phy, told)
			told = phy
		})
		r.records, r.bytes, skipped = p.records, p.bytes, p.records
	}
	for s.Next() {
		r.records++
		r.bytes += int64(s.Record().TotalSize)
		r.lastMs = s.Record().StoreTimestampMs
	}
	if r.end = s.End(); s.Err() != nil {
		r.err, r.end.Reason = s.Err().Error(), nil
	}
	return r, skipped
}

// requirePieces holds what several find out against what one does, for sizes of pieces that cut records anywhere, and returns how many records were skipped in all.
func requirePieces(t *testing.T, l *Log) (skipped int64) {
	want, _ := scanAll(t.Context(), t, l, 0)
	for _, size := range []int64{64, 256, 1000, 4096, 1 << 20} {
		got, n := scanAll(t.Context(), t, l, size)
		require.Equal(t, want, got, "pieces of %d bytes", size)
		skipped += n
	}
	return skipped
}

func TestPiecesEndAsOneScanDoes(t *testing.T) {
	for _, c := range endCases {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(t, 4096, 4096)
			c.build(b)
			requirePieces(t, b.open())
		})
	}
}

// TestPiecesOfDamagedLogs: bodies hold logs of the same place, so that pieces begin where no record of the log does; bytes are changed, zeroed and lost.
func TestPiecesOfDamagedLogs(t *testing.T) {
	var skipped int64
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 0))
		b := newBuilder(t, 16<<10, int64(r.IntN(3))*16<<10)
		for range 10 + r.IntN(150) {
			size := r.IntN(1500)
			if b.used+size+overhead(t)+8 > int(b.fileSize) {
				b.blank()
			}
			if r.IntN(4) > 0 {
				b.add(size)
				continue
			}
			inner := testMessage(0, r.IntN(size+1))
			outer := testMessage(b.end(), 0)
			p, err := inner.AppendTo(nil)
			require.NoError(t, err)
			outer.Body = p
			whole, err := outer.EncodedSize()
			require.NoError(t, err)
			if b.used+whole+8 > int(b.fileSize) {
				continue
			}
			// A body begins 88 bytes behind its record (IPv4).
			inner.PhyOffset = b.end() + 88
			outer.Body, err = inner.AppendTo(nil)
			require.NoError(t, err)
			p, err = outer.AppendTo(nil)
			require.NoError(t, err)
			b.raw(p)
		}
		for range r.IntN(3) {
			f := b.files[r.IntN(len(b.files))]
			at := r.IntN(len(f))
			if r.IntN(2) == 0 {
				f[at] ^= 1 << r.IntN(8)
			} else {
				clear(f[at:min(at+r.IntN(5000), len(f))])
			}
		}
		skipped += requirePieces(t, b.open())
	}
	if runtime.GOMAXPROCS(0) > 1 {
		require.Greater(t, skipped, int64(1000))
	}
}

func TestPiecesEndWithTheContext(t *testing.T) {
	b := newBuilder(t, 4096, 0)
	for range 100 {
		b.add(100)
	}
	l := b.open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want, _ := scanAll(ctx, t, l, 0)
	got, skipped := scanAll(ctx, t, l, 256)
	require.Zero(t, skipped)
	require.Equal(t, want, got)
}
