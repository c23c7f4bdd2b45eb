// Command goclient works with a broker as RocketMQ's Go client does, which it uses as it is released. It has a module of its own, so that TandemMQ's has nothing of it.
//
//	goclient NAMESERVER SCENARIO...
//
// Scenarios run at once. Each prints one line: {"scenario": ..., "result": what came out of it}, or {"scenario": ..., "error": ...}. The exit code is 0 if all could be run.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// scenarios, by the words of the command line; those of the interop tests' Java client are called the same.
var scenarios = map[string]func(c *client) (any, error){
	"send": send, "batch": batch, "tags": tags, "sql": sql, "held": held, "pull": pull, "orderly": orderly, "broadcast": broadcast, "rebalance": rebalance,
	"delay": delay, "transaction": transaction, "retry": retry,
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: goclient NAMESERVER SCENARIO...")
		os.Exit(2)
	}
	rlog.SetLogLevel("error")
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	good := true
	var all sync.WaitGroup
	for _, name := range os.Args[2:] {
		all.Go(func() {
			begin := time.Now()
			result, err := run(name)
			line := map[string]any{"scenario": name, "ms": time.Since(begin).Milliseconds()}
			if err != nil {
				line["error"] = err.Error()
			} else {
				line["result"] = result
			}
			mu.Lock()
			defer mu.Unlock()
			if out.Encode(line) != nil || err != nil {
				good = false
			}
		})
	}
	all.Wait()
	if !good {
		os.Exit(1)
	}
}

func run(name string) (any, error) {
	f, ok := scenarios[name]
	if !ok {
		return nil, fmt.Errorf("there is no scenario %q", name)
	}
	c, err := newClient(name, os.Args[1])
	if err != nil {
		return nil, err
	}
	defer c.close()
	return f(c)
}
