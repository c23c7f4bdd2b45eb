package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tandemq/tandemmq/migrate"
)

// table writes rows of a name and a value in two columns.
func table(w io.Writer, rows ...[2]string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(tw, "  %s\t%s\n", r[0], r[1])
	}
	_ = tw.Flush() // w's errors come back with its next write
}

func printPlan(w io.Writer, p *migrate.Plan) {
	fmt.Fprintf(w, "Plan: %s -> %s in %s\n", p.From, p.To, p.Root)
	queues := fmt.Sprintf("%s in %s topics", thousands(int64(p.Queues)), thousands(int64(p.Topics)))
	if p.LightQueues > 0 {
		queues += fmt.Sprintf(", %s of them light queues", thousands(int64(p.LightQueues)))
	}
	if p.EmptyQueues > 0 {
		queues += fmt.Sprintf(", %s with nothing left to read", thousands(int64(p.EmptyQueues)))
	}
	disk := fmt.Sprintf("about %s needed", byteSize(p.DiskNeeded))
	if p.DiskPeak > p.DiskNeeded {
		disk += fmt.Sprintf(", %s meanwhile", byteSize(p.DiskPeak))
	}
	disk += fmt.Sprintf(", %s free", byteSize(p.DiskFree))
	rows := [][2]string{
		{"commit log", fmt.Sprintf("%s, offsets %d to %d", byteSize(p.LogBytes), p.LogMin, p.LogEnd)},
		{"queues", queues},
		{"units", thousands(p.Units)},
		{"already in the target", fmt.Sprintf("%s queues, %s units", thousands(int64(p.TargetQueues)), thousands(p.TargetUnits))},
		{"RocksDB layout", string(p.RocksLayout)},
		{"consume queue file size", thousands(p.CQFileSize) + " bytes"},
		{"disk", disk},
		{"time", fmt.Sprintf("about %v: backfill %v, verification %v", round(p.Estimate), round(p.EstimateBackfill), round(p.EstimateVerify))},
		{"migration so far", string(p.Phase)},
	}
	table(w, rows...)
	for _, s := range p.States {
		fmt.Fprintf(w, "  recognised: %s", s.Text)
		if len(s.Examples) > 0 {
			fmt.Fprintf(w, " (%s", strings.Join(s.Examples, ", "))
			if s.Queues > len(s.Examples) {
				fmt.Fprint(w, ", ...")
			}
			fmt.Fprint(w, ")")
		}
		fmt.Fprintln(w)
	}
	for _, t := range p.Warnings {
		fmt.Fprintf(w, "  warning: %s\n", t)
	}
	for _, r := range p.Refusals {
		fmt.Fprintf(w, "  refused: %s\n", r)
	}
	printFindings(w, "  found", &p.Findings)
}

func printFindings(w io.Writer, what string, fs *migrate.Findings) {
	if fs.Len() == 0 {
		return
	}
	fmt.Fprintf(w, "%s: %s\n", what, fs.Summary())
	for _, f := range fs.First {
		if f.Text != "" {
			fmt.Fprintf(w, "    %s\n", f)
		}
	}
}

func printBackfill(w io.Writer, b *migrate.BackfillResult) {
	if b.Nothing {
		fmt.Fprintln(w, "Backfill: nothing to do, the migration has been cut over")
		return
	}
	from := "from the start of the log"
	if b.ResumedFrom >= 0 {
		from = fmt.Sprintf("resumed at %d", b.ResumedFrom)
	}
	fmt.Fprintf(w, "Backfill: %s units of %s queues up to log offset %d (%s) in %s (%s units/s)",
		thousands(b.Units), thousands(int64(b.Queues)), b.LogEnd, from, round(b.Load), thousands(int64(b.UnitsPerSecond())))
	if b.Compaction > 0 {
		fmt.Fprintf(w, ", compaction %s", round(b.Compaction))
	}
	fmt.Fprintln(w)
	printFindings(w, "  kept as they are", &b.Notices)
}

func printVerify(w io.Writer, v *migrate.VerifyResult) {
	switch v.Level {
	case migrate.LevelCounts:
		fmt.Fprintf(w, "Verify: max, min and min physical offset of %s queues are equal, in %s. That proves no unit: cutover asks for more\n", thousands(int64(v.Queues)), round(v.Elapsed))
	default:
		fmt.Fprintf(w, "Verify: equal. %s queues and %s units compared one by one, %s records decoded", thousands(int64(v.Queues)), thousands(v.Units), thousands(v.Samples))
		if v.Searches > 0 {
			fmt.Fprintf(w, ", %s searches by time", thousands(v.Searches))
		}
		fmt.Fprintf(w, ", in %s\n  digest %s\n", round(v.Elapsed), v.Fingerprint.Digest)
	}
	printFindings(w, "  kept as they are", &v.Notices)
}

func printRepair(w io.Writer, r *migrate.RepairResult) {
	sides := make([]string, 0, len(r.Sides))
	for _, s := range r.Sides {
		sides = append(sides, string(s))
	}
	fmt.Fprintf(w, "Repair: %s queues held against %s records of the log (%s), in %s\n", thousands(int64(r.Queues)), thousands(r.Records), strings.Join(sides, " and "), round(r.Elapsed))
	printFindings(w, "  wrong", &r.Findings)
	printFindings(w, "  kept as they are", &r.Notices)
	switch {
	case r.Findings.Len() == 0:
		fmt.Fprintln(w, "  nothing to do: each slot has the unit of its record")
	case r.DryRun:
		fmt.Fprintln(w, "  nothing was changed")
	default:
		fmt.Fprintf(w, "  %s slots written, %s queues cut, %s removed\n", thousands(r.Slots), thousands(int64(r.Cut)), thousands(int64(r.Dropped)))
	}
}

