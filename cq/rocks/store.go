//go:build cgo

package rocks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"log/slog"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

var (
	_ cq.Store       = (*Store)(nil)
	_ cq.Importer    = (*Store)(nil)
	_ cq.Expirer     = (*Store)(nil)
	_ cq.Skipper     = (*Store)(nil)
	_ cq.NameChecker = (*Store)(nil)
	_ cq.Noter       = (*Store)(nil)
	_ cq.Queue       = (*queue)(nil)

	_ cq.TimeSearcher = (*queue)(nil)
)

// Store keeps consume queues in RocksDB. It implements cq.Store and cq.Importer. The reading methods serve any number of
// goroutines beside one that writes; writers exclude one another.
type Store struct {
	dir      string
	db       *rocks.DB
	log      *slog.Logger
	readOnly bool
	options  Options
	minPhy   atomic.Int64
	// unitsPerFile is the constant, smaller in tests.
	unitsPerFile int

	commit committer
	tail   tailCache

	opened, damaged atomic.Bool  // there is a database; OnDamage was told of it
	life            sync.Mutex   // held by Replace and Close; before write
	replaced        atomic.Int64 // counts the begins and the ends of Replace: odd while there is no database

	recent     [recentQueues]atomic.Pointer[queue]
	recentSeed maphash.Seed

	ahead [aheadPlaces]readAhead

	// write is held by every writing method. Lock order: write before commit.mu before mu.
	write struct {
		sync.Mutex
		rows     rowWriter
		ingester *rocks.Ingester
	}

	mu struct {
		sync.RWMutex
		closed bool
		ends   *endTable
		// epoch counts the changes that can lower what a search for min finds.
		epoch      int64
		dispatched int64 // the end of the last record dispatched, -1 without one
		row        int64 // value of the checkpoint row, -1 without one: less than dispatched while it is held back
		durable    int64 // as of the last flush
	}
}

// Open opens the store in dir. The errors of a directory that RocksDB cannot open name it and say that its queues can be
// rebuilt from the CommitLog; those of damaged files match cq.ErrCorrupt.
func Open(dir string, o Options) (_ *Store, err error) {
	dir = filepath.Clean(dir)
	if err := o.Commit.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults(dir)
	s := &Store{dir: dir, log: o.Logger.With(slog.String("dir", dir)), readOnly: o.ReadOnly, options: o, unitsPerFile: unitsPerFile, recentSeed: maphash.MakeSeed()}
	begin := time.Now()
	if o.ReadOnly {
		s.db, err = rocks.OpenReadOnly(dir, o.RocksDB)
	} else {
		s.db, err = rocks.Open(dir, o.RocksDB)
	}
	if err != nil {
		return nil, s.wrap(err)
	}
	defer func() {
		if err != nil {
			_ = s.db.Close()
		}
	}()
	if !o.ReadOnly {
		if err := rocks.RemoveLeftovers(o.IngestDir); err != nil {
			return nil, err
		}
	}
	s.minPhy.Store(o.MinPhyOffset)
	if err := s.db.SetMinPhyOffset(o.MinPhyOffset); err != nil {
		return nil, s.wrap(err)
	}
	opened := time.Since(begin)
	if err := s.load(); err != nil {
		return nil, err
	}
	s.tail.init(o.TailBytes)
	s.commit.start(s)
	s.opened.Store(true)
	s.log.Info("consume queues opened", slog.Int("queues", s.mu.ends.len()),
		slog.Int64("phyOffset", s.mu.dispatched), slog.Duration("elapsed", opened), slog.Duration("scan", time.Since(begin)-opened))
	return s, nil
}

// load reads the family "offset" into memory.
func (s *Store) load() error {
	s.mu.ends = newEndTable()
	topic := "" // queues of one topic share its string
	err := s.db.Scan(rocks.Offsets, nil, func(key, value []byte) bool {
		name, queueID, isMax, ok := decodeRowKey(key)
		if !ok {
			return true
		}
		phy, slot, ok := decodeRow(value)
		if !ok {
			return true
		}
		if len(name) > math.MaxUint16 {
			return true // no program writes such a topic
		}
		if string(name) != topic {
			topic = string(name)
		}
		k := cq.Key{Topic: topic, QueueID: queueID}
		if isMax { // "max" sorts before "min"
			if slot >= 0 {
				s.mu.ends.settle(k, end{max: slot + 1, lastPhy: phy})
			}
		} else if e, ok := s.mu.ends.get(k); ok {
			e.minSlot = max(slot, 0)
			s.mu.ends.put(k, e)
		}
		return true
	})
	if err != nil {
		return s.wrap(err)
	}
	s.mu.dispatched = -1
	value, found, err := s.db.Get(rocks.Offsets, checkpointKey)
	if err != nil {
		return s.wrap(err)
	}
	if found {
		if len(value) != 8 {
			return &cq.CorruptError{File: s.dir, Offset: -1, Row: "checkpoint", Want: "8 bytes", Got: fmt.Sprint(len(value))}
		}
		s.mu.dispatched = int64(binary.BigEndian.Uint64(value))
	}
	s.mu.row, s.mu.durable = s.mu.dispatched, s.mu.dispatched
	return nil
}

