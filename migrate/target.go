package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tandemq/tandemmq/cq"
)

// checkTarget looks, without writing, for what the target holds and the source does not. What may be dropped on request goes
// into f.drop.
func (f *fill) checkTarget(ctx context.Context, source cq.Reader) error {
	m := f.m
	if !m.dir.found(f.to) || f.fromLog {
		return nil
	}
	var found, bad Findings
	judge := f.judgeTarget
	if f.rollback {
		judge = f.judgeOldSide
	}
	err := m.reading(f.to, func(target cq.Store) error {
		return eachQueue(ctx, target, &bad, func(k cq.Key, tq cq.Queue, tb cq.Bounds) error {
			sq, ok := source.Queue(k)
			if !ok {
				sq = nil
			}
			fd, err := judge([2]cq.Reader{source, target}, k, sq, tq, tb)
			if err == nil && fd.Code != "" {
				found.Add(fd)
				f.drop = append(f.drop, k)
			}
			return err
		})
	})
	remove := m.opt.Restart && m.opt.ReplaceTarget && !f.rollback
	var advice string
	switch {
	case (err != nil || bad.Len() > 0) && remove:
		m.state.TargetCreated = true
		return m.removeTarget(f.to) // it cannot even be read: away with it, as asked
	case err != nil && !f.rollback:
		return unreadable(err, f.to)
	case err != nil:
		return err
	case bad.Len() > 0 && f.rollback && m.opt.ReplaceTarget:
		for _, fd := range bad.First {
			f.drop = append(f.drop, cq.Key{Topic: fd.Topic, QueueID: fd.QueueID})
		}
		if int64(len(bad.First)) < bad.Len() {
			return &DifferentError{Step: f.step, Findings: &bad, Advice: fmt.Sprintf("too much of the %s side is damaged: move it away and repeat", f.to)}
		}
	case bad.Len() > 0:
		found.Merge(&bad)
		advice = fmt.Sprintf("the %s side is damaged; nothing was changed. If nothing in it is needed, --restart --replace-target removes it and begins anew", f.to)
	}
	if found.Len() == 0 || m.opt.ReplaceTarget {
		return nil
	}
	switch {
	case f.rollback:
		advice = fmt.Sprintf("nothing was changed. If the %s side is right, repeat with --replace-target: it makes these queues of the %s side anew", f.from, f.to)
	case advice == "":
		advice = fmt.Sprintf("the %s side holds more than the %s side, so it is not plainly older; nothing was changed. `migrate repair --dry-run` has the log say which side is wrong; if the %s side is right, repeat with --replace-target",
			f.to, f.from, f.from)
	}
	return &DifferentError{Step: f.step, Findings: &found, Advice: advice}
}

// unreadable adds the way out to the error of a target that cannot be opened or listed.
func unreadable(err error, to cq.Kind) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w; if nothing in the %s side is needed, --restart --replace-target removes it and begins anew", err, to)
}

// judgeTarget looks at a queue of the target of a new migration: it may be behind the source, not ahead of it.
func (f *fill) judgeTarget(_ [2]cq.Reader, k cq.Key, sq, tq cq.Queue, tb cq.Bounds) (none Finding, err error) {
	switch {
	case sq != nil:
		sb, err := sq.Bounds()
		if err != nil || tb.Max <= sb.Max {
			return none, err
		}
		fd := queueFinding(CodeMaxDiffers, k, fmt.Sprintf("the %s side goes to %d, the %s side only to %d", f.to, tb.Max, f.from, sb.Max))
		fd.QueueOffset, fd.Where = sb.Max, tq.Where(sb.Max)
		return fd, nil
	case k.IsLMQ() && f.to == cq.KindRocks:
		f.j.notices.Add(queueFinding(CodeKeptTarget, k, "a light queue that only RocksDB holds: kept"))
		return none, nil
	case f.m.state.Built(k), tb.Empty():
		return none, nil
	}
	return queueFinding(CodeOnlyInTarget, k, fmt.Sprintf("only the %s side holds it, with %d units", f.to, tb.Max-tb.Min)), nil
}

