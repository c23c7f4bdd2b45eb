package broker

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// Transactions. A producer first sends its message prepared: it is kept in the half topic (sending.toHalf), where consumers do not see it. Then it says what shall become of it:
//
//	commit    the message is put into its own topic, and an op record says that it is done
//	rollback  the op record alone
//
// A producer that says nothing is asked (transactioncheck.go). Op records are gathered (transactionop.go). All of it is kept in topics and offsets, so that another process goes on.

// Properties of prepared messages. Source: MessageConst, 5.5.0.
const (
	propCheckTimes     = "TRANSACTION_CHECK_TIMES"
	propImmunity       = "CHECK_IMMUNITY_TIME_IN_SECONDS"
	propPreparedOffset = "TRAN_PREPARED_QUEUE_OFFSET" // in the half topic, of a message that was put there again
)

// halves knows what this process has done with prepared messages, by their offset in the half topic.
type halves struct {
	b       *Broker
	wakeOps chan struct{} // there are op records to be written, now or soon
	ops     sync.Mutex    // of who writes them

	mu struct {
		sync.Mutex
		decided map[int64]bool    // committed, rolled back or given up; false: about to be. Those below the offset of checks are dropped
		moved   map[int64]int64   // put again since: where the message is now
		before  map[int64][]int64 // the offsets that moved has for one
		op      []byte            // what is to be written to the op topic
		opSince time.Time         // of the first of it; zero: there is none
	}
}

func newHalves(b *Broker) *halves {
	h := &halves{b: b, wakeOps: make(chan struct{}, 1)}
	h.mu.decided, h.mu.moved, h.mu.before = map[int64]bool{}, map[int64]int64{}, map[int64][]int64{}
	return h
}

// decide takes the decision about a message, which only one can; false if it was taken. at is where the message is now. The caller settles or withdraws it.
func (h *halves) decide(offset int64) (at int64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at = offset
	if now, moved := h.mu.moved[offset]; moved {
		at = now
	}
	if _, decided := h.mu.decided[at]; decided {
		return at, false
	}
	h.mu.decided[at] = false
	return at, true
}

// settle says that a decision was carried out.
func (h *halves) settle(at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.decided[at] = true
}

// withdraw gives a decision back that could not be carried out.
func (h *halves) withdraw(at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.decided, at)
}

// state tells whether the decision about a message was taken, and whether it was carried out.
func (h *halves) state(offset int64) (taken, settled bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	settled, taken = h.mu.decided[offset]
	return taken, settled
}

// move has a message that nobody has decided about put again: whoever knows it by its old offset means the new one from then on. put is called under the lock, so that no decision
// comes in between; false if one was taken.
func (h *halves) move(from int64, put func() (to int64, err error)) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, decided := h.mu.decided[from]; decided {
		return false, nil
	}
	to, err := put()
	if err != nil {
		return false, err
	}
	list := append(h.mu.before[from], from)
	delete(h.mu.before, from)
	h.mu.before[to] = list
	for _, old := range list {
		h.mu.moved[old] = to
	}
	return true, nil
}

// passed forgets decisions below the offset of checks.
func (h *halves) passed(below int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at := range h.mu.decided {
		if at < below {
			delete(h.mu.decided, at)
			h.forgetLocked(at)
		}
	}
}

// forgetLocked forgets the old offsets of a message.
func (h *halves) forgetLocked(at int64) {
	for _, old := range h.mu.before[at] {
		delete(h.mu.moved, old)
	}
	delete(h.mu.before, at)
}

// ending is a request to end a transaction.
type ending struct {
	group     string
	half      int64 // queue offset in the half topic
	phyOffset int64
	commit    bool
	asked     bool // the broker had asked
}

// endTransaction serves END_TRANSACTION. A producer that does not know yet gets no answer, as none waits for one.
//
// Source: EndTransactionProcessor.processRequest, 5.5.0.
func (b *Broker) endTransaction(c *remoting.Conn, req *remoting.Command) {
	f := req.Fields()
	e := ending{group: f.String("producerGroup"), half: f.Int64("tranStateTableOffset"), phyOffset: f.Int64("commitLogOffset"), asked: f.BoolOr("fromTransactionCheck", false)}
	decision := f.Int32("commitOrRollback")
	if err := f.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	if e.commit = decision == message.TransactionCommit; !e.commit && decision != message.TransactionRollback {
		c.Hold(req)
		return
	}
	if err := b.end(&e); err != nil {
		c.RespondError(req, err)
		return
	}
	done(c, req)
}

func (b *Broker) end(e *ending) error {
	r, err := b.copyOf(e.phyOffset)
	if err != nil {
		return err
	}
	if err := b.checkEnding(e, r); err != nil {
		return err
	}
	at, ok := b.halves.decide(e.half)
	if !ok { // said before
		return nil
	}
	if e.commit {
		if err := b.commit(r); err != nil {
			b.halves.withdraw(at)
			return err
		}
	}
	b.halves.settle(at)
	b.halves.op(at)
	if at != e.half {
		b.halves.op(e.half)
	}
	return nil
}

