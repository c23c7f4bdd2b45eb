package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// UnknownQueueError tells that a topic, or a queue of it, is neither among the queues of a store nor in its log.
type UnknownQueueError struct {
	Topic   string
	QueueID int32 // below 0: any of the topic
}

func (e *UnknownQueueError) Error() string {
	if e.QueueID < 0 {
		return fmt.Sprintf("no queue of topic %q: neither queues nor log have one", e.Topic)
	}
	return fmt.Sprintf("no queue %s: neither queues nor log have it", cq.Key{Topic: e.Topic, QueueID: e.QueueID})
}

// errFound ends a search.
var errFound = errors.New("found")

// known looks whether there is anything to build of the topic or queue that was asked for: a queue, be it on one side, or a record in the log, of which it would be built.
// Errors: *UnknownQueueError; what could not be read.
func (r *rebuilding) known(ctx context.Context) error {
	if r.job.Topic == "" {
		return nil
	}
	first, err := firstLogFile(r.layout, &r.rec.base)
	if err != nil {
		return err
	}
	for _, side := range r.rec.kinds {
		kind, _ := side.queueKind()
		queues, err := openQuietly(r.layout, kind, first)
		if err != nil {
			continue // the log tells
		}
		err = r.knownTo(queues)
		switch err = errors.Join(err, queues.Close()); {
		case errors.Is(err, errFound):
			return nil
		case err != nil:
			return err
		}
	}
	switch err := r.searchLog(ctx); {
	case errors.Is(err, errFound):
		return nil
	case err != nil:
		return err
	}
	return &UnknownQueueError{Topic: r.job.Topic, QueueID: r.job.QueueID}
}

// knownTo answers errFound when there is a queue among those that are to be built.
func (r *rebuilding) knownTo(queues cq.Reader) error {
	for k, err := range queues.Queues() {
		if err != nil {
			return err
		}
		if r.job.owns(k) {
			return errFound
		}
	}
	return nil
}

// searchLog answers errFound when a record of the log has its unit in a queue that is to be built. Damage is passed over: it was looked at before.
func (r *rebuilding) searchLog(ctx context.Context) (err error) {
	s := newStore(r.rec.base)
	s.layout = r.layout
	w := s.writerOptions()
	log, err := commitlog.Open(w.Dir, commitlog.Options{MoreDirs: slices.Concat(w.MoreDirs, w.ReadOnlyDirs), Logger: r.rec.o.Logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	begin := max(log.MinOffset(), 0)
	update := r.rec.phase("look for "+r.job.Topic, log.Size(), "bytes")
	return commitlog.GuardFault(func() error {
		for at := begin; at >= 0; {
			if at, err = r.searchFrom(ctx, log, at, func(phy int64) { update(phy - begin) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// searchFrom reads up to the next damage. next is where records go on behind it, -1 where none do.
func (r *rebuilding) searchFrom(ctx context.Context, log *commitlog.Log, at int64, update func(phy int64)) (next int64, err error) {
	scan := log.Scanner(at, commitlog.ScanOptions{})
	defer scan.Close()
	for told := at; scan.Next(); {
		rec := scan.Record()
		if r.recordOwned(rec) {
			return -1, errFound
		}
		if rec.PhyOffset-told >= progressBytes {
			told = rec.PhyOffset
			update(told)
			if err := ctx.Err(); err != nil {
				return -1, err
			}
		}
	}
	end := scan.End()
	if end.Kind == commitlog.EndNone {
		return -1, scan.Err()
	}
	return end.NextValid, nil
}

// recordOwned tells whether a record has a unit in a queue that is to be built.
func (r *rebuilding) recordOwned(rec *message.Record) (owned bool) {
	if !rec.OwesUnit() {
		return false
	}
	if string(rec.Topic) == r.job.Topic && (r.job.QueueID < 0 || r.job.QueueID == rec.QueueID) {
		return true
	}
	if !bytes.Contains(rec.Properties, multiDispatch) {
		return false
	}
	rec.MultiDispatch(func(queue []byte, id int32, _ int64, ok bool) bool {
		owned = ok && string(queue) == r.job.Topic && (r.job.QueueID < 0 || r.job.QueueID == id)
		return !owned
	})
	return owned
}
