package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// QueueDamagePolicy says what becomes of a RocksDB directory that cannot be opened because files of it are damaged or missing.
type QueueDamagePolicy string

// The policies.
const (
	QueueDamageRebuild QueueDamagePolicy = "rebuild" // its files are set aside in <root>/tandemmq/broken, and the queues are built from the log
	QueueDamageRefuse  QueueDamagePolicy = "refuse"  // the store is not opened, and nothing is changed
)

func (p QueueDamagePolicy) valid() bool { return p == QueueDamageRebuild || p == QueueDamageRefuse }

// maxSetAside bounds how often an open sets a database aside: remnants in one place, a damaged one in the other, and what was made anew.
const maxSetAside = 3

// openRocks opens the RocksDB queues, where they are or where the options want them. A database that is damaged is dealt with by QueueDamagePolicy. It is a view: all that is in it comes
// back from the log, but for the next offset of queues whose records have all expired.
func (s *Store) openRocks(minPhy int64) (cq.Store, error) {
	place := RocksShared
	if s.o.UseSeparateStorePathForRocksdbCQ {
		place = RocksSeparate
	}
	for try := 0; ; try++ {
		dir, layout, found, err := s.layout.FindRocks()
		var remnants *RemnantsError
		if errors.As(err, &remnants) {
			dir, layout = remnants.Dir, remnants.Layout
		} else if err != nil {
			return nil, err
		}
		if err == nil {
			if found {
				place = layout
			}
			dir = s.layout.RocksDir(place)
			var queues cq.Store
			if queues, err = s.openRocksAt(dir, minPhy); err == nil {
				return queues, nil
			}
			if !found || !errors.Is(err, cq.ErrCorrupt) {
				return nil, err
			}
		}
		if s.o.QueueDamagePolicy == QueueDamageRefuse || try == maxSetAside {
			return nil, fmt.Errorf("%w (queueDamagePolicy=%s builds the queues from the log while the store serves; `tandemmq store rebuild --store %s --queues rocks --yes` does it offline)",
				err, QueueDamageRebuild, s.layout.Root)
		}
		place = layout
		to, aerr := setAsideRocks(s.fs, s.layout, dir)
		if aerr != nil {
			return nil, errors.Join(err, aerr)
		}
		s.logger.Error("THE ROCKSDB DIRECTORY IS DAMAGED: its files are set aside, and all queues are built from the log", slog.String("dir", dir), slog.String("to", to), slog.Any("err", err))
	}
}

func (s *Store) openRocksAt(dir string, minPhy int64) (cq.Store, error) {
	if err := makeDir(s.fs, dir); err != nil {
		return nil, err
	}
	if dir == s.layout.RocksDir(RocksShared) {
		if err := s.layout.CheckShared(); err != nil {
			return nil, err
		}
	}
	o := s.o.machineRocksOptions()
	o.Create, o.MinPhyOffset, o.Logger = true, minPhy, s.o.Logger
	o.OnDamage = s.replacing.found
	q, err := rocks.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return q, nil
}

// setAsideRocks moves the files of a database out of dir, and nothing else that may be there, and returns where to. CURRENT goes first: cut off, it leaves remnants, which are
// set aside in turn. Without such files nothing is done.
func setAsideRocks(fsys mmap.FS, l Layout, dir string) (to string, err error) {
	names, err := listRocks(dir)
	if err != nil {
		return "", fmt.Errorf("set RocksDB aside: %w", err)
	}
	if len(names) == 0 {
		return "", nil
	}
	if to, err = newAside(fsys, l, "rocksdb"); err != nil {
		return "", err
	}
	if err := moveFiles(fsys, dir, to, names); err != nil {
		return "", fmt.Errorf("set RocksDB aside: %w", err)
	}
	return to, nil
}

