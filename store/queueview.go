package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/failpoint"
	"github.com/tandemq/tandemmq/message"
)

// queueView turns records into consume queue units: one for the record's own queue unless it is prepared or rolled back, and one for each further queue that
// INNER_MULTI_DISPATCH names and the store keeps.
//
// A record that a queue cannot take is no reason to stop the others. Two kinds happen: a slot is taken by another record (5.5.0 leaves such logs, F1): the unit that stands there stays,
// and the new one is counted and logged; or slots before it are missing: units of the queue were lost, and it is built again from the log (see mend).
//
// Source: CommitLogDispatcherBuildConsumeQueue, ConsumeQueue.multiDispatchLmqQueue, 5.5.0.
type queueView struct {
	queues cq.Store
	levels *message.DelayLevels
	light  bool // further queues get units
	// lightOffsets tells that puts give offsets in light queues.
	lightOffsets bool
	// batch tells topics whose queues are batch queues, which this version does not keep: their records are in the log and in no queue.
	batch  func(topic string) bool
	logger *slog.Logger
	onNew  func(batch []cq.Entry) // told what can be read where its queues are read, batch by batch in order; nil: nobody
	// served tells whether what was appended can be read already where the queues of the batch are read, though not everywhere; nil: it cannot.
	served func(batch []cq.Entry) bool
	// onMended is told of queues that were mended: what came for them meanwhile could not be read when onNew was told. nil: nobody.
	onMended func(k cq.Key, b cq.Bounds)

	*queueBatch // what is added to
	batches     batches[queueBatch]

	topics    map[string]string   // one string for each topic
	lastTopic string              // the last one that was asked for
	refused   map[string]struct{} // topics of batch queues that were reported

	freshBelow int64 // records below it are dispatched to a store of queues that had none, from the log's beginning on: a queue may begin at any slot

	mu struct { // between the follower, a mending, and who looks at the queues
		sync.Mutex
		known  map[cq.Key]*queueState
		broken map[cq.Key]error // queues that get nothing until they are mended
		barred map[cq.Key]error // queues whose names the store of queues refuses: what comes for them is passed over
		mended map[cq.Key]int64 // physical offset below which a broken queue has all units, durably
		saved  bool             // saveBroken knows of all of this

		beginsFound int64 // how often a queueState.begins was found out

		lost []LostRange // slots that mending found no record of

		delivered int64      // everything below it is in the queues that are not broken
		last      recordMark // the last record below that
	}
	untold struct { // batches that were appended and of which nobody was told, in order
		sync.Mutex
		batches []*queueBatch
	}
	saveBroken func(mended map[cq.Key]int64) error // writes down which queues are broken, and how far they are mended; nil: nobody asks
	saveAtOnce bool                                // before the next delivery: what is broken is not found out again
	changed    atomic.Bool                         // saveBroken has to be told for another reason than mu.broken
	filling    atomic.Pointer[filler]              // the mending under way
	elsewhere  func(k cq.Key) bool                 // tells queues that others fill meanwhile, so that one that is not there is not lost; nil: there are none
	mending    sync.Mutex                          // one at a time; before mu
	onBroken   func()                              // told that there are broken queues; nil: nobody

	conflicts, gaps, unsupported atomic.Int64
	brokenNow                    atomic.Int64 // len(mu.broken)
}

// queueBatch is what was added since the batch was begun.
type queueBatch struct {
	entries  []cq.Entry
	added    recordMark       // the last record that was added
	unitless map[cq.Key]int64 // what comes next in queues that get offsets and no units
}

// queueState is what is known of a queue.
type queueState struct {
	next     int64 // the slot behind its last record in the log
	end      int64 // physical offset behind that record, 0 where it is not known
	jump     int64 // the slot behind a record that was taken for next, since so many cannot have been lost before it
	began    int64 // the slot, plus 1, of its first record in a log from which all queues are built; 0 otherwise
	begins   int64 // the first slot of a file queue below which the log was found to have no record, plus 1; 0: nobody has looked
	filled   int64 // slots below were built from the log since the store was opened; 0: none
	checked  bool  // the store of queues was seen to have it, up to there
	seen     bool  // next is that of what was dispatched last
	gone     bool  // neither the log nor the store of queues has anything of it any more
	unitless bool  // the store of queues does not have it: a batch queue, or a light queue that is not dispatched to
}

