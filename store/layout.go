package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// Layout tells where things lie below a store's root. It opens and creates nothing.
//
//	path                                       what                                             written by
//	commitlog/<20 digits>                      log files, all of one size                       RocketMQ, Generate
//	consumequeue/<topic>/<queueId>/<20 digits> file queues, 20-byte units                       RocketMQ, cq/file
//	consumequeue_ext/<topic>/<queueId>/...     their extension units                            RocketMQ
//	batchconsumequeue/<topic>/<queueId>/...    queues of batch topics, 46-byte units            RocketMQ
//	consumequeue/CURRENT and others            RocksDB queues, shared layout                    RocketMQ, cq/rocks
//	consumequeue_rocksdb/CURRENT and others    RocksDB queues, separate layout                  RocketMQ, cq/rocks
//	rocksdbstore/CURRENT and others            RocksDB of the message index, and of others     RocketMQ, index/rocks
//	checkpoint                                 48 bytes of times and positions (Checkpoint)     RocketMQ, this package
//	abort                                      there while a process runs, and after it died    RocketMQ, Generate
//	lock                                       its first byte carries the lock                  RocketMQ, this package
//	config/topics.json                         the broker's topics                              RocketMQ, Generate
//	tandemmq/                                  our own state, unknown to RocketMQ               migrate, this package
//	tandemmq/broken/                           what was set aside: see docs/recovery.md         this package
//
// Source: StorePathConfigHelper, 5.5.0.
type Layout struct {
	// Root is the store directory (storePathRootDir).
	Root string
}

// NewLayout returns the layout of the store at root.
func NewLayout(root string) Layout { return Layout{Root: filepath.Clean(root)} }

// CommitLogDir holds the log files.
func (l Layout) CommitLogDir() string { return filepath.Join(l.Root, "commitlog") }

// ConsumeQueueDir holds the file queues, and RocksDB's files in the shared layout.
func (l Layout) ConsumeQueueDir() string { return filepath.Join(l.Root, "consumequeue") }

// ExtDir holds the extension files of file queues.
func (l Layout) ExtDir() string { return filepath.Join(l.Root, "consumequeue_ext") }

// BatchQueueDir holds the queues of batch topics.
func (l Layout) BatchQueueDir() string { return filepath.Join(l.Root, "batchconsumequeue") }

// IndexDir holds the hash index files.
func (l Layout) IndexDir() string { return filepath.Join(l.Root, "index") }

// RocksIndexDir holds the RocksDB of the message index, beside which RocketMQ keeps timers and transactions.
func (l Layout) RocksIndexDir() string { return filepath.Join(l.Root, "rocksdbstore") }

// StateDir holds what this module keeps about the store.
func (l Layout) StateDir() string { return filepath.Join(l.Root, "tandemmq") }

// CheckpointPath is the file that ReadCheckpoint reads.
func (l Layout) CheckpointPath() string { return filepath.Join(l.Root, "checkpoint") }

// AbortPath is the file that marks an unclean end.
func (l Layout) AbortPath() string { return filepath.Join(l.Root, "abort") }

// LockPath is the file that carries the lock.
func (l Layout) LockPath() string { return filepath.Join(l.Root, "lock") }

// TopicsPath is the broker's topic table.
func (l Layout) TopicsPath() string { return filepath.Join(l.Root, "config", "topics.json") }

// RocksLayout names the two places RocketMQ knows for its RocksDB consume queues.
type RocksLayout string

// The two places. A broker is told by useSeparateStorePathForRocksdbCQ, and refuses to start on the wrong one.
const (
	RocksShared   RocksLayout = "shared"   // consumequeue/, beside file queues; the default of 5.5.0
	RocksSeparate RocksLayout = "separate" // consumequeue_rocksdb/; useSeparateStorePathForRocksdbCQ=true
)

// RocksDir returns the RocksDB directory of that layout.
func (l Layout) RocksDir(r RocksLayout) string {
	if r == RocksSeparate {
		return filepath.Join(l.Root, "consumequeue_rocksdb")
	}
	return l.ConsumeQueueDir()
}

