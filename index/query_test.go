package index

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

// TestQueryModel compares random queries over several files with a search through the messages.
func TestQueryModel(t *testing.T) {
	x := open(t, smallFiles(newFS()))
	log := traffic(6, 1200, 0, startMs)
	require.NoError(t, x.Append(log))
	require.Len(t, x.files, 4)
	rnd := rand.New(rand.NewPCG(6, 6))
	span := log[len(log)-1].StoreTimestampMs - startMs
	hits := 0
	for range 3000 {
		q := Query{Topic: testTopic, Key: []string{"user1", "user7", "order1", "order999", fmt.Sprint("6-", rnd.IntN(1200)), "none"}[rnd.IntN(6)], Max: rnd.IntN(70)}
		if rnd.IntN(3) == 0 {
			q.Type, q.Key = TypeTag, []string{"tag", "tag1", "none"}[rnd.IntN(3)]
		}
		q.BeginMs = startMs + rnd.Int64N(span+4000) - 2000
		q.EndMs = q.BeginMs + rnd.Int64N(span)
		if rnd.IntN(4) == 0 {
			q.BeginMs = log[rnd.IntN(len(log))].StoreTimestampMs
		}
		within := func(phy int64) bool {
			ms := log[phy/100].StoreTimestampMs
			return ms >= q.BeginMs && ms <= q.EndMs
		}
		hash := HashKey([]byte(q.Topic), []byte(q.Key), q.Type)
		var want []int64
		for i := len(log) - 1; i >= 0 && len(want) < min(q.Max, 64); i-- {
			if slices.Contains(appendKeys(nil, &log[i], hashTopic(log[i].Topic)), hash) && within(log[i].PhyOffset) {
				want = append(want, log[i].PhyOffset)
			}
		}
		a, err := x.Query(q, within)
		require.NoError(t, err)
		require.Equal(t, want, a.PhyOffsets, "%+v", q)
		require.Zero(t, a.BadLinks)
		hits += len(want)
	}
	require.Greater(t, hits, 3000)
	require.NoError(t, x.Close())
}

// TestI2WholeSeconds: a message is found by bounds that are exactly its store time, which lies between two seconds of the file.
func TestI2WholeSeconds(t *testing.T) {
	x := open(t, smallFiles(newFS()))
	require.NoError(t, x.Append([]message.DispatchRequest{keyed(0, startMs, "u", "", ""), keyed(100, startMs+1999, "v", "", "")}))
	for _, c := range []struct {
		begin, end int64
		want       []int64
	}{
		{startMs + 1999, startMs + 1999, []int64{100}},
		{startMs + 2000, startMs + 3000, nil},
		{startMs + 1000, startMs + 1000, []int64{100}}, // may be it: the record has to tell
		{startMs, startMs + 999, nil},
		{math.MinInt64, math.MaxInt64, []int64{100}},
		{startMs + 1999, startMs + 1998, nil},
	} {
		a, err := x.Query(Query{Topic: testTopic, Key: "v", Max: 9, BeginMs: c.begin, EndMs: c.end}, nil)
		require.NoError(t, err)
		require.Equal(t, c.want, a.PhyOffsets, "[%d, %d]", c.begin-startMs, c.end-startMs)
	}
	require.NoError(t, x.Close())
}

// TestI7FRE02OnlyAcceptedHitsCount: keys and topics of one hash are told apart by the record, and hits turned down use up nothing.
func TestI7FRE02OnlyAcceptedHitsCount(t *testing.T) {
	x := open(t, smallFiles(newFS()))
	var log []message.DispatchRequest
	for i := range int64(300) {
		key, topic := "AaAa", "AaAa"
		if i%100 == 7 {
			key = "BBBB"
		}
		if i%2 == 0 {
			topic = "BBBB"
		}
		r := keyed(i*100, startMs, "", key, "")
		r.Topic = []byte(topic)
		log = append(log, r)
	}
	require.NoError(t, x.Append(log))
	q := Query{Topic: "AaAa", Key: "BBBB", Max: 2, EndMs: maxTimestampMs}
	a, err := x.Query(q, func(phy int64) bool {
		r := &log[phy/100]
		return string(r.Topic) == q.Topic && string(r.Keys) == q.Key
	})
	require.NoError(t, err)
	require.Equal(t, []int64{20700, 10700}, a.PhyOffsets)
	require.Equal(t, 299-107-1, a.Rejected)
	require.Equal(t, int64(1), int64(a.Files))
	a, err = x.Query(q, nil)
	require.NoError(t, err)
	require.Equal(t, []int64{29900, 29800}, a.PhyOffsets) // all are candidates
	require.NoError(t, x.Close())
}

// TestFRE03Clamp: no count and no number of steps goes beyond what is configured.
func TestFRE03Clamp(t *testing.T) {
	o := smallFiles(newFS())
	o.MaxResults = 10
	x := open(t, o)
	var log []message.DispatchRequest
	for i := range int64(600) {
		log = append(log, keyed(i*100, startMs, "", "k", ""))
	}
	require.NoError(t, x.Append(log))
	a, err := x.Query(Query{Topic: testTopic, Key: "k", Max: math.MaxInt32, EndMs: maxTimestampMs}, nil)
	require.NoError(t, err)
	require.Len(t, a.PhyOffsets, 10)
	require.LessOrEqual(t, cap(a.PhyOffsets), 10)
	require.Equal(t, int64(10), a.Steps)
	a, err = x.Query(Query{Topic: testTopic, Key: "k", Max: 5, EndMs: maxTimestampMs, MaxSteps: 100}, func(int64) bool { return false })
	require.NoError(t, err)
	require.Equal(t, Answer{LastMs: startMs, LastPhyOffset: 59900, Files: 1, Steps: 100, Rejected: 100, Limited: true}, a)
	for _, n := range []int{0, -1, math.MinInt} {
		a, err = x.Query(Query{Topic: testTopic, Key: "k", Max: n, EndMs: maxTimestampMs}, nil)
		require.NoError(t, err)
		require.Equal(t, Answer{LastMs: startMs, LastPhyOffset: 59900}, a)
	}
	require.NoError(t, x.Close())
}

