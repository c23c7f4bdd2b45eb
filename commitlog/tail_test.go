package commitlog

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

// TestTailFollowsWhatIsConfirmed reads a log while it is written to: nothing is missed, nothing is seen twice, and nothing before it may be.
func TestTailFollowsWhatIsConfirmed(t *testing.T) {
	for _, m := range testModes {
		t.Run(m.name, func(t *testing.T) {
			w, err := OpenWriter(testOptions(t.TempDir(), m.sync, m.mode))
			require.NoError(t, err)
			const n = 300
			got := make(chan []int64, 1)
			var seen atomic.Int64
			go func() {
				var offsets []int64
				var from int64
				for w.AwaitConfirm(context.Background(), from, false) {
					confirm := w.Positions().Confirm
					b, release, err := w.Log().Chunk(from)
					if err != nil {
						panic(err)
					}
					for b = b[:min(int64(len(b)), confirm-from)]; len(b) > 0; {
						var r message.Record
						if _, blank := message.BlankSize(b); blank {
							from += int64(len(b))
							break
						}
						if err := r.Decode(b, true); err != nil {
							panic(err)
						}
						offsets = append(offsets, r.QueueOffset)
						seen.Add(1)
						from += int64(r.TotalSize)
						b = b[r.TotalSize:]
					}
					release()
				}
				got <- offsets
			}()
			for i := range n {
				_, err := appendMessage(w, queueMessage(1, int64(i)))
				require.NoError(t, err)
			}
			require.Eventually(t, func() bool { return seen.Load() == n }, 10*time.Second, time.Millisecond) // Close takes the files away
			require.NoError(t, w.Close())
			offsets := <-got
			require.Len(t, offsets, n)
			for i, o := range offsets {
				require.Equal(t, int64(i), o)
			}
		})
	}
}

func TestTailGivesUp(t *testing.T) {
	w, err := OpenWriter(testOptions(t.TempDir(), false, WriteMapped))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan bool)
	go func() { answered <- w.AwaitConfirm(ctx, 0, false) }()
	cancel()
	require.False(t, <-answered)
	go func() { answered <- w.AwaitConfirm(context.Background(), 0, false) }()
	require.NoError(t, w.Close())
	require.False(t, <-answered)
}
