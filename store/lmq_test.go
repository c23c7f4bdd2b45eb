package store

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

func lightOptions() Options {
	o := putOptions()
	o.EnableLmq = true
	return o
}

// lightMessage is one that also goes to the queues named.
func lightMessage(names ...string) *message.Message {
	m := newMessage("T")
	m.Properties = props("TAGS", "TagA", message.PropertyMultiDispatch, strings.Join(names, ","))
	return m
}

// Each light queue counts for itself, in the order of the names.
func TestPutLightQueues(t *testing.T) {
	overBoth(t, lightOptions(), func(t *testing.T, f *fixture) {
		for _, c := range []struct{ names, want string }{
			{"%LMQ%a", "0"},
			{"%LMQ%b,%LMQ%a", "0,1"},
			{"%LMQ%a,%LMQ%b,%LMQ%c", "2,1,0"},
			{"%LMQ%a,,,", "3"}, // commas at the end do not count
			{",", ""},
			{" ", ""},
		} {
			_, err := f.Put(t.Context(), lightMessage(c.names))
			require.NoError(t, err)
			require.Equal(t, c.want, prop(ptr(f.last(t)), message.PropertyMultiQueueOffset), c.names)
		}
		// One row for a light queue, also when it is put to as a topic.
		m := newMessage("%LMQ%a")
		r, err := f.Put(t.Context(), m)
		require.NoError(t, err)
		require.EqualValues(t, 4, r.Append.QueueOffset)
		require.EqualValues(t, 5, f.NextOffset("%LMQ%a", 0))
		require.EqualValues(t, 2, f.NextOffset("%LMQ%b", 0))
		_, err = f.Put(t.Context(), newMessage("%LMQ%d"))
		require.NoError(t, err)
		require.EqualValues(t, 4, f.offsets.light.Load())
	})
}

// Offsets of light queues are taken where a unit follows, and nowhere else.
func TestPutLightQueuesWhereUnitsFollow(t *testing.T) {
	for _, topic := range []string{"%RETRY%g", "%DLQ%g", "rmq_sys_x", message.TopicSchedule} {
		t.Run(topic, func(t *testing.T) {
			f := overSlice(lightOptions(), 1)
			m := lightMessage("%LMQ%a", "whatever") // not looked at
			m.Topic = topic
			_, err := f.Put(t.Context(), m)
			require.NoError(t, err)
			require.Equal(t, m.Properties, f.last(t).Properties)
			require.Zero(t, f.NextOffset("%LMQ%a", 0))
		})
	}
	for _, tx := range []int32{message.TransactionPrepared, message.TransactionRollback} {
		f := overSlice(lightOptions(), 1)
		m := lightMessage("%LMQ%a")
		m.SysFlag = tx
		_, err := f.Put(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, m.Properties, f.last(t).Properties)
		require.Zero(t, f.NextOffset("%LMQ%a", 0))
	}
}

// W4: a name that gets no offset makes a record that RocketMQ dispatches for ever. Such a message is refused.
func TestW4NamesOfLightQueues(t *testing.T) {
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf("%%LMQ%%%d", i)
	}
	overBoth(t, lightOptions(), func(t *testing.T, f *fixture) {
		for _, c := range []struct {
			names []string
			want  string
		}{
			{[]string{"plain", "%LMQ%a"}, `"plain"`},
			{[]string{"%LMQ%a", "plain"}, `"plain"`},
			{[]string{"%LMQ%a", "", "%LMQ%b"}, `""`},
			{[]string{"", "%LMQ%b"}, `""`},
			{[]string{"%LMQ%a", " %LMQ%b"}, `" %LMQ%b"`},
			{[]string{"%LMQ%"}, `"%LMQ%"`},
			{[]string{"%LMQ%" + strings.Repeat("x", 251)}, "at most 255 bytes"},
			{[]string{"%LMQ%a/b"}, "0x2f"},
			{[]string{"%LMQ%a", "%LMQ%a"}, "twice"},
			{append(many, "%LMQ%7"), `"%LMQ%7" twice`},
		} {
			reason := f.untouched(t, "T", PutMessageIllegal, func() (PutResult, error) { return f.Put(t.Context(), lightMessage(c.names...)) })
			require.Contains(t, reason, c.want)
		}
		m := lightMessage("%LMQ%T")
		m.Topic = "%LMQ%T"
		f.untouched(t, "%LMQ%T", PutMessageIllegal, func() (PutResult, error) { return f.Put(t.Context(), m) })
		for _, r := range f.records(t) {
			r.MultiDispatch(func(_ []byte, _ int32, _ int64, ok bool) bool {
				require.True(t, ok)
				return true
			})
		}
		_, err := f.Put(t.Context(), lightMessage(append(many, "%LMQ%"+strings.Repeat("x", 250))...))
		require.NoError(t, err)
	})
}

