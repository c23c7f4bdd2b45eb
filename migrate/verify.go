package migrate

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// VerifyResult says what a verification compared.
type VerifyResult struct {
	Level       Level         `json:"level"`
	Queues      int           `json:"queues"`
	Units       int64         `json:"units"`    // compared one by one
	Samples     int64         `json:"samples"`  // records decoded and compared
	Searches    int64         `json:"searches"` // by time, answered by both sides
	Fingerprint Fingerprint   `json:"fingerprint"`
	Notices     Findings      `json:"notices"`
	Elapsed     time.Duration `json:"elapsedNanos"`
}

// Verify compares the two sides, as far as Options.Level says: for every queue max, min, min physical offset and every unit in [min, max), and a sample of records, or all of them, decoded (topic,
// queue id, queue offset, size, tags, store time). On success it writes the certificate that Cutover asks for; at LevelCounts, which proves too little, it only compares.
//
// What differs is held against the log, which says which side is wrong and how.
//
// After the cutover it only compares, and changes nothing: the target may have gone on past the source, as it does when
// a broker writes RocksDB alone, where the log proves what was added; the source may not have.
//
// Errors: *RefusedError (no complete backfill to verify), *DifferentError (exit code 3), others (I/O).
func (m *Migrator) Verify(ctx context.Context) (*VerifyResult, error) {
	if m.done() {
		if reasons := m.preconditions(m.state.To); len(reasons) > 0 {
			return nil, &RefusedError{Step: "verify", Reasons: reasons}
		}
		return m.verifyAfter(ctx)
	}
	if reasons := m.verifiable(); len(reasons) > 0 {
		return nil, &RefusedError{Step: "verify", Reasons: reasons}
	}
	v := &verification{m: m, step: "verify", source: m.state.From, target: m.state.To, samples: m.opt.Samples, level: m.opt.Level}
	res, err := v.run(ctx)
	var de *DifferentError
	if errors.As(err, &de) {
		m.state.Verified = nil
		return nil, errors.Join(err, m.advance(EventDiverged, de.Findings.Summary()))
	}
	if err != nil {
		return nil, err
	}
	if v.level == LevelCounts {
		return res, nil
	}
	if err := v.writeCertificate(&res.Fingerprint); err != nil {
		return nil, err
	}
	m.state.Verified = &res.Fingerprint
	note := fmt.Sprintf("level %s: %d queues, %d units, %d records, digest %s", res.Level, res.Queues, res.Units, res.Samples, res.Fingerprint.Digest)
	return res, m.advance(EventVerified, note)
}

// verifiable lists why there is nothing to verify.
func (m *Migrator) verifiable() []string {
	var r []string
	switch m.state.Phase {
	case PhaseVerifying, PhaseVerified, PhaseDiverged:
		if m.state.To != m.opt.To {
			r = append(r, fmt.Sprintf("the migration under way goes from %s to %s: add --to %s", m.state.From, m.state.To, m.state.To))
		} else {
			r = append(r, m.preconditions(m.state.From)...)
			if !m.dir.found(m.state.To) {
				r = append(r, fmt.Sprintf("the %s side is gone: run backfill again", m.state.To))
			}
		}
	case PhaseRepairing:
		r = append(r, reasonRepairing)
	default:
		r = append(r, fmt.Sprintf("no backfill is complete (the migration is %s): run backfill first", m.state.Phase))
	}
	return r
}

const reasonRepairing = "a repair is not complete: run `tandemmq migrate repair` to its end first"

// verification compares two sides of one directory.
type verification struct {
	m              *Migrator
	step           string
	source, target cq.Kind
	level          Level
	samples        int  // records to decode over all queues; 0: none
	targetAhead    bool // the target may go on past the source where the log proves it
	after          bool // the migration is over: the log may have grown since

	src, dst cq.Store
	reads    [2]sideReader // of src and dst
	proofs   []proof
	ends     [2]atomic.Int64 // of the last record that a queue of src, or dst, leads to
	perQueue int

	mu      sync.Mutex
	found   Findings
	notices Findings

	units, sampled, searches atomic.Int64
	differing                atomic.Int64 // slots that were left to the audit

	logEnd int64
}

