package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/message"
)

// appender is the writing side of a log, as a put uses it: what *commitlog.Writer does and promises. Space is reserved in
// order under a lock of its own, filled side by side, and published in order.
type appender interface {
	Reserve(r *commitlog.Reservation, size int) error
	AwaitSpace(busy *commitlog.BusyError, timeout time.Duration) bool
	Publish(r *commitlog.Reservation, fill func(dst []byte) error) error
	Commit(r *commitlog.Reservation) error
	AwaitFlush(r *commitlog.Reservation) error
	AwaitFlushFunc(r *commitlog.Reservation, done func(error))
	Failure() error
	Positions() commitlog.Positions
	Close() error
}

var _ appender = (*commitlog.Writer)(nil)

// putter is the state of one put, taken from a pool: a put allocates nothing.
type putter struct {
	s      *Store
	msg    message.Message // a copy of the caller's, completed
	res    commitlog.Reservation
	encode func(dst []byte) error // p.fill, made once: a method value allocates

	size   int   // bytes to reserve
	count  int64 // offsets the message takes in its queue; 0: it gets none
	stripe int   // of its queue
	wait   bool  // for the flush, where that is what puts do

	late    lateProperties
	kept    []byte // properties without those that only the store writes
	props   []byte // kept and the late ones
	text    []byte // scratch
	light   []lightQueue
	stripes []int // of all its queues

	elements []batchElement
}

func newPutter(s *Store) *putter {
	p := &putter{s: s}
	p.encode = p.fill
	return p
}

// Buffers of a putter that are larger than these do not go back into the pool.
const (
	maxPooledElements = 1024
	maxPooledLight    = 1024
)

// release gives p back, without anything of the caller's.
func (p *putter) release() {
	p.msg = message.Message{}
	clear(p.light)
	clear(p.elements)
	p.light, p.elements = p.light[:0], p.elements[:0]
	if cap(p.light) > maxPooledLight || cap(p.elements) > maxPooledElements {
		p.light, p.elements = nil, nil
	}
	p.s.putters.Put(p)
}

// Put appends one message to the log. It returns when the message has its place there and can be read (with the transient pool: a moment later), and
// under synchronous flush, unless the message says WAIT=false, when it is durable. m and what it refers to are only read, and
// not kept.
//
// Of m these fields are taken: Topic, QueueID, Flag, SysFlag, BornTimestampMs, BornHost, StoreHost, ReconsumeTimes,
// PreparedTransactionOffset, Body and Properties; the store gives the others their values. The body's bytes are stored
// as they are, and so are the properties, but for these:
//
//	INNER_MULTI_QUEUE_OFFSET, INNER_BASE  written by the store alone: what a client sent under these names is left out (W23)
//	__CRC32#                              with enabledAppendPropCRC the store's own, at the end
//
// A message that breaks a rule is refused before any lock or offset is taken, and leaves no trace (but for the length of its
// properties together with the offsets of light queues, which is known only once those are; that leaves none either). The
// rules stand in putcheck.go.
//
// The queue offset is the next of its queue, for an inner batch the first of as many as INNER_NUM says; prepared and rolled
// back messages get 0 and take none. ctx bounds the wait for room in the log, not longer than osPageCacheBusyTimeOutMills; a
// message once in the log is not taken back when ctx ends.
//
// The error is nil for PUT_OK and a *PutError for every other status; the result is complete when the status says that the
// message is stored. How errors of the log become statuses:
//
//	no room within osPageCacheBusyTimeOutMills, or before ctx ended   OS_PAGE_CACHE_BUSY
//	the next log file cannot be made                                  CREATE_MAPPED_FILE_FAILED
//	closed, or an earlier write or sync has failed                    SERVICE_NOT_AVAILABLE: nothing was stored
//	this write or its sync failed                                     UNKNOWN_ERROR: the message may or may not be there later
//	not durable within syncFlushTimeout                               FLUSH_DISK_TIMEOUT: stored, and durable later
//
// Source: CommitLog.asyncPutMessage, HookUtils.checkBeforePutMessage, 5.5.0.
func (s *Store) Put(ctx context.Context, m *message.Message) (PutResult, error) {
	begin := s.brake.begin()
	p := s.putters.Get().(*putter)
	r, err := p.put(ctx, m, (*putter).checkMessage)
	p.release()
	s.brake.end(begin)
	return r, err
}

// PutFunc is Put that does not wait for the disk: done is called once, with what Put would return, before PutFunc returns unless the message waits for a flush. So who puts one message after
// the other has them stored in this order, however many wait. Those that wait are told in their order. done must not wait, nor call the store: the next flush waits for it.
func (s *Store) PutFunc(ctx context.Context, m *message.Message, done func(PutResult, error)) {
	s.putFunc(ctx, m, (*putter).checkMessage, done)
}

