package faultfs

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// choice is a Change and its fate.
type choice struct {
	change Change
	fate   Fate
}

// String tells what survived when the FS was made by a crash.
func (f *FS) String() string {
	if f.choices == nil {
		return "faultfs"
	}
	var b strings.Builder
	b.WriteString("left of a crash:")
	for _, c := range f.choices {
		fmt.Fprintf(&b, "\n\t%s: %s", c.fate, c.change)
	}
	return b.String()
}

// Crash returns what a loss of power now leaves, with the fate that choose gives each Change: an FS with nothing open and nothing
// dirty, with the same options. It stands beside f, which goes on. A directory operation takes those before it on the same names
// along, also when these are to be FateOld. A fate FateZero of an Entry counts as FateOld.
func (f *FS) Crash(choose func(Change) Fate) *FS {
	c := f.Clone()
	return c.crash(c.dirty(), choose)
}

// CrashSeed is Crash with fates out of those that each Change may have, drawn from the seed. 0: all FateOld, 1: all FateNew.
func (f *FS) CrashSeed(seed uint64) *FS {
	return f.Crash(draw(seed))
}

func draw(seed uint64) func(Change) Fate {
	r := rand.New(rand.NewPCG(seed, 4096))
	share := 1 + r.IntN(15) // of 16: from nearly all lost to nearly all kept
	return func(c Change) Fate {
		switch {
		case seed < 2:
			return Fate(seed)
		case r.IntN(16) < share:
			return FateNew
		}
		if slices.Contains(c.Fates, FateZero) && r.IntN(2) == 0 {
			return FateZero
		}
		return FateOld
	}
}

// How far CrashAll goes: all combinations for so many changed pages and so many combinations, else so many seeds.
const (
	maxPages        = 6
	maxCombinations = 4096
	seedCount       = 256
)

// CrashAll yields what a loss of power now, at the call of CrashAll, may leave: every combination of fates when there are up
// to 6 changed pages (and no more than 4096 combinations, with lengths and entries), else CrashSeed of 0 to 255.
func (f *FS) CrashAll() iter.Seq[*FS] {
	c := f.Clone()
	changes := c.dirty()
	pages, combinations := 0, 1
	for _, ch := range changes {
		if ch.Kind == Page {
			pages++
		}
		combinations = min(combinations*len(ch.Fates), maxCombinations+1)
	}
	return func(yield func(*FS) bool) {
		if pages > maxPages || combinations > maxCombinations {
			for seed := range uint64(seedCount) {
				if !yield(c.crash(changes, draw(seed))) {
					return
				}
			}
			return
		}
		for number := range combinations {
			left := number
			next := func(ch Change) Fate {
				fate := ch.Fates[left%len(ch.Fates)]
				left /= len(ch.Fates)
				return fate
			}
			if !yield(c.crash(changes, next)) {
				return
			}
		}
	}
}

// Clone returns an FS of the same content, seen and on the disk, with the same changes at stake; nothing of it is open, and Inject,
// Observe and the number of operations are not taken over. A test keeps one to look at later what a crash now would leave.
func (f *FS) Clone() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &FS{options: f.options, inodes: f.inodes, clock: f.clock}
	copies := make(map[*node]*node)
	c.root = cloneNode(f.root, copies)
	for _, o := range f.pending {
		o.from.dir, o.to.dir, o.moved = cloneNode(o.from.dir, copies), cloneNode(o.to.dir, copies), cloneNode(o.moved, copies)
		c.pending = append(c.pending, o)
	}
	for _, n := range copies {
		c.count(n)
	}
	return c
}

// count adds the blocks of a node to those used.
func (f *FS) count(n *node) {
	for i := range n.pages {
		if n.pages[i].block {
			f.used += PageBytes
		}
	}
}

func cloneNode(n *node, copies map[*node]*node) *node {
	if n == nil {
		return nil
	}
	if c := copies[n]; c != nil {
		return c
	}
	c := new(node)
	*c = *n
	copies[n] = c
	c.opens, c.maps, c.live, c.pages = 0, 0, nil, slices.Clone(n.pages)
	for i := range c.pages {
		c.pages[i].base = n.copyPage(i)
		c.pages[i].block = n.linked && c.pages[i].block
	}
	if n.isDir() {
		c.entries, c.durable = cloneEntries(n.entries, copies), cloneEntries(n.durable, copies)
	}
	return c
}

func cloneEntries(entries map[string]*node, copies map[*node]*node) map[string]*node {
	c := make(map[string]*node, len(entries))
	for name, n := range entries {
		c[name] = cloneNode(n, copies)
	}
	return c
}

// crash is Crash of a clone, which it leaves as it is.
func (f *FS) crash(changes []Change, choose func(Change) Fate) *FS {
	left := &FS{options: f.options, choices: make([]choice, 0, len(changes))}
	pages, lengths := make(map[*node]map[int]Fate), make(map[*node]Fate)
	entries := make(map[*node]map[string]*node) // of directories that change
	survived := func(dir *node) map[string]*node {
		if entries[dir] == nil {
			entries[dir] = maps.Clone(dir.durable)
		}
		return entries[dir]
	}
	kept := make([]bool, len(f.pending))
	for _, c := range changes {
		fate := choose(c)
		left.choices = append(left.choices, choice{c, fate})
		switch c.Kind {
		case Entry:
			kept[c.op] = fate == FateNew
		case Length:
			lengths[c.node] = fate
		case Page:
			if pages[c.node] == nil {
				pages[c.node] = make(map[int]Fate)
			}
			pages[c.node][int(c.Off/PageBytes)] = fate
		}
	}
	f.withEarlier(kept)
	for i, o := range f.pending {
		if kept[i] {
			o.apply(survived)
		}
	}
	var leave func(n *node) *node
	leave = func(n *node) *node {
		left.inodes++
		c := &node{ino: left.inodes, mode: n.mode, modTime: n.modTime, linked: true}
		if !n.isDir() {
			n.leaveContent(c, lengths[n], pages[n])
			left.count(c)
			return c
		}
		c.entries, c.durable = make(map[string]*node), make(map[string]*node)
		there := survived(n)
		for _, name := range slices.Sorted(maps.Keys(there)) {
			c.entries[name] = leave(there[name])
			c.durable[name] = c.entries[name]
		}
		return c
	}
	left.root = leave(f.root)
	return left
}

// leaveContent fills c with what is left of the file n.
func (n *node) leaveContent(c *node, length Fate, fates map[int]Fate) {
	c.size = [...]int64{n.durableSize, n.size, n.low}[length]
	c.durableSize, c.low = c.size, c.size
	c.pages = make([]pageState, pagesOf(c.size))
	for i := range c.pages {
		old := n.pages[i]
		p := old.durable
		switch fates[i] {
		case FateNew:
			p = old.base
		case FateZero:
			p = nil
		}
		if p != nil && samePage(p, &zeroPage) && !old.written {
			p = nil
		}
		p = cutPage(p, c.size-int64(i)*PageBytes)
		block := old.durableBlock || p != nil
		c.pages[i] = pageState{durable: p, base: p, block: block, durableBlock: block, written: p != nil}
	}
}
