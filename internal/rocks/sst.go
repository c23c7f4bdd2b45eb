//go:build cgo

package rocks

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/linxGnu/grocksdb"
)

// Ingester builds sorted table files of units beside the database and has the database take them in. Not safe for
// concurrent use. The files equal those that the database writes itself: same table options, the compression of its upper
// levels.
type Ingester struct {
	db      *DB
	dir     string
	owned   owned
	env     *grocksdb.EnvOptions
	options *grocksdb.Options

	writer *grocksdb.SSTFileWriter
	path   string
	files  []string
	serial int
}

// ingestPattern names the files being built.
const ingestPattern = "ingest-*.sst"

// NewIngester prepares for building files in dir, which is created; it must lie in the database's own file system, where
// files can be handed over without copying, and not inside the database directory. Files that an earlier run left in dir are
// removed.
func (db *DB) NewIngester(dir string) (_ *Ingester, err error) {
	if db.readOnly {
		return nil, fmt.Errorf("%s: %w", db.dir, ErrReadOnly)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, &Error{Op: "prepare ingestion into", Dir: db.dir, Err: err}
	}
	w := &Ingester{db: db, dir: dir}
	if err := removeFiles(dir); err != nil {
		return nil, &Error{Op: "prepare ingestion into", Dir: db.dir, Err: err}
	}
	f := db.options.Units
	// The file writer compresses by the bottommost setting, wherever the file goes. Whether it goes to the bottom is known only
	// later, and the merge that takes it there compresses again.
	f.BottommostCompression = SameCompression
	f.BlockCacheBytes = 0
	if w.options, err = w.owned.newFamilyOptions(f, true); err != nil {
		return nil, err
	}
	w.owned.families = append(w.owned.families, w.options)
	w.env = made(grocksdb.NewDefaultEnvOptions())
	return w, nil
}

// RemoveLeftovers removes from dir the files that an interrupted run left there, and dir itself if it is then empty. Only
// who has the database open for writing may call it. An absent dir is no error.
func RemoveLeftovers(dir string) error {
	err := removeFiles(dir)
	_ = os.Remove(dir) // fails when somebody keeps files there: theirs
	return err
}

func removeFiles(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, ingestPattern))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// begin opens the next file.
func (w *Ingester) begin() error {
	w.writer = made(grocksdb.NewSSTFileWriter(w.env, w.options))
	w.serial++
	w.path = filepath.Join(w.dir, fmt.Sprintf("ingest-%06d.sst", w.serial))
	if err := w.writer.Open(w.path); err != nil {
		return w.fail("create", err.Error())
	}
	w.files = append(w.files, w.path)
	return nil
}

func (w *Ingester) fail(op, text string) error {
	return &Error{Op: op + " " + w.path + " for", Dir: w.db.dir, Text: text}
}

// PutUnits appends units to consecutive slots of one queue, beginning at from. Queues, and slots within a queue, come in
// ascending key order over all calls until Commit. prefix is the queue's key up to the slot. One call into C.
func PutUnits[T UnitLayout](w *Ingester, prefix []byte, from int64, units []T) error {
	if len(units) == 0 {
		return nil
	}
	if w.writer == nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	var buf [keyBuffer]byte
	key := slotKey(buf[:0], prefix, from)
	var cErr *C.char
	C.tmq_sst_put_units(rawSSTWriter(w.writer), bytesPointer(key), C.size_t(len(key)), unitsPointer(units), C.int64_t(len(units)), &cErr)
	if text := takeError(cErr); text != "" {
		return w.fail("write to", text)
	}
	return nil
}

// Cut finishes the file being written; the next PutUnits begins another. The filter of a file is built in memory, about 10
// bytes for each unit, so that long inputs are cut.
func (w *Ingester) Cut() error {
	if w.writer == nil {
		return nil
	}
	err := w.writer.Finish()
	destroy(w.writer)
	w.writer = nil
	if err != nil {
		return w.fail("finish", err.Error())
	}
	return nil
}

// Commit hands all files to the database, as one change. When it returns nil the units are durable and readable; they replace
// units that were there under the same keys.
//
// The options are those that old readers understand best: the sequence number that orders the files against others goes to
// the manifest, never into the file (write_global_seqno off, needed only before RocksDB 5.16), and no file checksums
// are recorded.
func (w *Ingester) Commit() error {
	if err := w.Cut(); err != nil {
		return err
	}
	if len(w.files) == 0 {
		return nil
	}
	if err := w.db.enterWrite(); err != nil {
		return err
	}
	defer w.db.leave()
	o := made(grocksdb.NewDefaultIngestExternalFileOptions())
	defer destroy(o)
	o.SetMoveFiles(true)
	o.SetSnapshotConsistency(true)
	o.SetAllowGlobalSeqNo(true)
	o.SetAllowBlockingFlush(true)
	if err := w.db.c.IngestExternalFileCF(w.db.units, w.files, o); err != nil {
		return w.db.fail("take table files into", err.Error())
	}
	w.files = w.files[:0]
	return nil
}

// Rollback drops what was put since the last Commit.
func (w *Ingester) Rollback() error {
	if w.writer != nil {
		destroy(w.writer)
		w.writer = nil
	}
	w.files = w.files[:0]
	return removeFiles(w.dir)
}

// Close drops what was not committed and removes the directory if nothing else is in it. Idempotent.
func (w *Ingester) Close() error {
	if w.env == nil {
		return nil
	}
	err := errors.Join(w.Rollback(), RemoveLeftovers(w.dir))
	destroy(w.env)
	w.env = nil
	w.owned.destroy()
	return err
}
