package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
)

// The comparison: after a stop that was not in order the units of both sides are held against one another, queue by queue, beside everything else. What dispatch delivers again it
// compares with the log by itself; this is for what lies below, where a side may have lost what it was known to have. It takes a fifth of the time of one processor at most,
// notes how far it is, and goes on there after a stop in order.

// The file compare-queues tells that the comparison is due. It is not there otherwise.
//
//	{"after":{"topic":"t","queueId":3}}
//
// after: the last queue that was compared, in the order of names; left out before the first one.
const comparisonName = "compare-queues.json"

// maxComparisonBytes bounds what is read of it.
const maxComparisonBytes = 64 << 10

type comparisonFile struct {
	After *brokenQueue `json:"after,omitempty"`
}

func (l Layout) comparisonPath() string { return filepath.Join(l.StateDir(), comparisonName) }

// comparison is how far it is.
type comparison struct {
	mu         sync.Mutex
	due        bool
	after      *cq.Key // nil: none was compared
	queues, of int     // compared, of so many; 0 before it begins
}

// Comparing is how far the comparison of the two sides is.
type Comparing struct {
	Queues int `json:"queues"` // that were compared
	Of     int `json:"of"`     // 0: it has not begun
}

func (c *comparison) progress() *Comparing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.due {
		return nil
	}
	return &Comparing{Queues: c.queues, Of: c.of}
}

// owes tells whether a queue is still to be compared.
func (c *comparison) owes(k cq.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.due && (c.after == nil || k.Compare(*c.after) > 0)
}

func (c *comparison) begin(queues, of int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queues, c.of = queues, of
}

func (c *comparison) did(k cq.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after = &k
	c.queues++
}

