//go:build interop

package interop

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// facts are what the log and the queues of a store have, by a scan of the log.
type facts struct {
	records []fact
	at      map[int64]*fact // by physical offset
	queues  []queueFacts
	known   map[cq.Key]*queueFacts
	tags    []string
	keys    []keyOf
	minPhy  int64
	end     int64
	perFile int64 // units of a queue file
	logFile int64
}

// fact is a record.
type fact struct {
	phy, size, ms int64
	topic         string
	keys          []string // words of KEYS and the unique key
	tags          string
}

type keyOf struct {
	topic, key string
	phy        int64
}

// queueFacts are a queue's bounds, and the store times of its records that are in the log, in order; the last one is of slot max-1.
type queueFacts struct {
	cq.Key
	min, max int64
	times    []int64
}

func learn(t *testing.T, s *store.Store, r *readStore) facts {
	t.Helper()
	o := r.options(t)
	f := facts{
		at: map[int64]*fact{}, known: map[cq.Key]*queueFacts{}, minPhy: s.Log().MinOffset(), end: s.Positions().Wrote,
		perFile: o.MappedFileSizeConsumeQueue / 20, logFile: o.MappedFileSizeCommitLog,
	}
	times := map[cq.Key][]int64{}
	tags := map[string]bool{}
	scan := s.Log().Scanner(-1, commitlog.ScanOptions{})
	defer scan.Close()
	for scan.Next() {
		r := scan.Record()
		x := fact{phy: r.PhyOffset, size: int64(r.TotalSize), ms: r.StoreTimestampMs, topic: string(r.Topic)}
		if v, ok := r.Property(message.PropertyUniqKey); ok {
			x.keys = append(x.keys, string(v))
		}
		if v, ok := r.Property(message.PropertyKeys); ok {
			x.keys = append(x.keys, strings.Fields(string(v))...)
		}
		if v, ok := r.Property(message.PropertyTags); ok {
			x.tags = string(v)
			tags[x.tags] = true
		}
		for _, key := range x.keys {
			f.keys = append(f.keys, keyOf{x.topic, key, x.phy})
		}
		f.records = append(f.records, x)
		if !r.OwesUnit() {
			continue
		}
		own := cq.Key{Topic: x.topic, QueueID: r.QueueID}
		times[own] = append(times[own], x.ms)
		r.MultiDispatch(func(queue []byte, id int32, _ int64, ok bool) bool {
			if k := (cq.Key{Topic: string(queue), QueueID: id}); ok {
				times[k] = append(times[k], x.ms)
			}
			return true
		})
	}
	require.NoError(t, scan.Err())
	for i := range f.records {
		f.at[f.records[i].phy] = &f.records[i]
	}
	f.tags = slices.Sorted(maps.Keys(tags))
	all := times
	for _, k := range keysOn(t, r) {
		if _, ok := all[k]; !ok {
			all[k] = nil
		}
	}
	for k, list := range all {
		b, ok, err := s.Bounds(k)
		require.NoError(t, err)
		if !ok {
			continue // a light queue where light queues are off
		}
		f.queues = append(f.queues, queueFacts{k, b.Min, b.Max, list})
	}
	slices.SortFunc(f.queues, func(a, b queueFacts) int { return a.Compare(b.Key) })
	for i := range f.queues {
		f.known[f.queues[i].Key] = &f.queues[i]
	}
	require.NotEmpty(t, f.queues)
	require.NotEmpty(t, f.records)
	return f
}

// keysOn lists the queues that RocketMQ's copy has, those too of which nothing is left.
func keysOn(t *testing.T, r *readStore) (all []cq.Key) {
	t.Helper()
	kinds := []cq.Kind{cq.KindFile}
	switch r.how.mode {
	case "rocks":
		kinds = []cq.Kind{cq.KindRocks}
	case "combine":
		kinds = append(kinds, cq.KindRocks)
	}
	for _, kind := range kinds {
		v, err := store.OpenView(r.theirs, store.ViewOptions{Kind: kind})
		require.NoError(t, err)
		keys, err := cq.SortedKeys(v.Queues)
		require.NoError(t, err)
		all = append(all, keys...)
		require.NoError(t, v.Close())
	}
	return all
}

