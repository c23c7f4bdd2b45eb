package migrate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/failpoint"
)

// RepairResult says what a repair found and did, or (DryRun) would do.
type RepairResult struct {
	DryRun bool      `json:"dryRun"`
	Sides  []cq.Kind `json:"sides"` // that were held against the log
	Queues int       `json:"queues"`
	// Records were read, and Units are the slots that they have, over all queues.
	Records int64 `json:"records"`
	Units   int64 `json:"units"`
	// Findings are what was wrong; those with a remedy were mended. Left are those without.
	Findings Findings `json:"findings"`
	Left     Findings `json:"left"`
	// Slots were written, and Cut queues lost what stood behind their end, Dropped were removed.
	Slots   int64         `json:"slots"`
	Cut     int           `json:"cut"`
	Dropped int           `json:"dropped"`
	Notices Findings      `json:"notices"`
	Elapsed time.Duration `json:"elapsedNanos"`
}

// RepairOptions say how far a repair goes.
type RepairOptions struct {
	// Sides are those to repair, none: both where nothing says which one reads belong to, otherwise that one.
	Sides []cq.Kind
	// Renumber has queues that are shifted written as the log numbers them.
	Renumber bool
	// AcceptLoss has units behind the log's end cut off: what they were given for is lost, and their offsets are given again.
	AcceptLoss bool
}

// Repair holds the sides of a store against the log, and where the log proves one wrong has it rewritten: the unit of a slot is the one of the record that has the slot. It writes what is wrong and nothing else.
// With commit false it lists what it would do and writes nothing.
//
// Everything is named in <root>/tandemmq/repair.jsonl before it is changed, and the migration's audit trail says when. A repair that was killed is repeated: what is right already is left alone. One that finds nothing
// to do changes no byte.
//
// Errors: *RefusedError (nothing begun), *DifferentError (something is left that the log does not decide; all else was done), others (I/O; repeat).
func (m *Migrator) Repair(ctx context.Context, o RepairOptions, commit bool) (_ *RepairResult, err error) {
	start := time.Now()
	kinds, reasons := m.repairable(o)
	if len(reasons) > 0 {
		return nil, &RefusedError{Step: "repair", Reasons: reasons}
	}
	r := &repair{m: m, o: o, kinds: kinds, keep: m.sideNow(), journal: journal{path: filepath.Join(m.dir.StateDir, JournalFileName), actor: m.actor()}}
	if r.build, err = r.journal.unfinished(); err != nil {
		return nil, err
	}
	if err := r.reading(ctx); err != nil {
		return nil, err
	}
	switch {
	case commit && r.todo:
		err = r.writing(ctx)
	case commit && m.state.Phase == PhaseRepairing: // it was killed when all was done
		if err = r.journal.open(); err == nil {
			err = errors.Join(r.finish(), r.journal.close())
		}
	}
	if err != nil {
		return nil, err
	}
	r.res.DryRun, r.res.Sides, r.res.Elapsed = !commit, kinds, time.Since(start)
	if r.res.Left.Len() == 0 {
		return &r.res, nil
	}
	advice := "these were left as they are: the log does not decide them"
	switch {
	case r.res.Left.Counts[CodeUnitOutsideLog] > 0:
		advice = "units behind the end of the log were left as they are: the log may have lost its end. Restore it, or have `tandemmq store recover --mend` go on behind it, which keeps their offsets; --accept-loss cuts them off, and their offsets are given again"
	case r.res.Left.Counts[CodeShifted] > 0:
		advice = "shifted queues were left as they are, as consumers know their numbers; --renumber has them numbered as the log and the other side have them"
	case r.res.Left.Counts[CodeMissingQueue] > 0:
		advice = "queues that no side has were left out: --missing-queues build makes them from the log, skip leaves them out"
	}
	return &r.res, &DifferentError{Step: "repair", Findings: &r.res.Left, Advice: advice}
}

// mendable tells whether both sides of a migration in a running broker are filled, and reads have not moved.
func mendable(p Phase) bool {
	switch p {
	case PhaseVerifying, PhaseVerified, PhaseDiverged, PhaseRepairing:
		return true
	}
	return false
}

