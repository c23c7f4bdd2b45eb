package crash

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

// workRun is a store that is worked on and killed over and over, and what has to be in it.
type workRun struct {
	view    viewMode
	root    string
	seed    uint64
	rng     *rand.Rand
	runs    int
	met     reach
	putMode putMode // of the check
	damaged bool    // a test has taken something away
	stays   bool    // processes do not close and open the store
	keep    int64   // log files that retention leaves
	online  bool    // somebody migrates the store while processes work

	due  map[key]place    // acknowledged and promised, or seen in the log. phy -1: not told, it is at or above since
	from map[key]int64    // physical offset at or above which the record is
	next map[queue]int64  // what comes next at least
	read consumer         // goes on in the next process
	seen map[queue][]seen // what the consumer got, in order
}

type seen struct {
	at  int64
	key key
}

func newWorkRun(view viewMode, root string, seed uint64, met reach) *workRun {
	return &workRun{
		view: view, root: root, seed: seed, putMode: putModes[0], keep: workKeep, rng: rand.New(rand.NewPCG(seed, 1)), met: met, due: make(map[key]place), from: make(map[key]int64),
		next: make(map[queue]int64), read: consumer{next: make(map[queue]int64)}, seen: make(map[queue][]seen),
	}
}

func (r *workRun) String() string {
	return fmt.Sprintf("seed %d, %s, process %d", r.seed, r.view.name, r.runs)
}

// kill has a process work and kills it: after a while, or at a place that it reaches (place:count).
func (r *workRun) kill(t *testing.T, place string) {
	r.runs++
	mode := putModes[r.rng.IntN(len(putModes))]
	do := workOrders{
		Root: r.root, View: r.view.name, Mode: mode.name, Run: r.runs, Producers: 1 + r.rng.IntN(6), Seed: r.rng.Uint64(), Closes: r.rng.IntN(3) == 0 && !r.stays, Online: r.online,
	}
	for _, q := range workQueues() {
		if n := r.read.next[q]; n > 0 {
			do.Next = append(do.Next, consumed{Queue: q, Next: n})
		}
	}
	text, err := json.Marshal(do)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workEnv+"="+string(text))
	out := &output{seen: make(chan struct{})}
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &stderr
	wait := time.Duration(r.rng.Int64N(int64(150 * time.Millisecond)))
	fromOpen := r.rng.IntN(4) != 0 // otherwise the kill may meet the store being opened
	if place != "" {
		cmd.Env = append(cmd.Env, failpointEnv+"="+place)
		wait, fromOpen = 2*time.Second, false
	}
	require.NoError(t, cmd.Start())
	if fromOpen {
		select {
		case <-out.seen:
		case <-time.After(5 * time.Second):
		}
	}
	timer := time.AfterFunc(wait, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	if name, _, ok := strings.Cut(place, ":"); ok && timer.Stop() {
		r.met["at "+name]++
	}
	timer.Stop()
	require.Equal(t, -1, cmd.ProcessState.ExitCode(), "%v: it ended by itself: %s", r, &stderr)
	r.note(t, out.lines.Bytes(), mode.pooled)
}

// failpointEnv is failpoint.Env.
const failpointEnv = "TANDEMMQ_FAILPOINT"

// note takes down the lines of a process.
func (r *workRun) note(t *testing.T, lines []byte, pooled bool) {
	if len(lines) == 0 {
		r.met["killed before open"]++
	}
	var all []acked
	committed := int64(0)
	for line := range bytes.Lines(lines) {
		var s spoken
		require.NoError(t, json.Unmarshal(line, &s), "%q", line)
		r.met["files removed"] += s.Removed
		if s.Step != "" {
			r.met["step "+s.Step]++
		}
		switch {
		case s.Removed > 0:
			require.GreaterOrEqual(t, s.Kept, int64(workKeep*workLogFile), "%v: retention left too little", r)
		case s.Opened > 1:
			r.met["closed and opened"]++
		case s.Acked != nil:
			all = append(all, *s.Acked)
			committed = max(committed, s.Acked.Committed)
		case s.Consumed != nil:
			r.consume(t, s.Consumed)
		}
	}
	for _, a := range all {
		if !pooled || a.Phy+a.Bytes <= committed {
			r.owe(a)
		}
	}
}

