package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

func inspectCommand() *cli.Command {
	return &cli.Command{
		Name: "inspect", Usage: "show what the files of a store hold, field by field",
		Description: `Shows files and records of a stopped store as their bytes are, each field with its place, width and meaning. Changes nothing.

   tandemmq store inspect checkpoint --store /data/rocketmq/store
   tandemmq store inspect record --store /data/rocketmq/store --id 7F00000100002A9F0000000000001234`,
		Subcommands: []*cli.Command{
			inspectLogCommand(), inspectQueueCommand(), inspectIndexCommand(), inspectCheckpointCommand(), inspectOffsetsCommand(), inspectUnitCommand(), inspectRecordCommand(),
		},
	}
}

// fieldsReport is what inspect prints of one thing with --json.
type fieldsReport struct {
	What       string          `json:"what"`
	Place      string          `json:"place"`
	Fault      string          `json:"fault,omitempty"`
	Fields     []message.Field `json:"fields"`
	Properties []property      `json:"properties,omitempty"`
	Notes      []string        `json:"notes,omitempty"`
}

func (r *fieldsReport) print(c *cli.Context) error {
	if c.Bool("json") {
		return printJSON(c.App.Writer, r)
	}
	w := c.App.Writer
	fmt.Fprintf(w, "%s %s\n", strings.ToUpper(r.What[:1])+r.What[1:], r.Place)
	if err := printFields(w, r.Fields); err != nil {
		return err
	}
	for _, p := range r.Properties {
		fmt.Fprintf(w, "  property %s = %s\n", readable(p.Name), readable(p.Value))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "  note: %s\n", n)
	}
	if r.Fault != "" {
		fmt.Fprintf(w, "  fault: %s\n", r.Fault)
	}
	return nil
}

func printFields(w io.Writer, fields []message.Field) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "  OFFSET\tWIDTH\tNAME\tVALUE\tMEANING")
	for _, f := range fields {
		value := f.Value
		if s, ok := value.(string); ok {
			value = readable(s)
		}
		fmt.Fprintf(tw, "  %d\t%d\t%s\t%v\t%s\n", f.Offset, f.Width, f.Name, value, f.Text)
	}
	return tw.Flush()
}

func inspectCheckpointCommand() *cli.Command {
	return &cli.Command{
		Name: "checkpoint", Usage: "the file checkpoint, with what this program adds to it",
		Description: `Shows the 48 bytes that RocketMQ reads and the copy, the position and the checksum behind them, which it does not look at.

   tandemmq store inspect checkpoint --store /data/rocketmq/store

Exit codes: 0 shown, also a file that a start would not believe (fault), 1 could not be read, 2 wrong usage.`,
		Flags: []cli.Flag{storeFlag(), &cli.BoolFlag{Name: "json", Usage: "print one JSON document"}},
		Action: func(c *cli.Context) error {
			l := store.NewLayout(c.String("store"))
			if err := l.CheckRoot(); err != nil {
				return err
			}
			fields, fault, err := store.InspectCheckpoint(l.CheckpointPath())
			if err != nil {
				return err
			}
			rep := fieldsReport{What: "checkpoint", Place: l.CheckpointPath(), Fields: fields}
			if fault != nil {
				rep.Fault = fault.Error()
			}
			return rep.print(c)
		},
	}
}

func inspectOffsetsCommand() *cli.Command {
	return &cli.Command{
		Name: "queue-offsets", Usage: "the note of the next offset of each file queue",
		Description: `Shows what this program has noted of the next offsets of queues, and whether the note still fits the log.

   tandemmq store inspect queue-offsets --store /data/rocketmq/store` + readExitCodes,
		Flags: []cli.Flag{storeFlag(), &cli.BoolFlag{Name: "json", Usage: "print one JSON document"}},
		Action: withView(func(c *cli.Context, v *store.View) error {
			note, err := v.QueueOffsets()
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, note)
			}
			fits := "fits the log"
			if !note.Fits {
				fits = "does not fit the log, and is not used"
			}
			fmt.Fprintf(c.App.Writer, "Next offsets %s, which %s\n", note.Path, fits)
			table(
				c.App.Writer,
				[2]string{"phyOffset", fmt.Sprintf("%d (everything below is counted)", note.PhyOffset)},
				[2]string{"last record", fmt.Sprintf("at %d, stored %s", note.LastPhyOffset, message.TimeText(note.LastMs))},
				[2]string{"queues", thousands(int64(len(note.Queues)))},
			)
			tw := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
			fmt.Fprintln(tw, "TOPIC\tQUEUE\tNEXT\tREMARK")
			for _, q := range note.Queues {
				remark := ""
				if q.Unitless {
					remark = "gets offsets and no units"
				}
				if q.Gone {
					remark = strings.TrimPrefix(remark+"; nothing of it is left", "; ")
				}
				fmt.Fprintf(tw, "%s\t%d\t%d\t%s\n", readable(q.Topic), q.QueueID, q.Next, remark)
			}
			return tw.Flush()
		}),
	}
}