// wrap puts an error of the database into the words of package cq.
func (s *Store) wrap(err error) error {
	if errors.Is(err, rocks.ErrClosed) {
		if s.replaced.Load()&1 != 0 {
			return s.replacedError()
		}
		return s.closedError()
	}
	if isDamage(err) {
		if s.options.OnDamage != nil && s.opened.Load() && s.damaged.CompareAndSwap(false, true) {
			s.options.OnDamage(err)
		}
		damage := &cq.CorruptError{File: s.dir, Offset: -1, Err: err}
		if e, ok := errors.AsType[*rocks.Error](err); ok {
			if file, offset := e.Place(); file != "" {
				damage.File, damage.Offset = file, offset
			}
		}
		return damage
	}
	return err
}

func (s *Store) closedError() error { return fmt.Errorf("%s: %w", s.dir, cq.ErrClosed) }

// Kind names the store.
func (s *Store) Kind() cq.Kind { return cq.KindRocks }

// Dir returns the directory of the database.
func (s *Store) Dir() string { return s.dir }

// SetMinPhyOffset tells the store the CommitLog's min physical offset, in bytes. Queues' mins follow at once; compactions
// drop units below it. A value that is not greater than the present one changes nothing, as a log's min never falls.
func (s *Store) SetMinPhyOffset(minPhy int64) error {
	for {
		old := s.minPhy.Load()
		if minPhy <= old {
			return nil
		}
		if s.minPhy.CompareAndSwap(old, minPhy) {
			return s.wrap(s.db.SetMinPhyOffset(minPhy))
		}
	}
}

// Queue returns the queue; false when the store holds no such queue.
func (s *Store) Queue(k cq.Key) (cq.Queue, bool) {
	if _, ok := s.end(k); !ok {
		return nil, false
	}
	hash := maphash.Comparable(s.recentSeed, k)
	at := &s.recent[hash%recentQueues]
	if q := at.Load(); q != nil && q.key == k {
		return q, true
	}
	q := &queue{s: s, key: k, prefix: appendUnitPrefix(nil, k), ahead: &s.ahead[hash%aheadPlaces]}
	q.tail = s.tail.shard(q.prefix)
	at.Store(q)
	return q, true
}

// recentQueues is how many queues are kept that were asked for lately. They have no state, so one that is kept is as good as a new one.
const recentQueues = 1024

func (s *Store) end(k cq.Key) (end, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.ends.get(k)
}

// Queues yields the keys present, taking them a thousand at a time: a queue that is there throughout is yielded once, one that
// comes or goes meanwhile may be.
func (s *Store) Queues() iter.Seq2[cq.Key, error] {
	return func(yield func(cq.Key, error) bool) {
		var keys []cq.Key
		for n := 0; ; n++ {
			var ok bool
			s.mu.RLock()
			closed := s.mu.closed
			keys, ok = s.mu.ends.chunk(n, keys[:0])
			s.mu.RUnlock()
			if closed {
				yield(cq.Key{}, s.closedError())
				return
			}
			if !ok {
				return
			}
			for _, k := range keys {
				if !yield(k, nil) {
					return
				}
			}
		}
	}
}

// DispatchFrom returns the checkpoint: the end of the last record dispatched, or -1.
func (s *Store) DispatchFrom() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.dispatched
}

// row returns the checkpoint row.
func (s *Store) row() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.row
}

// Noted lets the checkpoint row rise again after a refused entry; see cq.Noter.
func (s *Store) Noted() { s.commit.ceiling.Store(math.MaxInt64) }

// Progress returns the ends of the furthest records accepted, readable and durable.
func (s *Store) Progress() (accepted, readable, durable int64) {
	s.mu.RLock()
	readable, durable = s.mu.dispatched, s.mu.durable
	s.mu.RUnlock()
	s.commit.mu.Lock() // later: it only rises, but for a truncation
	defer s.commit.mu.Unlock()
	return max(s.commit.mu.acceptedPhy, readable), readable, durable
}

