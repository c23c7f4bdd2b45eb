//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

const (
	// javaLimit bounds one JVM. The program itself gives up a minute earlier and says which directory held it up.
	javaLimit = 5 * time.Minute
	// javaJobs directories are open at a time: most of the 4 s that one takes is the store's own sleeping at shutdown.
	javaJobs = 4
)

// How RocketMQ is configured when it opens a directory.
type how struct {
	mode     string // file, rocks or combine
	prefer   string // combine: the kind to read from
	assign   string // combine: the kind that assigns offsets
	separate bool   // useSeparateStorePathForRocksdbCQ
	lmq      bool   // enableLmq and enableMultiDispatch
	lmqRocks bool   // combineCQUseRocksdbForLmq
	propCRC  bool   // enabledAppendPropCRC and forceVerifyPropCRC
	batch    string // a topic with batch queues
	all      bool   // commitLogRecoverMaxNum without limit
	log      bool   // the report has the log too, record by record
	sizes    sizes
}

// The sizes of mapped files, in bytes and entries; RocketMQ's own where 0.
type sizes struct{ commitLog, queue, indexSlots, indexEntries int64 }

// A job is one directory opened once: read, and continued by so many messages if append is not 0.
type job struct {
	name   string
	dir    string
	how    how
	append int
}

// A report is what the program saw in one job.
type report struct {
	failure  string // the program's words when it could not do the job; the rest is nil then
	opened   *golden.Listing
	appended *golden.Listing // after the sends; nil for a job that only reads
	grown    []grown
	log      logReport // as opened
	logAfter logReport // after the sends
}

// grown says how far one queue went while messages were sent.
type grown struct {
	Topic   string `json:"topic"`
	QueueID int32  `json:"queueId"`
	Before  int64  `json:"before"`
	After   int64  `json:"after"`
}

func (j job) words(out string) []string {
	w := []string{"read", j.dir, "--mode", j.how.mode, "--out", out}
	if j.append > 0 {
		w[0] = "append"
		w = append(w, "--messages", strconv.Itoa(j.append))
	}
	for name, value := range map[string]string{"--prefer": j.how.prefer, "--assign": j.how.assign, "--batch-topic": j.how.batch} {
		if value != "" {
			w = append(w, name, value)
		}
	}
	for name, on := range map[string]bool{
		"--separate": j.how.separate, "--lmq": j.how.lmq, "--lmq-rocks": j.how.lmqRocks, "--prop-crc": j.how.propCRC, "--log": j.how.log,
		"--recover-all": j.how.all,
	} {
		if on {
			w = append(w, name)
		}
	}
	for name, size := range map[string]int64{
		"--commitlog-size": j.how.sizes.commitLog, "--cq-size": j.how.sizes.queue,
		"--index-slots": j.how.sizes.indexSlots, "--index-num": j.how.sizes.indexEntries,
	} {
		if size > 0 {
			w = append(w, name, strconv.FormatInt(size, 10))
		}
	}
	return w
}

// runJobs lets one JVM do all jobs and returns their reports by name. A job that fails does not stop the others.
func runJobs(t *testing.T, jobs []job) map[string]report {
	t.Helper()
	dir := t.TempDir()
	commands := make([][]string, len(jobs))
	for i, j := range jobs {
		commands[i] = j.words(outFile(dir, i))
	}
	failures := runBatch(t, storeCheck.classPath, javaJobs, commands)
	reports := map[string]report{}
	for i, j := range jobs {
		require.NotContains(t, reports, j.name, "two jobs of one name")
		r, err := readReport(outFile(dir, i))
		switch {
		case failures[i] != "":
			r = report{failure: fmt.Sprintf("RocketMQ opened as %+v: %s", j.how, failures[i])}
		case err != nil:
			r = report{failure: err.Error()}
		}
		reports[j.name] = r
	}
	return reports
}

// runBatch lets one JVM carry out commands of StoreCheck, some at a time, and returns what went wrong with each, "" for nothing.
func runBatch(t *testing.T, classPath string, atATime int, commands [][]string) (failures []string) {
	t.Helper()
	dir := t.TempDir()
	var batch bytes.Buffer
	for _, words := range commands {
		line, err := json.Marshal(words)
		require.NoError(t, err)
		batch.Write(line)
		batch.WriteByte('\n')
	}
	list := filepath.Join(dir, "batch")
	require.NoError(t, os.WriteFile(list, batch.Bytes(), 0o644))
	home := filepath.Join(dir, "home")
	require.NoError(t, os.Mkdir(home, 0o755))

	ctx, cancel := context.WithTimeout(context.Background(), javaLimit)
	defer cancel()
	cmd := java.Command(ctx, classPath, home, jvm("512m"), "StoreCheck", "batch", list, strconv.Itoa(atATime))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	err := cmd.Run()
	t.Logf("%d directories in %v", len(commands), time.Since(start).Round(time.Second/10))
	require.NoError(t, ctx.Err(), "StoreCheck did not end within %v", javaLimit)

	failures = make([]string, len(commands))
	finished := 0
	for s := bufio.NewScanner(&out); s.Scan(); {
		var d struct {
			T     string
			N     int
			OK    bool
			Error string
		}
		if json.Unmarshal(s.Bytes(), &d) != nil || d.T != "done" {
			continue // the store prints a line of its own here and there
		}
		finished++
		if !d.OK {
			failures[d.N] = d.Error
		}
	}
	require.Equal(t, len(commands), finished, "StoreCheck ended early: %v\n%s", err, lastBytes(&errs, 4000))
	return failures
}

// done returns the report of a job that has to have gone well.
func done(t *testing.T, reports map[string]report, j job) report {
	t.Helper()
	require.Contains(t, reports, j.name)
	require.Empty(t, reports[j.name].failure, j.name)
	return reports[j.name]
}

func outFile(dir string, n int) string { return filepath.Join(dir, fmt.Sprintf("out-%d", n)) }

// readReport takes the program's output apart: a listing, then what was sent and a second listing.
func readReport(file string) (report, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return report{}, err
	}
	var r report
	end := bytes.Index(b, []byte(`{"t":"end"`))
	if end < 0 {
		return report{}, fmt.Errorf("the report in %s has no end", file)
	}
	end += bytes.IndexByte(b[end:], '\n') + 1
	if r.opened, err = golden.Parse(b[:end]); err != nil {
		return report{}, err
	}
	if r.log, err = parseLog(b[:end]); err != nil {
		return report{}, err
	}
	if len(b) == end {
		return r, nil
	}
	if r.logAfter, err = parseLog(b[end:]); err != nil {
		return report{}, err
	}
	if r.appended, err = golden.Parse(b[end:]); err != nil {
		return report{}, err
	}
	for _, line := range bytes.Split(b[end:], []byte("\n")) {
		if bytes.HasPrefix(line, []byte(`{"t":"append"`)) {
			var g grown
			if err := json.Unmarshal(line, &g); err != nil {
				return report{}, err
			}
			r.grown = append(r.grown, g)
		}
	}
	return r, nil
}
