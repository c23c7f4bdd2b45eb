//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/index"
	indexrocks "github.com/tandemq/tandemmq/index/rocks"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

const rocksIndexLog = 1 << 20

// indexQuestion and indexAnswer are lines of IndexCheck.
type (
	indexQuestion struct {
		Topic string `json:"topic"`
		Key   string `json:"key"`
		Type  string `json:"type"`
		Max   int    `json:"max"`
	}
	indexAnswer struct {
		Phys    string
		LastPhy int64
	}
)

// askIndex has RocketMQ put messages from to to and answer questions: physical offsets, and the last one indexed.
func askIndex(t *testing.T, dir string, from, to int, questions []indexQuestion) (answers [][]int64, last int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), javaLimit)
	defer cancel()
	var in, out, errs bytes.Buffer
	enc := json.NewEncoder(&in)
	for _, q := range questions {
		require.NoError(t, enc.Encode(q))
	}
	cmd := java.Command(ctx, storeCheck.classPath, t.TempDir(), jvm("512m"), "IndexCheck", dir, strconv.Itoa(from), strconv.Itoa(to), strconv.Itoa(rocksIndexLog))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &errs
	require.NoError(t, cmd.Run(), "%s", lastBytes(&errs, 4000))
	for line := range bytes.Lines(out.Bytes()) {
		var a indexAnswer
		if json.Unmarshal(line, &a) != nil || a.Phys == "" {
			continue // the store prints a line of its own here and there
		}
		var phys []int64
		require.NoError(t, json.Unmarshal([]byte(a.Phys), &phys))
		answers, last = append(answers, phys), a.LastPhy
	}
	require.Len(t, answers, len(questions), "%s", lastBytes(&out, 4000))
	return answers, last
}

// rocksIndexOptions are those of IndexCheck.
func rocksIndexOptions() store.Options {
	o := store.DefaultOptions()
	o.MappedFileSizeCommitLog = rocksIndexLog
	o.IndexRocksDBEnable, o.IndexFileWriteEnable, o.IndexFileReadEnable = true, false, false
	return o
}

// TestRocksIndexBothWays: RocketMQ and this module write the index in turns, and each finds all that the other wrote, the rows being the same.
func TestRocksIndexBothWays(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.Mkdir(dir, 0o755))
	total := 0
	for turn := range 4 {
		from := total
		total += 40
		if turn%2 == 0 {
			_, last := askIndex(t, dir, from, total, []indexQuestion{{"T", "u-0", "U", 1}})
			phys := logOf(t, dir)
			require.Equal(t, phys[len(phys)-1], last, "turn %d", turn)
		} else {
			putIndexed(t, dir, from, total)
		}
		phys := logOf(t, dir)
		require.Len(t, phys, total)
		requireRowsOfLog(t, dir)

		var questions []indexQuestion
		for i := range total {
			questions = append(questions, indexQuestion{"T", fmt.Sprint("k-", i), "K", 9}, indexQuestion{"T", fmt.Sprint("u-", i), "U", 9})
		}
		questions = append(questions, indexQuestion{"T", "all", "K", 64}, indexQuestion{"T", "t", "T", 64}, indexQuestion{"T", "none", "K", 9}, indexQuestion{"U", "all", "K", 9})
		copied := filepath.Join(t.TempDir(), "copy")
		require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
		java, _ := askIndex(t, copied, total, total, questions)
		s, err := store.Open(dir, rocksIndexOptions())
		require.NoError(t, err)
		require.Eventually(t, func() bool { return s.Watermarks().Views["rocks index"].BehindBytes == 0 }, 10*time.Second, time.Millisecond)
		for i, q := range questions {
			var res store.QueryResult
			require.NoError(t, s.Query(store.QueryRequest{Topic: q.Topic, Key: q.Key, Type: index.Type(q.Type[0]), Max: q.Max}, &res))
			require.True(t, res.Complete())
			var ours []int64
			for _, m := range res.Messages {
				ours = append(ours, m.PhyOffset)
			}
			res.Release()
			if q.Max == 64 {
				require.Len(t, java[i], min(total, 64)) // the oldest there, the newest here (I15)
				require.Equal(t, phys[max(0, total-64):], ours)
				continue
			}
			require.ElementsMatch(t, java[i], ours, "turn %d: %+v", turn, q)
		}
		for i := range total {
			require.Equal(t, []int64{phys[i]}, java[2*i], "k-%d", i)
			require.Equal(t, []int64{phys[i]}, java[2*i+1], "u-%d", i)
		}
		require.NoError(t, s.Close())
	}
}

// putIndexed puts what IndexCheck puts.
func putIndexed(t *testing.T, dir string, from, to int) {
	t.Helper()
	s, err := store.Open(dir, rocksIndexOptions())
	require.NoError(t, err)
	self := message.Host{Addr: netip.MustParseAddr("127.0.0.1"), Port: 10911}
	for i := from; i < to; i++ {
		m := message.Message{Topic: "T", Body: fmt.Appendf(nil, "message %d", i), BornHost: self, StoreHost: self}
		for _, p := range [][2]string{{message.PropertyKeys, fmt.Sprintf("k-%d all all", i)}, {message.PropertyUniqKey, fmt.Sprint("u-", i)}, {message.PropertyTags, "t"}} {
			m.Properties = message.AppendProperty(m.Properties, p[0], p[1])
		}
		_, err := s.Put(t.Context(), &m)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
}

// logOf returns the physical offsets of the records.
func logOf(t *testing.T, dir string) (phys []int64) {
	t.Helper()
	eachRecord(t, dir, func(r *message.Record) { phys = append(phys, r.PhyOffset) })
	return phys
}

func eachRecord(t *testing.T, dir string, fn func(r *message.Record)) {
	t.Helper()
	v, err := store.OpenView(dir, store.ViewOptions{LogOnly: true})
	require.NoError(t, err)
	defer v.Close()
	s := v.Log.Scanner(-1, commitlog.ScanOptions{})
	defer s.Close()
	for s.Next() {
		fn(s.Record())
	}
	require.NoError(t, s.Err())
}

// requireRowsOfLog compares the rows of the index, whoever wrote them, with those that the log's records have.
func requireRowsOfLog(t *testing.T, dir string) {
	t.Helper()
	var want, got []string
	eachRecord(t, dir, func(r *message.Record) {
		d := r.DispatchRequest(nil)
		for _, key := range indexrocks.Keys(nil, &d) {
			want = append(want, fmt.Sprintf("%x = %d", key, r.StoreTimestampMs))
		}
	})
	x, err := indexrocks.Open(store.NewLayout(dir).RocksIndexDir(), indexrocks.Options{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, x.Rows(func(r indexrocks.Row) bool {
		got = append(got, fmt.Sprintf("%x = %d", r.Key, r.StoreMs))
		return true
	}, func(err error) { t.Error(err) }))
	require.NoError(t, x.Close())
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
}
