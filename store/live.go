package store

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
)

// live are the options as they are now. Those that are tagged live are read here and nowhere else; a call reads them once, so that it goes by one state of them. Not to be changed.
func (s *Store) live() *Options { return s.current.Load() }

// Options returns the options as they are now.
func (s *Store) Options() Options { return *s.live() }

// RestartError tells which options differ that a store takes over when it is opened next, and not before.
type RestartError struct{ Names []string }

func (e *RestartError) Error() string {
	return fmt.Sprintf("%s: taken over when the store is opened next, and not while it is open", strings.Join(e.Names, ", "))
}

// SetOptions has the open store go by o: what differs must be tagged live. It is in force when SetOptions returns, and holds until the store is closed. Calls that
// are under way may end by the options they began with. Filesystem, topics' kinds and logger stay as they are.
//
// Errors: *RestartError, those of Options.Validate, Prefer and GiveAuthority, and then nothing is changed; ErrClosed.
func (s *Store) SetOptions(o Options) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.closed.Load() {
		return ErrClosed
	}
	old := *s.live()
	if names := RestartOnly(old, o); len(names) > 0 {
		return &RestartError{names}
	}
	if err := o.Validate(); err != nil {
		return err
	}
	now := old
	for i := range properties {
		if p := &properties[i]; p.Live {
			p.Copy(&now, &o)
		}
	}
	if err := s.switchSides(&old, &now); err != nil {
		return err
	}
	if err := s.writer.SetPace(now.pace()); err != nil {
		return errors.Join(err, s.switchSides(&now, &old))
	}
	if now.DataReadAheadEnable != old.DataReadAheadEnable {
		s.writer.Log().SetReadahead(now.DataReadAheadEnable)
	}
	s.current.Store(&now)
	if now.BackfillBytesPerSec != old.BackfillBytesPerSec || now.BackfillPutLatency != old.BackfillPutLatency {
		s.SetBackfillPace(now.BackfillBytesPerSec, now.BackfillPutLatency)
	}
	if s.views != nil && s.views.sides != nil {
		s.views.sides.shadow.setPercent(now.ShadowReadPercent)
	}
	if s.views != nil && now.FlushConsumeQueueThoroughInterval != old.FlushConsumeQueueThoroughInterval {
		s.views.repace()
	}
	if s.retention != nil {
		s.retention.reset(&old, &now)
	}
	return nil
}

// switchSides has the combined store go by other sides, or, on error, by the same as before.
func (s *Store) switchSides(old, now *Options) error {
	was, is := sideOf(old.CombineCQPreferCQType), sideOf(now.CombineCQPreferCQType)
	if is != was {
		if err := s.Prefer(is); err != nil {
			return err
		}
	}
	if authority := sideOf(now.CombineAssignOffsetCQType); authority != sideOf(old.CombineAssignOffsetCQType) {
		if err := s.GiveAuthority(authority); err != nil {
			if is != was {
				err = errors.Join(err, s.Prefer(was))
			}
			return err
		}
	}
	return nil
}

func sideOf(t StoreType) cq.Kind {
	if kind, ok := t.queueKind(); ok {
		return kind
	}
	return cq.KindFile
}

// pace is the part of the options that says when the log is written and flushed.
func (o *Options) pace() commitlog.Pace {
	return commitlog.Pace{
		FlushInterval: o.FlushIntervalCommitLog, FlushLeastPages: o.FlushCommitLogLeastPages, FlushThoroughInterval: o.FlushCommitLogThoroughInterval,
		FlushOnPut: o.WakeFlushWhenPutMessage && !o.FlushCommitLogTimed, SyncFlushTimeout: o.SyncFlushTimeout,
		CommitInterval: o.CommitIntervalCommitLog, CommitLeastPages: o.CommitCommitLogLeastPages, CommitThoroughInterval: o.CommitCommitLogThoroughInterval,
		CommitOnPut: o.WakeCommitWhenPutMessage,
	}
}

// reset has retention go by other options.
func (r *retention) reset(old, now *Options) {
	r.warnOfRatios(now)
	if now.CleanResourceInterval != old.CleanResourceInterval {
		for _, c := range r.changed {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
	ratios := func(o *Options) []int {
		return []int{o.DiskMaxUsedSpaceRatio, o.DiskSpaceCleanForciblyRatio, o.DiskSpaceWarningLevelRatio}
	}
	if !slices.Equal(ratios(old), ratios(now)) {
		r.watch() // puts are refused, or taken again, by the new ones
	}
}

// warnOfRatios tells of a ratio that another one makes void.
func (r *retention) warnOfRatios(o *Options) {
	if m, f := o.DiskMaxUsedSpaceRatio, o.DiskSpaceCleanForciblyRatio; m > f {
		r.s.logger.Warn("diskMaxUsedSpaceRatio has no effect above diskSpaceCleanForciblyRatio", slog.Int("diskMaxUsedSpaceRatio", m), slog.Int("inForce", f))
	}
}
