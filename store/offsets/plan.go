package offsets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

// Target says what offsets are set to.
type Target string

// The targets.
const (
	ToBackup Target = "backup" // what a backup holds
	ToTime   Target = "time"   // the first message stored at or after a time; max when there is none
	ToMin    Target = "min"    // the first message there is
	ToMax    Target = "max"    // behind the last message
	ToBounds Target = "clamp"  // offsets outside of [min, max] to the nearer end, no others
)

// Change sets one offset.
type Change struct {
	Key
	From     *int64 `json:"from"`               // nil: there is none, or none that is a number
	FromText string `json:"fromText,omitempty"` // what stands there instead of a number
	To       int64  `json:"to"`
	Min      *int64 `json:"min,omitempty"` // of the queue; absent when there is none
	Max      *int64 `json:"max,omitempty"`
	// ToStoreMs is the store time of the message at To; nil where there is none.
	ToStoreMs *int64 `json:"toStoreMs,omitempty"`
	// Clamped is the backup's value, where To is not it but the nearer end of the queue.
	Clamped *int64 `json:"clamped,omitempty"`
	// Outside tells that To lies outside of [min, max]: a backup's value taken as it is.
	Outside bool `json:"outside,omitempty"`
}

// Skip is an offset that was selected and is left as it is.
type Skip struct {
	Key
	Text string `json:"text"`
}

// Plan is what a restore or a reset would do. Apply does it.
type Plan struct {
	Store  string `json:"store"`
	Place  Place  `json:"place"`
	Target Target `json:"target"`
	TimeMs *int64 `json:"timeMs,omitempty"`
	// Base is the file or database whose offsets stay where no change names them; "" when there is none to read.
	Base string `json:"base"`
	// Backup is where the offsets of a restore are from.
	Backup string `json:"backup,omitempty"`
	// File is what Apply writes.
	File      string   `json:"file"`
	Version   *Version `json:"dataVersion,omitempty"` // written with it
	Unchanged int      `json:"unchanged"`             // selected offsets that are as they should be already
	Changes   []Change `json:"changes"`
	Skipped   []Skip   `json:"skipped"`
	// Refusals say why Apply will not do it; empty when it will.
	Refusals []string `json:"refusals"`
	Notes    []string `json:"notes,omitempty"`

	offsets map[Key]int64 // all that is written
	base    *document     // whose other members are kept
	before  []byte        // the content of File when the plan was made; nil: there was none
}

// PlanOptions are common to both kinds of plan.
type PlanOptions struct {
	// Place chooses the source to change. "": the only one there is, or the JSON file when there is none.
	Place Place
	// Selection of the offsets that may change.
	Selection Selection
	// Now is the time stamp of the new version.
	Now time.Time
}

// AmbiguousError tells that a store keeps offsets in several places, of which a broker uses one.
type AmbiguousError struct{ Places []Place }

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("consumer offsets are in several places (%v), and the broker uses one of them: say which", e.Places)
}

// Choose returns the source of that place; "" stands for the only one, beside databases that never held an offset. A place where nothing lies is a source without
// offsets, whose Err says so.
func Choose(l store.Layout, sources []*Source, p Place) (*Source, error) {
	if p == "" {
		some := sources
		if len(some) > 1 { // a database that never held offsets is not what a broker uses while there are offsets elsewhere
			some = slices.DeleteFunc(slices.Clone(sources), (*Source).unused)
		}
		switch len(some) {
		case 0:
			p = JSON
		case 1:
			return some[0], nil
		default:
			e := &AmbiguousError{}
			for _, s := range some {
				e.Places = append(e.Places, s.Place)
			}
			return nil, e
		}
	}
	for _, s := range sources {
		if s.Place == p {
			return s, nil
		}
	}
	return &Source{Place: p, Path: p.path(l), Err: &FileError{Path: p.path(l), Text: "there is none"}}, nil
}

// unused tells that the place is a database without offsets and without a version.
func (s *Source) unused() bool {
	return !s.Place.inFile() && s.Err == nil && len(s.Offsets) == 0 && s.Version == nil
}

// planner is the making of one plan.
type planner struct {
	q   *queues
	s   *Source
	o   PlanOptions
	p   *Plan
	old map[Key]Value
}

func newPlanner(v *store.View, sources []*Source, o PlanOptions) (*planner, error) {
	s, err := Choose(v.Layout, sources, o.Place)
	if err != nil {
		return nil, err
	}
	q, err := newQueues(v)
	if err != nil {
		return nil, err
	}
	w := &planner{q: q, s: s, o: o, old: s.Offsets, p: &Plan{
		Store: v.Layout.Root, Place: s.Place, File: s.Place.writePath(v.Layout),
		Changes: []Change{}, Skipped: []Skip{}, Refusals: []string{}, offsets: map[Key]int64{},
	}}
	if w.p.before, err = readWhole(w.p.File); err != nil {
		return nil, err
	}
	if v.Unclean {
		w.refuse("store %s was not closed cleanly (it has a file abort): recovery may move the ends of its queues; recover it first", v.Layout.Root)
	}
	switch {
	case s.Place == RocksV2:
		w.refuse("5.5.0 takes no JSON file into %s (configManagerVersion=v2): reset these offsets on the running broker", s.Path)
	case !s.Place.inFile() && s.Err != nil:
		w.refuse("%v", s.Err)
	}
	w.setBase(s, sources)
	return w, nil
}

