package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tandemq/tandemmq/store/offsets"
)

func printOffsets(w io.Writer, l *offsets.Listing) {
	for _, u := range l.Unread {
		fmt.Fprintf(w, "unread: %s\n", u)
	}
	if len(l.Lines) == 0 {
		fmt.Fprintln(w, "no consumer offsets")
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "PLACE\tGROUP\tTOPIC\tQUEUE\tOFFSET\tMIN\tMAX\tBEHIND\tSTORED\tSTATE")
	for _, n := range l.Lines {
		state := string(n.Kind)
		if state == "" {
			state = "ok"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Place, n.Group, n.Topic, n.QueueID,
			number(n.Offset), number(n.Min), number(n.Max), number(n.Behind), timeText(n.StoreMs), state)
	}
	_ = tw.Flush() // as the lines before it: what cannot be printed is lost
}

// number prints a value that may be absent.
func number(v *int64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatInt(*v, 10)
}

// timeText prints a store time in UTC.
func timeText(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return time.UnixMilli(*ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(int64(n)) + " " + what + "s"
}

func printOffsetsReport(w io.Writer, r *offsets.Report) {
	if len(r.Swept) == 0 {
		fmt.Fprintf(w, "store %s holds no consumer offsets\n", r.Store)
	}
	for _, s := range r.Swept {
		fmt.Fprintf(w, "%s: %s of %s", s.Path, counted(s.Offsets, "offset"), counted(s.Groups, "group"))
		if s.FellBack {
			fmt.Fprint(w, " (of its backup)")
		}
		for _, extra := range []struct {
			n    int
			text string
		}{
			{s.None, "of -1 (nothing consumed)"},
			{s.NoQueueYet, "of 0 in queues that are not there yet"},
			{s.NotJudged, "in batch topics, not judged"},
			{s.OnlyInBackup, "only in the backup"},
		} {
			if extra.n > 0 {
				fmt.Fprintf(w, "; %s %s", thousands(int64(extra.n)), extra.text)
			}
		}
		fmt.Fprintln(w)
		for _, n := range s.Notes {
			fmt.Fprintf(w, "  note: %s\n", n)
		}
	}
	for i := range r.Findings {
		printFinding(w, &r.Findings[i])
	}
	if len(r.Findings) == 0 {
		fmt.Fprintln(w, "no offset is outside of its queue; whether they say what was consumed, nobody can tell")
	}
}

func printFinding(w io.Writer, f *offsets.Finding) {
	fmt.Fprintf(w, "\n%s", f.Kind)
	if f.Key != nil {
		fmt.Fprintf(w, "  group %s topic %s queue %d", f.Group, f.Topic, f.QueueID)
	}
	fmt.Fprintf(w, "\n  %s\n  in %s", f.Text, f.Path)
	if f.At != "" {
		fmt.Fprintf(w, " at %s", f.At)
	}
	fmt.Fprintln(w)
	if f.Min != nil {
		fmt.Fprintf(w, "  queue: min %d, max %d\n", *f.Min, *f.Max)
	}
	e := f.Evidence
	if e == nil {
		return
	}
	if e.Backup != nil {
		fmt.Fprintf(w, "  backup: %d, stored %s\n", *e.Backup, timeText(e.BackupStoreMs))
	}
	for _, p := range offsets.Places() {
		if v, ok := e.Elsewhere[p]; ok {
			fmt.Fprintf(w, "  in %s: %d\n", p, v)
		}
	}
	var times []string
	for _, t := range []struct {
		name string
		ms   *int64
	}{{"at the offset", e.OffsetStoreMs}, {"at min", e.MinStoreMs}, {"newest", e.LastStoreMs}} {
		if t.ms != nil {
			times = append(times, t.name+" "+timeText(t.ms))
		}
	}
	if len(times) > 0 {
		fmt.Fprintf(w, "  stored: %s\n", strings.Join(times, ", "))
	}
	if e.UnknownTopic {
		fmt.Fprintln(w, "  topic: not in the broker's topic table")
	}
	if e.Retry != nil && e.Retry.Queues > 0 {
		fmt.Fprintf(w, "  retry: %s holds %s messages, %s not delivered again yet, newest %s\n", e.Retry.Topic,
			thousands(e.Retry.Messages), thousands(e.Retry.Waiting), timeText(e.Retry.LastStoreMs))
	}
}

func printOffsetsPlan(w io.Writer, p *offsets.Plan) {
	base := p.Base
	if base == "" {
		base = "nothing"
	}
	fmt.Fprintf(w, "%s to %s, in %s (the others as in %s)\n", counted(len(p.Changes), "offset"), targetText(p), p.File, base)
	if len(p.Changes) > 0 {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "GROUP\tTOPIC\tQUEUE\tFROM\tTO\tCHANGE\tMIN\tMAX\tSTORED\tREMARK")
		for i := range p.Changes {
			c := &p.Changes[i]
			fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", c.Group, c.Topic, c.QueueID, number(c.From), c.To,
				difference(c), number(c.Min), number(c.Max), timeText(c.ToStoreMs), remark(c))
		}
		_ = tw.Flush() // as above
	}
	for _, s := range p.Skipped {
		fmt.Fprintf(w, "left as it is: group %s topic %s queue %d: %s\n", s.Group, s.Topic, s.QueueID, s.Text)
	}
	if p.Unchanged > 0 {
		fmt.Fprintf(w, "%s as they should be already\n", counted(p.Unchanged, "offset"))
	}
	for _, n := range p.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}

func targetText(p *offsets.Plan) string {
	switch p.Target {
	case offsets.ToBackup:
		return "the values of " + p.Backup
	case offsets.ToTime:
		return "the first message from " + timeText(p.TimeMs)
	case offsets.ToBounds:
		return "the nearer end of the queue"
	default:
		return string(p.Target)
	}
}

// difference is how far an offset goes: ahead over messages that are then skipped, or back to some consumed again.
func difference(c *offsets.Change) string {
	if c.From == nil {
		return "new"
	}
	return fmt.Sprintf("%+d", c.To-*c.From)
}

func remark(c *offsets.Change) string {
	var out []string
	if c.FromText != "" {
		out = append(out, "was "+c.FromText)
	}
	if c.Clamped != nil {
		out = append(out, fmt.Sprintf("the backup has %d, outside of the queue", *c.Clamped))
	}
	if c.Outside {
		out = append(out, "outside of the queue, as in the backup")
	}
	if c.Min == nil {
		out = append(out, "queue not read")
	}
	return strings.Join(out, "; ")
}

func printApplied(w io.Writer, a *offsets.Applied) {
	fmt.Fprintf(w, "\n%s is written.\n", a.File)
	if a.Copy != "" {
		fmt.Fprintf(w, "What it held before is in %s.\n", a.Copy)
	}
}
