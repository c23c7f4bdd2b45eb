package commitlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
)

// Issue 8: a writer takes over when it flushes and commits while it is open, also out of an interval that is running.
func TestSetPace(t *testing.T) {
	for _, m := range testModes {
		t.Run(m.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				o := lossOptions(faultfs.New(faultfs.Options{}), m.sync, m.mode)
				o.FlushInterval, o.FlushThoroughInterval = time.Hour, time.Hour
				o.CommitInterval, o.CommitThoroughInterval, o.CommitOnPut = time.Hour, time.Hour, false
				w := openWriter(t, o)
				put := func() int64 {
					msg := queueMessage(0, 0)
					r := reserve(t, w, msg)
					require.NoError(t, w.Publish(r, filling(r, msg)))
					return r.End()
				}
				end := put()
				time.Sleep(time.Minute)
				require.Less(t, w.Positions().Flushed, end)
				bad := w.o.Pace
				bad.FlushInterval = 0
				require.Error(t, w.SetPace(bad))
				p := w.o.Pace
				p.FlushInterval, p.FlushThoroughInterval, p.FlushLeastPages = time.Second, time.Second, 0
				p.CommitInterval, p.CommitThoroughInterval, p.CommitLeastPages = time.Second, time.Second, 0
				require.NoError(t, w.SetPace(p))
				time.Sleep(3 * time.Second)
				require.Equal(t, end, w.Positions().Flushed)
				if !m.sync {
					p.FlushInterval, p.FlushOnPut, p.CommitOnPut = time.Hour, true, true
					require.NoError(t, w.SetPace(p))
					end = put()
					time.Sleep(2 * time.Second) // of the pool the commit may come after the flush that the put woke; a put with a system call wakes none
					if m.mode == WriteMapped {
						require.Equal(t, end, w.Positions().Flushed)
					}
					require.Equal(t, end, w.Positions().Committed)
				}
				require.NoError(t, w.Close())
			})
		})
	}
}
