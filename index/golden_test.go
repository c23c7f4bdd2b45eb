package index

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/tests/golden"
)

// goldenOptions are the geometries told in tests/golden/testdata/README.md.
func goldenOptions(name string) Options {
	if name == "file-roll" || name == "combine-upgrade" {
		return Options{HashSlots: 100, MaxEntries: 400}
	}
	return Options{HashSlots: 1000, MaxEntries: 4000}
}

// logRequests reads all records of a store directory.
func logRequests(tb testing.TB, root string) (requests []message.DispatchRequest) {
	tb.Helper()
	files, err := os.ReadDir(filepath.Join(root, "commitlog"))
	require.NoError(tb, err)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(root, "commitlog", f.Name()))
		require.NoError(tb, err)
		for {
			var r message.Record
			if r.Decode(b, true) != nil {
				break
			}
			requests = append(requests, r.DispatchRequest(nil))
			b = b[r.TotalSize:]
		}
	}
	require.NotEmpty(tb, requests)
	return requests
}

// firstRepeat returns the first message that RocketMQ added twice, which it does with the last one before a restart; -1 when there is
// none.
func firstRepeat(x *Index) int64 {
	type row struct {
		hash int32
		phy  int64
	}
	seen := map[row]bool{}
	for _, f := range x.files {
		for i := int32(1); i < f.head.count; i++ {
			e := f.entry(i)
			r := row{e.hash, e.phy}
			if seen[r] {
				return e.phy
			}
			seen[r] = true
		}
	}
	return -1
}

// TestGoldenBytes indexes the logs of RocketMQ's own stores and compares each file with RocketMQ's, byte for byte.
func TestGoldenBytes(t *testing.T) {
	files, repeats := 0, 0
	for _, name := range golden.Names() {
		t.Run(name, func(t *testing.T) {
			root := golden.Unpack(t, name)
			o := goldenOptions(name)
			theirs, err := Open(filepath.Join(root, "index"), o)
			require.NoError(t, err)
			require.Empty(t, theirs.Repairs())
			require.Empty(t, theirs.Verify())

			ours, err := Open(filepath.Join(t.TempDir(), "index"), o)
			require.NoError(t, err)
			requests := logRequests(t, root)
			if repeat := firstRepeat(theirs); repeat >= 0 {
				repeats++
				at := slices.IndexFunc(requests, func(r message.DispatchRequest) bool { return r.PhyOffset == repeat })
				require.NoError(t, ours.Append(requests[:at+1]))
				ours.last = lastMessage{phy: -1} // forget it, as RocketMQ does
				requests = requests[at:]
			}
			require.NoError(t, ours.Append(requests))
			require.Len(t, ours.Files(), len(theirs.Files()))
			for i, f := range theirs.files {
				if theirs.files[i].entry(1).diff > 0 { // RocketMQ's first time of a file (I2)
					e := ours.files[i].entry(1)
					e.diff = timeDiff(theirs.files[i-1].head.endMs, f.head.beginMs)
					ours.files[i].setEntry(1, e)
				}
				require.Empty(t, firstDifference(ours.files[i].b, f.b), f.path)
				files++
			}
			require.NoError(t, theirs.Close())
			require.NoError(t, ours.Close())
		})
	}
	require.Equal(t, 29, files)
	require.Equal(t, 1, repeats)
}

func firstDifference(got, want []byte) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d bytes, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d: %#x, want %#x", i, got[i], want[i])
		}
	}
	return ""
}

// TestGoldenQueries asks for every key of the manifests, in the index of RocketMQ and in one of ours, and compares with what RocketMQ
// answered.
func TestGoldenQueries(t *testing.T) {
	asked := 0
	for _, name := range golden.Names() {
		t.Run(name, func(t *testing.T) {
			root := golden.Unpack(t, name)
			theirs, err := Open(filepath.Join(root, "index"), goldenOptions(name))
			require.NoError(t, err)
			ours, err := Open(filepath.Join(t.TempDir(), "index"), goldenOptions(name))
			require.NoError(t, err)
			require.NoError(t, ours.Append(logRequests(t, root)))
			for _, k := range goldenKeys(t, name) {
				for _, x := range []*Index{theirs, ours} {
					a, err := x.Query(Query{Topic: k.Topic, Key: k.Key, Max: 64, EndMs: maxTimestampMs}, nil)
					require.NoError(t, err)
					require.IsDecreasing(t, append(a.PhyOffsets, -1))
					slices.Reverse(a.PhyOffsets)
					require.Equal(t, k.Offsets, a.PhyOffsets, "%s#%s", k.Topic, k.Key)
				}
				asked++
			}
			require.NoError(t, theirs.Close())
			require.NoError(t, ours.Close())
		})
	}
	require.Greater(t, asked, 1000)
}

type goldenKey struct {
	T       string  `json:"t"`
	Topic   string  `json:"topic"`
	Key     string  `json:"key"`
	Offsets []int64 `json:"offsets"`
}

func goldenKeys(t *testing.T, name string) (keys []goldenKey) {
	f, err := os.Open(filepath.Join("..", "tests", "golden", "testdata", name+".manifest.jsonl.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for d := json.NewDecoder(z); ; {
		var k goldenKey
		if err := d.Decode(&k); errors.Is(err, io.EOF) {
			return keys
		} else if err != nil {
			require.NoError(t, err)
		}
		if k.T == "key" {
			keys = append(keys, k)
		}
	}
}
