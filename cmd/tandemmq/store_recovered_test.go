package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// misledIndex is a sample store whose first index entry has another hash: recovery cannot see that, and only a rebuild mends it.
func misledIndex(t *testing.T) (dir string) {
	t.Helper()
	dir = checkSample(t)
	conf := smallIndexConf(t)
	code, _, stderr := runApp(t, "store", "rebuild", "--store", dir, "--index", "--conf", conf, "--yes", "--quiet")
	require.Zero(t, code, stderr)
	names, err := os.ReadDir(filepath.Join(dir, "index"))
	require.NoError(t, err)
	path := filepath.Join(dir, "index", names[0].Name())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[40+4*100+20+3] += 100
	require.NoError(t, os.WriteFile(path, b, 0o644))
	return dir
}

// smallIndexConf is a broker.conf with small index files.
func smallIndexConf(t *testing.T) string {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "broker.conf")
	require.NoError(t, os.WriteFile(conf, []byte("brokerName=b\nmaxHashSlotNum=100\nmaxIndexNum=2000\n"), 0o644))
	return conf
}

// A recovery says what it left, the command that mends it works as it is printed, and the exit code is that of a check.
func TestRecoverNamesWhatMendsTheRest(t *testing.T) {
	dir := misledIndex(t)
	conf := smallIndexConf(t)
	for range 2 {
		code, stdout, stderr := runApp(t, "store", "recover", "--store", dir, "--conf", conf, "--quiet")
		require.Equal(t, 3, code, stdout+stderr)
		require.Contains(t, stdout, "error index-entry: ")
		require.Contains(t, stdout, "Result: NOT in order: 1 error that recovery does not mend\n")
		require.Contains(t, stdout, "      tandemmq store rebuild --store "+dir+" --index --yes\n")
		require.Contains(t, stdout, "not checked: units between the first and the last of each queue")
		require.Contains(t, stdout, "not checked: entries of the index, but for one in 1,000")
		require.Contains(t, stderr, "is not sound: 1 error\n")
		require.NoFileExists(t, filepath.Join(dir, "abort"), "what recovery can do is done")
	}
	code, stdout, _ := runApp(t, "store", "recover", "--store", dir, "--conf", conf, "--json")
	require.Equal(t, 3, code)
	var rep struct {
		Check struct {
			Sound    bool
			Errors   int64
			Findings []struct{ Code string }
			Remedies []struct{ What, Command string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &rep))
	require.False(t, rep.Check.Sound)
	require.Equal(t, "index-entry", rep.Check.Findings[0].Code)
	require.Len(t, rep.Check.Remedies, 1)
	words := strings.Fields(rep.Check.Remedies[0].Command)
	require.Equal(t, "tandemmq", words[0])
	code, _, stderr := runApp(t, append(words[1:], "--conf", conf, "--quiet")...)
	require.Zero(t, code, stderr)
	code, stdout, stderr = runApp(t, "store", "recover", "--store", dir, "--conf", conf, "--quiet")
	require.Zero(t, code, stdout+stderr)
	require.Contains(t, stdout, "Result: in order; `tandemmq store check --deep` proves every unit\n")
}

// A check names what mends its findings too: the queues one by one as long as they are few.
func TestCheckNamesWhatMendsQueues(t *testing.T) {
	dir := checkSample(t)
	spoil := func(queue string) {
		dir := filepath.Join(dir, "consumequeue", queue)
		names, err := os.ReadDir(dir)
		require.NoError(t, err)
		path := filepath.Join(dir, names[0].Name())
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		b[7] ^= 1
		require.NoError(t, os.WriteFile(path, b, 0o644))
	}
	spoil("sample_1/2")
	code, stdout, _ := runApp(t, "store", "check", "--store", dir, "--quiet")
	require.Equal(t, 3, code)
	line := "tandemmq store rebuild --store " + dir + " --queues file --topic sample_1 --queue 2 --yes"
	require.Contains(t, stdout, "      "+line+"\n")
	spoil("sample_0/0")
	spoil("sample_0/1")
	spoil("sample_0/2")
	_, stdout, _ = runApp(t, "store", "check", "--store", dir, "--quiet")
	require.NotRegexp(t, `rebuild .*--topic`, stdout)
	all := "tandemmq store rebuild --store " + dir + " --queues file --yes"
	require.Contains(t, stdout, "      "+all+"\n")
	code, _, stderr := runApp(t, append(strings.Fields(all)[1:], "--quiet")...)
	require.Zero(t, code, stderr)
	code, stdout, _ = runApp(t, "store", "check", "--store", dir, "--quiet", "--deep")
	require.Zero(t, code, stdout)
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{"/a/b-1_c.d": "/a/b-1_c.d", "%LMQ%x": "%LMQ%x", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'"} {
		require.Equal(t, want, shellWord(in))
	}
}

// FR-B04 at the command line: sizes of a partial broker.conf, and none at all.
func TestRecoverSizes(t *testing.T) {
	dir := checkSample(t)
	conf := filepath.Join(t.TempDir(), "broker.conf")
	write := func(text string) { require.NoError(t, os.WriteFile(conf, []byte(text), 0o644)) }
	write("messageDelayLevel=1s 5s\ntransRocksDBEnable=true\n")
	code, stdout, stderr := runApp(t, "store", "recover", "--store", dir, "--conf", conf, "--quiet")
	require.Zero(t, code, stdout+stderr)
	require.Contains(t, stderr, "warning: "+conf+": transRocksDBEnable: without effect in this version: half and operation messages")
	write("mappedFileSizeConsumeQueue=4000\n")
	code, _, stderr = runApp(t, "store", "recover", "--store", dir, "--conf", conf, "--quiet")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "mappedFileSizeConsumeQueue=4000")
	require.Contains(t, stderr, "2000 bytes")

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
	code, stdout, stderr = runApp(t, "store", "recover", "--store", dir, "--dry-run", "--quiet")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "new ones get mappedFileSizeConsumeQueue=6000000, RocketMQ's default")
	code, stdout, _ = runApp(t, "store", "recover", "--store", dir, "--conf", conf, "--quiet")
	require.Zero(t, code)
	require.NotContains(t, stdout, "mappedFileSizeConsumeQueue=")
	names, err := os.ReadDir(filepath.Join(dir, "consumequeue", "sample_0", "0"))
	require.NoError(t, err)
	st, err := names[0].Info()
	require.NoError(t, err)
	require.EqualValues(t, 4000, st.Size())
}

