package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

func inspectLogCommand() *cli.Command {
	return &cli.Command{
		Name: "commitlog", Usage: "the files of the log, or its records one by one",
		Description: `Lists the files of the log with the record that each begins with, and how the log ends; with --from the records from a physical
offset on, which must be where a record or a file begins.

   tandemmq store inspect commitlog --store /data/rocketmq/store
   tandemmq store inspect commitlog --store /data/rocketmq/store --from 0 -n 20` + readExitCodes,
		Flags: []cli.Flag{
			storeFlag(),
			&cli.Int64Flag{Name: "from", Value: -1, Usage: "list records from this physical `OFFSET` on", DefaultText: "list files"},
			&cli.IntFlag{Name: "n", Value: 20, Usage: "at most `COUNT` records"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document"},
		},
		Action: withView(inspectLog),
	}
}

type logFileInfo struct {
	Path  string       `json:"path"`
	From  int64        `json:"from"`
	To    int64        `json:"to"`
	First *messageInfo `json:"first"` // null when the file begins with no record
	Fault string       `json:"fault,omitempty"`
}

type logReport struct {
	Dir     string         `json:"dir"`
	Min     int64          `json:"min"`
	End     int64          `json:"end"`
	EndKind string         `json:"endKind"`
	Reason  string         `json:"reason,omitempty"`
	Files   []logFileInfo  `json:"files,omitempty"`
	Records []*messageInfo `json:"records,omitempty"`
}

func inspectLog(c *cli.Context, v *store.View) error {
	if n := c.Int("n"); n < 1 || n > maxGet {
		return usageError("-n %d: use 1 to %d", n, maxGet)
	}
	log := v.Log
	rep := logReport{Dir: log.Dir(), Min: log.MinOffset()}
	var err error
	if c.Int64("from") < 0 && c.IsSet("from") {
		return usageError("--from %d: use a physical offset, 0 or more", c.Int64("from"))
	}
	if c.IsSet("from") {
		err = rep.records(log, c.Int64("from"), c.Int("n"))
	} else {
		err = rep.files(log)
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, rep)
	}
	return rep.print(c)
}

// records lists records; what stops the list is told as the end.
func (rep *logReport) records(log *commitlog.Log, from int64, n int) error {
	s := log.Scanner(from, commitlog.ScanOptions{CheckCRC: true, NoReadahead: true})
	defer s.Close()
	rep.Records = []*messageInfo{}
	for len(rep.Records) < n && s.Next() {
		r := s.Record()
		m := &messageInfo{QueueOffset: r.QueueOffset}
		if err := commitlog.GuardFault(func() error { m.fill(r, false); return nil }); err != nil {
			return err
		}
		rep.Records = append(rep.Records, m)
		rep.End = r.PhyOffset + int64(r.TotalSize)
	}
	if at := s.End(); len(rep.Records) == 0 && at.Kind != commitlog.EndNone && at.Kind != commitlog.EndClean {
		if err := insideRecord(log, from); err != nil {
			return err
		}
	}
	rep.EndKind = "more records follow"
	if len(rep.Records) < n {
		return rep.endOf(s.End(), s.Err())
	}
	return nil
}

// insideRecord returns an error for a physical offset inside a record, which says where that begins and ends; nil where the log is damaged.
func insideRecord(log *commitlog.Log, phy int64) error {
	size := log.FileSize()
	if size == 0 || phy < log.MinOffset() {
		return nil
	}
	s := log.Scanner(max(phy-phy%size, log.MinOffset()), commitlog.ScanOptions{To: min(phy-phy%size+size, log.EndOffset())})
	defer s.Close()
	for s.Next() {
		r := s.Record()
		if end := r.PhyOffset + int64(r.TotalSize); r.PhyOffset < phy && phy < end {
			return fmt.Errorf("--from %d: no record begins there, it is inside the record at %d, and the next one begins at %d", phy, r.PhyOffset, end)
		}
	}
	return nil
}

func (rep *logReport) endOf(end commitlog.ScanEnd, err error) error {
	var at *commitlog.EndError
	if err != nil && !errors.As(err, &at) {
		return err
	}
	rep.End, rep.EndKind = end.Offset, end.Kind.String()
	if end.Reason != nil {
		rep.Reason = end.Reason.Error()
	}
	return nil
}

