//go:build interop

package interop

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/golden"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

// The ways in which a store of both kinds of queues is opened: combine prefers files, combine-rocks RocksDB. Files assign offsets: RocketMQ refuses to have RocksDB do so
// where it has light queues alone.
var combinedModes = []string{"combine", "combine-rocks", "file", "rocks"}

// combinedOptions are ours.
func combinedOptions(mode string) store.Options {
	o := store.DefaultOptions()
	o.MappedFileSizeCommitLog = smallFiles
	sized(&o, putSizes(smallFiles))
	o.EnableLmq, o.EnableMultiDispatch = true, true
	o.FlushConsumeQueueThoroughInterval = 50 * time.Millisecond
	switch mode {
	case "combine-rocks":
		o.CombineCQPreferCQType = store.StoreTypeRocksDB
		fallthrough
	case "combine":
		o.RocksdbCQDoubleWriteEnable, o.CombineCQUseRocksdbForLmq = true, true
	case "rocks":
		o.StoreType = store.StoreTypeRocksDB
	}
	return o
}

// combinedHow is RocketMQ's side of it. With files alone it has no light queues: it would begin them anew, as they are in RocksDB.
func combinedHow(mode string) how {
	h := how{mode: mode, lmq: mode != "file", lmqRocks: true, all: true, log: true, sizes: putSizes(smallFiles)}
	if mode == "combine-rocks" {
		h.mode, h.prefer = "combine", "rocks"
	}
	return h
}

// requireSequence requires of the log that the offsets of each queue, light ones too, count up from 0: none is given twice or left out. It returns the next ones.
func requireSequence(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	log, err := commitlog.Open(filepath.Join(dir, "commitlog"), commitlog.Options{})
	require.NoError(t, err)
	defer log.Close()
	next := map[string]int64{}
	take := func(topic string, id int32, offset, phy int64) {
		name := golden.Queue{Topic: topic, QueueID: id}.Name()
		require.Equal(t, next[name], offset, "%s at %d", name, phy)
		next[name]++
	}
	s := log.Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
	defer s.Close()
	for s.Next() {
		r := s.Record()
		take(string(r.Topic), r.QueueID, r.QueueOffset, r.PhyOffset)
		names, _ := r.Property(message.PropertyMultiDispatch)
		offsets, numbered := r.Property(message.PropertyMultiQueueOffset)
		if !numbered {
			continue
		}
		at := strings.Split(string(offsets), ",")
		for i, name := range strings.Split(string(names), ",") {
			offset, err := strconv.ParseInt(at[i], 10, 64)
			require.NoError(t, err)
			take(name, 0, offset, r.PhyOffset)
		}
	}
	require.NoError(t, s.Err())
	return next
}

