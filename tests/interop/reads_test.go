//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/filter"
	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

// Environment variables: another seed for the random calls, and another number of them for each store.
const (
	readSeed  = "TANDEMMQ_READ_SEED"
	readCalls = "TANDEMMQ_READ_CALLS"
)

const (
	defaultReadCalls = 500
	readJobs         = 12 // most of the time that one takes is the store's own sleeping at shutdown
)

// call is a line of Ask's questions.
type call struct {
	Op         string `json:"op"`
	Topic      string `json:"topic,omitempty"`
	QueueID    int32  `json:"queueId"`
	Offset     int64  `json:"offset"`
	Count      int32  `json:"count"`
	Bytes      *int32 `json:"bytes,omitempty"`
	FilterType string `json:"filterType,omitempty"`
	Expression string `json:"expression,omitempty"`
	Upper      bool   `json:"upper,omitempty"`
	TimeMs     int64  `json:"time"`
	Key        string `json:"key,omitempty"`
	IndexType  string `json:"indexType,omitempty"`
	BeginMs    int64  `json:"begin"`
	EndMs      int64  `json:"end"`
}

// answer is a line of Ask's, or ours of the same call.
type answer struct {
	Status   string     `json:"status,omitempty"`
	Next     int64      `json:"next"`
	Min      int64      `json:"min"`
	Max      int64      `json:"max"`
	Total    int64      `json:"total"`
	Slave    bool       `json:"slave"`
	Messages []message4 `json:"messages,omitempty"`
	Value    int64      `json:"value"`
	None     bool       `json:"none,omitempty"`
	Failure  string     `json:"failure,omitempty"`
}

// message4 is queue offset, physical offset, size and CRC-32 of a record; a queue offset that the call does not tell is -1.
type message4 [4]int64

func (a *answer) String() string {
	b, _ := json.Marshal(a)
	return lastBytes(bytes.NewBuffer(b), 600)
}

func (c *call) String() string {
	b, _ := json.Marshal(c)
	return string(b)
}

// readStore is a store of the test: two copies of one directory, and how both are opened.
type readStore struct {
	name         string
	ours, theirs string
	how          how
	config       map[string]string // further properties, of both
	steps        bool              // its store times fall now and then
	lost         bool              // units of it lead nowhere: only gets are made
	calls        []call
}

// options are ours, as how is RocketMQ's.
func (r *readStore) options(t *testing.T) store.Options {
	t.Helper()
	h := r.how
	p := map[string]string{
		"cleanFileForciblyEnable": "false", "diskMaxUsedSpaceRatio": "95", "fileReservedTime": "400000",
		"enableLmq": strconv.FormatBool(h.lmq), "enableMultiDispatch": strconv.FormatBool(h.lmq),
		"useSeparateStorePathForRocksdbCQ": strconv.FormatBool(h.separate),
	}
	types := map[string]string{"": "default", "file": "default", "rocks": "defaultRocksDB"}
	switch h.mode {
	case "rocks":
		p["storeType"] = types["rocks"]
	case "combine":
		p["rocksdbCQDoubleWriteEnable"] = "true"
		p["combineCQPreferCQType"], p["combineAssignOffsetCQType"] = types[h.prefer], types[h.assign]
		p["combineCQUseRocksdbForLmq"] = strconv.FormatBool(h.lmqRocks)
	}
	for name, n := range map[string]int64{
		"mappedFileSizeCommitLog": h.sizes.commitLog, "mappedFileSizeConsumeQueue": h.sizes.queue,
		"maxHashSlotNum": h.sizes.indexSlots, "maxIndexNum": h.sizes.indexEntries,
	} {
		if n > 0 {
			p[name] = strconv.FormatInt(n, 10)
		}
	}
	maps.Copy(p, r.config)
	o, notes, err := store.ParseOptions(p)
	require.NoError(t, err)
	require.Empty(t, notes)
	return o
}