func (rep *logReport) files(log *commitlog.Log) error {
	end, err := log.End(commitlog.ScanOptions{CheckCRC: true})
	if err == nil {
		err = rep.endOf(end, nil)
	}
	if err != nil {
		return err
	}
	size := log.FileSize()
	for from := rep.Min; size > 0 && from < rep.Min+log.Size(); from += size {
		f := logFileInfo{Path: filepath.Join(rep.Dir, fmt.Sprintf("%020d", from)), From: from, To: from + size}
		var r message.Record
		release, err := log.Read(from, 0, false, &r)
		switch {
		case errors.Is(err, message.ErrEnd):
			f.Fault = "nothing was written to it"
		case errors.Is(err, message.ErrBlank):
			f.Fault = "it holds filler alone"
		case err != nil:
			f.Fault = err.Error()
		default:
			f.First = &messageInfo{QueueOffset: r.QueueOffset}
			f.First.fill(&r, false)
			release()
		}
		rep.Files = append(rep.Files, f)
	}
	return nil
}

func (rep *logReport) print(c *cli.Context) error {
	w := c.App.Writer
	fmt.Fprintf(w, "Log %s: from %d to %d, %s\n", rep.Dir, rep.Min, rep.End, rep.EndKind)
	if rep.Reason != "" {
		fmt.Fprintf(w, "  found there: %s\n", rep.Reason)
	}
	if rep.Records != nil {
		return printMessages(w, rep.Records, false)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "FILE\tSIZE\tFIRST RECORD STORED\tOF QUEUE\tOFFSET")
	for _, f := range rep.Files {
		if m := f.First; m != nil {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s/%d\t%d\n", filepath.Base(f.Path), byteSize(f.To-f.From), m.StoreTime, readable(m.Topic), m.QueueID, m.QueueOffset)
		} else {
			fmt.Fprintf(tw, "%s\t%s\t%s\n", filepath.Base(f.Path), byteSize(f.To-f.From), f.Fault)
		}
	}
	return tw.Flush()
}

func inspectQueueCommand() *cli.Command {
	return &cli.Command{
		Name: "cq", Usage: "one consume queue: its bounds, its files and what they hold",
		Description: `Shows the bounds of a queue and, of one in files, what each file holds: units, pre-blank filler, holes, unused slots. It reads every slot.

   tandemmq store inspect cq --store /data/rocketmq/store --topic orders --queue 0
   tandemmq store inspect cq --store /data/rocketmq/store --topic orders --queue 0 --cq rocks --json` + readExitCodes,
		Flags:  queueFlags(),
		Action: withView(inspectQueue),
	}
}

type queueReport struct {
	Topic        string          `json:"topic"`
	QueueID      int32           `json:"queueId"`
	Side         cq.Kind         `json:"side"`
	*QueueBounds                 // nil where nobody can tell them: Fault says why
	Proven       *bool           `json:"beginningProven,omitempty"`
	Files        []file.FileInfo `json:"files,omitempty"`
	Fault        string          `json:"fault,omitempty"`
}

// QueueBounds are the bounds of a queue, as cq.Bounds has them, and where the first unit lies. Exported, so that JSON can be read into it.
type QueueBounds struct {
	Min           int64  `json:"min"`
	Max           int64  `json:"max"`
	MinPhyOffset  int64  `json:"minPhyOffset"`
	MaxPhyOffset  int64  `json:"maxPhyOffset"`
	LastPhyOffset int64  `json:"lastPhyOffset"`
	MinWhere      string `json:"minWhere"`
}

func inspectQueue(c *cli.Context, v *store.View) error {
	q, b, err := queueOf(c, v)
	if err != nil && !errors.Is(err, cq.ErrCorrupt) {
		return err
	}
	rep := queueReport{Topic: q.Key().Topic, QueueID: q.Key().QueueID, Side: v.Kind}
	if err != nil {
		rep.Fault = err.Error()
	} else {
		rep.QueueBounds = &QueueBounds{b.Min, b.Max, b.MinPhyOffset, b.MaxPhyOffset, b.LastPhyOffset, q.Where(b.Min)}
	}
	if s, ok := v.Queues.(*file.Store); ok {
		if rep.Fault == "" {
			begin, _, err := s.Beginning(q.Key())
			if err != nil {
				return err
			}
			rep.Proven = &begin.Proven
		}
		if rep.Files, err = s.Files(c.Context, q.Key()); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, rep)
	}
	return rep.print(c)
}

