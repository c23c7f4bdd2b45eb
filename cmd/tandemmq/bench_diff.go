package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/bench/compare"
)

func benchDiffCommand() *cli.Command {
	return &cli.Command{
		Name: "diff", Usage: "say what differs between two reports of bench compare", ArgsUsage: "BEFORE.json AFTER.json",
		Description: `Compares each figure that both reports have. It has moved when its medians differ by more than --percent, and by more than both spreads (from the least to the most) together; one that was
measured once, when it differs by half. A row is better or worse by the figure that it is judged by, which is in capitals; its other figures are shown, and do not count.
Limits of the machine are compared as well: where they have moved, so may everything else. Between reports of machines that differ no row is called better or worse: the figures are shown.

   tandemmq bench diff yesterday.json today.json

Exit code 0: no row is worse, and no row fails that the first report has. 1: one is, or does, or a report cannot be read. 2: wrong usage.`,
		Flags: []cli.Flag{
			&cli.Float64Flag{Name: "percent", Value: 5, Usage: "`N` percent that medians have to differ by"},
			&cli.BoolFlag{Name: "all", Usage: "show figures that have not moved, too"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document"},
		},
		Action: runBenchDiff,
	}
}

func runBenchDiff(c *cli.Context) error {
	if c.NArg() != 2 {
		return usageError("bench diff: want two reports, got %d", c.NArg())
	}
	if c.Float64("percent") < 0 {
		return usageError("--percent %v: want 0 or more", c.Float64("percent"))
	}
	before, err := compare.ReadReport(c.Args().Get(0))
	if err != nil {
		return err
	}
	after, err := compare.ReadReport(c.Args().Get(1))
	if err != nil {
		return err
	}
	d := compare.Diff(before, after, c.Float64("percent"))
	if c.Bool("json") {
		err = printJSON(c.App.Writer, d)
	} else {
		err = d.Text(c.App.Writer, c.Bool("all"))
	}
	worse := d.Worse()
	switch {
	case len(d.Failed) > 0:
		err = errors.Join(err, fmt.Errorf("%d rows are worse, %d fail", worse, len(d.Failed)))
	case worse > 0:
		err = errors.Join(err, fmt.Errorf("%d rows are worse", worse))
	}
	return err
}
