package compare

import (
	"context"
	"time"

	"github.com/tandemq/tandemmq/bench/load"
)

// Peer is RocketMQ's store, in a process of its own on the same directories.
type Peer interface {
	// Do does the work and sets the figures and latencies of r by the names that ours have; the checks as well.
	Do(ctx context.Context, w Work, r *Run) error
}

// Task is what a Peer does.
type Task string

// Tasks, and what they set. A store that is opened ends in order, but for that of TaskCrash.
const (
	// TaskPut puts into a new store: putPerSecond, logBytesPerSecond, builtPerSecond (until queues and index have all of it), and the latency "put".
	TaskPut Task = "put"
	// TaskRead reads the store at Root, twice, and the second time counts: pullPerSecond, getP50Micros, timeP50Micros, queryP50Micros, and the latencies "get", "time", "query".
	TaskRead Task = "read"
	// TaskReadable puts PerSecond messages for as long as it takes: readableP99Micros and the latency "readable", from before a put until the max of its queue is past it.
	TaskReadable Task = "readable"
	// TaskTail is TaskReadable with a reader that gets each message and copies it: tailP99Micros and the latency "tail".
	TaskTail Task = "tail"
	// TaskOpen opens the store at Root until queues and index are at the end of the log: openMillis (until it takes puts) and readyMillis.
	TaskOpen Task = "open"
	// TaskMixed puts as fast as it can with Producers beside Readers who follow what is put: putPerSecond, pullPerSecond and the latency "put".
	TaskMixed Task = "mixed"
)

// Work says what a Peer does. Messages are those of load.Producer: number n goes to queue n of load.TopicsOf(Queues).
type Work struct {
	Task      Task
	Engine    load.Engine // where RocketMQ keeps its consume queues; set by the engine of the run
	Root      string      // of the store
	Sync      bool        // SYNC_FLUSH
	Producers int
	Readers   int
	Queues    int
	Body      int // bytes
	Warmup    int // messages that are put before, so that the code is compiled; they are in the store and are checked, too
	Messages  int // to be put, or in the store
	PerSecond int
	Samples   int           // of each latency
	Time      time.Duration // 0: until Messages are put; otherwise that long
}
