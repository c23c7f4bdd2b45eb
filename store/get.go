package store

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// Filter decides which messages of a queue a reader gets. Both are called by the goroutine of Get; nil accepts everything.
type Filter struct {
	// Unit is asked first, with the tags code that the queue has: the hash of the tags, or a value for which cq.IsExtAddress holds where
	// nothing is known and the answer should be yes.
	Unit func(tagsCode int64) bool
	// Record is asked about what Unit accepted. The record's slices are those of the log.
	Record func(r *message.Record) bool
}

// GetRequest is what Get is asked.
type GetRequest struct {
	// Group is the consumer group that asks: what it reads of cold data is counted for it (ColdLimited). Empty: nothing is.
	Group   string
	Topic   string
	QueueID int32
	// Offset is the queue offset of the first message wanted.
	Offset int64
	// MaxMessages is how many messages are wanted at most; at least 1.
	MaxMessages int
	// MaxBytes bounds the bytes of their records together; 0: nothing but the limits of Options (maxTransfer…). The first message comes whatever its size.
	MaxBytes int
	// Filter says which ones. nil: all.
	Filter *Filter
}

// Bounds of MaxBytes. Source: DefaultMessageStore.getMessage, 5.5.0.
const (
	minPullBytes = 100
	maxPullBytes = 128 << 20
)

// getBatch is how many units are read at once.
const getBatch = 64

// Get reads messages of a queue, from an offset on, into res, which it releases first; the caller releases it when it is done with the messages. The bytes are those of the
// log, not copied. It answers with a status and never makes a queue, or anything else (W17).
//
// The work of a call is bounded, whatever a filter refuses: NextOffset says where to go on, and is always in [MinOffset, MaxOffset] unless the store is
// a SLAVE.
//
// A unit whose record is not there, or is not a message of the queue, is stepped over: the record has expired, or was lost and its place filled. In a combined store the other
// side's unit is looked at first. Likewise a unit whose record is that of another slot of the queue, and has its unit there too; other ones are served: RocketMQ has shifted queues (F1). A slot without a unit is stepped over only when the log has no record for it either (holes.go).
//
// The error is ErrClosed, ErrBatchQueue, ErrRebuilding (only of offsets that a queue which is being built again, or has to be, does not have yet), or that of a queue or log that cannot be read, with file or row. res then has no messages.
//
// Source: DefaultMessageStore.getMessage, 5.5.0.
func (s *Store) Get(req *GetRequest, res *GetResult) error {
	res.Release()
	switch {
	case s.closed.Load():
		return ErrClosed
	case s.views == nil:
		return errors.New("get messages: the store was opened without consume queues (buildConsumeQueues=false)")
	case !s.flags.CanRead():
		return fmt.Errorf("get messages: %w", s.flagsError())
	case s.isBatchTopic(req.Topic):
		return fmt.Errorf("get messages of %s: %w", req.Topic, ErrBatchQueue)
	}
	k := cq.Key{Topic: req.Topic, QueueID: req.QueueID}
	round := s.replacing.round.Load()
	ready := s.QueueReady(k) // before its bounds: what is read of a queue that was complete is
	q, ok := s.views.queues.Queue(k)
	if !ok {
		switch {
		case s.closed.Load():
			return ErrClosed
		case !ready || s.replacing.round.Load() != round:
			return fmt.Errorf("get messages of %s: %w", k, ErrRebuilding)
		}
		res.Status, res.NextOffset = GetNoQueue, s.corrected(req.Offset, 0)
		return nil
	}
	b, err := q.Bounds()
	if err != nil {
		return fmt.Errorf("get messages of %s: %w", q.Key(), s.foundDamaged(k, err))
	}
	if s.replacing.round.Load() != round { // the bounds may be those of a database that has just begun
		ready = false
	}
	if !ready && (req.Offset < b.Min || req.Offset >= b.Max) {
		return fmt.Errorf("get messages of %s at offset %d: %w", k, req.Offset, ErrRebuilding)
	}
	res.MinOffset, res.MaxOffset = b.Min, b.Max
	switch at := req.Offset; {
	case b.Max == 0:
		res.Status, res.NextOffset = GetQueueEmpty, s.corrected(at, 0)
	case at < b.Min:
		res.Status, res.NextOffset = GetOffsetTooSmall, s.corrected(at, b.Min)
	case at == b.Max:
		res.Status, res.NextOffset = GetOffsetOverflowOne, at
		s.views.sides.shadowed(k, at, res)
	case at > b.Max:
		res.Status, res.NextOffset = GetOffsetOverflowBadly, s.corrected(at, b.Max)
	default:
		g := res.getterFor(s, req, q)
		err := commitlog.GuardFault(g.run)
		g.done()
		if res.ColdBytes > 0 {
			s.cold.add(req.Group, int64(res.ColdBytes), time.Now())
		}
		if err != nil {
			res.Release()
			res.MinOffset, res.MaxOffset = b.Min, b.Max
			return fmt.Errorf("get messages of %s: %w", q.Key(), s.foundDamaged(k, err))
		}
		s.views.sides.shadowed(k, at, res)
	}
	return nil
}

