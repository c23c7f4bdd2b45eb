package broker

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// sendRequest is a send to queue 0 of T.
func sendRequest(body []byte) *remoting.Command {
	return &remoting.Command{Code: remoting.SendMessageV2, Body: body, Ext: remoting.Ext{
		{Key: "a", Value: "pg"},
		{Key: "b", Value: "T"},
		{Key: "c", Value: "TBW102"},
		{Key: "d", Value: "4"},
		{Key: "e", Value: "0"},
		{Key: "f", Value: "0"},
		{Key: "g", Value: "1700000000000"},
		{Key: "h", Value: "0"},
		{Key: "i", Value: ""},
	}}
}

// Sends that come one behind the other on one connection share syncs of the disk, are stored in the order in which they came, and each is answered when it is durable.
func TestSyncFlushSharesSyncsOnOneConnection(t *testing.T) {
	b, client := openTest(t, func(o *Options) { o.Store.FlushDiskType = store.SyncFlush })
	conn, err := client.Conn(t.Context(), b.Addr().String())
	require.NoError(t, err)
	const sends = 2000
	before := b.store.Stats()
	var answers sync.WaitGroup
	for i := range sends {
		answers.Add(1)
		conn.InvokeAsync(sendRequest([]byte("body")), 30*time.Second, func(resp *remoting.Command, err error) {
			defer answers.Done()
			if err != nil || resp.Code != remoting.Success {
				t.Errorf("%v %v", resp, err)
			} else if at := resp.Ext.Get("queueOffset"); at != strconv.Itoa(i) {
				t.Errorf("send %d is at %s", i, at)
			}
		})
	}
	answers.Wait()
	after := b.store.Stats()
	p := b.store.Positions()
	require.Equal(t, p.Wrote, p.Flushed)
	require.EqualValues(t, sends, b.store.NextOffset("T", 0))
	require.Less(t, after.Flushes-before.Flushes, int64(sends/2), "one sync each, where nobody waits beside another")
}