// calls makes random calls.
type calls struct {
	*rand.Rand
	o *opened
}

func newCalls(o *opened, r *rand.Rand) *calls { return &calls{r, o} }

func (g *calls) make(n int) (list []call) {
	for range n {
		switch w := g.IntN(100); {
		case w < 50 || g.o.lost:
			list = append(list, g.get())
		case w < 68:
			list = append(list, g.time())
		case w < 73:
			q := g.queue()
			list = append(list, call{Op: "storeTime", Topic: q.Topic, QueueID: q.QueueID, Offset: g.offset(q)})
		case w < 76:
			q := g.queue()
			list = append(list, call{Op: "earliest", Topic: q.Topic, QueueID: q.QueueID})
		case w < 77:
			list = append(list, call{Op: "earliest"})
		case w < 81:
			q := g.queue()
			list = append(list, call{Op: one(g, "min", "max"), Topic: q.Topic, QueueID: q.QueueID})
		case w < 87:
			list = append(list, call{Op: one(g, "look", "select"), Offset: g.phy()})
		default:
			list = append(list, g.query())
		}
	}
	return list
}

func one[T any](g *calls, of ...T) T { return of[g.IntN(len(of))] }

// strangers are queues that no store has.
var strangers = []queueFacts{
	{Key: cq.Key{Topic: "nobody"}},
	{Key: cq.Key{Topic: "%RETRY%nobody"}},
	{Key: cq.Key{Topic: "%DLQ%nobody", QueueID: 3}},
	{Key: cq.Key{Topic: "%LMQ%nobody"}},
	{Key: cq.Key{Topic: "nobody", QueueID: -1}},
	{Key: cq.Key{Topic: strings.Repeat("n", 120), QueueID: math.MaxInt32}},
}

func (g *calls) queue() *queueFacts {
	if g.IntN(12) == 0 {
		if g.IntN(2) == 0 {
			return &strangers[g.IntN(len(strangers))]
		}
		q := *g.busy()
		q = queueFacts{Key: cq.Key{Topic: q.Topic, QueueID: 1000 + q.QueueID}}
		return &q
	}
	return g.busy()
}

func (g *calls) busy() *queueFacts { return &g.o.queues[g.IntN(len(g.o.queues))] }

func (g *calls) offset(q *queueFacts) int64 {
	switch g.IntN(10) {
	case 0, 1, 2, 3, 4, 5:
		if q.max > 0 {
			return g.Int64N(q.max)
		}
	case 6:
		return one(g, q.min, q.min-1, q.min+1, q.max, q.max-1, q.max+1)
	case 7: // around the ends of files
		if n := q.max / g.o.perFile; n > 0 {
			return (1+g.Int64N(n))*g.o.perFile + g.Int64N(5) - 2
		}
		return q.max
	case 8:
		return -g.Int64N(1000)
	}
	return one(g, 0, -1, math.MinInt64, math.MaxInt64, math.MinInt32, 1<<31, 1<<32+1, 1<<40, 1<<62, q.max+g.Int64N(1<<20), math.MaxInt64/20+q.max/2)
}

func (g *calls) get() call {
	q := g.queue()
	c := call{Op: "get", Topic: q.Topic, QueueID: q.QueueID, Offset: g.offset(q)}
	c.Count = one[int32](g, 1, 1, 2, 3, 7, 8, 9, 16, 31, 32, 32, 33, 64, 100, 799, 800, 801, 1500, 0, -1, math.MaxInt32)
	if g.IntN(3) == 0 {
		n := one[int32](g, 0, 1, -5, 99, 100, 101, 300, 777, 2000, 5000, 60_000, 1<<20, math.MaxInt32, int32(g.IntN(4000)))
		c.Bytes = &n
	}
	if g.o.lost {
		return c
	}
	switch g.IntN(5) {
	case 0:
		c.FilterType, c.Expression = "TAG", g.tags()
	case 1:
		c.FilterType, c.Expression = "SQL92", g.sql()
	}
	return c
}

func (g *calls) tag() string {
	if len(g.o.tags) == 0 || g.IntN(5) == 0 {
		return one(g, "NoSuchTag", "AaAa", "BBBB", "TagA")
	}
	return one(g, g.o.tags...)
}

