package broker

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/message"
)

// javasMetrics is the file of a broker of 5.5.0 with a message that is to come in an hour, one that has come, and one that was popped and not acknowledged.
const javasMetrics = `{"dataVersion":{"counter":4,"stateVersion":0,"timestamp":1796062775823},"timingCount":{"T":{"count":1,"timeStamp":1796062762136},"rmq_sys_REVIVE_LOG_DefaultCluster":{"count":1,"timeStamp":1796062775823}}}`

// What RocketMQ would deliver and this broker does not is refused with its number, unless that is accepted; what RocketMQ has delivered is no obstacle.
func TestStoresWithUndeliveredMessagesAreRefused(t *testing.T) {
	revive := reviveTopics + "c"
	timerCheck := func(read int64) []byte {
		raw := make([]byte, 56)
		binary.BigEndian.PutUint64(raw[16:], uint64(read))
		return raw
	}
	metrics := func(count string) []byte {
		return []byte(`{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1},"timingCount":{"T":{"count":` + count + `,"timeStamp":1}}}`)
	}
	for _, c := range []struct {
		name    string
		topic   string
		files   map[string][]byte
		revived int64 // the last record that was seen to, of pops
		want    string
	}{
		{name: "in the wheel", topic: timerTopic, files: map[string][]byte{timerCheckFile: timerCheck(2), timerMetricsFile: metrics("1")}, want: "1 messages are in the timer wheel (config/timermetrics) for topic T"},
		{
			name: "popped, by RocketMQ's broker", topic: timerTopic, files: map[string][]byte{timerCheckFile: timerCheck(2), timerMetricsFile: []byte(javasMetrics)},
			want: "1 messages are in the timer wheel (config/timermetrics) for topic T; 1 messages are in the timer wheel (config/timermetrics) of pop",
		},
		{name: "before the wheel", topic: timerTopic, files: map[string][]byte{timerCheckFile: timerCheck(1), timerMetricsFile: metrics("0")}, want: "1 messages in queue 0 of rmq_sys_wheel_timer"},
		{name: "no wheel", topic: timerTopic, want: "2 messages in queue 0 of rmq_sys_wheel_timer"},
		{name: "all came", topic: timerTopic, files: map[string][]byte{timerCheckFile: timerCheck(2), timerMetricsFile: metrics("0")}},
		{name: "a damaged file", topic: timerTopic, files: map[string][]byte{timerCheckFile: {1, 2, 3}}, want: "timercheck has 3 bytes"},
		{name: "expired", topic: "Other", files: map[string][]byte{timerMetricsFile: metrics("1")}},
		{name: "popped", topic: revive, revived: 0, want: "1 records of pop in queue 0 of " + revive},
		{name: "never seen to", topic: revive, revived: meta.NoOffset, want: "2 records of pop in queue 0 of " + revive},
		{name: "all seen to", topic: revive, revived: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, _ := openTest(t, nil)
			require.NoError(t, b.topics.Put(meta.NewTopic(c.topic, 8, meta.PermRead|meta.PermWrite)))
			for range 2 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				_, err := b.store.Put(ctx, &message.Message{Topic: c.topic, Body: []byte("x"), BornHost: b.storeHost, StoreHost: b.storeHost})
				cancel()
				require.NoError(t, err)
			}
			stored(t, b, c.topic, 0, 1)
			if c.revived != meta.NoOffset {
				b.offsets.Commit(reviveGroup, c.topic, 0, c.revived)
			}
			require.NoError(t, b.Close())
			for name, raw := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(b.o.StorePathRootDir, "config", name), raw, 0o600))
			}
			again, err := Open(b.o)
			if c.want == "" {
				require.NoError(t, err)
				require.NoError(t, again.Close())
				return
			}
			require.ErrorContains(t, err, c.want)
			if c.name == "a damaged file" {
				return
			}
			require.ErrorIs(t, err, errUndelivered)
			o := b.o
			o.AcceptUndelivered = true
			again, err = Open(o)
			require.NoError(t, err)
			require.NoError(t, again.Close())
		})
	}
}
