package online

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// retiredDir is where sides are moved to, in the state directory.
const retiredDir = "retired"

// Finish does what Finalize has announced, before the store at root is opened: it moves the side aside that is not kept. It is due after a stop in order alone, within a day of the comparison of the side that is kept: after any other the side that is kept may still need
// what the other has, and the store is opened with both once more. So it is when the side that is kept cannot be opened, lacks files, or ends before the other one. It takes the store's lock for that. A store without a migration, and one that is not there, have nothing to finish.
func Finish(root, actor string, logger *slog.Logger) (err error) {
	l := store.NewLayout(root)
	st, err := state.Load(l.StateDir())
	if err != nil || st.Online == nil || st.Phase != state.Finalizing {
		return err
	}
	lock, err := store.LockExclusive(root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if unclean, err := l.HasAbort(); err != nil {
		return err
	} else if unclean {
		if logger != nil {
			logger.Warn("the migration is not finished yet: the store was not closed in order, and is opened with both sides once more", slog.String("store", root))
		}
		return nil
	}
	if !finalizeDue(st, time.Now()) {
		if logger != nil {
			logger.Warn("the migration is not finished yet: the side that is kept was compared too long ago, and is compared once more with the store open", slog.String("store", root))
		}
		return nil
	}
	// A start that was cut off while it moved files has found all well before.
	if last := len(st.Retired) - 1; last >= 0 && st.Retired[last].Until.IsZero() {
		return finish(l, st, actor, time.Now())
	}
	if wrong := store.CheckKept(context.Background(), l, st.Kept); len(wrong) > 0 {
		note := fmt.Sprintf("nothing was moved aside, for the %s queues, which are kept, are not whole: %s", st.Kept, strings.Join(wrong, "; "))
		if logger != nil {
			logger.Error("the migration is not finished yet: the side that is kept is not whole on the disk, and the store is opened with both sides once more", slog.String("store", root),
				slog.String("kept", string(st.Kept)), slog.Any("wrong", wrong))
		}
		st.Online.Verified = nil
		st.Note(state.StepDiffers, actor, note, time.Now())
		return st.Save(l.StateDir())
	}
	return finish(l, st, actor, time.Now())
}

// finish moves the side aside. Cut off, it is repeated: the place is noted first.
func finish(l store.Layout, st *state.State, actor string, now time.Time) error {
	kind := otherKind(st.Kept)
	last := len(st.Retired) - 1
	if last < 0 || !st.Retired[last].Until.IsZero() {
		path := filepath.Join(filepath.Base(l.StateDir()), retiredDir, fmt.Sprintf("%s-%s", kind, now.UTC().Format("20060102T150405.000")))
		st.Retired = append(st.Retired, state.Retired{Kind: kind, Path: path})
		if err := st.Save(l.StateDir()); err != nil {
			return err
		}
		last++
	}
	r := &st.Retired[last]
	if err := store.Retire(l, kind, filepath.Join(l.Root, r.Path)); err != nil {
		return err
	}
	r.Until = now.Add(time.Duration(st.Online.GraceSeconds) * time.Second).UTC().Truncate(time.Second)
	note := fmt.Sprintf("the %s queues are in %s, and are deleted after %s", kind, r.Path, r.Until.Format(time.RFC3339))
	if err := st.Apply(state.FinalizeEnd, actor, note, now); err != nil {
		return err
	}
	return st.Save(l.StateDir())
}

// removeRetired deletes what was moved aside, when its time is over.
func (m *Migration) removeRetired(st *state.State) (done bool, err error) {
	for i := range st.Retired {
		r := st.Retired[i]
		if r.Removed || r.Until.IsZero() || m.now().Before(r.Until) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(m.o.Root, r.Path)); err != nil {
			return false, err
		}
		return true, m.change(func(st *state.State) {
			st.Retired[i].Removed = true
			st.Note(state.RetiredRemoved, m.o.Actor, r.Path+" was deleted", m.now())
		})
	}
	return false, nil
}

// Requirement is what the migration of a store asks of who opens it.
type Requirement struct {
	Phase    state.Phase
	From, To cq.Kind
	// Both: the store is to be opened with files and RocksDB, Preferred being read and having authority. Otherwise Preferred is the one kind that there is; empty: nothing is asked.
	Both      bool
	Preferred cq.Kind
	Layout    state.RocksLayout // where a new RocksDB goes
}

// Require tells what the migration of the store at root asks for: nothing, where none was made in a running broker.
func Require(root string) (r Requirement, err error) {
	st, err := state.Load(store.NewLayout(root).StateDir())
	if err != nil || st.Online == nil {
		return r, err
	}
	r = Requirement{Phase: st.Phase, From: st.From, To: st.To, Layout: st.RocksLayout}
	r.Preferred, _ = st.Active()
	switch st.Phase {
	case state.Finalized:
	case state.RolledBack:
		r.Both, err = hasBoth(store.NewLayout(root)) // given up before it began, there is one side
	default:
		r.Both = true
	}
	return r, err
}

func hasBoth(l store.Layout) (bool, error) {
	files, err := l.HasFileQueues()
	if err != nil {
		return false, err
	}
	_, _, rocks, err := l.FindRocks()
	if errors.As(err, new(*store.RemnantsError)) {
		return files, nil // the store deals with it
	}
	return files && rocks, err
}

// Apply sets options as the migration asks for, and returns whether it did, and what an operator has to know. given are the properties that somebody has set: where these say in what the queues are kept, they are
// left, and the migration waits if that is not both.
func (r *Requirement) Apply(o *store.Options, given []string) (applied bool, note string) {
	if r.Preferred == "" {
		return false, ""
	}
	what := fmt.Sprintf("the migration from %s to %s is %s", r.From, r.To, r.Phase)
	set := slices.Contains(given, "storeType") || slices.Contains(given, "rocksdbCQDoubleWriteEnable")
	both := o.StoreType == store.StoreTypeFile && o.RocksdbCQDoubleWriteEnable
	switch {
	case !r.Both && set:
		return false, "" // what is there decides whether that can be
	case !r.Both:
		o.StoreType, o.RocksdbCQDoubleWriteEnable = storeType(r.Preferred), false
		return true, fmt.Sprintf("%s: its %s queues are served", what, r.Preferred)
	case set && !both:
		return false, fmt.Sprintf("%s and waits: storeType and rocksdbCQDoubleWriteEnable are set and do not ask for both sides; leave them out, or set storeType=default and rocksdbCQDoubleWriteEnable=true", what)
	}
	o.StoreType, o.RocksdbCQDoubleWriteEnable = store.StoreTypeFile, true
	o.CombineCQLoadingCQTypes = store.DefaultOptions().CombineCQLoadingCQTypes
	o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = storeType(r.Preferred), storeType(r.Preferred)
	if r.Layout == state.LayoutSeparate && !slices.Contains(given, "useSeparateStorePathForRocksdbCQ") {
		o.UseSeparateStorePathForRocksdbCQ = true
	}
	return true, fmt.Sprintf("%s: both sides are written, and the %s queues are read", what, r.Preferred)
}

func storeType(k cq.Kind) store.StoreType {
	if k == cq.KindRocks {
		return store.StoreTypeRocksDB
	}
	return store.StoreTypeFile
}
