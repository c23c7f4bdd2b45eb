package broker

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/store"
)

// What RocketMQ's broker leaves behind of messages that it has yet to deliver, and that nobody delivers here.
//
//	rmq_sys_wheel_timer        queue 0 has each message that shall come at a time of its own, and a record for each pop until its messages are to come again
//	config/timercheck          four numbers of 8 bytes; the third is the offset in that queue up to which the wheel has them
//	config/timermetrics        how many of those are still in the wheel, for each topic that they are for
//	rmq_sys_REVIVE_LOG_*       those records then, and one for each acknowledgement
//	config/consumerOffset.json the last record that the broker has seen to, as the offset of a group of its own
//
// Source: what a 5.5.0 broker had on disk after it was stopped.
const (
	timerTopic       = meta.SystemTopicPrefix + "wheel_timer"
	timerCheckFile   = "timercheck"
	timerMetricsFile = "timermetrics"
	reviveTopics     = meta.SystemTopicPrefix + "REVIVE_LOG_"
	reviveGroup      = "CID_RMQ_SYS_REVIVE_GROUP"
)

// errUndelivered says that a store has messages that would not be delivered here.
var errUndelivered = errors.New("the store holds messages that are not delivered yet and that this broker does not deliver: it has neither a timer wheel nor pop. " +
	"Let RocketMQ deliver them first, or set acceptUndelivered=true to serve the store without them")

// there returns the offset of the first message of a queue that the log may still have, and that behind the last one, dispatched or not.
func (b *Broker) there(topic string, queueID int32) (lowest, end int64, err error) {
	lowest, err = b.store.MinOffset(topic, queueID)
	if errors.Is(err, store.ErrRebuilding) {
		lowest, err = 0, nil
	}
	return max(lowest, 0), b.store.NextOffset(topic, queueID), err
}

// refuseUndelivered returns errUndelivered with what the store holds, or only tells of it where the options accept that.
func (b *Broker) refuseUndelivered(config string) error {
	if b.store.QueueKind() == "" {
		return nil // without consume queues nothing is delivered at all
	}
	timers, err := b.undeliveredTimers(config)
	if err != nil {
		return err
	}
	pops, err := b.undeliveredPops()
	if err != nil {
		return err
	}
	found := slices.Concat(timers, pops)
	if len(found) == 0 {
		return nil
	}
	if !b.o.AcceptUndelivered {
		return fmt.Errorf("%s: %w", strings.Join(found, "; "), errUndelivered)
	}
	for _, what := range found {
		b.log.Warn("messages stay undelivered, as acceptUndelivered says", slog.String("what", what))
	}
	return nil
}

// undeliveredTimers tells of messages that shall come at a time of their own. Those whose records have expired are no loss any more.
func (b *Broker) undeliveredTimers(config string) (found []string, err error) {
	lowest, end, err := b.there(timerTopic, 0)
	if err != nil || lowest >= end {
		return nil, err
	}
	read, err := timersRead(filepath.Join(config, timerCheckFile))
	if err != nil {
		return nil, err
	}
	if n := end - max(read, lowest); n > 0 {
		found = append(found, fmt.Sprintf("%d messages in queue 0 of %s were not put into the timer wheel", n, timerTopic))
	}
	waiting, err := timersWaiting(filepath.Join(config, timerMetricsFile))
	if err != nil {
		return nil, err
	}
	for _, topic := range slices.Sorted(maps.Keys(waiting)) {
		what := "for topic " + topic
		if strings.HasPrefix(topic, reviveTopics) {
			what = "of pop: what was popped and not acknowledged comes not again"
		}
		found = append(found, fmt.Sprintf("%d messages are in the timer wheel (config/%s) %s", waiting[topic], timerMetricsFile, what))
	}
	return found, nil
}

// timersRead returns the offset in the timers' queue up to which the wheel has them; 0 without the file.
func timersRead(path string) (int64, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	const at = 16
	if len(raw) < at+8 {
		return 0, fmt.Errorf("%s has %d bytes, want at least %d", path, len(raw), at+8)
	}
	return int64(binary.BigEndian.Uint64(raw[at:])), nil
}

// timersWaiting returns how many messages are in the wheel, by the topic that they are for; none without the file.
func timersWaiting(path string) (map[string]int64, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var f struct {
		Topics map[string]struct {
			Count int64 `json:"count"`
		} `json:"timingCount"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	waiting := map[string]int64{}
	for topic, t := range f.Topics {
		if t.Count > 0 {
			waiting[topic] = t.Count
		}
	}
	return waiting, nil
}

// undeliveredPops tells of what was popped and may come again: RocketMQ gives a message again that was not acknowledged in time.
func (b *Broker) undeliveredPops() (found []string, err error) {
	all, _ := b.topics.All()
	for name, t := range all {
		if !strings.HasPrefix(name, reviveTopics) {
			continue
		}
		for id := range t.Queues() {
			lowest, end, err := b.there(name, id)
			if err != nil {
				return nil, err
			}
			if n := end - max(b.offsets.Query(reviveGroup, name, id)+1, lowest); n > 0 {
				found = append(found, fmt.Sprintf("%d records of pop in queue %d of %s were not seen to: what was popped and not acknowledged comes not again", n, id, name))
			}
		}
	}
	slices.Sort(found)
	return found, nil
}