func (r *readStore) words(calls, out string) []string {
	w := job{dir: r.theirs, how: r.how}.words(out)
	w[0] = "ask"
	var config string
	for _, name := range slices.Sorted(maps.Keys(r.config)) {
		config += "," + name + "=" + r.config[name]
	}
	return append(w, "--calls", calls, "--config", config)
}

// The same calls on copies of one directory: statuses, next offsets, bounds, messages, times and key answers are RocketMQ's, but for the differences of
// docs/decisions/0007, each of which is just what is written there.
func TestReadsAreRocketMQs(t *testing.T) {
	t.Parallel()
	seed, n := uint64(7), defaultReadCalls
	for name, set := range map[string]func(v uint64){readSeed: func(v uint64) { seed = v }, readCalls: func(v uint64) { n = int(v) }} {
		if text := os.Getenv(name); text != "" {
			v, err := strconv.ParseUint(text, 10, 32)
			require.NoError(t, err, name)
			set(v)
		}
	}
	t.Logf("%s=%d %s=%d", readSeed, seed, readCalls, n)
	stores := readStores(t)
	open := map[string]*opened{}
	dir := t.TempDir()
	var commands [][]string
	for i, r := range stores {
		o := openRead(t, r)
		if r.lost { // of our copy while it is open: opening would mend them
			loseUnits(t, r.ours)
			loseUnits(t, r.theirs)
		}
		open[r.name] = o
		r.calls = newCalls(o, rand.New(rand.NewPCG(seed, uint64(i)))).make(n)
		var lines bytes.Buffer
		enc := json.NewEncoder(&lines)
		for _, c := range r.calls {
			require.NoError(t, enc.Encode(c))
		}
		calls := filepath.Join(dir, fmt.Sprintf("calls-%d", i))
		require.NoError(t, os.WriteFile(calls, lines.Bytes(), 0o644))
		commands = append(commands, r.words(calls, outFile(dir, i)))
	}
	broker, err := java.BuildBroker(t.Context())
	require.NoError(t, err)
	failures := runBatch(t, storeCheck.classPath+string(os.PathListSeparator)+broker, readJobs, commands)

	whole := newTally()
	for i, r := range stores {
		t.Run(r.name, func(t *testing.T) {
			require.Empty(t, failures[i])
			theirs := readAnswers(t, outFile(dir, i))
			require.Len(t, theirs, len(r.calls))
			wrong := 0
			for k := range r.calls {
				c := &r.calls[k]
				mine := open[r.name].ask(t, c)
				what, ok := open[r.name].compare(c, &mine, &theirs[k])
				whole.count(c, &mine, what)
				if !ok {
					if wrong++; wrong <= 8 {
						t.Errorf("seed %d, call %d: %s: %s\nours:     %s\nRocketMQ: %s", seed, k, what, c, &mine, &theirs[k])
					}
				}
			}
			require.Zero(t, wrong, "calls that differ, of %d", len(r.calls))
		})
	}
	whole.log(t)
	if n >= defaultReadCalls {
		whole.requireBroad(t)
	}
}

func readAnswers(t *testing.T, file string) (all []answer) {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		if !bytes.HasPrefix(s.Bytes(), []byte("{")) {
			continue
		}
		var a answer
		require.NoError(t, json.Unmarshal(s.Bytes(), &a))
		all = append(all, a)
	}
	require.NoError(t, s.Err())
	return all
}

// opened is a store opened by us.
type opened struct {
	*readStore
	s *store.Store
	facts
}

func openRead(t *testing.T, r *readStore) *opened {
	t.Helper()
	s := r.open(t)
	t.Cleanup(func() { require.NoError(t, s.Close(), r.name) })
	return &opened{readStore: r, s: s, facts: learn(t, s, r)}
}

// open opens our copy and waits until everything is dispatched and built.
func (r *readStore) open(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(r.ours, r.options(t))
	require.NoError(t, err, r.name)
	require.Eventually(t, func() bool {
		for _, v := range s.Watermarks().Views {
			if v.BehindBytes != 0 || v.Rebuilding != nil || v.Broken != 0 {
				return false
			}
		}
		return true
	}, 30*time.Second, 5*time.Millisecond, r.name)
	return s
}

