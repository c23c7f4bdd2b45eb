package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/index"
	indexrocks "github.com/tandemq/tandemmq/index/rocks"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// plan tells of each view what a recovery would do, without doing it: from where the log is dispatched to it again, and what is wrong with it that can be seen without reading all of the log.
func (r *recovery) plan() (err error) {
	s := newStore(r.base)
	s.layout, s.abort.found = r.layout, r.rep.Unclean
	w := s.writerOptions()
	log, err := commitlog.Open(w.Dir, commitlog.Options{MoreDirs: slices.Concat(w.MoreDirs, w.ReadOnlyDirs), Logger: r.o.Logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	checkpoint, err := ReadCheckpoint(r.layout.CheckpointPath())
	if err != nil {
		checkpoint = Checkpoint{} // as a recovery would
	}
	for _, t := range r.kinds {
		kind, _ := t.queueKind()
		view, err := r.planQueues(s, kind, log, checkpoint)
		if err != nil {
			return err
		}
		r.rep.Views = append(r.rep.Views, view)
	}
	if !r.base.MessageIndexEnable || r.noIndex {
		return nil
	}
	if r.base.IndexFileWriteEnable {
		r.rep.Views = append(r.rep.Views, r.planIndex(s, log, checkpoint))
	}
	if r.base.IndexRocksDBEnable {
		r.rep.Views = append(r.rep.Views, r.planRocksIndex(log))
	}
	return nil
}

// planned is a view to which the log is dispatched from a physical offset on; more is what else is done to it.
func (r *recovery) planned(name string, from int64, why string, more ...string) RecoveredView {
	v := RecoveredView{Name: name, From: from, Why: why, Dispatched: from}
	if n := r.rep.LogEnd - from; n > 0 {
		more = append(more, fmt.Sprintf("%d bytes of the log are dispatched to it", n))
	}
	if len(more) == 0 {
		more = append(more, "it has all of the log")
	}
	v.Plan = strings.Join(more, "; ")
	return v
}

// anew is a view that is built from all of the log.
func (r *recovery) anew(name string, log *commitlog.Log, why string) RecoveredView {
	return r.planned(name, max(log.MinOffset(), 0), why, "it is built from the log")
}

func (r *recovery) planQueues(s *Store, kind cq.Kind, log *commitlog.Log, checkpoint Checkpoint) (view RecoveredView, err error) {
	name := string(kind) + " queues"
	begin := min(max(log.MinOffset(), 0), r.rep.LogEnd)
	if !r.found.Has(kind) {
		return r.anew(name, log, "there are none"), nil
	}
	q, err := openQuietly(r.layout, kind, begin)
	var remnants *RemnantsError
	switch {
	case errors.As(err, &remnants):
		return r.anew(name, log, remnants.what()).after("it is set aside"), nil
	case errors.Is(err, cq.ErrCorrupt) && kind == cq.KindRocks && r.base.QueueDamagePolicy == QueueDamageRebuild:
		return r.anew(name, log, err.Error()).after("the database is set aside"), nil
	case err != nil:
		return view, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	v := &views{s: s, queues: q, checkpoint: checkpoint}
	a := &alignment{log: log, begin: begin, end: r.rep.LogEnd, unclean: r.rep.Unclean, mark: v.readRebuildMark(log, r.rep.LogEnd)}
	if note, err := readQueueOffsets(s.fs, r.layout.queueOffsetsPath()); err == nil && note != nil && note.fits(log, a.end) {
		a.note = note
	}
	v.standing(q, a)
	var more []string
	cut, bad := 0, 0
	for k, err := range q.Queues() {
		if err != nil {
			return view, err
		}
		one, ok := q.Queue(k)
		if !ok {
			continue
		}
		switch b, err := one.Bounds(); {
		case errors.Is(err, cq.ErrCorrupt):
			bad++
		case err != nil:
			return view, err
		case b.LastPhyOffset >= a.end:
			cut++
		}
	}
	_, lost := r.rep.Log.LostEnd()
	if cut > 0 && !lost {
		more = append(more, fmt.Sprintf("units behind the end of the log are cut off in %d queues", cut))
	}
	if bad > 0 {
		more = append(more, fmt.Sprintf("%d queues that are damaged are built from the log", bad))
	}
	return r.planned(name, v.starts[0].from, v.starts[0].why, more...), nil
}

// after puts what comes first before the rest of a plan.
func (v RecoveredView) after(first string) RecoveredView {
	v.Plan = first + "; " + v.Plan
	return v
}

// planIndex goes by the index files as openIndex does.
func (r *recovery) planIndex(s *Store, log *commitlog.Log, checkpoint Checkpoint) RecoveredView {
	if r.noIndexFile {
		if read, _ := readIndexRead(mmap.OS, r.layout, log, r.rep.LogEnd, nil); read >= 0 {
			return r.planned(indexName, r.fedFrom(log, read), "tandemmq/"+indexReadName)
		}
		return r.anew(indexName, log, "there are no index files")
	}
	ix, err := index.Open(r.layout.IndexDir(), index.Options{
		HashSlots: int32(r.base.MaxHashSlotNum), MaxEntries: int32(r.base.MaxIndexNum), ReadOnly: true, Unclean: r.rep.Unclean, FlushedToMs: checkpoint.IndexMsgTimestampMs,
	})
	if err != nil {
		return RecoveredView{Name: indexName, From: -1, Dispatched: -1, Plan: "it cannot be opened: " + err.Error()}
	}
	defer func() { _ = ix.Close() }() // only read
	read, _ := readIndexRead(mmap.OS, r.layout, log, r.rep.LogEnd, ix.Files())
	if read < 0 && len(ix.Files()) == 0 && len(ix.Faults()) == 0 {
		return r.anew(indexName, log, "there are no index files")
	}
	var more []string
	if n := len(ix.Faults()); n > 0 {
		more = append(more, fmt.Sprintf("%d files that are damaged are repaired or built again", n))
	}
	from, why := ix.DispatchFrom(), "the last message that has entries"
	if read > from {
		from, why = read, "tandemmq/"+indexReadName
	}
	if levels, err := s.o.DelayLevels(); err == nil {
		if hole, err := findIndexHole(log, read, r.rep.LogEnd, ix.Files(), levels); err == nil && hole != nil {
			from, why = hole.from, hole.Error()
			more = append(more, "the files behind are built again")
		}
	}
	return r.planned(indexName, r.fedFrom(log, from), why, more...)
}

func (r *recovery) planRocksIndex(log *commitlog.Log) RecoveredView {
	x, err := indexrocks.Open(r.layout.RocksIndexDir(), indexrocks.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return r.anew(rocksIndexName, log, "there is none")
	}
	if err != nil {
		return RecoveredView{Name: rocksIndexName, From: -1, Dispatched: -1, Plan: "it cannot be opened: " + err.Error()}
	}
	from := x.DispatchFrom()
	_ = x.Close() // only read
	return r.planned(rocksIndexName, r.fedFrom(log, from), "its own row of progress")
}

// fedFrom is where an index begins that has everything below from.
func (r *recovery) fedFrom(log *commitlog.Log, from int64) int64 {
	return recordFrom(log, min(max(from, log.MinOffset(), 0), r.rep.LogEnd), r.rep.LogEnd)
}