// repairable returns the sides to repair, and why none can be.
func (m *Migrator) repairable(o RepairOptions) (kinds []cq.Kind, reasons []string) {
	if m.brokers() && mendable(m.state.Phase) { // the broker verifies again when it is started
		reasons = append(m.uncleanReasons(), m.logReasons()...)
	} else {
		reasons = m.storeReasons()
	}
	switch m.state.Phase {
	case PhaseBackfilling:
		reasons = append(reasons, "a backfill is not complete: run it to its end first")
	case PhaseRollingBack:
		reasons = append(reasons, "a rollback is not complete: run it to its end first")
	}
	kinds = slices.Clone(o.Sides)
	if len(kinds) == 0 {
		switch m.state.Phase {
		case PhaseAbsent, PhasePlanned, PhaseVerifying, PhaseVerified, PhaseDiverged, PhaseRepairing, "":
			for _, k := range []cq.Kind{cq.KindFile, cq.KindRocks} {
				if m.dir.found(k) && (m.state.Phase != PhasePlanned || k == m.state.From) {
					kinds = append(kinds, k)
				}
			}
		default: // the other one is behind, as it should be
			kinds = []cq.Kind{m.sideNow()}
		}
	}
	if len(kinds) == 0 {
		reasons = append(reasons, "the store has no queues")
	}
	for _, k := range kinds {
		if !m.dir.found(k) {
			reasons = append(reasons, fmt.Sprintf("the store has no %s queues to repair", k))
		}
	}
	return kinds, reasons
}

// repair is one run.
type repair struct {
	m       *Migrator
	o       RepairOptions
	kinds   []cq.Kind
	keep    cq.Kind
	build   map[cq.Key]bool // a repair that was killed had removed them
	journal journal
	res     RepairResult
	todo    bool

	targets [2]Target
	pending [2][]fix
	ends    [2][]cq.QueueEnd
	dropped [2]map[cq.Key]bool
	runs    []cq.Run
	units   []cq.Unit
}

// fix is a slot and the unit that belongs there.
type fix struct {
	q    *auditQueue
	slot int64
	unit cq.Unit
}

// mendChunk is how many slots are written at once.
const mendChunk = 500_000

// reading lists what is wrong.
func (r *repair) reading(ctx context.Context) error {
	return r.m.withReaders(r.kinds, func(sides []cq.Reader) error {
		r.res = RepairResult{}
		a := r.audit(ctx, sides)
		a.report = func(f Finding) {
			r.res.Findings.Add(f)
			if r.m.opt.OnFinding != nil {
				r.m.opt.OnFinding(f)
			}
			if f.Remedy == "" {
				r.res.Left.Add(f)
			} else {
				r.todo = true
			}
		}
		return r.pass(a, "look")
	})
}

// writing does it.
func (r *repair) writing(ctx context.Context) (err error) {
	m := r.m
	if err := r.begin(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.journal.close()) }()
	sides := make([]cq.Reader, 0, len(r.kinds))
	defer func() {
		for _, t := range r.targets {
			if t != nil {
				err = errors.Join(err, t.Close())
			}
		}
	}()
	for i, k := range r.kinds {
		t, err := m.dir.OpenTarget(k)
		if err != nil {
			return err
		}
		r.targets[i] = t
		sides = append(sides, t)
	}
	a := r.audit(ctx, sides)
	a.report = func(f Finding) { r.journal.finding(f) }
	a.mend = func(q *auditQueue, side int, slot int64, u cq.Unit) error {
		r.pending[side] = append(r.pending[side], fix{q, slot, u})
		if len(r.pending[side]) < mendChunk {
			return nil
		}
		return r.write(ctx, side)
	}
	a.settle = func(q *auditQueue) error { return r.settle(ctx, a, q) }
	if err := r.pass(a, "repair"); err != nil {
		return err
	}
	complete := int64(-1)
	if r.res.Left.Len() == 0 {
		complete = a.end - 1 // as a backfill says it (F1)
	}
	for side := range r.kinds {
		if err := r.publish(ctx, side, complete); err != nil {
			return err
		}
		if c, ok := r.targets[side].(Compactor); ok {
			n, err := c.SortedRuns()
			if err == nil && n > 1 {
				err = c.Compact(ctx, func(int64, int64) {})
			}
			if err != nil {
				return err
			}
		}
	}
	return r.finish()
}

func (r *repair) audit(ctx context.Context, sides []cq.Reader) *audit {
	m := r.m
	a := newAudit(ctx, m.dir.Log, -1, sides, auditOptions{
		known: m.dir.KnownTopics, missing: m.missing(), build: r.build, renumber: r.o.Renumber, acceptLoss: r.o.AcceptLoss, keep: r.keep, acceptTornTail: m.opt.AcceptTornTail,
	})
	a.notice = r.res.Notices.Add
	return a
}

