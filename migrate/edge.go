package migrate

import (
	"fmt"

	"github.com/tandemq/tandemmq/cq"
)

// edge is a stretch of slots, [from, to), that one side of a queue has and the other has not: at its end, at its beginning, or all of it. What is wrong there one record tells: that of slot from.
type edge struct {
	f            Finding // what is told where the log does not decide
	has, lacks   cq.Kind
	queue, other cq.Queue // of the side that has them, and of the other; nil where that has no such queue
	from, to     int64
	missing      Code // what the other side has wrong where the log has that record
	extra        Code // what this side has wrong where the log has none, "" where that cannot be told by one slot
	expired      Code // what the other side has wrong where the log does not go back so far; the same
}

// atEdge tells of an edge, and names the side that is wrong, and what is wrong there, as the audit of all records would. It leaves that to the audit where there is one, and to nobody where nothing but
// bounds is looked at, or whatever is there may not be written over. named: that was done, and nothing more is to be told of these slots.
func (w *comparer) atEdge(k cq.Key, e *edge) (named bool, err error) {
	v := w.v
	if v.step != "verify" || v.after || v.level == LevelCounts || v.level.records() || e.from >= e.to {
		v.find(k, e.f)
		return false, nil
	}
	n, err := readUnits(e.queue, e.from, w.a[:1])
	if err != nil {
		return false, err
	}
	if n == 0 {
		v.find(k, e.f)
		return false, nil
	}
	u := w.a[0]
	code, side := e.extra, e.has
	switch {
	case u.PhyOffset >= v.logEnd:
		if code != "" {
			code = CodeUnitOutsideLog
		}
	case u.PhyOffset < v.m.dir.Log.MinOffset():
		code, side = e.expired, e.lacks
	default:
		leads, err := w.leads(k, e.from, u)
		if err != nil {
			return false, err
		}
		if leads {
			code, side = e.missing, e.lacks
			if e.other != nil && code == CodeMissingUnits {
				if n, err := readUnits(e.other, e.from, w.b[:1]); err == nil && n == 1 && w.b[0].SameRecord(u) {
					code = CodeHiddenUnits
				}
			}
		}
	}
	if code != "" {
		e.f.Code, e.f.Side = code, side
		if code != CodeLowMax {
			e.f.QueueOffset, e.f.PhyOffset = e.from, u.PhyOffset
			e.f.several(e.to - e.from)
			e.f.Text = slotsText(e.from, e.to) + ": " + e.f.Text
			e.f.Where = e.queue.Where(e.from)
		}
	}
	v.find(k, e.f)
	return code != "", nil
}

// leads tells whether a unit leads to a record that has the slot.
func (w *comparer) leads(k cq.Key, slot int64, u cq.Unit) (bool, error) {
	release, err := w.v.m.dir.Log.Read(u.PhyOffset, u.Size, false, &w.rec)
	if unreadableRecord(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer release()
	claimed, belongs := w.rec.SlotIn(k.Topic, k.QueueID)
	return belongs && claimed == slot && w.rec.OwesUnit(), nil
}

// ends compares where a queue ends on the two sides.
func (w *comparer) ends(k cq.Key, sq, dq cq.Queue, sb, db cq.Bounds) error {
	v := w.v
	if db.Max == sb.Max {
		return nil
	}
	e := edge{
		f:   queueFinding(CodeMaxDiffers, k, fmt.Sprintf("max offset %d on the %s side, %d on the %s side", sb.Max, v.source, db.Max, v.target)),
		has: v.source, lacks: v.target, queue: sq, other: dq, from: max(db.Max, sb.Min), to: sb.Max,
		missing: CodeMissingUnits, extra: CodeDirtyTail, expired: CodeLowMax,
	}
	if db.Max > sb.Max {
		e.has, e.lacks, e.queue, e.other, e.from, e.to = v.target, v.source, dq, sq, max(sb.Max, db.Min), db.Max
	}
	_, err := w.atEdge(k, &e)
	return err
}

// begins compares where it begins, and returns from where on its units are to be compared. A queue with nothing readable has no min to speak of but its max.
func (w *comparer) begins(k cq.Key, sq, dq cq.Queue, sb, db cq.Bounds) (from int64, err error) {
	v := w.v
	if db.Min == sb.Min {
		return sb.Min, nil
	}
	e := edge{
		f:   queueFinding(CodeMinDiffers, k, fmt.Sprintf("min offset %d on the %s side, %d on the %s side", sb.Min, v.source, db.Min, v.target)),
		has: v.source, lacks: v.target, queue: sq, other: dq, from: sb.Min, to: min(db.Min, sb.Max),
		missing: CodeMissingUnits,
	}
	if db.Min < sb.Min {
		e.has, e.lacks, e.queue, e.other, e.from, e.to = v.target, v.source, dq, sq, db.Min, min(sb.Min, db.Max)
	}
	if named, err := w.atEdge(k, &e); named || err != nil {
		return max(sb.Min, db.Min), err
	}
	return sb.Min, nil
}

// alone tells of a queue that one side has and the other has not.
func (w *comparer) alone(k cq.Key, code Code, text string, has, lacks cq.Kind, q cq.Queue, b cq.Bounds) error {
	_, err := w.atEdge(k, &edge{f: queueFinding(code, k, text), has: has, lacks: lacks, queue: q, from: b.Min, to: b.Max, missing: CodeMissingQueue})
	return err
}