func inspectRecordCommand() *cli.Command {
	return &cli.Command{
		Name: "record", Usage: "one record of the log, every field",
		Description: `Shows the record at a physical offset (--at), of an offset message id (--id) or of a slot of a queue (--topic, --queue, --offset).

   tandemmq store inspect record --store /data/rocketmq/store --at 4660
   tandemmq store inspect record --store /data/rocketmq/store --id 7F00000100002A9F0000000000001234 --body
   tandemmq store inspect record --store /data/rocketmq/store --topic orders --queue 0 --offset 17` + readExitCodes,
		Flags: []cli.Flag{
			storeFlag(),
			&cli.Int64Flag{Name: "at", Usage: "physical `OFFSET` at which the record begins"},
			&cli.StringFlag{Name: "id", Usage: "offset message `ID`"},
			&cli.StringFlag{Name: "topic", Usage: "`TOPIC` of the queue"},
			&cli.IntFlag{Name: "queue", Usage: "`ID` of the queue"},
			&cli.Int64Flag{Name: "offset", Usage: "queue `OFFSET`"},
			sideFlag(),
			&cli.BoolFlag{Name: "body", Usage: "print the body too"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document"},
		},
		Action: withView(inspectRecord),
	}
}

func inspectRecord(c *cli.Context, v *store.View) error {
	ways := 0
	for _, name := range []string{"at", "id", "topic"} {
		if c.IsSet(name) {
			ways++
		}
	}
	if ways != 1 || c.IsSet("topic") != c.IsSet("offset") {
		return usageError("store inspect record: use one of --at, --id, and --topic with --offset")
	}
	var r message.Record
	var release func()
	var err error
	switch {
	case c.IsSet("id"):
		if _, _, ok := message.ParseOffsetMsgID(c.String("id")); !ok {
			return usageError("--id %q: use an offset message id, 32 hexadecimal digits, 56 of an IPv6 host", c.String("id"))
		}
		release, err = v.MessageByID(c.String("id"), &r)
	case c.IsSet("at"):
		if release, err = v.Log.Read(c.Int64("at"), 0, false, &r); errors.Is(err, commitlog.ErrCorrupt) {
			err = fmt.Errorf("no record begins at physical offset %d, or it is damaged: %w", c.Int64("at"), err)
		}
	default:
		var u cq.Unit
		if _, u, err = unitOf(c, v); err == nil {
			release, err = v.Log.Read(u.PhyOffset, u.Size, false, &r)
		}
	}
	if err != nil {
		return err
	}
	defer release()
	damage := damageOf(v, r.PhyOffset, r.TotalSize)
	return commitlog.GuardFault(func() error {
		rep := fieldsReport{What: "record", Place: logPlace(v, r.PhyOffset), Fields: r.Fields(), Properties: propertiesOf(&r)}
		rep.Fault = damage
		rep.Notes = append(rep.Notes, "id "+message.OffsetMsgID(r.StoreHost, r.PhyOffset))
		if !r.OwesUnit() {
			rep.Notes = append(rep.Notes, "prepared or rolled back: it is in no queue")
		}
		if c.Bool("body") {
			rep.Notes = append(rep.Notes, "body "+bodyText(r.Body))
		}
		return rep.print(c)
	})
}

// damageOf says what is wrong with a record that can be taken apart: the checksum of its body. "" where nothing is.
func damageOf(v *store.View, phy int64, size int32) string {
	var r message.Record
	release, err := v.Log.Read(phy, size, true, &r)
	if err != nil {
		return err.Error()
	}
	release()
	return ""
}

// logPlace names the file and byte of a physical offset.
func logPlace(v *store.View, phy int64) string {
	from := phy / v.Log.FileSize() * v.Log.FileSize()
	return fmt.Sprintf("%s/%020d+%d (physical offset %d)", v.Log.Dir(), from, phy-from, phy)
}

// unitOf returns the unit that --topic, --queue and --offset name.
func unitOf(c *cli.Context, v *store.View) (q cq.Queue, u cq.Unit, err error) {
	k := cq.Key{Topic: c.String("topic"), QueueID: int32(c.Int("queue"))}
	q, ok := v.Queues.Queue(k)
	if !ok {
		return nil, u, fmt.Errorf("store %s has no queue %s (%s side)", v.Layout.Root, k, v.Kind)
	}
	var units [1]cq.Unit
	n, err := q.Read(c.Int64("offset"), units[:])
	if err == nil && n == 0 {
		err = fmt.Errorf("queue %s has no unit at offset %d: %s", k, c.Int64("offset"), q.Where(c.Int64("offset")))
	}
	return q, units[0], err
}

func inspectUnitCommand() *cli.Command {
	return &cli.Command{
		Name: "unit", Usage: "one unit of a consume queue, and whether its record is there",
		Description: `Shows the unit in a slot of a queue as it is stored, filler and damage too, and compares it with the record that it points to.

   tandemmq store inspect unit --store /data/rocketmq/store --topic orders --queue 0 --offset 17` + readExitCodes,
		Flags:  queueFlags(&cli.Int64Flag{Name: "offset", Usage: "queue `OFFSET` of the unit"}),
		Action: withView(inspectUnit),
	}
}

func inspectUnit(c *cli.Context, v *store.View) error {
	if !c.IsSet("offset") {
		return usageError("store inspect unit: --offset is missing")
	}
	slot := c.Int64("offset")
	rep := fieldsReport{What: "unit"}
	q, u, err := unitOf(c, v)
	if q == nil {
		return err
	}
	rep.Place = q.Where(slot)
	files, inFiles := v.Queues.(*file.Store)
	switch {
	case inFiles:
		stored, ok, ferr := files.StoredUnit(q.Key(), slot)
		if ferr != nil {
			return ferr
		}
		if !ok {
			return err
		}
		rep.Fields = file.UnitFields(stored)
		if cq.IsExtAddress(stored.TagsCode) {
			rep.Notes = append(rep.Notes, fmt.Sprintf("the tags code is the address of an extension unit; resolved it is %d", u.TagsCode))
		}
	case err != nil:
		return err
	default:
		rep.Fields = rocks.UnitFields(u)
	}
	if err != nil { // filler, a hole, damage: shown, and nothing to compare with
		rep.Fault = err.Error()
		return rep.print(c)
	}
	var r message.Record
	release, err := v.Log.Read(u.PhyOffset, u.Size, false, &r)
	if err != nil {
		rep.Fault = err.Error()
		return rep.print(c)
	}
	defer release()
	rep.Notes = append(rep.Notes, fmt.Sprintf("its record is of %s/%d offset %d, stored %s: %s", r.Topic, r.QueueID, r.QueueOffset, message.TimeText(r.StoreTimestampMs), logPlace(v, r.PhyOffset)))
	if rep.Fault = stray(q.Key(), &r); rep.Fault == "" {
		rep.Fault = damageOf(v, u.PhyOffset, u.Size)
	}
	odd := oddTags(&u, &r)
	switch {
	case odd != "":
		rep.Notes = append(rep.Notes, odd)
	case string(r.Topic) == message.TopicSchedule:
		rep.Notes = append(rep.Notes, "the tags code is the time of delivery, "+message.TimeText(u.TagsCode))
	default:
		tags, _ := r.Property(message.PropertyTags)
		rep.Notes = append(rep.Notes, fmt.Sprintf("the tags code is the hash of TAGS %q", tags))
	}
	return rep.print(c)
}
