//go:build cgo

package rocks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// maxRound is how many of an hour's hits are collected, the newest of them, before accept is asked about them.
const maxRound = 256

// Query finds messages by key, newest first (I15). What is found are candidates, because keys are not quoted; their times lie in the bounds. accept decides, and only what it takes is counted;
// nil takes everything. A message is answered once, however many rows it has. Any type but TypeTag finds words of KEYS and unique keys, as in index files.
//
// The search goes from hour to hour, newest first, and within an hour by physical offset. Hours without a row of anybody cost nothing; of others the rows of the key are read, all of them, since they are
// not sorted by time. It ends whatever the bytes are: each step is a row below the one before.
//
// Answer.Files is how many hours were looked at, Steps how many rows and how many times a place was looked up, BadLinks how many rows were none.
//
// Source: the query of the RocksDB index, 5.5.0, which answers the oldest messages first, and those of keys that merely begin alike.
func (x *Index) Query(q index.Query, accept func(phyOffset int64) bool) (index.Answer, error) {
	w := walk{x: x, q: &q, accept: accept, want: min(q.Max, x.o.MaxResults), steps: q.MaxSteps, below: math.MaxInt64}
	phy, ms := x.Last()
	if phy >= 0 {
		w.a.LastPhyOffset, w.a.LastMs = phy, ms
	}
	if w.steps <= 0 {
		w.steps = math.MaxInt64
	}
	if q.BelowPhyOffset > 0 {
		w.below = q.BelowPhyOffset
	}
	w.types = []index.Type{index.TypeKey, index.TypeUniqKey}
	if q.Type == index.TypeTag {
		w.types = w.types[:1]
		w.types[0] = index.TypeTag
	}
	if w.want <= 0 || q.EndMs < 0 || q.BeginMs > q.EndMs {
		return w.a, nil
	}
	buf := x.buffers.Get().(*[]byte)
	defer x.buffers.Put(buf)
	w.buf = *buf
	first := hourOf(max(q.BeginMs, 0))
	for hour, more := hourOf(q.EndMs), true; more && hour >= first && !w.done(); {
		next, err := w.hour(hour)
		if err != nil {
			return w.a, fmt.Errorf("query index: %w", err)
		}
		hour, more = next, next >= 0
	}
	return w.a, nil
}

// walk is a query under way.
type walk struct {
	x      *Index
	q      *index.Query
	accept func(int64) bool
	types  []index.Type
	want   int
	steps  int64 // left
	below  int64 // hits are below this physical offset
	buf    []byte
	a      index.Answer

	hits []int64
	more bool // hits are not all there are
}

func (w *walk) done() bool { return len(w.a.PhyOffsets) >= w.want || w.a.Limited }

// step counts one; false: there are none left.
func (w *walk) step() bool {
	if w.steps == 0 {
		w.a.Limited = true
		return false
	}
	w.steps--
	w.a.Steps++
	return true
}

// hour answers what is found in an hour, and returns the next lower one that has rows, below 0 for none.
func (w *walk) hour(hour int64) (next int64, err error) {
	w.a.Files++
	look := index.FileLook{BeginMs: hour, EndMs: hour + hourMs - 1}
	before, bad := w.a.Steps, w.a.BadLinks
	for below := w.below; ; {
		w.hits, w.more, next = w.hits[:0], false, -1
		for _, t := range w.types {
			n, err := w.collect(hour, t, below)
			if err != nil {
				return -1, err
			}
			next = max(next, n)
		}
		w.newest()
		for _, phy := range w.hits {
			if len(w.a.PhyOffsets) >= w.want {
				break
			}
			below = phy
			look.Hits++
			if w.accept != nil && !w.accept(phy) {
				w.a.Rejected++
				continue
			}
			w.a.PhyOffsets = append(w.a.PhyOffsets, phy)
		}
		if !w.more || w.done() {
			break
		}
	}
	if newest := hourOf(max(w.a.LastMs, 0)); look.Hits == 0 && hour > newest { // the search begins at the end of its window, which may lie far behind all rows
		look.BeginMs, look.EndMs = newest+hourMs, w.q.EndMs
	}
	if w.q.Looked != nil {
		look.Steps, look.BadLinks = w.a.Steps-before, w.a.BadLinks-bad
		w.q.Looked(look)
	}
	return next, nil
}

// newest sorts the hits, newest first, leaves out repeated ones and keeps maxRound.
func (w *walk) newest() {
	slices.SortFunc(w.hits, func(a, b int64) int { return int(min(max(b-a, -1), 1)) })
	w.hits = slices.Compact(w.hits)
	if len(w.hits) > maxRound {
		w.hits, w.more = w.hits[:maxRound], true
	}
}

// collect adds what an hour's rows of a type say, and returns the next lower hour in which there may be any, below 0 for none.
func (w *walk) collect(hour int64, t index.Type, below int64) (next int64, err error) {
	prefix := appendPrefix(nil, hour, w.q.Topic, t, w.q.Key)
	from := after(prefix)
	if !w.step() {
		return -1, nil
	}
	for {
		rows, err := w.x.db.RowsBefore(rocks.Units, from, prefix, w.buf)
		if err != nil {
			return -1, w.x.wrap(err)
		}
		for key, value := range rows.All() {
			if !bytes.HasPrefix(key, prefix) {
				if h := hourIn(key); h < hour {
					return hourOf(h), nil
				}
				return hour - hourMs, nil
			}
			if !w.step() {
				return -1, nil
			}
			from = append(from[:0], key...)
			w.take(key[len(prefix):], value, t, below)
		}
		if !rows.More {
			return -1, nil
		}
		if len(w.hits) > 16*maxRound {
			w.newest()
		}
	}
}

// take adds the hit of a row, if it is one; rest is what its key has behind the prefix.
func (w *walk) take(rest, value []byte, t index.Type, below int64) {
	ms, ok := number(value)
	switch {
	case !ok || len(rest) < phyBytes:
		w.a.BadLinks++
		return
	case t == index.TypeUniqKey && len(rest) != phyBytes:
		return // of a longer unique key, which goes on with a separator
	case t != index.TypeUniqKey && (len(rest) <= phyBytes || rest[len(rest)-phyBytes-1] != separator):
		return // no unique key: the row of a shorter one
	}
	phy := int64(binary.BigEndian.Uint64(rest[len(rest)-phyBytes:]))
	if phy < 0 {
		w.a.BadLinks++
		return
	}
	if phy < below && ms >= w.q.BeginMs && ms <= w.q.EndMs {
		w.hits = append(w.hits, phy)
	}
}
