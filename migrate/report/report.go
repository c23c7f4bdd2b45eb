package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/htmlreport"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/state"
)

// HTML writes the page of o to w. The same overview gives the same page.
func HTML(w io.Writer, o *migrate.Overview) error {
	p := htmlreport.Page{
		Title: "Migration of " + o.Root, Lead: lead(o),
		Sections: []htmlreport.Section{stands(o), step(o), findings(o), progress(o), queues(o), disk(o), latencies(o), certificate(o), trail(o)},
		Foot:     strings.TrimSpace(fmt.Sprintf("Written by tandemmq %s at %s. docs/migration.md says what each word means.", o.Tool, htmlreport.Time(o.Time))),
	}
	return p.Write(w)
}

// side names a kind of queues.
func side(k cq.Kind) string {
	switch k {
	case cq.KindFile:
		return "files"
	case cq.KindRocks:
		return "RocksDB"
	}
	return string(k)
}

func lead(o *migrate.Overview) string {
	st := &o.State
	from, to, phase := st.From, st.To, st.Phase
	if from == "" && o.Plan != nil {
		from, to = o.Plan.From, o.Plan.To
	}
	if from == "" {
		return "No migration was begun."
	}
	how := "of the stopped store"
	if st.Online != nil {
		how = "in a running broker"
	}
	s := fmt.Sprintf("From %s to %s, %s: %s.", side(from), side(to), how, phase)
	if active, ok := st.Active(); ok {
		s += fmt.Sprintf(" Reads belong to %s.", side(active))
	}
	return s
}