// owe takes down an acknowledgement.
func (r *workRun) owe(a acked) {
	q := queue{a.Topic, a.QueueID}
	for i := range a.Count {
		k := a.First
		k.I = i
		p := place{q, a.Offset + int64(i), -1}
		if i == 0 {
			p.phy = a.Phy
		}
		if a.Unitless {
			p.offset = -1
		} else {
			r.next[q] = max(r.next[q], p.offset+1)
		}
		r.due[k], r.from[k] = p, a.Phy
		r.met["acknowledged"]++
	}
}

// consume takes down what the consumer got.
func (r *workRun) consume(t *testing.T, c *consumed) {
	require.Empty(t, c.Bad, "%v: the consumer of %+v asked at %d", r, c.Queue, c.From)
	require.Equal(t, r.read.next[c.Queue], c.From, "%v: %+v", r, c.Queue)
	for i, k := range c.Keys {
		r.seen[c.Queue] = append(r.seen[c.Queue], seen{c.At[i], k})
		r.met["consumed"]++
	}
	r.read.next[c.Queue] = c.Next
}

// verify opens the store and requires what was promised, puts a little, closes it and holds what is on disk against the log.
func (r *workRun) verify(t *testing.T) {
	if !r.damaged && requireClaims(t, r.root, r.view, r.String()) > 0 {
		r.met["checkpoints held against the log"]++
	}
	r.damaged = false
	s, err := store.Open(r.root, r.view.options(r.putMode))
	require.NoError(t, err, r)
	r.await(t, s)
	tr := truthOf(t, s.Log())
	r.requireDue(t, tr)
	r.readOn(t, s, tr)
	r.lookUp(t, s, tr)
	r.putMore(t, s)
	require.NoError(t, s.Close(), r)
	rep, err := store.Check(t.Context(), r.root, store.CheckOptions{Deep: true})
	require.NoError(t, err, r)
	require.True(t, rep.Sound, "%v: %v", r, rep.Findings)
	require.False(t, rep.Unclean, r)
	for _, kind := range r.view.kinds {
		v, err := store.OpenView(r.root, store.ViewOptions{Kind: kind})
		require.NoError(t, err, r)
		tr = truthOf(t, v.Log)
		r.requireDue(t, tr)
		tr.agree(t, v.Queues, r.view, r.next, r.String())
		require.NoError(t, v.Close())
	}
	r.met["verified"]++
}

// await waits until the index has come to the end of the log; the queues have when the store is open.
func (r *workRun) await(t *testing.T, s *store.Store) {
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(time.Millisecond) {
		behind := int64(0)
		for _, v := range s.Watermarks().Views {
			behind += v.BehindBytes
			if v.Rebuilding != nil {
				behind++
			}
			require.Empty(t, v.Failure, r)
		}
		if behind == 0 {
			return
		}
	}
	require.Fail(t, "views do not come to the end of the log", r)
}

// requireDue requires what was acknowledged, and takes down what else there is: it has been seen, so it must stay.
func (r *workRun) requireDue(t *testing.T, tr *truth) {
	require.LessOrEqual(t, tr.min, max(tr.end-(r.keep-1)*workLogFile, 0), "%v: retention took more than it should: the log is [%d, %d)", r, tr.min, tr.end)
	for k, want := range r.due {
		have, ok := tr.keys[k]
		if !ok {
			if r.from[k] >= tr.min {
				require.Failf(t, "an acknowledged message is lost", "%v: %+v of %+v; the log is [%d, %d)", r, k, want, tr.min, tr.end)
			}
			delete(r.due, k) // it has expired
			delete(r.from, k)
			continue
		}
		if want.phy < 0 {
			have.phy = want.phy
		}
		if have != want {
			require.Failf(t, "a message is elsewhere than its producer was told", "%v: %+v: got %+v, want %+v", r, k, have, want)
		}
	}
	for k, p := range tr.keys {
		r.due[k], r.from[k] = p, p.phy
	}
	for q, s := range tr.queues {
		if s.next() < r.next[q] {
			require.Failf(t, "offsets of a queue fell back", "%v: %+v: got %d, want %d", r, q, s.next(), r.next[q])
		}
		r.next[q] = s.next()
	}
}

