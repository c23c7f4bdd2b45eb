package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// DamagePolicy says what becomes of a log with valid records behind bytes that are none.
type DamagePolicy string

// The policies, see docs/recovery.md. Whatever is taken out of the log is set aside in <root>/tandemmq/broken.
const (
	DamageRefuse     DamagePolicy = "refuse"      // the store is not opened, and nothing is changed
	DamageMend       DamagePolicy = "mend"        // what lies behind is kept: placeholders are written over the damage
	DamageAcceptLoss DamagePolicy = "accept-loss" // the log is cut at the first damage
)

func (p DamagePolicy) valid() bool {
	return p == DamageRefuse || p == DamageMend || p == DamageAcceptLoss
}

// brokenDir is where recovery sets bytes aside.
func (l Layout) brokenDir() string { return filepath.Join(l.StateDir(), "broken") }

// DamageError tells that the log has valid records behind damage, and that nobody has said what is to become of them. It unwraps to what the log was refused for, which matches
// commitlog.ErrCorrupt.
type DamageError struct {
	Root   string
	Survey *commitlog.Survey
	Err    error
	Full   bool // all of the log was read: only who does that too finds it
}

// maxDamageLines bounds how many ranges are listed.
const maxDamageLines = 20

func (e *DamageError) Error() string {
	var b strings.Builder
	n := len(e.Survey.Damage)
	what, cut := "has valid records behind damage", "cuts the log at the first damage"
	if _, lost := e.Survey.LostEnd(); lost {
		if what = "has valid records behind damage, and has lost its end"; n == 1 {
			what, cut = "has lost its end", "lets the log go on behind what it has lost, as --mend does"
		}
	}
	fmt.Fprintf(&b, "the commit log of store %s %s (%d ranges, %d bytes); nothing was changed", e.Root, what, n, e.Survey.Damaged())
	for i := range e.Survey.Damage[:min(n, maxDamageLines)] {
		fmt.Fprintf(&b, "\n  %v", &e.Survey.Damage[i])
	}
	if n > maxDamageLines {
		fmt.Fprintf(&b, "\n  and %d more", n-maxDamageLines)
	}
	full := ""
	if e.Full {
		full = " --full"
	}
	fmt.Fprintf(&b, `
restore these ranges from a copy or a replica, or say what to do:
  tandemmq store recover --store %[1]s%[3]s --dry-run       shows all of it
  tandemmq store recover --store %[1]s%[3]s --mend          keeps what lies behind the damage
  tandemmq store recover --store %[1]s%[3]s --accept-loss   %[2]s
either way what is taken out is set aside first`, e.Root, cut, full)
	return b.String()
}

// Unwrap returns what the log was refused for.
func (e *DamageError) Unwrap() error { return e.Err }

// durability is what is known of the log before it is read: everything below a position was made durable, or everything stored before a time.
type durability struct {
	to       int64 // physical offset; math.MaxInt64 after a stop in order, 0: not known
	beforeMs int64 // 0: not known
	// exact tells that to is kept up while a store is open, so that damage above it is of what was written last.
	exact bool
	why   string // in words
	// promised is a physical offset below which the log cannot end unless it has lost its end; promisedBy says what promises it. 0: nothing does.
	promised   int64
	promisedBy string
}

// knownDurable reads the checkpoint and the queue offsets. They are believed as far as this module wrote the former last: its positions are noted after the log was made durable up to
// them. RocketMQ notes a position after it flushed queues, not the log, so of its checkpoint only the time counts.
func (s *Store) knownDurable() durability {
	d := s.knownWhole()
	d.promised, d.promisedBy = s.promisedTo()
	return d
}

