package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/compare"
)

func benchCompareCommand() *cli.Command {
	return &cli.Command{
		Name: "compare", Usage: "run the same workloads through each kind of store, beside RocketMQ's",
		Description: `Runs workloads through stores with queues in files, in RocksDB and in both, and through the store of RocketMQ 5.5.0 (which needs a JDK 17 and Maven), one engine
after the other in each repetition, each run in a process and a directory of its own. What each has stored is checked afterwards: a run that stored something else fails, and
so does this command. Prints what the machine gives, the median of each figure with the least and the most, how that is to RocketMQ and to the nearest
limit, and a line RATIO for each limit that this project has set itself.

   tandemmq bench compare --profile quick --json now.json
   tandemmq bench compare --engines file,java --scenarios '^put/' --reps 5

The quick profile takes five minutes at most, and has less than all: what it leaves out is told. The full one takes three quarters of an hour, and 30 GB. Inputs are made once, before anything is measured,
and kept in the directory. With --engines or --scenarios the quick profile runs what was chosen with all the engines that it has.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "engines", Value: "file,rocks,combine,java,java-rocks", Usage: "`LIST` of engines: file, rocks, combine, java (queues in files) and java-rocks (in RocksDB)"},
			&cli.StringFlag{Name: "scenarios", Usage: "run those whose names match this `REGEXP`", DefaultText: "all"},
			&cli.StringFlag{Name: "profile", Value: "quick", Usage: "`SIZE` of it all: quick or full"},
			&cli.IntFlag{Name: "reps", Value: 3, Usage: "`N` repetitions; the quick profile makes fewer when its time is over"},
			&cli.StringFlag{Name: "dir", Usage: "`DIR`ectory on the filesystem to measure, where inputs are kept", DefaultText: "bench in tandemmq's cache directory"},
			&cli.StringFlag{Name: "json", Usage: "write the report to `FILE`; -: to standard output, and nothing else"},
			&cli.StringFlag{Name: "html", Usage: "write the report to `FILE` as a page with charts, which loads nothing"},
			&cli.BoolFlag{Name: "list", Usage: "print the scenarios and run none"},
			&cli.BoolFlag{Name: "strict", Usage: "fail when a limit is missed"},
			&cli.BoolFlag{Name: "quiet", Usage: "print no progress"},
		},
		Action: runBenchCompare,
	}
}

// benchScenarioCommand is what bench compare runs for each run.
func benchScenarioCommand() *cli.Command {
	return &cli.Command{
		Name: "scenario", Hidden: true, Usage: "do one run of bench compare", ArgsUsage: "RUN",
		Action: func(c *cli.Context) error {
			return compare.Obey(c.Context, c.App.Writer, compare.All(), benchPeer, c.Args().First())
		},
	}
}

// benchPeer is RocketMQ.
func benchPeer(ctx context.Context) (compare.Peer, error) { return compare.NewJava(ctx) }

func runBenchCompare(c *cli.Context) error {
	profile, reps, err := profileAndReps(c)
	if err != nil {
		return err
	}
	x := compare.Runner{Profile: profile, Reps: reps, Scenarios: compare.All(), Sync: syscall.Sync, Memory: calibrate.Touch}
	if x.Only, err = regexp.Compile(c.String("scenarios")); err != nil {
		return usageError("--scenarios: %v", err)
	}
	x.Narrow = c.IsSet("engines") || c.IsSet("scenarios")
	x.Engines = compare.StoreEngines()
	if len(x.Chosen()) == 0 {
		return noScenario(c, &x)
	}
	if c.Bool("list") {
		return listScenarios(c, &x)
	}
	x.Engines = nil
	for _, e := range strings.Split(c.String("engines"), ",") {
		if e = strings.TrimSpace(e); !slices.Contains(compare.StoreEngines(), e) {
			return usageError("--engines %q: use file, rocks, combine, java and java-rocks, with commas between", c.String("engines"))
		}
		if compare.IsJava(e) && !compare.JavaBuilt() {
			fmt.Fprintln(c.App.ErrWriter, "RocketMQ's store is fetched and built, once")
		}
		if why := engineMissing(c.Context, e); why != "" {
			x.Left = append(x.Left, "engine "+e+": "+why)
			continue
		}
		x.Engines = append(x.Engines, e)
	}
	if len(x.Chosen()) == 0 {
		return errors.Join(append([]error{compare.ErrNothing}, leftErrors(x.Left)...)...)
	}
	if x.Dir, err = benchCache(c.String("dir")); err != nil {
		return err
	}
	x.Cache = filepath.Join(x.Dir, "compare")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	x.Execute = compare.OwnProcess(self, "bench", "scenario")
	mode := chooseProgress(c.App.ErrWriter, c.String("json") == "-" || c.Bool("quiet"))
	p := newProgress(c.App.ErrWriter, mode)
	defer p.Finish()
	x.Phase = func(name string, runs int64) func(int64) { return p.Phase(name, runs, "runs") }
	if mode == progressLines {
		x.Told = func(n int, scenario, engine string, r compare.Repetition) {
			fmt.Fprintf(c.App.ErrWriter, "%d %s %s: %s%s; %.1f s\n", n, scenario, engine, r.Failed, r.Figures, r.Seconds)
		}
	}
	for _, why := range x.Left {
		fmt.Fprintf(c.App.ErrWriter, "left out: %s\n", why)
	}
	for _, more := range x.Added() {
		fmt.Fprintf(c.App.ErrWriter, "the full profile adds %s\n", more)
	}
	before, err := measureLimits(c.Context, p, "limits before", x.Dir, x.Profile, 1)
	if err != nil {
		return err
	}
	rep, stopped := x.Run(c.Context)
	if rep == nil {
		return stopped
	}
	rep.Limits = before
	if stopped == nil {
		after, err := measureLimits(c.Context, p, "limits after", x.Dir, x.Profile, 2)
		if err != nil { // what was measured before is not lost
			rep.Left = append(rep.Left, err.Error())
		}
		for i := range after {
			before[i].Values = append(before[i].Values, after[i].Values...)
		}
	}
	p.Finish()
	rep.Build, rep.Budget, rep.Machine = version(), compare.Budget(), calibrate.Machine(context.WithoutCancel(c.Context), x.Dir, "")
	rep.Judge()
	if err := showReport(c, rep); err != nil || stopped != nil {
		return errors.Join(stopped, err)
	}
	return reportVerdict(rep, c.Bool("strict"))
}

// noScenario says that --scenarios names none, and what it could name.
func noScenario(c *cli.Context, x *compare.Runner) error {
	all := compare.Runner{Profile: x.Profile, Scenarios: x.Scenarios, Engines: x.Engines}
	full := compare.Runner{Profile: compare.Full, Scenarios: x.Scenarios, Engines: x.Engines, Only: x.Only}
	if names := full.Chosen(); len(names) > 0 {
		return usageError("--scenarios %q: %s run with --profile full alone", c.String("scenarios"), strings.Join(names, ", "))
	}
	return usageError("--scenarios %q: there is no such scenario; there are %s", c.String("scenarios"), strings.Join(all.Chosen(), ", "))
}

// leftErrors are why engines were left out.
func leftErrors(left []string) (all []error) {
	for _, why := range left {
		all = append(all, errors.New(why))
	}
	return all
}

// showReport writes the report where it was asked for.
func showReport(c *cli.Context, rep *compare.Report) error {
	if path := c.String("html"); path != "" {
		if err := writeTo(path, func(f *os.File) error { return compare.HTML(f, rep) }); err != nil {
			return err
		}
	}
	switch path := c.String("json"); path {
	case "-":
		return printJSON(c.App.Writer, rep)
	case "":
	default:
		if err := writeTo(path, func(f *os.File) error { return printJSON(f, rep) }); err != nil {
			return err
		}
	}
	return rep.Text(c.App.Writer)
}

// writeTo makes a file.
func writeTo(path string, write func(*os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// reportVerdict is the error of a comparison in which something went wrong.
func reportVerdict(rep *compare.Report, strict bool) error {
	if n := rep.Failed(); n > 0 {
		return fmt.Errorf("%d runs failed", n)
	}
	missed := 0
	for _, x := range rep.Ratios {
		if !x.Kept {
			missed++
		}
	}
	if strict && missed > 0 {
		return fmt.Errorf("%d limits are missed", missed)
	}
	return nil
}

// listScenarios prints what could be run.
func listScenarios(c *cli.Context, x *compare.Runner) error {
	for _, s := range x.Scenarios {
		engines := x.EnginesOf(&s, x.Profile)
		if len(engines) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(c.App.Writer, "%-28s %s (%s)\n", s.Name, s.Title, strings.Join(engines, ", ")); err != nil {
			return err
		}
	}
	return nil
}

// engineMissing returns why an engine cannot be run here; "": it can.
func engineMissing(ctx context.Context, engine string) string {
	if engine != compare.File && engine != compare.Java && !compare.HasRocks {
		return "built without RocksDB (CGO_ENABLED=0)"
	}
	if compare.IsJava(engine) {
		if _, err := benchPeer(ctx); err != nil {
			return err.Error()
		}
	}
	return ""
}

// benchCache is where benchmarks keep their inputs, as make bench-* does.
func benchCache(asked string) (string, error) {
	if asked != "" {
		return asked, os.MkdirAll(asked, 0o755)
	}
	cache := os.Getenv("TANDEMMQ_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache directory: %w; use --dir", err)
		}
		cache = filepath.Join(dir, "tandemmq")
	}
	dir := filepath.Join(cache, "bench")
	return dir, os.MkdirAll(dir, 0o755)
}
