//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker"
	"github.com/tandemq/tandemmq/store"
)

// tableLines are the lines of what a broker of RocketMQ knows, sorted.
func tableLines(out string) []string {
	lines := slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool {
		return !slices.ContainsFunc([]string{"topic ", "group ", "forbidden ", "offset ", "version "}, func(p string) bool { return strings.HasPrefix(line, p) })
	})
	slices.Sort(lines)
	return lines
}

// Issue 9 part 10: topics, groups and offsets that were moved are what a broker of RocketMQ on the other side knows, to databases and back to files, with what it changed in between.
func TestPart10RocketMQKnowsWhatWasMoved(t *testing.T) {
	for name, words := range map[string][]string{"databases": nil, "one database": {"single"}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			tandemmq.MustRun(t, "store", "generate", "--store", dir, "--messages", "100", "--topics", "1", "--queues", "2")
			conf := filepath.Join(t.TempDir(), "broker.conf")
			require.NoError(t, os.WriteFile(conf, []byte("useSingleRocksDBForAllConfigs="+map[bool]string{true: "true", false: "false"}[words != nil]), 0o644))
			move := func(to string) {
				tandemmq.MustRun(t, "migrate", "metadata", "--store", dir, "--to", to, "--conf", conf, "--yes")
			}
			rocks := append([]string{"defaultRocksDB"}, words...)

			want := tableLines(javaTables(t, dir, "default", "make", "1"))
			require.Contains(t, want, "offset T1@g1 11 7")
			require.Contains(t, want, "forbidden g1 T1 1")
			move("rocks")
			files := func() (all []string) {
				all, err := filepath.Glob(filepath.Join(dir, "config", "*.json*"))
				require.NoError(t, err)
				return all
			}
			for _, file := range files() { // what it knows then is of the databases
				require.NoError(t, os.Rename(file, filepath.Join(filepath.Dir(conf), filepath.Base(file))))
			}
			require.Equal(t, want, tableLines(javaTables(t, dir, rocks...)))
			for _, file := range []string{"topics.json", "subscriptionGroup.json", "consumerOffset.json"} {
				require.NoError(t, os.Rename(filepath.Join(filepath.Dir(conf), file), filepath.Join(dir, "config", file)))
			}

			want = tableLines(javaTables(t, dir, append(rocks, "make", "2", "delete", "T1")...))
			require.Contains(t, want, "offset T2@g2 0 12")
			require.False(t, slices.ContainsFunc(want, func(line string) bool { return strings.Contains(line, `"topicName":"T1"`) }))
			move("file")
			require.Equal(t, want, tableLines(javaTables(t, dir, "default")))
		})
	}
}

// Issue 9 part 10: a broker of ours and one of RocketMQ use the same databases in turn.
func TestPart10DatabasesAreShared(t *testing.T) {
	dir := t.TempDir()
	javaTables(t, dir, "defaultRocksDB", "make", "1")
	o := broker.DefaultOptions()
	o.BrokerClusterName, o.BrokerName, o.ListenPort, o.StorePathRootDir = "c", "b", 0, dir
	o.Store.StoreType, o.Store.MappedFileSizeCommitLog, o.Store.MaxHashSlotNum, o.Store.MaxIndexNum = store.StoreTypeRocksDB, 16<<20, 10_000, 40_000
	b, err := broker.Open(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	require.NoError(t, b.Start())
	adminMember(t, b)
	require.NoError(t, b.Close())
	got := tableLines(javaTables(t, dir, "defaultRocksDB"))
	require.Contains(t, got, "offset T1@g1 11 7")
	for _, name := range []string{`"topicName":"T1"`, `"topicName":"Odd1"`, `"topicName":"%RETRY%g"`, `"groupName":"g1"`, `"groupName":"g"`} {
		require.True(t, slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, name) }), name)
	}
}
