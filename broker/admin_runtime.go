package broker

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/broker/stats"
	"github.com/tandemq/tandemmq/remoting"
)

// rates are what was counted a second, on average over the last 10 seconds, minute and 10 minutes, as tools take them apart.
func rates(counters ...*stats.Counter) string {
	var r [3]float64
	for i, seconds := range []int64{10, 60, 600} {
		for _, c := range counters {
			r[i] += c.Rate(seconds)
		}
	}
	return fmt.Sprintf("%.3f %.3f %.3f", r[0], r[1], r[2])
}

// ratio is a percentage as a part of 1; -1 where it is not known.
func ratio(percent int) string {
	if percent < 0 {
		return "-1.0"
	}
	return strconv.FormatFloat(float64(percent)/100, 'f', 2, 64)
}

// runtimeText is for how long the broker has run, in words.
func runtimeText(d time.Duration) string {
	s := int64(d.Seconds())
	return fmt.Sprintf("[ %d days, %d hours, %d minutes, %d seconds ]", s/86400, s/3600%24, s/60%60, s%60)
}

// runtimeInfo serves GET_BROKER_RUNTIME_INFO. What tools read is there, with 0 for what the broker has not got (the timer wheel); what it does not measure is left out.
//
// Source: AdminBrokerProcessor.prepareRuntimeInfo, 5.5.0.
func (b *Broker) runtimeInfo(*remoting.Command, *remoting.Fields) (remoting.Command, error) {
	k, now := &b.counts, time.Now()
	marks, disk, flush := b.store.Watermarks(), b.store.Retention(), b.store.Stats()
	earliest, err := b.store.EarliestStoreTime()
	if err != nil {
		earliest = -1 // nothing was stored
	}
	var night midnights
	if m := k.midnight.Load(); m != nil {
		night = *m
	}
	behind, broken, failed := int64(0), 0, 0
	for _, v := range marks.Views {
		behind, broken = max(behind, v.BehindBytes), broken+v.Broken
		if v.Failure != "" {
			failed++
		}
	}
	server := b.server.Stats()
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	table := map[string]string{
		"brokerVersionDesc": remoting.VersionName(remoting.CurrentVersion), "brokerVersion": number(int64(remoting.CurrentVersion)), "brokerActive": "true",
		"bootTimestamp": number(b.started.UnixMilli()), "startAcceptSendRequestTimeStamp": number(b.started.UnixMilli()), "runtime": runtimeText(now.Sub(b.started)),

		"putTps": rates(&k.stored), "getTransferredTps": rates(&k.got), "getFoundTps": rates(&k.found), "getMissTps": rates(&k.missed), "getTotalTps": rates(&k.found, &k.missed),
		"putMessageTimesTotal": number(k.stored.Total()), "putMessageFailedTimes": number(k.putFailed.Total()), "putMessageSizeTotal": number(k.storedBytes.Total()),
		"msgPutTotalYesterdayMorning": number(night.storedYesterday), "msgPutTotalTodayMorning": number(night.storedToday), "msgPutTotalTodayNow": number(k.stored.Total()),
		"msgGetTotalYesterdayMorning": number(night.gotYesterday), "msgGetTotalTodayMorning": number(night.gotToday), "msgGetTotalTodayNow": number(k.got.Total()),

		"earliestMessageTimeStamp": number(earliest), "commitLogMinOffset": number(marks.MinPhyOffset), "commitLogMaxOffset": number(marks.Appended),
		"dispatchBehindBytes": number(behind), "remainHowManyDataToFlush": number(flush.UndurableBytes) + " B", "remainHowManyDataToCommit": number(marks.Appended-marks.Committed) + " B",
		"commitLogDiskRatio": ratio(disk.LogDiskUsed), "consumeQueueDiskRatio": ratio(disk.QueueDiskUsed), "pageCacheLockTimeMills": "0",

		"timerReadBehind": "0", "timerOffsetBehind": "0", "timerCongestNum": "0", "timerEnqueueTps": "0.0", "timerDequeueTps": "0.0",
		"inFlightRequests": number(server.InFlight), "connections": number(int64(server.Connections)), "heldPulls": number(b.holds.waiting.Load()),
		"strayUnits": number(marks.StrayUnits), "brokenQueues": number(int64(broken)), "failedViews": number(int64(failed)), "runningFlags": b.store.Flags().String(),
	}
	if n := k.stored.Total(); n > 0 {
		table["putMessageAverageSize"] = strconv.FormatFloat(float64(k.storedBytes.Total())/float64(n), 'f', 2, 64)
	}
	for _, class := range []string{"send", "pull", "litePull", "query", "ack"} {
		table[class+"ThreadPoolQueueSize"], table[class+"ThreadPoolQueueHeadWaitTimeMills"] = "0", "0"
	}
	for level := 1; level <= b.levels.Max(); level++ {
		end, err := b.store.MaxOffset(meta.ScheduleTopic, int32(level-1))
		if err != nil {
			continue // it is being built again
		}
		table["scheduleMessageOffset_"+strconv.Itoa(level)] = fmt.Sprintf("%d,%d", b.delays.Next(int32(level)), end)
	}
	return withBody(struct {
		Table map[string]string `json:"table"`
	}{table})
}

// viewStats serves VIEW_BROKER_STATS_DATA: what was counted of a topic, or of a group on a topic (topic@group).
func (b *Broker) viewStats(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	name, key := h.String("statsName"), h.String("statsKey")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	w, ok := b.counts.table.Get(name, key)
	if !ok {
		return remoting.Command{}, remoting.Errorf(remoting.SystemError, "nothing is counted as %s of %s", name, key)
	}
	return withBody(w)
}
