package offsets

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

// Kind of a finding.
type Kind string

// The kinds.
const (
	BelowMin        Kind = "below-min"        // messages between the offset and min are gone
	AboveMax        Kind = "above-max"        // the queue has not come that far
	Negative        Kind = "negative"         // below zero, and not None
	NoQueue         Kind = "no-queue"         // the store has no such queue, and the offset is above zero
	BadValue        Kind = "bad-value"        // no whole number: 5.5.0 would reject the whole file
	FileUnreadable  Kind = "file-unreadable"  // missing beside a backup, empty, or no JSON
	QueueUnreadable Kind = "queue-unreadable" // the queue contradicts itself
)

// Finding is one offset, or one file, that is not as it should be.
type Finding struct {
	Kind  Kind   `json:"kind"`
	Place Place  `json:"place"`
	Path  string `json:"path"`
	// Key and what follows are absent where the finding is a file's.
	*Key
	Offset *int64 `json:"offset,omitempty"` // nil where it is no number
	At     string `json:"at,omitempty"`     // line and column in the file
	Min    *int64 `json:"min,omitempty"`    // of the queue; absent when there is none
	Max    *int64 `json:"max,omitempty"`
	Text   string `json:"text"`
	// Evidence is for a person to judge by; none of it says what was consumed.
	Evidence *Evidence `json:"evidence,omitempty"`
}

// Evidence is what else is known about an offset. Times are ms since the epoch; absent where there is no message.
type Evidence struct {
	Backup        *int64          `json:"backup,omitempty"` // the value in RocketMQ's backup
	Elsewhere     map[Place]int64 `json:"elsewhere,omitempty"`
	OffsetStoreMs *int64          `json:"offsetStoreMs,omitempty"` // store time of the message at the offset
	BackupStoreMs *int64          `json:"backupStoreMs,omitempty"` // at the backup's value
	MinStoreMs    *int64          `json:"minStoreMs,omitempty"`    // at min
	LastStoreMs   *int64          `json:"lastStoreMs,omitempty"`   // of the newest message, at max-1
	UnknownTopic  bool            `json:"unknownTopic,omitempty"`  // the broker's topic table does not have the topic
	Retry         *Retry          `json:"retry,omitempty"`
}

// Swept counts what was looked at in one place.
type Swept struct {
	Place   Place    `json:"place"`
	Path    string   `json:"path"`
	Version *Version `json:"dataVersion,omitempty"`
	// FellBack tells that the offsets are the backup's, since the file itself cannot be read.
	FellBack bool `json:"fellBack,omitempty"`
	Groups   int  `json:"groups"`
	Offsets  int  `json:"offsets"`
	// None counts offsets of -1; NotJudged those of batch topics, whose queues are not read; NoQueueYet those of 0 in queues
	// that are not there: a group may subscribe before there is a message. OnlyInBackup counts what the backup has beyond.
	None         int      `json:"none"`
	NotJudged    int      `json:"notJudged"`
	NoQueueYet   int      `json:"noQueueYet"`
	OnlyInBackup int      `json:"onlyInBackup"`
	Notes        []string `json:"notes,omitempty"`
}

// Report is what Check found.
type Report struct {
	Store    string    `json:"store"`
	Kind     cq.Kind   `json:"queues"`  // the side the bounds are from
	Unclean  bool      `json:"unclean"` // not closed cleanly: the ends of queues may be moved by recovery
	Swept    []Swept   `json:"swept"`
	Findings []Finding `json:"findings"`
}

// Check holds the selected offsets of all sources against the queues of v. It reads the bounds of each queue once per
// offset, and messages for what it finds only. Errors: ctx, or a store that cannot be read at all.
func Check(ctx context.Context, v *store.View, sources []*Source, sel Selection) (*Report, error) {
	q, err := newQueues(v)
	if err != nil {
		return nil, err
	}
	c := &checker{q: q, sources: sources, r: &Report{Store: v.Layout.Root, Kind: v.Kind, Unclean: v.Unclean, Findings: []Finding{}}}
	for _, s := range sources {
		if err := c.source(ctx, s, sel); err != nil {
			return nil, err
		}
	}
	return c.r, nil
}

type checker struct {
	q       *queues
	sources []*Source
	r       *Report
	retries map[string]*Retry // of the source at hand
}