// proof is what the certificate says of one queue.
type proof struct {
	key    cq.Key
	bounds cq.Bounds
	crc    uint32
	side   proofSide
}

// proofSide says who has a queue. In the certificate it is a word.
type proofSide uint8

const (
	onNone   proofSide = iota // none, after all
	onBoth                    // the source; the target should
	onTarget                  // the target alone
)

func (s proofSide) String() string {
	return [...]string{onNone: "none", onBoth: "both", onTarget: "target"}[s]
}

func (v *verification) run(ctx context.Context) (_ *VerifyResult, err error) {
	start := time.Now()
	m := v.m
	end, err := logEnd(m.dir.Log, m.opt.AcceptTornTail)
	if err != nil {
		return nil, err
	}
	if end != m.state.BackfilledTo && !v.after {
		return nil, &RefusedError{Step: v.step, Reasons: []string{
			fmt.Sprintf("the log ends at %d, the backfill covers it up to %d: run backfill again, it goes on from there", end, m.state.BackfilledTo),
		}}
	}
	if v.level == "" {
		v.level = LevelUnits
	}
	v.logEnd = end
	if v.src, err = m.openReader(v.source); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.src.Close()) }()
	v.ends[0].Store(-1)
	v.ends[1].Store(-1)
	if v.dst, err = m.openReader(v.target); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.dst.Close()) }()

	v.reads = [2]sideReader{newSideReader(v.src), newSideReader(v.dst)}
	if err := v.list(); err != nil {
		return nil, err
	}
	if err := v.compareAll(ctx); err != nil {
		return nil, err
	}
	v.proofs = slices.DeleteFunc(v.proofs, func(p proof) bool { return p.side == onNone })
	if v.level.records() {
		if err := v.auditAll(ctx); err != nil {
			return nil, err
		}
	}
	if n := v.differing.Load(); n > 0 && v.found.Len() == 0 {
		v.add(Finding{Code: CodeUnitDiffers, QueueOffset: -1, PhyOffset: -1, Slots: n, Text: fmt.Sprintf("%d slots differ, of which the log has no record that says which side is right", n)})
	}
	if v.found.Len() > 0 {
		advice := fmt.Sprintf("reads stay with the %s side. `migrate repair --dry-run` lists what the log proves wrong on each side, and repair mends it", v.source)
		switch {
		case v.after:
			advice = adviceOvertaken
		case v.step == "rollback":
			advice = fmt.Sprintf("reads stay with the %s side. If it is right, repeat with --replace-target: it makes these queues of the %s side anew", v.source, v.target)
		}
		return nil, &DifferentError{Step: v.step, Findings: &v.found, Advice: advice}
	}
	fp := Fingerprint{
		LogMin: m.dir.Log.MinOffset(), LogEnd: end, Queues: len(v.proofs), Units: v.units.Load(), Digest: digest(v.proofs),
		SourceDispatchFrom: v.dispatchFrom(0), TargetDispatchFrom: v.dispatchFrom(1), Time: m.now().UTC().Truncate(time.Millisecond),
	}
	return &VerifyResult{
		Level: v.level, Searches: v.searches.Load(), Queues: fp.Queues, Units: fp.Units, Samples: v.sampled.Load(), Fingerprint: fp, Notices: v.notices, Elapsed: time.Since(start),
	}, nil
}

// logEnd returns the end of the log's last record.
func logEnd(log *commitlog.Log, acceptTorn bool) (int64, error) {
	se, err := log.End(commitlog.ScanOptions{CheckCRC: true})
	if err != nil {
		return -1, err
	}
	switch {
	case se.Kind == commitlog.EndClean, se.Kind == commitlog.EndTorn && acceptTorn:
		return se.Offset, nil
	}
	code := CodeTornLog
	if se.Kind == commitlog.EndCorrupt {
		code = CodeCorruptLog
	}
	var found Findings
	found.Add(Finding{Code: code, QueueOffset: -1, PhyOffset: se.Offset, Where: place(se.File, se.FileOffset), Text: fmt.Sprint(se.Reason)})
	return -1, &DifferentError{Step: "read log", Findings: &found}
}

