package remoting

import (
	"bytes"
	"sync"
	"sync/atomic"
)

const (
	// smallChunk and largeChunk are the sizes of pooled memory: what one read can take in. A connection begins with small ones.
	smallChunk = 8 << 10
	largeChunk = 64 << 10
	// unreservedBytes is how much of a large frame must have come before the rest of it is reserved from the budget, so that a length
	// alone costs nothing.
	unreservedBytes = 256 << 10
)

// chunk is memory that frames were read into. The reader and each unanswered request with a body hold it; whoever lets go last gives it
// back. A request that is never answered leaves its chunk to the garbage collector.
type chunk struct {
	buf      []byte
	holders  atomic.Int32
	reserved int64   // bytes of budget
	budget   *budget // nil where none are reserved
}

var (
	smallChunks = sync.Pool{New: func() any { return &chunk{buf: make([]byte, smallChunk)} }}
	largeChunks = sync.Pool{New: func() any { return &chunk{buf: make([]byte, largeChunk)} }}
)

// newChunk gives a chunk of at least size bytes with one holder.
func newChunk(size int) *chunk {
	var ch *chunk
	switch {
	case size <= smallChunk:
		ch = smallChunks.Get().(*chunk)
	case size <= largeChunk:
		ch = largeChunks.Get().(*chunk)
	default:
		ch = &chunk{buf: make([]byte, size)}
	}
	ch.holders.Store(1)
	return ch
}

func (ch *chunk) hold() { ch.holders.Add(1) }

func (ch *chunk) release() {
	if ch.holders.Add(-1) > 0 {
		return
	}
	if ch.budget != nil {
		ch.budget.used.Add(-ch.reserved)
		ch.budget, ch.reserved = nil, 0
	}
	switch len(ch.buf) {
	case smallChunk:
		smallChunks.Put(ch)
	case largeChunk:
		largeChunks.Put(ch)
	}
}

// budget bounds a sum of bytes.
type budget struct {
	used  atomic.Int64
	limit int64
}

// take adds n if that stays within the limit, or if nothing else is taken: what is larger than the limit goes alone.
func (b *budget) take(n int64) bool {
	for {
		used := b.used.Load()
		if used > 0 && used+n > b.limit {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (b *budget) full() bool { return b.used.Load() > b.limit }

// poison overwrites memory that a handler must not look at any more. It does so in race builds, for tests to notice.
func poison(b []byte) {
	for poisonReleased && len(b) > 0 {
		b = b[copy(b, poisoned):]
	}
}

var poisoned = bytes.Repeat([]byte{0xDB}, 4096)
