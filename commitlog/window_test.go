package commitlog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
)

// The undurable window is what a loss of power would take: bytes that are published and not durable, how long the oldest of them has waited, and the
// longest that was. While all is durable there is none, however long nothing was put.
func TestUndurableWindowIsMeasured(t *testing.T) {
	for _, m := range testModes {
		t.Run(m.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				fsys := faultfs.New(faultfs.Options{})
				o := lossOptions(fsys, m.sync, m.mode)
				o.FlushInterval = 500 * time.Millisecond
				o.FlushThoroughInterval, o.FlushLeastPages = 3*time.Second, 1000
				w := openWriter(t, o)
				time.Sleep(10 * time.Second)
				window := func() (int64, time.Duration) { s := w.Stats(); return s.UndurableBytes, s.UndurableFor }
				n, age := window()
				require.Zero(t, n)
				require.Zero(t, age)

				g := gate{kind: faultfs.Datasync}
				fsys.Inject(g.pass)
				g.close()
				msg := queueMessage(0, 0)
				r := reserve(t, w, msg)
				require.NoError(t, w.Publish(r, filling(r, msg)))
				time.Sleep(2 * time.Second)
				n, age = window()
				require.Equal(t, r.End(), n)
				require.GreaterOrEqual(t, age, 2*time.Second)
				// No more than a flush that found nothing to do was before the put.
				require.LessOrEqual(t, age, 2*time.Second+o.FlushInterval)

				time.Sleep(10 * time.Second) // the flush was due, and stands
				_, age = window()
				require.GreaterOrEqual(t, age, 12*time.Second)
				require.LessOrEqual(t, age, 12*time.Second+o.FlushInterval)
				g.open()
				synctest.Wait()
				n, age = window()
				require.Zero(t, n)
				require.Zero(t, age)
				most := w.Stats().MaxUndurableFor
				require.GreaterOrEqual(t, most, 12*time.Second)
				require.LessOrEqual(t, most, 12*time.Second+o.FlushInterval)
				require.NoError(t, w.Close())
				requireNothingOpen(t, fsys)
			})
		})
	}
}