// setBase decides what is kept where nothing is changed, and the version.
func (w *planner) setBase(s *Source, sources []*Source) {
	w.p.base = s.doc
	if s.Err == nil || s.FellBack() {
		w.p.Base = s.filePath()
	}
	version := s.Version
	for _, other := range sources {
		switch {
		case other == s:
		case s.Place.inFile() && !other.Place.inFile() && other.Place != RocksV2:
			w.note("a broker with storeType=defaultRocksDB reads %s, and takes this file in only if its counter is greater than %d", other.Path, counter(other.Version))
		case !s.Place.inFile() && other.Place == JSON:
			// The file is what 5.5.0 reads in. Its members are kept, its offsets are not: they may be years old.
			w.p.base = other.doc
			if counter(other.Version) > counter(version) {
				w.note("the counter %d of %s is greater than that of the database: 5.5.0 takes that file in at its next start, unless this plan replaces it", counter(other.Version), other.Path)
				version = other.Version
			}
		}
	}
	if version == nil && !s.Place.inFile() {
		version = &Version{}
	}
	if version != nil {
		w.p.Version = &Version{Counter: version.Counter + 1, StateVersion: version.StateVersion, TimestampMs: w.o.Now.UnixMilli()}
	}
}

func counter(v *Version) int64 {
	if v == nil {
		return 0
	}
	return v.Counter
}

func (w *planner) refuse(format string, args ...any) {
	w.p.Refusals = append(w.p.Refusals, fmt.Sprintf(format, args...))
}

func (w *planner) note(format string, args ...any) {
	w.p.Notes = append(w.p.Notes, fmt.Sprintf(format, args...))
}

func (w *planner) skip(k Key, format string, args ...any) {
	w.p.Skipped = append(w.p.Skipped, Skip{k, fmt.Sprintf(format, args...)})
}

// finish merges the changes into the offsets that stay.
func (w *planner) finish(faults []Fault) *Plan {
	changed := map[Key]bool{}
	for i := range w.p.Changes {
		c := &w.p.Changes[i]
		w.p.offsets[c.Key], changed[c.Key] = c.To, true
	}
	for k, v := range w.old {
		if !changed[k] && v.Bad == "" {
			w.p.offsets[k] = v.Offset
		}
	}
	for _, f := range faults {
		if f.Key == nil {
			w.refuse("%s at %s: %s; 5.5.0 would reject the whole file: repair it by hand", w.p.Base, f.At, f.Text)
		} else if !changed[*f.Key] {
			w.refuse("%s at %s: offset of %s is %s; 5.5.0 would reject the whole file: reset this one too", w.p.Base, f.At, f.Key, f.Text)
		}
	}
	return w.p
}

// change adds a change, unless the offset is that already.
func (w *planner) change(c Change) error {
	if v, ok := w.old[c.Key]; ok {
		if v.Bad != "" {
			c.FromText = v.Bad
		} else if c.From = &v.Offset; v.Offset == c.To {
			w.p.Unchanged++
			return nil
		}
	}
	if ms, ok, err := w.q.storeTime(c.Queue(), c.To); err != nil {
		return err
	} else if ok {
		c.ToStoreMs = &ms
	}
	w.p.Changes = append(w.p.Changes, c)
	return nil
}

// PlanReset plans to set the selected offsets to a target other than ToBackup; timeMs counts for ToTime. With a group and
// a topic selected, every queue of the topic gets an offset, whether the group had one or not; otherwise those that it has
// are changed. Offsets whose queue is not there are left as they are.
//
// Errors: *AmbiguousError, ctx, a store that cannot be read. What stands in the way of Apply is in Plan.Refusals.
func PlanReset(ctx context.Context, v *store.View, sources []*Source, t Target, timeMs int64, o PlanOptions) (*Plan, error) {
	w, err := newPlanner(v, sources, o)
	if err != nil {
		return nil, err
	}
	w.p.Target = t
	if w.p.Base == "" && w.p.before != nil {
		w.note("%s holds nothing that can be read: only what is listed here will be in the new file", w.s.Path)
	}
	if t == ToTime {
		w.p.TimeMs = &timeMs
	}
	for _, k := range w.resetKeys(t) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := w.reset(k, t, timeMs); err != nil {
			return nil, err
		}
	}
	return w.finish(w.s.Faults), nil
}

func (w *planner) resetKeys(t Target) []Key {
	sel, all := w.o.Selection, map[Key]Value{}
	for _, k := range sel.pick(w.old) {
		all[k] = w.old[k]
	}
	if sel.Group != "" && sel.Topic != "" && t != ToBounds {
		for _, id := range w.q.ids[sel.Topic] {
			k := Key{sel.Topic, sel.Group, id}
			if sel.has(k) {
				all[k] = Value{}
			}
		}
	}
	return sel.pick(all)
}

