package store

import (
	"path/filepath"
	"slices"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/internal/locks"
)

// writerOptions says how the log is written: the part of Options that concerns it.
func (s *Store) writerOptions() commitlog.WriterOptions {
	o := &s.o
	w := commitlog.DefaultWriterOptions(s.layout.CommitLogDir())
	if dirs := o.writeDirs(); len(dirs) > 0 {
		w.Dir, w.MoreDirs = dirs[0], dirs[1:]
	}
	w.FS = o.FS
	w.ReadOnlyDirs = o.ReadOnlyCommitLogStorePaths
	w.DirFull = s.dirFull
	w.FileSize = o.MappedFileSizeCommitLog

	w.PutLock = locks.New(locks.PutLockKind(o.UseReentrantLockWhenPutMessage, o.UseABSLock))
	w.SyncFlush = s.syncFlush
	w.Mode = o.writeMode()
	w.Pace = o.pace()
	w.BufferBytes = o.StagingBufferBytes
	if w.Mode == commitlog.WritePooled {
		w.BufferBytes = min(w.BufferBytes, int64(o.TransientStorePoolSize)*o.MappedFileSizeCommitLog)
	}

	w.PopulateAheadBytes = o.PreallocateAheadBytes
	w.Warm, w.LockMemory = o.WarmMapedFileEnable, o.WarmMapedFileEnable
	w.Random = !o.DataReadAheadEnable
	w.CheckCRC = o.CheckCRCOnRecover
	w.OnFailure = s.onFailure
	w.Logger = o.Logger
	return w
}

// writeDirs returns the directories in which log files are made, none for the usual one.
func (o *Options) writeDirs() (dirs []string) {
	for _, dir := range o.StorePathCommitLog {
		if !slices.ContainsFunc(o.ReadOnlyCommitLogStorePaths, func(d string) bool { return filepath.Clean(d) == filepath.Clean(dir) }) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// writeMode returns how bytes get into the files. Under synchronous flush and SyncWriteAuto they are staged: with one
// producer that is up to a third slower than storing into the mapping, from 16 on it is twice as fast.
func (o *Options) writeMode() commitlog.WriteMode {
	switch {
	case o.WriteWithoutMmap:
		return commitlog.WriteThrough
	case o.FlushDiskType == SyncFlush && o.SyncFlushWriteMode != SyncWriteMapped:
		return commitlog.WriteStaged
	case o.TransientStorePoolEnable && o.BrokerRole != Slave:
		return commitlog.WritePooled
	}
	return commitlog.WriteMapped
}

// dirFull tells whether a directory of several shall get no new file.
//
// Source: CommitLog.getFullStorePaths, 5.5.0.
func (s *Store) dirFull(dir string) bool {
	total, free, err := s.fs.Usage(dir)
	if err != nil || total <= 0 {
		return false // making a file there will tell
	}
	return 100*float64(total-free) > float64(s.live().DiskSpaceCleanForciblyRatio)*float64(total)
}
