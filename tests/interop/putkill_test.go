//go:build interop

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/golden"
)

const (
	// putterEnv names the variable that makes the test binary a putter: it holds the name of one of killModes and a directory.
	putterEnv = "TANDEMMQ_INTEROP_PUTTER"
	// killAfter messages acknowledged, the putter is killed. They fill some forty log files, and the pool's memory several times.
	killAfter = 4000
	putters   = 3
	// putterLimit ends a putter that nobody kills.
	putterLimit = time.Minute
)

// killModes are the ways of writing of a process that is killed. kept: what was acknowledged outlives the process; combined: queues are in files and in RocksDB, which
// alone has light ones.
var killModes = []struct {
	name     string
	kept     bool
	combined bool
	set      func(o *store.Options)
}{
	{"mmap", true, false, func(*store.Options) {}},
	{"pwrite", true, false, func(o *store.Options) { o.WriteWithoutMmap = true }},
	{"staged", true, false, func(o *store.Options) { o.FlushDiskType = store.SyncFlush }},
	{"pool", false, false, func(o *store.Options) { o.TransientStorePoolEnable, o.TransientStorePoolSize = true, 2 }},
	{"combined", true, true, func(o *store.Options) { *o = combinedOptions("combine") }},
}

func killOptions(mode int) store.Options {
	o := store.DefaultOptions()
	o.MappedFileSizeCommitLog = smallFiles
	sized(&o, putSizes(smallFiles))
	killModes[mode].set(&o)
	return o
}

// acknowledged is a line of a putter.
type acknowledged struct {
	Topic               string
	QueueID             int32
	QueueOffset         int64
	PhyOffset, Size, No int64
}

// killedBody is the body of message no; its key is no in decimal digits.
func killedBody(no int64) []byte {
	return []byte(strings.Repeat(fmt.Sprintf("message %d ", no), int(no%97)))
}

// putUntilKilled puts from several goroutines, and prints a line for each message when it is acknowledged. It never returns.
func putUntilKilled(job string) {
	mode, dir, _ := strings.Cut(job, ":")
	n, err := strconv.Atoi(mode)
	var s *store.Store
	if err == nil {
		s, err = store.Open(dir, killOptions(n))
	}
	if err != nil {
		panic(err)
	}
	var group sync.WaitGroup
	var last atomic.Int64
	deadline := time.Now().Add(putterLimit)
	for range putters {
		group.Go(func() {
			for time.Now().Before(deadline) {
				a, err := putNumbered(s, last.Add(1), killModes[n].combined)
				if err != nil {
					panic(err)
				}
				line, err := json.Marshal(a)
				if err != nil {
					panic(err)
				}
				if _, err = os.Stdout.Write(append(line, '\n')); err != nil { // one write, one line
					panic(err)
				}
			}
		})
	}
	group.Wait()
	panic("not killed")
}

// putNumbered puts message no into the queue that is its, and now and then into light ones.
func putNumbered(s *store.Store, no int64, light bool) (acknowledged, error) {
	m := message.Message{
		Topic: fmt.Sprintf("Killed%d", no%2), QueueID: int32(no / 2 % 2), BornTimestampMs: bornAtMs,
		BornHost: bornV4.Host, StoreHost: storeV4.Host, Body: killedBody(no),
		Properties: message.AppendProperty(nil, "KEYS", strconv.FormatInt(no, 10)),
	}
	if light && no%3 == 0 {
		m.Properties = message.AppendProperty(m.Properties, message.PropertyMultiDispatch, []string{"%LMQ%one", "%LMQ%one,%LMQ%two"}[no/3%2])
	}
	r, err := s.Put(context.Background(), &m)
	return acknowledged{m.Topic, m.QueueID, r.Append.QueueOffset, r.Append.PhyOffset, int64(r.Append.Bytes), no}, err
}

// runAndKill lets a putter work on a new store, kills it in the middle, and returns what it acknowledged.
func runAndKill(t *testing.T, mode int, dir string) (acks []acknowledged) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d:%s", putterEnv, mode, dir))
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var a acknowledged
		require.NoError(t, json.Unmarshal(lines.Bytes(), &a), lines.Text())
		if acks = append(acks, a); len(acks) == killAfter {
			require.NoError(t, cmd.Process.Kill())
		} // and read on: those in the pipe were acknowledged too
	}
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), "%s", errs.String())
	require.GreaterOrEqual(t, len(acks), killAfter)
	return acks
}