func newQueueView(queues cq.Store, levels *message.DelayLevels, light bool, batch func(topic string) bool, logger *slog.Logger) *queueView {
	v := &queueView{
		queues: queues, levels: levels, light: light, batch: batch, logger: logger,
		queueBatch: new(queueBatch), batches: newBatches[queueBatch](), topics: make(map[string]string), refused: make(map[string]struct{}),
	}
	v.mu.known = make(map[cq.Key]*queueState)
	v.mu.broken = make(map[cq.Key]error)
	v.mu.barred = make(map[cq.Key]error)
	v.mu.mended = make(map[cq.Key]int64)
	v.mu.saved = true
	v.mu.last.phy, v.added.phy = -1, -1
	return v
}

func (v *queueView) name() string { return string(v.queues.Kind()) + " queues" }

// add collects the units of a record.
func (v *queueView) add(r *message.Record) {
	v.added = recordMark{phy: r.PhyOffset, ms: r.StoreTimestampMs}
	if !r.OwesUnit() {
		return
	}
	topic := v.topic(r.Topic)
	if r.SysFlag&message.FlagInnerBatch != 0 || v.batch(topic) {
		v.refuse(topic, r)
		return
	}
	slot := r.QueueOffset
	if slot >= 0 && !validSlot(slot, r.PhyOffset) {
		v.logger.Error("a record has a queue offset that its queue cannot have come to; it is taken for the next of its queue", slog.String("topic", topic),
			slog.Int("queueId", int(r.QueueID)), slog.Int64("queueOffset", slot), slog.Int64("phyOffset", r.PhyOffset))
		slot = unplaced
	}
	if slot < 0 && slot != unplaced || r.QueueOffset < 0 || r.QueueID < 0 || r.TotalSize <= 0 {
		v.unsupported.Add(1)
		v.logger.Error("no queue can have the record's place", slog.String("topic", topic), slog.Int("queueId", int(r.QueueID)),
			slog.Int64("queueOffset", r.QueueOffset), slog.Int64("phyOffset", r.PhyOffset))
		return
	}
	u := cq.Unit{PhyOffset: r.PhyOffset, Size: r.TotalSize, TagsCode: r.TagsCode(v.levels), StoreTimestampMs: r.StoreTimestampMs}
	v.entries = append(v.entries, cq.Entry{Key: cq.Key{Topic: topic, QueueID: r.QueueID}, QueueOffset: slot, Unit: u})
	if !v.light && !v.lightOffsets {
		return
	}
	r.MultiDispatch(func(queue []byte, queueID int32, queueOffset int64, ok bool) bool {
		switch {
		case ok && !v.light && validSlot(queueOffset, r.PhyOffset): // the put gave it an offset, and no unit follows
			v.noteUnitless(cq.Key{Topic: v.topic(queue), QueueID: queueID}, after(queueOffset, 1))
		case !ok || !validSlot(queueOffset, r.PhyOffset) || !bytes.HasPrefix(queue, []byte(cq.LMQPrefix)): // no offset was assigned to it (W4)
			v.unsupported.Add(1)
		default:
			v.entries = append(v.entries, cq.Entry{Key: cq.Key{Topic: v.topic(queue), QueueID: queueID}, QueueOffset: queueOffset, Unit: u})
		}
		return true
	})
}

// maxSlot is the last slot that a unit is put into: its place in a run of files, in bytes, has to fit 63 bits.
const maxSlot = 1<<55 - 1

// unplaced stands for the slot of a record whose own cannot be.
const unplaced = -1

// slotsBeforeLog is how many slots a queue may have had before its log began: of a log that was put in the place of another.
const slotsBeforeLog = 1 << 20

// validSlot tells whether a queue can have a unit there of a record at phy: each slot below took a record before it. No checksum covers the offsets in a record, and one that is
// wrong must not make the queue begin anew there. 5.5.0 can write negative offsets (W3).
func validSlot(slot, phy int64) bool {
	return slot >= 0 && slot <= maxSlot && slot <= phy/message.MinRecordSize+slotsBeforeLog
}

