package store

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/cq/rocks"
)

// ViewOptions of OpenView.
type ViewOptions struct {
	// Kind is the side to read: cq.KindFile or cq.KindRocks.
	Kind cq.Kind
	// LogOnly leaves the queues alone, whatever Kind says: Queues is nil.
	LogOnly bool
	// Exclusive takes the lock as a writer does, for a caller that changes what lies beside log and queues.
	Exclusive bool
	// Logger gets what the parts report. nil: discard.
	Logger *slog.Logger
}

// View is a store open for reading: its log and one side of its consume queues, under a lock. Nothing on disk is
// changed, and nothing is recovered: what a crash left is seen as it lies there. Of a log that lacks files between others the rest is read; Log.Missing tells which. Safe for concurrent use, but for Close.
type View struct {
	Layout Layout
	Kind   cq.Kind
	Log    *commitlog.Log
	Queues cq.Reader // nil with LogOnly
	// Unclean tells that the store was not closed cleanly: the last records may lack units, and the last units records.
	Unclean bool

	lock    *Lock
	closers []func() error
}

// OpenView opens the store at root. Errors: *InUseError when a broker has it; what is missing or contradicts itself, by
// path. A store without a single queue of the asked kind is an error when it has queues of the other kind, and an empty
// view otherwise.
func OpenView(root string, o ViewOptions) (v *View, err error) {
	v = &View{Layout: NewLayout(root), Kind: o.Kind}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.Close())
			v = nil
		}
	}()
	if err := v.Layout.CheckRoot(); err != nil {
		return v, err
	}
	take := LockShared
	if o.Exclusive {
		take = LockExclusive
	}
	if v.lock, err = take(root); err != nil {
		return v, err
	}
	if v.Unclean, err = v.Layout.HasAbort(); err != nil {
		return v, err
	}
	if v.Log, err = commitlog.Open(v.Layout.CommitLogDir(), commitlog.Options{PassMissing: true, Logger: o.Logger}); err != nil {
		return v, err
	}
	v.closers = append(v.closers, v.Log.Close)
	if o.LogOnly {
		return v, nil
	}
	return v, v.openQueues(o)
}

func (v *View) openQueues(o ViewOptions) error {
	dir, _, hasRocks, err := v.Layout.FindRocks()
	if err != nil && o.Kind != cq.KindFile { // whoever wants the files can have them, whatever became of RocksDB
		return err
	}
	var s cq.Store
	switch o.Kind {
	case cq.KindFile:
		if has, err := v.Layout.HasFileQueues(); err != nil {
			return err
		} else if !has && hasRocks {
			return fmt.Errorf("open store %s: no file consume queues, they are in RocksDB (%s)", v.Layout.Root, dir)
		}
		s, err = file.Open(v.Layout.ConsumeQueueDir(), file.Options{
			ReadOnly: true, MinPhyOffset: v.Log.MinOffset(), ExtDir: v.Layout.ExtDir(), Logger: o.Logger,
		})
	case cq.KindRocks:
		if !hasRocks {
			return fmt.Errorf("open store %s: no RocksDB consume queues (no file CURRENT in %s or %s)", v.Layout.Root,
				v.Layout.RocksDir(RocksShared), v.Layout.RocksDir(RocksSeparate))
		}
		s, err = rocks.Open(dir, rocks.Options{ReadOnly: true, MinPhyOffset: v.Log.MinOffset(), Logger: o.Logger})
	default:
		return fmt.Errorf("open store %s: a view is of kind %q or %q, not %q", v.Layout.Root, cq.KindFile, cq.KindRocks, o.Kind)
	}
	if err != nil {
		return err
	}
	v.Queues = s
	v.closers = append(v.closers, s.Close)
	return nil
}

// Close lets go of everything, the lock last. Idempotent.
func (v *View) Close() error {
	var errs []error
	for i := len(v.closers) - 1; i >= 0; i-- {
		errs = append(errs, v.closers[i]())
	}
	v.closers = nil
	errs = append(errs, v.lock.Close())
	return errors.Join(errs...)
}
