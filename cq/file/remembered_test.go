package file

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// A store that is only read remembers no more queues than it may, whoever has them, and answers all the same.
func TestReadOnlyStoreForgetsQueues(t *testing.T) {
	const queues, units = 100, 7
	s := open(t, t.TempDir(), Options{FileSizeBytes: 10 * unitBytes})
	want := map[cq.Key][]cq.Unit{}
	phy := int64(0)
	for slot := range int64(units) {
		for i := range queues {
			e := cq.Entry{Key: cq.Key{Topic: fmt.Sprintf("T%d", i%10), QueueID: int32(i)}, QueueOffset: slot}
			e.Unit = cq.Unit{PhyOffset: phy, Size: 100, TagsCode: int64(i), StoreTimestampMs: cq.NoTimestamp}
			phy += 100
			require.NoError(t, s.Append(t.Context(), []cq.Entry{e}))
			want[e.Key] = append(want[e.Key], e.Unit)
		}
	}
	require.NoError(t, s.Close())

	r, err := Open(s.dir, Options{ReadOnly: true})
	require.NoError(t, err)
	r.remember, r.opened.limit = 16, 5
	held := map[cq.Key]cq.Queue{}
	for k, err := range r.Queues() {
		require.NoError(t, err)
		require.LessOrEqual(t, len(r.queues.m), r.remember)
		q, ok := r.Queue(k)
		require.True(t, ok)
		held[k] = q
	}
	require.Len(t, held, queues)
	var looking sync.WaitGroup
	for range 4 {
		looking.Go(func() {
			buf := make([]cq.Unit, units)
			for k := range want { // each in an order of its own
				q, ok := r.Queue(k)
				for _, q := range []cq.Queue{q, held[k]} { // remembered or not
					b, err := q.Bounds()
					if !ok || err != nil || b.Max != units {
						t.Errorf("%s: %v %v %v", k, ok, err, b)
					}
					if n, err := q.Read(0, buf); err != nil || n != units || buf[3] != want[k][3] {
						t.Errorf("%s: %d %v %v", k, n, err, buf)
					}
				}
			}
		})
	}
	looking.Wait()
	require.LessOrEqual(t, len(r.queues.m), r.remember)
	require.LessOrEqual(t, len(r.opened.ring), r.remember+r.opened.limit)
	require.NoError(t, r.Close())
	for k := range maps.Keys(held) {
		_, err := held[k].Read(0, make([]cq.Unit, 1))
		require.ErrorIs(t, err, cq.ErrClosed)
		require.Nil(t, held[k].(*queue).files, "forgotten, and closed all the same")
	}
}

// ReadSparse answers as Read does, whatever is in the files.
func TestReadSparse(t *testing.T) {
	k := cq.Key{Topic: "T", QueueID: 3}
	s := open(t, t.TempDir(), Options{FileSizeBytes: 10 * unitBytes})
	for slot := int64(23); slot < 58; slot++ { // the first file begins with filler
		if slot == 41 {
			require.NoError(t, s.Skip(t.Context(), k, 44)) // lost records in between
			slot = 44
		}
		require.NoError(t, s.Append(t.Context(), []cq.Entry{{Key: k, QueueOffset: slot, Unit: cq.Unit{PhyOffset: slot * 100, Size: 100, TagsCode: slot}}}))
	}
	require.NoError(t, s.Close())
	r, err := Open(s.dir, Options{ReadOnly: true})
	require.NoError(t, err)
	defer r.Close()
	q, ok := r.Queue(k)
	require.True(t, ok)
	b, err := q.Bounds()
	require.NoError(t, err)
	for from := int64(18); from < b.Max; from++ {
		for n := range b.Max - from {
			got, want := make([]cq.Unit, n), make([]cq.Unit, n)
			w, wantErr := q.Read(from, want)
			g, err := r.ReadSparse(k, from, got)
			require.Equal(t, w, g, "%d units from %d", n, from)
			require.Equal(t, wantErr, err)
			require.Equal(t, want[:w], got[:g])
		}
	}
	_, err = r.ReadSparse(cq.Key{Topic: "none"}, 0, make([]cq.Unit, 1))
	require.ErrorIs(t, err, cq.ErrOffsetOutOfRange)
}
