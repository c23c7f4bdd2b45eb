//go:build cgo

package rocks

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/linxGnu/grocksdb"
)

// Names of the families.
const (
	familyUnits   = "default"
	familyOffsets = "offset"
)

// DB is an open database. All methods may be called concurrently, Close included.
type DB struct {
	dir      string
	readOnly bool
	options  Options

	// gate holds a token for each call inside RocksDB.
	gate chan struct{}
	// mu is held shared by every call and exclusively by Close; it guards closed and with it every C object below.
	mu      sync.RWMutex
	closed  bool
	closing atomic.Bool // Close has begun

	c         *grocksdb.DB
	handles   []*grocksdb.ColumnFamilyHandle
	units     *grocksdb.ColumnFamilyHandle
	offsets   *grocksdb.ColumnFamilyHandle // nil in a database that lacks the family
	offsetsID uint32
	names     []string
	read      *grocksdb.ReadOptions
	write     *grocksdb.WriteOptions
	grouped   *grocksdb.WriteOptions
	owned     owned
}

// Open opens the database in dir for reading and writing, and makes it, with its directory, if there is none and
// o.CreateIfMissing says so. Families present are all opened; "default" and those of o.Families are created when missing.
//
// Errors are of type *Error. A directory that holds table files or manifests but no CURRENT is refused, since RocksDB would
// take it for empty and delete them.
func Open(dir string, o Options) (*DB, error) { return open(dir, o, false) }

// OpenReadOnly opens the database in dir as it is now. It changes no byte in the directory: no log, no lock. Rows in a
// left-over write-ahead log are seen. What another process writes afterwards is not.
func OpenReadOnly(dir string, o Options) (*DB, error) { return open(dir, o, true) }

func open(dir string, o Options, readOnly bool) (_ *DB, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	defer func() {
		if e, ok := errors.AsType[*Error](err); ok {
			e.families = o.Families
		}
	}()
	db := &DB{dir: dir, readOnly: readOnly, options: o, gate: make(chan struct{}, o.MaxCalls)}
	if err := db.start(math.MinInt64); err != nil {
		return nil, err
	}
	return db, nil
}

// start opens what is in the directory; minPhy is for the compaction filter. Nobody else has db yet, or mu is held exclusively. On error no C object is left.
func (db *DB) start(minPhy int64) (err error) {
	dir, o, readOnly := db.dir, db.options, db.readOnly
	present, err := inspect(dir)
	if err != nil {
		return err
	}
	if !present {
		if readOnly || !o.CreateIfMissing {
			return &Error{Op: opOpen, Dir: dir, Err: fmt.Errorf("no database there: %w", fs.ErrNotExist)}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return &Error{Op: opOpen, Dir: dir, Err: err}
		}
	}
	defer func() {
		if err != nil {
			db.owned.destroy()
		}
	}()
	if db.owned.db, err = newDBOptions(o); err != nil {
		return err
	}
	c := db.owned.db
	c.SetCreateIfMissing(!readOnly && o.CreateIfMissing)
	c.SetCreateIfMissingColumnFamilies(!readOnly)
	db.names = []string{familyUnits}
	if present {
		if db.names, err = grocksdb.ListColumnFamilies(c, dir); err != nil {
			return &Error{Op: opOpen, Dir: dir, Text: err.Error()}
		}
	}
	for _, name := range o.Families.names() {
		if !readOnly && !slices.Contains(db.names, name) {
			db.names = append(db.names, name)
		}
	}
	for _, name := range db.names {
		f := o.Offsets
		switch name {
		case familyUnits:
			f = o.Units
		case familyOffsets:
		default: // somebody else's: nothing is known about its readers
			f.InplaceUpdate = false
		}
		fo, err := db.owned.newFamilyOptions(f, o.DisableAutoCompactions)
		if err != nil {
			return err
		}
		db.owned.families = append(db.owned.families, fo)
		if name == familyUnits {
			db.owned.filter = newMinPhyFilter(minPhy)
			db.owned.filter.install(fo)
		}
	}
	if readOnly {
		db.c, db.handles, err = grocksdb.OpenDbForReadOnlyColumnFamilies(c, dir, db.names, db.owned.families, false)
	} else {
		db.c, db.handles, err = grocksdb.OpenDbColumnFamilies(c, dir, db.names, db.owned.families)
	}
	if err != nil {
		return &Error{Op: opOpen, Dir: dir, Text: err.Error()}
	}
	madeAll(1 + len(db.handles))
	for i, name := range db.names {
		switch name {
		case familyUnits:
			db.units = db.handles[i]
		case familyOffsets:
			db.offsets = db.handles[i]
			db.offsetsID = db.handles[i].ID()
		}
	}
	db.read = made(grocksdb.NewDefaultReadOptions())
	db.write = made(grocksdb.NewDefaultWriteOptions())
	db.write.DisableWAL(true)
	db.grouped = made(grocksdb.NewDefaultWriteOptions())
	db.grouped.DisableWAL(true)
	db.grouped.SetMemtableInsertHintPerBatch(true)
	return nil
}

