package store

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// strayUnits are units that lead to no message of their queue though the log should have one there, as met by readers, who pass them: the log is damaged at that place, or has lost the message.
type strayUnits struct {
	count atomic.Int64
	told  atomic.Int64 // when the log last got a line about one, in ns since 1970; 0: never
}

// strayTold is how often the log gets a line about them at most.
const strayTold = 10 * time.Second

// stray counts the unit of a slot that is passed.
func (g *getter) stray(slot int64, u *cq.Unit) {
	s := g.s
	n := s.strays.count.Add(1)
	now, told := time.Now().UnixNano(), s.strays.told.Load()
	if told > 0 && now-told < int64(strayTold) || !s.strays.told.CompareAndSwap(told, now) {
		return
	}
	s.logger.Error("a reader passed a unit that leads to no message of its queue: the log is damaged there, or has lost the message (`tandemmq store check --deep` of the stopped store tells which)",
		slog.String("topic", g.req.Topic), slog.Int("queueId", int(g.req.QueueID)), slog.Int64("queueOffset", slot), slog.Int64("phyOffset", u.PhyOffset),
		slog.Int("size", int(u.Size)), slog.Int64("strayUnits", n))
}
