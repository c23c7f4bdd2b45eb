package load

import (
	"context"
	"encoding/binary"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/broker"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

func TestParseJava(t *testing.T) {
	x := report.Figures{}
	require.NoError(t, parseJava([]byte("noise\n"+`{"t":"put","messages":7,"messagesPerSecond":3,"dispatchedPerSecond":2,"p50Nanos":1500}`+"\n"), "put", 7, x))
	require.InDelta(t, 2, x["builtPerSecond"], 1e-9)
	require.InDelta(t, 1.5, x["putP50Micros"], 1e-9)
	require.NoError(t, parseJava([]byte(`{"t":"read","messages":7,"loadMillis":1,"startMillis":2,"readyMillis":4,"pullPerSecond":5,"getP50Nanos":6000,"timeP50Nanos":7000}`), "read", 7, x))
	require.InDelta(t, 3, x["openMillis"], 1e-9)
	require.InDelta(t, 6, x["getP50Micros"], 1e-9)
	require.ErrorContains(t, parseJava([]byte(`{"t":"put","messages":7}`), "put", 8, x), "7 messages, want 8")
	require.ErrorContains(t, parseJava([]byte("nothing"), "put", 8, x), "no measurement: nothing")
}

// startTopic starts a broker with a topic of 4 queues.
func startTopic(t *testing.T) (*broker.Broker, *Remote) {
	t.Helper()
	o := broker.DefaultOptions()
	o.BrokerName, o.ListenPort, o.StorePathRootDir = "b", 0, t.TempDir()
	o.Store.MappedFileSizeCommitLog, o.Store.MaxHashSlotNum, o.Store.MaxIndexNum = 8<<20, 1000, 4000
	b, err := broker.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	require.NoError(t, b.Start())
	r := &Remote{Addr: b.Addr().String(), Topic: "T", Queues: 4}
	require.NoError(t, r.Make(t.Context()))
	return b, r
}

// What is sent is in the broker as it was sent, and pulled in order; and whatever is not so is noticed.
func TestRemote(t *testing.T) {
	b, r := startTopic(t)
	const messages = 1000
	sent, err := r.Send(t.Context(), SendLoad{Connections: 3, InFlight: 1, Messages: messages / 2, PerSecond: 100_000})
	require.NoError(t, err)
	require.EqualValues(t, messages/2, sent.Latency.Summary().Samples)
	require.NoError(t, r.Check(t.Context(), messages/2))
	ends, err := r.Ends(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{125, 125, 125, 125}, ends)
	var res store.QueryResult
	require.NoError(t, b.Store().Query(store.QueryRequest{Topic: "T", Key: key(77), Max: 2}, &res))
	require.Len(t, res.Messages, 1)
	res.Release()

	// The same numbers once more, and others.
	_, err = r.Send(t.Context(), SendLoad{Connections: 2, InFlight: 64, Messages: messages / 2})
	require.NoError(t, err)
	require.ErrorContains(t, r.Check(t.Context(), messages), "is there twice")
	got, err := r.Pull(t.Context(), PullLoad{Group: "g", Consumers: 2})
	require.NoError(t, err)
	require.Equal(t, 2*messages, got.Messages)
	_, err = r.Call(t.Context(), SendCommand("T", 1, "", []byte("other")))
	require.NoError(t, err)
	require.ErrorContains(t, r.Check(t.Context(), messages+1), "is there twice")
	other := &Remote{Addr: r.Addr, Topic: "U", Queues: 1}
	require.NoError(t, other.Make(t.Context()))
	_, err = r.Call(t.Context(), SendCommand("U", 0, "", []byte("other")))
	require.NoError(t, err)
	require.ErrorContains(t, other.Check(t.Context(), 1), "a message that was not sent there")
	_, err = (&Remote{Addr: r.Addr, Topic: "a.b", Queues: 1}).Send(t.Context(), SendLoad{Connections: 1, InFlight: 1, Messages: 1})
	require.ErrorContains(t, err, "send: code 29")
}

// An answer that skips a message, or has one of another queue, is no measurement.
func TestTakeLooksAtEachRecord(t *testing.T) {
	record := func(queue uint32, offset uint64) []byte {
		b := binary.BigEndian.AppendUint32(nil, recordHead)
		b = append(b, make([]byte, recordQueueID-4)...)
		b = binary.BigEndian.AppendUint32(b, queue)
		b = append(b, make([]byte, 4)...)
		return binary.BigEndian.AppendUint64(b, offset)
	}
	for _, c := range []struct {
		name, header, want string
		body               []byte
	}{
		{"good", `{"code":0,"extFields":{"nextBeginOffset":"2"},"opaque":1000000001}`, "", append(record(1, 0), record(1, 1)...)},
		{"a gap", `{"code":0,"extFields":{"nextBeginOffset":"2"},"opaque":1000000001}`, "at 0: a record of queue 1 at 1", record(1, 1)},
		{"another queue", `{"code":0,"extFields":{"nextBeginOffset":"1"},"opaque":1000000001}`, "a record of queue 0 at 0", record(0, 0)},
		{"cut short", `{"code":0,"extFields":{"nextBeginOffset":"1"},"opaque":1000000001}`, "does not fit", record(1, 0)[:20]},
		{"empty", `{"code":0,"extFields":{"nextBeginOffset":"0"},"opaque":1000000001}`, "go to 0", nil},
		{"further on", `{"code":0,"extFields":{"nextBeginOffset":"5"},"opaque":1000000001}`, "go on at 5", record(1, 0)},
		{"nobody's", `{"code":0,"extFields":{"nextBeginOffset":"1"},"opaque":1000000007}`, "nobody asked", record(1, 0)},
		{"without the next", `{"code":0,"opaque":1000000001}`, "an answer without", record(1, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := newPuller(&Remote{Topic: "T", Queues: 2}, "g", nil, []int64{2, 2}, nil)
			require.NoError(t, err)
			queue, err := p.take(&answer{header: []byte(c.header), body: c.body})
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 1, queue)
			require.EqualValues(t, 2, p.next[1])
		})
	}
}