// refuse counts a record of a batch queue, notes what comes next there, and names the topic once.
func (v *queueView) refuse(topic string, r *message.Record) {
	v.unsupported.Add(1)
	n := int64(1)
	if r.SysFlag&message.FlagInnerBatch != 0 {
		n = max(n, int64(r.DispatchRequest(nil).BatchSize))
	}
	v.noteUnitless(cq.Key{Topic: topic, QueueID: r.QueueID}, after(r.QueueOffset, n))
	if _, known := v.refused[topic]; known {
		return
	}
	v.refused[topic] = struct{}{}
	v.logger.Error("messages of a topic with batch queues are in the log and in no queue: batch queues are not supported", slog.String("topic", topic), slog.Int64("phyOffset", r.PhyOffset))
}

func (b *queueBatch) noteUnitless(k cq.Key, next int64) {
	if b.unitless == nil {
		b.unitless = make(map[cq.Key]int64)
	}
	b.unitless[k] = next
}

// noteUnitlessLocked takes over what add found out about queues without units.
func (v *queueView) noteUnitlessLocked(b *queueBatch) {
	for k, next := range b.unitless {
		v.mu.known[k] = &queueState{next: next, unitless: true}
	}
	clear(b.unitless)
}

// maxTopicStrings bounds the table of topic names; a store with more just makes some of them twice.
const maxTopicStrings = 1 << 20

// topic returns the name as a string, the same one for the same bytes.
func (v *queueView) topic(b []byte) string {
	if string(b) == v.lastTopic {
		return v.lastTopic
	}
	s, ok := v.topics[string(b)]
	if !ok {
		if len(v.topics) >= maxTopicStrings {
			clear(v.topics)
		}
		s = string(b)
		v.topics[s] = s
	}
	v.lastTopic = s
	return s
}

// turn returns what was added.
func (v *queueView) turn() batch {
	b := v.queueBatch
	v.queueBatch = v.batches.get()
	v.added = b.added
	return b
}

// late tells whether units are readable later than they are accepted: where a RocksDB writes them.
func (v *queueView) late() bool { return v.queues.Kind() != cq.KindFile }

// deliver appends what was added, but for what belongs to broken queues: a mending reads that off the log, up to what was delivered. It does not wait until it is
// readable: where there are files beside a slow RocksDB, they go on until RocksDB accepts nothing more.
func (v *queueView) deliver(ctx context.Context, added batch, end int64) error {
	b := added.(*queueBatch)
	if err := v.append(ctx, b, end); err != nil {
		return err
	}
	failpoint.Hit(failpoint.QueuesAppended)
	v.tell(b)
	return nil
}

func (v *queueView) append(ctx context.Context, b *queueBatch, end int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.changed.Load() {
		if err := v.saveBrokenLocked(); err != nil {
			return err
		}
	}
	v.noteUnitlessLocked(b)
	b.entries = v.lookLocked(b.entries)
	batch := v.wholeLocked(b.entries)
	for len(batch) > 0 {
		err := v.queues.Append(ctx, batch)
		if err == nil {
			break
		}
		at, ok := v.blame(err, batch)
		if !ok {
			return err // all of it is delivered again: what was stored is repeated, which changes nothing
		}
		batch = v.wholeLocked(batch[at+1:])
	}
	v.mu.delivered, v.mu.last = end, b.added
	if v.saveAtOnce && !v.mu.saved || v.changed.Load() {
		if err := v.saveBrokenLocked(); err != nil {
			return err
		}
	}
	tellNoted(v.queues)
	return nil
}

// tellNoted tells a store of queues that what it has refused is noted, or dealt with; see cq.Noter.
func tellNoted(queues cq.Store) {
	if n, ok := queues.(cq.Noter); ok {
		n.Noted()
	}
}

