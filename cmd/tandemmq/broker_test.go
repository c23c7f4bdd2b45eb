package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

var readyLine = regexp.MustCompile(`^ready broker=(\S+) cluster=(\S+) listen=(\S+) namesrv=(\S+) store=(\S+) queues=(\S+)\n$`)

// startBroker runs the command until stop is called, and returns what its ready line says.
func startBroker(t *testing.T, args ...string) (ready []string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var log bytes.Buffer
	ended := make(chan int, 1)
	args = append([]string{"tandemmq", "broker", "--listen", "127.0.0.1:0", "--embedded-namesrv", "--namesrv-listen", "127.0.0.1:0", "--name", "b"}, args...)
	go func() {
		ended <- run(ctx, args, w, &log)
		_ = w.Close() // a pipe always can be
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		cancel()
		<-ended
		require.NoError(t, err, log.String())
	}
	require.Regexp(t, readyLine, line)
	return readyLine.FindStringSubmatch(line)[1:], func() {
		cancel()
		select {
		case code := <-ended:
			require.Zero(t, code, log.String())
		case <-time.After(time.Minute):
			require.FailNow(t, "the broker did not end")
		}
	}
}

// ownQueues keeps queues where a binary without cgo can.
func ownQueues(kind string) []string { return []string{"--set", "storeType=" + kind} }

func TestBrokerCommand(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	args := append([]string{"--store", root, "--set", "mappedFileSizeCommitLog=1048576", "--set", "maxHashSlotNum=100", "--set", "maxIndexNum=400"}, ownQueues("default")...)
	ready, stop := startBroker(t, args...)
	require.Equal(t, []string{"b", "DefaultCluster"}, ready[:2])
	require.Equal(t, []string{root, "file"}, ready[4:])
	client, err := remoting.NewClient(remoting.DefaultClientOptions())
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	resp, err := client.Invoke(t.Context(), ready[3], &remoting.Command{Code: remoting.GetRouteInfoByTopic, Ext: remoting.Ext{{Key: "topic", Value: "TBW102"}}})
	require.NoError(t, err)
	require.Equal(t, remoting.Success, resp.Code)
	require.Contains(t, string(resp.Body), ready[2])
	stop()
	require.NoFileExists(t, filepath.Join(root, "abort"))

	// The sizes and the kind of queues are read off the directory.
	code, out, errs := runApp(t, "broker", "--store", root, "--print-config", "--quiet")
	require.Zero(t, code, errs)
	require.Contains(t, out, "\nmappedFileSizeCommitLog=1048576\n")
	code, _, errs = runApp(t, "broker", "--store", root, "--set", "mappedFileSizeCommitLog=2097152", "--quiet")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "mappedFileSizeCommitLog=2097152")
}

func TestBrokerRefusesAStoreTypeThatIsNotThere(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	o := store.DefaultGenerateOptions()
	o.Messages = 10
	_, err := store.Generate(t.Context(), root, o)
	require.NoError(t, err)
	code, _, errs := runApp(t, append([]string{"broker", "--store", root, "--quiet"}, ownQueues("defaultRocksDB")...)...)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "tandemmq migrate run --store "+root+" --to rocks")
	require.NoDirExists(t, filepath.Join(root, "config", "topics.json.bak"))
	code, out, errs := runApp(t, "broker", "--store", root, "--print-config", "--json", "--quiet")
	require.Zero(t, code, errs)
	require.Contains(t, out, `"storeType": "default"`)
}

// What updateBrokerConfig changes is there after a restart, where the broker has a broker.conf.
func TestBrokerKeepsChangedPropertiesInItsConf(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "broker.conf")
	require.NoError(t, os.WriteFile(conf, []byte("# mine\nstorePathRootDir="+filepath.Join(dir, "store")+"\nmappedFileSizeCommitLog=1048576\nmaxHashSlotNum=100\nmaxIndexNum=400\n"), 0o600))
	args := append([]string{"--conf", conf}, ownQueues("default")...)
	ready, stop := startBroker(t, args...)
	client, err := remoting.NewClient(remoting.DefaultClientOptions())
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	resp, err := client.Invoke(t.Context(), ready[2], &remoting.Command{Code: remoting.UpdateBrokerConfig, Body: []byte("brokerPermission=4\n")})
	require.NoError(t, err)
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	stop()
	ready, stop = startBroker(t, args...)
	defer stop()
	resp, err = client.Invoke(t.Context(), ready[2], &remoting.Command{Code: remoting.GetBrokerConfig})
	require.NoError(t, err)
	require.Contains(t, string(resp.Body), "\nbrokerPermission=4\n")
}

func TestBrokerUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--store is missing"},
		{[]string{"--store", "x", "--listen", "x"}, `--listen "x": use HOST:PORT`},
		{[]string{"--store", "x", "--set", "x"}, `--set "x": use NAME=VALUE`},
		{[]string{"--store", "x", "--namesrv-listen", "127.0.0.1:1"}, "--namesrv-listen is for --embedded-namesrv"},
		{[]string{"--store", "x", "--log-format", "x"}, `--log-format "x": use text or json`},
		{[]string{"--store", "x", "--set", "storeType=foo"}, "storeType"},
	} {
		code, _, errs := runApp(t, append([]string{"broker"}, c.args...)...)
		require.Equal(t, 2, code, errs)
		require.Contains(t, errs, c.want)
	}
	conf := filepath.Join(t.TempDir(), "broker.conf")
	require.NoError(t, os.WriteFile(conf, []byte("storeType=foo\n"), 0o644))
	code, _, errs := runApp(t, "broker", "--store", "x", "--conf", conf)
	require.Equal(t, 1, code, "the command line can be meant: %s", errs)
	code, _, errs = runApp(t, "broker", "--store", filepath.Join(t.TempDir(), "s"), "--set", "brokerId=1", "--set", "brokerRole=SLAVE", "--quiet")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "brokerId is 1")
	require.Contains(t, errs, "brokerRole is SLAVE")
}

// A broker.conf as people write it.
func TestReadConf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broker.conf")
	require.NoError(t, os.WriteFile(path, []byte("# comment\n! another\nbrokerName = b\nnamesrvAddr: a:1;b:2\nmessageDelayLevel=1s \\\n  5s\nstorePathRootDir=${user.home}/store\nempty=\nlistenPort 10911\nx=\\u0041\n"), 0o600))
	conf, err := readConf(path)
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"brokerName": "b", "namesrvAddr": "a:1;b:2", "messageDelayLevel": "1s 5s", "storePathRootDir": "${user.home}/store", "empty": "", "listenPort": "10911", "x": "A",
	}, conf)
	_, err = readConf(path + "x")
	require.ErrorContains(t, err, path+"x")
	require.True(t, strings.HasPrefix(err.Error(), "read broker's options"))
}

// tls.properties beside broker.conf, as RocketMQ has it: what the command line says goes over it.
func TestBrokerTLSProperties(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tls.properties")
	require.NoError(t, os.WriteFile(path, []byte("tls.server.mode=enforcing\ntls.server.certPath=/c.pem\ntls.server.keyPath=/k.pem\ntls.server.need.client.auth=none\n"), 0o600))
	conf := filepath.Join(dir, "broker.conf")
	require.NoError(t, os.WriteFile(conf, []byte("brokerName=b\ntls.config.file="+path+"\ntls.server.mode=permissive\n"), 0o600))
	code, out, errs := runApp(t, "broker", "--conf", conf, "--store", filepath.Join(dir, "s"), "--set", "tls.server.keyPath=/other.pem", "--print-config")
	require.Zero(t, code, errs)
	for _, want := range []string{"tls.server.mode=permissive", "tls.server.certPath=/c.pem", "tls.server.keyPath=/other.pem"} {
		require.Contains(t, out, "\n"+want+"\n")
	}
	require.NotContains(t, errs, "tls.")
	require.NoError(t, os.WriteFile(path, []byte("tls.server.keyPassword=TOPSECRET\nbrokerName=x\n"), 0o600))
	code, _, errs = runApp(t, "broker", "--conf", conf, "--store", filepath.Join(dir, "s"), "--print-config")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "tls.properties: brokerName is not about TLS")
	require.NoError(t, os.WriteFile(path, []byte("tls.server.keyPassword=TOPSECRET\n"), 0o600))
	code, _, errs = runApp(t, "broker", "--conf", conf, "--store", filepath.Join(dir, "s"), "--print-config")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "tls.server.keyPassword is set")
	require.NotContains(t, errs, "TOPSECRET")
	code, _, errs = runApp(t, "broker", "--store", filepath.Join(dir, "s"), "--set", "tls.config.file="+filepath.Join(dir, "none"), "--print-config")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "none")
}