func TestRecoverRefusesASideThatIsNotThere(t *testing.T) {
	dir := checkSample(t)
	for _, kind := range []string{"rocks", "both"} {
		code, _, stderr := runApp(t, "store", "recover", "--store", dir, "--kind", kind, "--quiet")
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "it has file queues and no rocks queues: `tandemmq migrate run --store "+dir+" --to rocks` moves them there")
		require.NoDirExists(t, filepath.Join(dir, "consumequeue_rocksdb"))
		require.NoFileExists(t, filepath.Join(dir, "consumequeue", "CURRENT"))
	}
	code, _, stderr := runApp(t, "store", "recover", "--store", dir, "--create", "--quiet")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--create needs --kind")
}

func TestRebuildOfAnUnknownQueue(t *testing.T) {
	dir := checkSample(t)
	for _, yes := range [][]string{nil, {"--yes"}} {
		code, stdout, stderr := runApp(t, append([]string{"store", "rebuild", "--store", dir, "--topic", "nope", "--quiet"}, yes...)...)
		require.Equal(t, 1, code)
		require.Empty(t, stdout)
		require.Equal(t, "tandemmq: rebuild store "+dir+": no queue of topic \"nope\": neither queues nor log have one\n", stderr)
		code, _, stderr = runApp(t, append([]string{"store", "rebuild", "--store", dir, "--topic", "sample_1", "--queue", "99", "--quiet"}, yes...)...)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "no queue sample_1/99: neither queues nor log have it")
	}
}
