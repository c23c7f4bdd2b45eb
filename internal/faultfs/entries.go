package faultfs

import "time"

// place is a name in a directory.
type place struct {
	dir  *node
	name string
}

// entryOp is a change of directory entries, which survives as a whole or not at all: moved disappears from the one place and
// appears at the other, where it replaces what is there.
type entryOp struct {
	at       int64 // the clock of the FS
	kind     Kind
	moved    *node // nil: Remove
	from, to place // dir is nil where it has none
}

// apply makes the change in the entries that the function selects, as seen or on the disk.
func (o entryOp) apply(entries func(dir *node) map[string]*node) {
	if o.from.dir != nil {
		delete(entries(o.from.dir), o.from.name)
	}
	if o.to.dir != nil {
		entries(o.to.dir)[o.to.name] = o.moved
	}
}

func seen(dir *node) map[string]*node   { return dir.entries }
func onDisk(dir *node) map[string]*node { return dir.durable }

// change makes a change that all see and that is yet to become durable.
func (f *FS) change(o entryOp) {
	o.at = f.tick()
	var gone *node
	if o.kind == Remove {
		gone = o.from.dir.entries[o.from.name]
	} else {
		gone = o.to.dir.entries[o.to.name]
		o.moved.linked = true
	}
	for _, p := range []place{o.from, o.to} {
		if p.dir != nil {
			p.dir.modTime = time.Now()
		}
	}
	o.apply(seen)
	f.pending = append(f.pending, o)
	if gone != nil {
		gone.linked = false
		f.release(gone)
	}
}

// settle makes durable what was changed in dir before that time.
func (f *FS) settle(dir *node, before int64) {
	settled := make([]bool, len(f.pending))
	for i, o := range f.pending {
		settled[i] = o.at < before && (o.from.dir == dir || o.to.dir == dir)
	}
	f.withEarlier(settled)
	var rest []entryOp
	for i, o := range f.pending {
		if settled[i] {
			o.apply(onDisk)
		} else {
			rest = append(rest, o)
		}
	}
	f.pending = rest
}

// withEarlier adds to the chosen pending changes those before them on the same names, as a journal would: a file whose move is
// durable does not come back at the name where it was made.
func (f *FS) withEarlier(chosen []bool) {
	need := make(map[place]bool)
	for i := len(f.pending) - 1; i >= 0; i-- {
		o := f.pending[i]
		if chosen[i] = chosen[i] || need[o.from] || need[o.to]; !chosen[i] {
			continue
		}
		for _, p := range []place{o.from, o.to} {
			if p.dir != nil {
				need[p] = true
			}
		}
	}
}
