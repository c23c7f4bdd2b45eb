package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/index"
	indexrocks "github.com/tandemq/tandemmq/index/rocks"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// moveAll moves the old files out of the way, or has RocksDB drop single queues. Cut off, it is done again: what is moved is not there to be moved.
func (r *rebuilding) moveAll(ctx context.Context) error {
	to, err := newAside(mmap.OS, r.layout, "rebuild")
	if err != nil {
		return err
	}
	r.job.Aside = append(r.job.Aside, filepath.Base(to))
	if err := r.saveJob(); err != nil {
		return err
	}
	if r.wantsQueues() {
		for _, kind := range r.rec.kinds {
			if err := r.moveQueues(ctx, kind, to); err != nil {
				return fmt.Errorf("move old files aside: %w", err)
			}
		}
	}
	if r.job.Index {
		if err := r.clearIndexPlace(); err != nil {
			return err
		}
		if r.rec.base.IndexFileWriteEnable {
			if err := removeDurably(mmap.OS, r.layout.indexReadPath()); err != nil {
				return err
			}
			if err := moveEntries(r.layout.IndexDir(), filepath.Join(to, "index"), func(fs.DirEntry) bool { return true }); err != nil {
				return fmt.Errorf("move old files aside: %w", err)
			}
		}
		if r.rec.base.IndexRocksDBEnable {
			if err := r.clearRocksIndex(); err != nil {
				return err
			}
		}
	}
	r.job.Moved = true
	return r.saveJob()
}

// clearIndexPlace sets aside what stands where the directory of index files belongs and is none. It stays there: nobody knows what it is.
func (r *rebuilding) clearIndexPlace() error {
	if st, err := os.Stat(r.layout.IndexDir()); missing(err) || err == nil && st.IsDir() {
		return nil
	}
	to, err := newAside(mmap.OS, r.layout, "index")
	if err == nil {
		err = os.Rename(r.layout.IndexDir(), filepath.Join(to, "index"))
	}
	if err == nil {
		err = errors.Join(mmap.OS.SyncDir(to), mmap.OS.SyncDir(r.layout.Root))
	}
	if err != nil {
		return fmt.Errorf("set aside what is in the place of the index: %w", err)
	}
	r.rec.rep.Notes = slices.DeleteFunc(r.rec.rep.Notes, func(n string) bool { return r.rec.inTheWay != nil && strings.Contains(n, r.rec.inTheWay.Error()) })
	r.rec.note("what stood in the place of the index is in %s", to)
	return nil
}

// clearRocksIndex removes all rows of the index, and leaves what RocketMQ keeps beside it. A database that cannot be opened is set aside as it is, and stays there: it may have timers and
// transactions that are nowhere else.
func (r *rebuilding) clearRocksIndex() error {
	dir := r.layout.RocksIndexDir()
	x, err := indexrocks.Open(dir, indexrocks.Options{Create: true})
	if err == nil {
		return errors.Join(x.Clear(), x.Close())
	}
	if !errors.Is(err, index.ErrCorrupt) {
		return err
	}
	to, aerr := setAsideRocks(mmap.OS, r.layout, dir)
	if aerr != nil {
		return errors.Join(err, aerr)
	}
	r.rec.note("the database of the index is damaged: it is in %s, with what timers and transactions RocketMQ has in it (%v)", to, err)
	return nil
}