// promisedTo returns the physical offset below which the log cannot end, 0 where nothing tells, and what does: this module's own positions, whose log was durable first; or, after a stop in
// order of a store that RocketMQ wrote last, the end of the last record that a view has. After a stop that was not in order that may be of records that were not durable.
func (s *Store) promisedTo() (phy int64, by string) {
	c, ours, err := readCheckpoint(s.fs, s.layout.CheckpointPath(), time.Now())
	if ours {
		phy, by = c.LogFlushedOffset, "logFlushedOffset of the checkpoint"
		if note, err := readQueueOffsets(s.fs, s.layout.queueOffsetsPath()); err == nil && note != nil && note.phyOffset > phy {
			phy, by = note.phyOffset, "tandemmq/"+queueOffsetsName
		}
		return phy, by
	}
	if s.abort.found || err != nil || s.o.FS != nil {
		return 0, ""
	}
	for _, kind := range []cq.Kind{cq.KindFile, cq.KindRocks} {
		if there, err := s.layout.hasKind(kind); err != nil || !there {
			continue
		}
		q, err := openQuietly(s.layout, kind, 0)
		if err != nil {
			continue // told when it is opened for good
		}
		if end := q.DispatchFrom(); end > phy {
			phy, by = end, "the end of the last record that has a unit in the "+string(kind)+" queues"
		}
		if err := q.Close(); err != nil {
			s.logger.Warn("queues could not be closed", slog.Any("err", err))
		}
	}
	return phy, by
}

// hasKind tells whether there are queues of a kind.
func (l Layout) hasKind(kind cq.Kind) (bool, error) {
	if kind == cq.KindFile {
		return l.HasFileQueues()
	}
	_, _, found, err := l.FindRocks()
	return found, err
}

// withdraw makes the checkpoint promise no more than the log will have once it is cut at physical offset cut, and removes the queue offsets if they say more.
func (s *Store) withdraw(cut int64) error {
	c, ours, err := readCheckpoint(s.fs, s.layout.CheckpointPath(), time.Now())
	if err != nil || !ours {
		return nil // it promises nothing
	}
	if note, err := readQueueOffsets(s.fs, s.layout.queueOffsetsPath()); err == nil && note != nil && note.phyOffset > cut {
		if err := removeQueueOffsets(s.fs, s.layout.queueOffsetsPath()); err != nil {
			return err
		}
	}
	if c.LogFlushedOffset <= cut {
		return nil
	}
	c.LogFlushedOffset, c.LogicsPhysicalOffset = cut, min(c.LogicsPhysicalOffset, cut)
	return writeCheckpoint(s.fs, s.layout.CheckpointPath(), c)
}

// acceptLoss cuts the log at the first damage of survey, or lets it go on behind the end that it has lost.
func (s *Store) acceptLoss(ctx context.Context, r *commitlog.Recovery, survey *commitlog.Survey) (*commitlog.Repaired, error) {
	if first := &survey.Damage[0]; !first.LostEnd {
		if err := s.withdraw(first.From); err != nil {
			return nil, err
		}
	}
	return r.AcceptLoss(ctx, survey)
}

func (s *Store) knownWhole() durability {
	if !s.abort.found {
		return durability{to: math.MaxInt64, exact: true, why: "the store was left in order"}
	}
	c, ours, err := readCheckpoint(s.fs, s.layout.CheckpointPath(), time.Now())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return durability{why: "there is no checkpoint"}
	case err != nil:
		return durability{why: fmt.Sprintf("the checkpoint is not believed: %v", err)}
	case !ours:
		if c.PhysicMsgTimestampMs > 0 {
			return durability{beforeMs: c.PhysicMsgTimestampMs, why: "physicMsgTimestamp of RocketMQ's checkpoint"}
		}
		return durability{why: "the checkpoint says nothing"}
	}
	d := durability{to: max(c.LogicsPhysicalOffset, 0), exact: true, why: "logicsPhysicalOffset of the checkpoint"}
	if c.LogFlushedOffset > d.to {
		d.to, d.why = c.LogFlushedOffset, "logFlushedOffset of the checkpoint"
	}
	if note, err := readQueueOffsets(s.fs, s.layout.queueOffsetsPath()); err == nil && note != nil && note.phyOffset > d.to {
		d.to, d.why = note.phyOffset, "the queue offsets"
	}
	return d
}