// currentFile is the file RocksDB keeps in every database; it decides where the database is.
const currentFile = "CURRENT"

// FindRocks tells where the store's RocksDB consume queues are: where a regular file CURRENT lies. found is false when
// there is none. A store with one in both places is one that RocketMQ refuses, and an error here. A place that holds
// other files of a database but no CURRENT, or a manifest that has lost its end, is a *RemnantsError, whatever the other place holds.
//
// Source: RocksDBConsumeQueueStore constructor, 5.5.0.
func (l Layout) FindRocks() (dir string, layout RocksLayout, found bool, err error) {
	for _, r := range []RocksLayout{RocksShared, RocksSeparate} {
		st, err := os.Stat(filepath.Join(l.RocksDir(r), currentFile))
		if err != nil && !missing(err) {
			return "", "", false, fmt.Errorf("look for RocksDB consume queues: %w", err)
		}
		if err != nil || !st.Mode().IsRegular() {
			if err := l.checkRemnants(r); err != nil {
				return "", "", false, err
			}
			continue
		}
		if found {
			return "", "", false, fmt.Errorf("look for RocksDB consume queues: both %s and %s hold a database (a file %s); RocketMQ opens neither: move the one that is not in use away",
				dir, l.RocksDir(r), currentFile)
		}
		if why := l.cutManifest(l.RocksDir(r)); why != "" {
			return "", "", false, &RemnantsError{Dir: l.RocksDir(r), Layout: r, File: rocksText(l.RocksDir(r), currentFile), Why: why}
		}
		dir, layout, found = l.RocksDir(r), r, true
	}
	return dir, layout, found, nil
}

// RemnantsError tells of a directory with files of a RocksDB database and without CURRENT, the file that names the
// manifest in use. RocksDB, told to create what is missing, takes such a directory for an empty one and begins anew. A
// creation or a removal of a database that was cut short leaves the same. Or, with Why, of a database whose manifest is older than it was.
type RemnantsError struct {
	Dir    string
	Layout RocksLayout
	File   string // name of one such file, the first in byte order; with Why the manifest
	Why    string // what makes the database an older one
}

func (e *RemnantsError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("look for RocksDB consume queues: %s: `tandemmq store recover --store %s` sets it aside and builds its queues from the log", e.what(), filepath.Dir(e.Dir))
	}
	return fmt.Sprintf("look for RocksDB consume queues: directory %s has files of a RocksDB database (%s) but its file %s is missing: `tandemmq store recover --store %s` sets the database aside and builds its queues from the log; or restore that file",
		e.Dir, e.File, currentFile, filepath.Dir(e.Dir))
}

// what says what is wrong with the database.
func (e *RemnantsError) what() string {
	if e.Why != "" {
		return fmt.Sprintf("the database in %s would be opened as it was at an earlier time: %s", e.Dir, e.Why)
	}
	return fmt.Sprintf("the database in %s has no file %s", e.Dir, currentFile)
}