// readOn brings the consumer to the end, and requires that it got every message once, in order.
func (r *workRun) readOn(t *testing.T, s *store.Store, tr *truth) {
	for _, q := range workQueues() {
		for {
			c, err := r.read.pull(s, q)
			require.NoError(t, err, "%v: %+v", r, q)
			if c == nil {
				break
			}
			r.read.next[q] = c.From
			r.consume(t, c)
		}
		want := tr.queues[q]
		if want == nil {
			continue
		}
		require.Equal(t, want.next(), r.read.next[q], "%v: %+v", r, q)
		got := r.seen[q]
		for i := range got {
			if i > 0 && got[i].at <= got[i-1].at {
				require.Failf(t, "the consumer went back", "%v: %+v: %+v after %+v", r, q, got[i], got[i-1])
			}
		}
		first, _ := slices.BinarySearchFunc(got, want.from, func(s seen, at int64) int { return cmp.Compare(s.at, at) })
		got = got[first:]
		if len(got) != len(want.keys) {
			require.Failf(t, "the consumer missed messages", "%v: %+v: got %d from %d on, want %d", r, q, len(got), want.from, len(want.keys))
		}
		for i, k := range want.keys {
			if got[i] != (seen{want.from + int64(i), k}) {
				require.Failf(t, "the consumer got another message", "%v: %+v: got %+v, want %+v at %d", r, q, got[i], k, want.from+int64(i))
			}
		}
		r.seen[q] = slices.Clone(got) // without what has expired
	}
}

// lookUp asks the index for some of the messages.
func (r *workRun) lookUp(t *testing.T, s *store.Store, tr *truth) {
	keys := slices.SortedFunc(maps.Keys(tr.keys), func(a, b key) int { return cmp.Compare(tr.keys[a].phy, tr.keys[b].phy) })
	var res store.QueryResult
	defer res.Release()
	for range min(len(keys), 40) {
		k := keys[r.rng.IntN(len(keys))]
		p := tr.keys[k]
		if p.offset < 0 {
			continue // prepared ones are not looked for
		}
		require.NoError(t, s.Query(store.QueryRequest{Topic: p.Topic, Key: indexKey(k)}, &res), r)
		found := 0
		for _, m := range res.Messages {
			if m.PhyOffset == p.phy {
				found++
			}
		}
		if found != 1 || len(res.Messages) != 1 {
			require.Failf(t, "the index does not find a message once", "%v: %+v at %+v: %d messages, %d of them it", r, k, p, len(res.Messages), found)
		}
		r.met["keys found"]++
	}
}

// putMore puts one message to each plain queue, which has to get the next offset.
func (r *workRun) putMore(t *testing.T, s *store.Store) {
	for i, q := range workQueues() {
		if i%3 != 0 || (cq.Key{Topic: q.Topic}).IsLMQ() || q.Topic == "half" || q.Topic == "seldom" {
			continue
		}
		m := putMessage(q.Topic, q.ID)
		k := key{Run: -r.runs, Producer: r.met["verified"], N: i}
		m.Body = bodyOf(k)
		m.Properties = properties("KEYS", indexKey(k))
		want := r.next[q]
		res, err := s.Put(t.Context(), m)
		require.NoError(t, err, r)
		require.Equal(t, want, res.Append.QueueOffset, "%v: %+v", r, q)
		r.owe(acked{First: k, Count: 1, Topic: q.Topic, QueueID: q.ID, Offset: want, Phy: res.Append.PhyOffset})
	}
}
