package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/message"
)

// putKeyed puts a message with a unique key, keys and a tag.
func putKeyed(t *testing.T, s *Store, topic, unique, keys, tags string) int64 {
	t.Helper()
	m := plainMessage(topic, unique)
	for _, p := range [][2]string{{message.PropertyUniqKey, unique}, {message.PropertyKeys, keys}, {message.PropertyTags, tags}} {
		if p[1] != "" {
			m.Properties = message.AppendProperty(m.Properties, p[0], p[1])
		}
	}
	r, err := s.Put(t.Context(), m)
	require.NoError(t, err)
	return r.Append.PhyOffset
}

// indexBehind returns how much of the log an index has not read.
func indexBehind(s *Store) int64 {
	n, _ := s.views.owedIndexes()
	return n
}

func awaitIndex(t *testing.T, s *Store) {
	t.Helper()
	require.Eventually(t, func() bool { return indexBehind(s) == 0 }, 10*time.Second, time.Millisecond)
}

func TestQuery(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	s := openStore(t, t.TempDir(), o)
	defer s.Close()
	const collides = "BB" // hashes like Aa
	at := []int64{
		putKeyed(t, s, "T", "u0", "Aa other", "tagA"),
		putKeyed(t, s, "T", "u1", collides, "tagB"),
		putKeyed(t, s, "U", "u2", "Aa", "tagA"),
		putKeyed(t, s, "T", "u3", "x  Aa", "tagA"),
		putKeyed(t, s, "T", "u4", "", ""),
	}
	awaitIndex(t, s)
	var res QueryResult
	defer res.Release()
	tests := []struct {
		name     string
		req      QueryRequest
		want     []int64
		rejected int
	}{
		{"a word of KEYS, and not what hashes alike", QueryRequest{Topic: "T", Key: "Aa"}, []int64{at[0], at[3]}, 1},
		{"the newest alone", QueryRequest{Topic: "T", Key: "Aa", Max: 1}, []int64{at[3]}, 0},
		{"what hashes alike does not count", QueryRequest{Topic: "T", Key: collides, Max: 1}, []int64{at[1]}, 1},
		{"unique key", QueryRequest{Topic: "T", Key: "u4", Type: index.TypeUniqKey}, []int64{at[4]}, 0},
		{"tags", QueryRequest{Topic: "T", Key: "tagA", Type: index.TypeTag}, []int64{at[0], at[3]}, 0},
		{"tags are no keys", QueryRequest{Topic: "T", Key: "tagA"}, nil, 0},
		{"another topic", QueryRequest{Topic: "U", Key: "Aa"}, []int64{at[2]}, 0},
		{"nothing", QueryRequest{Topic: "T", Key: "nobody"}, nil, 0},
		{"before there was anything", QueryRequest{Topic: "T", Key: "Aa", EndMs: 1000}, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.NoError(t, s.Query(tt.req, &res))
			var got []int64
			for _, m := range res.Messages {
				got = append(got, m.PhyOffset)
			}
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.rejected, res.Answer.Rejected)
			require.Equal(t, s.Positions().Wrote, res.IndexedTo)
		})
	}
}

// The bounds are the record's own store time, to the millisecond (I2).
func TestI2QueryBoundsAreExact(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	s := openStore(t, t.TempDir(), o)
	defer s.Close()
	var times []int64
	for range 3 {
		phy := putKeyed(t, s, "T", "", "k", "")
		ms, err := s.Log().StoreTimestamp(phy, 0)
		require.NoError(t, err)
		times = append(times, ms)
		time.Sleep(30 * time.Millisecond)
	}
	awaitIndex(t, s)
	var res QueryResult
	defer res.Release()
	for i, ms := range times {
		require.NoError(t, s.Query(QueryRequest{Topic: "T", Key: "k", BeginMs: ms, EndMs: ms}, &res))
		require.Len(t, res.Messages, 1, "message %d", i)
		require.NoError(t, s.Query(QueryRequest{Topic: "T", Key: "k", BeginMs: ms + 1}, &res))
		require.Len(t, res.Messages, len(times)-1-i)
	}
}

// A message that has expired, or that the index merely claims, is no answer.
func TestQueryOfAClosedStore(t *testing.T) {
	s := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	putKeyed(t, s, "T", "u", "k", "")
	awaitIndex(t, s)
	var res QueryResult
	require.NoError(t, s.Query(QueryRequest{Topic: "T", Key: "k"}, &res))
	require.NoError(t, s.Close())
	var r message.Record
	require.NoError(t, r.Decode(res.Messages[0].Record, true))
	require.Equal(t, "u", string(r.Body), "held beyond Close")
	res.Release()
	require.ErrorIs(t, s.Query(QueryRequest{Topic: "T", Key: "k"}, &res), ErrClosed)
}

func BenchmarkQuery(b *testing.B) {
	o := viewOptions(StoreTypeFile)
	o.MappedFileSizeCommitLog, o.MaxHashSlotNum, o.MaxIndexNum = 1<<30, 5_000_000, 20_000_000
	s, err := Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const messages = 500_000
	for i := range messages {
		m := plainMessage("T", "")
		m.Properties = message.AppendProperty(nil, message.PropertyKeys, fmt.Sprintf("key%d", i))
		if _, err := s.Put(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
	for indexBehind(s) > 0 {
		time.Sleep(time.Millisecond)
	}
	var res QueryResult
	defer res.Release()
	i := 0
	for b.Loop() {
		i = (i + 7919) % messages
		if err := s.Query(QueryRequest{Topic: "T", Key: fmt.Sprintf("key%d", i)}, &res); err != nil || len(res.Messages) != 1 {
			b.Fatal(err, len(res.Messages))
		}
	}
}