// tell tells of a batch that was appended, or keeps it for who settles.
func (v *queueView) tell(b *queueBatch) {
	v.untold.Lock()
	defer v.untold.Unlock()
	if v.onNew != nil && len(b.entries) > 0 {
		if v.late() && (len(v.untold.batches) > 0 || v.served == nil || !v.served(b.entries)) {
			v.untold.batches = append(v.untold.batches, b)
			return
		}
		v.onNew(b.entries)
	}
	v.takeBack(b)
}

// takeBack takes a batch that is done with.
func (v *queueView) takeBack(b *queueBatch) {
	clear(b.entries)
	b.entries = b.entries[:0]
	v.batches.put(b)
}

// settle waits until what was delivered can be read, wherever it is read from, and tells of it.
func (v *queueView) settle(ctx context.Context) error {
	v.untold.Lock()
	n := len(v.untold.batches) // what comes later may be accepted later
	v.untold.Unlock()
	if err := v.queues.AwaitReadable(ctx); err != nil || n == 0 {
		return err
	}
	v.untold.Lock()
	defer v.untold.Unlock()
	for _, b := range v.untold.batches[:n] {
		v.onNew(b.entries)
		v.takeBack(b)
	}
	v.untold.batches = slices.Delete(v.untold.batches, 0, n)
	return nil
}

// errLost is why a queue is broken that is not there at all.
var errLost = errors.New("the queue is missing and does not begin here")

// lookLocked notes what comes next in each queue, and looks at a queue the first time something is put into it: one that is missing, while this is not
// its first message, has been lost as a whole, or its beginning has expired. The store of queues would let it begin here.
//
// A record whose own offset is impossible is the next of its queue, if the one before it was dispatched by this process too; otherwise it is left out.
func (v *queueView) lookLocked(batch []cq.Entry) []cq.Entry {
	var recent recentQueues
	kept := batch[:0]
	for i := range batch {
		e := &batch[i]
		q := recent.stateLocked(v, e.Key)
		if e.QueueOffset == unplaced {
			if !q.seen {
				v.unsupported.Add(1)
				continue
			}
			e.QueueOffset = q.next
		}
		q.seen = true
		if e.QueueOffset < q.began { // its first record said a wrong number, or this one does
			v.breakLocked(e.Key, errBeginning)
			q.began = 0
		}
		if !q.checked && (v.elsewhere == nil || !v.elsewhere(e.Key)) {
			if _, ok := v.queues.Queue(e.Key); !ok && !v.barLocked(e.Key, checkName(v.queues, e.Key)) && e.QueueOffset > 0 {
				if e.Unit.PhyOffset >= v.freshBelow {
					v.breakLocked(e.Key, errLost)
				} else {
					q.began = e.QueueOffset + 1
				}
			}
			q.checked = true
		}
		if len(v.mu.barred) > 0 && v.mu.barred[e.Key] != nil {
			v.unsupported.Add(1)
		}
		q.next, q.end = q.slotOf(e)+1, e.Unit.End()
		q.gone = false
		if len(kept) == i {
			kept = batch[:i+1]
		} else {
			kept = append(kept, *e)
		}
	}
	return kept
}

// recentQueues are the states of the queues of one batch, a few of which have most of it as a rule: looking into the map of all queues takes as long as
// appending the unit. It must not outlive the lock.
type recentQueues [64]struct {
	key cq.Key
	q   *queueState
}

// stateLocked returns the state of a queue, making it if there is none.
func (r *recentQueues) stateLocked(v *queueView, k cq.Key) *queueState {
	name := k.Topic
	hash := uint32(k.QueueID) + uint32(len(name))*7
	if len(name) > 0 {
		hash += uint32(name[len(name)-1]) * 13
	}
	at := &r[hash%uint32(len(r))]
	if at.q == nil || at.key != k {
		at.key, at.q = k, v.mu.known[k]
		if at.q == nil {
			at.q = new(queueState)
			v.mu.known[k] = at.q
		}
	}
	return at.q
}

// learn notes what the log says of the queues of which a record was added, and delivers nothing.
func (v *queueView) learn() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.noteUnitlessLocked(v.queueBatch)
	v.mu.last = v.added
	var recent recentQueues
	for i := range v.entries {
		e := &v.entries[i]
		q := recent.stateLocked(v, e.Key)
		if e.QueueOffset != unplaced || q.next > 0 {
			q.next, q.end = q.slotOf(e)+1, e.Unit.End()
		}
	}
	v.entries = v.entries[:0]
}

