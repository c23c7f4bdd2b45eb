package migrate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tandemq/tandemmq/cq"
)

// Level is how much a verification compares. Each takes in the ones before it, but LevelTime, which does not take in LevelRecords.
type Level string

// The levels.
const (
	LevelCounts  Level = "counts"  // max, min and min physical offset of every queue
	LevelUnits   Level = "units"   // every unit of both sides, and a sample of records
	LevelRecords Level = "records" // every record of the log against every slot of both sides
	LevelTime    Level = "time"    // searches by time, answered by both sides
	LevelAll     Level = "all"     // LevelRecords and LevelTime
)

// LevelNames lists them, for messages.
const LevelNames = "counts, units, records, time, all"

func (l Level) valid() bool {
	return slices.Contains([]Level{LevelCounts, LevelUnits, LevelRecords, LevelTime, LevelAll}, l)
}

func (l Level) records() bool { return l == LevelRecords || l == LevelAll }
func (l Level) times() bool   { return l == LevelTime || l == LevelAll }

// differ has the log say which side is wrong about a slot, and how. A side that has no unit there hands over none.
func (w *comparer) differ(k cq.Key, slot int64, sq, dq cq.Queue, su, du []cq.Unit) error {
	v := w.v
	if v.level.records() {
		return nil // the audit names it
	}
	f, err := judge(v.m.dir.Log, &w.rec, k, slot, v.logEnd, [2]candidate{{v.src, su, sq}, {v.dst, du, dq}})
	if err != nil {
		return err
	}
	if v.step == "rollback" { // what a slot holds otherwise, of whatever kind, is what a rollback does not write over
		f.Code, f.Side = CodeUnitDiffers, ""
	}
	w.told = append(w.told, slot)
	v.find(k, f)
	return nil
}

// timesPerQueue is how many store times of a queue's units are searched for, each with the ones before and after it.
const timesPerQueue = 5

// times has both sides search by time.
func (w *comparer) times(k cq.Key, sq, dq cq.Queue, sb, db cq.Bounds) error {
	v := w.v
	from, to := max(sb.Min, db.Min), min(sb.Max, db.Max)
	if from >= to {
		return nil
	}
	storeTime := func(u cq.Unit) (int64, error) { return v.storeTime(u) }
	for i := range int64(timesPerQueue) {
		slot := from + (to-1-from)*i/(timesPerQueue-1)
		n, err := readUnits(sq, slot, w.a[:1])
		if err != nil || n == 0 {
			return err
		}
		at := w.a[0].StoreTimestampMs
		if at == cq.NoTimestamp {
			if at, err = storeTime(w.a[0]); err != nil || at < 0 {
				return err
			}
		}
		for _, t := range [...]int64{at - 1, at, at + 1} {
			for _, b := range [...]cq.Boundary{cq.BoundaryLower, cq.BoundaryUpper} {
				x, err := cq.OffsetByTime(sq, t, b, storeTime)
				if err != nil {
					return w.searchFailed(k, v.source, err)
				}
				y, err := cq.OffsetByTime(dq, t, b, storeTime)
				if err != nil {
					return w.searchFailed(k, v.target, err)
				}
				v.searches.Add(1)
				if x != y {
					v.find(k, Finding{Code: CodeTimeSearch, QueueOffset: x, PhyOffset: -1, Text: fmt.Sprintf("%s for time %d: offset %d on the %s side, %d on the %s side", b, t, x, v.source, y, v.target)})
					return nil
				}
			}
		}
	}
	return nil
}

func (w *comparer) searchFailed(k cq.Key, side cq.Kind, err error) error {
	if !errors.Is(err, cq.ErrCorrupt) {
		return err
	}
	f := badQueue(k, err)
	f.Side = side
	w.v.find(k, f)
	return nil
}

// storeTime reads the store time of a unit's record, a negative number when it has none that can be read.
func (v *verification) storeTime(u cq.Unit) (int64, error) {
	t, err := v.m.dir.Log.StoreTimestamp(u.PhyOffset, u.Size)
	if unreadableRecord(err) {
		return -1, nil
	}
	return t, err
}

// auditAll holds both sides against every record of the log, one worker for each processor, each with its part of the queues.
func (v *verification) auditAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := v.m
	workers := uint32(runtime.GOMAXPROCS(0))
	parts := max(auditParts(len(v.proofs)), 1)
	parts = (parts + workers - 1) / workers * workers
	logMin, size := m.dir.Log.MinOffset(), m.dir.Log.Size()
	update := m.opt.Progress.Phase(v.step+": records", int64(parts)*size, "bytes")
	var done atomic.Int64
	var next atomic.Uint32
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for part := next.Add(1) - 1; part < parts && ctx.Err() == nil; part = next.Add(1) - 1 {
				a := newAudit(ctx, m.dir.Log, v.logEnd, v.auditSides(), auditOptions{
					known: m.dir.KnownTopics, missing: m.missing(), keep: v.source, acceptTornTail: m.opt.AcceptTornTail,
				})
				a.part, a.parts, a.report = part, parts, v.add
				a.keys = func(int) iter.Seq2[cq.Key, error] { return v.keys() }
				a.notice = func(f Finding) {
					v.mu.Lock()
					defer v.mu.Unlock()
					v.notices.Add(f)
				}
				last := logMin
				a.tick = func(phy int64) {
					update(done.Add(phy - last))
					last = phy
				}
				if err := a.run(); err != nil {
					cancel(err)
					return
				}
				v.sampled.Add(a.units)
				update(done.Add(logMin + size - last))
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// keys yields those of all queues.
func (v *verification) keys() iter.Seq2[cq.Key, error] {
	return func(yield func(cq.Key, error) bool) {
		for i := range v.proofs {
			if !yield(v.proofs[i].key, nil) {
				return
			}
		}
	}
}

// auditSides are those that have to agree: after a cutover the one that reads belong to, as the other is behind.
func (v *verification) auditSides() []cq.Reader {
	if v.after {
		return []cq.Reader{v.dst}
	}
	return []cq.Reader{v.src, v.dst}
}
