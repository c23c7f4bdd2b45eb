package offsets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tandemq/tandemmq/store"
)

// Place names where a broker keeps its consumer offsets; its configuration says which one it uses, the directory does not.
type Place string

// The places, below the store's root.
const (
	JSON        Place = "json"           // config/consumerOffset.json: storeType=default, and double write
	LightJSON   Place = "json-lmq"       // config/lmqConsumerOffset.json: the same with enableLmq=true
	Rocks       Place = "rocksdb"        // config/consumerOffsets: storeType=defaultRocksDB
	RocksSingle Place = "rocksdb-single" // config/metadata: useSingleRocksDBForAllConfigs=true
	RocksV2     Place = "rocksdb-v2"     // config/rdb: configManagerVersion=v2
)

// Places lists all of them.
func Places() []Place { return []Place{JSON, LightJSON, Rocks, RocksSingle, RocksV2} }

// inFile tells whether the place is a JSON file.
func (p Place) inFile() bool { return p == JSON || p == LightJSON }

// path is the file or directory of the place.
func (p Place) path(l store.Layout) string {
	name := map[Place]string{
		JSON: "consumerOffset.json", LightJSON: "lmqConsumerOffset.json",
		Rocks: "consumerOffsets", RocksSingle: "metadata", RocksV2: "rdb",
	}[p]
	return filepath.Join(filepath.Dir(l.TopicsPath()), name)
}

// writePath is the file that a change of the place is written to. 5.5.0 takes it into a database at its start when its counter
// is greater than the database's; with v2 it does not. Source: 5.5.0 as it ran (tests/interop).
func (p Place) writePath(l store.Layout) string {
	if p.inFile() {
		return p.path(l)
	}
	return JSON.path(l)
}

// BackupSuffix is that of the copy RocketMQ makes of its previous file.
const BackupSuffix = ".bak"

// Source is what lies at one place.
type Source struct {
	Place   Place
	Path    string
	Offsets map[Key]Value
	Version *Version // nil: none stored
	// Faults are places in the file for which 5.5.0 would reject all of it. Notes are oddities that it lives with.
	Faults []Fault
	Notes  []string
	// Backup is RocketMQ's own copy of the previous file; nil when there is none to read.
	Backup *Source
	// Err says why the place itself cannot be read, nil when it can. Offsets are then those of Backup, which is what 5.5.0
	// falls back to, or none.
	Err error
	// BackupErr says why the backup cannot be read; nil when it can, or is not there.
	BackupErr error

	doc *document // of the file that Offsets are from
}

// FellBack tells that Offsets are the backup's.
func (s *Source) FellBack() bool { return s.Err != nil && s.Backup != nil }

// Find reads every place at which the store holds consumer offsets; none at all is no error, and neither is one that cannot
// be read (Source.Err). Databases are opened read-only, and not at all in a binary without cgo: their Err is then
// cq.ErrNoRocksDB.
func Find(l store.Layout) ([]*Source, error) {
	var found []*Source
	for _, p := range Places() {
		var s *Source
		var err error
		if p.inFile() {
			s, err = findFile(p, p.path(l))
		} else {
			s, err = findDatabase(p, p.path(l))
		}
		if err != nil {
			return nil, err
		}
		if s != nil {
			found = append(found, s)
		}
	}
	return found, nil
}

func findFile(p Place, path string) (*Source, error) {
	s, err := ReadFile(p, path)
	there := !errors.Is(err, fs.ErrNotExist)
	if err != nil {
		s = &Source{Place: p, Path: path, Err: err}
	}
	backup, err := ReadFile(p, path+BackupSuffix)
	switch {
	case err == nil:
		s.Backup = backup
	case !errors.Is(err, fs.ErrNotExist):
		s.BackupErr = err
	case !there:
		return nil, nil
	}
	if s.FellBack() {
		s.Offsets, s.Version, s.Faults, s.doc = backup.Offsets, backup.Version, backup.Faults, backup.doc
		s.Notes = append(s.Notes, backup.Notes...)
	}
	return s, nil
}

// ReadFile reads an offset file, be it the broker's, its backup or a dated copy. Errors: *FileError; it matches
// fs.ErrNotExist when there is none.
func ReadFile(p Place, path string) (*Source, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, &FileError{Path: path, Err: cause(err)}
	}
	d, err := parseDocument(path, raw, p == LightJSON)
	if err != nil {
		return nil, err
	}
	return &Source{Place: p, Path: path, Offsets: d.offsets, Version: d.version, Faults: d.faults, Notes: d.notes, doc: d}, nil
}

// cause takes the path out of an error that will be told with the path.
func cause(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

func findDatabase(p Place, dir string) (*Source, error) {
	st, err := os.Stat(filepath.Join(dir, "CURRENT"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for consumer offsets: %w", err)
	}
	s := &Source{Place: p, Path: dir, Offsets: map[Key]Value{}}
	if err := readDatabase(s); err != nil {
		s.Err = fmt.Errorf("read offset database %s: %w", dir, err)
		return s, nil
	}
	if p == RocksSingle && len(s.Offsets) == 0 && s.Version == nil {
		return nil, nil
	}
	// What a JSON file says is evidence for a database too, but never what 5.5.0 falls back to.
	return s, nil
}
