package broker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/broker/stats"
	"github.com/tandemq/tandemmq/store"
)

// Names of counters by topic, or topic@group, as tools ask for them.
//
// Source: Stats, 5.5.0.
const (
	statTopicPut  = "TOPIC_PUT_NUMS"
	statTopicSize = "TOPIC_PUT_SIZE"
	statSendBack  = "SNDBCK_PUT_NUMS"
	statGroupGet  = "GROUP_GET_NUMS"
	statGroupSize = "GROUP_GET_SIZE"
)

// counts is what the broker has done since it was started.
type counts struct {
	stored, storedBytes stats.Counter // messages
	got, gotBytes       stats.Counter
	found, missed       stats.Counter // pulls
	putFailed           stats.Counter
	table               stats.Table

	midnight atomic.Pointer[midnights]
}

// midnights are totals at the last two midnights; 0 before there was one.
type midnights struct{ storedYesterday, storedToday, gotYesterday, gotToday int64 }

// put counts a message that was stored, or those of a batch.
func (c *counts) put(topic string, r *store.PutResult) {
	n := int64(r.Append.Count)
	c.stored.Add(n)
	c.storedBytes.Add(int64(r.Append.Bytes))
	c.table.Add(statTopicPut, topic, n)
	c.table.Add(statTopicSize, topic, int64(r.Append.Bytes))
}

// run samples the counters once a second.
func (c *counts) run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	day := time.Now().YearDay()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, k := range []*stats.Counter{&c.stored, &c.storedBytes, &c.got, &c.gotBytes, &c.found, &c.missed, &c.putFailed} {
				k.Tick()
			}
			c.table.Tick()
			if d := now.YearDay(); d != day {
				day = d
				m := midnights{storedToday: c.stored.Total(), gotToday: c.got.Total()}
				if old := c.midnight.Load(); old != nil {
					m.storedYesterday, m.gotYesterday = old.storedToday, old.gotToday
				}
				c.midnight.Store(&m)
			}
		}
	}
}
