package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/failpoint"
)

// BackfillResult says what a backfill did.
type BackfillResult struct {
	Nothing     bool          `json:"nothing"`     // already cut over: nothing was done
	ResumedFrom int64         `json:"resumedFrom"` // physical offset, -1 when begun at the log's start
	LogEnd      int64         `json:"logEnd"`      // physical offset up to which rows are published
	Records     int64         `json:"records"`     // records read in this run
	Units       int64         `json:"units"`       // units written in this run
	Queues      int           `json:"queues"`
	Load        time.Duration `json:"loadNanos"`       // from the start until everything was durable
	Compaction  time.Duration `json:"compactionNanos"` // afterwards
	Notices     Findings      `json:"notices"`
}

// UnitsPerSecond is the rate until everything was durable, compaction not counted.
func (r *BackfillResult) UnitsPerSecond() float64 {
	if r.Load <= 0 {
		return 0
	}
	return float64(r.Units) / r.Load.Seconds()
}

// Backfill fills the target with every unit of the source: one pass over the log, joined with the source's units. It
// resumes where an earlier run stopped, unless Options.Restart is set.
//
// Errors: *RefusedError (nothing begun), *DifferentError (the store is damaged, or the target holds what the source does
// not; the source is untouched and a target made by this migration is removed again), others (I/O; repeat to resume).
func (m *Migrator) Backfill(ctx context.Context) (*BackfillResult, error) {
	if m.done() {
		return &BackfillResult{Nothing: true, ResumedFrom: -1, LogEnd: m.state.BackfilledTo}, m.overtaken(ctx, "backfill")
	}
	reasons := append(m.preconditions(m.from()), m.unwritable()...)
	if m.state.Phase == PhaseCutover || m.state.Phase == PhaseRollingBack {
		reasons = append(reasons, fmt.Sprintf("the migration from %s to %s is %s: use rollback", m.state.From, m.state.To, m.state.Phase))
	}
	if m.state.Phase == PhaseRepairing && !m.opt.Restart {
		reasons = append(reasons, reasonRepairing)
	}
	if side, ok := m.state.Active(); ok && side == m.opt.To && !m.opt.Restart {
		reasons = append(reasons, fmt.Sprintf("reads belong to the %s side already (the migration from %s to %s is %s); --restart begins one in this direction all the same",
			side, m.state.From, m.state.To, m.state.Phase))
	}
	if len(reasons) > 0 {
		return nil, &RefusedError{Step: "backfill", Reasons: reasons}
	}
	resume := !m.opt.Restart && m.state.From == m.from() && m.state.To == m.opt.To &&
		m.state.RocksLayout == m.dir.RocksLayout && m.dir.found(m.opt.To)
	switch m.state.Phase {
	case PhaseBackfilling, PhaseVerifying, PhaseVerified, PhaseDiverged:
	default:
		resume = false
	}
	before := *m.state
	if !resume {
		if err := m.state.Apply(EventPlan, m.actor(), "", m.now()); err != nil {
			return nil, err
		}
		m.state.From, m.state.To = m.from(), m.opt.To
		m.state.RocksLayout, m.state.CQFileSize = m.dir.RocksLayout, m.dir.CQFileSize
		m.state.TargetCreated = !m.dir.found(m.opt.To)
		m.state.BackfilledTo, m.state.Verified, m.state.Notices, m.state.BuiltQueues = -1, nil, nil, nil
		m.state.Online, m.state.Kept = nil, ""
	}
	f := &fill{
		m: m, step: "backfill", from: m.from(), to: m.opt.To,
		join: joinOptions{known: m.dir.KnownTopics, missing: m.opt.Missing, acceptTornTail: m.opt.AcceptTornTail},
	}
	res, err := f.run(ctx)
	if err != nil {
		if !f.begun {
			*m.state = before // nothing was written: the state file still says what it said
		}
		return nil, err
	}
	return res, nil
}

// fill brings one side up to the other: the engine of Backfill and of Rollback.
type fill struct {
	m        *Migrator
	step     string
	from, to cq.Kind
	join     joinOptions
	rollback bool // the target is the old side, which may hold more than the source, and must not be overwritten
	fromLog  bool // from == to: the side is brought up from the log alone
	dry      bool // only look whether the fill would begin

	begun   bool // the target may have been written
	target  Target
	drop    []cq.Key
	written int64
	// chunkUnits is how many rows are collected for one import.
	chunkUnits int
	j          *join
	res        BackfillResult
	chunk      chunk
	imports    importer
}