// list collects the queues of both sides.
func (v *verification) list() error {
	src, err := sortedPossible(v.src)
	if err != nil {
		return err
	}
	dst, err := sortedPossible(v.dst)
	if err != nil {
		return err
	}
	v.proofs = make([]proof, 0, max(len(src), len(dst))) // mostly they are the same
	for len(src)+len(dst) > 0 {
		switch {
		case len(src) == 0 || len(dst) > 0 && dst[0].Compare(src[0]) < 0:
			v.proofs = append(v.proofs, proof{key: dst[0], side: onTarget})
			dst = dst[1:]
		default:
			v.proofs = append(v.proofs, proof{key: src[0], side: onBoth})
			if len(dst) > 0 && dst[0] == src[0] {
				dst = dst[1:]
			}
			src = src[1:]
		}
	}
	if v.samples > 0 && v.level != LevelCounts && !v.level.records() {
		v.perQueue = max(v.samples/max(len(v.proofs), 1), 2)
	}
	return nil
}

// sortedPossible lists the queues of r, and perhaps some that it does not have, by topic and queue id.
func sortedPossible(r cq.Reader) ([]cq.Key, error) {
	var keys []cq.Key
	for k, err := range possibleKeys(r) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, cq.Key.Compare)
	return keys, nil
}

// noteEnd notes the bounds of a queue of a side that was looked at.
func (v *verification) noteEnd(side int, b cq.Bounds) {
	for e := &v.ends[side]; ; {
		if was := e.Load(); b.MaxPhyOffset <= was || e.CompareAndSwap(was, b.MaxPhyOffset) {
			return
		}
	}
}

// dispatchFrom is DispatchFrom of a side. Files say it by all their queues, which have just been looked at.
func (v *verification) dispatchFrom(side int) int64 {
	s := [...]cq.Store{v.src, v.dst}[side]
	if s.Kind() == cq.KindFile {
		return v.ends[side].Load()
	}
	return s.DispatchFrom()
}

// compareAll runs one worker per processor over the queues.
func (v *verification) compareAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	update := v.m.opt.Progress.Phase(v.step, int64(len(v.proofs)), "queues")
	var next, done atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			w := comparer{v: v, a: make([]cq.Unit, compareBatch), b: make([]cq.Unit, compareBatch)}
			for i := range w.held {
				w.held[i].buf = make([]cq.Unit, compareBatch)
			}
			for {
				i := int(next.Add(1)) - 1
				if i >= len(v.proofs) || ctx.Err() != nil {
					return
				}
				if err := w.compare(ctx, &v.proofs[i]); err != nil {
					cancel(err)
					return
				}
				update(done.Add(1))
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (v *verification) find(k cq.Key, f Finding) {
	f.Topic, f.QueueID = k.Topic, k.QueueID
	v.add(f)
}

func (v *verification) add(f Finding) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.found.Add(f)
	if v.m.opt.OnFinding != nil {
		v.m.opt.OnFinding(f)
	}
}

func (v *verification) notice(k cq.Key, f Finding) {
	f.Topic, f.QueueID = k.Topic, k.QueueID
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notices.Add(f)
}

const compareBatch = 2048

// comparer holds one worker's buffers.
type comparer struct {
	v    *verification
	a, b []cq.Unit
	held [2]heldQueue // of the queue that is compared, on both sides
	rec  message.Record
	told []int64 // slots of that queue of which a difference was told
}

// heldQueue is a short queue whose units were read all at once: one of files is then not mapped, and RocksDB is asked once.
type heldQueue struct {
	cq.Queue
	from  int64
	units []cq.Unit
	buf   []cq.Unit
}

// Read answers from what is held.
func (h *heldQueue) Read(from int64, dst []cq.Unit) (int, error) {
	if i := from - h.from; i >= 0 && i < int64(len(h.units)) {
		return copy(dst, h.units[i:]), nil
	}
	return h.Queue.Read(from, dst)
}

// hold returns q, or where it is short and whole what holds its units.
func (w *comparer) hold(side int, q cq.Queue, b cq.Bounds) cq.Queue {
	h := &w.held[side]
	n := b.Max - b.Min
	if n <= 0 || n > int64(len(h.buf)) {
		return q
	}
	if got, err := w.v.reads[side].read(q.Key(), b.Min, h.buf[:n]); err != nil || int64(got) < n {
		return q // which tells what is wrong
	}
	h.Queue, h.from, h.units = q, b.Min, h.buf[:n]
	return h
}

