package index

import (
	"fmt"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Query says what to look for.
type Query struct {
	Topic string
	Key   string
	Type  Type // TypeKey when 0
	// Max is how many hits are wanted; more than Options.MaxResults are never answered.
	Max int
	// BeginMs and EndMs bound the store time, both included.
	BeginMs, EndMs int64
	// BelowPhyOffset asks for messages below that physical offset alone, so that a further query goes on where one ended (I10). 0: all.
	BelowPhyOffset int64
	// MaxSteps bounds the entries looked at; 0: as many as there are.
	MaxSteps int64
	// Looked is told, newest first, what was done in each file whose times meet those of the query. It must not call the index. nil: nobody.
	Looked func(FileLook)
}

// FileLook is what a query did in one file, or in one hour of an index in RocksDB.
type FileLook struct {
	Path     string `json:"file,omitempty"` // "" for an hour
	BeginMs  int64  `json:"beginTimestamp"`
	EndMs    int64  `json:"endTimestamp"`
	Steps    int64  `json:"steps"` // entries, or rows, looked at
	Hits     int    `json:"hits"`  // candidates among them
	BadLinks int    `json:"badLinks"`
}

// Answer is what was found, and how.
type Answer struct {
	PhyOffsets []int64 // newest first
	// LastMs and LastPhyOffset are store time and phyOffset of the last message that has entries: how far the index has come, as clients
	// are told. 0 when there is none.
	LastMs        int64
	LastPhyOffset int64
	Files         int   // files whose times meet those of the query
	Steps         int64 // entries looked at
	Rejected      int   // hits that accept turned down
	BadLinks      int   // chains given up because a link led nowhere or back: rebuild the index
	Limited       bool  // MaxSteps ended the search
}

// maxRound is how many hits are collected before accept is asked about them.
const maxRound = 64

// Query finds messages by key. Entries have no key, only its hash, and a time whose fraction of a second is cut off: what is
// found is a message that may have the key, stored at a time that may lie in the bounds. accept decides by the record, and only what it
// takes is counted; nil takes everything. No lock is held while it runs. A message is answered once, however many entries it has.
//
// The search goes through the files whose times meet those of the query, newest first, and ends with the first that begins before
// them; in a file along the chain of the key's slot, until an entry is too old. It stops where a chain does not lead to older entries,
// so it ends whatever the bytes are.
//
// Any number of queries may run beside everything else. What Append added before a query began is found. Errors: ErrClosed, and a
// *mmap.FaultError of a file that cannot be read; what was found until then is answered with it.
//
// Source: IndexService.queryOffset, IndexFile.selectPhyOffset, isTimeMatched, 5.5.0, which count hits before anybody looked at the
// record, and miss a message stored in the second in which the bounds begin.
func (x *Index) Query(q Query, accept func(phyOffset int64) bool) (Answer, error) {
	var a Answer
	w := walk{
		hash: HashKey([]byte(q.Topic), []byte(q.Key), q.Type), beginMs: max(0, q.BeginMs), endMs: q.EndMs,
		steps: q.MaxSteps, file: 1<<63 - 1, last: -1,
	}
	if w.steps <= 0 {
		w.steps = 1<<63 - 1
	}
	want := min(q.Max, x.o.MaxResults)
	if want <= 0 || w.beginMs > w.endMs {
		w.done = true
	}
	w.below = 1<<63 - 1
	if q.BelowPhyOffset > 0 {
		w.below = q.BelowPhyOffset
	}
	w.looked = q.Looked
	var hits [maxRound]int64
	for first := true; first || !w.done && len(a.PhyOffsets) < want; first = false {
		n, err := x.collect(&w, &a, hits[:min(maxRound, max(0, want-len(a.PhyOffsets)))])
		for _, phy := range hits[:n] {
			if accept != nil && !accept(phy) {
				a.Rejected++
				continue
			}
			if a.PhyOffsets == nil {
				a.PhyOffsets = make([]int64, 0, min(want, max(n, 8)))
			}
			a.PhyOffsets = append(a.PhyOffsets, phy)
		}
		if err != nil {
			return a, fmt.Errorf("query index: %w", err)
		}
	}
	w.tell()
	return a, nil
}

// walk is where a query stands.
type walk struct {
	hash           int32
	beginMs, endMs int64
	steps          int64 // left
	file           int64 // the number of the file to go on in, or the next lower one
	at             int32 // the entry to go on with in it; 0: the slot's
	last           int64 // the last hit
	below          int64 // hits are below this physical offset
	done           bool

	looked func(FileLook) // nil: nobody asked
	look   FileLook       // at the present file; Path "" before the first
}

// tell tells of the file that was looked at, if somebody asked.
func (w *walk) tell() {
	if w.looked != nil && w.look.Path != "" {
		w.looked(w.look)
	}
	w.look = FileLook{}
}

// Last returns physical offset and store time (ms) of the last message that has entries, -1 and 0 without one, or when the index is closed.
func (x *Index) Last() (phy, ms int64) {
	x.life.RLock()
	defer x.life.RUnlock()
	return x.lastLocked()
}

// lastLocked is Last for who holds life.
func (x *Index) lastLocked() (phy, ms int64) {
	for i := len(x.files) - 1; i >= 0; i-- {
		if f := x.files[i]; f.count.Load() > 1 {
			return f.endPhy.Load(), f.endMs.Load()
		}
	}
	return -1, 0
}

// collect walks on until hits is full or there is nothing more.
func (x *Index) collect(w *walk, a *Answer, hits []int64) (n int, err error) {
	x.life.RLock()
	defer x.life.RUnlock()
	if x.gone {
		return 0, ErrClosed
	}
	if phy, ms := x.lastLocked(); phy >= 0 {
		a.LastMs, a.LastPhyOffset = ms, phy
	}
	if w.done {
		return 0, nil
	}
	err = mmap.GuardFault(func() error {
		for i := len(x.files) - 1; i >= 0 && n < len(hits) && !w.done; i-- {
			f := x.files[i]
			if f.number > w.file {
				continue
			}
			if f.number < w.file {
				w.file, w.at = f.number, 0
			}
			begin := f.beginMs.Load()
			if f.count.Load() > 1 && begin <= w.endMs && f.endMs.Load() >= w.beginMs {
				if w.at == 0 {
					a.Files++
					w.look.Path = f.path
				}
				steps, bad := a.Steps, a.BadLinks
				hit := f.follow(w, a, begin, hits[n:])
				n += hit
				w.look.Steps, w.look.Hits, w.look.BadLinks = w.look.Steps+a.Steps-steps, w.look.Hits+hit, w.look.BadLinks+a.BadLinks-bad
				w.look.BeginMs, w.look.EndMs = begin, f.endMs.Load()
			} else {
				w.at = 0
			}
			if w.at == 0 {
				w.tell()
				w.file--
				w.done = w.done || begin < w.beginMs || i == 0
			}
		}
		w.done = w.done || len(x.files) == 0 || w.file < x.files[0].number
		return nil
	})
	return n, err
}

// follow walks along a chain. At its end w.at is 0.
func (f *file) follow(w *walk, a *Answer, begin int64, hits []int64) (n int) {
	if w.at == 0 {
		w.at = f.slot(w.hash % f.slots)
		if w.at < 0 || w.at >= f.count.Load() {
			a.BadLinks++
			w.at = 0
		}
	}
	for w.at > 0 && n < len(hits) {
		if w.at >= f.count.Load() { // cut since the last round
			w.at = 0
			return n
		}
		if w.steps == 0 {
			a.Limited, w.done = true, true
			return n
		}
		w.steps--
		a.Steps++
		e := f.entry(w.at)
		timeMs := begin + int64(e.diff)*1000
		if w.at == 1 {
			timeMs = begin // whatever RocketMQ reckoned it from
		}
		if e.diff < 0 || e.phy < 0 || e.prev < 0 || e.prev >= w.at {
			a.BadLinks++
			e.prev = 0
		}
		if e.hash == w.hash && e.phy >= 0 && e.phy != w.last && e.phy < w.below && timeMs+999 >= w.beginMs && timeMs <= w.endMs {
			hits[n] = e.phy
			n++
			w.last = e.phy
		}
		w.at = e.prev
		if timeMs+999 < w.beginMs {
			w.at = 0
		}
	}
	return n
}
