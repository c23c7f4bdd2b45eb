package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

// JavaHeap is what RocketMQ's store gets: fixed, so that its growth is no part of a measurement.
const JavaHeap = "2g"

// javaWarmup is the usual JavaStore.Warmup.
const javaWarmup = 50_000

// JavaStore is RocketMQ's store as a Peer: the class StoreBench of tests/interop/java does the work in a process of its own, and a store of ours looks at what came of it.
type JavaStore struct {
	// Warmup is how many messages it gets at least before the clock starts, where it puts any before. In a store that flushes synchronously they do not wait for the disk.
	Warmup int

	classPath string
}

// JavaBuilt tells whether NewJava finds all that it needs, or has to fetch and to build it first.
func JavaBuilt() bool { return java.Built() }

// NewJava returns RocketMQ's store 5.5.0. The error is one line that says why there is none: no JDK, no Maven, or nothing to build it from.
func NewJava(ctx context.Context) (*JavaStore, error) {
	classPath, err := java.Build(ctx)
	if err != nil {
		return nil, javaMissing(err, exec.LookPath)
	}
	if _, err := exec.LookPath("java"); err != nil { // what was built is still there
		return nil, javaMissing(err, exec.LookPath)
	}
	return &JavaStore{Warmup: javaWarmup, classPath: classPath}, nil
}

// javaMissing says in one line why RocketMQ's store could not be built.
func javaMissing(err error, look func(string) (string, error)) error {
	for _, program := range []string{"java", "javac", "mvn"} {
		if _, missing := look(program); missing != nil {
			return fmt.Errorf("there is no %s in PATH: RocketMQ's store needs JDK 17 and, to be built once, Maven (scripts/setup.sh java of the source tree installs both)", program)
		}
	}
	said := err.Error()
	for line := range strings.Lines(said) { // Maven says a lot
		if strings.Contains(line, "[ERROR]") {
			said = strings.TrimSpace(strings.ReplaceAll(line, "[ERROR]", ""))
			break
		}
	}
	first, _, _ := strings.Cut(said, "\n")
	return fmt.Errorf("RocketMQ's store could not be built: %s", first)
}

// javaWork is a Work as StoreBench reads it.
type javaWork struct {
	Task      Task   `json:"task"`
	Mode      string `json:"mode"`
	Prefer    string `json:"prefer"`
	Assign    string `json:"assign"`
	Root      string `json:"root"`
	Sync      bool   `json:"sync"`
	Producers int    `json:"producers"`
	Readers   int    `json:"readers"`
	Topics    int    `json:"topics"`
	Queues    int    `json:"queues"`
	Body      int    `json:"body"`
	Warmup    int    `json:"warmup"`
	Messages  int    `json:"messages"`
	PerSecond int    `json:"perSecond"`
	Samples   int    `json:"samples"`
	Millis    int64  `json:"millis"`
}

// puts tells whether the work makes the messages that are in the store in the end.
func (t Task) puts() bool { return t != TaskRead && t != TaskOpen }

func (s *JavaStore) work(w Work) javaWork {
	j := javaWork{
		Task: w.Task, Mode: string(w.Engine), Prefer: "file", Assign: "file", Root: w.Root, Sync: w.Sync, Producers: w.Producers, Readers: w.Readers, Body: w.Body,
		Warmup: w.Warmup, Messages: w.Messages, PerSecond: w.PerSecond, Samples: w.Samples, Millis: w.Time.Milliseconds(),
	}
	if w.Engine == load.CombineRocks {
		j.Prefer, j.Assign = "rocks", "rocks"
	}
	j.Queues, j.Topics = load.TopicsOf(w.Queues)
	if w.Task.puts() && w.Warmup > 0 { // of many queues the first messages make the queues, which is a part of what is measured
		j.Warmup = max(w.Warmup, s.Warmup)
	}
	return j
}

