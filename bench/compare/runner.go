package compare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/bench/report"
)

// What a scenario may take that does not say so.
const (
	inputLimit   = 10 * time.Minute // to make its input
	defaultLimit = time.Minute
	defaultDisk  = 6 << 30
)

// profileTime is what all runs of a profile take at most, one that has begun apart; 0: no matter how long.
func profileTime(p Profile) time.Duration {
	switch p {
	case Quick:
		return 255 * time.Second
	case Full:
		return 55 * time.Minute
	}
	return 0
}

// newPages is how much memory is brought in before scenarios that fill new pages, and given back: what was idle may have been taken from a virtual machine, and comes back ten times as slowly as other
// memory, to whoever is the first to ask for it.
func newPages(p Profile) int64 {
	switch p {
	case Quick:
		return 512 << 20
	case Full:
		return 2 << 30
	}
	return 0
}

// Runner runs scenarios.
type Runner struct {
	Dir       string // on the filesystem to measure; what is made in it is removed
	Cache     string // of inputs, kept
	Profile   Profile
	Engines   []string       // of scenarios that compare stores
	Only      *regexp.Regexp // of scenarios; nil: all
	Narrow    bool           // Engines or Only were chosen: scenarios have all their engines, in the quick profile too
	Reps      int
	Scenarios []Scenario
	Left      []string // what was left out before, and why

	// Execute does one run and sets what r lacks; nil: in this process.
	Execute func(ctx context.Context, s *Scenario, r *Run) error
	// Sync writes back what the machine has to write, before each run; nil: nothing does.
	Sync func()
	// Memory brings so much memory in and gives it back; nil: nothing does.
	Memory func(bytes int64) error
	// Phase is told of each repetition, and how many runs it has; nil: nobody.
	Phase func(name string, runs int64) func(done int64)
	// Told is told of each run; nil: nobody.
	Told func(repetition int, scenario, engine string, r Repetition)

	left map[string]bool
}

// Run runs the scenarios, repetition by repetition, in each of them one after the other, engine by engine. A run that fails is told in its row. With an error the report is nil, or what there is of it: ctx has ended.
func (x *Runner) Run(ctx context.Context) (rep *Report, err error) {
	if x.Reps < 1 {
		return nil, fmt.Errorf("%d repetitions: want at least 1", x.Reps)
	}
	rep = &Report{Version: 1, Started: time.Now().UTC(), Profile: x.Profile, Full: x.Added()}
	work, err := os.MkdirTemp(x.Dir, "bench-compare-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.MkdirAll(x.Cache, 0o755); err != nil {
		return nil, err
	}
	x.left = map[string]bool{}
	for _, why := range x.Left {
		x.leave(rep, why)
	}
	groups := x.groups()
	if len(groups) == 0 {
		return nil, ErrNothing
	}
	runs := 0
	for _, g := range groups {
		for _, s := range g.scenarios {
			for _, e := range g.engines {
				rep.Rows = append(rep.Rows, Row{Scenario: s.Name, Title: s.Title, Engine: e, Headline: s.Headline, X: s.X, XLabel: s.XLabel, Bounds: s.Bounds})
			}
		}
		runs += len(g.engines)
	}
	if err := x.prepare(ctx, groups, filepath.Join(work, "inputs"), rep); err != nil {
		return nil, err
	}
	start := time.Now()
	var stopped error
	for n := range x.Reps {
		late, err := x.repeat(ctx, n+1, groups, runs, filepath.Join(work, fmt.Sprint(n+1)), start, rep)
		if err != nil {
			stopped = err
			x.leave(rep, fmt.Sprintf("what was to come in repetition %d of %d, and behind it: %v", n+1, x.Reps, err))
			break
		}
		if n > 0 && late > 0 {
			x.leave(rep, fmt.Sprintf("%d of %d runs of repetition %d of %d, and what comes after it: the time of the profile was over", late, runs, n+1, x.Reps))
			break
		}
	}
	rep.Rows = slices.DeleteFunc(rep.Rows, func(r Row) bool { return len(r.Repetitions) == 0 })
	rep.Seconds = time.Since(start).Seconds()
	if len(rep.Rows) == 0 {
		rep = nil
	}
	return rep, stopped
}

// ErrNothing says that there is nothing to be run.
var ErrNothing = errors.New("no scenario has this name and these engines")

// late tells whether something that takes so long would go on for longer than the profile allows.
func (x *Runner) late(start time.Time, takes time.Duration) bool {
	most := profileTime(x.Profile)
	return most > 0 && time.Since(start)+takes > most
}

// leave notes once that something was left out.
func (x *Runner) leave(rep *Report, why string) {
	if !x.left[why] {
		x.left[why] = true
		rep.Left = append(rep.Left, why)
	}
}

// prepare has inputs made. The profile's time is that of what comes after it.
func (x *Runner) prepare(ctx context.Context, groups []*group, work string, rep *Report) error {
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	runs := 0
	for _, g := range groups {
		if g.scenarios[0].Inputs {
			runs += len(g.engines)
		}
	}
	if runs == 0 {
		return nil
	}
	done, phase := int64(0), func(int64) {}
	if x.Phase != nil {
		phase = x.Phase("inputs", int64(runs))
	}
	phase(done)
	for _, g := range groups {
		for _, e := range g.engines {
			s := g.scenarios[0]
			if !s.Inputs {
				continue
			}
			if s.Limit < inputLimit {
				s.Limit = inputLimit
			}
			one, err := x.one(ctx, &s, e, filepath.Join(work, fmt.Sprint(done)), true)
			if err != nil {
				return err
			}
			if one.Failed != "" {
				g.failed[e] = true
				x.keep(rep, g, 0, e, one)
			}
			done++
			phase(done)
		}
	}
	return nil
}

