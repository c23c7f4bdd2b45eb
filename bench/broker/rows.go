package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/store"
)

// sizes of the rows.
type sizes struct {
	Reps       int   `json:"reps"`
	Warmup     int   `json:"warmup"`     // messages sent and pulled before anything is measured
	Sends      int   `json:"sends"`      // messages of the row send
	Pipelined  int   `json:"pipelined"`  // of the row pipelined
	Pulled     int   `json:"pulled"`     // of the row pull
	Paced      int   `json:"paced"`      // of the row paced
	Client     int   `json:"client"`     // of the rows with RocketMQ's client
	Held       int   `json:"held"`       // pulls that wait
	Wakes      int   `json:"wakes"`      // messages that are waited for one by one
	StartBytes int64 `json:"startBytes"` // log of the row start
}

var profiles = map[string]sizes{
	"quick":   {Reps: 1, Warmup: 30_000, Sends: 60_000, Pipelined: 200_000, Pulled: 200_000, Paced: 10_000, Client: 30_000, Held: 20_000, Wakes: 200, StartBytes: 1 << 30},
	"default": {Reps: 3, Warmup: 150_000, Sends: 300_000, Pipelined: 1_000_000, Pulled: 1_000_000, Paced: 50_000, Client: 200_000, Held: 100_000, Wakes: 1000, StartBytes: 10 << 30},
}

const (
	queues = 8 // of each topic
	// sendConnections are those of the limit.
	sendConnections = 64
	// pipelinedConnections and pipelinedInFlight are of producers that do not wait for their answers.
	pipelinedConnections, pipelinedInFlight = 4, 256
	pacedPerSecond                          = 5000
	clientThreads                           = 32
	heldConnections                         = 100
	heldQueues                              = 100
)

// row is one measurement of a repetition.
type row struct {
	what    string
	of      impl
	alone   bool // it starts a server of its own
	client  bool // it needs RocketMQ's client
	measure func(ctx context.Context, j *job) error
}

func (r row) name() string { return r.what + "-" + string(r.of) }

// job is a row at work.
type job struct {
	b      *bench
	row    row
	sizes  sizes
	server *server // nil where the row starts its own
	work   string  // a directory for all repetitions
	x      report.Figures
}

// rows are all rows, in the order they are run. What is compared stands side by side.
func rows() (all []row) {
	for _, r := range []row{
		{what: "start", alone: true, measure: starts},
		{what: "held", alone: true, measure: held},
		{what: "send", measure: send},
		{what: "pipelined", measure: pipelined},
		{what: "paced", measure: paced},
		{what: "pull", measure: pull},
		{what: "client", client: true, measure: clients},
		{what: "memory", measure: memory},
	} {
		for _, of := range []impl{ours, javas, echoed} {
			if r.alone && of != ours || of == echoed && r.what != "send" && r.what != "pipelined" {
				continue
			}
			r.of = of
			all = append(all, r)
		}
	}
	return all
}

// topic makes the topic of the row; a server that answers alone has none.
func (j *job) topic(ctx context.Context) (*load.Remote, error) {
	r := &load.Remote{Addr: j.server.addr, Topic: "bench_" + j.row.what, Queues: queues}
	if j.row.of == echoed {
		return r, nil
	}
	return r, r.Make(ctx)
}

// sends measures sends, and checks what came of them.
func (j *job) sends(ctx context.Context, l load.SendLoad) error {
	r, err := j.topic(ctx)
	if err != nil {
		return err
	}
	before, err := j.server.process.CPU()
	if err != nil {
		return err
	}
	sent, err := r.Send(ctx, l)
	if err != nil {
		return err
	}
	after, err := j.server.process.CPU()
	if err != nil {
		return err
	}
	j.x["perSecond"] = float64(l.Messages) / sent.Took.Seconds()
	j.x["cpuMicros"] = micros(after-before) / float64(l.Messages)
	if sent.Refused > 0 {
		j.x["refused"] = float64(sent.Refused)
	}
	if l.InFlight == 1 {
		lat := sent.Latency.Summary()
		j.x["p50Micros"], j.x["p99Micros"], j.x["maxMicros"] = micros(lat.P50), micros(lat.P99), micros(lat.Max)
	}
	if j.row.of == echoed {
		return nil
	}
	return r.Check(ctx, l.Messages)
}

