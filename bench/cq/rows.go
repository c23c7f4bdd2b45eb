package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/report"
)

type (
	figures    = report.Figures
	repetition = report.Repetition
	engine     = load.Engine
)

const (
	fileQueues   = load.FileQueues
	rocksQueues  = load.RocksQueues
	combineRocks = load.CombineRocks
)

// sizes of the rows.
type sizes struct {
	Units       int           `json:"units"`       // of a row over few queues
	ManyUnits   int           `json:"manyUnits"`   // of a row over 100,000 queues
	FileUnits   int           `json:"fileUnits"`   // of the rows of files, which are faster
	ReadUnits   int           `json:"readUnits"`   // that are there to be read
	Reads       int           `json:"reads"`       // calls of each kind
	Messages    int           `json:"messages"`    // of a store
	Big         int           `json:"big"`         // of a large store; 0: without these rows
	Queues      int           `json:"queues"`      // of the store of many queues, 10 messages each
	Samples     int           `json:"samples"`     // of a latency
	Warmup      int           `json:"warmup"`      // puts of Java before its clock starts
	Paced       time.Duration `json:"paced"`       // of the row at 100,000 messages/s
	Sustained   time.Duration `json:"sustained"`   // of the rows at full rate
	Point       time.Duration `json:"point"`       // that a point of a curve may take, to judge by the one before
	RocksQueues []int         `json:"rocksQueues"` // points of the curve
	FileQueues  []int         `json:"fileQueues"`
	BothQueues  []int         `json:"bothQueues"`
}

var profiles = map[string]sizes{
	"quick": {
		Units: 1_000_000, ManyUnits: 500_000, FileUnits: 5_000_000, ReadUnits: 400_000, Reads: 20_000, Messages: 200_000, Queues: 2_000, Samples: 5_000, Warmup: 100_000,
		Paced: 3 * time.Second, Sustained: 3 * time.Second, Point: 20 * time.Second, RocksQueues: []int{1000, 10_000}, FileQueues: []int{1000, 10_000}, BothQueues: []int{10_000},
	},
	"default": {
		Units: 4_000_000, ManyUnits: 2_000_000, FileUnits: 20_000_000, ReadUnits: 1_000_000, Reads: 50_000, Messages: 1_000_000, Queues: 10_000, Samples: 20_000, Warmup: 200_000,
		Paced: 5 * time.Second, Sustained: 5 * time.Second, Point: time.Minute, RocksQueues: []int{1000, 10_000, 100_000}, FileQueues: []int{1000, 10_000, 100_000},
		BothQueues: []int{100_000},
	},
	"full": {
		Units: 20_000_000, ManyUnits: 10_000_000, FileUnits: 50_000_000, ReadUnits: 10_000_000, Reads: 100_000, Messages: 1_000_000, Big: 10_000_000, Queues: 10_000, Samples: 20_000,
		Warmup: 200_000, Paced: 60 * time.Second, Sustained: 20 * time.Second, Point: time.Hour, RocksQueues: []int{1000, 10_000, 100_000, 1_000_000}, FileQueues: []int{1000, 10_000, 100_000},
		BothQueues: []int{100_000},
	},
}

var engines = []engine{fileQueues, rocksQueues, combineRocks}

// row is one measurement of a repetition.
type row struct {
	name     string
	engine   engine
	queues   int
	messages int // of a store
	once     bool
	curve    bool // a point of it
	java     bool
	// measure makes what it needs in dir, which is not there yet, and checks afterwards that all of it arrived. nil for Java.
	measure func(ctx context.Context, r row, s sizes, dir string) (figures, error)
}

// rows are all rows of a repetition, in the order they are run. What is compared stands side by side.
func rows(s sizes) []row {
	all := []row{
		{name: "rocks-append-8", engine: rocksQueues, queues: 8, measure: appendUnits},
		{name: "rocks-append-100000", engine: rocksQueues, queues: 100_000, measure: appendUnits},
		{name: "rocks-read", engine: rocksQueues, queues: 8, measure: readRocks},
		{name: "file-append-8", engine: fileQueues, queues: 8, measure: appendRuns},
		{name: "file-append-mixed", engine: fileQueues, queues: 8, measure: appendUnits},
		{name: "file-read", engine: fileQueues, queues: 8, measure: readUnits},
		{name: "combine-append-8", engine: combineRocks, queues: 8, measure: appendUnits},
		{name: "combine-append-100000", engine: combineRocks, queues: 100_000, measure: appendUnits},
	}
	for _, e := range engines {
		all = append(all, row{name: "written-" + string(e), engine: e, queues: 8, measure: written})
	}
	all = append(all, row{name: "readable-combine", engine: combineRocks, queues: 8, measure: readable})
	for _, e := range engines {
		all = append(all, row{name: "sustained-" + string(e), engine: e, queues: 8, measure: sustained})
	}
	pair := func(name string, e engine, queues, messages int, once bool) {
		all = append(all,
			row{name: "store-" + name, engine: e, queues: queues, messages: messages, once: once, measure: wholeStore},
			row{name: "java-" + name, engine: e, queues: queues, messages: messages, once: once, java: true},
		)
	}
	for _, e := range engines {
		pair(string(e), e, 8, s.Messages, false)
	}
	for _, e := range engines {
		pair("many-"+string(e), e, s.Queues, 10*s.Queues, true)
	}
	if s.Big > 0 {
		for _, e := range engines[1:] {
			pair("big-"+string(e), e, 8, s.Big, true)
		}
	}
	for _, n := range s.RocksQueues {
		all = append(all, row{name: fmt.Sprintf("queues-rocks-%d", n), engine: rocksQueues, queues: n, once: true, curve: true, measure: manyQueues})
	}
	for _, n := range s.FileQueues {
		all = append(all, row{name: fmt.Sprintf("queues-file-%d", n), engine: fileQueues, queues: n, once: true, curve: true, measure: manyQueues})
	}
	for _, n := range s.BothQueues {
		all = append(all, row{name: fmt.Sprintf("queues-combine-%d", n), engine: combineRocks, queues: n, once: true, curve: true, measure: manyQueues})
	}
	return all
}

// chosen returns the rows that are asked for.
func chosen(all []row, only *regexp.Regexp, withJava bool) []row {
	return slices.DeleteFunc(all, func(r row) bool { return !only.MatchString(r.name) || r.java && !withJava })
}
