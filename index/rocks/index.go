//go:build cgo

package rocks

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// Index is the message index of a store in RocksDB: one writer, any number of queries beside it.
type Index struct {
	dir     string
	o       Options
	db      *rocks.DB
	buffers sync.Pool // of *[]byte, for RowsBefore

	// writing is held by whatever writes; the rest is guarded by it.
	writing sync.Mutex
	batch   *rocks.Batch
	value   []byte
	expired int64 // rows of hours below are gone

	// progress is what the rows of progress say; readers may look at any time.
	indexed         atomic.Int64 // -1: no row
	lastPhy, lastMs atomic.Int64 // -1 and 0: no rows
	durable         atomic.Int64
	skipped         atomic.Int64
}

// Open opens the index in dir. The store's lock is the caller's duty. Errors name the directory; those of damaged files match index.ErrCorrupt. A row of progress that is none counts as missing, which costs time.
func Open(dir string, o Options) (_ *Index, err error) {
	dir = filepath.Clean(dir)
	if o, err = o.withDefaults(); err != nil {
		return nil, fmt.Errorf("open index %s: %w", dir, err)
	}
	x := &Index{dir: dir, o: o}
	x.buffers.New = func() any {
		b := make([]byte, o.bufferBytes)
		return &b
	}
	if o.ReadOnly {
		x.db, err = rocks.OpenReadOnly(dir, o.RocksDB)
	} else {
		x.db, err = rocks.Open(dir, o.RocksDB)
	}
	if err != nil {
		return nil, x.wrap(err)
	}
	if err := x.load(); err != nil {
		return nil, errors.Join(err, x.db.Close())
	}
	x.batch = x.db.NewBatch()
	return x, nil
}

// Exists tells whether an index was ever kept in the database in dir: whether it has rows of progress. No database is no error.
func Exists(dir string, db RocksDBOptions) (bool, error) {
	x, err := Open(dir, Options{ReadOnly: true, RocksDB: db})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	has := x.indexed.Load() >= 0 || x.lastPhy.Load() >= 0
	return has, x.Close()
}

// load reads the rows of progress.
func (x *Index) load() error {
	for _, p := range []struct {
		row    []byte
		to     *atomic.Int64
		absent int64
	}{{indexedToRow, &x.indexed, -1}, {lastOffsetRow, &x.lastPhy, -1}, {lastTimeRow, &x.lastMs, 0}} {
		p.to.Store(p.absent)
		value, found, err := x.db.Get(rocks.Units, p.row)
		if err != nil {
			return x.wrap(err)
		}
		n, ok := number(value)
		switch {
		case found && ok && n >= 0:
			p.to.Store(n)
		case found:
			x.o.Logger.Warn("a row of progress of the index is not used", slog.String("dir", x.dir), slog.String("row", string(p.row)), slog.Int("bytes", len(value)))
		}
	}
	x.durable.Store(x.indexed.Load())
	return nil
}

// wrap puts an error of the database into the words of package index.
func (x *Index) wrap(err error) error {
	if errors.Is(err, rocks.ErrClosed) {
		return fmt.Errorf("%s: %w", x.dir, index.ErrClosed)
	}
	if e, ok := errors.AsType[*rocks.Error](err); ok {
		switch {
		case e.Corruption():
			path, _ := e.Place()
			return &index.FileError{Path: cmp.Or(path, x.dir), Err: err}
		case e.NoSpace():
			return fmt.Errorf("%w (%w)", err, syscall.ENOSPC)
		}
	}
	return err
}

// Dir returns the directory of the database.
func (x *Index) Dir() string { return x.dir }

// writable answers what keeps the index from being changed. Caller holds writing.
func (x *Index) writable() error {
	if x.o.ReadOnly {
		return fmt.Errorf("%s: %w", x.dir, index.ErrReadOnly)
	}
	return nil
}