// pass reads the log once for each part of the queues.
func (r *repair) pass(a *audit, name string) error {
	parts, err := partsOf(a.sides)
	if err != nil {
		return err
	}
	r.res.Queues, r.res.Records, r.res.Units, r.res.Notices = 0, 0, 0, Findings{}
	logMin := r.m.dir.Log.MinOffset()
	update := r.m.opt.Progress.Phase(name, int64(parts)*r.m.dir.Log.Size(), "bytes")
	for part := range parts {
		one := *a
		one.part, one.parts = part, parts
		one.tick = func(phy int64) { update(int64(part)*r.m.dir.Log.Size() + phy - logMin) }
		if err := one.run(); err != nil {
			return err
		}
		a.end = one.end
		r.res.Queues += len(one.queues)
		r.res.Records = one.records
		r.res.Units += one.units
		if one.broken {
			break
		}
	}
	return nil
}

// begin says in the state and in the journal that writing begins. What was verified does not count any more. Where no verification comes next, as before a migration or after its cutover, the phase stays.
func (r *repair) begin() error {
	m := r.m
	m.state.Verified = nil
	if m.state.Online != nil {
		o := *m.state.Online
		o.Verified, o.CanaryTopics = nil, nil
		m.state.Online = &o
	}
	note := fmt.Sprintf("repair: %s", r.res.Findings.Summary())
	switch m.state.Phase {
	case PhaseVerifying, PhaseVerified:
		if err := m.state.Apply(EventDiverged, m.actor(), note, m.now()); err != nil {
			return err
		}
		fallthrough
	case PhaseDiverged, PhaseRepairing:
		if err := m.advance(EventRepairStart, note); err != nil {
			return err
		}
	default:
		if err := m.note(EventRepairStart, note); err != nil {
			return err
		}
	}
	return r.journal.open()
}

func (r *repair) finish() error {
	if err := r.journal.end(r.res.Slots); err != nil {
		return err
	}
	m := r.m
	note := fmt.Sprintf("%d slots written, %d queues cut, %d removed; %d findings left", r.res.Slots, r.res.Cut, r.res.Dropped, r.res.Left.Len())
	if m.state.Phase != PhaseRepairing {
		return m.note(EventRepairEnd, note)
	}
	if err := m.state.Apply(EventRepairEnd, m.actor(), note, m.now()); err != nil {
		return err
	}
	if r.res.Left.Len() > 0 {
		return m.advance(EventDiverged, fmt.Sprintf("left by the repair: %s", r.res.Left.Summary()))
	}
	return m.state.Save(m.dir.StateDir)
}

// write has one side take the slots that are collected.
func (r *repair) write(ctx context.Context, side int) error {
	fixes := r.pending[side]
	if len(fixes) == 0 {
		return nil
	}
	r.pending[side] = fixes[:0]
	slices.SortStableFunc(fixes, func(a, b fix) int {
		if a.q != b.q {
			return a.q.id - b.q.id
		}
		return int(min(max(a.slot-b.slot, -1), 1))
	})
	if err := r.journal.sync(); err != nil { // all of it is named there before
		return err
	}
	// A call takes one run of each queue.
	for len(fixes) > 0 {
		r.runs, r.units = r.runs[:0], r.units[:0]
		r.units = slices.Grow(r.units, len(fixes)) // runs point into it
		rest := fixes[:0]
		for i := 0; i < len(fixes); {
			q, from, begin := fixes[i].q, fixes[i].slot, len(r.units)
			for ; i < len(fixes) && fixes[i].q == q && fixes[i].slot == from+int64(len(r.units)-begin); i++ {
				r.units = append(r.units, fixes[i].unit)
			}
			r.runs = append(r.runs, cq.Run{Key: q.key, From: from, Units: r.units[begin:]})
			for ; i < len(fixes) && fixes[i].q == q; i++ {
				rest = append(rest, fixes[i])
			}
			if err := r.clear(ctx, side, q); err != nil {
				return err
			}
		}
		if err := r.importRuns(ctx, side); err != nil {
			return err
		}
		r.res.Slots += int64(len(r.units))
		failpoint.Hit(failpoint.ChunkImported)
		fixes = rest
	}
	return nil
}

// importRuns imports all runs at once; where slots between a queue's end and a run have no record, the queue goes on behind them.
func (r *repair) importRuns(ctx context.Context, side int) error {
	t := r.targets[side]
	for {
		err := t.Import(ctx, r.runs)
		var gap *cq.GapError
		sk, ok := t.(cq.Skipper)
		if !errors.As(err, &gap) || !ok {
			return err
		}
		if err := sk.Skip(ctx, gap.Key, gap.Want); err != nil {
			return err
		}
	}
}

