package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

func queryCommand() *cli.Command {
	return &cli.Command{
		Name: "query", Usage: "find messages by key",
		Description: `Looks messages up in the index of a stopped store: by a word of KEYS or the unique key (--type K), by the unique key (U), by tags (T). The
index has hashes only, so each hit is compared with its record; --explain shows those that were turned down.

A message behind the place that the index has come to is not found. The queues are not read.

   tandemmq store query --store /data/rocketmq/store --topic orders --key order-4711
   tandemmq store query --store /data/rocketmq/store --topic orders --key paid --type T --from 2026-01-02T00:00:00Z --explain

Exit codes: 0 looked up, also when nothing was found, 1 no index or could not be read, 2 wrong usage.`,
		Flags: []cli.Flag{
			storeFlag(),
			&cli.StringFlag{Name: "topic", Usage: "`TOPIC` of the messages", Required: true},
			&cli.StringFlag{Name: "key", Usage: "`KEY` to look for", Required: true},
			&cli.StringFlag{Name: "type", Value: "K", Usage: "`KIND` of key: K, U or T"},
			&cli.StringFlag{Name: "from", Usage: "stored at `TIME` or later (ms, or a time with its zone)"},
			&cli.StringFlag{Name: "to", Usage: "stored at `TIME` or before"},
			&cli.IntFlag{Name: "n", Value: 32, Usage: fmt.Sprintf("the newest `COUNT` messages, at most %d", store.MaxQueryResults)},
			&cli.BoolFlag{Name: "body", Usage: "print properties and bodies too"},
			&cli.BoolFlag{Name: "explain", Usage: "show the hits that are none, and why"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document"},
		},
		Action: withView(runQuery),
	}
}

// queryReport is what query prints with --json.
type queryReport struct {
	Topic string `json:"topic"`
	Key   string `json:"key"`
	Type  string `json:"type"`
	Hash  int32  `json:"keyHash"`
	Slot  int32  `json:"slot"` // -1 in an index in RocksDB
	// IndexedTo is the physical offset up to which the log is indexed, -1 when nothing is; LogEnd where the log ends.
	IndexedTo int64               `json:"indexedTo"`
	IndexedMs int64               `json:"indexedTimestamp"`
	LogEnd    int64               `json:"logEnd"`
	Files     int                 `json:"files"`
	Steps     int64               `json:"chainSteps"`
	BadLinks  int                 `json:"badLinks"`
	Limited   bool                `json:"limited"`
	Rejected  int                 `json:"rejected"`
	Hits      []store.RejectedHit `json:"rejectedHits,omitempty"`
	Looks     []index.FileLook    `json:"lookedAt,omitempty"`
	Faults    []string            `json:"faults,omitempty"`
	Missing   string              `json:"missing,omitempty"` // index files between others, or before them
	Unclean   bool                `json:"unclean"`           // the store was not closed cleanly: this is what lies on disk
	Complete  bool                `json:"complete"`          // what is not found is not there
	Messages  []*messageInfo      `json:"messages"`
}

func queryRequest(c *cli.Context) (req store.QueryRequest, err error) {
	req = store.QueryRequest{Topic: c.String("topic"), Key: c.String("key"), Max: c.Int("n")}
	switch t := c.String("type"); t {
	case "K", "U", "T":
		req.Type = index.Type(t[0])
	default:
		return req, usageError("--type %q: use K (keys), U (unique key) or T (tags)", t)
	}
	if req.Max < 1 || req.Max > store.MaxQueryResults {
		return req, usageError("-n %d: use 1 to %d", req.Max, store.MaxQueryResults)
	}
	req.EndMs = math.MaxInt64
	if s := c.String("from"); s != "" {
		if req.BeginMs, err = parseTimeFlag("from", s); err != nil {
			return req, err
		}
	}
	if s := c.String("to"); s != "" {
		if req.EndMs, err = parseTimeFlag("to", s); err == nil && req.EndMs == 0 {
			req.EndMs = -1 // 0 would be no bound
		}
	}
	if err == nil && req.BeginMs > req.EndMs {
		err = usageError("--from is later than --to")
	}
	return req, err
}

func runQuery(c *cli.Context, v *store.View) (err error) {
	req, err := queryRequest(c)
	if err != nil {
		return err
	}
	rep := queryReport{Topic: req.Topic, Key: req.Key, Type: string(rune(req.Type)), Hash: index.HashKey([]byte(req.Topic), []byte(req.Key), req.Type), Messages: []*messageInfo{}}
	if c.Bool("explain") {
		req.Explain = new(store.QueryExplanation)
	}
	x, err := openKeyIndex(v, &rep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	var res store.QueryResult
	defer res.Release()
	if err := v.Query(x, req, &res); err != nil {
		return err
	}
	if req.Explain != nil {
		rep.Looks, rep.Hits = req.Explain.Indexes[0].Files, req.Explain.Rejected
	}
	a := &res.Answer
	rep.LogEnd, rep.IndexedMs = res.LogEnd, res.IndexedMs
	rep.IndexedTo, rep.Files, rep.Steps, rep.BadLinks, rep.Limited, rep.Rejected = res.IndexedTo, a.Files, a.Steps, a.BadLinks, a.Limited, a.Rejected
	for _, m := range res.Messages {
		var r message.Record
		release, err := v.MessageAt(m.PhyOffset, &r)
		info := &messageInfo{QueueOffset: -1, PhyOffset: m.PhyOffset}
		if err != nil {
			info.Fault = err.Error()
		} else {
			info.QueueOffset = r.QueueOffset
			info.fill(&r, c.Bool("body"))
			release()
		}
		rep.Messages = append(rep.Messages, info)
	}
	rep.Unclean = v.Unclean
	rep.Complete = rep.IndexedTo >= rep.LogEnd && len(v.Log.Missing()) == 0 && len(rep.Faults) == 0 && rep.Missing == "" && rep.BadLinks == 0 && !rep.Limited && !rep.Unclean
	if c.Bool("json") {
		return printJSON(c.App.Writer, rep)
	}
	return printQuery(c, &rep)
}

// closableIndex is an index that was opened for a query.
type closableIndex interface {
	store.KeyIndex
	Close() error
}

// openKeyIndex opens the index files, or the index in RocksDB where there are none.
func openKeyIndex(v *store.View, rep *queryReport) (closableIndex, error) {
	x, err := v.OpenIndex()
	if errors.Is(err, store.ErrNoIndex) {
		rep.Slot = -1
		r, rerr := v.OpenRocksIndex()
		if errors.Is(rerr, store.ErrNoIndex) {
			return nil, err
		}
		if rerr != nil {
			return nil, rerr
		}
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	slots, _ := x.Geometry()
	rep.Slot = rep.Hash % slots
	for _, fault := range x.Faults() {
		rep.Faults = append(rep.Faults, fault.Error())
	}
	if _, rep.Missing, err = v.IndexHole(x); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

func lookedAt(rep *queryReport) string {
	if rep.Slot < 0 {
		return fmt.Sprintf("%s of RocksDB, %s", counted(rep.Files, "hour"), counted(int(rep.Steps), "step"))
	}
	return fmt.Sprintf("%s, %s of the chains (hash %d, slot %d)", counted(rep.Files, "file"), counted(int(rep.Steps), "step"), rep.Hash, rep.Slot)
}

// endText is the end of a window of time.
func endText(ms int64) string {
	if ms == math.MaxInt64 {
		return "now and later"
	}
	return message.TimeText(ms)
}

func printQuery(c *cli.Context, rep *queryReport) error {
	w, found := c.App.Writer, 0
	for _, m := range rep.Messages {
		if m.Fault == "" {
			found++
		}
	}
	fmt.Fprintf(w, "Messages of %s by key %q, type %s: %s\n", rep.Topic, rep.Key, rep.Type, counted(found, "message"))
	indexed := "nothing"
	if rep.IndexedTo >= 0 {
		indexed = fmt.Sprintf("the log up to %d, %s behind its end", rep.IndexedTo, byteSize(max(rep.LogEnd-rep.IndexedTo, 0)))
	}
	table(
		w,
		[2]string{"index has", indexed},
		[2]string{"looked at", lookedAt(rep)},
		[2]string{"turned down", counted(rep.Rejected, "hit")},
	)
	for _, f := range rep.Looks {
		place := f.Path
		if place == "" {
			place = "an hour of RocksDB"
		}
		fmt.Fprintf(w, "  looked at: %s, %s to %s: %s, %s\n", place, message.TimeText(f.BeginMs), endText(f.EndMs), counted(int(f.Steps), "step"), counted(f.Hits, "candidate"))
	}
	for _, h := range rep.Hits {
		fmt.Fprintf(w, "  turned down: physical offset %d: %s\n", h.PhyOffset, h.Why)
	}
	for _, f := range rep.Faults {
		fmt.Fprintf(c.App.ErrWriter, "warning: left out: %s\n", f)
	}
	if rep.Missing != "" {
		fmt.Fprintf(c.App.ErrWriter, "warning: %s: `tandemmq store recover` builds the index again from there\n", rep.Missing)
	}
	if rep.BadLinks > 0 {
		fmt.Fprintf(c.App.ErrWriter, "warning: %s led nowhere: `tandemmq store rebuild --index` makes the index anew\n", counted(rep.BadLinks, "chain"))
	}
	if rep.Limited {
		fmt.Fprintln(c.App.ErrWriter, "warning: the search was given up before its end: narrow it with --from and --to")
	}
	if len(rep.Messages) == 0 {
		return nil
	}
	return printMessages(w, rep.Messages, c.Bool("body"))
}