// ErrBatchQueue is why messages of a topic with batch queues cannot be read.
var ErrBatchQueue = errors.New("batch queues are not supported")

// corrected is the offset that a reader is sent to. A SLAVE may be behind what its reader has seen of the master, and does not send it back.
//
// Source: DefaultMessageStore.nextOffsetCorrection, 5.5.0, without offsetCheckInSlave.
func (s *Store) corrected(asked, next int64) int64 {
	if s.o.BrokerRole == Slave {
		return asked
	}
	return next
}

// closedOr tells a store that is closed from one that fails.
func (s *Store) closedOr(err error) error {
	if s.closed.Load() && (errors.Is(err, cq.ErrClosed) || errors.Is(err, commitlog.ErrClosed)) {
		return ErrClosed
	}
	return err
}

// getter is one scan of a queue. It is a part of its result, so that a Get takes no memory.
type getter struct {
	s     *Store
	o     *Options // as they were when the call began
	req   GetRequest
	res   *GetResult
	run   func() error // scan, made once
	queue cq.Queue
	log   *commitlog.Log

	logEnd  int64
	inMem   int64 // records at or above it are taken to be in memory
	hot     int64 // likewise, for the flow control of cold data
	mapped  int64 // records at or above it are read through the mapping without a question
	counts  bool  // what is read of cold data is counted
	limit   int64 // of units to look at
	scanned int64 // units looked at
	last    int64 // physical offset of the last unit looked at, 0 for none
	judged  int64 // the slot for which the other side was asked last, plus 1
	sameTo  int64 // below it both sides have the same units, from the slot on that was last asked about
	record  message.Record
	other   *[getBatch]cq.Unit // room for units of the other side
}

func (r *GetResult) getterFor(s *Store, req *GetRequest, q cq.Queue) *getter {
	g := r.getter
	if g == nil {
		g = new(getter)
		g.run = g.scan
		r.getter = g
	}
	*g = getter{run: g.run, other: g.other, s: s, o: s.live(), req: *req, res: r, queue: q, log: s.writer.Log()}
	return g
}

// done forgets what is not to be kept, above all places in the log that may be unmapped.
func (g *getter) done() { *g = getter{run: g.run, other: g.other} }

// outside returns the bounds of a queue that does not have what was asked for, nil for another error.
func outside(err error) (r *cq.RangeError) {
	if !errors.As(err, &r) {
		return nil
	}
	return r
}

// scan collects messages until a limit is reached. It stops at the end of a queue's file, as RocketMQ does, unless it has found nothing yet and may go on in the next.
func (g *getter) scan() error {
	o, res := g.o, g.res
	g.logEnd = g.log.EndOffset()
	g.inMem = g.logEnd - g.s.memory.share(o.AccessMessageInMemoryMaxRatio)
	g.hot = g.s.hotFrom(g.logEnd)
	g.mapped = max(g.hot, g.s.openedWith)
	g.counts = o.ColdDataFlowControlEnable && g.req.Group != "" && !coldFree(g.req.Group)
	res.Status, res.NextOffset = GetOffsetFoundNull, g.req.Offset
	g.limit = int64((o.MaxFilterMessageSize + unitBytes - 1) / unitBytes)
	if n := g.req.MaxMessages; n <= math.MaxInt32/unitBytes {
		g.limit = max(g.limit, int64(n))
	}
	g.limit = min(max(g.limit, 1), maxScannedUnits)
	files, filed := g.queue.(cq.Filed)
	for range o.TravelCqFileNumWhenGetMessage {
		end := res.MaxOffset
		if filed {
			end = min(end, files.FileEnd(res.NextOffset))
		}
		if err := g.scanTo(end); err != nil {
			return err
		}
		if len(res.Messages) > 0 || g.scanned >= g.limit || res.NextOffset >= res.MaxOffset {
			break
		}
	}
	g.note()
	return nil
}

