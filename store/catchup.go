package store

import (
	"context"
	"log/slog"
	"time"
)

// A catch-up that takes long notes how far it is, so that it goes on from there when it is cut off.
const (
	catchUpSaveBytes = 256 << 20
	catchUpSaveEvery = 10 * time.Second
	catchUpSaveShare = 20 // noting takes one part of so many of the time
	// catchUpSaveCost is what noting is taken to cost before that is known: a catch-up of two seconds is as well done again.
	catchUpSaveCost = 100 * time.Millisecond
)

// catchingUp returns who is told how far a catch-up from one physical offset to another is.
func (v *views) catchingUp(ctx context.Context, from, to int64) func(phy int64) {
	report := v.s.phase("dispatch to "+v.view.name(), to-from, "bytes")
	saved, begin := from, time.Now()
	at, told, cost := begin, begin, catchUpSaveCost
	return func(phy int64) {
		report(phy - from)
		if time.Since(told) >= rebuildTold {
			told = time.Now()
			v.s.logger.Info("consume queues are brought up to the log", slog.String("view", v.view.name()), slog.Int64("phyOffset", phy), slog.Int64("to", to),
				slog.Int64("bytes", phy-from), slog.Int64("bytesPerSecond", perSecond(phy-from, begin)), slog.Int64("brokenQueues", v.view.brokenNow.Load()))
		}
		now := time.Now()
		if phy-saved < v.s.catchUpSaveBytes && now.Sub(at) < catchUpSaveEvery || now.Sub(at) < v.s.catchUpSaveShare*cost {
			return
		}
		save := v.saveCatchUp
		if v.rebuild.Load() != nil {
			save = v.flush
		}
		if err := v.saveAlone(ctx, save); err != nil && ctx.Err() == nil {
			v.s.logger.Warn("progress of the catch-up could not be saved", slog.Any("err", err))
		}
		saved, at = phy, time.Now()
		cost = at.Sub(now)
	}
}

// saveAlone saves while nothing is delivered: a sync of files that are being appended to takes several times as long.
func (v *views) saveAlone(ctx context.Context, save func(ctx context.Context) error) error {
	v.follow.delivering.Lock()
	defer v.follow.delivering.Unlock()
	return save(ctx)
}

func perSecond(n int64, since time.Time) int64 {
	return int64(float64(n) / max(time.Since(since).Seconds(), 1e-3))
}

// saveCatchUp makes the queues durable and notes how far they are: RocksDB in its own row, files in the checkpoint. The queue offsets come when
// all is done, since those of a part of the log are not known.
func (v *views) saveCatchUp(ctx context.Context) error {
	v.flushing.Lock()
	defer v.flushing.Unlock()
	v.view.mu.Lock()
	last, lastMs := v.dispatchedLocked()
	v.view.mu.Unlock()
	if err := v.s.writer.Flush(); err != nil {
		return err
	}
	if err := v.queues.Flush(ctx); err != nil {
		return err
	}
	c := v.checkpoint
	if last <= c.LogicsPhysicalOffset || !v.hasFiles() { // RocksDB has noted it in its row
		return nil
	}
	c.LogicsPhysicalOffset, c.LogicsMsgTimestampMs = last, lastMs
	c.PhysicMsgTimestampMs = max(c.PhysicMsgTimestampMs, lastMs)
	if err := writeCheckpoint(v.s.fs, v.s.layout.CheckpointPath(), c); err != nil {
		return err
	}
	v.checkpoint = c
	return nil
}

// phase begins a stretch of work that an operator may have to wait for. The function returned takes how much is done of it.
func (s *Store) phase(name string, total int64, unit string) func(done int64) {
	if s.onProgress == nil {
		return func(int64) {}
	}
	return s.onProgress(name, total, unit)
}
