package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/store"
)

func storeStatusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "how far log, queues and index of a stopped store have come",
		Description: `Reads a stopped store and changes nothing. A store that a broker has open is refused; it tells by its own metrics.

   tandemmq store status --store /data/rocketmq/store

Exit codes: 0 told, 1 could not be read, 2 wrong usage.`,
		Flags: []cli.Flag{
			storeFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document"},
		},
		Action: func(c *cli.Context) error {
			st, err := store.ReadStatus(c.String("store"), store.DefaultOptions())
			if err != nil {
				return err
			}
			if c.Bool("json") {
				e := json.NewEncoder(c.App.Writer)
				e.SetIndent("", "  ")
				return e.Encode(st)
			}
			return printStoreStatus(c.App.Writer, &st)
		},
	}
}

func printStoreStatus(out io.Writer, st *store.Status) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	closed := "closed in order"
	if st.Unclean {
		closed = "not closed in order (it has a file abort); it is recovered when it is next opened"
	}
	fmt.Fprintf(w, "store\t%s\t%s\n", st.Store, closed)
	if st.LogFiles == 0 {
		fmt.Fprintf(w, "log\tempty\n")
	} else {
		fmt.Fprintf(w, "log\t%s to %s\t%s in %s files, %s\n", thousands(st.MinPhyOffset), thousands(st.EndPhyOffset), st.LogEnd, thousands(st.LogFiles), span(st.FirstMs, st.LastMs))
	}
	for i, f := range st.MissingFiles {
		if i == maxProblemLines {
			fmt.Fprintf(w, "\t\tand %s more files\n", thousands(int64(len(st.MissingFiles)-i)))
			break
		}
		fmt.Fprintf(w, "\t\t%v\n", f)
	}
	if st.LostEndBytes > 0 {
		fmt.Fprintf(w, "\t\tits end is lost, %s bytes: it was durable up to %s (%s)\n", thousands(st.LostEndBytes), thousands(max(st.EndPhyOffset, 0)+st.LostEndBytes), st.PromisedBy)
	}
	for i := range st.Views {
		v := &st.Views[i]
		at := "?"
		if v.Dispatched >= 0 {
			at = thousands(v.Dispatched)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", v.Name, at, v.Text())
	}
	c := &st.Checkpoint
	fmt.Fprintf(w, "checkpoint\t%s\tunits flushed to the record there; log flushed to %s\n", thousands(c.LogicsPhysicalOffset), moment(c.PhysicMsgTimestampMs))
	if st.CheckpointFault != "" {
		fmt.Fprintf(w, "\t\tnot used: %s\n", st.CheckpointFault)
	}
	for _, e := range st.ErrorFlags {
		fmt.Fprintf(w, "flag\t%v\tsince %s: %s\n", e.Flag, e.Time.UTC().Format(time.RFC3339), e.Reason)
	}
	if len(st.ErrorFlags) > 0 {
		fmt.Fprintf(w, "\t\tputs are refused; when the cause is gone, `tandemmq store recover --store %s` clears it\n", shellWord(st.Store))
	}
	for _, dir := range st.SetAside {
		fmt.Fprintf(w, "set aside\t\ta damaged RocksDB of queues, which nothing needs any more: %s\n", dir)
	}
	return w.Flush()
}

func span(firstMs, lastMs int64) string {
	if firstMs == 0 {
		return "no record"
	}
	return moment(firstMs) + " to " + moment(lastMs)
}

func moment(ms int64) string {
	if ms == 0 {
		return "nothing known"
	}
	return timeText(&ms)
}
