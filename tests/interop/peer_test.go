//go:build interop

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/interop/java"
)

// jvm are the options of a JVM that runs for seconds: it compiles quickly rather than well.
func jvm(heap string, more ...string) []string {
	return append([]string{"-Xmx" + heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}, more...)
}

// peerClassPath is that of the programs that have the whole of RocketMQ, with the replication service that listens nowhere.
func peerClassPath(t *testing.T) string {
	t.Helper()
	classPath, err := java.BuildBroker(t.Context())
	require.NoError(t, err)
	return storeCheck.classPath + string(os.PathListSeparator) + classPath
}

// A peer is a Java program that answers requests (Loop), one at a time.
type peer struct {
	home string
	mu   sync.Mutex
	in   io.Writer
	out  *bufio.Scanner
}

// startPeer starts one, which ends with the test.
func startPeer(t *testing.T, class string, options []string) *peer {
	t.Helper()
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), javaLimit)
	t.Cleanup(cancel)
	quiet, err := java.Quiet(home)
	require.NoError(t, err)
	cmd := java.Command(ctx, peerClassPath(t), home, append(quiet, options...), class)
	cmd.Dir = home // some commands write files where they stand
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // its end; what went wrong with it shows in the exit
		require.NoError(t, cmd.Wait())
	})
	p := &peer{home: home, in: in, out: bufio.NewScanner(out)}
	p.out.Buffer(nil, 16<<20)
	return p
}

// ask returns what was said.
func (p *peer) ask(t *testing.T, words ...string) string {
	t.Helper()
	line, err := json.Marshal(words)
	require.NoError(t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.in.Write(append(line, '\n'))
	require.NoError(t, err)
	for p.out.Scan() {
		if !strings.HasPrefix(p.out.Text(), "{") {
			continue // its logging says that it has begun
		}
		var said struct{ Text, Failure string }
		require.NoError(t, json.Unmarshal(p.out.Bytes(), &said), p.out.Text())
		require.Empty(t, said.Failure, "%s: %s", words, said.Text)
		return said.Text
	}
	require.FailNow(t, "no answer", "%s: %v", words, p.out.Err())
	return ""
}

// servers are NameServers and brokers of RocketMQ's in one JVM.
type servers struct{ *peer }

func startServers(t *testing.T) *servers {
	t.Helper()
	return &servers{startPeer(t, "Servers", jvm("512m", "-XX:MaxDirectMemorySize=256m",
		"--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"))}
}

// nameServer starts one on a port, a free one for 0, and returns its address.
func (s *servers) nameServer(t *testing.T, name, port string) (addr string) {
	t.Helper()
	return "127.0.0.1:" + s.ask(t, "namesrv", name, filepath.Join(s.home, name), port)
}

// broker starts one over a store, with further properties, and returns its address.
func (s *servers) broker(t *testing.T, name, dir, namesrv string, more map[string]string) (addr string) {
	t.Helper()
	properties := map[string]string{
		"brokerClusterName": "c", "brokerName": name, "brokerIP2": "127.0.0.1", "storePathRootDir": dir, "timerWheelEnable": "false", "diskMaxUsedSpaceRatio": "99",
		"mappedFileSizeCommitLog": "16777216", "mappedFileSizeConsumeQueue": "60000", "maxHashSlotNum": "1000", "maxIndexNum": "4000",
		"brokerFastFailureEnable": "false", "osPageCacheBusyTimeOutMills": "60000", // on a busy machine requests wait for longer than the 200 ms after which they are refused
	}
	maps.Copy(properties, more)
	conf, err := java.BrokerConf(filepath.Join(s.home, name), namesrv, properties)
	require.NoError(t, err)
	return s.ask(t, "broker", name, conf)
}

func (s *servers) stop(t *testing.T, name string) {
	t.Helper()
	s.ask(t, "stop", name)
}
