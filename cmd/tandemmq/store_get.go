package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

const readExitCodes = "\n\nExit codes: 0 told, 1 not there or could not be read, 2 wrong usage."

// queueFlags are those of commands that read one queue.
func queueFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		storeFlag(),
		&cli.StringFlag{Name: "topic", Usage: "`TOPIC` of the queue", Required: true},
		&cli.IntFlag{Name: "queue", Usage: "`ID` of the queue; that of a light queue is 0"},
		sideFlag(),
	}, append(more, &cli.BoolFlag{Name: "json", Usage: "print one JSON document"})...)
}

func sideFlag() cli.Flag {
	return &cli.StringFlag{Name: "cq", Usage: "`SIDE` to read the queues from: file or rocks (default: the only one there is, or the one in use after a migration)"}
}

// withView opens the store for a command that reads it, with its queues when the command line names one. Warnings go to the error output.
func withView(do func(c *cli.Context, v *store.View) error) cli.ActionFunc {
	return func(c *cli.Context) (err error) {
		if q := c.Int("queue"); q < 0 || q > math.MaxInt32 {
			return usageError("--queue %d: use a queue id, 0 or more", q)
		}
		root := c.String("store")
		o := store.ViewOptions{LogOnly: !c.IsSet("topic") || !declares(c, "cq")}
		if !o.LogOnly {
			if o.Kind, err = dumpKind(c.String("cq"), store.NewLayout(root)); err != nil {
				return err
			}
		}
		v, err := store.OpenView(root, o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, v.Close()) }()
		warnOf(c, v)
		return do(c, v)
	}
}

