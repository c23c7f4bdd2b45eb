package store

import (
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
)

// compareSides holds the two sides of a queue against one another.
func (w *queueReader) compareSides(q *checkedQueue) error {
	if w.c.sides[sideFile] == nil || w.c.sides[sideRocks] == nil {
		return nil
	}
	f, r := &q.sides[sideFile], &q.sides[sideRocks]
	if f.q == nil || r.q == nil {
		w.oneSided(q)
		return nil
	}
	if f.bad || r.bad {
		return nil
	}
	both := func(code CheckCode, slot int64, got, want, format string, args ...any) *CheckFinding {
		x := queueFinding(code, checkSideBoth, q.key, slot)
		x.Got, x.Want, x.Text = got, want, fmt.Sprintf(format, args...)
		return x
	}
	if f.b.Max != r.b.Max {
		x := both(CheckMaxDiffers, -1, fmt.Sprintf("rocks max %d", r.b.Max), fmt.Sprintf("file max %d", f.b.Max), "max is %d in files and %d in RocksDB", f.b.Max, r.b.Max)
		if x.Severity = w.c.suspended(); q.leftInFiles() {
			x.Severity = CheckWarning
		}
		w.c.found.add(x)
	}
	if f.b.Min != r.b.Min {
		if err := w.beginsLater(q); err != nil {
			return err
		}
	}
	from, to := max(f.b.Min, r.b.Min), min(f.b.Max, r.b.Max)
	if w.c.o.Deep {
		if f.proven() && r.proven() {
			return nil // both are as the log says
		}
	} else {
		from = max(from, to-1)
	}
	w.comparing = true
	defer func() { w.comparing = false }()
	var ahead int64 // w.b[:n] are the units from slot ahead on
	var n int
	return w.eachUnit(q, sideFile, from, to, func(slot int64, u *cq.Unit) error {
		if slot < ahead || slot >= ahead+int64(n) {
			var err error
			n, err = r.q.Read(slot, w.b[:min(int64(len(w.b)), to-slot)])
			ahead = slot
			if err != nil || n == 0 {
				n = 0
				if err == nil || errors.Is(err, cq.ErrCorrupt) {
					return nil // a hole of its own, told there
				}
				return err
			}
		}
		v := &w.b[slot-ahead]
		if v.PhyOffset == u.PhyOffset && v.Size == u.Size && (v.TagsCode == u.TagsCode || cq.IsExtLost(w.c.sides[sideFile].Queues, q.key, u.TagsCode)) {
			return nil
		}
		x := both(CheckUnitDiffers, slot, "rocks: "+unitText(v), "file: "+unitText(u), "slot %d: %s in files, %s in RocksDB", slot, unitText(u), unitText(v))
		x.PhyOffset = u.PhyOffset
		w.c.found.add(x)
		return nil
	})
}

func unitText(u *cq.Unit) string {
	return fmt.Sprintf("record %d size %d tags %d", u.PhyOffset, u.Size, u.TagsCode)
}

// beginsLater judges a queue of which one side begins behind the other. Where the log has the records before, that side lacks their units: it has lost its first ones, or it is a RocksDB that
// was filled from the day on which it was switched on, in a store of which nothing says that it was ever whole. Otherwise retention has brought one side further.
func (w *queueReader) beginsLater(q *checkedQueue) error {
	earlier, later := sideFile, sideRocks
	if q.sides[sideRocks].b.Min < q.sides[sideFile].b.Min {
		earlier, later = sideRocks, sideFile
	}
	e, l := &q.sides[earlier], &q.sides[later]
	f := queueFinding(CheckBeginsLater, checkSideBoth, q.key, -1)
	f.Got, f.Want = fmt.Sprintf("%s min %d", w.c.side(later), l.b.Min), fmt.Sprintf("%s min %d", w.c.side(earlier), e.b.Min)
	f.Text = fmt.Sprintf("min is %d on the %s side and %d on the %s side: one of them begins later", e.b.Min, w.c.side(earlier), l.b.Min, w.c.side(later))
	f.Severity = CheckNotice
	if to := min(l.b.Min, e.b.Max); e.b.Min < to {
		n, err := e.q.Read(to-1, w.a[:1])
		if err != nil && !errors.Is(err, cq.ErrCorrupt) {
			return err
		}
		good := false
		if u := &w.a[0]; err == nil && n == 1 && u.PhyOffset >= max(w.c.log.MinOffset(), 0) && u.PhyOffset < w.c.end {
			if good, err = w.c.unitIsGood(q.key, to-1, u.PhyOffset, &w.rec); err != nil {
				return err
			}
		}
		if good {
			f.Side, f.Severity = w.c.side(later), w.c.lacking(later)
			f.Text = fmt.Sprintf("slots %d to %d are on the %s side alone, and the log has their records: the %s side has lost them, or never had them", e.b.Min, to-1, w.c.side(earlier), w.c.side(later))
		}
	}
	w.c.found.add(f)
	return nil
}

