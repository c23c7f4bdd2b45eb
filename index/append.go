package index

import (
	"fmt"
	"log/slog"
	"math"

	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// maxDuplicateSteps bounds how many entries of its own message a key is compared with in one slot. A message may have thousands of keys,
// made to share a slot; a repeated entry beyond this does no harm, because a query answers it once.
const maxDuplicateSteps = 64

// Batch is what the index is told of some messages, in physical order: their places and the hashes of their keys. Hashing is done as they are added, which any one
// goroutine may do while another appends a batch before it. The zero value is empty.
type Batch struct {
	messages []batched
	hashes   []int32

	topic     []byte // the last one hashed
	topicHash int32
}

// batched is a message and where its hashes end.
type batched struct {
	phy, storeMs int64
	size         int32
	hashes       int32
}

// Add adds a message and keeps no reference to it. Rolled back transactions have no entries.
func (b *Batch) Add(r *message.DispatchRequest) {
	if r.SysFlag&message.FlagTransactionMask != message.TransactionRollback {
		if b.topic == nil || string(b.topic) != string(r.Topic) {
			b.topic = append(b.topic[:0], r.Topic...)
			b.topicHash = hashTopic(r.Topic)
		}
		b.hashes = appendKeys(b.hashes, r, b.topicHash)
	}
	b.messages = append(b.messages, batched{r.PhyOffset, r.StoreTimestampMs, r.Size, int32(len(b.hashes))})
}

// Len returns how many messages are in the batch.
func (b *Batch) Len() int { return len(b.messages) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.messages, b.hashes = b.messages[:0], b.hashes[:0] }

// Append adds the keys of a batch, which is in physical order, and keeps no reference to it; see AppendBatch.
func (x *Index) Append(batch []message.DispatchRequest) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.own.Reset()
	for i := range batch {
		x.own.Add(&batch[i])
	}
	return x.appendLocked(&x.own)
}

// AppendBatch adds the keys of a batch, and keeps no reference to it. It may be fed again what it was fed before: of each message every hash is added once.
//
//	PhyOffset <  that of the last message that has entries   nothing is added
//	PhyOffset == it                                          the keys whose hashes are not there yet are added
//	PhyOffset >  it                                          every key is added, a hash that occurs twice once
//
// When it returns nil all is visible to queries; durable after Flush.
//
// On error the messages before the failing one are in the index, it may be in part, those after it are not; the same batch can be
// tried again. Errors: ErrClosed, ErrReadOnly; a full disk, which matches syscall.ENOSPC or mmap.ErrFault; ErrFailed, which sticks.
//
// Source: IndexService.buildIndex, IndexFile.putKey, 5.5.0, where the last message is added again by a repeated dispatch, and a
// word repeated in KEYS as well.
func (x *Index) AppendBatch(b *Batch) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	return x.appendLocked(b)
}

func (x *Index) appendLocked(b *Batch) error {
	if err := x.writable(); err != nil {
		return err
	}
	return mmap.GuardFault(func() error { return x.add(b) })
}

// writable answers what keeps the index from being changed. Caller holds writing.
func (x *Index) writable() error {
	switch {
	case x.gone:
		return ErrClosed
	case x.o.ReadOnly:
		return ErrReadOnly
	}
	return x.failed
}