// declares tells whether a command has a flag.
func declares(c *cli.Context, name string) bool {
	return slices.ContainsFunc(c.Command.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// queueOf returns the queue that the flags name, with its bounds.
func queueOf(c *cli.Context, v *store.View) (q cq.Queue, b cq.Bounds, err error) {
	k := cq.Key{Topic: c.String("topic"), QueueID: int32(c.Int("queue"))}
	q, ok := v.Queues.Queue(k)
	if !ok {
		return nil, b, fmt.Errorf("store %s has no queue %s (%s side)", v.Layout.Root, k, v.Kind)
	}
	b, err = q.Bounds()
	return q, b, err
}

func getCommand() *cli.Command {
	return &cli.Command{
		Name: "get", Usage: "print messages of a queue from an offset on",
		Description: `Reads units of a stopped store's queue and the records they point to. A slot that holds no unit, or one whose record is not in
the log, is told in its place.

   tandemmq store get --store /data/rocketmq/store --topic orders --queue 0 --offset 1000 -n 20
   tandemmq store get --store /data/rocketmq/store --topic orders --offset 1000 --body --cq rocks` + readExitCodes,
		Flags: queueFlags(
			&cli.Int64Flag{Name: "offset", Usage: "queue `OFFSET` of the first", DefaultText: "the queue's min"},
			&cli.IntFlag{Name: "n", Value: 1, Usage: "at most `COUNT` slots"},
			&cli.BoolFlag{Name: "body", Usage: "print properties and bodies too"},
		),
		Action: withView(runGet),
	}
}

// maxGet bounds what get keeps in memory.
const maxGet = 100_000

// getReport is what get prints with --json.
type getReport struct {
	Topic    string         `json:"topic"`
	QueueID  int32          `json:"queueId"`
	Side     cq.Kind        `json:"side"`
	Status   string         `json:"status"` // as RocketMQ's broker names it
	Min      int64          `json:"min"`
	Max      int64          `json:"max"`
	Next     int64          `json:"nextOffset"`
	Messages []*messageInfo `json:"messages"`
}

// nothing prints, with --json, that there is no message, and returns the error that says so.
func (r *getReport) nothing(c *cli.Context, s store.GetStatus, next int64, err error) error {
	if !c.Bool("json") {
		return err
	}
	r.Status, r.Next = s.String(), next
	return errors.Join(err, printJSON(c.App.Writer, r))
}

func runGet(c *cli.Context, v *store.View) error {
	if n := c.Int("n"); n < 1 || n > maxGet {
		return usageError("-n %d: use 1 to %d", n, maxGet)
	}
	if c.Int64("offset") < 0 {
		return usageError("--offset %d: use a queue offset, 0 or more", c.Int64("offset"))
	}
	rep := getReport{Topic: c.String("topic"), QueueID: int32(c.Int("queue")), Side: v.Kind, Messages: []*messageInfo{}}
	q, b, err := queueOf(c, v)
	if q == nil {
		return rep.nothing(c, store.GetNoQueue, 0, err)
	}
	if err != nil {
		return err
	}
	rep.Min, rep.Max = b.Min, b.Max
	at := b.Min
	if c.IsSet("offset") {
		at = c.Int64("offset")
	}
	none := fmt.Errorf("queue %s has offsets %d to %d, not %d", q.Key(), b.Min, b.Max-1, at)
	switch {
	case b.Empty():
		return rep.nothing(c, store.GetQueueEmpty, b.Max, fmt.Errorf("queue %s has no message left: min and max are %d", q.Key(), b.Max))
	case at < b.Min:
		return rep.nothing(c, store.GetOffsetTooSmall, b.Min, none)
	case at == b.Max:
		return rep.nothing(c, store.GetOffsetOverflowOne, at, none)
	case at > b.Max:
		return rep.nothing(c, store.GetOffsetOverflowBadly, b.Max, none)
	}
	rep.Status = store.GetFound.String()
	for ; at < b.Max && len(rep.Messages) < c.Int("n"); at++ {
		if err := c.Err(); err != nil {
			return err
		}
		m, err := readSlot(v, q, at, c.Bool("body"))
		if err != nil {
			return err
		}
		rep.Messages = append(rep.Messages, m)
	}
	rep.Next = at
	if c.Bool("json") {
		return printJSON(c.App.Writer, rep)
	}
	fmt.Fprintf(c.App.Writer, "Queue %s (%s side): min %d, max %d\n", q.Key(), v.Kind, b.Min, b.Max)
	return printMessages(c.App.Writer, rep.Messages, c.Bool("body"))
}

// readSlot reads the message of a slot. What is wrong with it is told in its Fault.
func readSlot(v *store.View, q cq.Queue, slot int64, body bool) (*messageInfo, error) {
	m := &messageInfo{QueueOffset: slot}
	var units [1]cq.Unit
	n, err := q.Read(slot, units[:])
	switch {
	case errors.Is(err, cq.ErrCorrupt):
		m.Fault = err.Error()
		return m, nil
	case err != nil:
		return nil, err
	case n == 0:
		m.Fault = "the slot holds no unit: " + q.Where(slot)
		return m, nil
	}
	u := &units[0]
	m.PhyOffset, m.Size, m.TagsCode = u.PhyOffset, u.Size, &u.TagsCode
	var r message.Record
	release, err := v.Log.Read(u.PhyOffset, u.Size, true, &r)
	if err != nil {
		m.Fault = err.Error()
		return m, nil
	}
	defer release()
	if m.Fault = stray(q.Key(), &r); m.Fault == "" {
		m.Note = oddTags(u, &r)
		m.fill(&r, body)
	}
	return m, nil
}

// stray says whose record a unit leads to, "" where it is one of the unit's queue.
func stray(k cq.Key, r *message.Record) string {
	if store.Owns(k, r) {
		return ""
	}
	return fmt.Sprintf("the unit leads to a record of %s/%d offset %d, at physical offset %d", readable(string(r.Topic)), r.QueueID, r.QueueOffset, r.PhyOffset)
}

// oddTags says how a unit's tags code differs from that of its record, "" where it does not.
func oddTags(u *cq.Unit, r *message.Record) string {
	code := r.TagsCode(nil)
	if code == u.TagsCode {
		return ""
	}
	return fmt.Sprintf("the record's tags code is %d (with the default delay levels), the unit has %d", code, u.TagsCode)
}

func byTimeCommand() *cli.Command {
	return &cli.Command{
		Name: "by-time", Usage: "the offset of a queue that belongs to a time",
		Description: `Finds the first message of a queue that was stored at a time or later; with --upper the last one stored then or before. The answer
is always within min and max: max where all messages are older, with --upper min where all are newer.

   tandemmq store by-time --store /data/rocketmq/store --topic orders --queue 0 --time 2026-01-02T15:04:05+01:00
   tandemmq store by-time --store /data/rocketmq/store --topic orders --queue 0 --time 1767362645000 --upper --json` + readExitCodes,
		Flags: queueFlags(
			&cli.StringFlag{Name: "time", Usage: "`TIME` with its zone, or ms since the epoch", Required: true},
			&cli.BoolFlag{Name: "upper", Usage: "the last message stored then or before (RocketMQ's UPPER)"},
		),
		Action: withView(runByTime),
	}
}

// byTimeReport is what by-time prints with --json.
type byTimeReport struct {
	Topic    string       `json:"topic"`
	QueueID  int32        `json:"queueId"`
	TimeMs   int64        `json:"timeMs"`
	Boundary string       `json:"boundary"`
	Offset   int64        `json:"offset"`
	Min      int64        `json:"min"`
	Max      int64        `json:"max"`
	Message  *messageInfo `json:"message"` // at the offset; null at max
}

func runByTime(c *cli.Context, v *store.View) error {
	ms, err := parseTimeFlag("time", c.String("time"))
	if err != nil {
		return err
	}
	q, b, err := queueOf(c, v)
	if err != nil {
		return err
	}
	edge := cq.BoundaryLower
	if c.Bool("upper") {
		edge = cq.BoundaryUpper
	}
	rep := byTimeReport{Topic: q.Key().Topic, QueueID: q.Key().QueueID, TimeMs: ms, Boundary: edge.String(), Min: b.Min, Max: b.Max}
	if rep.Offset, _, err = v.OffsetByTime(q.Key(), ms, edge); err != nil {
		return err
	}
	if rep.Offset < b.Max {
		if rep.Message, err = readSlot(v, q, rep.Offset, false); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, rep)
	}
	fmt.Fprintf(c.App.Writer, "Queue %s at %s (%s): offset %d\n", q.Key(), timeText(&ms), edge, rep.Offset)
	stored := [2]string{"stored", "nothing: this is the max"}
	if m := rep.Message; m != nil {
		stored[1] = m.StoreTime + ", physical offset " + fmt.Sprint(m.PhyOffset)
		if m.Fault != "" {
			stored = [2]string{"no message", m.Fault}
		}
	}
	table(c.App.Writer, stored, [2]string{"min", fmt.Sprint(b.Min)}, [2]string{"max", fmt.Sprint(b.Max)})
	return nil
}

// parseTimeFlag reads ms since the epoch, or a time with its zone.
func parseTimeFlag(name, s string) (int64, error) {
	ms, err := parseTime(s)
	if err != nil {
		return 0, usageError("--%s %q: use ms since the epoch, or a time with its zone like %s", name, s, time.Unix(1767362645, 0).UTC().Format(time.RFC3339))
	}
	return ms, nil
}