// maxScannedUnits bounds how many units a call looks at, however many messages are wanted. Whoever wants more than maxInt32/20 wants whatever there is: RocketMQ, which
// counts their bytes in 32 bits, then looks at as many units as for one.
const maxScannedUnits = 1 << 20

// scanTo looks at the units below slot end.
func (g *getter) scanTo(end int64) error {
	res := g.res
	for full := false; !full && !g.complete() && g.scanned < g.limit && res.NextOffset < end; {
		units := res.units[:min(int64(len(res.units)), g.limit-g.scanned, end-res.NextOffset, int64(g.lookAt()))]
		n, err := g.queue.Read(res.NextOffset, units)
		if err != nil {
			r := outside(err)
			switch {
			case r != nil && r.Max <= res.NextOffset: // expired meanwhile, or cut
				g.scanned = g.limit
				return nil
			case r == nil && !errors.Is(err, cq.ErrCorrupt):
				return err
			}
			n = 0
		}
		if n == 0 {
			again, err := g.hole(err)
			switch {
			case again:
				continue
			case errors.Is(err, ErrRebuilding) && res.NextOffset > g.req.Offset: // what was found before it is not held back
				g.scanned = g.limit
				return nil
			case err != nil:
				return err
			}
			g.scanned++
			res.NextOffset++
			continue
		}
		if full, err = g.take(units[:n]); err != nil {
			return err
		}
	}
	return nil
}

// hole says what becomes of the slot at res.NextOffset, which has no unit: see views.hole. One that has expired meanwhile is stepped over.
func (g *getter) hole(why error) (again bool, err error) {
	if !errors.Is(why, cq.ErrCorrupt) {
		why = nil
	}
	slot := g.res.NextOffset
	if b, err := g.queue.Bounds(); err == nil && slot < b.Min {
		return false, nil
	}
	if g.judged == slot+1 {
		return false, why
	}
	g.judged = slot + 1
	if again, err = g.s.views.hole(g.queue.Key(), slot, why); again || err != nil {
		return again, err
	}
	// The queue may have been filled between the read and the question; what lies there now is what the log has.
	var now [1]cq.Unit
	n, err := g.queue.Read(slot, now[:])
	return err == nil && n > 0, nil
}

// otherwise tells whether the other side of a combined store has another unit in a slot, by the log the right one, and is read from now on.
func (g *getter) otherwise(slot int64) bool {
	d := g.s.views.sides
	if d == nil || g.judged == slot+1 {
		return false
	}
	g.judged = slot + 1
	if d.judge(g.queue.Key(), slot) != decided {
		return false
	}
	d.foundByGet(g.queue.Key(), slot)
	return true
}

// complete tells whether there are as many messages as were wanted. At least one is.
func (g *getter) complete() bool {
	return len(g.res.Messages) > 0 && len(g.res.Messages) >= g.req.MaxMessages
}

// lookAt is how many units are worth reading at once: where no filter passes any over, as many as messages are still to come.
func (g *getter) lookAt() int {
	least := 1
	if g.req.Filter != nil {
		least = 8
	}
	return max(g.req.MaxMessages-len(g.res.Messages), least)
}

// unitBytes is the length of a unit in files, which maxFilterMessageSize counts in.
const unitBytes = 20