func (c *checker) source(ctx context.Context, s *Source, sel Selection) error {
	c.retries = map[string]*Retry{}
	w := Swept{Place: s.Place, Path: s.Path, Version: s.Version, FellBack: s.FellBack(), Notes: s.Notes}
	if s.Err != nil {
		text := s.Err.Error()
		switch {
		case s.FellBack():
			text += "; 5.5.0 would take its backup, and so does this check"
		case s.BackupErr != nil:
			text += "; nor its backup: " + s.BackupErr.Error()
		}
		c.r.Findings = append(c.r.Findings, Finding{Kind: FileUnreadable, Place: s.Place, Path: s.Path, Text: text})
	} else if s.BackupErr != nil {
		w.Notes = append(w.Notes, s.BackupErr.Error())
	}
	for _, f := range s.Faults {
		if f.Key == nil {
			c.r.Findings = append(c.r.Findings, Finding{Kind: BadValue, Place: s.Place, Path: s.filePath(), At: f.At, Text: f.Text})
		}
	}
	groups := map[string]bool{}
	for _, k := range sel.pick(s.Offsets) {
		if err := ctx.Err(); err != nil {
			return err
		}
		groups[k.Group] = true
		w.Offsets++
		if err := c.one(&w, s, k); err != nil {
			return err
		}
	}
	w.Groups = len(groups)
	if s.Backup != nil && !s.FellBack() {
		for _, k := range sel.pick(s.Backup.Offsets) {
			if !hasKey(s.Offsets, k) {
				w.OnlyInBackup++
			}
		}
	}
	c.r.Swept = append(c.r.Swept, w)
	return nil
}

// filePath is the file or database that the offsets were read from.
func (s *Source) filePath() string {
	if s.FellBack() {
		return s.Backup.Path
	}
	return s.Path
}

func (c *checker) one(w *Swept, s *Source, k Key) error {
	v := s.Offsets[k]
	f := Finding{Place: s.Place, Path: s.filePath(), Key: &k, At: v.At}
	if v.Bad == "" {
		f.Offset = &v.Offset
	}
	if c.q.batch[k.Topic] && v.Bad == "" {
		w.NotJudged++
		return nil
	}
	b, there, err := c.q.bounds(k.Queue())
	if err != nil && !errors.Is(err, cq.ErrCorrupt) {
		return err
	}
	if err == nil && there {
		f.Min, f.Max = &b.Min, &b.Max
	}
	f.Kind, f.Text = judge(v, b, there, err)
	switch {
	case f.Kind != "":
	case v.Offset == None:
		w.None++
		return nil
	case !there:
		w.NoQueueYet++
		return nil
	default:
		return nil
	}
	if f.Evidence, err = c.evidence(s, k, v, b, there && err == nil); err != nil {
		return err
	}
	c.r.Findings = append(c.r.Findings, f)
	return nil
}

// judge says what is wrong with an offset; "" when nothing is.
func judge(v Value, b cq.Bounds, there bool, queueErr error) (Kind, string) {
	switch {
	case v.Bad != "":
		return BadValue, v.Bad + ": 5.5.0 would reject the whole file"
	case v.Offset == None:
		return "", ""
	case v.Offset < 0:
		return Negative, fmt.Sprintf("offset %d is negative", v.Offset)
	case queueErr != nil:
		return QueueUnreadable, queueErr.Error()
	case !there && v.Offset > 0:
		return NoQueue, fmt.Sprintf("offset %d in a queue that is not there", v.Offset)
	case !there:
		return "", ""
	case v.Offset < b.Min:
		return BelowMin, fmt.Sprintf("offset %d is %d below min %d", v.Offset, b.Min-v.Offset, b.Min)
	case v.Offset > b.Max:
		return AboveMax, fmt.Sprintf("offset %d is %d above max %d", v.Offset, v.Offset-b.Max, b.Max)
	}
	return "", ""
}

// slotTime is a slot whose store time is wanted, and where it goes.
type slotTime struct {
	slot int64
	to   **int64
}

func (c *checker) evidence(s *Source, k Key, v Value, b cq.Bounds, bounded bool) (*Evidence, error) {
	e := &Evidence{UnknownTopic: !c.q.known(k.Topic)}
	var times []slotTime
	if v.Bad == "" {
		times = append(times, slotTime{v.Offset, &e.OffsetStoreMs})
	}
	if s.Backup != nil && !s.FellBack() {
		if o, ok := s.Backup.Offsets[k]; ok && o.Bad == "" {
			e.Backup = &o.Offset
			times = append(times, slotTime{o.Offset, &e.BackupStoreMs})
		}
	}
	for _, other := range c.sources {
		if o, ok := other.Offsets[k]; ok && other != s && o.Bad == "" {
			if e.Elsewhere == nil {
				e.Elsewhere = map[Place]int64{}
			}
			e.Elsewhere[other.Place] = o.Offset
		}
	}
	if bounded && !b.Empty() {
		times = append(times, slotTime{b.Min, &e.MinStoreMs}, slotTime{b.Max - 1, &e.LastStoreMs})
	}
	for _, t := range times {
		ms, ok, err := c.q.storeTime(k.Queue(), t.slot)
		if err != nil {
			return nil, err
		}
		if ok {
			*t.to = &ms
		}
	}
	if !hasKey(c.retries, k.Group) {
		r, err := c.q.retry(s, k.Group)
		if err != nil {
			return nil, err
		}
		c.retries[k.Group] = r
	}
	e.Retry = c.retries[k.Group]
	return e, nil
}
