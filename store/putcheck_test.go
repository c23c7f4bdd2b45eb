package store

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

// Every refusal names its reason and leaves no trace.
func TestPutIllegal(t *testing.T) {
	o := putOptions()
	o.MaxMessageSize = 1000
	for name, c := range map[string]struct {
		change func(*message.Message)
		want   string
	}{
		"topic with a zero byte":   {func(m *message.Message) { m.Topic = "T\x00" }, "byte 1 is 0x00"},
		"topic with a slash":       {func(m *message.Message) { m.Topic = "../T" }, "byte 2 is 0x2f"},
		"topic of a directory":     {func(m *message.Message) { m.Topic = ".." }, "no directory can have that name"},
		"negative queue":           {func(m *message.Message) { m.QueueID = -1 }, "queue id is -1"},
		"no host":                  {func(m *message.Message) { m.StoreHost = message.Host{} }, "host without an address"},
		"body":                     {func(m *message.Message) { m.Body = make([]byte, 1001) }, "got 1001 bytes, want 0 to 1000"},
		"delay that is no number":  {func(m *message.Message) { m.Topic, m.Properties = message.TopicSchedule, props("DELAY", "soon") }, `DELAY is "soon"`},
		"inner batch, plain topic": {func(m *message.Message) { m.SysFlag = message.FlagInnerBatch }, "which has no batch queues"},
		"number, no inner batch":   {func(m *message.Message) { m.Properties = props("INNER_NUM", "2") }, "INNER_NUM in a message that is no inner batch"},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, o, func(t *testing.T, f *fixture) {
				m := newMessage("T")
				c.change(m)
				reason := f.untouched(t, m.Topic, PutMessageIllegal, func() (PutResult, error) { return f.Put(t.Context(), m) })
				require.Contains(t, reason, c.want)
			})
		})
	}
}

// What looks alike and is fine.
func TestPutLegal(t *testing.T) {
	o := putOptions()
	o.MaxMessageSize = 1000
	for name, change := range map[string]func(*message.Message){
		"no body":                    func(m *message.Message) { m.Body = nil },
		"longest body":               func(m *message.Message) { m.Body = make([]byte, 1000) },
		"delay on a plain topic":     func(m *message.Message) { m.Properties = props("DELAY", "soon") },
		"delay of the schedule":      func(m *message.Message) { m.Topic, m.Properties = message.TopicSchedule, props("DELAY", "3") },
		"names, light queues off":    func(m *message.Message) { m.Properties = props(message.PropertyMultiDispatch, "a,b") },
		"properties without the end": func(m *message.Message) { m.Properties = []byte("a\x01b") },
		"IPv6":                       func(m *message.Message) { m.BornHost.Addr = netip6 },
	} {
		t.Run(name, func(t *testing.T) {
			f := overFiles(t, o)
			m := newMessage("T")
			change(m)
			r, err := f.Put(t.Context(), m)
			require.NoError(t, err)
			rec := f.last(t)
			require.EqualValues(t, r.Append.Bytes, rec.TotalSize)
			require.True(t, bytes.Equal(m.Body, rec.Body))
			require.True(t, bytes.Equal(m.Properties, rec.Properties))
		})
	}
}

// W23: what only the store may write is not taken from a client, whatever the options, and values that contain separators are
// refused.
func TestW23ReservedPropertiesOfClients(t *testing.T) {
	for _, lmq := range []bool{false, true} {
		o := putOptions()
		o.EnableLmq = lmq
		t.Run(fmt.Sprintf("lmq=%v", lmq), func(t *testing.T) {
			overBoth(t, o, func(t *testing.T, f *fixture) {
				m := newMessage("T")
				m.Properties = props("a", "1", message.PropertyMultiQueueOffset, "77", "b", "2", message.PropertyInnerBase, "5",
					message.PropertyMultiDispatch, "%LMQ%x", message.PropertyMultiQueueOffset, "78")
				_, err := f.Put(t.Context(), m)
				require.NoError(t, err)
				want := props("a", "1", "b", "2", message.PropertyMultiDispatch, "%LMQ%x")
				if lmq {
					want = append(want, props(message.PropertyMultiQueueOffset, "0")...)
				}
				rec := f.last(t)
				require.Equal(t, want, rec.Properties)

				body := batchBody(t, 1)
				e := message.BatchElement{Body: []byte("x"), Properties: m.Properties}
				body, err = e.AppendTo(body)
				require.NoError(t, err)
				b := newMessage("T")
				b.Body = body
				_, err = f.PutBatch(t.Context(), b)
				require.NoError(t, err)
				rec = f.last(t)
				require.Equal(t, props("a", "1", "b", "2", message.PropertyMultiDispatch, "%LMQ%x"), rec.Properties)
				require.Equal(t, map[bool]int64{true: 1}[lmq], f.NextOffset("%LMQ%x", 0))

				for _, value := range []string{"va\x02lue", "va\x01lue", "\x02"} {
					m.Properties = props("k", value)
					reason := f.untouched(t, "T", PutMessageIllegal, func() (PutResult, error) { return f.Put(t.Context(), m) })
					require.Contains(t, reason, message.ErrPropertyForm.Error())
				}
			})
		})
	}
}

// W48: no property of a producer can make the store's own record unreadable. The example is the one that cuts RocketMQ's log at
// its next clean start.
func TestW48NoPropertyEndsTheLog(t *testing.T) {
	overBoth(t, putOptions(), func(t *testing.T, f *fixture) {
		for _, p := range [][]byte{
			props("INNER_NUM", "abc", "INNER_BASE", "0"),
			props("INNER_NUM", "3", "INNER_BASE", "0"),
		} {
			e := message.BatchElement{Body: []byte("x"), Properties: p}
			body, err := e.AppendTo(batchBody(t, 2))
			require.NoError(t, err)
			m := newMessage("T")
			m.Body = body
			f.untouched(t, "T", PutMessageIllegal, func() (PutResult, error) { return f.PutBatch(t.Context(), m) })
		}
		e := message.BatchElement{Body: []byte("x"), Properties: props("DELAY", "soon")}
		body, err := e.AppendTo(nil)
		require.NoError(t, err)
		m := newMessage(message.TopicSchedule)
		m.Body = body
		f.untouched(t, m.Topic, PutMessageIllegal, func() (PutResult, error) { return f.PutBatch(t.Context(), m) })
		m.Topic = "T" // where nobody reads it as a number
		_, err = f.PutBatch(t.Context(), m)
		require.NoError(t, err)
		for _, r := range f.records(t) {
			require.Empty(t, r.DispatchRequest(nil).BadProperty)
		}
	})
}
