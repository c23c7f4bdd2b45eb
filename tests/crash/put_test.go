package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/store"
)

// Kill -9 of a process with several producers, at random moments in each way to write: what was acknowledged (with the pool, and
// committed) is there afterwards, once, as it was put, where its producer was told; the offsets of each queue run from 0
// without a gap; and the store takes more.
func TestFRA10KillPut(t *testing.T) {
	for _, mode := range putModes {
		t.Run(mode.name, func(t *testing.T) {
			n, rng := kills(t, 10)
			met := reach{}
			dir := t.TempDir()
			var r *putRun
			for i := 0; i < n || met["acknowledged"] == 0 && i < 10*n; i++ { // on a slow machine all kills may come early
				if i%5 == 0 { // another store: the first kills meet it being made, and the log stays short
					r = newPutRun(mode, filepath.Join(dir, fmt.Sprint("store", i)), met)
				}
				r.kill(t, rng)
				if i%5 != 4 && rng.IntN(3) == 0 {
					continue // killed again before anybody has looked
				}
				r.verify(t)
				require.False(t, t.Failed(), "kill %d", i)
			}
			t.Logf("%v", met)
			require.NotZero(t, met["acknowledged"])
		})
	}
}

// putRun is a store that processes put to and are killed over.
type putRun struct {
	mode putMode
	root string
	runs int
	due  map[key]place // acknowledged, and promised to survive
	lost map[key]place // acknowledged, and not promised to
	met  reach
}

type queue struct {
	Topic string
	ID    int32
}

// place is where a message stands.
type place struct {
	queue
	offset int64
	phy    int64 // -1: nobody was told, not the first of a batch
}

func newPutRun(mode putMode, root string, met reach) *putRun {
	return &putRun{mode: mode, root: root, due: make(map[key]place), lost: make(map[key]place), met: met}
}

// output of a process. It tells when it has said something.
type output struct {
	lines bytes.Buffer
	once  sync.Once
	seen  chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.once.Do(func() { close(o.seen) })
	return o.lines.Write(b)
}

// kill runs the process, kills it, and takes down what it acknowledged.
func (r *putRun) kill(t *testing.T, rng *rand.Rand) {
	r.runs++
	text, err := json.Marshal(orders{Root: r.root, Mode: r.mode.name, Run: r.runs, Producers: 1 + rng.IntN(16), Seed: rng.Uint64()})
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	out := &output{seen: make(chan struct{})}
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &stderr
	require.NoError(t, cmd.Start())
	if rng.IntN(4) != 0 { // otherwise the kill may meet the store being opened
		select {
		case <-out.seen:
		case <-time.After(5 * time.Second): // it has ended, or hangs: Wait tells
		}
	}
	time.Sleep(time.Duration(rng.Int64N(int64(60 * time.Millisecond))))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	require.Equal(t, -1, cmd.ProcessState.ExitCode(), "it ended by itself: %s", &stderr)
	r.note(t, out.lines.Bytes())
}

// note takes down the lines of a process.
func (r *putRun) note(t *testing.T, lines []byte) {
	var all []acked
	committed := int64(0)
	for line := range bytes.Lines(lines) {
		if string(line) == openedLine+"\n" {
			continue
		}
		var a acked
		require.NoError(t, json.Unmarshal(line, &a), "%q", line)
		all = append(all, a)
		committed = max(committed, a.Committed)
	}
	if len(lines) == 0 {
		r.met["killed before open"]++
	}
	for _, a := range all {
		into := r.due
		if r.mode.pooled && a.Phy+a.Bytes > committed {
			into = r.lost
		}
		for i := range a.Count {
			k := a.First
			k.I = i
			into[k] = place{queue{a.Topic, a.QueueID}, a.Offset + int64(i), a.Phy}
			a.Phy = -1
			r.met["acknowledged"]++
		}
	}
}

// verify opens the store and requires what was promised. It puts more, which is promised from then on.
func (r *putRun) verify(t *testing.T) {
	r.met["left with "+logEnd(t, filepath.Join(r.root, "commitlog"))]++
	s, err := store.Open(r.root, r.mode.options())
	require.NoError(t, err)
	got := make(map[key]place)
	next := make(map[queue]int64)
	end := int64(-1)
	scan := s.Log().Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
	defer scan.Close()
	for scan.Next() {
		rec := scan.Record()
		k, ok := keyOf(rec.Body)
		if !ok {
			require.Failf(t, "nobody put this", "at %d: body %q", rec.PhyOffset, rec.Body)
		}
		if first, twice := got[k]; twice {
			require.Failf(t, "recovered twice", "%+v at %d and at %d", k, first.phy, rec.PhyOffset)
		}
		q := queue{string(rec.Topic), rec.QueueID}
		got[k] = place{q, rec.QueueOffset, rec.PhyOffset}
		if next[q] != rec.QueueOffset {
			require.Failf(t, "offsets have a gap or repeat", "%+v at %d: got %d, want %d", q, rec.PhyOffset, rec.QueueOffset, next[q])
		}
		next[q]++
		end = rec.PhyOffset + int64(rec.TotalSize)
	}
	require.NoError(t, scan.Err())
	for k, want := range r.due {
		have, ok := got[k]
		if !ok {
			require.Failf(t, "an acknowledged message is lost", "%+v of %+v; the log ends at %d", k, want, end)
		}
		if want.phy < 0 {
			have.phy = want.phy
		}
		if have != want {
			require.Failf(t, "a message is elsewhere than its producer was told", "%+v: got %+v, want %+v", k, have, want)
		}
	}
	for k := range r.lost {
		if _, ok := got[k]; !ok {
			r.met["acknowledged, not promised, gone"]++
		}
	}
	clear(r.lost)
	r.met["recovered"] += len(got)
	for topic := range putTopics {
		for id := range int32(putQueues) {
			m := putMessage(fmt.Sprint("topic", topic), id)
			k := key{Run: -r.runs, N: topic, I: int(id)}
			m.Body = bodyOf(k)
			res, err := s.Put(t.Context(), m)
			require.NoError(t, err)
			require.Equal(t, next[queue{m.Topic, id}], res.Append.QueueOffset)
			r.due[k] = place{queue{m.Topic, id}, res.Append.QueueOffset, res.Append.PhyOffset}
		}
	}
	require.NoError(t, s.Close())
}

// logEnd tells how the process left the log.
func logEnd(t *testing.T, dir string) string {
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return "no log"
	}
	log, err := commitlog.Open(dir, commitlog.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	s := log.Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
	defer s.Close()
	for s.Next() {
	}
	return s.End().Kind.String()
}