// openWriter opens the log, and deals with damage in it as Options say.
func (s *Store) openWriter() (*commitlog.Writer, error) {
	known := s.knownDurable()
	o := s.writerOptions()
	o.DurableTo, o.DurableBeforeMs, o.PromisedTo = known.to, known.beforeMs, known.promised
	o.SetAsideDir = s.layout.brokenDir()
	s.logger.Info("the commit log is opened", slog.Bool("unclean", s.abort.found), slog.String("wholeBelow", known.why), slog.Int64("phyOffset", known.to), slog.Int64("storeTimestamp", known.beforeMs))
	w, err := commitlog.OpenWriter(o)
	var end *commitlog.EndError
	var lost *commitlog.LostEndError
	if errors.As(err, &end) && end.Kind == commitlog.EndCorrupt || errors.As(err, &lost) {
		if err := s.repairLog(&o, known, err); err != nil {
			return nil, err
		}
		w, err = commitlog.OpenWriter(o)
	}
	return w, err
}

// repairLog surveys a log that cause refused, and repairs it if that was decided.
func (s *Store) repairLog(o *commitlog.WriterOptions, known durability, cause error) error {
	r, err := commitlog.OpenRecovery(recoveryOptions(o))
	if err != nil {
		return err
	}
	survey, err := r.Survey(context.Background())
	if err == nil && len(survey.Damage) > 0 {
		switch policy, why := s.o.LogDamagePolicy.decide(survey, known); policy {
		case DamageMend:
			_, err = r.Mend(context.Background(), survey)
		case DamageAcceptLoss:
			s.logger.Warn("the loss of a damaged commit log is accepted", slog.String("why", why), slog.Any("err", cause))
			_, err = s.acceptLoss(context.Background(), r, survey)
		default:
			err = &DamageError{Root: s.layout.Root, Survey: survey, Err: cause}
		}
	}
	return errors.Join(err, r.Close())
}

// decide returns what becomes of the damage, and why. A log whose first damage lost pages that were never known to be durable has no damage: it is a torn end, of which a loss of power
// left later pages and not earlier ones. No acknowledgement that promised durability covers what lies behind.
func (p DamagePolicy) decide(s *commitlog.Survey, known durability) (DamagePolicy, string) {
	if first := &s.Damage[0]; p == DamageRefuse && known.exact && first.From >= known.to && first.LostPage && !first.LostEnd {
		return DamageAcceptLoss, fmt.Sprintf("a loss of power: whole pages are missing, and nothing from physical offset %d on was known to be durable (%s)", known.to, known.why)
	}
	return p, "logDamagePolicy is " + string(p)
}

// recoveryOptions are those for the log that o describes.
func recoveryOptions(o *commitlog.WriterOptions) commitlog.RecoveryOptions {
	return commitlog.RecoveryOptions{
		FS: o.FS, Dir: o.Dir, MoreDirs: o.MoreDirs, ReadOnlyDirs: o.ReadOnlyDirs, FileSize: o.FileSize,
		DurableTo: o.DurableTo, DurableBeforeMs: o.DurableBeforeMs, PromisedTo: o.PromisedTo, SetAsideDir: o.SetAsideDir, Logger: o.Logger,
	}
}

// forgetDurable makes the checkpoint one that tells nothing exact, for a store that is going to write without keeping it up.
func (s *Store) forgetDurable() error {
	c, ours, err := readCheckpoint(s.fs, s.layout.CheckpointPath(), time.Now())
	if err != nil || !ours {
		return nil // nothing is believed of it
	}
	b := make([]byte, checkpointFileBytes)
	copy(b, c.appendTo(nil))
	return replaceFile(s.fs, s.layout.CheckpointPath(), b)
}

// noteNothing writes a checkpoint that says nothing where there is none: from now on damage of a new log is known to be of what was written last.
func noteNothing(fsys mmap.FS, path string) error {
	_, _, err := readCheckpoint(fsys, path, time.Now())
	if !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return writeCheckpoint(fsys, path, Checkpoint{})
}