// PutBatchFunc is PutFunc of a batch, see PutBatch.
func (s *Store) PutBatchFunc(ctx context.Context, m *message.Message, done func(PutResult, error)) {
	s.putFunc(ctx, m, (*putter).checkBatch, done)
}

func (s *Store) putFunc(ctx context.Context, m *message.Message, check func(*putter) error, done func(PutResult, error)) {
	begin := s.brake.begin()
	p := s.putters.Get().(*putter)
	r, waits, err := p.append(ctx, m, check)
	if !waits {
		p.release()
		s.brake.end(begin)
		done(r, err)
		return
	}
	s.log.AwaitFlushFunc(&p.res, func(err error) {
		s.brake.end(begin)
		done(r.flushed(err))
	})
	p.release()
}

// PutUnflushed is Put that never waits for the disk: under synchronous flush too it returns when the message would survive the process. It is for copies of messages whose
// originals are given up only after Flush.
func (s *Store) PutUnflushed(ctx context.Context, m *message.Message) (PutResult, error) {
	p := s.putters.Get().(*putter)
	r, err := p.put(ctx, m, (*putter).checkUnflushed)
	p.release()
	return r, err
}

// PutBatch appends the messages of a batch: m.Body is the elements of message.BatchElement end to end, each with its own flag,
// body and properties; everything else is taken from m, for each of them.
//
// The records stand one behind the other in one log file, with consecutive queue offsets and one store time, or nothing is
// stored. No element gets offsets in light queues. m's own properties are not stored; WAIT of them counts.
//
// When Options.IsBatchTopic says that the topic is one of batch queues and m has a UNIQ_KEY, the batch becomes one record
// instead, an inner batch: the body is kept whole, with m's properties, INNER_NUM and INNER_BASE.
//
// Refused as illegal, beside what Put refuses, here for each element: an empty batch, one of more than MaxBatchCount
// messages, elements that do not fill the body exactly (W22), a transaction type, a delay level above 0. Results and errors
// are those of Put; Append is that of the first record, with the number of messages and of all bytes.
//
// Source: CommitLog.asyncPutMessages, MessageExtEncoder.encode of a MessageExtBatch, 5.5.0.
func (s *Store) PutBatch(ctx context.Context, m *message.Message) (PutResult, error) {
	begin := s.brake.begin()
	p := s.putters.Get().(*putter)
	r, err := p.put(ctx, m, (*putter).checkBatch)
	p.release()
	s.brake.end(begin)
	return r, err
}

// put does what Put and PutBatch have in common; check completes p.msg, or refuses it.
func (p *putter) put(ctx context.Context, m *message.Message, check func(*putter) error) (PutResult, error) {
	r, waits, err := p.append(ctx, m, check)
	if !waits {
		return r, err
	}
	return r.flushed(p.s.log.AwaitFlush(&p.res))
}

// append is put up to where it waits for the disk, if it does.
func (p *putter) append(ctx context.Context, m *message.Message, check func(*putter) error) (r PutResult, waits bool, err error) {
	refuse := func(err error) (PutResult, bool, error) {
		r, err := refuse(err)
		return r, false, err
	}
	if err := p.s.admitPut(); err != nil {
		return refuse(err)
	}
	p.msg = *m
	if err := check(p); err != nil {
		return refuse(err)
	}
	if p.s.views != nil && p.s.views.tooFarBehind() {
		if err := p.awaitDispatch(ctx); err != nil {
			return refuse(err)
		}
	}
	if err := p.reserve(ctx); err != nil {
		return refuse(err)
	}
	r = PutResult{Status: PutOK, Append: AppendResult{
		Status: AppendOK, PhyOffset: p.res.PhyOffset, Bytes: p.size, StoreTimestampMs: p.res.StoreTimestampMs,
		QueueOffset: p.msg.QueueOffset, Count: int(max(p.count, 1)), storeHost: p.msg.StoreHost, sizes: p.sizes(),
	}}
	p.msg.PhyOffset, p.msg.StoreTimestampMs = p.res.PhyOffset, p.res.StoreTimestampMs
	if err := p.s.log.Publish(&p.res, p.encode); err != nil {
		return refuse(&PutError{PutUnknownError, err})
	}
	if !p.s.syncFlush {
		return r, false, nil
	}
	if !p.wait { // it is to survive the process all the same
		if err := p.s.log.Commit(&p.res); err != nil {
			return refuse(&PutError{PutUnknownError, err})
		}
		return r, false, nil
	}
	return r, true, nil
}

// flushed is r after its flush, which ended with err.
func (r PutResult) flushed(err error) (PutResult, error) {
	switch {
	case err == nil:
		return r, nil
	case !errors.Is(err, commitlog.ErrFlushTimeout):
		return refuse(&PutError{PutUnknownError, err})
	}
	r.Status = PutFlushDiskTimeout
	return r, &PutError{PutFlushDiskTimeout, err}
}

