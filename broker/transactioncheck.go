package broker

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

var (
	halfQueue = cq.Key{Topic: meta.HalfTopic}
	opQueue   = cq.Key{Topic: meta.OpHalfTopic}
)

// checkRound is one walk through the half topic.
type checkRound struct {
	b    *Broker
	h    *halves
	ctx  context.Context
	done map[int64]struct{} // offsets that op records name
	ops  []opRecord
	put  bool  // something was put, which is to be durable before its original is passed
	end  int64 // what was there at the beginning: a message that is put again is not looked at again
	err  error
}

// opRecord is an op record that was read.
type opRecord struct {
	offset  int64 // in the op topic
	highest int64 // offset of the half topic that it names
}

// runChecks asks producers about prepared messages every transactionCheckInterval, until its context ends.
func (h *halves) runChecks(ctx context.Context) {
	timer := time.NewTimer(h.b.live().TransactionCheckInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := h.check(ctx); err != nil && ctx.Err() == nil {
			h.b.log.Warn("prepared messages could not be checked, and are next time", slog.Any("err", err))
		}
		timer.Reset(h.b.live().TransactionCheckInterval)
	}
}

// offsetOf returns how far checks have come in a queue: not beyond its end, as in a store that has lost its own.
func (h *halves) offsetOf(k cq.Key) int64 {
	at := h.b.offsets.Query(meta.TransactionGroup, k.Topic, k.QueueID)
	return max(0, min(at, h.b.store.NextOffset(k.Topic, k.QueueID)))
}

// check walks through the half topic once, from where the last walk has ended to the first message that is too young.
//
// Source: TransactionalMessageServiceImpl.check, 5.5.0.
func (h *halves) check(ctx context.Context) error {
	b := h.b
	r := &checkRound{b: b, h: h, ctx: ctx, done: map[int64]struct{}{}}
	from, ops := h.offsetOf(halfQueue), h.offsetOf(opQueue)
	var err error
	if r.end, err = b.store.MaxOffset(halfQueue.Topic, halfQueue.QueueID); err != nil {
		return err
	}
	walk := walker{store: b.store}
	opEnd, err := walk.walk(opQueue, ops, r.readOp)
	if err != nil {
		return err
	}
	next, err := walk.walk(halfQueue, from, r.look)
	if r.err != nil {
		err = r.err
	}
	// What was done before a failure counts all the same.
	if r.put {
		if err := b.store.Flush(); err != nil {
			return err
		}
	}
	h.passed(next)
	b.offsets.Commit(meta.TransactionGroup, halfQueue.Topic, halfQueue.QueueID, next)
	b.offsets.Commit(meta.TransactionGroup, opQueue.Topic, opQueue.QueueID, r.opsBelow(next, opEnd))
	return err
}

// readOp notes the offsets of an op record.
//
// Source: TransactionalMessageServiceImpl.fillOpRemoveMap, 5.5.0.
func (r *checkRound) readOp(m *walked) bool {
	op := opRecord{m.queueOffset, -1}
	if tag, _ := m.record.Property(message.PropertyTags); string(tag) == opTag {
		for text := range strings.SplitSeq(string(m.record.Body), string(opSeparator)) {
			if at, err := strconv.ParseInt(text, 10, 64); err == nil {
				r.done[at] = struct{}{}
				op.highest = max(op.highest, at)
			}
		}
	}
	r.ops = append(r.ops, op)
	return r.ctx.Err() == nil
}

// opsBelow returns the offset of the first op record that names a message at or above next; end if there is none.
func (r *checkRound) opsBelow(next, end int64) int64 {
	for _, op := range r.ops {
		if op.highest >= next {
			return op.offset
		}
	}
	return end
}

// look decides about one prepared message: true if the walk has passed it.
func (r *checkRound) look(m *walked) bool {
	if m.queueOffset >= r.end || r.ctx.Err() != nil {
		return false
	}
	if r.finished(m) {
		return true
	}
	if taken, settled := r.h.state(m.queueOffset); taken {
		return settled // one that is about to be may still fail
	}
	var passed bool
	passed, r.err = r.ask(m)
	return passed && r.err == nil
}

// finished tells whether an op record names the message, by its offset or by the one it had first.
func (r *checkRound) finished(m *walked) bool {
	if _, ok := r.done[m.queueOffset]; ok {
		return true
	}
	text, ok := m.record.Property(propPreparedOffset)
	if !ok {
		return false
	}
	first, err := strconv.ParseInt(string(text), 10, 64)
	_, ok = r.done[first]
	return err == nil && ok
}

