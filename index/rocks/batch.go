package rocks

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/message"
)

// Batch is the rows of some messages, in physical order. Rows are made as messages are added, which any one goroutine may do while another appends a batch before it. The zero
// value is empty.
type Batch struct {
	messages []batched
	keys     []byte // of the rows: length u32, key
}

// batched is a message and where its rows end in keys.
type batched struct {
	phy, storeMs int64
	size         int32
	end          int
}

// rowLength is what stands before the key of a row in a batch.
const rowLength = 4

// Add adds a message and keeps no reference to it. Rolled back transactions have no rows, nor have messages without a topic or a store time: one row for each word of KEYS however often it
// comes, one for TAGS, one for the unique key.
//
// Source: IndexRocksDBStore.buildIndex, 5.5.0.
func (b *Batch) Add(r *message.DispatchRequest) {
	if r.SysFlag&message.FlagTransactionMask != message.TransactionRollback && len(r.Topic) > 0 && r.StoreTimestampMs > 0 && r.PhyOffset >= 0 {
		b.addRows(r)
	}
	b.messages = append(b.messages, batched{r.PhyOffset, r.StoreTimestampMs, r.Size, len(b.keys)})
}

func (b *Batch) addRows(r *message.DispatchRequest) {
	uniq := r.UniqKey
	if len(uniq) == 0 || len(uniq) > maxUniqBytes {
		uniq = appendHex(nil, uint64(r.PhyOffset))
	}
	var seen [][]byte
	for word := range bytes.SplitSeq(r.Keys, []byte(" ")) {
		if len(word) == 0 || len(seen) < maxRepeated && slices.ContainsFunc(seen, func(s []byte) bool { return bytes.Equal(s, word) }) {
			continue
		}
		seen = append(seen, word)
		b.row(r, index.TypeKey, word, uniq)
	}
	if len(r.Tags) > 0 {
		b.row(r, index.TypeTag, r.Tags, uniq)
	}
	if len(r.UniqKey) > 0 {
		b.row(r, index.TypeUniqKey, r.UniqKey, nil)
	}
}

// maxRepeated is among how many words of a message a repeated one is looked for. One that is not found out is the same row once more, which changes nothing.
const maxRepeated = 64

// row adds a row; that of a unique key has no further one.
func (b *Batch) row(r *message.DispatchRequest, t index.Type, key, uniq []byte) {
	at := len(b.keys)
	b.keys = append(b.keys, 0, 0, 0, 0)
	b.keys = appendPrefix(b.keys, hourOf(r.StoreTimestampMs), r.Topic, t, key)
	if t != index.TypeUniqKey {
		b.keys = append(append(b.keys, uniq...), separator)
	}
	b.keys = binary.BigEndian.AppendUint64(b.keys, uint64(r.PhyOffset))
	binary.BigEndian.PutUint32(b.keys[at:], uint32(len(b.keys)-at-rowLength))
}

// appendHex appends 16 digits.
func appendHex(dst []byte, n uint64) []byte {
	const digits = "0123456789ABCDEF"
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, digits[n>>shift&15])
	}
	return dst
}

// eachKey calls fn with the keys of the rows from one place in keys to another.
func (b *Batch) eachKey(from, to int, fn func(key []byte)) {
	for rows := b.keys[from:to]; len(rows) > 0; {
		n := rowLength + int(binary.BigEndian.Uint32(rows))
		fn(rows[rowLength:n])
		rows = rows[n:]
	}
}

// Len returns how many messages are in the batch.
func (b *Batch) Len() int { return len(b.messages) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.messages, b.keys = b.messages[:0], b.keys[:0] }

// Keys appends the keys of the rows of a message.
func Keys(dst [][]byte, r *message.DispatchRequest) [][]byte {
	var b Batch
	b.Add(r)
	b.eachKey(0, len(b.keys), func(key []byte) { dst = append(dst, key) })
	return dst
}