// judgeOldSide looks at a queue of the side that reads are to go back to. It may be behind, and it may be ahead by what was
// written to it since the cutover, which the log proves later. It may not disagree where both hold a slot: then the topic was
// deleted and made anew on the other side, or the queue is damaged, and filling it would overwrite units.
func (f *fill) judgeOldSide(sides [2]cq.Reader, k cq.Key, sq, tq cq.Queue, tb cq.Bounds) (none Finding, err error) {
	if sq == nil {
		v := f.m.state.Verified
		if tb.Empty() || f.m.state.Built(k) || v != nil && tb.LastPhyOffset >= v.LogEnd {
			return none, nil
		}
		return queueFinding(CodeOnlyInTarget, k, fmt.Sprintf("the %s side does not hold it any more: its topic was deleted since the cutover", f.from)), nil
	}
	sb, err := sq.Bounds()
	if err != nil {
		return none, err
	}
	if !tb.Empty() && !sb.Empty() && tb.Min > sb.Min {
		fd := queueFinding(CodeMissingUnits, k, fmt.Sprintf("it begins at %d on the %s side, at %d on the %s side: its first files are missing", tb.Min, f.to, sb.Min, f.from))
		fd.QueueOffset, fd.Where = sb.Min, tq.Where(sb.Min)
		return fd, nil
	}
	from, to := max(sb.Min, tb.Min), min(sb.Max, tb.Max)
	if from >= to {
		if tb.Empty() || tb.Max <= sb.Min {
			return none, nil // what lies between has expired
		}
		return queueFinding(CodeMaxDiffers, k, fmt.Sprintf("[%d, %d) on the %s side, [%d, %d) on the %s side: not the same queue", sb.Min, sb.Max, f.from, tb.Min, tb.Max, f.to)), nil
	}
	if !f.m.opt.ReplaceTarget {
		from = to - 1 // units ascend on both sides: where the last one agrees, the comparison afterwards may begin
	}
	slot, err := firstDifference(sides, k, sq, tq, from, to)
	if err != nil || slot < 0 {
		return none, err
	}
	fd := queueFinding(CodeUnitDiffers, k, fmt.Sprintf("slot %d holds another record on the %s side than on the %s side", slot, f.to, f.from))
	fd.QueueOffset, fd.Where = slot, tq.Where(slot)
	return fd, nil
}

// firstDifference returns the first slot of [from, to) at which two queues do not hold the same unit, -1 when there is none.
func firstDifference(sides [2]cq.Reader, k cq.Key, a, b cq.Queue, from, to int64) (int64, error) {
	ua, ub := make([]cq.Unit, compareBatch), make([]cq.Unit, compareBatch)
	for from < to {
		n, err := a.Read(from, ua[:min(int64(len(ua)), to-from)])
		if err != nil {
			return -1, err
		}
		m, err := b.Read(from, ub[:max(n, 1)])
		if err != nil && !errors.Is(err, cq.ErrCorrupt) {
			return -1, err
		}
		n = min(n, m)
		if n == 0 {
			return from, nil
		}
		for i := range n {
			if !sameUnit(k, sides[0], sides[1], &ua[i], &ub[i]) {
				return from + int64(i), nil
			}
		}
		from += int64(n)
	}
	return -1, nil
}

// removeTarget takes away the files of a side that is to be made anew.
func (m *Migrator) removeTarget(k cq.Kind) error {
	if err := m.dir.RemoveTarget(k); err != nil {
		return err
	}
	m.dir.setFound(k, false)
	return nil
}

// seekRollback points the join at what the old side lacks, whatever was recorded: the old side itself tells.
func (f *fill) seekRollback(from int64) (start int64, err error) {
	seek := func(old cq.Reader) error {
		start, err = f.j.seekBehind(old, from)
		return err
	}
	if from < 0 {
		from = f.m.dir.Log.MinOffset()
	}
	if !f.m.dir.found(f.to) {
		return start, seek(nil)
	}
	err = f.m.reading(f.to, func(s cq.Store) error { return seek(without{s, f.drop}) })
	return start, err
}

// without hides queues that are about to be dropped.
type without struct {
	cq.Reader
	dropped []cq.Key
}

func (w without) Queue(k cq.Key) (cq.Queue, bool) {
	if slices.Contains(w.dropped, k) {
		return nil, false
	}
	return w.Reader.Queue(k)
}
