package store

import (
	"errors"
	"fmt"

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
		x := both(CheckBeginsLater, -1, fmt.Sprintf("rocks min %d", r.b.Min), fmt.Sprintf("file min %d", f.b.Min), "min is %d in files and %d in RocksDB: one of them begins later", f.b.Min, r.b.Min)
		x.Severity = CheckNotice
		w.c.found.add(x)
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
		if v.PhyOffset == u.PhyOffset && v.Size == u.Size && (v.TagsCode == u.TagsCode || cq.IsExtAddress(u.TagsCode)) {
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
	f.Severity = CheckWarning
	if lacks == sideFile {
		f.Severity = w.c.suspended()
	}
	f.Got, f.Want = "only "+w.c.side(has), "both sides"
	f.Text = fmt.Sprintf("the %s side holds slots %d to %d, the %s side has no such queue", w.c.side(has), side.b.Min, side.b.Max-1, w.c.side(lacks))
	w.c.found.add(f)
}
