package compare

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

func TestLayoutScenarios(t *testing.T) {
	requireScenarios(t, LayoutScenarios())
	for _, engine := range LayoutScenarios()[0].Engines {
		for _, sync := range []bool{false, true} {
			r := newTestRun(t, engine)
			require.NoError(t, runLayout(t.Context(), r, layoutSize{topics: 3, sync: sync, time: time.Minute, bytes: 4 * layoutGroup * layoutRecord}), engine)
			want := map[string]float64{sharedLog: 1, sharedLogQueues: 13, sharedLogRocks: 1, filePerTopic: 3, filePerQueue: 12}[engine]
			require.Equal(t, want, r.Figures["files"], engine) //nolint:testifylint // whole numbers
			require.Equal(t, int64(4), r.Latencies["group"].Samples)
			requireRun(t, r, "bytesPerSecond")
		}
	}
	require.ErrorContains(t, runLayout(t.Context(), newTestRun(t, "tape"), layoutSize{topics: 2}), `no layout "tape"`)
}

// With fewer descriptors than files everything is written all the same.
func TestLayoutOfMoreFilesThanDescriptors(t *testing.T) {
	l, err := newLayout(filePerQueue, t.TempDir(), layoutSize{topics: 2, sync: true})
	require.NoError(t, err)
	require.NoError(t, l.close())
	l.most = 3
	random := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		require.NoError(t, l.group(t.Context(), random, make([]byte, layoutRecord-layoutHeader)))
		require.LessOrEqual(t, len(l.open), 3)
	}
	require.NoError(t, l.check())
	require.NoError(t, l.close())
}

// What was not written, or not as it was to be, is found.
func TestLayoutCheck(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		at   int64
		want string
	}{
		"a flipped byte of a body":  {"log/all", 2000, "wrong checksum"},
		"a flipped byte of a unit":  {"queues/topic-00000/0", 3, "unit 0"},
		"a flipped byte of a queue": {"log/all", 7, "wrong checksum"},
	} {
		dir := t.TempDir()
		l, err := newLayout(sharedLogQueues, dir, layoutSize{topics: 2})
		require.NoError(t, err)
		require.NoError(t, l.group(t.Context(), rand.New(rand.NewPCG(1, 2)), make([]byte, layoutRecord-layoutHeader)))
		require.NoError(t, l.check())
		f, err := os.OpenFile(dir+"/"+c.file, os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{0xff}, c.at)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		err = l.check()
		require.ErrorContains(t, err, c.want, name)
		require.True(t, strings.HasPrefix(err.Error(), dir+"/"+c.file), err.Error())
		require.NoError(t, l.close())
	}
	if HasRocks {
		l, err := newLayout(sharedLogRocks, t.TempDir(), layoutSize{topics: 1})
		require.NoError(t, err)
		require.NoError(t, l.group(t.Context(), rand.New(rand.NewPCG(1, 2)), make([]byte, layoutRecord-layoutHeader)))
		require.NoError(t, l.awaitUnits(t.Context()))
		require.NoError(t, l.check())
		u := l.batch[0]
		require.NoError(t, l.rocks.Append(t.Context(), []cq.Entry{{Key: u.Key, QueueOffset: l.next[u.Key.QueueID], Unit: u.Unit}}))
		require.NoError(t, l.awaitUnits(t.Context()))
		require.EqualError(t, l.check(), fmt.Sprintf("%s has %d units in RocksDB, want %d", u.Key, l.next[u.Key.QueueID]+1, l.next[u.Key.QueueID]))
		require.NoError(t, l.close())
	}
	l, err := newLayout(filePerTopic, t.TempDir(), layoutSize{topics: 2})
	require.NoError(t, err)
	l.next[2]++
	require.EqualError(t, l.check(), "queue 2 has 0 records, want 1")
	require.NoError(t, l.close())
}