func (g *calls) tags() string {
	switch g.IntN(6) {
	case 0:
		return "*"
	case 1:
		return "NoSuchTag"
	case 2:
		return g.tag() + " || " + g.tag() + "||" + g.tag()
	}
	return g.tag()
}

func (g *calls) sql() string {
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	switch g.IntN(9) {
	case 0:
		return one(g, "TRUE", "FALSE", "NULL", "nobody = 1", "nobody IS NULL")
	case 1:
		return "TAGS IS NULL OR TAGS = " + quoted(g.tag())
	case 2:
		return "TAGS IN (" + quoted(g.tag()) + ", " + quoted(g.tag()) + ")"
	case 3:
		return "KEYS IS NOT NULL AND TAGS <> " + quoted(g.tag())
	case 4:
		return "NOT (TAGS = " + quoted(g.tag()) + ")"
	case 5:
		return "n > 5 AND n <= 40 OR n IS NULL"
	case 6:
		return "n BETWEEN 3 AND 60 AND TAGS STARTSWITH 'Tag'"
	case 7:
		return "KEYS CONTAINS '1' OR UNIQ_KEY ENDSWITH '0'"
	}
	return "TAGS = " + quoted(g.tag())
}

// ms is a store time on, beside or between those of a queue.
func (g *calls) ms(q *queueFacts) int64 {
	if len(q.times) == 0 || g.IntN(8) == 0 {
		return one(g, 0, -1, 1, math.MaxInt64, math.MinInt64, g.o.records[0].ms, g.o.records[len(g.o.records)-1].ms+1)
	}
	first, last := q.times[0], q.times[len(q.times)-1]
	switch g.IntN(4) {
	case 0:
		return one(g, first-1, first, first+1, last-1, last, last+1, last+100_000)
	case 1:
		return min(first, last) + g.Int64N(max(first, last)-min(first, last)+1)
	}
	return one(g, q.times...) + one[int64](g, 0, 0, 1, -1)
}

func (g *calls) time() call {
	q := g.queue()
	return call{Op: "time", Topic: q.Topic, QueueID: q.QueueID, TimeMs: g.ms(q), Upper: g.IntN(2) == 0}
}

// phy is the offset of a record, or of none.
func (g *calls) phy() int64 {
	r := one(g, g.o.records...)
	switch g.IntN(10) {
	case 0:
		return r.phy + 1 + g.Int64N(r.size-1)
	case 1:
		return one(g, -1, g.o.end, g.o.end+1, g.o.end+g.o.logFile, math.MaxInt64, math.MinInt64, g.o.minPhy-1)
	case 2: // fillers at the ends of files
		end := (r.phy/g.o.logFile + 1) * g.o.logFile
		return end - 1 - g.Int64N(200)
	case 3:
		return r.phy + r.size
	}
	return r.phy
}

func (g *calls) query() call {
	c := call{Op: "query", Count: one[int32](g, 1, 2, 5, 32, 32, 64, 64, 100, math.MaxInt32), EndMs: math.MaxInt64}
	k := keyOf{topic: "nobody", key: "nobody", phy: g.o.records[0].phy}
	if len(g.o.keys) > 0 {
		k = one(g, g.o.keys...)
	}
	c.Topic, c.Key = k.topic, k.key
	c.IndexType = one(g, "", "", "K", "U")
	switch g.IntN(12) {
	case 0:
		c.Topic = g.busy().Topic
	case 1:
		c.Key = one(g, "nobody", "", "BB", "Aa", "AaAa", "BBBB")
	case 2, 3, 4:
		c.IndexType, c.Key = "T", g.tag()
	}
	ms := g.o.at[k.phy].ms
	switch g.IntN(5) {
	case 0:
		c.BeginMs, c.EndMs = ms, ms
	case 1:
		c.BeginMs, c.EndMs = ms-g.Int64N(3000), ms+1+g.Int64N(3000)
	case 2:
		c.BeginMs = ms + g.Int64N(2000) - 1000
	case 3:
		c.EndMs = ms + g.Int64N(2000) - 1000
	}
	return c
}