func (rep *queueReport) print(c *cli.Context) error {
	w := c.App.Writer
	fmt.Fprintf(w, "Queue %s/%d (%s side)\n", readable(rep.Topic), rep.QueueID, rep.Side)
	rows := [][2]string{{"min and max", "cannot be told"}}
	if b := rep.QueueBounds; b != nil {
		rows = [][2]string{
			{"min", fmt.Sprintf("%d, in %s", b.Min, b.MinWhere)},
			{"max", fmt.Sprintf("%d (%s messages)", b.Max, thousands(b.Max-b.Min))},
			{"records", fmt.Sprintf("from physical offset %d to %d, the last at %d", b.MinPhyOffset, b.MaxPhyOffset, b.LastPhyOffset)},
		}
	}
	if rep.Proven != nil {
		text := "proven: the log has nothing older of the queue"
		if !*rep.Proven {
			text = "not proven: the log may have older messages of the queue"
		}
		rows = append(rows, [2]string{"beginning", text})
	}
	if rep.Fault != "" {
		rows = append(rows, [2]string{"fault", rep.Fault})
	}
	table(w, rows...)
	if len(rep.Files) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "FILE\tFIRST SLOT\tSLOTS\tUNITS\tFIRST UNIT\tLAST UNIT\tPRE-BLANK\tHOLES\tFIRST HOLE\tUNUSED")
	for _, f := range rep.Files {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%s\t%s\t%d\t%d\t%s\t%d\n", filepath.Base(f.Path), f.FirstSlot, f.Slots, f.Units, slotText(f.FirstUnit), slotText(f.LastUnit), f.PreBlank,
			f.Holes, slotText(f.FirstHole), f.Free)
	}
	return tw.Flush()
}

func slotText(slot int64) string {
	if slot < 0 {
		return "-"
	}
	return fmt.Sprint(slot)
}