// begin is the event applied before the first write.
func (f *fill) begin() Event {
	if f.rollback || f.fromLog {
		return EventRollbackStart
	}
	return EventBackfillStart
}

// chunk collects rows in log order.
type chunk struct {
	units   []cq.Unit
	owners  []uint32 // cursor ids
	touched []*cursor
}

func (f *fill) run(ctx context.Context) (_ *BackfillResult, err error) {
	start := time.Now()
	m := f.m
	source, err := m.dir.OpenReader(f.from)
	if err != nil && f.rollback {
		err = fmt.Errorf("%w; where the %s side is lost, --from-log brings the %s side up from the log alone", err, f.from, f.to)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()

	resumeAt := m.state.BackfilledTo
	if len(m.state.BuiltQueues) > 0 || f.join.missing == MissingBuild {
		resumeAt = -1 // a queue without a source has no place to resume from
	}
	j, err := newJoin(ctx, m.dir.Log, source, f.join)
	if err != nil {
		return nil, err
	}
	f.j = j
	if j.found.Len() > 0 {
		return nil, f.different(&j.found)
	}
	if f.to == cq.KindFile {
		for _, c := range j.cursors {
			if !fileName(c.key.Topic) {
				return nil, &RefusedError{Step: f.step, Reasons: []string{nameReason(c.key)}}
			}
		}
	}
	if err := f.checkTarget(ctx, source); err != nil {
		return nil, err
	}
	if f.fromLog || len(f.drop) > 0 && !f.rollback {
		resumeAt = -1
	}
	if err := f.checkSpace(resumeAt); err != nil || f.dry {
		return &f.res, err
	}
	switch {
	case f.rollback:
		if resumeAt, err = f.seekRollback(resumeAt); err != nil {
			return nil, err
		}
	case resumeAt >= 0:
		if err := j.seek(resumeAt); err != nil {
			return nil, err
		}
	}
	f.res = BackfillResult{ResumedFrom: resumeAt, Queues: len(j.cursors)}

	end, err := f.pass(ctx, resumeAt)
	if err == nil && j.found.Len() > 0 {
		err = f.different(&j.found)
	}
	if err == nil {
		err = f.publish(ctx, end)
	}
	if err != nil {
		return nil, f.abandon(err)
	}
	f.res.LogEnd, f.res.Records, f.res.Units, f.res.Queues = end, j.records, f.written, len(j.cursors)
	f.res.Notices = j.notices
	f.res.Load = time.Since(start)

	if err := f.finish(ctx); err != nil {
		return nil, err
	}
	res := f.res // not a pointer into f, which holds every queue
	return &res, nil
}

// checkSpace refuses a fill that would run out of disk (FR-G08). A resumed one has part of its rows already.
func (f *fill) checkSpace(resumeAt int64) error {
	var units int64
	for _, c := range f.j.cursors {
		units += max(c.bounds.Max-c.bounds.Min, 0)
	}
	// The chunks are allocated once, as large as they will be.
	n := int(min(units, int64(f.m.opt.ChunkUnits)))
	if len(f.j.cursors) > manyQueues { // their own memory counts then
		n = min(n, f.m.opt.ChunkUnits/4)
	}
	f.chunkUnits = max(n, 1)
	f.chunk.units, f.chunk.owners = make([]cq.Unit, 0, n), make([]uint32, 0, n)
	if resumeAt >= 0 {
		return nil
	}
	need := diskNeeded(f.to, units, int64(len(f.j.cursors)))
	if f.m.peak > 0 && !f.rollback && !f.fromLog {
		need = f.m.peak // it was measured
	}
	free, err := f.m.dir.FreeBytes()
	if err != nil {
		return err
	}
	if free < need {
		return &RefusedError{Step: f.step, Reasons: []string{spaceReason(f.to, need, free)}}
	}
	return nil
}

func (f *fill) different(found *Findings) error {
	d := &DifferentError{Step: f.step, Findings: found}
	if f.begin() == EventBackfillStart {
		d.Advice = fmt.Sprintf("the %s queues were not touched", f.from)
	}
	return d
}

// pass joins the log from resumeAt on and imports the rows chunk by chunk. It returns the log's end.
func (f *fill) pass(ctx context.Context, resumeAt int64) (int64, error) {
	m, j := f.m, f.j
	startAt, last := max(resumeAt, m.dir.Log.MinOffset()), int64(0)
	for _, c := range j.cursors {
		last = max(last, c.bounds.MaxPhyOffset)
	}
	m.state.BackfillFrom, m.state.BackfillEnd = startAt, last
	update := m.opt.Progress.Phase("backfill", max(last-startAt, 0), "bytes")
	j.tick = func(phy int64) error {
		update(phy - startAt)
		return nil
	}
	j.emit = func(c *cursor, slot int64, u cq.Unit) error {
		if f.fromLog && slot < c.had {
			return nil // it is there, and now proven
		}
		if c.chunkCount == 0 {
			c.chunkFrom = slot
			f.chunk.touched = append(f.chunk.touched, c)
		}
		c.chunkCount++
		f.written++
		f.chunk.units = append(f.chunk.units, u)
		f.chunk.owners = append(f.chunk.owners, c.id)
		return nil
	}
	j.between = func(phy int64) error {
		if len(f.chunk.units) < f.chunkUnits {
			return nil
		}
		return f.hand(ctx, phy)
	}
	end, err := j.run(resumeAt)
	if err == nil && end >= 0 {
		update(end - startAt)
	}
	if err == nil && j.found.Len() == 0 && len(f.chunk.units) > 0 {
		err = f.hand(ctx, end)
	}
	return end, errors.Join(err, f.imports.wait())
}

// hand gives the collected rows to the importer. upTo is the physical offset that they cover.
func (f *fill) hand(ctx context.Context, upTo int64) error {
	if err := f.open(ctx); err != nil {
		return err
	}
	if err := f.imports.wait(); err != nil { // its arrays are free again
		return err
	}
	runs := f.imports.gather(&f.chunk, f.j.cursors)
	counts := make(map[Code]int64, len(f.j.notices.Counts))
	for c, n := range f.j.notices.Counts {
		counts[c] = n
	}
	f.imports.start(func() error {
		if err := f.target.Import(ctx, runs); err != nil {
			return err
		}
		if _, err := f.merge(ctx, maxSortedRuns); err != nil {
			return err
		}
		failpoint.Hit(failpoint.ChunkImported)
		f.m.state.BackfilledTo, f.m.state.Notices = upTo, counts
		return f.m.state.Save(f.m.dir.StateDir)
	})
	return nil
}

// open makes the state say that writing begins, then opens the target.
func (f *fill) open(ctx context.Context) error {
	if f.target != nil {
		return nil
	}
	m := f.m
	f.begun = true
	if err := m.advance(f.begin(), ""); err != nil {
		return err
	}
	t, err := m.dir.OpenTarget(f.to)
	if err != nil {
		return err
	}
	f.target = t
	m.dir.setFound(f.to, true)
	for _, k := range f.drop {
		if err := t.DropQueue(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

const (
	publishBatch = 50_000  // queues made visible at once
	manyQueues   = 200_000 // from here on smaller chunks
)

// publish makes the whole target visible: queue by queue, and last, with the final batch, up to where it is complete.
func (f *fill) publish(ctx context.Context, end int64) error {
	if err := f.open(ctx); err != nil {
		return err
	}
	f.chunk, f.imports = chunk{}, importer{} // the target learns its queues now, which takes memory as well
	logMin := f.m.dir.Log.MinOffset()
	ends := make([]cq.QueueEnd, 0, min(len(f.j.cursors), publishBatch))
	for _, c := range f.j.cursors {
		b := c.bounds
		if b.Max <= 0 {
			continue
		}
		e := cq.QueueEnd{Key: c.key, Min: b.Min, MinPhyOffset: b.MinPhyOffset, Max: b.Max, LastPhyOffset: max(b.LastPhyOffset, 0)}
		if b.Empty() {
			e.Min, e.MinPhyOffset = b.Max, logMin
		}
		if err := f.trim(ctx, c); err != nil {
			return err
		}
		if len(ends) == publishBatch {
			if err := f.target.Publish(ctx, ends, -1); err != nil {
				return err
			}
			ends = ends[:0]
		}
		ends = append(ends, e)
	}
	// RocketMQ 5.5.0 resumes dispatch strictly above what it finds here (F1): said of end itself, the record that will be
	// written there would be skipped, should a broker in file mode write it before one with RocksDB starts.
	if err := f.target.Publish(ctx, ends, end-1); err != nil {
		return err
	}
	failpoint.Hit(failpoint.BackfillComplete)
	for _, c := range f.j.built {
		f.m.state.BuiltQueues = append(f.m.state.BuiltQueues, c.key.String())
	}
	f.m.state.BackfilledTo, f.m.state.Notices = end, f.j.notices.Counts
	return nil
}

// trim removes rows behind the end of a queue that was in the target before: a truncation of RocketMQ left them (F30).
func (f *fill) trim(ctx context.Context, c *cursor) error {
	t, ok := f.target.(cq.Trimmer)
	if !ok || f.m.state.TargetCreated || f.rollback {
		return nil
	}
	if at, err := t.UnitFrom(c.key, c.bounds.Max); err != nil || at < 0 {
		return err
	}
	return t.TrimQueue(ctx, c.key, c.bounds.Max)
}

// finish records the end of the fill and lets the target tidy up.
func (f *fill) finish(ctx context.Context) (err error) {
	m := f.m
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, f.target.Close())
		}
	}()
	if f.begin() == EventBackfillStart {
		m.state.Missing = f.join.missing
		m.state.TargetCreated = false // from here on it may hold what others wrote
		if err := m.advance(EventBackfillEnd, fmt.Sprintf("%d units up to %d", f.res.Units, f.res.LogEnd)); err != nil {
			return err
		}
	}
	start := time.Now()
	if merged, err := f.merge(ctx, 1); err != nil {
		return err
	} else if merged {
		f.res.Compaction = time.Since(start)
	}
	closed = true
	return f.target.Close()
}

// merge compacts the target when it holds more than limit sorted runs.
func (f *fill) merge(ctx context.Context, limit int) (merged bool, err error) {
	c, ok := f.target.(Compactor)
	if !ok {
		return false, nil
	}
	n, err := c.SortedRuns()
	if err != nil || n <= limit {
		return false, err
	}
	update := f.m.opt.Progress.Phase("compact", 0, "bytes")
	return true, c.Compact(ctx, func(done, _ int64) { update(done) })
}

// abandon ends a failed fill. Damage voids what was written: a target that this migration made is removed, so that the
// directory is as it was. Any other error leaves it in place, to be resumed.
func (f *fill) abandon(cause error) error {
	if f.target != nil {
		cause = errors.Join(cause, f.target.Close())
	}
	var de *DifferentError
	if !f.begun || !errors.As(cause, &de) || f.begin() != EventBackfillStart {
		return cause
	}
	m := f.m
	m.state.BackfilledTo = -1
	if err := m.state.Save(m.dir.StateDir); err != nil {
		return errors.Join(cause, err)
	}
	if m.state.TargetCreated {
		if err := m.removeTarget(f.to); err != nil {
			return errors.Join(cause, err)
		}
	}
	return errors.Join(cause, m.advance(EventBackfillCancel, de.Findings.Summary()))
}

// importer runs one import beside the scan.
type importer struct {
	sorted []cq.Unit
	runs   []cq.Run
	busy   chan error
}

func (im *importer) start(work func() error) {
	im.busy = make(chan error, 1)
	go func(done chan<- error) { done <- work() }(im.busy)
}

// wait returns the outcome of the import under way, nil when there is none.
func (im *importer) wait() error {
	if im.busy == nil {
		return nil
	}
	err := <-im.busy
	im.busy = nil
	return err
}

// gather sorts a chunk by queue (a counting sort: rows of one queue are in slot order already) and empties it. The runs
// are valid until the next gather.
func (im *importer) gather(c *chunk, cursors []*cursor) []cq.Run {
	if cap(im.sorted) < len(c.units) {
		im.sorted = make([]cq.Unit, 0, max(len(c.units), cap(c.units)))
	}
	im.sorted = im.sorted[:len(c.units)]
	im.runs = im.runs[:0]
	at := 0
	for _, q := range c.touched {
		im.runs = append(im.runs, cq.Run{Key: q.key, From: q.chunkFrom, Units: im.sorted[at : at+int(q.chunkCount)]})
		q.chunkAt = int32(at)
		at += int(q.chunkCount)
		q.chunkCount = 0
	}
	for i, owner := range c.owners {
		q := cursors[owner]
		im.sorted[q.chunkAt] = c.units[i]
		q.chunkAt++
	}
	c.units, c.owners, c.touched = c.units[:0], c.owners[:0], c.touched[:0]
	return im.runs
}