// slotOf returns the slot that a record counts for: what it says, unless that is impossible, or further on than slots can have stayed empty since the one before it. That one is taken for
// the next, as by seats, unless it goes on from another such.
func (q *queueState) slotOf(e *cq.Entry) int64 {
	slot := e.QueueOffset
	switch {
	case slot == unplaced:
		return q.next
	case q.end > 0 && e.Unit.PhyOffset >= q.end && slot > q.next && slot != q.jump && !lostFits(slot-q.next, e.Unit.PhyOffset-q.end):
		q.jump = slot + 1
		return q.next
	}
	return slot
}

// loseLocked keeps what a filler found to be lost.
func (v *queueView) loseLocked(f *filler) {
	for _, l := range f.lost {
		if !slices.Contains(v.mu.lost, l) && len(v.mu.lost) < maxLostRanges {
			v.mu.lost = append(v.mu.lost, l)
		}
	}
}

// maxLostRanges bounds what is kept of them; all are logged.
const maxLostRanges = 1000

// lostRanges returns slots that the log has no record of, as far as queues were built again by this process.
func (v *queueView) lostRanges() []LostRange {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.mu.lost)
}

// verify compares the queues with what the log says of them, one by one beside dispatch, and has those mended that are short.
func (v *queueView) verify(ctx context.Context) {
	v.mu.Lock()
	keys := slices.Collect(maps.Keys(v.mu.known))
	v.mu.Unlock()
	for _, k := range keys {
		if ctx.Err() != nil {
			return
		}
		v.verifyQueue(k)
	}
}

func (v *queueView) verifyQueue(k cq.Key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	q := v.mu.known[k]
	if _, broken := v.mu.broken[k]; broken || q == nil || q.unitless || q.gone || v.mu.barred[k] != nil {
		return
	}
	queue, ok := v.queues.Queue(k)
	if !ok {
		if !v.barLocked(k, checkName(v.queues, k)) {
			v.breakLocked(k, errLost)
		}
		return
	}
	b, err := queue.Bounds()
	switch {
	case err != nil:
		v.breakLocked(k, err)
	case b.Max < q.next:
		v.breakLocked(k, &cq.GapError{Key: k, Want: q.next, Max: b.Max, PhyOffset: b.MaxPhyOffset})
	}
	q.checked = true
}

// batchQueues returns how many batch queues the log has records of.
func (v *queueView) batchQueues() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.batchQueuesLocked()
}

func (v *queueView) batchQueuesLocked() (n int) {
	for k, q := range v.mu.known {
		if q.unitless && !k.IsLMQ() {
			n++
		}
	}
	return n
}

// offsetsLocked returns what comes next in each queue.
func (v *queueView) offsetsLocked() map[cq.Key]queueState {
	m := make(map[cq.Key]queueState, len(v.mu.known))
	for k, q := range v.mu.known {
		m[k] = queueState{next: q.next, begins: q.begins, unitless: q.unitless, gone: q.gone}
	}
	return m
}

// breakLocked keeps everything from a queue until it is mended.
func (v *queueView) breakLocked(k cq.Key, err error) {
	if _, ok := v.mu.broken[k]; ok {
		return
	}
	v.mu.broken[k] = err
	v.mu.saved = false
	v.brokenNow.Store(int64(len(v.mu.broken)))
	v.logger.Error("a queue lacks units; it is built again from the log", slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)), slog.Any("err", err))
	if v.onBroken != nil {
		v.onBroken()
	}
}

// saveBrokenLocked writes down which queues are broken, if that has changed.
func (v *queueView) saveBrokenLocked() error {
	if changed := v.changed.Swap(false); v.mu.saved && !changed || v.saveBroken == nil {
		return nil
	}
	mended := make(map[cq.Key]int64, len(v.mu.broken))
	for k := range v.mu.broken {
		mended[k] = v.mu.mended[k]
	}
	if err := v.saveBroken(mended); err != nil {
		v.mu.saved = false
		v.changed.Store(true)
		return fmt.Errorf("note broken queues: %w", err)
	}
	v.mu.saved = true
	return nil
}