// inspect tells whether dir holds a database, without RocksDB.
func inspect(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, &Error{Op: opOpen, Dir: dir, Err: err}
	}
	remains := ""
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == "CURRENT" && e.IsDir():
			return false, &Error{Op: opOpen, Dir: dir, Err: fmt.Errorf("%s is a directory", filepath.Join(dir, name))}
		case name == "CURRENT":
			return true, nil
		case !e.IsDir() && (strings.HasPrefix(name, "MANIFEST-") || strings.HasSuffix(name, ".sst")):
			remains = name
		}
	}
	if remains != "" {
		return false, &Error{Op: opOpen, Dir: dir, Text: "Corruption: CURRENT is missing, but " + remains + " is there"}
	}
	return false, nil
}

// Dir returns the directory.
func (db *DB) Dir() string { return db.dir }

// Families returns the names of the column families, in no order.
func (db *DB) Families() []string {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return slices.Clone(db.names)
}

// ReadOnly tells whether the database was opened by OpenReadOnly.
func (db *DB) ReadOnly() bool { return db.readOnly }

// enter begins a call into RocksDB; leave ends it.
func (db *DB) enter() error {
	db.gate <- struct{}{}
	db.mu.RLock()
	if db.closed {
		db.leave()
		return fmt.Errorf("%s: %w", db.dir, ErrClosed)
	}
	return nil
}

func (db *DB) enterWrite() error {
	if db.readOnly {
		return fmt.Errorf("%s: %w", db.dir, ErrReadOnly)
	}
	return db.enter()
}

func (db *DB) leave() {
	db.mu.RUnlock()
	<-db.gate
}

// SetMinPhyOffset tells the compaction filter from where on units are kept: a compaction removes those below. The bound of
// a new DB keeps everything.
func (db *DB) SetMinPhyOffset(minPhy int64) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	db.owned.filter.set(minPhy)
	return nil
}

// Write applies a batch: all of it, or, on error, nothing. Readers see it when Write returns; it is durable after Flush.
// grouped says that the rows of one queue stand together in the batch, which makes the memtable faster.
func (db *DB) Write(b *Batch, grouped bool) error {
	if err := db.enterWrite(); err != nil {
		return err
	}
	defer db.leave()
	o := db.write
	if grouped {
		o = db.grouped
	}
	rep := b.data()
	var cErr *C.char
	C.tmq_write(rawDB(db.c), rawWriteOptions(o), bytesPointer(rep), C.size_t(len(rep)), &cErr)
	if text := takeError(cErr); text != "" {
		return db.fail("write to", text)
	}
	return nil
}

// Flush writes all memtables of all families to table files, as one change, and returns when they are durable.
func (db *DB) Flush() error {
	if err := db.enterWrite(); err != nil {
		return err
	}
	defer db.leave()
	o := made(grocksdb.NewDefaultFlushOptions())
	defer destroy(o)
	o.SetWait(true)
	if err := db.c.FlushCFs(db.handles, o); err != nil {
		return db.fail("flush", err.Error())
	}
	return nil
}

func (db *DB) handle(f Family) *grocksdb.ColumnFamilyHandle {
	if f == Units {
		return db.units
	}
	return db.offsets
}