// W47: light queues change no limit and no status.
func TestW47OneLimitForLightQueues(t *testing.T) {
	o := lightOptions()
	o.MaxMessageSize = 1000
	o.MappedFileSizeCommitLog = 1 << 20
	overBoth(t, o, func(t *testing.T, f *fixture) {
		for _, m := range []*message.Message{newMessage("T"), lightMessage("%LMQ%a")} {
			m.Properties = append(m.Properties, props("k", strings.Repeat("v", 32000))...)
			m.Body = bytes.Repeat([]byte{'x'}, 1000) // a record of 33 KiB: beyond maxMessageSize, within 64 KiB of it
			_, err := f.Put(t.Context(), m)
			require.NoError(t, err)
			m.Body = bytes.Repeat([]byte{'x'}, 1001)
			f.untouched(t, "T", PutMessageIllegal, func() (PutResult, error) { return f.Put(t.Context(), m) })
			m.Body = nil
			m.Properties = append(m.Properties, props("l", strings.Repeat("v", 800))...)
			f.untouched(t, "T", PutPropertiesSizeExceeded, func() (PutResult, error) { return f.Put(t.Context(), m) })
		}
	})
}

func TestPutLightQueueQuota(t *testing.T) {
	o := lightOptions()
	o.EnableMultiDispatch, o.EnableLmqQuota, o.MaxLmqConsumeQueueNum = true, true, 2
	overBoth(t, o, func(t *testing.T, f *fixture) {
		_, err := f.Put(t.Context(), lightMessage("%LMQ%a"))
		require.NoError(t, err)
		f.untouched(t, "T", PutLMQConsumeQueueNumExceeded, func() (PutResult, error) { return f.Put(t.Context(), lightMessage("%LMQ%b", "%LMQ%c")) })
		_, err = f.Put(t.Context(), lightMessage("%LMQ%a", "%LMQ%b"))
		require.NoError(t, err)
		f.untouched(t, "T", PutLMQConsumeQueueNumExceeded, func() (PutResult, error) { return f.Put(t.Context(), lightMessage("%LMQ%c")) })
		_, err = f.Put(t.Context(), lightMessage("%LMQ%b", "%LMQ%a"))
		require.NoError(t, err)
	})
	for _, off := range []func(*Options){
		func(o *Options) { o.EnableMultiDispatch = false },
		func(o *Options) { o.EnableLmqQuota = false },
	} {
		o := o
		off(&o)
		_, err := overSlice(o, 1).Put(t.Context(), lightMessage("%LMQ%a", "%LMQ%b", "%LMQ%c"))
		require.NoError(t, err)
	}
}

// TestLightQueuesOfBatchTopics: 5.5.0 gives a message of a topic with batch queues offsets in light queues, and no unit follows.
func TestLightQueuesOfBatchTopics(t *testing.T) {
	o := putOptions()
	o.EnableLmq = true
	o.IsBatchTopic = func(topic string) bool { return topic == "T" }
	s := openStore(t, t.TempDir(), o)
	_, err := s.Put(t.Context(), lightMessage("%LMQ%a"))
	require.NoError(t, err)
	require.Zero(t, s.NextOffset("%LMQ%a", 0))
	require.Equal(t, int64(1), s.NextOffset("T", lightMessage().QueueID))
	require.NoError(t, s.Close())
}
