package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// kind says what a row measures.
type kind int

const (
	ours      kind = iota // tandemmq bench put
	javas                 // StorePut, the RocketMQ store
	bare                  // append and fdatasync, nothing else
	writeBack             // a large file written and synced
)

// row is one measurement of a repetition.
type row struct {
	name string
	kind kind
	args []string // of the program
	info bool     // no limit depends on it
}

// Numbers of producers of the synchronous rows.
var syncProducers = []int{1, 16, 64, 256}

// How many messages Java puts before its clock starts: enough for the compiler to have seen the path.
const (
	javaAsyncWarmup = 200_000
	javaSyncWarmup  = 2_000
)

// populatedMessages fit into what is brought in ahead, of this file and of the two made ahead. All of it stays below the share of memory from which the kernel
// starts to write dirty pages back by itself, and so to protect them again.
const (
	populatedMessages = 200_000
	populatedAhead    = 256 << 20
)

// rows are all rows of a repetition, in the order they are run. What is compared stands side by side.
func rows(s sizes) []row {
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	seconds := strconv.Itoa(max(1, int(s.duration.Seconds())))
	// The put alone: nothing is dispatched beside it.
	async := func(name string, info bool, messages int64, more ...string) row {
		return row{name, ours, append([]string{"--set", "buildConsumeQueues=false", "--messages", count(messages)}, more...), info}
	}
	sync := func(name string, info bool, producers int, more ...string) row {
		return row{name, ours, append([]string{"--set", "buildConsumeQueues=false", "--flush", "sync", "--duration", s.duration.String(), "--producers", strconv.Itoa(producers)}, more...), info}
	}
	all := []row{
		{"writeback", writeBack, nil, false},
		async("async-1m", false, s.messages),
		{"java-async", javas, []string{"--messages", count(s.messages), "--warmup", count(min(s.messages, javaAsyncWarmup))}, false},
		async("async-8", false, s.messages, "--producers", "8"),
		// Everything in memory before the first put, no flush that would write-protect it again, and next to no look at the clock.
		async("populated", false, min(s.messages, populatedMessages), "--properties=false", "--sample", "1048576",
			"--set", "preallocateAheadBytes="+count(populatedAhead), "--set", "flushIntervalCommitLog=60000"),
		async("async-10m", false, s.big),
	}
	for _, n := range syncProducers {
		p := strconv.Itoa(n)
		all = append(all,
			row{"bare-" + p, bare, nil, false},
			sync("sync-"+p, false, n),
			row{"java-sync-" + p, javas, []string{"--flush", "sync", "--threads", p, "--seconds", seconds, "--warmup", count(javaSyncWarmup)}, false},
		)
		for _, mode := range []string{"mmap", "staged", "pwrite"} {
			all = append(all, sync(fmt.Sprintf("sync-%d-%s", n, mode), true, n, "--write-mode", mode))
		}
	}
	for _, kind := range []string{"default", "defaultRocksDB"} { // with queues built beside it
		all = append(all, row{"async-1m-queues-" + kind, ours, []string{"--messages", count(s.messages), "--set", "storeType=" + kind}, false})
	}
	for _, mode := range []string{"pool", "pwrite"} {
		all = append(all, async("async-1m-"+mode, true, s.messages, "--write-mode", mode))
	}
	for _, lock := range []struct{ name, set string }{{"spin", "useReentrantLockWhenPutMessage=false"}, {"adaptive", "useABSLock=true"}} {
		all = append(all,
			async("async-1m-"+lock.name, true, s.messages, "--set", lock.set),
			async("async-8-"+lock.name, true, s.messages, "--producers", "8", "--set", lock.set),
			sync("sync-64-"+lock.name, true, 64, "--set", lock.set),
		)
	}
	return all
}

// chosen returns the rows that are asked for.
func chosen(all []row, only *regexp.Regexp, withJava, withInfo bool) []row {
	return slices.DeleteFunc(all, func(r row) bool {
		return !only.MatchString(r.name) || r.kind == javas && !withJava || r.info && !withInfo
	})
}
