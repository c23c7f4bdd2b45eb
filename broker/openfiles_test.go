package broker

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/logtest"
)

func TestConnectionsLeaveFilesToTheStore(t *testing.T) {
	for files, want := range map[int64]int{0: 1, 1: 1, 256: 128, 1024: 512, 3000: 2000, 4000: 3000, 1 << 20: 3 << 18, 1 << 62: 1<<31 - 1} {
		require.Equal(t, want, connectionsWithin(files), files)
	}
}

// No more connections are taken than the files that may be open allow, and it is told once; the property shows what is in effect.
func TestConnectionsAreNoMoreThanFilesAllow(t *testing.T) {
	var log logtest.Log
	b, _ := openTest(t, func(o *Options) {
		o.openFiles = func() (int64, error) { return 20, nil }
		o.Logger = log.Logger()
	})
	require.Equal(t, 1, strings.Count(log.String(), "maxConnections=100000 connections=10 openFiles=20"))
	require.Equal(t, "10", b.live().Properties()["maxConnections"])
	var conns []net.Conn
	for range 12 {
		c, err := net.Dial("tcp", b.Addr().String())
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		conns = append(conns, c)
	}
	closed := 0
	for _, c := range conns[10:] { // they are accepted in their order
		require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Second)))
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, io.EOF) || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	require.Equal(t, 2, closed)

	log.Reset()
	b, _ = openTest(t, func(o *Options) {
		o.openFiles = func() (int64, error) { return 1 << 20, nil }
		o.Logger = log.Logger()
	})
	require.Equal(t, "100000", b.live().Properties()["maxConnections"])
	require.NotContains(t, log.String(), "openFiles")
}

// A port that is in use is told by the name of its flag, before a store is made.
func TestAPortInUseIsFoundBeforeAStoreIsMade(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = used.Close() }()
	port := used.Addr().(*net.TCPAddr).Port
	for want, change := range map[string]func(o *Options){
		"listen for clients (listenPort, --listen): listen tcp ":                  func(o *Options) { o.ListenPort, o.VipChannelEnable = port, false },
		"on the second port, two below the first (vipChannelEnable, --listen)":    func(o *Options) { o.ListenPort = port + 2 },
		"listen as a NameServer (embeddedNamesrv, --namesrv-listen): listen tcp ": func(o *Options) { o.EmbeddedNamesrv = used.Addr().String() },
	} {
		o := DefaultOptions()
		o.BrokerName, o.ListenPort, o.StorePathRootDir = "b", 0, t.TempDir()
		change(&o)
		_, err := Open(o)
		require.ErrorContains(t, err, want)
		entries, err := os.ReadDir(o.StorePathRootDir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}