func (w *comparer) compare(ctx context.Context, p *proof) error {
	v := w.v
	if p.side == onTarget {
		return w.onlyTarget(ctx, p)
	}
	sq, ok := v.src.Queue(p.key)
	if !ok {
		p.side = onTarget
		return w.onlyTarget(ctx, p)
	}
	sb, err := sq.Bounds()
	if err != nil {
		return w.bad(p, v.source, err)
	}
	p.bounds = sb
	v.noteEnd(0, sb)
	dq, ok := v.dst.Queue(p.key)
	if !ok {
		if sb.Max > 0 {
			return w.alone(p.key, CodeOnlyInSource, fmt.Sprintf("the %s side lacks it (%d units)", v.target, sb.Max-sb.Min), v.source, v.target, sq, sb)
		}
		return nil
	}
	db, err := dq.Bounds()
	if err != nil {
		return w.bad(p, v.target, err)
	}
	v.noteEnd(1, db)
	ahead := v.targetAhead && db.Max > sb.Max
	if !ahead {
		if err := w.ends(p.key, sq, dq, sb, db); err != nil {
			return err
		}
	}
	from := sb.Min
	if !ahead || !sb.Empty() {
		if from, err = w.begins(p.key, sq, dq, sb, db); err != nil {
			return err
		}
	}
	if db.MinPhyOffset != sb.MinPhyOffset && (!ahead || !sb.Empty()) {
		v.find(p.key, Finding{Code: CodeMinPhyDiffer, QueueOffset: sb.Min, PhyOffset: sb.MinPhyOffset, Text: fmt.Sprintf("min physical offset %d on the %s side, %d on the %s side", sb.MinPhyOffset, v.source, db.MinPhyOffset, v.target)})
	}
	if v.level == LevelCounts {
		return nil
	}
	hs, hd := w.hold(0, sq, sb), w.hold(1, dq, db)
	if err := w.units(ctx, p, hs, hd, from, min(sb.Max, db.Max)); err != nil {
		return err
	}
	if v.level.times() && !ahead {
		if err := w.times(p.key, sq, dq, sb, db); err != nil {
			return err
		}
	}
	if ahead {
		p.bounds = db
		return w.againstLog(ctx, p.key, v.dst, hd, max(sb.Max, db.Min), db.Max, 1)
	}
	if v.perQueue > 0 && sb.Max > sb.Min {
		// Sample the side that carries times, so that they are proven too.
		side, q := v.dst, hd
		if v.source == cq.KindRocks {
			side, q = v.src, hs
		}
		return w.againstLog(ctx, p.key, side, q, sb.Min, min(sb.Max, db.Max), max((sb.Max-sb.Min)/int64(v.perQueue), 1))
	}
	return nil
}

// bad turns a queue that contradicts itself into a finding; other errors pass.
func (w *comparer) bad(p *proof, side cq.Kind, err error) error {
	if !errors.Is(err, cq.ErrCorrupt) {
		return err
	}
	if !w.v.level.records() { // the audit names it
		f := badQueue(p.key, err)
		f.Side = side
		w.v.find(p.key, f)
	}
	return nil
}