// ask has the producer asked about a message that nobody has decided about, if it is old enough; false if it is not.
func (r *checkRound) ask(m *walked) (passed bool, err error) {
	b, rec := r.b, &m.record
	text, _ := rec.Property(propCheckTimes)
	times, _ := strconv.ParseInt(string(text), 10, 32)
	age := b.ageOf(rec)
	if times >= int64(b.live().TransactionCheckMax) || age > time.Duration(b.o.Store.FileReservedTime)*time.Hour {
		return r.giveUp(m)
	}
	immunity, own := b.immunity(rec)
	switch {
	case age >= immunity:
		return r.putAgain(m, true, propCheckTimes, strconv.FormatInt(times+1, 10))
	case own: // it must not keep others waiting
		first, ok := rec.Property(propPreparedOffset)
		if !ok {
			first = strconv.AppendInt(nil, m.queueOffset, 10)
		}
		return r.putAgain(m, false, propPreparedOffset, string(first))
	}
	return false, nil
}

// putAgain puts a message into the half topic again, with a property set to a value, and asks about it.
func (r *checkRound) putAgain(m *walked, ask bool, property, value string) (bool, error) {
	var res store.PutResult
	moved, err := r.h.move(m.queueOffset, func() (int64, error) {
		var err error
		if res, err = r.b.putHalf(r.b.store.PutUnflushed, meta.HalfTopic, &m.record, property, value); res.Status.Stored() {
			err = nil
		}
		return res.Append.QueueOffset, err
	})
	if err != nil || !moved {
		return false, err
	}
	r.put = true
	if ask {
		r.b.askProducer(&m.record, &res)
	}
	return true, nil
}

// giveUp puts a message where nobody is asked about it any more.
//
// Source: DefaultTransactionalMessageCheckListener.resolveDiscardMsg, 5.5.0.
func (r *checkRound) giveUp(m *walked) (bool, error) {
	if _, err := r.b.topics.Ensure(meta.NewTopic(meta.CheckMaxTimeTopic, 1, meta.PermRead|meta.PermWrite)); err != nil {
		return false, err
	}
	at, ok := r.h.decide(m.queueOffset)
	if !ok {
		return false, nil
	}
	res, err := r.b.putHalf(r.b.store.PutUnflushed, meta.CheckMaxTimeTopic, &m.record)
	if !res.Status.Stored() {
		r.h.withdraw(at)
		return false, err
	}
	r.h.settle(at)
	r.put = true
	r.b.log.Warn("a transaction is given up: its producer was asked too often, or the message is too old", slog.Int64("queueOffset", m.queueOffset), slog.Int64("phyOffset", res.Append.PhyOffset))
	return true, nil
}

// askProducer asks a member of the message's group of producers what shall become of it. The answer is END_TRANSACTION.
//
// Source: AbstractTransactionalMessageCheckListener.sendCheckMessage, Broker2Client.checkProducerTransactionState, 5.5.0.
func (b *Broker) askProducer(rec *message.Record, res *store.PutResult) {
	group, _ := rec.Property(propProducerGroup)
	topic, queueID, err := realQueue(rec)
	if err != nil {
		b.log.Warn("nobody can be asked about a prepared message", slog.Int64("phyOffset", rec.PhyOffset), slog.Any("err", err))
		return
	}
	producer, ok := b.clients.Pick(string(group))
	if !ok {
		b.log.Debug("no producer is there to be asked about its prepared message", slog.String("group", string(group)), slog.Int64("phyOffset", res.Append.PhyOffset))
		return
	}
	m := rec.Message()
	m.Topic, m.QueueID, m.StoreHost = topic, queueID, b.storeHost
	m.QueueOffset, m.PhyOffset, m.StoreTimestampMs = res.Append.QueueOffset, res.Append.PhyOffset, res.Append.StoreTimestampMs
	body, err := m.AppendTo(nil)
	if err != nil {
		b.log.Warn("nobody can be asked about a prepared message", slog.Int64("phyOffset", rec.PhyOffset), slog.Any("err", err))
		return
	}
	uniq, _ := rec.Property(message.PropertyUniqKey)
	req := &remoting.Command{Code: remoting.CheckTransactionState, Body: body, Ext: remoting.Ext{
		{Key: "topic", Value: meta.HalfTopic},
		{Key: "msgId", Value: string(uniq)},
		{Key: "transactionId", Value: string(uniq)},
		{Key: "offsetMsgId", Value: res.MsgIDs()},
	}}
	req.Ext.SetInt("tranStateTableOffset", res.Append.QueueOffset)
	req.Ext.SetInt("commitLogOffset", res.Append.PhyOffset)
	if err := producer.Conn.OneWay(req); err != nil {
		b.log.Debug("a producer could not be asked about its prepared message", slog.String("group", string(group)), slog.Any("err", err))
	}
}