// Do does the work.
func (s *JavaStore) Do(ctx context.Context, w Work, r *Run) error {
	did, err := s.run(ctx, s.work(w), filepath.Join(r.Dir, "java"))
	if err != nil {
		return err
	}
	did.keep(r)
	if did.Messages < w.Messages || !w.Task.puts() && did.Messages != w.Messages {
		return fmt.Errorf("StoreBench: %d messages, want %d", did.Messages, w.Messages)
	}
	return r.checkJava(w, did.Messages)
}

// run runs StoreBench, which may write its own below home.
func (s *JavaStore) run(ctx context.Context, w javaWork, home string) (did javaResult, err error) {
	if err := os.Mkdir(home, 0o755); err != nil {
		return did, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }() // libraries that it unpacked, and logs
	told, err := json.Marshal(w)
	if err != nil {
		return did, err
	}
	jvm, err := java.Quiet(home)
	if err != nil {
		return did, err
	}
	cmd := java.Command(ctx, s.classPath, home, append(jvm, "-Xms"+JavaHeap, "-Xmx"+JavaHeap), "StoreBench", string(told))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		return did, err
	}
	peak := process.Of(cmd.Process.Pid).WatchAnon()
	err = cmd.Wait()
	anon := peak()
	if err != nil {
		text := strings.TrimSpace(errs.String())
		return did, fmt.Errorf("StoreBench: %w: %s", err, text[:min(len(text), 2000)]) // the cause, and no more than that of the places it came through
	}
	did, err = parseJava(out.Bytes())
	if err == nil {
		did.Figures[peakFigure] = anon
	}
	return did, err
}

// javaResult is what StoreBench prints.
type javaResult struct {
	Task      Task                         `json:"task"`
	Java      string                       `json:"java"`
	Messages  int                          `json:"messages"` // in the store in the end
	Figures   report.Figures               `json:"figures"`
	Latencies map[string]calibrate.Summary `json:"latencies"`
}

// parseJava finds the result in what StoreBench printed: the store prints a line of its own here and there.
func parseJava(out []byte) (did javaResult, err error) {
	for line := range bytes.Lines(out) {
		if !bytes.HasPrefix(line, []byte(`{"t":"bench"`)) {
			continue
		}
		if err := json.Unmarshal(line, &did); err != nil {
			return did, fmt.Errorf("what StoreBench printed: %w", err)
		}
		if len(did.Figures) == 0 && len(did.Latencies) == 0 {
			return did, errors.New("StoreBench measured nothing")
		}
		if did.Figures == nil {
			did.Figures = report.Figures{}
		}
		return did, nil
	}
	return did, fmt.Errorf("StoreBench printed no result: %q", out[:min(len(out), 500)])
}

// keep takes the figures, and the percentiles of latencies as figures, as those of our own stores are.
func (j javaResult) keep(r *Run) {
	maps.Copy(r.Figures, j.Figures)
	for name, s := range j.Latencies {
		r.summary(name, s)
	}
}

// summary keeps a latency, and its percentiles as figures.
func (r *Run) summary(name string, s calibrate.Summary) {
	r.Latencies[name] = s
	r.Figures[name+"P50Micros"], r.Figures[name+"P99Micros"] = micros(s.P50), micros(s.P99)
	if name == "put" {
		r.Figures["putP50Nanos"] = float64(s.P50) // beside a limit of the machine
	}
}

// checkJava looks at what RocketMQ's store has left, which it leaves alone: an input is used again.
func (r *Run) checkJava(w Work, messages int) error {
	if err := load.CheckStopped(w.Root, w.Engine, w.Queues, messages, w.Body, contentSamples); err != nil {
		return fmt.Errorf("what RocketMQ's store left: %w", err)
	}
	r.checked("RocketMQ's store was closed in order; we find %d messages in %d queues, %d at random as they were put, found by key", messages, w.Queues, contentSamples)
	return nil
}

var _ Peer = (*JavaStore)(nil)