// units compares [from, end) slot by slot and leaves the checksum over the 20-byte form of the source's units in p.
func (w *comparer) units(ctx context.Context, p *proof, sq, dq cq.Queue, from, end int64) error {
	v := w.v
	different := int64(0)
	w.told = w.told[:0]
	for slot := from; slot < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		want := min(int64(len(w.a)), end-slot)
		n, err := readUnits(sq, slot, w.a[:want])
		if err != nil {
			return err
		}
		if n == 0 { // no unit on this side: the slot counts by itself
			k, err := readUnits(dq, slot, w.b[:1])
			if err != nil {
				return err
			}
			if different++; different <= maxDetailed {
				if err := w.differ(p.key, slot, sq, dq, nil, w.b[:k]); err != nil {
					return err
				}
			}
			slot++
			continue
		}
		p.crc = crcUnits(p.crc, w.a[:n])
		for got := 0; got < n; {
			k, err := readUnits(dq, slot+int64(got), w.b[got:n])
			if err != nil {
				return err
			}
			if k == 0 {
				w.b[got], k = cq.Unit{}, 1 // no unit has size 0
			}
			got += k
		}
		for i := range n {
			if sameUnit(p.key, v.src, v.dst, &w.a[i], &w.b[i]) {
				continue
			}
			if different++; different > maxDetailed {
				continue
			}
			other := w.b[i : i+1]
			if other[0].Size == 0 {
				other = nil
			}
			if err := w.differ(p.key, slot+int64(i), sq, dq, w.a[i:i+1], other); err != nil {
				return err
			}
		}
		slot += int64(n)
		v.units.Add(int64(n))
	}
	if v.level.records() {
		v.differing.Add(different)
	} else if more := different - maxDetailed; more > 0 {
		v.find(p.key, Finding{Code: CodeUnitDiffers, QueueOffset: -1, PhyOffset: -1, Slots: more, Text: fmt.Sprintf("%d more slots differ", more)})
	}
	return nil
}

// readUnits reads units; what can be no unit counts as none.
func readUnits(q cq.Queue, slot int64, dst []cq.Unit) (int, error) {
	n, err := q.Read(slot, dst)
	if impossibleUnit(err) {
		return 0, nil
	}
	return n, err
}

// sameUnit compares what both sides store. The address of an extension unit that is lost counts as equal to whatever the
// other side has: the sample of decoded records proves the code itself.
func sameUnit(k cq.Key, sideA, sideB cq.Reader, a, b *cq.Unit) bool {
	if a.PhyOffset != b.PhyOffset || a.Size != b.Size {
		return false
	}
	if a.StoreTimestampMs != b.StoreTimestampMs && a.StoreTimestampMs != cq.NoTimestamp && b.StoreTimestampMs != cq.NoTimestamp {
		return false
	}
	return a.TagsCode == b.TagsCode || cq.IsExtLost(sideA, k, a.TagsCode) || cq.IsExtLost(sideB, k, b.TagsCode)
}

func unitText(u cq.Unit) string {
	if u.StoreTimestampMs != cq.NoTimestamp {
		return fmt.Sprintf("(record %d size %d tags %d time %d)", u.PhyOffset, u.Size, u.TagsCode, u.StoreTimestampMs)
	}
	return fmt.Sprintf("(record %d size %d tags %d)", u.PhyOffset, u.Size, u.TagsCode)
}

// crcUnits continues a CRC-32 over units in their 20-byte big-endian form, the form in which the sides agree.
func crcUnits(crc uint32, units []cq.Unit) uint32 {
	var b [20 * 64]byte
	for len(units) > 0 {
		n := min(len(units), 64)
		p := b[:0]
		for i := range n {
			p = cq.AppendUnit(p, units[i])
		}
		crc = crc32.Update(crc, crc32.IEEETable, p)
		units = units[n:]
	}
	return crc
}

// onlyTarget judges a queue that the source lacks: a light queue that RocksDB alone holds, or one built from the log,
// is proven against the log unit by unit; anything else is a difference.
func (w *comparer) onlyTarget(ctx context.Context, p *proof) error {
	v := w.v
	q, ok := v.dst.Queue(p.key)
	if !ok {
		p.side = onNone
		return nil
	}
	b, err := q.Bounds()
	if err != nil {
		return w.bad(p, v.target, err)
	}
	p.bounds = b
	v.noteEnd(1, b)
	light := p.key.IsLMQ() && v.target == cq.KindRocks
	if !light && !v.m.state.Built(p.key) && !v.targetAhead && !b.Empty() {
		return w.alone(p.key, CodeOnlyInTarget, fmt.Sprintf("only the %s side holds it, with %d units", v.target, b.Max-b.Min), v.target, v.source, q, b)
	}
	if v.level == LevelCounts {
		return nil
	}
	q = w.hold(1, q, b)
	if err := w.units(ctx, p, q, q, b.Min, b.Max); err != nil || v.level.records() {
		return err
	}
	return w.againstLog(ctx, p.key, v.dst, q, b.Min, b.Max, 1)
}

