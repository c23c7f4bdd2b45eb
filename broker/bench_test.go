package broker

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// BenchmarkSyncFlushSends sends messages of 1 KiB over connections with 256 sends in flight on each. syncs/op tells how many of them share a sync of the disk.
func BenchmarkSyncFlushSends(b *testing.B) {
	for _, conns := range []int{1, 16} {
		b.Run("conns="+string('0'+rune(conns/10))+string('0'+rune(conns%10)), func(b *testing.B) { benchSyncSends(b, conns) })
	}
}

func benchSyncSends(b *testing.B, conns int) {
	o := DefaultOptions()
	o.BrokerClusterName, o.BrokerName, o.ListenPort, o.StorePathRootDir = "c", "b", 0, b.TempDir()
	o.Store.FlushDiskType, o.Store.MappedFileSizeCommitLog = store.SyncFlush, 256<<20
	br, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = br.Close() }()
	if err := br.Start(); err != nil {
		b.Fatal(err)
	}
	req := sendRequest(make([]byte, 1024))
	window := make(chan struct{}, 256*conns)
	var failed atomic.Int64
	answer := func(resp *remoting.Command, err error) {
		if err != nil || resp.Code != remoting.Success {
			failed.Add(1)
		}
		<-window
	}
	var list []*remoting.Conn
	for range conns {
		client, err := remoting.NewClient(remoting.DefaultClientOptions())
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		c, err := client.Conn(context.Background(), br.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, c)
	}
	before := br.store.Stats().Flushes
	for i := 0; b.Loop(); i++ {
		window <- struct{}{}
		list[i%conns].InvokeAsync(req, 30*time.Second, answer)
	}
	for range cap(window) {
		window <- struct{}{}
	}
	b.ReportMetric(float64(br.store.Stats().Flushes-before)/float64(b.N), "syncs/op")
	if n := failed.Load(); n > 0 {
		b.Fatalf("%d sends failed", n)
	}
}

// BenchmarkSendToNewTopic sends each message to a topic that is not there, to a broker with many topics that registers them with its own NameServer.
func BenchmarkSendToNewTopic(b *testing.B) {
	for _, topics := range []int{100, 15_000} {
		b.Run("topics="+strconv.Itoa(topics), func(b *testing.B) {
			o := DefaultOptions()
			o.BrokerClusterName, o.BrokerName, o.ListenPort, o.EmbeddedNamesrv, o.StorePathRootDir = "c", "b", 0, "127.0.0.1:0", b.TempDir()
			if rocks.Available {
				o.Store.StoreType = store.StoreTypeRocksDB
			}
			br, err := Open(o)
			require.NoError(b, err)
			defer func() { _ = br.Close() }()
			require.NoError(b, br.Start())
			all := make([]meta.Topic, topics)
			for i := range all {
				all[i] = meta.NewTopic("there-"+strconv.Itoa(i), 8, meta.PermRead|meta.PermWrite)
			}
			require.NoError(b, br.topics.Put(all...))
			client, err := remoting.NewClient(remoting.DefaultClientOptions())
			require.NoError(b, err)
			defer func() { _ = client.Close() }()
			for i := 0; b.Loop(); i++ {
				req := sendRequest(make([]byte, 100))
				req.Ext.Set("b", "new-"+strconv.Itoa(i))
				resp, err := client.Invoke(context.Background(), br.Addr().String(), req)
				if err == nil {
					err = resp.Error()
				}
				require.NoError(b, err)
			}
		})
	}
}