func (r *rebuilding) moveQueues(ctx context.Context, kind StoreType, to string) error {
	switch {
	case kind == StoreTypeRocksDB && r.job.Topic == "":
		dir, _, found, err := r.layout.FindRocks()
		if err != nil || !found {
			return err
		}
		return moveEntries(dir, filepath.Join(to, "rocksdb"), func(e fs.DirEntry) bool { return e.Type().IsRegular() && IsRocksFile(e.Name()) })
	case kind == StoreTypeRocksDB:
		return r.dropRows(ctx)
	}
	for name, dir := range map[string]string{"consumequeue": r.layout.ConsumeQueueDir(), "consumequeue_ext": r.layout.ExtDir()} {
		if err := r.moveTree(dir, filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// moveTree moves the directories of the queues that are to be built.
func (r *rebuilding) moveTree(dir, to string) error {
	topics, err := listDirs(dir)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		if r.job.Topic != "" && topic != r.job.Topic {
			continue
		}
		if err := moveEntries(filepath.Join(dir, topic), filepath.Join(to, topic), func(e fs.DirEntry) bool {
			id, err := strconv.ParseInt(e.Name(), 10, 32)
			return err == nil && r.job.owns(cq.Key{Topic: topic, QueueID: int32(id)})
		}); err != nil {
			return err
		}
	}
	return nil
}

// moveEntries moves what is wanted of a directory into another, which it makes.
func moveEntries(dir, to string, wanted func(fs.DirEntry) bool) error {
	var names []string
	if err := readDir(dir, func(e fs.DirEntry) error {
		if wanted(e) {
			names = append(names, e.Name())
		}
		return nil
	}); err != nil || len(names) == 0 {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return errors.Join(mmap.SyncDir(to), mmap.SyncDir(dir))
}

// dropRows has RocksDB forget the queues that are to be built, after it was noted that they lack everything. Queues without a record in the log stay.
func (r *rebuilding) dropRows(ctx context.Context) (err error) {
	s := newStore(r.rec.base)
	s.layout = r.layout
	dir, _, found, err := r.layout.FindRocks()
	if err != nil || !found {
		return err
	}
	first, err := firstLogFile(r.layout, &r.rec.base)
	if err != nil {
		return err
	}
	queues, err := s.openRocksAt(dir, first)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, queues.Close()) }()
	v := &views{s: s, queues: queues, view: newQueueView(queues, nil, false, s.isBatchTopic, s.logger)}
	v.view.onBroken = func() {}
	if err := v.loadBroken(false); err != nil {
		return err
	}
	keys, err := cq.SortedKeys(queues)
	if err != nil {
		return err
	}
	dropped := make(map[cq.Key]int64)
	for k := range v.view.mu.broken {
		dropped[k] = v.view.mu.mended[k]
	}
	for _, k := range keys {
		if !r.job.owns(k) {
			continue
		}
		if q, ok := queues.Queue(k); ok {
			b, err := q.Bounds()
			if err == nil && b.Min == b.Max {
				r.rec.note("queue %s stays as it is: the log has no record of it", k)
				continue
			}
			end, _ := endOf(q)
			r.job.Ends = append(r.job.Ends, jobEnd{k.Topic, k.QueueID, max(end, 0)})
		}
		dropped[k] = 0
	}
	if err := r.saveJob(); err != nil { // before anything is dropped
		return err
	}
	if err := v.saveBroken(dropped); err != nil {
		return err
	}
	for k := range dropped {
		if !r.job.owns(k) {
			continue
		}
		if err := queues.(cq.Dropper).DropQueue(ctx, k); err != nil {
			return err
		}
	}
	return queues.Flush(ctx)
}

// build opens the store with the queues of one side, which builds them, and closes it. The abort mark stays.
func (r *rebuilding) build(ctx context.Context, kind StoreType, last bool) error {
	begin := time.Now()
	o := r.rec.base
	o.StoreType, o.MessageIndexEnable = kind, r.job.Index && last
	s := newStore(o)
	s.layout, s.keepAbort, s.waits, s.onProgress = r.layout, true, true, r.o.Progress
	if err := s.load(); err != nil {
		return s.openError(err)
	}
	err := s.awaitViews(ctx)
	if err == nil && r.wantsQueues() {
		err = r.publishEnds(ctx, s)
	}
	if err == nil {
		r.rep.LogMin, r.rep.LogEnd = max(s.Log().MinOffset(), 0), s.Positions().Wrote
		if r.wantsQueues() {
			var built RebuiltView
			built, err = r.count(s.views.queues, s.views.view.name())
			built.Elapsed = time.Since(begin)
			r.rep.Views = append(r.rep.Views, built)
		}
	}
	r.rep.Lost = mergeLost(r.rep.Lost, s.views.view.lostRanges())
	if n := s.views.view.batchQueues(); n > 0 {
		r.rec.keepAbort = true
		r.rec.note("the abort mark stays: %d batch queues have no units, which RocketMQ's recovery makes", n)
	}
	for _, x := range s.views.indexes(false) {
		n, eerr := x.entries()
		err = errors.Join(err, eerr)
		r.rep.Views = append(r.rep.Views, RebuiltView{Name: x.name(), Units: n, LogBytes: r.rep.LogEnd - r.rep.LogMin, Elapsed: time.Since(begin)})
	}
	err = errors.Join(err, s.views.missingIndexes())
	r.rep.Notes = r.rec.rep.Notes
	return errors.Join(err, s.Close())
}

// count tells how many queues there are of those to be built, and how many units they have.
func (r *rebuilding) count(queues cq.Reader, name string) (RebuiltView, error) {
	v := RebuiltView{Name: name, LogBytes: r.rep.LogEnd - r.rep.LogMin}
	for k, err := range queues.Queues() {
		if err != nil {
			return v, err
		}
		q, ok := queues.Queue(k)
		if !r.job.owns(k) || !ok {
			continue
		}
		v.Queues++
		if b, err := q.Bounds(); err == nil {
			v.Units += b.Max - b.Min
		} else if !r.o.DryRun {
			return v, err
		}
	}
	return v, nil
}

// dryRun tells what is there now, and how much of the log would be read.
func (r *rebuilding) dryRun(context.Context) error {
	if l := r.rec.rep.Log; l != nil {
		r.rep.LogEnd = l.End
	}
	first, err := firstLogFile(r.layout, &r.rec.base)
	if err != nil {
		return err
	}
	r.rep.LogMin = first
	r.rep.Notes = r.rec.rep.Notes
	if r.wantsQueues() {
		for _, kind := range r.rec.kinds {
			name, _ := kind.queueKind()
			built := RebuiltView{Name: string(name) + " queues", LogBytes: r.rep.LogEnd - r.rep.LogMin}
			if v, err := openQuietly(r.layout, name, first); err != nil {
				r.rep.Notes = append(r.rep.Notes, fmt.Sprintf("what there is cannot be read: %v", err))
			} else {
				if built, err = r.count(v, built.Name); err != nil {
					return errors.Join(err, v.Close())
				}
				if err := v.Close(); err != nil {
					return err
				}
			}
			r.rep.Views = append(r.rep.Views, built)
		}
	}
	if r.job.Index && r.rec.base.IndexFileWriteEnable {
		r.rep.Views = append(r.rep.Views, RebuiltView{Name: indexName, LogBytes: r.rep.LogEnd - r.rep.LogMin})
	}
	if r.job.Index && r.rec.base.IndexRocksDBEnable {
		r.rep.Views = append(r.rep.Views, RebuiltView{Name: rocksIndexName, LogBytes: r.rep.LogEnd - r.rep.LogMin})
	}
	return nil
}

// openQuietly opens queues for reading, if they are there.
func openQuietly(l Layout, kind cq.Kind, minPhy int64) (cq.Store, error) {
	dir := l.ConsumeQueueDir()
	if kind == cq.KindRocks {
		var found bool
		var err error
		if dir, _, found, err = l.FindRocks(); err != nil {
			return nil, err
		}
		if !found {
			return nil, errors.New("there is no RocksDB directory")
		}
	}
	return openAt(dir, kind, minPhy)
}

func openAt(dir string, kind cq.Kind, minPhy int64) (cq.Store, error) {
	if kind == cq.KindFile {
		return file.Open(dir, file.Options{ReadOnly: true, MinPhyOffset: minPhy})
	}
	q, err := rocks.Open(dir, rocks.Options{ReadOnly: true, MinPhyOffset: minPhy})
	if err != nil {
		return nil, err
	}
	return q, nil
}

// firstLogFile returns the physical offset of the log's first byte, 0 without one.
func firstLogFile(l Layout, o *Options) (first int64, err error) {
	dirs := append([]string{}, o.StorePathCommitLog...)
	if len(dirs) == 0 {
		dirs = []string{l.CommitLogDir()}
	}
	first = -1
	for _, dir := range append(dirs, o.ReadOnlyCommitLogStorePaths...) {
		if err := readDir(dir, func(e fs.DirEntry) error {
			if from, ok := mappedfile.ParseName(e.Name()); ok && (first < 0 || from < first) {
				first = from
			}
			return nil
		}); err != nil {
			return 0, err
		}
	}
	return max(first, 0), nil
}