// checkEnding tells why a message cannot be ended so; nil if it can.
func (b *Broker) checkEnding(e *ending, r *message.Record) error {
	group, _ := r.Property(propProducerGroup)
	switch {
	case string(r.Topic) != meta.HalfTopic || r.QueueID != 0:
		return remoting.Errorf(remoting.SystemError, "the message at physical offset %d is of %s, and not prepared", e.phyOffset, r.Topic)
	case string(group) != e.group:
		return remoting.Errorf(remoting.SystemError, "the prepared message is of the producer group %q, not of %q", group, e.group)
	case r.QueueOffset != e.half:
		return remoting.Errorf(remoting.SystemError, "the prepared message has the offset %d, not %d", r.QueueOffset, e.half)
	case r.PhyOffset != e.phyOffset:
		return remoting.Errorf(remoting.SystemError, "the prepared message has the physical offset %d, not %d", r.PhyOffset, e.phyOffset)
	}
	if immunity, ok := b.immunity(r); ok && !e.asked && b.ageOf(r) > immunity {
		return remoting.Errorf(remoting.IllegalOperation, "the message is older than its %s of %v: the broker asks", propImmunity, immunity)
	}
	return nil
}

// immunity is how long the producer of a message is not asked; false if the message says nothing about it.
//
// Source: TransactionalMessageServiceImpl.getImmunityTime, 5.5.0.
func (b *Broker) immunity(r *message.Record) (time.Duration, bool) {
	text, ok := r.Property(propImmunity)
	if !ok {
		return b.live().TransactionTimeOut, false
	}
	seconds, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || seconds == -1 {
		return b.live().TransactionTimeOut, true
	}
	return time.Duration(seconds) * time.Second, true
}

// ageOf is how long ago a message was born, by a clock that may be another one; of one that is yet to be born, how long it is stored.
func (b *Broker) ageOf(r *message.Record) time.Duration {
	now := b.o.now().UnixMilli()
	age := now - r.BornTimestampMs
	if age < 0 {
		age = now - r.StoreTimestampMs
	}
	return time.Duration(age) * time.Millisecond
}

// commit puts a prepared message into its own topic, or, if it is a delayed one, into that of its level.
//
// Source: EndTransactionProcessor.endMessageTransaction, sendFinalMessage, 5.5.0.
func (b *Broker) commit(r *message.Record) error {
	topic, queueID, err := realQueue(r)
	if err != nil {
		return fmt.Errorf("prepared message at physical offset %d: %w", r.PhyOffset, err)
	}
	s := b.sends.Get().(*sending)
	defer b.release(s)
	s.m, s.topic, s.queueID = r.Message(), topic, queueID
	s.m.SysFlag = r.SysFlag&^message.FlagTransactionMask | message.TransactionCommit
	s.m.PreparedTransactionOffset, s.m.StoreHost = r.PhyOffset, b.storeHost
	s.m.Topic, s.m.QueueID = topic, queueID
	s.props = message.AppendPropertiesWithout(s.props[:0], r.Properties, message.HasCRC)
	s.set([]string{message.PropertyRealTopic, message.PropertyRealQueueID})
	if delay, _ := strconv.ParseInt(s.property(message.PropertyDelay), 10, 32); delay > 0 {
		s.delay = int32(delay)
		s.toSchedule(int32(b.levels.Max()))
	}
	s.m.Properties = s.props
	res, err := b.store.Put(context.Background(), &s.m)
	if !res.Status.Stored() {
		b.counts.putFailed.Add(1)
		return remoting.Errorf(codeOf(res.Status), "%v", err)
	}
	b.counts.put(topic, &res)
	return nil
}

// resumeCheck serves RESUME_CHECK_HALF_MESSAGE: a prepared message whose producer was asked too often is put back, to be asked about again.
//
// Source: AdminBrokerProcessor.resumeCheckHalfMessage, 5.5.0.
func (b *Broker) resumeCheck(c *remoting.Conn, req *remoting.Command) {
	f := req.Fields()
	id := f.String("msgId")
	err := f.Err()
	if err == nil {
		err = b.resume(id)
	}
	if err != nil {
		c.RespondError(req, err)
		return
	}
	done(c, req)
}

func (b *Broker) resume(id string) error {
	_, phyOffset, ok := message.ParseOffsetMsgID(id)
	if !ok {
		return fmt.Errorf("%q is no offset message id", id)
	}
	r, err := b.copyOf(phyOffset)
	if err != nil {
		return err
	}
	if string(r.Topic) != meta.CheckMaxTimeTopic {
		return fmt.Errorf("message %s is of %s, not of %s", id, r.Topic, meta.CheckMaxTimeTopic)
	}
	res, err := b.putHalf(b.store.Put, meta.HalfTopic, r, propCheckTimes, "0")
	if res.Status.Stored() {
		return nil
	}
	return err
}

// putHalf puts a copy of a prepared message into a topic, with a property set to a value.
func (b *Broker) putHalf(put func(context.Context, *message.Message) (store.PutResult, error), topic string, r *message.Record, pairs ...string) (store.PutResult, error) {
	s := b.sends.Get().(*sending)
	defer b.release(s)
	s.m = r.Message()
	s.props = message.AppendPropertiesWithout(s.props[:0], r.Properties, message.HasCRC)
	s.set(nil, pairs...)
	s.m.Topic, s.m.QueueID, s.m.StoreHost, s.m.Properties = topic, 0, b.storeHost, s.props
	return put(context.Background(), &s.m)
}
