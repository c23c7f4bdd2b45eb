package store

import (
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
	"github.com/tandemq/tandemmq/message"
)

// Finding is what was found wrong in adjacent slots of a queue, or of its ends.
type Finding struct {
	Class string // as docs/migration.md names it: wrong-position, hole, ...
	// Side is the one that the log proves wrong; empty where it does not tell.
	Side     cq.Kind
	From, To int64  // slots, To exclusive; From is -1 where it is about none
	What     string // of the first slot

	sampled bool    // a unit is not as its record says, whatever the other side has
	lacks   cq.Kind // the side that has no unit there
}

func (f *Finding) String() string {
	where := ""
	switch {
	case f.From >= 0 && f.To > f.From+1:
		where = fmt.Sprintf("slots %d to %d", f.From, f.To-1)
	case f.From >= 0:
		where = fmt.Sprintf("slot %d", f.From)
	default:
		where = "ends"
	}
	if f.Side != "" {
		where += fmt.Sprintf(", %s side", f.Side)
	}
	return fmt.Sprintf("%s: %s: %s", where, f.Class, f.What)
}

// OK tells that nothing was found.
func (v *SideVerdict) OK() bool { return v.Different == 0 }

// Words are what was found, and how much more there is.
func (v *SideVerdict) Words() (list []string) {
	told := int64(0)
	for i := range v.Found {
		list = append(list, v.Found[i].String())
		told += max(v.Found[i].To-v.Found[i].From, 1)
	}
	if v.Different > told {
		list = append(list, fmt.Sprintf("and %d slots more", v.Different-told))
	}
	return list
}

func (v *SideVerdict) add(f Finding) {
	if v.counted(&f) {
		v.Found = append(v.Found, f)
	}
}

// counted counts a finding, and tells whether it is one to be kept: no further slot of the last one, and no more than there may be.
func (v *SideVerdict) counted(f *Finding) bool {
	v.Different++
	if n := len(v.Found); n > 0 && f.From >= 0 {
		last := &v.Found[n-1]
		if last.To == f.From && last.From >= 0 && last.Class == f.Class && last.Side == f.Side && last.lacks == f.lacks && last.sampled == f.sampled {
			last.To = f.To
			return false
		}
	}
	return len(v.Found) < maxSideDifferences
}

// differs takes down a slot in which the sides differ.
func (v *SideVerdict) differs(d *combine.Difference) {
	f := Finding{From: d.QueueOffset, To: d.QueueOffset + 1}
	a, b := &d.Units[0], &d.Units[1]
	switch {
	case a.Size == 0:
		f.Class, f.lacks = "hole", combinedKinds[0]
	case b.Size == 0:
		f.Class, f.lacks = "hole", combinedKinds[1]
	case a.PhyOffset != b.PhyOffset:
		f.Class = "wrong-position"
	case a.Size != b.Size:
		f.Class = "wrong-size"
	default:
		f.Class = "wrong-tags"
	}
	if !v.counted(&f) { // all slots of a queue may differ
		return
	}
	text := [...]string{"no unit", "no unit"}
	for i := range d.Units {
		if d.Units[i].Size != 0 {
			text[i] = unitText(&d.Units[i])
		}
	}
	f.What = fmt.Sprintf("slot %d has %s in %s and %s in %s", d.QueueOffset, text[0], combinedKinds[0], text[1], combinedKinds[1])
	v.Found = append(v.Found, f)
}

// findingOfEnds is what is said of a difference that is about no slot.
func findingOfEnds(d *combine.Difference) Finding {
	f := Finding{From: -1, What: fmt.Sprintf("%s: %d in %s and %d in %s", d.What, d.Values[0], combinedKinds[0], d.Values[1], combinedKinds[1])}
	less, more := combinedKinds[0], combinedKinds[1]
	if d.Values[0] > d.Values[1] {
		less, more = more, less
	}
	switch d.What {
	case "presence":
		f.Class, f.Side = "missing-queue", less
	case "max":
		f.Class, f.Side = "low-max", less
	case "min":
		f.Class, f.Side = "missing-units", more
	default:
		f.Class = "wrong-position"
	}
	return f
}

// wrongSide returns the side whose unit of a slot the log proves wrong, by proving the other one; "" where it proves neither, or both.
func (d *sides) wrongSide(k cq.Key, slot int64) cq.Kind {
	var right [len(combinedKinds)]bool
	for i, kind := range d.responsible(k) {
		q, ok := d.side(kind).Queue(k)
		if !ok {
			continue
		}
		var u [1]cq.Unit
		n, err := q.Read(slot, u[:])
		right[i] = err == nil && n == 1 && d.proves(kind, k, slot, &u[0])
	}
	switch {
	case right[0] == right[1]:
		return ""
	case right[0]:
		return combinedKinds[1]
	}
	return combinedKinds[0]
}

// describes compares a unit, as side has it, with the record it points to, and says what is wrong, "" when nothing is. A record that has expired says nothing. Which slot it is in is no matter: RocketMQ has
// shifted queues (F1). checkCRC has the record's body be read too. bytes is how long the record is, 0 where there is none.
func (v *views) describes(side cq.Reader, k cq.Key, u *cq.Unit, checkCRC bool) (class, why string, bytes int64) {
	err := v.record(u, checkCRC, func(r *message.Record) {
		bytes = int64(r.TotalSize)
		_, owned := r.SlotIn(k.Topic, k.QueueID)
		switch {
		case r.PhyOffset != u.PhyOffset || !r.OwesUnit():
			class, why = "wrong-position", fmt.Sprintf("no record of a queue begins at %d", u.PhyOffset)
		case !owned:
			class, why = "wrong-position", fmt.Sprintf("the record at %d belongs to %s/%d", u.PhyOffset, r.Topic, r.QueueID)
		case r.TotalSize != u.Size:
			class, why = "wrong-size", fmt.Sprintf("the record at %d has %d bytes, the unit says %d", u.PhyOffset, r.TotalSize, u.Size)
		case u.TagsCode != r.TagsCode(v.view.levels) && !cq.IsExtLost(side, k, u.TagsCode):
			class, why = "wrong-tags", fmt.Sprintf("the record at %d has tags code %d, the unit says %d", u.PhyOffset, r.TagsCode(v.view.levels), u.TagsCode)
		case u.StoreTimestampMs != cq.NoTimestamp && u.StoreTimestampMs != r.StoreTimestampMs:
			class, why = "wrong-time", fmt.Sprintf("the record at %d was stored at %d, the unit says %d", u.PhyOffset, r.StoreTimestampMs, u.StoreTimestampMs)
		}
	})
	var gone *commitlog.RangeError
	if errors.As(err, &gone) && u.PhyOffset < gone.Min {
		return "", "", 0
	}
	if err != nil {
		return "wrong-position", fmt.Sprintf("the record at %d cannot be read: %v", u.PhyOffset, err), bytes
	}
	return class, why, bytes
}

// record reads the record that a unit points to, and hands it to use, which keeps nothing of it.
func (v *views) record(u *cq.Unit, checkCRC bool, use func(r *message.Record)) error {
	var held commitlog.Held
	defer held.Release()
	return commitlog.GuardFault(func() error {
		b, err := v.s.writer.Log().Select(u.PhyOffset, u.Size, &held)
		if err != nil {
			return err
		}
		var r message.Record
		if err := r.Decode(b, checkCRC); err != nil {
			return err
		}
		use(&r)
		return nil
	})
}