// requireKilled checks what RocketMQ found in the store of a killed putter: queues without gaps, every message whole, and all that was
// acknowledged, in its place; without kept, all of it up to the log's end.
func requireKilled(t *testing.T, r report, acks []acknowledged, kept bool) {
	t.Helper()
	require.Empty(t, r.failure)
	found := map[string][]record{}
	total := 0
	for _, q := range r.opened.Queues {
		lines := r.opened.Of(q)
		require.Zero(t, q.Min, q.Name())
		require.EqualValues(t, len(lines), q.Max, q.Name())
		total += len(lines)
		for i, line := range lines {
			m := lineRecord(t, line)
			require.EqualValues(t, i, m.QueueOffset, q.Name())
			require.NotNil(t, m.Keys, line.JSON)
			no, err := strconv.ParseInt(*m.Keys, 10, 64)
			require.NoError(t, err, line.JSON)
			require.Equal(t, crc32.ChecksumIEEE(killedBody(no)), m.BodyCRC32, line.JSON)
			require.Len(t, killedBody(no), m.BodyLen, line.JSON)
			found[q.Name()] = append(found[q.Name()], m)
		}
	}
	lost := 0
	for _, a := range acks {
		if !kept && a.PhyOffset+a.Size > r.log.max {
			lost++
			continue
		}
		q := found[golden.Queue{Topic: a.Topic, QueueID: a.QueueID}.Name()]
		require.Less(t, a.QueueOffset, int64(len(q)), "%+v was acknowledged; the log ends at %d", a, r.log.max)
		m := q[a.QueueOffset]
		require.Equal(t, []int64{a.PhyOffset, a.Size}, []int64{m.PhyOffset, int64(m.Size)}, "%+v", a)
		require.Equal(t, strconv.FormatInt(a.No, 10), *m.Keys, "%+v", a)
	}
	require.Greater(t, total, killAfter/2, "of the pool, too, most was committed")
	t.Logf("%d acknowledged, %d found, %d lost", len(acks), total, lost)
}

// goOn opens the store of a killed putter and puts some more. It returns all that must be there then.
func goOn(t *testing.T, mode int, dir string, acks []acknowledged) []acknowledged {
	t.Helper()
	s, err := store.Open(dir, killOptions(mode))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	found := s.Positions().Wrote
	there := slices.DeleteFunc(slices.Clone(acks), func(a acknowledged) bool { return a.PhyOffset+a.Size > found })
	if killModes[mode].kept {
		require.Len(t, there, len(acks))
	}
	for no := range int64(200) {
		a, err := putNumbered(s, 1<<40+no, killModes[mode].combined)
		require.NoError(t, err)
		require.GreaterOrEqual(t, a.PhyOffset, found)
		there = append(there, a)
	}
	return there
}

// A process killed while it puts loses nothing that it acknowledged, but for what was in the pool's memory: RocketMQ finds it, at
// once, and after we have opened the store and gone on.
func TestRocketMQReadsPutsOfAKilledProcess(t *testing.T) {
	t.Parallel()
	type found struct {
		job
		acks []acknowledged
		kept bool
	}
	var all []found
	var jobs []job
	add := func(f found) {
		all, jobs = append(all, f), append(jobs, f.job)
	}
	// Nobody has built a queue, and there are more than 10 log files, from which RocketMQ builds them by default.
	h := how{mode: "file", all: true, log: true, sizes: putSizes(smallFiles)}
	for i, mode := range killModes {
		h := h
		if mode.combined {
			h = combinedHow("combine")
		}
		t.Run("kill/"+mode.name, func(sub *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			acks := runAndKill(sub, i, dir)
			require.FileExists(sub, filepath.Join(dir, "abort"))
			add(found{job{mode.name + "/at once", golden.CopyTree(t, dir), h, 0}, acks, mode.kept})
			add(found{job{mode.name + "/gone on", dir, h, 0}, goOn(sub, i, dir, acks), true})
		})
	}
	reports := runJobs(t, jobs)
	for _, f := range all {
		t.Run("read/"+f.name, func(t *testing.T) { requireKilled(t, reports[f.name], f.acks, f.kept) })
	}
}