// ask answers a call through the library.
func (o *opened) ask(t *testing.T, c *call) (a answer) {
	t.Helper()
	var err error
	boundary := cq.BoundaryLower
	if c.Upper {
		boundary = cq.BoundaryUpper
	}
	switch c.Op {
	case "get":
		a, err = o.get(t, c)
	case "time":
		a.Value, err = o.s.OffsetByTime(c.Topic, c.QueueID, c.TimeMs, boundary)
	case "storeTime":
		a.Value, err = o.s.StoreTime(c.Topic, c.QueueID, c.Offset)
	case "earliest":
		if c.Topic == "" {
			a.Value, err = o.s.EarliestStoreTime()
		} else {
			a.Value, err = o.s.EarliestTime(c.Topic, c.QueueID)
		}
	case "min":
		a.Value, err = o.s.MinOffset(c.Topic, c.QueueID)
	case "max":
		a.Value, err = o.s.MaxOffset(c.Topic, c.QueueID)
	case "look", "select":
		var r message.Record
		var release func()
		release, err = o.s.MessageAt(c.Offset, &r)
		if errors.Is(err, store.ErrNoMessage) {
			return answer{None: true}
		}
		require.NoError(t, err)
		defer release()
		m := message4{r.QueueOffset, r.PhyOffset, int64(r.TotalSize), int64(crc32.ChecksumIEEE(r.Body))}
		if c.Op == "select" {
			m[0], m[3] = -1, int64(crc32.ChecksumIEEE(r.Raw))
		}
		a.Messages = []message4{m}
	case "query":
		a, err = o.query(c)
	}
	require.NoError(t, err, "%s", c)
	return a
}

func (o *opened) get(t *testing.T, c *call) (a answer, err error) {
	t.Helper()
	req := store.GetRequest{Topic: c.Topic, QueueID: c.QueueID, Offset: c.Offset, MaxMessages: int(c.Count)}
	if c.Bytes != nil {
		req.MaxBytes = max(int(*c.Bytes), 1) // 0 is no bound for us, and RocketMQ's least
	}
	if c.FilterType != "" {
		f, err := filter.Compile(c.FilterType, c.Expression, filter.Options{})
		require.NoError(t, err)
		req.Filter = &store.Filter{Unit: f.MatchUnit, Record: func(r *message.Record) bool { return f.MatchRecord(r.Properties) }}
	}
	var res store.GetResult
	if err := o.s.Get(&req, &res); err != nil {
		return a, err
	}
	defer res.Release()
	a = answer{
		Status: res.Status.String(), Next: res.NextOffset, Min: res.MinOffset, Max: res.MaxOffset, Total: int64(res.Bytes), Slave: res.SuggestSlave,
	}
	for _, m := range res.Messages {
		a.Messages = append(a.Messages, message4{m.QueueOffset, m.PhyOffset, int64(len(m.Record)), int64(crc32.ChecksumIEEE(m.Record))})
	}
	return a, nil
}

var indexTypes = map[string]index.Type{"": 0, "K": index.TypeKey, "U": index.TypeUniqKey, "T": index.TypeTag}

func (o *opened) query(c *call) (a answer, err error) {
	var res store.QueryResult
	err = o.s.Query(store.QueryRequest{
		Topic: c.Topic, Key: c.Key, Type: indexTypes[c.IndexType], Max: int(c.Count), BeginMs: c.BeginMs, EndMs: c.EndMs,
	}, &res)
	if errors.Is(err, store.ErrNoIndex) {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	defer res.Release()
	a.Value = res.Answer.LastPhyOffset
	for _, m := range res.Messages {
		a.Messages = append(a.Messages, message4{-1, m.PhyOffset, int64(len(m.Record)), int64(crc32.ChecksumIEEE(m.Record))})
	}
	return a, nil
}
