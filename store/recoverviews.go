package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// views opens the store, which brings its queues and the index to the end of the log, and closes it. The mark stays.
func (r *recovery) views() error {
	o := r.base
	o.StoreType, o.RocksdbCQDoubleWriteEnable = r.kinds[0], len(r.kinds) > 1 // both at once, and compared with one another
	o.CombineCQLoadingCQTypes = DefaultOptions().CombineCQLoadingCQTypes
	s := newStore(o)
	s.layout, s.keepAbort, s.waits, s.replaces, s.onProgress = r.layout, true, true, true, r.o.Progress
	if err := s.load(); err != nil {
		return s.openError(err)
	}
	err := s.awaitViews(r.ctx)
	if err == nil {
		err = r.readRocks(s)
	}
	marks := s.Watermarks()
	for _, m := range marks.Views {
		if m.SetAside != "" {
			r.note("RocksDB of the consume queues was damaged and is built anew; its old files are in %s, and nothing needs them (%s)", m.SetAside, m.Damage)
		}
	}
	r.rep.LogEnd = marks.Appended
	for _, name := range slices.Sorted(maps.Keys(marks.Views)) {
		m := marks.Views[name]
		view := RecoveredView{Name: name, From: -1, Dispatched: m.Dispatched, PassedOver: m.PassedOver, HoleBytes: m.HoleBytes, Conflicts: m.Conflicts}
		for _, b := range s.views.starts {
			if b.name == name {
				view.From, view.Why = b.from, b.why
			}
		}
		if x := s.views.index; name == indexName && x != nil && x.hole != nil {
			view.From, view.Why = x.from, x.hole.Error()
		}
		r.rep.Views = append(r.rep.Views, view)
	}
	if (r.rep.Repaired != nil && r.rep.Decision == DamageMend || len(r.rep.Missing) > 0) && s.views.index != nil {
		r.note("index entries of what was lost, if there are any, lead to placeholders, where no query finds a message and `tandemmq store check --deep` tells of each: `tandemmq store rebuild --index` makes the index without them")
	}
	r.rep.Lost = mergeLost(r.rep.Lost, s.views.view.lostRanges())
	r.rep.Forgotten = s.views.forgotten()
	if err == nil {
		err = errors.Join(r.noteLostUnits(s.views.queues), r.noteMissingUnits(s.views.queues))
	}
	if n := s.views.view.batchQueues(); n > 0 {
		r.keepAbort = true
		r.note("the abort mark stays: %d batch queues have no units, which RocketMQ's recovery makes", n)
	}
	err = errors.Join(err, s.views.missingIndexes())
	if err = errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("recover store %s: %w", r.layout.Root, err)
	}
	return nil
}

// readRocks reads every row of the queues in RocksDB, with the checksums of their blocks: opening reads next to none of them, and a damaged one would be met when it is needed, or merged, which ends all
// writing. A database that is damaged is replaced, as while a store serves. What its rows say is for a check to prove.
func (r *recovery) readRocks(s *Store) error {
	rows, ok := s.views.replaceable().(interface {
		ReadAll(ctx context.Context, progress func(rows int64)) error
	})
	if !ok {
		return nil
	}
	err := rows.ReadAll(r.ctx, r.phase("rows of RocksDB", 0, "rows"))
	if !errors.Is(err, cq.ErrCorrupt) {
		return err
	}
	return s.awaitViews(r.ctx) // until it is replaced
}

// awaitStep is how often awaitViews looks.
const awaitStep = 20 * time.Millisecond

// awaitViews returns when the queues have been compared with the log and mended, and queues and index are at its end; or when one of them cannot come there.
func (s *Store) awaitViews(ctx context.Context) error {
	v := s.views
	update, begun := func(int64) {}, false
	t := time.NewTicker(awaitStep)
	defer t.Stop()
	for {
		replaces := s.replacing.owed() // before the others: what fails meanwhile is no news
		if err := errors.Join(v.follow.failure(), v.mendFailure(), v.sides.failure()); err != nil && !replaces {
			return err
		}
		if err := errors.Join(s.writer.Failure(), s.replacing.gaveUp()); err != nil {
			return err
		}
		index, err := v.owedIndexes()
		if err != nil {
			return err
		}
		compared := false
		select {
		case <-v.verified:
			compared = true
		default:
		}
		if compared && !replaces && !s.replacing.owed() && v.rebuild.Load().ended() && v.behind() == 0 && index == 0 && v.view.brokenNow.Load() == 0 && v.sides.lacking() == nil {
			return nil
		}
		if index > 0 && compared && !begun {
			update, begun = s.phase("index", index, "bytes"), true
			update = since(update, index)
		}
		update(index)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

// since turns what is left of total into what is done.
func since(update func(int64), total int64) func(int64) {
	return func(left int64) { update(total - left) }
}

// finish clears the error flags, whose causes are gone, and then the abort mark, if all views are known to be in order.
func (r *recovery) finish() error {
	if err := r.flags.Clear(errorFlags); err != nil {
		return err
	}
	if r.noIndex {
		r.note("the abort mark stays: the index was not looked at")
	}
	if r.noIndex || r.keepAbort {
		return nil
	}
	mark := abortMark{fs: mmap.OS, path: r.layout.AbortPath()}
	if err := mark.remove(); err != nil {
		return err
	}
	r.rep.AbortCleared = true
	return nil
}

// rewrite writes what failed syncs may have kept from the disk again: the log from physical offset from on; and where that failed, file queues and index.
func (r *recovery) rewrite(log *commitlog.Recovery, from int64) error {
	n, err := log.Rewrite(r.ctx, from)
	r.rep.RewrittenBytes += n
	if err != nil {
		return err
	}
	for flag, dir := range map[Flag]string{FlagLogicsQueueError: r.layout.ConsumeQueueDir(), FlagIndexFileError: r.layout.IndexDir()} {
		if r.flags.Bits()&flag == 0 {
			continue
		}
		if err := r.rewriteTree(dir, flag == FlagIndexFileError); err != nil {
			return err
		}
	}
	return nil
}

// rewriteTree writes all mapped files below dir again; RocksDB's files are none: what it could not sync it has dropped, and gets again from the log.
func (r *recovery) rewriteTree(dir string, all bool) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, ok := mappedfile.ParseName(e.Name()); !e.Type().IsRegular() || !ok && !all {
			return nil
		}
		f, err := mmap.OS.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		size, err := f.Size()
		if err == nil {
			var n int64
			n, err = mmap.Rewrite(r.ctx, f, 0, size)
			r.rep.RewrittenBytes += n
		}
		return errors.Join(err, f.Close())
	})
}