func inspectIndexCommand() *cli.Command {
	return &cli.Command{
		Name: "index", Usage: "the files of the message index, their headers, entries and chains",
		Description: `Lists the files of the index with their headers; of one file (--file) its header field by field, entries from one on (--entry), or the chain of
a slot (--slot), newest entry first. The slot of a key is told by store query.

   tandemmq store inspect index --store /data/rocketmq/store
   tandemmq store inspect index --store /data/rocketmq/store --file 20260102150405000 --entry 1 -n 20
   tandemmq store inspect index --store /data/rocketmq/store --file 20260102150405000 --slot 4711` + readExitCodes,
		Flags: []cli.Flag{
			storeFlag(),
			&cli.StringFlag{Name: "file", Usage: "`NAME` of the file", DefaultText: "list files"},
			&cli.IntFlag{Name: "entry", Usage: "list entries from number `N` on; the first is 1"},
			&cli.IntFlag{Name: "slot", Value: -1, Usage: "follow the chain of slot `N`", DefaultText: "none"},
			&cli.IntFlag{Name: "n", Value: 20, Usage: "at most `COUNT` entries"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document"},
		},
		Action: withView(inspectIndex),
	}
}

type indexReport struct {
	Dir     string            `json:"dir"`
	Slots   int32             `json:"slots"`
	Entries int32             `json:"entries"` // of a file, entry 0, which is not used, included
	Files   []indexFileReport `json:"files"`
	Links   []index.Link      `json:"links,omitempty"`
	Faults  []string          `json:"faults,omitempty"`
	Foreign []string          `json:"foreign,omitempty"`
}

type indexFileReport struct {
	Path   string          `json:"path"`
	Full   bool            `json:"full"`
	Fields []message.Field `json:"fields"`
	info   index.FileInfo
}

func inspectIndex(c *cli.Context, v *store.View) (err error) {
	name, n := c.String("file"), c.Int("n")
	switch {
	case n < 1 || n > maxGet:
		return usageError("-n %d: use 1 to %d", n, maxGet)
	case (c.IsSet("entry") || c.IsSet("slot")) && name == "":
		return usageError("store inspect index: --entry and --slot need --file")
	case c.IsSet("entry") && c.IsSet("slot"):
		return usageError("store inspect index: use one of --entry and --slot")
	}
	for _, flag := range []string{"entry", "slot"} {
		if i := c.Int(flag); c.IsSet(flag) && (i < 0 || i > 1<<31-1) {
			return usageError("--%s %d: use 0 or more", flag, i)
		}
	}
	x, err := v.OpenIndex()
	if errors.Is(err, store.ErrNoIndex) {
		if r, rerr := v.OpenRocksIndex(); rerr == nil {
			return errors.Join(fmt.Errorf("the index of store %s is in RocksDB (%s) and has no files to show: `tandemmq store query --explain` asks it", v.Layout.Root, v.Layout.RocksIndexDir()), r.Close())
		}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	rep := indexReport{Dir: v.Layout.IndexDir(), Foreign: x.Foreign(), Files: []indexFileReport{}}
	rep.Slots, rep.Entries = x.Geometry()
	for _, f := range x.Files() {
		if name == "" || filepath.Base(f.Path) == name {
			rep.Files = append(rep.Files, indexFileReport{f.Path, f.Full, f.Fields(), f})
		}
	}
	for _, fault := range x.Faults() {
		rep.Faults = append(rep.Faults, fault.Error())
	}
	if name != "" && len(rep.Files) == 0 {
		return errors.Join(append([]error{fmt.Errorf("index %s has no file %s that is right", rep.Dir, name)}, x.Faults()...)...)
	}
	var linkErr error // the links in front of it are shown all the same
	switch {
	case c.IsSet("entry"):
		rep.Links, linkErr = x.List(rep.Files[0].Path, int32(c.Int("entry")), n)
	case c.IsSet("slot"):
		rep.Links, linkErr = x.Chain(rep.Files[0].Path, int32(c.Int("slot")), n)
	}
	if linkErr != nil && len(rep.Links) == 0 {
		return linkErr
	}
	if c.Bool("json") {
		return errors.Join(printJSON(c.App.Writer, rep), linkErr)
	}
	return errors.Join(rep.print(c, name != ""), linkErr)
}

func (rep *indexReport) print(c *cli.Context, one bool) error {
	w := c.App.Writer
	fmt.Fprintf(w, "Index %s: files of %s slots and %s entries\n", rep.Dir, thousands(int64(rep.Slots)), thousands(int64(rep.Entries-1)))
	for _, f := range rep.Faults {
		fmt.Fprintf(c.App.ErrWriter, "warning: left out: %s\n", f)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	switch {
	case one && (c.IsSet("slot") || c.IsSet("entry")):
		fmt.Fprintln(tw, "ENTRY\tBYTE\tKEYHASH\tSLOT\tPHYOFFSET\tTIMEDIFF\tPREVINDEX\tSTORED")
		for _, l := range rep.Links {
			fmt.Fprintf(tw, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", l.Index, l.Byte, l.Hash, l.Hash%rep.Slots, l.PhyOffset, l.TimeDiff, l.Prev, message.TimeText(l.StoreMs))
		}
		if len(rep.Links) == 0 && c.IsSet("slot") {
			fmt.Fprintln(tw, "the slot has no entry")
		}
	case one:
		return printFields(w, rep.Files[0].Fields)
	default:
		fmt.Fprintln(tw, "FILE\tENTRIES\tSLOTS USED\tFIRST STORED\tLAST STORED\tFIRST PHYOFFSET\tLAST PHYOFFSET\tFULL")
		for _, f := range rep.Files {
			i := f.info
			fmt.Fprintf(tw, "%s\t%d\t%d\t%s\t%s\t%d\t%d\t%v\n", filepath.Base(f.Path), i.Entries, i.SlotsUsed, message.TimeText(i.BeginMs), message.TimeText(i.EndMs),
				i.BeginPhyOffset, i.EndPhyOffset, i.Full)
		}
	}
	return tw.Flush()
}
