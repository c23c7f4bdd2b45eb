package store

import "time"

// gatherWait is for how long a follower lets messages gather when they come thick: one at a time, they cost it, and the puts that wake it, several times as much. Messages that
// come now and then are delivered at once: somebody may wait for them.
const (
	gatherWait        = 500 * time.Microsecond
	gatherBytesPerSec = 16 << 20
)

// gathering finds out whether messages come thick.
type gathering struct {
	since time.Time // when counting began
	bytes int64
	thick bool
}

// delivered counts what was delivered.
func (g *gathering) delivered(n int64, now time.Time) {
	g.bytes += n
	passed := now.Sub(g.since)
	if passed < 2*gatherWait {
		return
	}
	g.thick = float64(g.bytes) >= gatherBytesPerSec*passed.Seconds()
	g.since, g.bytes = now, 0
}