// send has one message in flight on each of many connections.
func send(ctx context.Context, j *job) error {
	return j.sends(ctx, load.SendLoad{Connections: sendConnections, InFlight: 1, Messages: j.sizes.Sends})
}

// pipelined has few connections with many.
func pipelined(ctx context.Context, j *job) error {
	return j.sends(ctx, load.SendLoad{Connections: pipelinedConnections, InFlight: pipelinedInFlight, Messages: j.sizes.Pipelined})
}

// paced sends at a rate that both brokers take.
func paced(ctx context.Context, j *job) error {
	return j.sends(ctx, load.SendLoad{Connections: sendConnections, InFlight: 1, Messages: j.sizes.Paced, PerSecond: pacedPerSecond})
}

// fill sends the messages of a row that measures something else.
func (j *job) fill(ctx context.Context, messages int) (*load.Remote, error) {
	r, err := j.topic(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := r.Send(ctx, load.SendLoad{Connections: pipelinedConnections, InFlight: pipelinedInFlight, Messages: messages}); err != nil {
		return nil, err
	}
	return r, r.Check(ctx, messages)
}

// pull has one consumer pull what was just stored, 32 messages at a time; the second time counts.
func pull(ctx context.Context, j *job) error {
	r, err := j.fill(ctx, j.sizes.Pulled)
	if err != nil {
		return err
	}
	for range 2 {
		before, err := j.server.process.CPU()
		if err != nil {
			return err
		}
		got, err := r.Pull(ctx, load.PullLoad{Group: "load_consumer", Consumers: 1})
		if err != nil {
			return err
		}
		after, err := j.server.process.CPU()
		if err != nil {
			return err
		}
		if got.Messages != j.sizes.Pulled {
			return fmt.Errorf("%d messages were pulled, want %d", got.Messages, j.sizes.Pulled)
		}
		j.x["perSecond"], j.x["cpuMicros"] = float64(got.Messages)/got.Took.Seconds(), micros(after-before)/float64(got.Messages)
	}
	return nil
}

// clients has RocketMQ's client send and consume. It takes most of the processors, so the server's share tells more than the rate.
func clients(ctx context.Context, j *job) error {
	r, err := j.topic(ctx)
	if err != nil {
		return err
	}
	c := j.b.client(j.server.namesrv, filepath.Join(j.work, "client"))
	n := strconv.Itoa(j.sizes.Client)
	if j.x["sendPerSecond"], j.x["sendCPUMicros"], err = c.run(ctx, j.server, j.sizes.Client, "send", r.Topic, n, strconv.Itoa(clientThreads)); err != nil {
		return err
	}
	if err := r.Await(ctx, j.sizes.Client); err != nil {
		return err
	}
	j.x["consumePerSecond"], j.x["consumeCPUMicros"], err = c.run(ctx, j.server, j.sizes.Client, "consume", r.Topic, n)
	return err
}

// memory watches the memory that is not of files while messages are sent and pulled, after all that the rows before have done.
func memory(ctx context.Context, j *job) error {
	largest := j.server.process.WatchAnon()
	r, err := j.topic(ctx)
	if err == nil {
		_, err = r.Send(ctx, load.SendLoad{Connections: sendConnections, InFlight: 1, Messages: j.sizes.Sends})
	}
	if err == nil {
		err = r.Check(ctx, j.sizes.Sends)
	}
	j.x["anonMiB"] = largest()
	return err
}

// held counts what pulls take that wait, on connections that are there, and how soon one of them is woken; in the end all are.
func held(ctx context.Context, j *job) (err error) {
	dir := filepath.Join(j.work, "held")
	v, err := j.b.start[ours](ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.stop(), os.RemoveAll(dir)) }()
	waiting := &load.Remote{Addr: v.addr, Topic: "bench_held", Queues: heldQueues}
	wake := &load.Remote{Addr: v.addr, Topic: "bench_wake", Queues: 1}
	if err := errors.Join(waiting.Make(ctx), wake.Make(ctx)); err != nil {
		return err
	}
	h, err := waiting.Connect(ctx, heldConnections)
	if err != nil {
		return err
	}
	defer h.Close()
	before, err := v.process.AnonMiB()
	if err != nil {
		return err
	}
	if err := waiting.Hold(h, j.sizes.Held); err != nil {
		return err
	}
	if err := waiting.AwaitHeld(ctx, j.sizes.Held); err != nil {
		return err
	}
	after, err := v.process.AnonMiB()
	if err != nil {
		return err
	}
	j.x["bytesEach"] = max(0, after-before) * (1 << 20) / float64(j.sizes.Held)
	woken, err := wake.Wake(ctx, j.sizes.Wakes)
	if err != nil {
		return err
	}
	send, stored := woken.SinceSend.Summary(), woken.SinceStored.Summary()
	j.x["wakeP50Millis"], j.x["wakeP99Millis"] = millis(send.P50), millis(send.P99)
	j.x["storedToWakeP99Millis"] = millis(stored.P99)
	if n, err := h.Answered(); err != nil || n > 0 {
		return errors.Join(err, fmt.Errorf("%d pulls that wait for nothing were answered", n))
	}
	start := time.Now()
	if _, err := waiting.Send(ctx, load.SendLoad{Connections: 1, InFlight: 1, Messages: heldQueues}); err != nil {
		return err
	}
	for n := 0; n < j.sizes.Held; time.Sleep(time.Millisecond) {
		if n, err = h.Answered(); err != nil {
			return err
		}
		if time.Since(start) > wakeAllTime {
			return fmt.Errorf("%d of %d pulls that waited were answered in %v", n, j.sizes.Held, wakeAllTime)
		}
	}
	j.x["wakeAllMillis"] = millis(time.Since(start))
	return nil
}