// lacking is how bad it is that a side has no unit of a record that the log has. Files have all from their first day on; RocksDB where something says that the store keeps it.
func (c *checker) lacking(side int) CheckSeverity {
	if side == sideRocks && !c.kept.RocksDB {
		return CheckWarning
	}
	return c.suspended()
}

// oneSided judges a queue that one side lacks. Light queues may be kept in RocksDB alone, and RocksDB is filled from the day
// on which it is switched on: a queue that got nothing since is not in it. Files are filled from the first day.
//
// Source: CombineConsumeQueueStore, combineCQUseRocksdbForLmq, 5.5.0.
func (w *queueReader) oneSided(q *checkedQueue) {
	has, lacks := sideFile, sideRocks
	if q.sides[sideFile].q == nil {
		has, lacks = sideRocks, sideFile
	}
	side := &q.sides[has]
	if q.key.IsLMQ() && has == sideRocks || side.bad || side.b.Empty() {
		return
	}
	f := queueFinding(CheckOneSided, checkSideBoth, q.key, -1)
	f.Side, f.Severity = w.c.side(lacks), w.c.lacking(lacks)
	f.Got, f.Want = "only "+w.c.side(has), "both sides"
	f.Text = fmt.Sprintf("the %s side holds slots %d to %d, the %s side has no such queue", w.c.side(has), side.b.Min, side.b.Max-1, w.c.side(lacks))
	w.c.found.add(f)
}

// lostSides finds out which sides are gone on which the store keeps its queues, as far as something tells that. has: those that are there.
func (c *checker) lostSides(has [sideCount]bool, badRocks bool) (err error) {
	if c.kept, err = c.layout.Kept(); err == nil && !has[sideFile] && !has[sideRocks] {
		c.kept, err = c.layout.KeptBefore()
	}
	for s, kind := range sideKinds {
		asked := c.o.Kind == "" || c.o.Kind == kind || c.o.Kind == cq.KindCombine
		c.lost[s] = asked && c.kept.Has(kind) && !has[s] && (s != sideRocks || !badRocks)
	}
	return err
}

// reportLostSides reports them, and each queue that the other side has. A store without a message has lost nothing.
func (c *checker) reportLostSides() {
	for s, lost := range c.lost {
		if !lost {
			continue
		}
		queues, units := 0, int64(0)
		for _, q := range c.queues {
			other := &q.sides[sideFile+sideRocks-s]
			if !other.usable() || other.b.Max == 0 || q.key.IsLMQ() && s == sideFile {
				continue
			}
			queues, units = queues+1, units+other.b.Max-other.b.Min
			f := queueFinding(CheckMissingSide, c.side(s), q.key, -1)
			f.Severity, f.Got, f.Want = c.suspended(), "nothing", fmt.Sprintf("slots %d to %d", other.b.Min, other.b.Max-1)
			f.Text = fmt.Sprintf("the %s side is gone; the %s side holds slots %d to %d", c.side(s), c.side(sideFile+sideRocks-s), other.b.Min, other.b.Max-1)
			c.found.add(f)
		}
		where := "and there is no other side"
		if c.sides[sideFile+sideRocks-s] != nil {
			where = fmt.Sprintf("the other side has %d queues with %d units", queues, units)
		}
		if queues == 0 && (c.sides[sideFile+sideRocks-s] != nil || !c.begun()) {
			continue
		}
		c.rep.LostSides = append(c.rep.LostSides, c.side(s))
		f := placeFinding(c.suspended(), CheckMissingSide, c.side(s), "", "the store keeps its queues in %s (%s), and those in %s are gone; %s", c.kept.words(), c.kept.By, sideWords(sideKinds[s]), where)
		c.found.add(f)
	}
}

// begun tells whether the log has a record.
func (c *checker) begun() bool {
	scan := c.log.Scanner(-1, commitlog.ScanOptions{NoReadahead: true})
	defer scan.Close()
	return scan.Next()
}