// fail makes an error stick. Caller holds writing.
func (x *Index) fail(err error) error {
	if x.failed == nil {
		x.failed = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return x.failed
}

// aheadKeys is how many slots are looked at before entries are added. They lie anywhere in 20 MB, so that each would be waited for; looked at one after the
// other, they arrive together (twice as many entries a second).
const aheadKeys = 256

// add adds the keys of a batch. Caller holds writing.
func (x *Index) add(b *Batch) error {
	newest, end := x.last.phy, x.indexed.Load()
	at, seen := int32(0), int32(0) // hashes of the messages so far, and of those whose slots were looked at
	for i := range b.messages {
		m := &b.messages[i]
		from := at
		at = m.hashes
		if m.phy < newest {
			x.skipped.Add(1)
			continue
		}
		newest, end = m.phy, max(end, m.phy+int64(m.size))
		for _, hash := range b.hashes[from:at] {
			if from++; from > seen {
				seen = min(from+aheadKeys, int32(len(b.hashes)))
				x.lookAhead(b.hashes[from-1 : seen])
			}
			if err := x.addKey(hash, m.phy, m.storeMs); err != nil {
				return err
			}
		}
	}
	x.indexed.Store(end)
	return nil
}

// lookAhead brings the slots of the hashes into the cache.
func (x *Index) lookAhead(hashes []int32) {
	if n := len(x.files); n > 0 {
		f := x.files[n-1]
		for _, hash := range hashes {
			f.slot(hash % f.slots)
		}
	}
}

// addKey adds an entry of a message unless it is there. Caller holds writing.
func (x *Index) addKey(hash int32, phy, storeMs int64) error {
	if phy == x.last.phy && x.has(hash) {
		x.last.places[len(x.last.places)-1].f.correctEnd(storeMs)
		return nil
	}
	f, err := x.active()
	if err != nil {
		return err
	}
	if phy != x.last.phy {
		x.last.phy, x.last.places = phy, x.last.places[:0]
	}
	if n := len(x.last.places); n == 0 || x.last.places[n-1].f != f {
		x.last.places = append(x.last.places, place{f, f.head.count})
	}
	return f.put(hash, phy, storeMs)
}

// has tells whether the last message has an entry of that hash.
func (x *Index) has(hash int32) bool {
	for i := range x.last.places {
		p := &x.last.places[i]
		at := p.f.slot(hash % p.f.slots)
		for range maxDuplicateSteps {
			if at < p.first || at >= p.f.head.count {
				break
			}
			e := p.f.entry(at)
			if e.hash == hash {
				return true
			}
			if e.prev >= at {
				break
			}
			at = e.prev
		}
	}
	return false
}

// put adds an entry to a file that is not full. Queries beside it rely on the order of the stores: the entry, what is needed to read
// it, the slot that leads to it. Only the slot may fault for a full disk, since blocks for all else are reserved; nothing has been
// added then.
func (f *file) put(hash int32, phy, storeMs int64) error {
	n := f.head.count
	if f.entryAt(n+1) > f.reserved {
		if err := f.reserve(f.entryAt(n), f.fileBytes()); err != nil {
			return err
		}
	}
	slot := hash % f.slots
	prev := f.slot(slot)
	if prev <= 0 || prev >= n {
		prev = 0
	}
	h := f.head
	if n == 1 {
		h.beginMs, h.beginPhy = storeMs, phy
		f.beginMs.Store(storeMs)
	}
	if prev == 0 {
		h.used++
	}
	h.count, h.endMs, h.endPhy = n+1, storeMs, phy
	f.setEntry(n, entry{hash: hash, phy: phy, diff: timeDiff(h.beginMs, storeMs), prev: prev})
	f.count.Store(h.count)
	f.setSlot(slot, n)
	f.head, f.dirty = h, true
	f.setHeader(&h)
	f.endMs.Store(storeMs)
	f.endPhy.Store(phy)
	return nil
}

// correctEnd sets the time of the last entry again, which cut left inexact.
func (f *file) correctEnd(storeMs int64) {
	if f.head.endMs == storeMs {
		return
	}
	f.head.endMs, f.dirty = storeMs, true
	f.setHeader(&f.head)
	f.endMs.Store(storeMs)
}

// timeDiff is the time of an entry as stored. RocketMQ reckons that of the first entry from the end of the file before, which makes
// it late; it is 0 here.
//
// Source: IndexFile.putKey, 5.5.0.
func timeDiff(beginMs, storeMs int64) int32 {
	return int32(min(max((storeMs-beginMs)/1000, 0), math.MaxInt32))
}

// active returns the file to add to, and makes one when the last is full. Caller holds writing.
//
// Source: IndexService.getAndCreateLastIndexFile, 5.5.0.
func (x *Index) active() (*file, error) {
	if n := len(x.files); n > 0 && !x.files[n-1].full() {
		return x.files[n-1], nil
	}
	return x.roll()
}

func (x *Index) roll() (*file, error) {
	var after *file
	number := nameAt(x.o.Now())
	if n := len(x.files); n > 0 {
		after = x.files[n-1]
		number = max(number, after.number+1) // the clock may have been set back, or two files filled in one millisecond
		if err := x.leave(n - 1); err != nil {
			return nil, err
		}
	}
	f, err := createFile(x.o.FS, x.dir, number, x.layout, after)
	if err != nil {
		return nil, err
	}
	x.life.Lock()
	x.files = append(x.files, f)
	x.life.Unlock()
	x.o.Logger.Info("index file made", slog.String("file", f.path))
	return f, nil
}

// leave prepares for a successor of the last file, at i. Flush makes it durable later, and until then the checkpoint does not vouch for it;
// only two cases cannot wait: an end that the checkpoint vouches for already (the clock was set back, or the log cut), and a
// file before it that still waits, lest there be many.
func (x *Index) leave(i int) error {
	if i > 0 && !x.files[i-1].synced {
		if err := x.sync(x.files[i-1]); err != nil {
			return err
		}
	}
	if f := x.files[i]; !f.synced && f.head.endMs <= x.flushedTo {
		return x.sync(f)
	}
	return nil
}

// sync makes a full file durable. Caller holds writing.
func (x *Index) sync(f *file) error {
	if err := f.m.Flush(0, f.fileBytes()); err != nil {
		return x.fail(err)
	}
	f.synced, f.dirty = true, false
	return nil
}