// openOurs opens the store in a mode, goes on with every queue, and closes it; the deep check then has nothing to say about the sides that were open.
func openOurs(t *testing.T, dir, mode string) {
	t.Helper()
	s, err := store.Open(dir, combinedOptions(mode))
	require.NoError(t, err)
	for no := range int64(24) {
		_, err := putNumbered(s, 1<<41+no, mode != "file")
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	next := requireSequence(t, dir)
	rep, err := store.Check(t.Context(), dir, store.CheckOptions{Deep: true})
	require.NoError(t, err)
	require.False(t, rep.Unclean)
	kinds := map[string][]string{"file": {golden.File}, "rocks": {golden.Rocks}}[mode]
	if kinds == nil {
		require.True(t, rep.Sound, "%v", rep.Findings)
		kinds = []string{golden.File, golden.Rocks}
	}
	for _, kind := range kinds {
		requireDumped(t, dir, kind, next)
	}
}

// requireDumped requires that one side has every queue from 0 to where it goes on, with all messages.
func requireDumped(t *testing.T, dir, kind string, next map[string]int64) {
	t.Helper()
	have := map[string]int64{}
	for _, q := range flatQueues(t, tandemmq.Dump(t, dir, kind)) {
		if kind == golden.File && strings.HasPrefix(q.name, "%LMQ%") {
			continue
		}
		require.Zero(t, q.Min, "%s of %s", q.name, kind)
		require.Equal(t, q.Max, q.readable, "%s of %s", q.name, kind)
		if q.Max > 0 {
			have[q.name] = q.Max
		}
	}
	for name, n := range next {
		if kind == golden.Rocks || !strings.HasPrefix(name, "%LMQ%") {
			require.Equal(t, n, have[name], "%s of %s", name, kind)
		}
	}
}

// requireServed requires of what RocketMQ saw that each record of the log is in its queue, in its slot, and nothing else.
func requireServed(t *testing.T, r report) {
	t.Helper()
	require.Empty(t, r.failure)
	served := map[string][]golden.Line{}
	for _, q := range r.opened.Queues {
		require.Zero(t, q.Min, q.Name())
		require.Empty(t, q.Stuck, q.Name())
		served[q.Name()] = r.opened.Of(q)
		require.Len(t, served[q.Name()], int(q.Max), q.Name())
	}
	own := map[string]int64{}
	for _, rec := range r.log.records {
		name := golden.Queue{Topic: rec.Topic, QueueID: rec.QueueID}.Name()
		require.Greater(t, int64(len(served[name])), rec.QueueOffset, name)
		m := lineRecord(t, served[name][rec.QueueOffset])
		require.Equal(t, []int64{rec.QueueOffset, rec.PhyOffset}, []int64{m.QueueOffset, m.PhyOffset}, name)
		own[name]++
	}
	for name, lines := range served {
		if !strings.HasPrefix(name, "%LMQ%") {
			require.Len(t, lines, int(own[name]), name)
		}
	}
}

// killJava has RocketMQ send messages to the queues that are there, and kills it when several log files are full.
func killJava(t *testing.T, dir string, h how) {
	t.Helper()
	files := func() int {
		all, err := filepath.Glob(filepath.Join(dir, "commitlog", "*"))
		require.NoError(t, err)
		return len(all)
	}
	before, home := files(), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j := job{dir: dir, how: h, append: 1_000_000}
	j.how.log = false
	cmd := java.Command(ctx, storeCheck.classPath, home, jvm("512m"), "StoreCheck", j.words(filepath.Join(home, "out"))...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	for ctx.Err() == nil && files() < before+4 {
		time.Sleep(5 * time.Millisecond)
	}
	require.NoError(t, ctx.Err(), "%s", &out)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Equal(t, -1, cmd.ProcessState.ExitCode(), "%s", &out)
	require.FileExists(t, filepath.Join(dir, "abort"))
}

// combinedStores are those that we wrote and that were left in order, or whose process was killed.
func combinedStores(t *testing.T) map[string]string {
	mode := len(killModes) - 1
	dir := filepath.Join(t.TempDir(), "store")
	acks := runAndKill(t, mode, dir)
	closed := golden.CopyTree(t, dir)
	goOn(t, mode, closed, acks)
	return map[string]string{"killed": dir, "closed": closed}
}

// RocketMQ opens what we wrote into files and RocksDB, with both or with one of them, reads all of it and goes on, and so do we with both.
func TestRocketMQReadsCombinedStores(t *testing.T) {
	t.Parallel()
	var jobs []job
	for name, dir := range combinedStores(t) {
		for _, mode := range combinedModes {
			jobs = append(jobs, job{name + "/" + mode, golden.CopyTree(t, dir), combinedHow(mode), appendCount})
		}
	}
	reports := runJobs(t, jobs)
	var again []job
	for _, j := range jobs {
		t.Run(j.name, func(t *testing.T) {
			r := done(t, reports, j)
			requireServed(t, r)
			requireContinued(t, r, j.how.lmq)
			openOurs(t, j.dir, "combine")
		})
		if !t.Failed() {
			again = append(again, job{j.name + "/again", j.dir, combinedHow("combine-rocks"), 0})
		}
	}
	reports = runJobs(t, again)
	for _, j := range again {
		t.Run(j.name, func(t *testing.T) { requireServed(t, done(t, reports, j)) })
	}
}

// We open what RocketMQ wrote into files and RocksDB, with both or with one of them, whether it stopped in order or was killed.
func TestCombinedStoresOfRocketMQ(t *testing.T) {
	t.Parallel()
	base := combinedStores(t)["closed"]
	for _, wrote := range combinedModes[:2] {
		killed := golden.CopyTree(t, base)
		killJava(t, killed, combinedHow(wrote))
		stopped := golden.CopyTree(t, base)
		done(t, runJobs(t, []job{{"stopped", stopped, combinedHow(wrote), 600}}), job{name: "stopped"})
		for name, dir := range map[string]string{"killed": killed, "stopped": stopped} {
			for _, mode := range combinedModes {
				t.Run(fmt.Sprintf("%s/%s/%s", wrote, name, mode), func(t *testing.T) {
					dir := golden.CopyTree(t, dir)
					openOurs(t, dir, mode)
					openOurs(t, dir, "combine")
				})
			}
		}
	}
}

// RocketMQ opens file queues combined for the first time: its RocksDB has no history (F14). We fill it, and RocketMQ then has all of it on both sides.
func TestF14CombinedStoreOfRocketMQLacksHistory(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "store")
	s, err := store.Open(base, combinedOptions("file"))
	require.NoError(t, err)
	for no := range int64(600) {
		_, err := putNumbered(s, no, false)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	j := job{"first", base, combinedHow("combine"), appendCount}
	r := done(t, runJobs(t, []job{j}), j)
	lacks := 0
	for _, q := range r.appended.Queues {
		if q.Rocks != nil && q.Rocks.Min > 0 {
			lacks++
		}
	}
	require.Positive(t, lacks, "RocketMQ's RocksDB has all of it, and this test proves nothing")
	var jobs []job
	for _, mode := range combinedModes[:2] {
		dir := golden.CopyTree(t, base)
		openOurs(t, dir, mode)
		for _, then := range combinedModes {
			jobs = append(jobs, job{mode + "/" + then, golden.CopyTree(t, dir), combinedHow(then), appendCount})
		}
	}
	reports := runJobs(t, jobs)
	for _, j := range jobs {
		t.Run(j.name, func(t *testing.T) {
			r := done(t, reports, j)
			requireServed(t, r)
			requireContinued(t, r, j.how.lmq)
		})
	}
}

// Files, both, RocksDB alone, both, files: RocketMQ's turn and ours alternate, and the log has each offset once. Where RocketMQ is to go on with a side that is not
// fed at the time, we bring it up first, with both open: by itself it would begin behind (F1, F16).
func TestCombinedStoreInTurn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	steps := []struct{ ours, theirs string }{
		{"file", "file"}, {"combine", "combine"}, {"rocks", "rocks"}, {"combine-rocks", "combine-rocks"}, {"combine", "file"}, {"file", "file"}, {"combine", "rocks"}, {"combine", "combine"},
	}
	for i, step := range steps {
		s, err := store.Open(dir, combinedOptions(step.ours))
		require.NoError(t, err)
		for no := range int64(30) {
			_, err := putNumbered(s, int64(i)*1000+no, false)
			require.NoError(t, err)
		}
		require.NoError(t, s.Close())
		next := requireSequence(t, dir)
		j := job{fmt.Sprintf("step %d", i), dir, combinedHow(step.theirs), appendCount}
		j.how.lmq = false
		r := done(t, runJobs(t, []job{j}), j)
		requireServed(t, r)
		for _, q := range r.opened.Queues {
			require.Equal(t, next[q.Name()], q.Max, "step %d: %s", i, q.Name())
		}
		requireContinued(t, r, false)
		requireSequence(t, dir)
	}
	openOurs(t, dir, "combine")
}
