package index

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/message"
)

const (
	testTopic = "topic"
	testDir   = "/store/index"
	startMs   = int64(1_700_000_000_000)
)

// smallFiles have a few pages each: slots and entries begin and end inside of pages, and some entries lie in two.
func smallFiles(fsys *faultfs.FS) Options {
	return Options{HashSlots: 1500, MaxEntries: 700, FS: fsys, Now: func() time.Time { return time.Date(2026, 11, 29, 21, 14, 6, 563e6, time.UTC) }}
}

func newFS() *faultfs.FS {
	fsys := faultfs.New(faultfs.Options{})
	fsys.MkdirAll("/store")
	return fsys
}

func open(tb testing.TB, o Options) *Index {
	tb.Helper()
	x, err := Open(testDir, o)
	require.NoError(tb, err)
	return x
}

// keyed makes a message with a unique key and further keys.
func keyed(phy, storeMs int64, uniq, keys, tags string) message.DispatchRequest {
	r := message.DispatchRequest{Topic: []byte(testTopic), PhyOffset: phy, Size: 100, StoreTimestampMs: storeMs, Keys: []byte(keys)}
	if uniq != "" {
		r.UniqKey = []byte(uniq)
	}
	if tags != "" {
		r.Tags = []byte(tags)
	}
	return r
}

// traffic makes n messages from physical offset phy on, some with several keys, some with none; keys are seldom the same.
func traffic(seed uint64, n int, phy, storeMs int64) []message.DispatchRequest {
	rnd := rand.New(rand.NewPCG(seed, 1))
	batch := make([]message.DispatchRequest, n)
	for i := range batch {
		uniq, keys, tags := fmt.Sprintf("%d-%d", seed, i), "", ""
		switch rnd.IntN(5) {
		case 0:
			keys = fmt.Sprintf("order%d user%d order%d", rnd.IntN(1000), rnd.IntN(10), rnd.IntN(3))
		case 1:
			tags = fmt.Sprintf("tag%d", rnd.IntN(3))
		case 2:
			keys, tags = fmt.Sprintf("user%d", rnd.IntN(10)), "tag"
		case 3:
			uniq = ""
		}
		batch[i] = keyed(phy, storeMs, uniq, keys, tags)
		phy += 100
		storeMs += rnd.Int64N(900)
	}
	return batch
}

// images copies the files of an index.
func images(x *Index) (all [][]byte) {
	for _, f := range x.files {
		all = append(all, append([]byte(nil), f.b...))
	}
	return all
}

// reference is what the files of an index are to be that was never cut off.
func reference(tb testing.TB, batch []message.DispatchRequest) [][]byte {
	x := open(tb, smallFiles(newFS()))
	require.NoError(tb, x.Append(batch))
	defer x.Close()
	return images(x)
}

// since returns the messages at or above a physical offset.
func since(batch []message.DispatchRequest, phy int64) []message.DispatchRequest {
	for i := range batch {
		if batch[i].PhyOffset >= phy {
			return batch[i:]
		}
	}
	return nil
}

func requireImages(tb testing.TB, want [][]byte, x *Index, what ...any) {
	tb.Helper()
	require.Len(tb, x.files, len(want), what...)
	for i, f := range x.files {
		require.Empty(tb, firstDifference(f.b, want[i]), what...)
	}
}

// find queries everything.
func find(tb testing.TB, x *Index, key string) []int64 {
	tb.Helper()
	a, err := x.Query(Query{Topic: testTopic, Key: key, Max: 64, EndMs: maxTimestampMs}, nil)
	require.NoError(tb, err)
	return a.PhyOffsets
}
