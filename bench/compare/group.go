package compare

import (
	"slices"
	"strings"
	"time"
)

// group is scenarios that one run does.
type group struct {
	scenarios []Scenario
	engines   []string
	failed    map[string]bool          // by engine: it is not tried again
	took      map[string]time.Duration // likewise, the last time
	unfit     bool                     // it was said why it cannot be run here
}

// StoreEngines are the engines of scenarios that compare stores.
func StoreEngines() []string { return slices.Clone(storeEngines) }

var storeEngines = []string{File, Rocks, Combine, Java, JavaRocks}

// IsJava tells whether an engine is RocketMQ's store.
func IsJava(engine string) bool { return engine == Java || engine == JavaRocks }

// EnginesOf returns the engines that a scenario is run with; none: it is not run.
func (x *Runner) EnginesOf(s *Scenario, p Profile) []string {
	if x.Only != nil && !x.Only.MatchString(s.Name) || s.Full && p == Quick {
		return nil
	}
	engines := slices.Clone(s.Engines)
	if s.QuickEngines != nil && p == Quick && !x.Narrow {
		engines = slices.Clone(s.QuickEngines)
	}
	return slices.DeleteFunc(engines, func(e string) bool { return slices.Contains(storeEngines, e) && !slices.Contains(x.Engines, e) })
}

// Chosen returns the names of the scenarios that are run.
func (x *Runner) Chosen() (names []string) {
	for _, s := range x.Scenarios {
		if len(x.EnginesOf(&s, x.Profile)) > 0 {
			names = append(names, s.Name)
		}
	}
	return names
}

// Added returns what the full profile has beside this one, a line for each kind of scenario: of those that are left out the names, of those that have fewer engines the engines.
func (x *Runner) Added() (lines []string) {
	if x.Profile != Quick {
		return nil
	}
	kind := ""
	for _, s := range x.Scenarios {
		has := x.EnginesOf(&s, x.Profile)
		more := slices.DeleteFunc(x.EnginesOf(&s, Full), func(e string) bool { return slices.Contains(has, e) })
		if len(more) == 0 {
			continue
		}
		of, name, _ := strings.Cut(s.Name, "/")
		if len(has) > 0 {
			name += " with " + strings.Join(more, " and ")
		}
		if of != kind {
			kind = of
			lines = append(lines, of+": "+name)
		} else {
			lines[len(lines)-1] += ", " + name
		}
	}
	return lines
}

// groups returns what is run.
func (x *Runner) groups() (all []*group) {
	for _, s := range x.Scenarios {
		engines := x.EnginesOf(&s, x.Profile)
		if len(engines) == 0 {
			continue
		}
		if n := len(all); s.Shared != "" && n > 0 && all[n-1].scenarios[0].Shared == s.Shared {
			all[n-1].scenarios = append(all[n-1].scenarios, s)
			continue
		}
		all = append(all, &group{scenarios: []Scenario{s}, engines: engines, failed: map[string]bool{}, took: map[string]time.Duration{}})
	}
	return all
}

// keep gives each row of the group its part of what a run gave.
func (x *Runner) keep(rep *Report, g *group, n int, engine string, one Repetition) {
	for _, s := range g.scenarios {
		own := one
		if s.Prefix != "" {
			own.Figures, own.Latencies = only(one.Figures, s.Prefix), only(one.Latencies, s.Prefix)
			if _, there := own.Figures[s.Prefix+ownPeak]; there {
				delete(own.Figures, peakFigure) // of the process that had others do it
			}
		}
		if _, ok := own.Figures[s.Headline]; !ok && own.Failed == "" {
			own.Failed = "no figure " + s.Headline
			g.failed[engine] = true
		}
		i := slices.IndexFunc(rep.Rows, func(r Row) bool { return r.Scenario == s.Name && r.Engine == engine })
		rep.Rows[i].Repetitions = append(rep.Rows[i].Repetitions, own)
		if x.Told != nil {
			x.Told(n, s.Name, engine, own)
		}
	}
}

// alike are figures that every row of a run has.
var alike = []string{peakFigure, diskFigure}

func only[V any](all map[string]V, prefix string) map[string]V {
	m := map[string]V{}
	for name, v := range all {
		if strings.HasPrefix(name, prefix) || slices.Contains(alike, name) {
			m[name] = v
		}
	}
	return m
}

// Figures of every run.
const (
	peakFigure = "peakAnonMiB" // the largest RssAnon of the process that was measured
	diskFigure = "diskMiB"     // what its directory occupied in the end
	ownPeak    = "AnonMiB"     // behind a prefix: the same as peakFigure, of a process that the run has started for that part
)