// stands says where the migration stands.
func stands(o *migrate.Overview) htmlreport.Section {
	st := &o.State
	var f htmlreport.Facts
	add := func(name, format string, args ...any) {
		f = append(f, htmlreport.Fact{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	if st.Phase != state.Absent {
		add("Phase", "%s", st.Phase)
	}
	if p := o.Plan; p != nil {
		add("Queues", "%s in %s topics", htmlreport.Count(int64(p.Queues)), htmlreport.Count(int64(p.Topics)))
		add("Units", "%s", htmlreport.Count(p.Units))
		add("Commit log", "%s, offsets %d to %d", htmlreport.Bytes(float64(p.LogBytes)), p.LogMin, p.LogEnd)
		add("Disk, as planned", "about %s needed, %s free", htmlreport.Bytes(float64(p.DiskNeeded)), htmlreport.Bytes(float64(p.DiskFree)))
		add("Time, as planned", "about %s", htmlreport.Seconds(p.Estimate.Seconds()))
	}
	if v := o.Verify; v != nil {
		add("Verified now", "level %s: %s queues, %s units, %s records, in %s", v.Level, htmlreport.Count(int64(v.Queues)), htmlreport.Count(v.Units), htmlreport.Count(v.Samples), htmlreport.Seconds(v.Elapsed.Seconds()))
	}
	if b := o.Backfill; b != nil && !b.Nothing {
		add("Filled now", "%s units of %s queues in %s, %s units/s", htmlreport.Count(b.Units), htmlreport.Count(int64(b.Queues)), htmlreport.Seconds(b.Load.Seconds()), htmlreport.Short(b.UnitsPerSecond()))
	}
	if st.Phase != state.Absent {
		add("RocksDB lies", "in its own directory")
		if st.RocksLayout == state.LayoutShared {
			f[len(f)-1].Value = "among the topics of the file queues"
		}
		if st.BackfilledTo >= 0 {
			add("Filled up to", "log offset %d", st.BackfilledTo)
		}
	}
	if v := st.Verified; v != nil && o.Verify == nil {
		add("Verified", "%s queues, %s units, log %d to %d, at %s", htmlreport.Count(int64(v.Queues)), htmlreport.Count(v.Units), v.LogMin, v.LogEnd, htmlreport.Time(v.Time))
	}
	if st.Online != nil && st.Online.Verified != nil {
		v := st.Online.Verified
		add("Verified", "%s queues, %s units, %s records, up to log offset %d, at %s", htmlreport.Count(int64(v.Queues)), htmlreport.Count(v.Units), htmlreport.Count(v.Records), v.LogEnd, htmlreport.Time(v.Time))
	}
	if on := st.Online; on != nil && len(on.CanaryTopics) > 0 {
		add("Read from the target already", "%s", strings.Join(on.CanaryTopics, ", "))
	}
	for i := range st.Retired {
		r := &st.Retired[i]
		switch {
		case r.Removed:
			add("Retired", "the %s queues; deleted", r.Kind)
		case !r.Until.IsZero():
			add("Retired", "the %s queues, in %s until %s", r.Kind, r.Path, htmlreport.Time(r.Until))
		}
	}
	s := htmlreport.Section{Title: "Where it stands"}
	if len(f) > 0 {
		s.Blocks = append(s.Blocks, f)
	}
	if len(o.Problems) > 0 {
		s.Blocks = append(s.Blocks, &htmlreport.List{Mark: htmlreport.Bad, Items: o.Problems})
	}
	return s
}

// step says what the step that was done just now came to.
func step(o *migrate.Overview) htmlreport.Section {
	s := htmlreport.Section{Title: "This step: " + o.Step}
	if o.Step == "" {
		return s
	}
	if o.Error != "" {
		text, _, _ := strings.Cut(o.Error, "\n")
		s.Blocks = append(s.Blocks, &htmlreport.List{Mark: htmlreport.Bad, Items: append([]string{text}, o.Reasons...)})
	}
	if p := o.Plan; p != nil {
		var items []string
		for _, x := range p.States {
			text := fmt.Sprintf("Recognised: %s", x.Text)
			if len(x.Examples) > 0 {
				text += " (" + strings.Join(x.Examples, ", ")
				if x.Queues > len(x.Examples) {
					text += ", …"
				}
				text += ")"
			}
			items = append(items, text)
		}
		for _, x := range p.Warnings {
			items = append(items, "Warning: "+x)
		}
		if len(items) > 0 {
			s.Blocks = append(s.Blocks, &htmlreport.List{Items: items})
		}
		if len(p.Refusals) > 0 && o.Error == "" {
			s.Blocks = append(s.Blocks, &htmlreport.List{Mark: htmlreport.Bad, Items: p.Refusals})
		}
	}
	if c := o.Cutover; c != nil {
		text := fmt.Sprintf("Reads are with %s: %s queues, %s units, after %s.", side(c.Active), htmlreport.Count(int64(c.Queues)), htmlreport.Count(c.Units), htmlreport.Seconds(c.Elapsed.Seconds()))
		switch {
		case c.Nothing:
			text = fmt.Sprintf("Nothing to do: reads are with %s already.", side(c.Active))
		case c.DryRun:
			text = fmt.Sprintf("Possible; nothing was changed. With --yes reads are given to %s.", side(c.Active))
		}
		s.Blocks = append(s.Blocks, &htmlreport.List{Items: append([]string{text}, c.Metadata...)})
	}
	if r := o.Repair; r != nil {
		text := fmt.Sprintf("%s queues were held against %s records of the log, in %s: ", htmlreport.Count(int64(r.Queues)), htmlreport.Count(r.Records), htmlreport.Seconds(r.Elapsed.Seconds()))
		switch {
		case r.Findings.Len() == 0:
			text += "each slot has the unit of its record."
		case r.DryRun:
			text += "nothing was changed."
		default:
			text += fmt.Sprintf("%s slots were written, %s queues cut, %s removed.", htmlreport.Count(r.Slots), htmlreport.Count(int64(r.Cut)), htmlreport.Count(int64(r.Dropped)))
		}
		s.Blocks = append(s.Blocks, &htmlreport.List{Items: []string{text}})
	}
	if len(s.Blocks) == 0 {
		s.Blocks = append(s.Blocks, &htmlreport.List{Mark: htmlreport.Good, Items: []string{"Done."}})
	}
	return s
}

// findingsTable is the table of what was found, and how many there are that it does not have.
func findingsTable(title string, fs *migrate.Findings) []htmlreport.Block {
	if fs == nil || fs.Len() == 0 {
		return nil
	}
	t := &htmlreport.Table{Title: title + ": " + fs.Summary(), Head: []string{"code", "queue", "side", "slot", "in the log", "what it is"}}
	shown := int64(0)
	for _, f := range fs.First {
		if f.Text == "" {
			continue
		}
		shown++
		queue, slot, phy := "", "", ""
		if f.Topic != "" {
			queue = fmt.Sprintf("%s/%d", f.Topic, f.QueueID)
		}
		if f.QueueOffset >= 0 {
			slot = htmlreport.Count(f.QueueOffset)
			if f.Slots > 1 {
				slot += fmt.Sprintf(" and %s more", htmlreport.Count(f.Slots-1))
			}
		}
		if f.PhyOffset >= 0 {
			phy = fmt.Sprint(f.PhyOffset)
		}
		text := f.Text
		if f.Where != "" {
			text += " [" + f.Where + "]"
		}
		if f.Remedy != "" {
			text += "; " + f.Remedy
		}
		name := ""
		if f.Side != "" {
			name = side(f.Side)
		}
		t.Rows = append(t.Rows, []htmlreport.Cell{htmlreport.Text(string(f.Code)), htmlreport.Code(queue), htmlreport.Text(name), htmlreport.Number(slot), htmlreport.Number(phy), htmlreport.Text(text)})
	}
	blocks := []htmlreport.Block{t}
	if n := fs.Len() - shown; n > 0 {
		blocks = append(blocks, &htmlreport.List{Mark: htmlreport.Muted, Items: []string{fmt.Sprintf("and %s more, of which there is no line here; --findings takes all of them", htmlreport.Count(n))}})
	}
	return blocks
}

func findings(o *migrate.Overview) htmlreport.Section {
	s := htmlreport.Section{Title: "Findings"}
	add := func(title string, fs *migrate.Findings) { s.Blocks = append(s.Blocks, findingsTable(title, fs)...) }
	add("Damage, or differences", o.Findings)
	if p := o.Plan; p != nil && o.Findings == nil {
		add("Seen from outside", &p.Findings)
	}
	if r := o.Repair; r != nil && o.Findings == nil {
		add("Wrong", &r.Findings)
	}
	if d := o.State.Online; d != nil && len(d.Differences) > 0 {
		s.Blocks = append(s.Blocks, &htmlreport.List{Mark: htmlreport.Bad, Items: d.Differences})
	}
	if d := o.State.Online; d != nil && d.Findings != nil {
		f := d.Findings
		list := &htmlreport.List{Mark: htmlreport.Good, Items: []string{
			fmt.Sprintf("%d queues were found to differ since the migration was begun; %d healed, of %d a side was chosen, %d remaining.", f.Found, f.Healed, f.Kept, f.Remaining()),
		}}
		if f.Remaining() > 0 {
			list.Mark = htmlreport.Bad
		}
		for i := range d.Kept {
			k := &d.Kept[i]
			list.Items = append(list.Items, fmt.Sprintf("Queue %s/%d: the %s side stays, chosen by %s at %s.", k.Topic, k.QueueID, k.Side, k.By, htmlreport.Time(k.Time)))
		}
		s.Blocks = append(s.Blocks, list)
	}
	if notices := noticesOf(o); notices.Len() > 0 {
		add("Kept as they are", notices)
	} else if len(o.State.Notices) > 0 {
		add("Kept as they are", &migrate.Findings{Counts: o.State.Notices})
	}
	if m := o.Mended; m != nil && o.Repair == nil {
		title := fmt.Sprintf("The repair of %s by %s", htmlreport.Time(m.Time), m.Actor)
		if !m.Ended {
			title += ", which was cut off"
		}
		add(title, &m.Findings)
	}
	if len(s.Blocks) == 0 && (o.Verify != nil || o.Repair != nil || o.State.Verified != nil || o.State.Online != nil && o.State.Online.Verified != nil) {
		s.Blocks = append(s.Blocks, &htmlreport.List{Mark: htmlreport.Good, Items: []string{"None."}})
	}
	return s
}

// noticesOf are those of the step. A verification, or a repair, finds those of the backfill again.
func noticesOf(o *migrate.Overview) *migrate.Findings {
	switch {
	case o.Repair != nil:
		return &o.Repair.Notices
	case o.Verify != nil && o.Verify.Notices.Len() > 0:
		return &o.Verify.Notices
	case o.Backfill != nil:
		return &o.Backfill.Notices
	}
	return &migrate.Findings{}
}

func certificate(o *migrate.Overview) htmlreport.Section {
	s := htmlreport.Section{Title: "Certificate", Lead: "What was compared, and found equal."}
	c := o.Certificate
	if c == nil {
		if o.State.Phase != state.Absent {
			s.Lead, s.Blocks = "", []htmlreport.Block{&htmlreport.List{Mark: htmlreport.Muted, Items: []string{"There is none: nothing was verified, at a level that proves units."}}}
		}
		return s
	}
	f := htmlreport.Facts{
		{Name: "Direction", Value: fmt.Sprintf("%s to %s", side(c.From), side(c.To))},
		{Name: "Level", Value: string(c.Level)},
		{Name: "Queues", Value: fmt.Sprintf("%s in %s topics", htmlreport.Count(int64(c.Queues)), htmlreport.Count(int64(c.Topics)))},
		{Name: "Units, each compared", Value: htmlreport.Count(c.Held)},
		{Name: "Records decoded", Value: htmlreport.Count(c.Samples)},
		{Name: "Log", Value: fmt.Sprintf("offsets %d to %d", c.LogMin, c.LogEnd)},
		{Name: "Made", Value: htmlreport.Time(c.Time)},
		{Name: "By", Value: c.Actor},
		{Name: "SHA-256 of its lines", Value: c.Digest},
	}
	if c.Alone > 0 {
		f = append(f, htmlreport.Fact{Name: "On one side alone, as they should", Value: htmlreport.Count(int64(c.Alone))})
	}
	s.Blocks = []htmlreport.Block{f}
	counts := o.State.Verified != nil && o.State.Verified.Digest == c.Digest || o.State.Online != nil && o.State.Online.Verified != nil
	if !counts {
		s.Blocks = append(s.Blocks, &htmlreport.List{Mark: htmlreport.Bad, Items: []string{"It does not count any more: what came since is told below."}})
	}
	return s
}

func trail(o *migrate.Overview) htmlreport.Section {
	t := &htmlreport.Table{Head: []string{"when", "what", "phase then", "who", "note"}}
	for _, h := range o.State.History {
		t.Rows = append(t.Rows, []htmlreport.Cell{
			htmlreport.Number(htmlreport.Time(h.Time)), htmlreport.Text(string(h.Event)), htmlreport.Text(string(h.Phase)), htmlreport.Code(h.Actor), htmlreport.Text(h.Note),
		})
	}
	s := htmlreport.Section{Title: "Who did what"}
	if len(t.Rows) > 0 {
		s.Blocks = []htmlreport.Block{t}
	}
	return s
}
