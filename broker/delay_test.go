package broker

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// testClock is a clock that runs ahead of the real one.
type testClock struct{ ahead atomic.Int64 }

func (c *testClock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// advance sets the clock, and has the levels of a broker look at it.
func (c *testClock) advance(b *Broker, d time.Duration) {
	c.ahead.Add(int64(d))
	for _, l := range b.delayer.levels {
		l.kick()
	}
}

// openClocked is openTest with such a clock.
func openClocked(t *testing.T, change func(o *Options)) (*Broker, *remoting.Client, *testClock) {
	t.Helper()
	clock := &testClock{}
	b, client := openTest(t, func(o *Options) {
		o.now = clock.now
		if change != nil {
			change(o)
		}
	})
	return b, client, clock
}

// again opens the store of a broker that was closed.
func again(t *testing.T, b *Broker) (*Broker, *remoting.Client) {
	t.Helper()
	require.NoError(t, b.Close())
	o := b.o
	return openTest(t, func(to *Options) { *to = o })
}

func sendDelayed(t *testing.T, b *Broker, client *remoting.Client, body string, level int) {
	t.Helper()
	resp := sendV2(t, b, client, "T", []byte(body), "DELAY\x01"+strconv.Itoa(level)+"\x02TAGS\x01A\x02")
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
}

func maxOffset(t *testing.T, b *Broker, topic string, queueID int32) int64 {
	t.Helper()
	n, err := b.store.MaxOffset(topic, queueID)
	require.NoError(t, err)
	return n
}

func TestT15DelayedMessagesAreDelivered(t *testing.T) {
	b, client, clock := openClocked(t, nil)
	sendDelayed(t, b, client, "two hours", 19)
	sendDelayed(t, b, client, "ten seconds", 3)
	sendDelayed(t, b, client, "ten seconds more", 3)
	sendDelayed(t, b, client, "a second", 1)

	first := stored(t, b, "T", 1, 0)
	require.Equal(t, "a second", string(first.Body))
	was := stored(t, b, meta.ScheduleTopic, 0, 0)
	require.GreaterOrEqual(t, first.StoreTimestampMs-was.StoreTimestampMs, int64(1000), "by the real clock")
	require.Equal(t, propsOf(&was), propsOf(&first))
	require.Equal(t, "1", prop(&first, "DELAY"), "and it is not delayed once more")
	require.Equal(t, was.BornTimestampMs, first.BornTimestampMs)
	require.Equal(t, was.Flag, first.Flag)

	clock.advance(b, 10*time.Second)
	one, two := stored(t, b, "T", 1, 1), stored(t, b, "T", 1, 2)
	require.Equal(t, "ten seconds", string(one.Body))
	require.Equal(t, "ten seconds more", string(two.Body))
	require.EqualValues(t, 3, maxOffset(t, b, "T", 1), "two hours are not over")
	clock.advance(b, 2*time.Hour)
	last := stored(t, b, "T", 1, 3)
	require.Equal(t, "two hours", string(last.Body))

	// One that arrives at an idle level, and whose time by the clock is over already.
	sendDelayed(t, b, client, "late", 5)
	late := stored(t, b, "T", 1, 4)
	require.Equal(t, "late", string(late.Body))
}

func TestT15AClockThatIsSetBackHoldsNothingUp(t *testing.T) {
	b, client, clock := openClocked(t, nil)
	clock.ahead.Store(-int64(time.Hour))
	sendDelayed(t, b, client, "x", 4)
	require.Equal(t, "x", string(func() []byte { r := stored(t, b, "T", 1, 0); return r.Body }()))
}

func TestT15DeliveryGoesOnAfterARestart(t *testing.T) {
	for _, kind := range storeTypes {
		t.Run(string(kind), func(t *testing.T) {
			b, client, clock := openClocked(t, func(o *Options) { o.Store.StoreType = kind })
			sendDelayed(t, b, client, "before", 3)
			clock.advance(b, 11*time.Second)
			stored(t, b, "T", 1, 0)
			sendDelayed(t, b, client, "between", 6)
			stored(t, b, meta.ScheduleTopic, 5, 0)

			b, client = again(t, b)
			require.EqualValues(t, 1, b.delays.Next(3), "durable")
			require.EqualValues(t, 0, b.delays.Next(6))
			clock.advance(b, 2*time.Minute)
			r := stored(t, b, "T", 1, 1)
			require.Equal(t, "between", string(r.Body))
			sendDelayed(t, b, client, "after", 3)
			r = stored(t, b, "T", 1, 2)
			require.Equal(t, "after", string(r.Body))
			b, _ = again(t, b)
			for _, l := range b.delayer.levels {
				require.Eventually(t, l.idle.Load, 30*time.Second, time.Millisecond)
			}
			require.EqualValues(t, 3, maxOffset(t, b, "T", 1), "nothing twice")

			// An offset behind the end of the queue would pass over what comes.
			b.delayer.levels[2].next.Store(100)
			require.NoError(t, b.delayer.save())
			b, client = again(t, b)
			sendDelayed(t, b, client, "corrected", 3)
			r = stored(t, b, "T", 1, 3)
			require.Equal(t, "corrected", string(r.Body))
		})
	}
}

func TestT15DeliveryIsTriedAgain(t *testing.T) {
	b, client, clock := openClocked(t, nil)
	sendDelayed(t, b, client, "x", 3)
	stored(t, b, meta.ScheduleTopic, 2, 0)
	require.NoError(t, b.store.Flags().Set(store.FlagFenced, "test"))
	clock.advance(b, 10*time.Second)
	require.Eventually(t, func() bool { return b.counts.putFailed.Total() > 1 }, 30*time.Second, time.Millisecond)
	require.Zero(t, b.delayer.levels[2].next.Load())
	require.NoError(t, b.store.Flags().Clear(store.FlagFenced))
	r := stored(t, b, "T", 1, 0)
	require.Equal(t, "x", string(r.Body))
}

func TestT15WhatCannotBeDeliveredHoldsNothingUp(t *testing.T) {
	b, client, clock := openClocked(t, nil)
	for _, properties := range []string{
		"DELAY\x013\x02REAL_TOPIC\x01" + meta.HalfTopic + "\x02REAL_QID\x010\x02", "DELAY\x013\x02", "DELAY\x013\x02REAL_TOPIC\x01T\x02REAL_QID\x01x\x02",
		"DELAY\x013\x02REAL_TOPIC\x01a/b\x02REAL_QID\x010\x02",
	} {
		_, err := b.store.Put(t.Context(), &message.Message{Topic: meta.ScheduleTopic, QueueID: 2, BornHost: b.storeHost, StoreHost: b.storeHost, Body: []byte("x"), Properties: []byte(properties)})
		require.NoError(t, err)
	}
	sendDelayed(t, b, client, "good", 3)
	clock.advance(b, 11*time.Second)
	r := stored(t, b, "T", 1, 0)
	require.Equal(t, "good", string(r.Body))
	require.Zero(t, maxOffset(t, b, meta.HalfTopic, 0))
}

// What was delivered, and not waited for, is durable before the offset behind it is.
func TestT15OffsetsAreSavedAfterWhatWasDelivered(t *testing.T) {
	b, client, clock := openClocked(t, func(o *Options) {
		o.Store.FlushIntervalCommitLog, o.Store.FlushCommitLogThoroughInterval, o.Store.WakeFlushWhenPutMessage = time.Hour, time.Hour, false
	})
	sendDelayed(t, b, client, "x", 3)
	clock.advance(b, 11*time.Second)
	stored(t, b, "T", 1, 0)
	p := b.store.Positions()
	require.Less(t, p.Flushed, p.Wrote)
	require.NoError(t, b.delayer.save())
	p = b.store.Positions()
	require.Equal(t, p.Wrote, p.Flushed)
	require.EqualValues(t, 1, b.delays.Next(3))
}