// repeat is one repetition. It returns how many runs there was no time for.
func (x *Runner) repeat(ctx context.Context, n int, groups []*group, runs int, work string, start time.Time, rep *Report) (late int, err error) {
	if err := os.MkdirAll(work, 0o755); err != nil {
		return 0, err
	}
	phase := func(int64) {}
	if x.Phase != nil {
		phase = x.Phase(fmt.Sprintf("repetition %d of %d", n, x.Reps), int64(runs))
	}
	done, over := int64(0), []string(nil)
	phase(done)
	for i, g := range groups {
		s := g.scenarios[0]
		if why := x.unfit(&s, work); why != "" {
			if !g.unfit { // once: what is free differs from one repetition to the next
				g.unfit = true
				x.leave(rep, why)
			}
			continue
		}
		for _, e := range g.engines {
			if err := ctx.Err(); err != nil {
				return late, err
			}
			done++
			switch {
			case g.failed[e] || s.Once && n > 1:
			case x.late(start, g.took[e]):
				late++
				over = append(over, s.Name+" "+e)
			default:
				began := time.Now()
				one, err := x.one(ctx, &s, e, filepath.Join(work, fmt.Sprintf("%d-%s", i, e)), false)
				if err != nil {
					return late, err
				}
				g.failed[e] = one.Failed != ""
				g.took[e] = time.Since(began)
				x.keep(rep, g, n, e, one)
			}
			phase(done)
		}
	}
	if n == 1 && late > 0 {
		x.leave(rep, "the time of the profile was over before: "+strings.Join(over, ", "))
	}
	return late, nil
}

// one does one run, or has its input made. What goes wrong in it is told in its result; an error is one of the runner.
func (x *Runner) one(ctx context.Context, s *Scenario, engine, dir string, prepare bool) (rep Repetition, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return rep, err
	}
	defer func() {
		clean := os.RemoveAll
		if s.ManyFiles {
			clean = emptyFiles
		}
		if why := clean(dir); why != nil && rep.Failed == "" {
			rep.Failed = why.Error()
		}
	}()
	if x.Sync != nil {
		x.Sync()
	}
	if n := newPages(x.Profile); x.Memory != nil && s.NewPages && n > 0 {
		if err := x.Memory(n); err != nil {
			return Repetition{Failed: err.Error()}, nil
		}
	}
	limit := s.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := &Run{Engine: engine, Profile: x.Profile, Dir: dir, Cache: x.Cache, Prepare: prepare, Figures: report.Figures{}, Latencies: map[string]calibrate.Summary{}}
	execute := x.Execute
	if execute == nil {
		execute = func(ctx context.Context, s *Scenario, r *Run) error { return s.Run(ctx, r) }
	}
	start := time.Now()
	err = execute(limited, s, r)
	took := time.Since(start)
	if ctx.Err() != nil { // all of it is to end: this says nothing of the engine
		return rep, ctx.Err()
	}
	switch {
	case limited.Err() != nil:
		err = fmt.Errorf("stopped after %v", limit)
	case prepare:
		if errors.Is(err, ErrPrepared) {
			err = nil
		}
	case err == nil:
		err = x.judge(s, r)
	}
	rep = Repetition{Figures: r.Figures, Latencies: r.Latencies, Checks: r.Checks, Seconds: took.Seconds()}
	if err != nil {
		rep.Failed = err.Error()
	}
	return rep, nil
}

// judge is what the runner itself demands of a run.
func (x *Runner) judge(s *Scenario, r *Run) error {
	if len(r.Checks) == 0 {
		return errors.New("nothing was checked")
	}
	n, err := process.DiskBytes(r.Dir)
	if err != nil {
		return err
	}
	r.Figures[diskFigure] = float64(n) / (1 << 20)
	if most := s.disk(); n > most {
		return fmt.Errorf("took %d bytes of disk, at most %d were expected", n, most)
	}
	return nil
}

// emptyFiles gives the blocks of all files below dir back.
func emptyFiles(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return os.Truncate(path, 0)
	})
}

func (s *Scenario) disk() int64 {
	if s.Disk == 0 {
		return defaultDisk
	}
	return s.Disk
}

// unfit returns why a scenario cannot be run here; "": it can.
func (x *Runner) unfit(s *Scenario, dir string) string {
	if s.Unfit != nil {
		if why := s.Unfit(); why != "" {
			return fmt.Sprintf("%s: %s", s.Name, why)
		}
	}
	free, err := freeBytes(dir)
	if err != nil {
		return fmt.Sprintf("%s: %v", s.Name, err)
	}
	if free < s.disk() {
		return fmt.Sprintf("%s: needs %d MiB of disk, %d are free", s.Name, s.disk()>>20, free>>20)
	}
	return ""
}

// Failed returns how many runs failed.
func (r *Report) Failed() (n int) {
	for _, row := range r.Rows {
		for _, one := range row.Repetitions {
			if one.Failed != "" {
				n++
			}
		}
	}
	return n
}