// TestI3Chains: a chain that leads back, to itself, or out of the file ends there, with what was found until then.
func TestI3Chains(t *testing.T) {
	for _, link := range []int32{3, 2, 4, 699, 700, math.MaxInt32, -1, math.MinInt32} {
		x := open(t, smallFiles(newFS()))
		var log []message.DispatchRequest
		for i := range int64(3) {
			log = append(log, keyed(i*100, startMs, "", "k", ""))
		}
		require.NoError(t, x.Append(log))
		e := x.files[0].entry(2)
		e.prev = link
		x.files[0].setEntry(2, e)
		a, err := x.Query(Query{Topic: testTopic, Key: "k", Max: 9, EndMs: maxTimestampMs}, nil)
		require.NoError(t, err)
		require.Equal(t, []int64{200, 100}, a.PhyOffsets)
		require.Equal(t, 1, a.BadLinks)
		require.NotEmpty(t, x.Verify())

		x.files[0].setSlot(e.hash%1500, link)
		a, err = x.Query(Query{Topic: testTopic, Key: "k", Max: 9, EndMs: maxTimestampMs}, nil)
		require.NoError(t, err)
		if link > 3 || link < 0 {
			require.Empty(t, a.PhyOffsets)
			require.Equal(t, 1, a.BadLinks)
		}
		require.NoError(t, x.Close())
	}
}

// TestFRE07FileBeingWritten: the file being written is searched up to its last entry, also after a restart.
func TestFRE07FileBeingWritten(t *testing.T) {
	o := smallFiles(newFS())
	x := open(t, o)
	for i := range int64(50) {
		ms := startMs + i*5000
		require.NoError(t, x.Append([]message.DispatchRequest{keyed(i*100, ms, "", "k", "")}))
		if i%10 == 9 {
			require.NoError(t, x.Close())
			o.Unclean = i%20 == 19
			x = open(t, o)
		}
		a, err := x.Query(Query{Topic: testTopic, Key: "k", Max: 1, BeginMs: ms, EndMs: ms}, nil)
		require.NoError(t, err)
		require.Equal(t, []int64{i * 100}, a.PhyOffsets)
		require.Equal(t, []int64{ms, i * 100}, []int64{a.LastMs, a.LastPhyOffset})
	}
	require.NoError(t, x.Close())
}

// TestQueryBesideEverything asks while messages are added, flushed, cut and expired. What was added and is neither cut nor expired is
// always found. The race detector looks on, since the mappings are slices here.
func TestQueryBesideEverything(t *testing.T) {
	x := open(t, smallFiles(newFS()))
	log := traffic(7, 3000, 0, startMs)
	var mu sync.Mutex
	low, high := int64(0), int64(-1) // messages in [low, high] are in the index
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for g := range uint64(3) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(7, g))
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.Lock()
				lo, hi := low, high
				mu.Unlock()
				if hi < lo {
					continue
				}
				i := lo + rnd.Int64N(hi-lo+1)
				uniq := log[i].UniqKey
				a, err := x.Query(Query{Topic: testTopic, Key: fmt.Sprint("user", rnd.IntN(10)), Max: 64, EndMs: maxTimestampMs}, nil)
				if err != nil || !slices.IsSortedFunc(a.PhyOffsets, func(a, b int64) int { return int(b - a) }) || a.BadLinks > 0 {
					t.Errorf("query: %v %+v", err, a)
					return
				}
				if uniq == nil {
					continue
				}
				a, err = x.Query(Query{Topic: testTopic, Key: string(uniq), Max: 64, EndMs: maxTimestampMs}, nil)
				mu.Lock()
				stays := i >= low && i <= high
				mu.Unlock()
				if err != nil || stays && !slices.Contains(a.PhyOffsets, i*100) {
					t.Errorf("message %d is not found: %v %+v", i, err, a)
					return
				}
			}
		})
	}
	set := func(lo, hi int64) { mu.Lock(); low, high = lo, hi; mu.Unlock() }
	for i := int64(0); i < 3000; i += 20 {
		require.NoError(t, x.Append(log[i:i+20]))
		set(low, i+19)
		switch i / 20 % 10 {
		case 3:
			require.NoError(t, x.Flush())
		case 5:
			set(low, i+4)
			require.NoError(t, x.TruncateDirty((i+5)*100))
			require.NoError(t, x.Append(log[i+5:i+20]))
			set(low, i+19)
		case 7:
			minimum := max(0, i-600)
			set(minimum, high)
			_, err := x.Expire(minimum * 100)
			require.NoError(t, err)
		}
	}
	close(stop)
	wg.Wait()
	require.Less(t, len(x.files), 6)
	require.NoError(t, x.Close())
	_, err := x.Query(Query{Topic: testTopic, Key: "user1", Max: 1, EndMs: 1}, nil)
	require.ErrorIs(t, err, ErrClosed)
}
