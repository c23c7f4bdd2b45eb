package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// Retire moves the consume queues of one kind out of a store that nobody has open, into the directory to, which may have been begun: files and their extension files, or RocksDB. The other kind's are
// left alone, wherever they are. What this module has noted about files goes with them. Cut off, it is repeated. The caller holds the store's lock.
func Retire(l Layout, kind cq.Kind, to string) error {
	if err := retire(mmap.OS, l, kind, to); err != nil {
		return fmt.Errorf("move the %s queues of store %s to %s: %w", kind, l.Root, to, err)
	}
	return nil
}

func retire(fsys mmap.FS, l Layout, kind cq.Kind, to string) error {
	for _, dir := range []string{l.StateDir(), filepath.Dir(to), to} {
		if err := makeDir(fsys, dir); err != nil {
			return err
		}
	}
	if kind == cq.KindRocks {
		return retireRocks(fsys, l, to)
	}
	// First what speaks of the files: without it they are merely read from the log again.
	if err := removeQueueOffsets(fsys, l.queueOffsetsPath()); err != nil {
		return err
	}
	for _, path := range []string{l.rebuildMarkPath(), l.comparisonPath()} {
		if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := fsys.SyncDir(l.StateDir()); err != nil {
		return err
	}
	err := UpdateCheckpoint(l.CheckpointPath(), func(c *Checkpoint) { c.LogicsPhysicalOffset, c.LogicsMsgTimestampMs = 0, 0 })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(moveDirs(fsys, l.ConsumeQueueDir(), filepath.Join(to, "consumequeue")), moveDirs(fsys, l.ExtDir(), filepath.Join(to, "consumequeue_ext")))
}

// retireRocks moves a database from wherever one may be, or what is left of it.
func retireRocks(fsys mmap.FS, l Layout, to string) error {
	for _, layout := range []RocksLayout{RocksShared, RocksSeparate} {
		dir := l.RocksDir(layout)
		into := filepath.Join(to, filepath.Base(dir))
		names, err := listRocks(dir)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			if err := makeDir(fsys, into); err != nil {
				return err
			}
			if err := moveFiles(fsys, dir, into, names); err != nil {
				return err
			}
		}
		if layout == RocksSeparate {
			_ = fsys.Remove(dir) // fails where something else lies in it
		}
	}
	return nil
}

// moveDirs moves the directories in one directory into another: RocksDB's files, which may lie beside topics, are none.
func moveDirs(fsys mmap.FS, from, into string) error {
	names, err := listDirs(from)
	if err != nil || len(names) == 0 {
		return err
	}
	if err := makeDir(fsys, into); err != nil {
		return err
	}
	for _, name := range names {
		if err := fsys.Rename(filepath.Join(from, name), filepath.Join(into, name)); err != nil {
			return err
		}
	}
	return errors.Join(fsys.SyncDir(into), fsys.SyncDir(from))
}

// OpenedUnclean tells whether the store had not been closed in order when it was opened.
func (s *Store) OpenedUnclean() bool { return s.abort.found }

// QueueKind returns in what the consume queues are kept: cq.KindCombine for files and RocksDB both; empty where there are none.
func (s *Store) QueueKind() cq.Kind {
	if s.views == nil {
		return ""
	}
	return s.views.queues.Kind()
}

// FilesHaveLight tells whether light queues are kept in files; otherwise they are in RocksDB alone, or not at all.
func (s *Store) FilesHaveLight() bool { return s.filesHaveLight() }