// AppendBatch adds the rows of a batch, and keeps no reference to it. It may be fed again what it was fed before: rows are the same then. Messages below DispatchFrom are there already and skipped.
//
// When it returns nil all is visible to queries; durable after Flush. On error nothing of the batch is there, the progress stays where it was, and the batch can be tried again (I11).
//
// Source: the writer of the RocksDB index, 5.5.0, which drops a batch that could not be written, and goes on behind it.
func (x *Index) AppendBatch(b *Batch) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	if err := x.writable(); err != nil {
		return err
	}
	x.batch.Reset()
	indexed, lastPhy, lastMs, skipped := x.indexed.Load(), x.lastPhy.Load(), x.lastMs.Load(), int64(0)
	from := 0
	for i := range b.messages {
		m := &b.messages[i]
		rows := from
		from = m.end
		if m.phy < indexed {
			skipped++
			continue
		}
		x.value = binary.BigEndian.AppendUint64(x.value[:0], uint64(m.storeMs))
		b.eachKey(rows, m.end, func(key []byte) { x.batch.Put(rocks.Units, key, x.value) })
		indexed = m.phy + int64(m.size)
		lastPhy, lastMs = max(lastPhy, m.phy), max(lastMs, m.storeMs)
	}
	x.skipped.Add(skipped)
	if indexed == x.indexed.Load() {
		return nil
	}
	if err := x.writeProgress(indexed, lastPhy, lastMs); err != nil {
		return fmt.Errorf("append to index: %w", err)
	}
	return nil
}

// writeProgress writes what is in the batch together with the rows of progress; those of RocketMQ go where there is nothing to say. Caller holds writing.
func (x *Index) writeProgress(indexed, lastPhy, lastMs int64) error {
	for _, p := range []struct {
		row     []byte
		n, none int64
	}{{indexedToRow, indexed, -1}, {lastOffsetRow, lastPhy, -1}, {lastTimeRow, lastMs, 0}} {
		if p.n == p.none {
			x.batch.Delete(rocks.Units, p.row)
			continue
		}
		x.value = binary.BigEndian.AppendUint64(x.value[:0], uint64(p.n))
		x.batch.Put(rocks.Units, p.row, x.value)
	}
	if err := x.db.Write(x.batch, false); err != nil {
		return x.wrap(err)
	}
	x.lastPhy.Store(lastPhy)
	x.lastMs.Store(lastMs)
	x.indexed.Store(indexed)
	return nil
}

// Flush returns when everything appended before the call is durable.
func (x *Index) Flush() error {
	if err := x.writable(); err != nil {
		return err
	}
	indexed := x.indexed.Load()
	if indexed == x.durable.Load() {
		return nil
	}
	if err := x.db.Flush(); err != nil {
		return fmt.Errorf("flush index: %w", x.wrap(err))
	}
	x.durable.Store(indexed)
	return nil
}

// Progress returns up to which physical offset messages are indexed without a gap, and up to which that is durable; -1 for none.
func (x *Index) Progress() (indexed, durable int64) { return x.indexed.Load(), x.durable.Load() }

// DispatchFrom returns the physical offset from which dispatch has to resume so that the index lacks nothing; -1: from the log's beginning, also where RocketMQ has an index already.
func (x *Index) DispatchFrom() int64 { return x.indexed.Load() }

// Last returns physical offset and store time (ms) of the last message, -1 and 0 without one: what clients are told.
func (x *Index) Last() (phy, ms int64) { return x.lastPhy.Load(), x.lastMs.Load() }

// Skipped returns how many messages AppendBatch took for indexed already.
func (x *Index) Skipped() int64 { return x.skipped.Load() }

// Close flushes and closes. A second call does nothing.
func (x *Index) Close() error {
	var err error
	if !x.o.ReadOnly {
		if err = x.Flush(); errors.Is(err, index.ErrClosed) {
			return nil
		}
	}
	x.writing.Lock()
	defer x.writing.Unlock()
	return errors.Join(err, x.db.Close())
}