// Get returns a copy of the row's value; false when there is none.
func (db *DB) Get(f Family, key []byte) ([]byte, bool, error) {
	if err := db.enter(); err != nil {
		return nil, false, err
	}
	defer db.leave()
	h := db.handle(f)
	if h == nil {
		return nil, false, nil
	}
	s, err := db.c.GetCF(db.read, h, key)
	if err != nil {
		return nil, false, db.fail("read a row of", err.Error())
	}
	madeAll(1)
	defer func() {
		s.Free()
		destroyed(1)
	}()
	if !s.Exists() {
		return nil, false, nil
	}
	return slices.Clone(s.Data()), true, nil
}

// Scan calls fn with the rows whose key is at or above start, in key order, until fn returns false. Key and value are
// RocksDB's memory, valid during the call only. fn must not call back into db.
func (db *DB) Scan(f Family, start []byte, fn func(key, value []byte) bool) error {
	return db.scan(func() *grocksdb.ColumnFamilyHandle { return db.handle(f) }, start, fn)
}

// scan is Scan over a family that is nil where the database lacks it.
func (db *DB) scan(family func() *grocksdb.ColumnFamilyHandle, start []byte, fn func(key, value []byte) bool) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	h := family()
	if h == nil {
		return nil
	}
	it := made(db.c.NewIteratorCF(db.read, h))
	defer func() {
		it.Close()
		destroyed(1)
	}()
	for it.Seek(start); it.Valid(); it.Next() {
		if !fn(it.Key().Data(), it.Value().Data()) {
			break
		}
	}
	if err := it.Err(); err != nil {
		return db.fail("scan", err.Error())
	}
	return nil
}

// Close waits for the calls inside RocksDB, stops its threads and releases every C object, children first. Unless
// AvoidFlushDuringShutdown is set, RocksDB flushes what was written. Idempotent.
func (db *DB) Close() error {
	db.cancelCompaction()
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil
	}
	db.closed = true
	db.stop()
	return nil
}

// stop lets go of every C object, children first. mu is held exclusively.
func (db *DB) stop() {
	for _, h := range db.handles {
		destroy(h)
	}
	db.c.Close()
	destroyed(1)
	destroy(db.read)
	destroy(db.write)
	destroy(db.grouped)
	db.owned.destroy()
	db.c, db.handles, db.units, db.offsets = nil, nil, nil, nil
}

// Replace closes the database, has between move its files away, and opens what is then in the directory, which it makes if there is nothing, with the compaction filter at
// minPhy. It waits for the calls inside RocksDB; those that come meanwhile wait, and then see the other database. Batches and Ingesters are of the
// old one.
//
// After an error every call answers ErrClosed, and Replace may be called again.
func (db *DB) Replace(minPhy int64, between func() error) error {
	if db.readOnly {
		return fmt.Errorf("%s: %w", db.dir, ErrReadOnly)
	}
	db.cancelCompaction()
	db.mu.Lock()
	defer db.mu.Unlock()
	if !db.closed {
		db.stop()
	}
	db.closed = true
	if err := between(); err != nil {
		return err
	}
	if err := db.start(minPhy); err != nil {
		return err
	}
	db.closed = false
	db.closing.Store(false)
	return nil
}

// LostFiles compares the table files that the database consists of with its directory, and says in words which of them are not there or have another length. RocksDB reads on from a file that it has open, also when
// that was removed, and does not see it before it is opened again.
func (db *DB) LostFiles() ([]string, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.leave()
	lost := db.lostFiles()
	if len(lost) > 0 { // or they were compacted away meanwhile
		lost = db.lostFiles()
	}
	current, err := os.ReadFile(filepath.Join(db.dir, "CURRENT"))
	if err != nil {
		return append(lost, fmt.Sprintf("%s: %v", filepath.Join(db.dir, "CURRENT"), err)), nil
	}
	if manifest := filepath.Join(db.dir, strings.TrimSpace(string(current))); !isFile(manifest) {
		lost = append(lost, manifest+" is not there")
	}
	return lost, nil
}

func (db *DB) lostFiles() (lost []string) {
	for _, f := range db.c.GetLiveFilesMetaData() {
		path := filepath.Join(db.dir, f.Name)
		switch st, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			lost = append(lost, path+" is not there")
		case err != nil:
			lost = append(lost, fmt.Sprintf("%s: %v", path, err))
		case st.Size() != f.Size:
			lost = append(lost, fmt.Sprintf("%s has %d bytes, and should have %d", path, st.Size(), f.Size))
		}
	}
	return lost
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}