// behindStep is how often a put that waits for the consume queues looks at them.
const behindStep = time.Millisecond

// awaitDispatch holds a put up while the consume queues are too far behind the log, as long as a put waits for room in it.
func (p *putter) awaitDispatch(ctx context.Context) error {
	for wait := p.s.live().OsPageCacheBusyTimeOutMills; wait > 0 && ctx.Err() == nil; wait -= behindStep {
		time.Sleep(behindStep)
		if !p.s.views.tooFarBehind() {
			return nil
		}
	}
	err := fmt.Errorf("consume queues are %d bytes behind the log, maxDispatchBehindBytes is %d", p.s.views.behind(), p.s.live().MaxDispatchBehindBytes)
	if why := errors.Join(p.s.views.follow.failure(), ctx.Err()); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return &PutError{PutOSPageCacheBusy, err}
}

// fill encodes the message, or the elements of the batch, over the reserved bytes. Everything that can fail was checked.
func (p *putter) fill(dst []byte) error {
	if len(p.elements) == 0 {
		return p.msg.PutTo(dst)
	}
	for i := range p.elements {
		e := &p.elements[i]
		p.msg.Flag, p.msg.Body, p.msg.Properties = e.Flag, e.Body, e.Properties
		if err := p.msg.PutTo(dst[:e.size]); err != nil {
			return err
		}
		dst = dst[e.size:]
		p.msg.PhyOffset += int64(e.size)
		p.msg.QueueOffset++
	}
	return nil
}

// reserve takes the place in the log and the queue offsets, waiting for room where there is none; it holds no lock while it
// waits.
func (p *putter) reserve(ctx context.Context) error {
	var deadline time.Time
	for {
		err := p.take()
		if err == nil {
			return nil
		}
		var busy *commitlog.BusyError
		if !errors.As(err, &busy) {
			return logError(err)
		}
		if busy.Reason == commitlog.BusyBuffer && p.s.live().FastFailIfNoBufferInStorePool {
			return logError(err)
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(p.s.live().OsPageCacheBusyTimeOutMills)
			if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
				deadline = d
			}
		}
		left := time.Until(deadline)
		if left <= 0 || ctx.Err() != nil {
			return logError(errors.Join(err, ctx.Err()))
		}
		if !p.s.log.AwaitSpace(busy, left) {
			return logError(err)
		}
	}
}

// take reserves the bytes under the stripes of the queues, so that offsets and places have one order, and counts the offsets as
// taken when that went well.
func (p *putter) take() error {
	if p.count == 0 {
		p.s.offsets.Lock(p.stripe)
		defer p.s.offsets.Unlock(p.stripe)
		if p.s.closed.Load() {
			return commitlog.ErrClosed
		}
		p.msg.QueueOffset = 0
		if p.late != 0 {
			if err := p.complete(); err != nil {
				return err
			}
		}
		return p.s.log.Reserve(&p.res, p.size)
	}
	t := p.s.offsets
	p.stripes = t.LockAll(p.stripes)
	defer t.UnlockAll(p.stripes)
	if p.s.closed.Load() { // Close goes through all stripes: whoever comes behind it does not get in
		return commitlog.ErrClosed
	}
	row, err := t.findLocked(p.stripe, p.msg.Topic, p.msg.QueueID)
	if err != nil {
		return &PutError{PutUnknownError, err}
	}
	p.msg.QueueOffset = 0
	if row != nil {
		p.msg.QueueOffset = *row
	}
	made, err := p.findLightLocked()
	if err != nil {
		return &PutError{PutUnknownError, err}
	}
	if row == nil && isLight(p.msg.Topic) {
		made++
	}
	if p.late != 0 {
		if err := p.complete(); err != nil {
			return err
		}
	}
	if made > 0 && !t.announceLight(made, p.s.lightLimit()) {
		return &PutError{PutLMQConsumeQueueNumExceeded, lightQuotaError(p.s.lightLimit(), made)}
	}
	if err := p.s.log.Reserve(&p.res, p.size); err != nil {
		t.light.Add(-int64(made))
		return err
	}
	if row == nil {
		t.addLocked(p.stripe, strings.Clone(p.msg.Topic), p.msg.QueueID, p.msg.QueueOffset+p.count)
	} else {
		*row += p.count
	}
	p.increaseLightLocked()
	return nil
}

// sizes returns the record sizes of a batch that becomes several records.
func (p *putter) sizes() []int32 {
	if len(p.elements) == 0 {
		return nil
	}
	sizes := make([]int32, len(p.elements))
	for i := range p.elements {
		sizes[i] = int32(p.elements[i].size)
	}
	return sizes
}
