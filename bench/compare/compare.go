// Package compare runs the same workloads through several engines, in turn, in one run, and tells what each did: the file queues, the
// RocksDB queues and both of this module's store, and the store of RocketMQ 5.5.0 (a process of its own).
//
// A Scenario is one workload. It is run once for each engine it has and each repetition, in the order A B A B, each time in a fresh directory;
// Inputs that are dear to make are made once and cached. After the timed part a scenario checks what the engine did (counts, last
// offsets, sampled contents), so that a fast wrong run fails. What comes out is a Report, which is written as JSON; the terminal table, the HTML report,
// the RATIO lines and Diff are made from nothing else.
package compare

import (
	"context"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/report"
)

// Engines of scenarios that compare stores. Scenarios that compare ways of doing one thing (layout, write mode, read mode) have their own names instead.
const (
	File      = "file"
	Rocks     = "rocks"
	Combine   = "combine"
	Java      = "java"       // RocketMQ's store, with its queues in files
	JavaRocks = "java-rocks" // the same with storeType=defaultRocksDB
)

// Profile says how much is run.
type Profile string

// Quick takes at most 5 minutes in all; Full is what is kept in bench/results.
const (
	Quick Profile = "quick"
	Full  Profile = "full"
)

// Scenario is one workload, the same for each of its engines. Whatever has to be warm is warmed up by Run, before the part that is timed.
type Scenario struct {
	Name  string // "put/async/producers-1": unique; the part before the first slash is its group
	Title string // a line for the reader of a report
	// Engines it can be run with, the first of which others are set against where RocketMQ is not among them.
	Engines  []string
	Headline string  // the figure that is charted and set in ratios; by its name's end (PerSecond or a time) more or less is better
	X        float64 // where it lies on its group's curve (number of queues, of topics, hits in percent); 0: it is a bar
	XLabel   string
	Full     bool // left out of the quick profile
	// QuickEngines are those of Engines that the quick profile has, which has time for few; nil: all of them.
	QuickEngines []string
	Once         bool          // done in the first repetition alone: it takes long
	Limit        time.Duration // a run that takes longer is stopped and counts as failed; 0: the default
	Disk         int64         // bytes it needs at most (0: defaultDisk); a scenario that does not fit is left out with a line, and one that takes more fails
	// Bounds are limits of the machine that it is set against: by the name of the limit, the figure of the same unit.
	Bounds map[string]string
	// Shared: scenarios that follow one another with the same word here, the same Run and the same engines are done by one run, of which each takes the figures and latencies whose
	// names begin with its Prefix (all of them, if that is empty).
	Shared, Prefix string
	Inputs         bool // Run asks for an Input, which is made before anything is measured
	ManyFiles      bool // its directories are emptied, and removed when all is measured: a filesystem makes files slowly for a while after many were removed
	NewPages       bool // it fills new pages as fast as they come: before it memory is brought in (see newPages)
	// Unfit tells why it cannot be run on this machine; nil, or "": it can.
	Unfit func() string
	// Run does it once: the timed part, then the checks. Figures go into r.
	Run func(ctx context.Context, r *Run) error
}

// Run is one run of a scenario with one engine.
type Run struct {
	Engine  string
	Profile Profile
	Dir     string // fresh and empty; removed afterwards
	Cache   string // inputs made once, below names of their own (see Input)
	Prepare bool   // it has to be done up to its first Input, which then returns ErrPrepared
	Program string // tandemmq itself, for what is measured as its commands do it; "" in tests of this package
	Peer    Peer   // for the engines of RocketMQ; nil where it was not asked for

	Figures   report.Figures               // set by Run: what was measured; the unit is the end of the name
	Latencies map[string]calibrate.Summary // by what was timed
	Checks    []string                     // what was checked of the result, in words; a run with none fails
}

// Report is a whole run of the program.
type Report struct {
	Version int                   `json:"version"` // 1
	Started time.Time             `json:"started"`
	Seconds float64               `json:"seconds"`
	Profile Profile               `json:"profile"`
	Machine calibrate.MachineInfo `json:"machine"`
	Build   string                `json:"build"`  // of this module
	Budget  map[string]string     `json:"budget"` // what was set alike: flush, heap and cache sizes, compression
	Limits  []Limit               `json:"limits,omitempty"`
	Rows    []Row                 `json:"rows"`
	Left    []string              `json:"left,omitempty"` // what was not run, and why
	Full    []string              `json:"full,omitempty"` // what the full profile has beside, a line for each kind of scenario
	Ratios  []Ratio               `json:"ratios,omitempty"`
}

// Limit is what the machine itself gives, by which all else is read.
type Limit struct {
	Name   string    `json:"name"`
	Title  string    `json:"title"`
	Unit   string    `json:"unit"` // "B/s", "/s", "ns"
	Values []float64 `json:"values"`
}

// Row is what one engine did in one scenario.
type Row struct {
	Scenario string  `json:"scenario"`
	Title    string  `json:"title"`
	Engine   string  `json:"engine"`
	Headline string  `json:"headline"`
	X        float64 `json:"x,omitempty"`
	XLabel   string  `json:"xLabel,omitempty"`
	// Bounds are those of the scenario.
	Bounds      map[string]string `json:"bounds,omitempty"`
	Repetitions []Repetition      `json:"repetitions"`
}

// Repetition is one run of a row.
type Repetition struct {
	Figures   report.Figures               `json:"figures,omitempty"`
	Latencies map[string]calibrate.Summary `json:"latencies,omitempty"`
	Checks    []string                     `json:"checks,omitempty"`
	Failed    string                       `json:"failed,omitempty"`
	Seconds   float64                      `json:"seconds"`
}

// Ratio is a limit of an issue or of this module's documents: a value that has to be kept.
type Ratio struct {
	Name  string  `json:"name"`
	Op    string  `json:"op"` // ">=" or "<="
	Limit float64 `json:"limit"`
	Value float64 `json:"value"`
	Kept  bool    `json:"kept"`
}
