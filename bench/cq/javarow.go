package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tandemq/tandemmq/tests/interop/java"
)

// javaHeap of the RocketMQ store: fixed, so that its growth is no part of the measurement.
const javaHeap = "2g"

// javaMode returns the words that say the same as the engine: where queues are kept, read, and get their offsets.
func javaMode(e engine) (mode, prefer, assign string) {
	if e == combineRocks {
		return "combine", "rocks", "rocks"
	}
	return string(e), "file", "file"
}

// measureJava has RocketMQ do what wholeStore does.
func measureJava(ctx context.Context, classPath string, r row, s sizes, dir string) (figures, error) {
	home, root := filepath.Join(dir, "home"), filepath.Join(dir, "row")
	if err := os.Mkdir(home, 0o755); err != nil {
		return nil, err
	}
	run := func(class string, words ...string) ([]byte, error) {
		return output(java.Command(ctx, classPath, home, []string{"-Xms" + javaHeap, "-Xmx" + javaHeap}, class, words...))
	}
	mode, prefer, assign := javaMode(r.engine)
	perTopic, topics := topicsOf(r.queues)
	out, err := run("StorePut", root, "--mode", mode, "--prefer", prefer, "--assign", assign, "--topics", strconv.Itoa(topics), "--queues", strconv.Itoa(perTopic),
		"--messages", strconv.Itoa(r.messages), "--warmup", strconv.Itoa(warmup(r, s)))
	if err != nil {
		return nil, err
	}
	x := figures{}
	if err := parseJava(out, "put", r.messages, x); err != nil {
		return nil, err
	}
	if out, err = run("StoreRead", root, mode, prefer, assign, strconv.Itoa(s.Samples)); err != nil {
		return nil, err
	}
	return x, parseJava(out, "read", r.messages+warmup(r, s), x)
}

// warmup is how many messages Java puts before its clock starts. With many queues they make the queues as well, which is a part of what is measured, so there are none.
func warmup(r row, s sizes) int {
	if r.queues > topicQueues {
		return 0
	}
	return s.Warmup
}

// parseJava takes the figures out of the line that begins with that word, and looks whether it speaks of all messages.
func parseJava(out []byte, word string, messages int, x figures) error {
	for line := range bytes.Lines(out) {
		if !bytes.HasPrefix(line, []byte(`{"t":"`+word+`"`)) {
			continue // the store prints a line of its own here and there
		}
		var j struct {
			Messages                                                   int
			MessagesPerSecond, DispatchedPerSecond, P50Nanos, P99Nanos float64
			LoadMillis, StartMillis, ReadyMillis, PullPerSecond        float64
			GetP50Nanos, GetP99Nanos, TimeP50Nanos, TimeP99Nanos       float64
		}
		if err := json.Unmarshal(line, &j); err != nil {
			return fmt.Errorf("the Java program: %w", err)
		}
		if j.Messages != messages {
			return fmt.Errorf("the Java program: %d messages, want %d", j.Messages, messages)
		}
		if word == "put" {
			x["putPerSecond"], x["builtPerSecond"], x["putP50Micros"], x["putP99Micros"] = j.MessagesPerSecond, j.DispatchedPerSecond, j.P50Nanos/1000, j.P99Nanos/1000
			return nil
		}
		x["openMillis"], x["readyMillis"], x["pullPerSecond"] = j.LoadMillis+j.StartMillis, j.ReadyMillis, j.PullPerSecond
		x["getP50Micros"], x["getP99Micros"], x["timeP50Micros"], x["timeP99Micros"] = j.GetP50Nanos/1000, j.GetP99Nanos/1000, j.TimeP50Nanos/1000, j.TimeP99Nanos/1000
		return nil
	}
	return errors.New("the Java program printed no measurement: " + string(out[:min(len(out), 500)]))
}