func (w *planner) reset(k Key, t Target, timeMs int64) error {
	b, ok := w.bounds(k)
	if !ok {
		return nil
	}
	c := Change{Key: k, Min: &b.Min, Max: &b.Max}
	old, has := w.old[k]
	switch t {
	case ToMin:
		c.To = b.Min
	case ToMax:
		c.To = b.Max
	case ToTime:
		var err error
		if c.To, err = w.q.byTime(k.Queue(), timeMs); err != nil {
			return err
		}
	case ToBounds:
		if !has || old.Bad != "" || old.Offset == None {
			if old.Bad != "" {
				w.skip(k, "%s: there is no number to clamp", old.Bad)
			} else {
				w.p.Unchanged++
			}
			return nil
		}
		c.To = min(max(old.Offset, b.Min), b.Max)
	default:
		return fmt.Errorf("reset consumer offsets: unknown target %q", t)
	}
	return w.change(c)
}

// bounds returns the limits of the queue, or skips the offset.
func (w *planner) bounds(k Key) (cq.Bounds, bool) {
	if w.q.batch[k.Topic] {
		w.skip(k, "batch topic: its queues are not read")
		return cq.Bounds{}, false
	}
	b, there, err := w.q.bounds(k.Queue())
	switch {
	case err != nil:
		w.skip(k, "%v", err)
	case !there:
		w.skip(k, "the store has no such queue")
	}
	return b, there && err == nil
}

// RestoreOptions of PlanRestore.
type RestoreOptions struct {
	PlanOptions
	// Backup is the file to restore from. "": RocketMQ's own copy beside the file.
	Backup string
	// Overwrite takes the backup's value also where the present one lies within the bounds of its queue.
	Overwrite bool
	// Clamp moves values of the backup that lie outside of [min, max] to the nearer end.
	Clamp bool
}

// PlanRestore plans to take offsets from a backup: those that are missing now, or lie outside of [min, max], or are no
// number. Where the file itself cannot be read, all of the backup is taken, and nothing can be selected: a file with some
// of the offsets would hide the backup from 5.5.0.
//
// Errors: *AmbiguousError, a *FileError when there is no backup, ctx, a store that cannot be read.
func PlanRestore(ctx context.Context, v *store.View, sources []*Source, o RestoreOptions) (*Plan, error) {
	w, err := newPlanner(v, sources, o.PlanOptions)
	if err != nil {
		return nil, err
	}
	from, err := w.backup(o.Backup)
	if err != nil {
		return nil, err
	}
	w.p.Target, w.p.Backup = ToBackup, from.Path
	faults := w.s.Faults
	if w.s.Err != nil && w.s.Place.inFile() {
		if o.Selection != All() {
			w.refuse("%v: restore all of the backup first, without a selection", w.s.Err)
		}
		w.old, w.p.base, w.p.Base, faults = nil, from.doc, from.Path, from.Faults
		if from.Version != nil {
			w.p.Version = &Version{Counter: from.Version.Counter + 1, StateVersion: from.Version.StateVersion, TimestampMs: o.Now.UnixMilli()}
		}
	}
	for _, k := range o.Selection.pick(from.Offsets) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := w.restore(k, from.Offsets[k], &o); err != nil {
			return nil, err
		}
	}
	return w.finish(faults), nil
}

func (w *planner) backup(path string) (*Source, error) {
	switch {
	case path != "":
		return ReadFile(w.s.Place, path)
	case w.s.Backup != nil:
		return w.s.Backup, nil
	case w.s.BackupErr != nil:
		return nil, w.s.BackupErr
	case !w.s.Place.inFile():
		return nil, errors.New("a database has no backup of its own: name the file to restore from")
	}
	return nil, &FileError{Path: w.s.Path + BackupSuffix, Text: "there is none"}
}

func (w *planner) restore(k Key, v Value, o *RestoreOptions) error {
	old, has := w.old[k]
	if has && old.Bad == "" && old.Offset == v.Offset && v.Bad == "" {
		w.p.Unchanged++
		return nil
	}
	if v.Bad != "" {
		w.skip(k, "the backup has %s", v.Bad)
		return nil
	}
	b, there, err := w.q.bounds(k.Queue())
	if err != nil && !errors.Is(err, cq.ErrCorrupt) {
		return err
	}
	there = there && err == nil && !w.q.batch[k.Topic]
	c := Change{Key: k, To: v.Offset}
	outside := func(at int64) bool { return at != None && (at < 0 || there && (at < b.Min || at > b.Max)) }
	usable := has && old.Bad == ""
	if usable && !outside(old.Offset) && !o.Overwrite {
		w.p.Unchanged++
		return nil
	}
	if there {
		c.Min, c.Max = &b.Min, &b.Max
	}
	if outside(v.Offset) {
		switch {
		case o.Clamp && there:
			c.Clamped, c.To = &v.Offset, min(max(v.Offset, b.Min), b.Max)
		case usable:
			w.skip(k, "the backup's %d lies outside of the queue: clamp it, or reset", v.Offset)
			return nil
		default:
			c.Outside = true
		}
	}
	return w.change(c)
}