// listRocks returns the names of the files of a database in dir, CURRENT first.
func listRocks(dir string) (names []string, err error) {
	if err := readDir(dir, func(e fs.DirEntry) error {
		if e.Type().IsRegular() && IsRocksFile(e.Name()) {
			names = append(names, e.Name())
		}
		return nil
	}); err != nil {
		return nil, err
	}
	slices.SortFunc(names, func(a, b string) int {
		if a == currentFile || b == currentFile {
			return map[bool]int{true: -1, false: 1}[a == currentFile]
		}
		return strings.Compare(a, b)
	})
	return names, nil
}

// moveFiles moves files, in that order, from one directory into another.
func moveFiles(fsys mmap.FS, dir, to string, names []string) error {
	for _, name := range names {
		if err := fsys.Rename(filepath.Join(dir, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return errors.Join(fsys.SyncDir(to), fsys.SyncDir(dir))
}

// newAside makes a directory tandemmq/broken/NAME-N for what is set aside.
func newAside(fsys mmap.FS, l Layout, name string) (string, error) {
	for _, dir := range []string{l.StateDir(), l.brokenDir()} {
		if err := makeDir(fsys, dir); err != nil {
			return "", err
		}
	}
	for n := 1; ; n++ {
		to := filepath.Join(l.brokenDir(), fmt.Sprintf("%s-%d", name, n))
		err := fsys.Mkdir(to, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("set aside: %w", err)
		}
		return to, fsys.SyncDir(l.brokenDir())
	}
}

// rocksFiles are the names that RocksDB gives the files of a database.
var rocksFiles = regexp.MustCompile(`^(CURRENT|IDENTITY|LOCK|LOG|LOG\.old\.\d+|MANIFEST-\d+|OPTIONS-\d+(\.dbtmp)?|\d+\.(sst|log|ldb|dbtmp|blob))$`)

// IsRocksFile tells whether RocksDB gives a file of a database such a name. File queues are directories.
func IsRocksFile(name string) bool { return rocksFiles.MatchString(name) }

// SharedNameError tells of a topic whose directory has a name that RocksDB gives its files, in a directory that both are to share. RocksDB would fail over it, sooner or
// later, or, for LOG, move it away.
type SharedNameError struct {
	Dir, Topic string
}

func (e *SharedNameError) Error() string {
	return fmt.Sprintf("open RocksDB consume queues in %s: topic %s has file queues there, in a directory of a name that RocksDB gives its files: "+
		"keep a new RocksDB in a directory of its own (useSeparateStorePathForRocksdbCQ=true, migrate --layout separate); beside one that is there, move the topic's directory away, "+
		"and the combined store has its queues in RocksDB alone", e.Dir, e.Topic)
}

// CheckShared looks for topics whose file queues are in the way of a RocksDB in the same directory. The error is a *SharedNameError.
func (l Layout) CheckShared() error {
	dir := l.RocksDir(RocksShared)
	return readDir(dir, func(e fs.DirEntry) error {
		if !IsRocksFile(e.Name()) || e.Type().IsRegular() {
			return nil
		}
		if st, err := os.Stat(filepath.Join(dir, e.Name())); err != nil || !st.IsDir() {
			return nil // RocksDB tells
		}
		return &SharedNameError{Dir: dir, Topic: e.Name()}
	})
}

// setAsideDirs returns the directories that newAside made of that name, in their order.
func setAsideDirs(l Layout, name string) ([]string, error) {
	numbers := map[string]int{}
	err := readDir(l.brokenDir(), func(e fs.DirEntry) error {
		if n, err := strconv.Atoi(strings.TrimPrefix(e.Name(), name+"-")); err == nil && e.IsDir() && e.Name() == fmt.Sprintf("%s-%d", name, n) {
			numbers[filepath.Join(l.brokenDir(), e.Name())] = n
		}
		return nil
	})
	dirs := slices.Collect(maps.Keys(numbers))
	slices.SortFunc(dirs, func(a, b string) int { return numbers[a] - numbers[b] })
	return dirs, err
}

// newestAside returns the directory that newAside made last of that name, "" where there is none.
func newestAside(l Layout, name string) (dir string, err error) {
	dirs, err := setAsideDirs(l, name)
	if len(dirs) > 0 {
		dir = dirs[len(dirs)-1]
	}
	return dir, err
}
