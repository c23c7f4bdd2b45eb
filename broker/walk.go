package broker

import (
	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// walker reads a queue for the broker itself, by one goroutine at a time. The zero value needs nothing but its store.
type walker struct {
	store *store.Store
	res   store.GetResult
	codes []int64
	last  int64
	raw   []byte
	m     walked
}

// walked is a message that a walker has come to. It is valid until visit returns.
type walked struct {
	queueOffset int64
	tagsCode    int64 // as the queue has it; cq.IsExtAddress holds where it has something else
	record      message.Record
}

// walkBatch is how many messages are read at once.
const walkBatch = 32

// walk visits the messages of a queue from an offset on, in their order, until visit returns false or there are no more. It returns the offset to go on at: that of the message for
// which visit has returned false, or that of the next one to come. Offsets without a message, or with one that is not there any more, are passed over; from is returned where
// it is the next one, or larger.
//
// Errors are those of store.Get, and of a log file that cannot be read.
func (w *walker) walk(k cq.Key, from int64, visit func(m *walked) bool) (next int64, err error) {
	defer w.res.Release()
	req := store.GetRequest{Topic: k.Topic, QueueID: k.QueueID, MaxMessages: walkBatch, Filter: &store.Filter{
		Unit: func(tagsCode int64) bool {
			w.last = tagsCode
			return true
		},
		Record: func(*message.Record) bool {
			w.codes = append(w.codes, w.last)
			return true
		},
	}}
	for next = from; ; {
		w.codes, req.Offset = w.codes[:0], next
		if err := w.store.Get(&req, &w.res); err != nil {
			return next, err
		}
		switch w.res.Status {
		case store.GetNoQueue, store.GetQueueEmpty, store.GetOffsetOverflowOne, store.GetOffsetOverflowBadly:
			return next, nil
		}
		for i := range w.res.Messages {
			m := &w.res.Messages[i]
			if err := w.take(m); err != nil {
				return next, err
			}
			w.m.tagsCode, next = w.codes[i], m.QueueOffset
			if !visit(&w.m) {
				return next, nil
			}
			next++
		}
		if w.res.NextOffset <= next && len(w.res.Messages) == 0 {
			return next, nil // it does not get on
		}
		next = w.res.NextOffset
	}
}

// take copies a message: nobody puts bytes of a mapped file into the log that could be gone when they are read.
func (w *walker) take(m *store.Message) error {
	err := commitlog.GuardFault(func() error {
		w.raw = append(w.raw[:0], m.Record...)
		return nil
	})
	if err != nil {
		return err
	}
	w.m.queueOffset = m.QueueOffset
	return w.m.record.Decode(w.raw, true)
}
