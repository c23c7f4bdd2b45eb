package faultfs

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
)

// Fate is what becomes of a change at a loss of power.
type Fate int

// The fates.
const (
	FateOld  Fate = iota // the change is lost: as on the disk
	FateNew              // it has reached the disk
	FateZero             // a page of zeros; of a length: the least that the file had since it was last synced
)

func (f Fate) String() string {
	return [...]string{"old", "new", "zero"}[f]
}

// ChangeKind tells what a Change is of.
type ChangeKind string

// The kinds of change.
const (
	Page   ChangeKind = "page"
	Length ChangeKind = "length"
	Entry  ChangeKind = "entry" // of a directory
)

// Change is something that all see and that is not durable.
type Change struct {
	Kind ChangeKind
	Path string // the file, by the name all see or else had; of an Entry: the operation and its paths
	Off  int64  // of a Page: its first byte; of a Length: the new one
	Lost bool   // of a Page: a failed sync has passed it, no later one will write it
	// Fates are those that a loss of power may bring and that differ from one another: FateOld and FateNew, and FateZero for a page or a
	// length that was given back since the last sync. Crash takes FateZero for every page.
	Fates []Fate

	node *node // Page, Length
	op   int   // Entry: index in pending
}

func (c Change) String() string {
	if c.Kind == Entry {
		return c.Path
	}
	return fmt.Sprintf("%s %s+%d", c.Kind, c.Path, c.Off)
}

// Dirty returns all that a loss of power now would put at stake: directory operations in their order, then files in the order in
// which they were made, each with its length before its pages.
func (f *FS) Dirty() []Change {
	return f.Clone().dirty()
}

// dirty is Dirty of a clone, which nobody else uses.
func (f *FS) dirty() []Change {
	names := make(map[*node]string)
	walk(f.root, "/", seen, names)
	walk(f.root, "/", onDisk, names)
	for _, o := range f.pending {
		if o.moved != nil && names[o.moved] == "" {
			walk(o.moved, path.Join(names[o.to.dir], o.to.name), seen, names)
			walk(o.moved, path.Join(names[o.to.dir], o.to.name), onDisk, names)
		}
	}
	var changes []Change
	for i, o := range f.pending {
		what := string(o.kind)
		for _, p := range []place{o.from, o.to} {
			if p.dir != nil {
				what += " " + path.Join(names[p.dir], p.name)
			}
		}
		changes = append(changes, Change{Kind: Entry, Path: what, Fates: []Fate{FateOld, FateNew}, op: i})
	}
	for _, n := range slices.SortedFunc(maps.Keys(names), func(a, b *node) int { return cmp.Compare(a.ino, b.ino) }) {
		changes = append(changes, n.dirtyParts(names[n])...)
	}
	return changes
}

// walk names what is below n.
func walk(n *node, name string, entries func(*node) map[string]*node, names map[*node]string) {
	if names[n] == "" {
		names[n] = name
	}
	for child, c := range entries(n) {
		walk(c, path.Join(name, child), entries, names)
	}
}

func (n *node) dirtyParts(name string) []Change {
	var changes []Change
	length := Change{Kind: Length, Path: name, Off: n.size, node: n, Fates: []Fate{FateOld}}
	if n.size != n.durableSize {
		length.Fates = append(length.Fates, FateNew)
	}
	if n.low < min(n.size, n.durableSize) {
		length.Fates = append(length.Fates, FateZero)
	}
	if len(length.Fates) > 1 {
		changes = append(changes, length)
	}
	for i, p := range n.pages {
		if !n.changed(i) {
			continue
		}
		c := Change{Kind: Page, Path: name, Off: int64(i) * PageBytes, node: n, Fates: []Fate{FateOld, FateNew}}
		c.Lost = !n.dirty(i)
		if p.erasedAt > p.syncedAt && !samePage(orZero(p.durable), &zeroPage) && !samePage(n.at(i), &zeroPage) {
			c.Fates = append(c.Fates, FateZero)
		}
		changes = append(changes, c)
	}
	return changes
}