func printCutover(w io.Writer, what string, r *migrate.CutoverResult, root string) {
	switch {
	case r.Nothing:
		fmt.Fprintf(w, "Nothing to do: reads are with the %s side already\n", r.Active)
	case r.DryRun && what == "cutover":
		fmt.Fprintf(w, "Checked: %s queues and %s units are equal and as verified. Nothing was changed; --yes gives reads to the %s side\n", thousands(int64(r.Queues)), thousands(r.Units), r.Active)
	case r.DryRun:
		fmt.Fprintf(w, "Possible. Nothing was changed; --yes brings the %s side up to the log's end and gives reads back to it\n", r.Active)
	case what == "cutover":
		fmt.Fprintf(w, "Cut over: reads are with the %s side (%s queues, %s units) after %s\n", r.Active, thousands(int64(r.Queues)), thousands(r.Units), round(r.Elapsed))
	default:
		fmt.Fprintf(w, "Rolled back: reads are with the %s side (%s queues, %s units, %s of them added now) after %s\n",
			r.Active, thousands(int64(r.Queues)), thousands(r.Units), thousands(r.Backfill.Units), round(r.Elapsed))
	}
	printFindings(w, "  kept as they are", &r.Notices)
	for _, line := range r.Metadata {
		fmt.Fprintf(w, "  %s\n", line)
	}
	fmt.Fprintln(w, "A RocketMQ 5.5.0 broker reads this side with these lines in broker.conf:")
	for _, l := range r.BrokerConf {
		fmt.Fprintf(w, "    %s\n", l)
	}
	if len(r.DualConf) > 0 {
		fmt.Fprintln(w, "or reads it and goes on writing both sides, which keeps the way back short, with these:")
		for _, l := range r.DualConf {
			fmt.Fprintf(w, "    %s\n", l)
		}
	}
	if what == "cutover" {
		fmt.Fprintf(w, "The way back: tandemmq migrate rollback --store %s --yes\n", root)
	}
}

// stoppedStatus is the state of a migration, and how far a backfill is.
type stoppedStatus struct {
	*migrate.State
	Backfill *backfillStatus `json:"backfill,omitempty"`
}

// backfillStatus is how far one is, by what it last noted.
type backfillStatus struct {
	Done           int64 `json:"done"` // bytes of the log
	Of             int64 `json:"of"`
	BytesPerSecond int64 `json:"bytesPerSecond"`
	SecondsLeft    int64 `json:"secondsLeft"`     // -1 while that cannot be told
	NotedSeconds   int64 `json:"notedSecondsAgo"` // a backfill that goes on notes something every few seconds
}

// offlineStatus reads the state.
func offlineStatus(dir string, now time.Time) (*stoppedStatus, error) {
	st, err := migrate.LoadState(dir)
	if err != nil {
		return nil, err
	}
	s := &stoppedStatus{State: st}
	if st.Online != nil || st.Phase != migrate.PhaseBackfilling && st.Phase != migrate.PhaseRollingBack || st.BackfillEnd <= st.BackfillFrom {
		return s, nil
	}
	file, err := os.Stat(filepath.Join(dir, migrate.StateFileName))
	if err != nil {
		return nil, err
	}
	b := &backfillStatus{Done: max(st.BackfilledTo-st.BackfillFrom, 0), Of: st.BackfillEnd - st.BackfillFrom, SecondsLeft: -1, NotedSeconds: int64(max(now.Sub(file.ModTime()), 0).Seconds())}
	b.Done = min(b.Done, b.Of)
	for _, h := range st.History { // the last one counts
		if d := file.ModTime().Sub(h.Time).Seconds(); (h.Event == migrate.EventBackfillStart || h.Event == migrate.EventRollbackStart) && d > 0.05 && b.Done > 0 {
			b.BytesPerSecond = int64(float64(b.Done) / d)
		}
	}
	if b.BytesPerSecond > 0 {
		b.SecondsLeft = max((b.Of-b.Done)/b.BytesPerSecond-b.NotedSeconds, 0)
	}
	s.Backfill = b
	return s, nil
}

func printStatus(w io.Writer, s *stoppedStatus, root string, history bool) {
	st := s.State
	fmt.Fprintf(w, "Migration of %s: %s\n", root, st.Phase)
	if st.Phase == migrate.PhaseAbsent {
		return
	}
	rows := [][2]string{{"direction", fmt.Sprintf("%s -> %s", st.From, st.To)}, {"RocksDB layout", string(st.RocksLayout)}}
	if side, ok := st.Active(); ok {
		rows = append(rows, [2]string{"reads belong to", string(side)})
	}
	if st.BackfilledTo >= 0 {
		rows = append(rows, [2]string{"backfilled to", fmt.Sprintf("log offset %d", st.BackfilledTo)})
	}
	if b := s.Backfill; b != nil {
		text := fmt.Sprintf("%s of %s of the log (%.1f%%)", byteSize(b.Done), byteSize(b.Of), 100*float64(b.Done)/float64(b.Of))
		if b.BytesPerSecond > 0 {
			text += fmt.Sprintf(", %s/s, about %v left", byteSize(b.BytesPerSecond), time.Duration(b.SecondsLeft)*time.Second)
		}
		rows = append(rows, [2]string{"backfill", fmt.Sprintf("%s; noted %v ago", text, time.Duration(b.NotedSeconds)*time.Second)})
	}
	if v := st.Verified; v != nil {
		rows = append(rows, [2]string{"verified", fmt.Sprintf("%s queues, %s units, log %d to %d, at %s", thousands(int64(v.Queues)), thousands(v.Units), v.LogMin, v.LogEnd, v.Time.Format(time.RFC3339))})
	}
	table(w, rows...)
	if history {
		printHistory(w, st.History)
	}
}
