package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

// javaHeap of the RocketMQ store: fixed, so that its growth is no part of the measurement.
const javaHeap = "2g"

// Java runs the RocketMQ store beside ours.
type Java struct {
	ClassPath string
	Home      string // a directory of its own
	Engine    Engine
}

// mode returns the words that say the same as the engine: where queues are kept, read, and get their offsets.
func (j Java) mode() (mode, prefer, assign string) {
	if j.Engine == CombineRocks {
		return "combine", "rocks", "rocks"
	}
	return string(j.Engine), "file", "file"
}

func (j Java) run(ctx context.Context, class string, words ...string) ([]byte, error) {
	return report.Output(java.Command(ctx, j.ClassPath, j.Home, []string{"-Xms" + javaHeap, "-Xmx" + javaHeap}, class, words...))
}

// Put has StorePut fill the store at root, which is not there yet, after warmup further messages.
func (j Java) Put(ctx context.Context, root string, queues, messages, warmup int, x report.Figures) error {
	mode, prefer, assign := j.mode()
	perTopic, topics := TopicsOf(queues)
	out, err := j.run(ctx, "StorePut", root, "--mode", mode, "--prefer", prefer, "--assign", assign, "--topics", strconv.Itoa(topics), "--queues", strconv.Itoa(perTopic),
		"--messages", strconv.Itoa(messages), "--warmup", strconv.Itoa(warmup))
	if err != nil {
		return err
	}
	return parseJava(out, "put", messages, x)
}

// Read has StoreRead read the store at root, with that many messages in it.
func (j Java) Read(ctx context.Context, root string, messages, samples int, x report.Figures) error {
	mode, prefer, assign := j.mode()
	out, err := j.run(ctx, "StoreRead", root, mode, prefer, assign, strconv.Itoa(samples))
	if err != nil {
		return err
	}
	return parseJava(out, "read", messages, x)
}

// parseJava takes the figures out of the line that begins with that word, and looks whether it speaks of all messages.
func parseJava(out []byte, word string, messages int, x report.Figures) error {
	for line := range bytes.Lines(out) {
		if !bytes.HasPrefix(line, []byte(`{"t":"`+word+`"`)) {
			continue // the store prints a line of its own here and there
		}
		var j struct {
			Messages                                                   int
			MessagesPerSecond, DispatchedPerSecond, P50Nanos, P99Nanos float64
			LoadMillis, StartMillis, ReadyMillis, PullPerSecond        float64
			GetP50Nanos, GetP99Nanos, TimeP50Nanos, TimeP99Nanos       float64
			NewestP50Nanos, NewestP99Nanos, QueryP50Nanos              float64
			QueryP99Nanos                                              float64
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
		x["newestP50Micros"], x["newestP99Micros"], x["queryP50Micros"], x["queryP99Micros"] = j.NewestP50Nanos/1000, j.NewestP99Nanos/1000, j.QueryP50Nanos/1000, j.QueryP99Nanos/1000
		return nil
	}
	return errors.New("the Java program printed no measurement: " + string(out[:min(len(out), 500)]))
}