// wakeAllTime bounds the answers to all pulls that wait.
const wakeAllTime = time.Minute

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// starts takes the time from the start of the process until it says that it serves: over a store that was left in order, and over the same after the broker was killed.
func starts(ctx context.Context, j *job) error {
	dir := filepath.Join(j.work, "start")
	root := filepath.Join(dir, "store")
	messages, err := fillStore(ctx, root, j.sizes.StartBytes)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	one := func(end func(v *server) error) (float64, error) {
		j.b.sync() // a start does not wait for what others have written
		began := time.Now()
		v, err := j.b.start[ours](ctx, dir)
		if err != nil {
			return 0, err
		}
		took := time.Since(began)
		r := &load.Remote{Addr: v.addr, Topic: "bench_0", Queues: queues}
		return millis(took), errors.Join(r.Await(ctx, messages), end(v))
	}
	if j.x["startMillis"], err = one(func(v *server) error { return v.kill() }); err == nil {
		j.x["killedMillis"], err = one(func(v *server) error { return v.stop() })
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// fillStore makes a store of RocksDB queues with so much log, and returns how many messages it has.
func fillStore(ctx context.Context, root string, bytes int64) (messages int, err error) {
	o := load.Options(load.RocksQueues)
	o.MappedFileSizeCommitLog = min(o.MappedFileSizeCommitLog, bytes)
	s, err := store.Open(root, o)
	if err != nil {
		return 0, err
	}
	p := load.NewProducer(s, queues, load.BodyBytes)
	for err == nil && s.Positions().Wrote < bytes {
		err = p.Put(ctx)
	}
	if err == nil {
		err = load.AwaitBuilt(ctx, s)
	}
	return p.Next, errors.Join(err, s.Close())
}