// TableBytes returns the size of the table files, in bytes; what is still in memory is not counted.
func (s *Store) TableBytes() (int64, error) {
	n, err := s.db.TableBytes()
	return n, s.wrap(err)
}

// Stats returns what the store occupies on disk and in memory, and how far RocksDB is behind with merging. It asks RocksDB about 25 times and lists the
// directory: for every few seconds, not for every message.
func (s *Store) Stats() (Stats, error) {
	st, err := s.db.Stats()
	return st, s.wrap(err)
}

// SortedRuns tells how many files a read of one unit may have to look into: what Compact brings down to one.
func (s *Store) SortedRuns() (int, error) {
	n, err := s.db.SortedRuns()
	return n, s.wrap(err)
}

// Compact merges all units into one sorted run and drops expired ones. After an import that left more than one run
// (SortedRuns) it makes reads as fast as they get; a store opened with automatic compaction would otherwise hold up writers
// until it has done the same. While it runs the directory holds input and output. progress, which may be nil, is told the
// bytes written so far and the bytes to be read; the output is the smaller. ctx ends the merge without harm.
func (s *Store) Compact(ctx context.Context, progress func(writtenBytes, totalBytes int64)) error {
	if s.readOnly {
		return s.readOnlyError()
	}
	return s.wrap(s.db.Compact(ctx, progress))
}

func (s *Store) readOnlyError() error { return fmt.Errorf("%s: %w", s.dir, cq.ErrReadOnly) }

// AwaitReadable returns when everything accepted before the call is readable. Where nobody is writing it does so itself. The error is that of a write.
func (s *Store) AwaitReadable(ctx context.Context) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	return s.commit.drain(ctx)
}

// Failure returns the error that ended writing for good, nil while there is none. Reads go on; what was accepted before and is not readable is in the log, and
// comes back when the store is opened again and dispatch resumes from DispatchFrom.
func (s *Store) Failure() error { return s.commit.failure() }

// Waiting returns why writes or flushes fail that are tried again, as those that meet a full disk; nil where they go well, or have failed for good (Failure).
func (s *Store) Waiting() error { return s.commit.waiting() }

// Flush makes what was accepted durable: the tables of both families, as one change. Its failure is sticky like that of a
// write. While the disk is full, for CommitOptions.NoSpaceFor, it is not, and matches cq.ErrNoRoom.
func (s *Store) Flush(ctx context.Context) error {
	if err := s.AwaitReadable(ctx); err != nil {
		return err
	}
	s.mu.RLock()
	readable, round := s.mu.dispatched, s.replaced.Load()
	s.mu.RUnlock()
	if err := s.commit.flush(); err != nil {
		return s.stick(err)
	}
	s.commit.flushed()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over(round) {
		return s.replacedError()
	}
	// A truncation in between has lowered dispatched; what it cut is not durable.
	s.mu.durable = max(s.mu.durable, min(readable, s.mu.dispatched))
	return nil
}

// stick remembers the first failure of a write or flush.
func (s *Store) stick(err error) error { return s.commit.stick(s.wrap(err)) }

// writable says why there can be no write.
func (s *Store) writable(ctx context.Context) error {
	if s.readOnly {
		return s.readOnlyError()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.closed {
		return s.closedError()
	}
	return nil
}

// beginWrite takes the write lock, or says why there can be no write; the caller unlocks.
func (s *Store) beginWrite(ctx context.Context) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	s.write.Lock()
	err := s.writable(ctx)
	if err == nil {
		err = s.commit.failure()
	}
	if err != nil {
		s.write.Unlock()
	}
	return err
}

// beginChange is beginWrite for what changes queues otherwise than Append: everything accepted is readable when it returns nil, and its batch is empty.
func (s *Store) beginChange(ctx context.Context) error {
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	if err := s.commit.drain(ctx); err != nil {
		s.write.Unlock()
		return err
	}
	s.write.rows.start(s.db)
	return nil
}

// Close writes what was accepted and releases everything. What was not flushed is flushed by RocksDB, unless
// RocksDBOptions.AvoidFlushDuringShutdown says otherwise. The error tells, among others, that accepted units could not be written. Idempotent.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	s.mu.Lock()
	closed := s.mu.closed
	s.mu.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	err := s.commit.stop()
	// A merge may be running inside the database, never under the write lock.
	s.write.Lock()
	defer s.write.Unlock()
	s.tail.clear()
	if s.write.ingester != nil {
		err = errors.Join(err, s.write.ingester.Close())
		s.write.ingester = nil
	}
	err = errors.Join(err, s.db.Close())
	s.mu.Lock()
	s.mu.ends = newEndTable()
	s.mu.epoch++
	s.mu.Unlock()
	return err
}