// clear removes the files of a queue that are no run of files, before the queue is written anew.
func (r *repair) clear(ctx context.Context, side int, q *auditQueue) error {
	if s := &q.sides[side]; s.readable() || r.kinds[side] != cq.KindFile || r.dropped[side][q.key] {
		return nil
	}
	return r.drop(ctx, side, q.key)
}

// drop removes a queue. The journal keeps that it was there, should this process not come to make it anew.
func (r *repair) drop(ctx context.Context, side int, k cq.Key) error {
	r.journal.dropped(k, r.kinds[side])
	if err := r.journal.sync(); err != nil {
		return err
	}
	if r.dropped[side] == nil {
		r.dropped[side] = make(map[cq.Key]bool)
	}
	r.dropped[side][k] = true
	return r.targets[side].DropQueue(ctx, k)
}

// settle ends a queue where it should end.
func (r *repair) settle(ctx context.Context, a *audit, q *auditQueue) error {
	for side := range r.kinds {
		s := &q.sides[side]
		if !s.mended && !s.cutting && !s.gone {
			continue
		}
		if err := r.write(ctx, side); err != nil {
			return err
		}
		if err := r.journal.sync(); err != nil {
			return err
		}
		if s.gone {
			r.res.Dropped++
			if err := r.drop(ctx, side, q.key); err != nil {
				return err
			}
			continue
		}
		if s.cutting {
			r.res.Cut++
			if err := r.targets[side].(cq.Trimmer).TrimQueue(ctx, q.key, max(s.cut, s.met)); err != nil {
				return err
			}
		}
		if err := r.end(ctx, a, side, q); err != nil {
			return err
		}
	}
	return nil
}

// end collects where a queue ends, to be published.
func (r *repair) end(ctx context.Context, a *audit, side int, q *auditQueue) error {
	s := &q.sides[side]
	e := cq.QueueEnd{Key: q.key, Max: max(s.next(), s.raise)}
	if e.Max <= 0 {
		return nil
	}
	switch {
	case s.lastSlot < 0:
		e.Min, e.MinPhyOffset = e.Max, max(a.log.MinOffset(), 0)
	default:
		e.Min, e.MinPhyOffset = s.firstSlot, s.firstPhy
		if s.lastSlot == e.Max-1 {
			e.LastPhyOffset = s.lastPhy
		}
	}
	if sk, ok := r.targets[side].(cq.Skipper); ok && r.kinds[side] == cq.KindFile && (s.lastSlot >= 0 || s.there() && s.readable()) {
		return sk.Skip(ctx, q.key, e.Max) // files say by themselves where a queue ends
	}
	if r.ends[side] = append(r.ends[side], e); len(r.ends[side]) < publishBatch {
		return nil
	}
	return r.publish(ctx, side, -1)
}

func (r *repair) publish(ctx context.Context, side int, complete int64) error {
	if err := r.write(ctx, side); err != nil {
		return err
	}
	ends := r.ends[side]
	r.ends[side] = r.ends[side][:0]
	if err := r.targets[side].Publish(ctx, ends, complete); err != nil {
		return err
	}
	return r.targets[side].Flush(ctx)
}

// withReaders opens sides read-only for fn.
func (m *Migrator) withReaders(kinds []cq.Kind, fn func(sides []cq.Reader) error) (err error) {
	var sides []cq.Reader
	for _, k := range kinds {
		s, err := m.openReader(k)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		sides = append(sides, s)
	}
	return fn(sides)
}

// partsOf tells in how many parts the queues of some sides are dealt with.
func partsOf(sides []cq.Reader) (uint32, error) {
	most := 0
	for _, s := range sides {
		n := 0
		for _, err := range possibleKeys(s) {
			if err != nil {
				return 0, err
			}
			n++
		}
		most = max(most, n)
	}
	return max(auditParts(most), 1), nil
}

// note writes an entry of the audit trail that moves nothing.
func (m *Migrator) note(event Event, text string) error {
	m.state.History = append(m.state.History, HistoryEntry{Time: m.now().UTC().Truncate(time.Millisecond), Event: event, Phase: m.state.Phase, Actor: m.actor(), Note: text})
	return m.state.Save(m.dir.StateDir)
}

// missing is what was asked for now, or what the backfill was told.
func (m *Migrator) missing() MissingQueues {
	if m.opt.Missing == MissingRefuse && m.state.Missing != "" {
		return m.state.Missing
	}
	return m.opt.Missing
}
