//go:build interop

package interop

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// A switched store: what `migrate run --json` or `migrate rollback --json` says about the side that reads belong to now.
type switched struct {
	BrokerConf []string `json:"brokerConf"`
	DualConf   []string `json:"dualConf"`
}

// migrateRun moves the store's queues and cuts over.
func migrateRun(t *testing.T, dir string, options ...string) switched {
	t.Helper()
	r := tandemmq.MustRun(t, append([]string{"migrate", "run", "--store", dir, "--yes", "--json"}, options...)...)
	var out struct{ Cutover *switched }
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &out), r.Stdout)
	require.NotNil(t, out.Cutover, r.Stdout)
	return *out.Cutover
}

// migrateRollback gives reads back to the side the queues came from.
func migrateRollback(t *testing.T, dir string) switched {
	t.Helper()
	r := tandemmq.MustRun(t, "migrate", "rollback", "--store", dir, "--yes", "--json")
	var out switched
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &out), r.Stdout)
	return out
}

// configured is how RocketMQ opens the store when an operator puts the printed lines into broker.conf: these lines alone
// choose the mode. The sizes of log and index files are no business of a move and stay as the store had them.
func configured(t *testing.T, conf []string, m *golden.Listing) how {
	t.Helper()
	h := openedAs(m, "file")
	h.lmq = false
	h.sizes.queue = 0
	set := map[string]string{}
	for _, line := range conf {
		key, value, ok := strings.Cut(line, "=")
		require.True(t, ok, line)
		require.NotContains(t, set, key, "two lines for one key: %v", conf)
		set[key] = value
	}
	take := func(key string) string {
		v := set[key]
		delete(set, key)
		return v
	}
	kinds := map[string]string{"default": golden.File, "defaultRocksDB": golden.Rocks}
	storeType := take("storeType")
	require.Contains(t, kinds, storeType, conf)
	h.mode = kinds[storeType]
	if take("rocksdbCQDoubleWriteEnable") == "true" {
		require.Equal(t, golden.File, h.mode, "dual write works with storeType=default only: %v", conf)
		h.mode = "combine"
		h.prefer, h.assign = kinds[take("combineCQPreferCQType")], kinds[take("combineAssignOffsetCQType")]
		h.lmqRocks = take("combineCQUseRocksdbForLmq") == "true"
	}
	h.separate = take("useSeparateStorePathForRocksdbCQ") == "true"
	if lmq := take("enableLmq"); lmq != "" {
		require.Equal(t, lmq, take("enableMultiDispatch"), conf)
		h.lmq = lmq == "true"
	}
	if size := take("mappedFileSizeConsumeQueue"); size != "" {
		bytes, err := strconv.ParseInt(size, 10, 64)
		require.NoError(t, err, conf)
		h.sizes.queue = bytes
	}
	require.Empty(t, set, "a line this program does not know")
	return h
}
