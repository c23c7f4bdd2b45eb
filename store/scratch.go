package store

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/tandemq/tandemmq/cq/rocks"
)

// scratchPattern is that of the directory below the state directory in which something is tried out: here, and by `tandemmq migrate plan`.
const scratchPattern = "plan-*"

// RemoveScratch removes what was left of attempts that were killed. The caller has the store's lock, alone.
func (l Layout) RemoveScratch() error {
	left, err := filepath.Glob(filepath.Join(l.StateDir(), scratchPattern))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// OpenScratchRocks opens an empty database of consume queues, with the options that the store's own would be filled with while it is stopped, in a directory of its own on the store's disk. remove, called
// when it is closed, removes it.
func (s *Store) OpenScratchRocks() (t *rocks.Store, dir string, remove func() error, err error) {
	if s.closed.Load() {
		return nil, "", nil, ErrClosed
	}
	if err := os.MkdirAll(s.layout.StateDir(), 0o755); err != nil {
		return nil, "", nil, err
	}
	root, err := os.MkdirTemp(s.layout.StateDir(), scratchPattern)
	if err != nil {
		return nil, "", nil, err
	}
	remove = func() error { return os.RemoveAll(root) }
	o := s.o.OfflineRocksOptions()
	o.Create, o.MinPhyOffset = true, 0
	o.IngestDir, o.RocksDB.LogDir = filepath.Join(root, "ingest"), filepath.Join(root, "log")
	dir = filepath.Join(root, "rocks")
	if t, err = rocks.Open(dir, o); err != nil {
		return nil, "", nil, errors.Join(err, remove())
	}
	return t, dir, remove, nil
}