// checkRemnants looks for a MANIFEST or an SST file in a place that has no CURRENT. Directories are topics, whatever their
// names are.
func (l Layout) checkRemnants(r RocksLayout) error {
	dir, first := l.RocksDir(r), ""
	err := readDir(dir, func(e fs.DirEntry) error {
		name := e.Name()
		if !strings.HasPrefix(name, "MANIFEST-") && !strings.HasSuffix(name, ".sst") || first != "" && name > first {
			return nil
		}
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode().IsRegular() {
			first = name
		} else if err != nil && !missing(err) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for RocksDB consume queues: %w", err)
	}
	if first != "" {
		return &RemnantsError{Dir: dir, Layout: r, File: first}
	}
	return nil
}

// readDirChunk is how many entries of a directory are read at a time: one of a million topics is not held in memory.
const readDirChunk = 1024

// readDir calls fn with the entries of dir, in no order, until it answers an error. A missing dir has none.
func readDir(dir string, fn func(fs.DirEntry) error) error {
	d, err := os.Open(dir)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // only read
	for {
		entries, err := d.ReadDir(readDirChunk)
		for _, e := range entries {
			if err := fn(e); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// HasAbort tells whether the store was left without a clean end.
func (l Layout) HasAbort() (bool, error) {
	_, err := os.Stat(l.AbortPath())
	if missing(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the abort mark: %w", err)
	}
	return true, nil
}

// HasFileQueues tells whether any file queue with a queue file is there. It stops at the first.
func (l Layout) HasFileQueues() (bool, error) {
	has := false
	err := walkQueueTree(l.ConsumeQueueDir(), func(string) bool {
		has = true
		return false
	})
	return has, err
}

// BatchTopics returns, sorted, the topics that have batch queues (queue type BatchCQ): such queues have no form in RocksDB.
func (l Layout) BatchTopics() ([]string, error) {
	var topics []string
	err := walkQueueTree(l.BatchQueueDir(), func(topic string) bool {
		if n := len(topics); n == 0 || topics[n-1] != topic {
			topics = append(topics, topic)
		}
		return true
	})
	slices.Sort(topics)
	return topics, err
}

// walkQueueTree calls visit with the topic of each directory dir/<topic>/<queueId> that holds a queue file with bytes in
// it, topic after topic, until visit returns false. A missing dir is an empty one.
func walkQueueTree(dir string, visit func(topic string) bool) error {
	topics, err := listDirs(dir)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		ids, err := listDirs(filepath.Join(dir, topic))
		if err != nil {
			return err
		}
		for _, id := range ids {
			if _, err := strconv.ParseInt(id, 10, 32); err != nil {
				continue // RocketMQ skips these too
			}
			has, err := hasSegment(filepath.Join(dir, topic, id))
			if err != nil {
				return err
			}
			if has && !visit(topic) {
				return nil
			}
		}
	}
	return nil
}

// listDirs returns the names of dir's sub-directories, none when dir is missing. Links are followed, as cq/file does: an
// operator may have moved a topic or a queue to another disk. A link to nowhere is no directory.
func listDirs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	var names []string
	for _, e := range entries {
		isDir := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			st, err := os.Stat(filepath.Join(dir, e.Name()))
			isDir = err == nil && st.IsDir()
		}
		if isDir {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// hasSegment tells whether dir holds a mapped file that is not empty.
func hasSegment(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("list queue files: %w", err)
	}
	for _, e := range entries {
		if _, ok := mappedfile.ParseName(e.Name()); !ok {
			continue
		}
		st, err := os.Stat(filepath.Join(dir, e.Name())) // follows links: a file may live on another disk
		if err != nil {
			return false, fmt.Errorf("list queue files: %w", err)
		}
		if st.Mode().IsRegular() && st.Size() > 0 {
			return true, nil
		}
	}
	return false, nil
}

// missing tells whether err says that a path is not there, be it itself or a directory on the way.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// indexInTheWay returns an error when the place of the index files is taken by something that is no directory.
func (l Layout) indexInTheWay() error {
	st, err := os.Stat(l.IndexDir())
	if missing(err) || err == nil && st.IsDir() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	return fmt.Errorf("open index %s: it is no directory: move it away, or have `tandemmq store rebuild --index` set it aside", l.IndexDir())
}

// CheckRoot tells in clear words when root cannot be a store directory: not there, no directory, or without a CommitLog.
func (l Layout) CheckRoot() error {
	st, err := os.Stat(l.Root)
	if missing(err) {
		return fmt.Errorf("open store %s: no such directory", l.Root)
	}
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	if !st.IsDir() {
		return fmt.Errorf("open store %s: not a directory", l.Root)
	}
	if _, err := os.Stat(l.CommitLogDir()); missing(err) {
		return fmt.Errorf("open store %s: no RocketMQ store (it has no directory commitlog)", l.Root)
	} else if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	return nil
}