// loadComparison finds out whether it is due, from its beginning if the store was not closed in order, and notes that it is.
func (d *sides) loadComparison(unclean bool) error {
	c := &d.comparison
	if unclean {
		c.due = true
		return d.saveComparison()
	}
	b, err := readFile(d.v.s.fs, d.v.s.layout.comparisonPath(), maxComparisonBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var file comparisonFile
	if err == nil {
		err = json.Unmarshal(b, &file)
	}
	if err != nil {
		d.v.s.logger.Warn("the sides of the consume queues are compared from the first queue on: how far it was cannot be read", slog.Any("err", err))
	}
	c.due = true
	if err == nil && file.After != nil {
		c.after = &cq.Key{Topic: file.After.Topic, QueueID: file.After.QueueID}
	}
	return nil
}

// saveComparison notes how far it is. A full disk costs time, and nothing else.
func (d *sides) saveComparison() error {
	c := &d.comparison
	c.mu.Lock()
	var file comparisonFile
	if c.after != nil {
		file.After = &brokenQueue{Topic: c.after.Topic, QueueID: c.after.QueueID}
	}
	c.mu.Unlock()
	path := d.v.s.layout.comparisonPath()
	b, err := json.Marshal(file)
	if err == nil {
		err = makeDir(d.v.s.fs, filepath.Dir(path))
	}
	if err == nil {
		err = replaceFile(d.v.s.fs, path, append(b, '\n'))
	}
	if diskFull(err) {
		d.v.s.logger.Warn("how far the sides of the consume queues are compared is not noted", slog.Any("err", err))
		return nil
	}
	return err
}

// endComparison notes that nothing is left to compare.
func (d *sides) endComparison() error {
	d.comparison.mu.Lock()
	d.comparison.due = false
	d.comparison.mu.Unlock()
	path := d.v.s.layout.comparisonPath()
	if err := d.v.s.fs.Remove(path); err != nil {
		return err
	}
	return d.v.s.fs.SyncDir(filepath.Dir(path))
}

// compare does what is due. It begins when the ends of the queues have been compared. What cannot be compared because a side was given up stays due.
func (d *sides) compare(ctx context.Context) {
	if !d.comparison.due || ctx.Err() != nil {
		return
	}
	if err := d.compareQueues(ctx); err != nil && ctx.Err() == nil {
		d.v.s.logger.Error("the sides of the consume queues could not be compared, which is tried again when the store is next opened", slog.Any("err", err))
	}
}

// comparable returns the queues that both sides have, in the order of names.
func (d *sides) comparable() (keys []cq.Key) {
	v := d.v.view
	v.mu.Lock()
	defer v.mu.Unlock()
	for k, q := range v.mu.known {
		if !q.unitless && !q.gone && v.mu.barred[k] == nil && len(d.responsible(k)) == len(combinedKinds) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, cq.Key.Compare)
	return keys
}

func (d *sides) compareQueues(ctx context.Context) error {
	keys := d.comparable()
	done := 0
	if after := d.comparison.after; after != nil { // written by this goroutine alone
		at, found := slices.BinarySearchFunc(keys, *after, cq.Key.Compare)
		if done = at; found {
			done++
		}
	}
	d.comparison.begin(done, len(keys))
	logger := d.v.s.logger
	logger.Info("the sides of the consume queues are compared unit by unit", slog.Int("queues", done), slog.Int("of", len(keys)))
	begin, saved := time.Now(), time.Now()
	p := pace{begin: begin}
	var units int64
	for _, k := range keys[done:] {
		n, err := d.compareQueue(ctx, k, &p)
		units += n
		if err != nil {
			return errors.Join(err, d.saveComparison())
		}
		d.comparison.did(k)
		if time.Since(saved) >= rebuildTold {
			saved = time.Now()
			m := d.comparison.progress()
			logger.Info("the sides of the consume queues are compared unit by unit", slog.Int("queues", m.Queues), slog.Int("of", m.Of), slog.Int64("units", units))
			if err := d.saveComparison(); err != nil {
				return err
			}
		}
	}
	logger.Info("the sides of the consume queues were compared unit by unit", slog.Int("queues", len(keys)-done), slog.Int64("units", units), slog.Duration("elapsed", time.Since(begin)))
	return d.endComparison()
}

// compareQueue compares one queue, and has the log judge what differs. A queue that is being built again is compared then; one that a side cannot read is not known to differ.
func (d *sides) compareQueue(ctx context.Context, k cq.Key, p *pace) (units int64, err error) {
	if d.v.s.replacing.owed() {
		return 0, nil // what takes the place of RocksDB is compared then
	}
	for _, kind := range combinedKinds {
		if err := d.store.Failure(kind); err != nil {
			return 0, err
		}
		if d.store.IsDiverged(kind, k) {
			return 0, nil
		}
	}
	verdict, err := d.store.VerifyPaced(ctx, k, combine.Units, func() error { return p.pause(ctx) })
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err != nil:
		d.v.s.logger.Error("the units of a queue could not be compared", slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)), slog.Any("err", err))
		return 0, nil
	}
	for _, one := range verdict.Differences {
		if one.QueueOffset < 0 {
			continue // of the bounds: dispatch goes on, and they were compared with the log
		}
		if d.judge(k, one.QueueOffset) != undecided {
			return verdict.Compared, nil
		}
	}
	if n := verdict.Different + verdict.Missing; n > 0 {
		d.v.s.logger.Warn("the sides of a queue differ where the log has no record that says which is right", slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)),
			slog.Int64("slots", n), slog.String("first", fmt.Sprint(verdict.Differences[len(verdict.Differences)-1])))
	}
	return verdict.Compared, nil
}

// Of the time, so much is waited for each part of work.
const (
	paceStep  = 5 * time.Millisecond
	paceShare = 4
)

// pace bounds how much of a processor something takes.
type pace struct {
	begin time.Time // when work was last begun
}

// pause waits, now and then.
func (p *pace) pause(ctx context.Context) error {
	worked := time.Since(p.begin)
	if worked < paceStep {
		return ctx.Err()
	}
	t := time.NewTimer(paceShare * worked)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
	}
	p.begin = time.Now()
	return nil
}