// saveChanged is saveBrokenLocked where that has to be done at once.
func (v *queueView) saveChanged() error {
	if !v.changed.Load() {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.saveBrokenLocked()
}

// wholeLocked leaves out what belongs to broken queues, and to those whose names are refused. It keeps batch as it is.
func (v *queueView) wholeLocked(batch []cq.Entry) []cq.Entry {
	if len(v.mu.broken) == 0 && len(v.mu.barred) == 0 {
		return batch
	}
	kept := make([]cq.Entry, 0, len(batch))
	for i := range batch {
		k := batch[i].Key
		if v.mu.broken[k] == nil && v.mu.barred[k] == nil {
			kept = append(kept, batch[i])
		}
	}
	return kept
}

// checkName answers why a store of queues refuses the name of a queue, nil when it does not, or cannot tell.
func checkName(queues cq.Store, k cq.Key) error {
	c, ok := queues.(cq.NameChecker)
	if !ok {
		return nil
	}
	return c.CheckName(k)
}

// barLocked has everything passed over that comes for a queue whose name the store of queues refuses, until the store is opened again: err says why, and
// with nil nothing is done and it is false.
func (v *queueView) barLocked(k cq.Key, err error) bool {
	if err == nil {
		return false
	}
	if v.mu.barred[k] == nil {
		v.mu.barred[k] = err
		v.logger.Error("messages of a queue are in the log and in no queue: its name is refused", slog.String("topic", k.Topic), slog.Int("queueId", int(k.QueueID)), slog.Any("err", err))
	}
	return true
}

// blame finds the entry that an error of Append is about, when it is about one entry: it is the first that is not stored. A queue with a gap, or with damage, is broken from then on.
func (v *queueView) blame(err error, batch []cq.Entry) (at int, ok bool) {
	var conflict *cq.ConflictError
	var gap *cq.GapError
	var entry *cq.EntryError
	var name *cq.QueueError
	var damaged *cq.DamagedError
	switch {
	case errors.As(err, &name):
		v.barLocked(name.Key, err)
		at = -1
		for i := range batch {
			if batch[i].Key != name.Key {
				continue
			}
			v.unsupported.Add(1)
			if at < 0 {
				at = i
			}
		}
		return at, at >= 0
	case errors.As(err, &damaged) && len(damaged.Keys) == 1:
		k := damaged.Keys[0]
		v.breakLocked(k, fmt.Errorf("%w: %w", errDamaged, err))
		at = slices.IndexFunc(batch, func(e cq.Entry) bool { return e.Key == k })
		return at, at >= 0
	case errors.As(err, &entry):
		v.unsupported.Add(1)
		v.logger.Error("no queue can have the record's place", slog.String("topic", entry.Key.Topic), slog.Int("queueId", int(entry.Key.QueueID)),
			slog.Int64("queueOffset", entry.QueueOffset), slog.Int64("phyOffset", entry.PhyOffset), slog.Any("err", err))
		return find(batch, entry.Key, entry.QueueOffset, entry.PhyOffset)
	case errors.As(err, &conflict):
		v.conflicts.Add(1)
		v.logger.Error("a slot is taken by another record; its unit stays", slog.String("topic", conflict.Key.Topic), slog.Int("queueId", int(conflict.Key.QueueID)),
			slog.Int64("queueOffset", conflict.QueueOffset), slog.Int64("phyOffset", conflict.New.PhyOffset), slog.Any("err", err))
		return find(batch, conflict.Key, conflict.QueueOffset, conflict.New.PhyOffset)
	case errors.As(err, &gap):
		v.gaps.Add(1)
		v.breakLocked(gap.Key, err)
		return find(batch, gap.Key, gap.Want, gap.PhyOffset)
	}
	return 0, false
}

func find(batch []cq.Entry, k cq.Key, slot, phy int64) (at int, ok bool) {
	for i := range batch {
		if e := &batch[i]; e.QueueOffset == slot && e.Unit.PhyOffset == phy && e.Key == k {
			return i, true
		}
	}
	return 0, false
}