// Pulls that wait are counted when they have a message, and none before.
func TestHoldAndWake(t *testing.T) {
	_, r := startTopic(t)
	h, err := r.Connect(t.Context(), 2)
	require.NoError(t, err)
	defer h.Close()
	require.NoError(t, r.Hold(h, 20))
	require.NoError(t, r.AwaitHeld(t.Context(), 20))
	wake := &Remote{Addr: r.Addr, Topic: "W", Queues: 1}
	require.NoError(t, wake.Make(t.Context()))
	woken, err := wake.Wake(t.Context(), 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, woken.SinceSend.Summary().Samples)
	n, err := h.Answered()
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = r.Send(t.Context(), SendLoad{Connections: 1, InFlight: 1, Messages: 4})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		n, err := h.Answered()
		return err == nil && n == 20
	}, 30*time.Second, time.Millisecond)
}

// A message that a busy broker refuses is sent again, whichever it was.
func TestRefusedSends(t *testing.T) {
	o := remoting.DefaultServerOptions()
	var mu sync.Mutex
	refused, stored := map[string]bool{}, map[string]int{}
	server, err := remoting.NewServer(remoting.HandlerFunc(func(c *remoting.Conn, req *remoting.Command) {
		mu.Lock()
		defer mu.Unlock()
		n, err := numberOf(req.Body)
		assert.NoError(t, err)
		key := strconv.Itoa(n)
		if n%3 == 0 && !refused[key] {
			refused[key] = true
			c.Respond(req, &remoting.Command{Code: remoting.SystemBusy})
			return
		}
		stored[key]++
		c.Respond(req, &remoting.Command{Ext: remoting.Ext{}})
	}), o)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(l) }()
	defer func() { require.NoError(t, server.Close()) }()
	sent, err := (&Remote{Addr: l.Addr().String(), Topic: "T", Queues: 4}).Send(t.Context(), SendLoad{Connections: 2, InFlight: 7, Messages: 300})
	require.NoError(t, err)
	require.Equal(t, 100, sent.Refused)
	require.Len(t, stored, 300)
	for n, times := range stored {
		require.Equal(t, 1, times, n)
	}
}

// Each frame is answered, however it comes.
func TestEcho(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Echo(ctx, l) }()
	r := &Remote{Addr: l.Addr().String(), Topic: "T", Queues: 4}
	_, err = r.Send(t.Context(), SendLoad{Connections: 2, InFlight: 100, Messages: 1000})
	require.NoError(t, err)
	cancel()
	require.NoError(t, <-ended)
}