// againstLog decodes the record behind every step-th unit of [from, to), and behind the last.
func (w *comparer) againstLog(ctx context.Context, k cq.Key, side cq.Reader, q cq.Queue, from, to, step int64) error {
	before := int64(-1)
	if b, err := q.Bounds(); err == nil && from > b.Min { // nothing but a hole hides the unit below from
		if n, err := q.Read(from-1, w.a[:1]); err == nil && n == 1 {
			before = w.a[0].PhyOffset
		}
	}
	for slot := from; slot < to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := q.Read(slot, w.a[:1])
		if err != nil || n == 0 {
			if err == nil || errors.Is(err, cq.ErrCorrupt) {
				return nil // reported by the comparison of units
			}
			return err
		}
		if err := w.record(k, side, q, slot, w.a[0]); err != nil {
			return err
		}
		if phy := w.a[0].PhyOffset; phy <= before {
			w.v.find(k, Finding{Code: CodeBadRecord, QueueOffset: slot, PhyOffset: phy, Text: fmt.Sprintf("slot %d points to %d, an earlier slot to %d: units must ascend", slot, phy, before), Where: q.Where(slot)})
			return nil
		}
		before = w.a[0].PhyOffset
		if slot == to-1 {
			break
		}
		slot = min(slot+step, to-1)
	}
	return nil
}

// record compares one unit with the record it points to.
func (w *comparer) record(k cq.Key, side cq.Reader, q cq.Queue, slot int64, u cq.Unit) error {
	v := w.v
	v.sampled.Add(1)
	if slices.Contains(w.told, slot) {
		return nil
	}
	bad := func(code Code, text string) {
		f := Finding{Code: code, QueueOffset: slot, PhyOffset: u.PhyOffset, Text: fmt.Sprintf("slot %d: %s", slot, text), Where: q.Where(slot)}
		if code == CodeWrongTime { // files have none; elsewhere both sides say the same
			f.Side = side.Kind()
		}
		v.find(k, f)
	}
	release, err := v.m.dir.Log.Read(u.PhyOffset, u.Size, true, &w.rec)
	switch {
	case unreadableRecord(err) && u.PhyOffset >= v.logEnd:
		bad(CodeUnitOutsideLog, fmt.Sprintf("the unit points to %d, and the log ends at %d", u.PhyOffset, v.logEnd))
		return nil
	case unreadableRecord(err):
		bad(CodeBadRecord, err.Error())
		return nil
	case err != nil:
		return err
	}
	defer release()
	r := &w.rec
	claimed, belongs := r.SlotIn(k.Topic, k.QueueID)
	switch {
	case !belongs:
		bad(CodeBadRecord, fmt.Sprintf("the record at %d belongs to %s/%d", u.PhyOffset, r.Topic, r.QueueID))
	case r.TotalSize != u.Size:
		bad(CodeWrongSize, fmt.Sprintf("the record at %d has size %d, the unit says %d", u.PhyOffset, r.TotalSize, u.Size))
	case u.StoreTimestampMs != cq.NoTimestamp && u.StoreTimestampMs != r.StoreTimestampMs:
		bad(CodeWrongTime, fmt.Sprintf("the record at %d was stored at %d, the unit says %d", u.PhyOffset, r.StoreTimestampMs, u.StoreTimestampMs))
	case r.TagsCode(defaultLevels) != u.TagsCode && !deliveryTime(r, u.TagsCode) && !cq.IsExtLost(side, k, u.TagsCode):
		bad(CodeWrongTags, fmt.Sprintf("the record at %d has tags code %d, the unit says %d", u.PhyOffset, r.TagsCode(defaultLevels), u.TagsCode))
	case claimed != slot:
		v.notice(k, Finding{Code: CodeNumbering, QueueOffset: slot, PhyOffset: u.PhyOffset, Text: fmt.Sprintf("slot %d holds the record at %d, which numbers itself %d", slot, u.PhyOffset, claimed)})
	}
	return nil
}

// defaultLevels: which delay levels the broker is configured with is not in the directory.
var defaultLevels = message.DefaultDelayLevels()