// take looks at units of consecutive slots from res.NextOffset on. full tells that the scan is over.
func (g *getter) take(units []cq.Unit) (full bool, err error) {
	res := g.res
	for i := range units {
		u := &units[i]
		if g.full(u) {
			return true, nil
		}
		g.scanned++
		g.last = u.PhyOffset
		slot := res.NextOffset
		res.NextOffset++
		if f := g.req.Filter; f != nil && f.Unit != nil && !f.Unit(u.TagsCode) {
			g.nothing(GetNoMatchedMessage)
			continue
		}
		b, err := g.bytes(u)
		if err != nil {
			var gone *commitlog.RangeError
			if !errors.As(err, &gone) {
				return true, err
			}
			if u.PhyOffset >= gone.Min {
				if g.otherwise(slot) {
					res.NextOffset = slot
					return false, nil
				}
				g.stray(slot, u)
			}
			g.nothing(GetMessageWasRemoving)
			continue
		}
		if !g.ours(b, u) {
			if g.otherwise(slot) {
				res.NextOffset = slot
				return false, nil
			}
			g.stray(slot, u)
			g.nothing(GetMessageWasRemoving)
			continue
		}
		if g.misplaced(slot) {
			switch g.otherSlot(units, i, slot) {
			case slotAgain:
				res.NextOffset = slot
				return false, nil
			case slotPassed:
				g.stray(slot, u)
				g.nothing(GetMessageWasRemoving)
				continue
			}
		}
		if f := g.req.Filter; f != nil && f.Record != nil && !f.Record(&g.record) {
			g.nothing(GetNoMatchedMessage)
			continue
		}
		res.Status = GetFound
		res.Messages = append(res.Messages, Message{Record: b, QueueOffset: slot, PhyOffset: u.PhyOffset})
		res.Bytes += len(b)
	}
	return false, nil
}

// bytes returns the bytes of a unit's record. What was put since the store was opened, and not long ago by the length of the log, is in memory; of all else that is found out.
func (g *getter) bytes(u *cq.Unit) (b []byte, err error) {
	if u.PhyOffset >= g.mapped {
		return g.log.Select(u.PhyOffset, u.Size, &g.res.held)
	}
	b, cold, err := g.log.SelectCold(u.PhyOffset, u.Size, &g.res.held)
	if err == nil && g.counts && u.PhyOffset < g.hot && (cold || !g.o.ColdDataScanEnable) {
		g.res.ColdBytes += int(u.Size)
	}
	return b, err
}

// nothing sets the status of a scan that has found nothing so far.
func (g *getter) nothing(status GetStatus) {
	if len(g.res.Messages) == 0 {
		g.res.Status = status
	}
}

// full tells whether a message more would be too many.
//
// Source: DefaultMessageStore.isTheBatchFull, 5.5.0.
func (g *getter) full(u *cq.Unit) bool {
	n, bytes := len(g.res.Messages), g.res.Bytes
	if n == 0 {
		return false
	}
	if n+1 > g.req.MaxMessages {
		return true
	}
	most := maxPullBytes
	if g.req.MaxBytes > 0 {
		most = min(max(g.req.MaxBytes, minPullBytes), maxPullBytes)
	}
	o := g.o
	count, limit := o.MaxTransferCountOnMessageInDisk, o.MaxTransferBytesOnMessageInDisk
	if u.PhyOffset >= g.inMem {
		count, limit = o.MaxTransferCountOnMessageInMemory, o.MaxTransferBytesOnMessageInMemory
	}
	bytes += int(u.Size)
	return bytes > most || bytes > limit || n >= count
}

// ours tells whether the bytes of a unit are a message of the queue. A log that was mended has other records where some were lost.
func (g *getter) ours(b []byte, u *cq.Unit) bool {
	r := &g.record
	if r.Decode(b, false) != nil || r.TotalSize != u.Size || r.PhyOffset != u.PhyOffset {
		return false
	}
	return Owns(cq.Key{Topic: g.req.Topic, QueueID: g.req.QueueID}, r)
}

// Owns tells whether a record is a message of a queue, as Get takes it: one of that topic and queue id, or, of a light queue, one that names it.
func Owns(k cq.Key, r *message.Record) bool {
	if string(r.Topic) == k.Topic {
		return r.QueueID == k.QueueID
	}
	found := false
	if k.IsLMQ() {
		r.MultiDispatch(func(queue []byte, _ int32, _ int64, _ bool) bool {
			found = string(queue) == k.Topic
			return !found
		})
	}
	return found
}

// note says how far the reader is behind the log.
func (g *getter) note() {
	behind := g.logEnd - g.last
	g.res.BehindBytes = behind
	g.res.SuggestSlave = behind > g.s.memory.share(g.o.AccessMessageInMemoryMaxRatio)
}
