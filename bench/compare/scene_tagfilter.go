package compare

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/filter"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// Tag filter: a queue read by a subscription that wants one message in a hundred, one in ten, all. Units carry the hash of the tag, so that records that are not wanted are
// not looked at.

// filterTags are the tags of a hundred messages in turn: one, nine and the rest.
const (
	tagRare   = "Rare"
	tagCommon = "Common"
	tagRest   = "Rest"
)

func filterTag(n int) string {
	switch n %= 100; {
	case n == 0:
		return tagRare
	case n%10 == 5 && n < 90:
		return tagCommon
	}
	return tagRest
}

// filterExpressions by how many of a hundred messages they want.
var filterExpressions = map[int]string{1: tagRare, 10: tagRare + " || " + tagCommon, 100: tagRare + " || " + tagCommon + " || " + tagRest}

// filterSize is a queue, of whole hundreds of messages, and how long it is read, at least once.
type filterSize struct {
	percent  int
	messages int
	time     time.Duration
	change   storeChange
}

// TagFilterScenarios compare filtered reads over the share of messages that are wanted.
func TagFilterScenarios() (all []Scenario) {
	for _, percent := range []int{1, 10, 100} {
		all = append(all, Scenario{
			Name: fmt.Sprintf("tag-filter/hits-%d", percent), Title: fmt.Sprintf("A queue of messages of 1 KiB read by a subscription by tag that wants %d in a hundred, in memory", percent),
			Engines: []string{File, Rocks, Combine}, Headline: "lookedAtPerSecond", X: float64(percent), XLabel: "% wanted", Full: percent != 10, Limit: slowLimit,
			Run: func(ctx context.Context, r *Run) error {
				return runTagFilter(ctx, r, filterSize{percent: percent, messages: size(r.Profile, 50_000, 500_000), time: size(r.Profile, 200*time.Millisecond, time.Second)})
			},
		})
	}
	return all
}

func runTagFilter(ctx context.Context, r *Run, size filterSize) error {
	o := load.Options(load.Engine(r.Engine))
	o.MessageIndexEnable = false
	size.change.to(&o)
	s, err := store.Open(filepath.Join(r.Dir, "store"), o)
	if err != nil {
		return err
	}
	return errors.Join(tagFilter(ctx, r, size, s), s.Close())
}

func tagFilter(ctx context.Context, r *Run, size filterSize, s *store.Store) error {
	f, err := filter.Compile(filter.TypeTag, filterExpressions[size.percent], filter.Options{})
	if err != nil {
		return err
	}
	m := plainMessage(load.BodyBytes)
	for n := range size.messages {
		m.Properties = append(append(append(m.Properties[:0], "TAGS\x01"...), filterTag(n)...), 2)
		if _, err := s.Put(ctx, &m); err != nil {
			return err
		}
	}
	if err := load.AwaitBuilt(ctx, s); err != nil {
		return err
	}
	read := filtered{s: s, filter: store.Filter{Unit: f.MatchUnit, Record: func(r *message.Record) bool { return f.MatchRecord(r.Properties) }}}
	defer read.res.Release()
	if err := read.queue(size); err != nil { // so that all of it has been touched
		return err
	}
	passes, start := 0, time.Now()
	for ; passes == 0 || time.Since(start) < size.time; passes++ {
		if err := errors.Join(read.queue(size), ctx.Err()); err != nil {
			return err
		}
	}
	took := time.Since(start).Seconds()
	r.Figures["lookedAtPerSecond"] = float64(passes*size.messages) / took
	r.Figures["hitsPerSecond"] = float64(passes*size.messages*size.percent) / 100 / took
	r.checked("each of %d passes found the %d of %d messages that are wanted, and no other", passes, size.messages*size.percent/100, size.messages)
	return nil
}

// filtered reads a queue by a filter.
type filtered struct {
	s      *store.Store
	filter store.Filter
	res    store.GetResult
}

// queue reads all of it, and fails unless it gets just what is wanted: the tag of a message is known by its offset.
func (x *filtered) queue(size filterSize) error {
	wanted, hits := filterExpressions[size.percent], 0
	for offset := int64(0); offset < int64(size.messages); offset = x.res.NextOffset {
		if err := x.s.Get(&store.GetRequest{Topic: plainTopic, Offset: offset, MaxMessages: 32, Filter: &x.filter}, &x.res); err != nil {
			return err
		}
		if x.res.NextOffset <= offset {
			return fmt.Errorf("at offset %d: %s, and no way on", offset, x.res.Status)
		}
		for i := range x.res.Messages {
			if tag := filterTag(int(x.res.Messages[i].QueueOffset)); !strings.Contains(wanted, tag) {
				return fmt.Errorf("message %d, of tag %s, was got for %q", x.res.Messages[i].QueueOffset, tag, wanted)
			}
		}
		hits += len(x.res.Messages)
	}
	if want := size.messages * size.percent / 100; hits != want {
		return fmt.Errorf("%d messages were got for %q, want %d", hits, wanted, want)
	}
	return nil
}
