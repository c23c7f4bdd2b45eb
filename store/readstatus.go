package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/index"
	indexrocks "github.com/tandemq/tandemmq/index/rocks"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// Status tells how far the parts of a stopped store have come. Physical offsets are -1 where there is nothing or nothing is known.
type Status struct {
	Store string `json:"store"`
	// Unclean: the store was not closed in order; it is recovered when it is next opened.
	Unclean bool `json:"unclean"`

	MinPhyOffset int64  `json:"minPhyOffset"` // where the log begins
	EndPhyOffset int64  `json:"endPhyOffset"` // behind its last record
	LogEnd       string `json:"logEnd"`       // clean end, torn end or corruption
	LogFiles     int64  `json:"logFiles"`
	// MissingFiles are files of the log that are not there, while files before and behind them are.
	MissingFiles []commitlog.MissingFile `json:"missingFiles,omitempty"`
	// LostEndBytes are missing at the log's end: it was durable up to there. PromisedBy tells what says so.
	LostEndBytes int64  `json:"lostEndBytes,omitempty"`
	PromisedBy   string `json:"promisedBy,omitempty"`
	FirstMs      int64  `json:"firstMs"` // store time of the first record, 0 without one
	LastMs       int64  `json:"lastMs"`  // of the last

	// The same as in Watermarks, of a store that nobody writes to: all that is in the log is appended, committed and confirmed. Flushed is what is known to be durable: everything after a stop
	// in order, otherwise what checkpoint and queue offsets say; -1 when they do not.
	Appended  int64 `json:"appended"`
	Committed int64 `json:"committed"`
	Flushed   int64 `json:"flushed"`
	Confirmed int64 `json:"confirmed"`

	Checkpoint      Checkpoint `json:"checkpoint"`
	CheckpointFault string     `json:"checkpointFault,omitempty"` // why it is not used

	Views []ViewStatus `json:"views"`

	// ErrorFlags are set by failures and forbid puts until they are cleared.
	ErrorFlags []FlagError `json:"errorFlags"`

	// SetAside are the directories that keep the files of a RocksDB of queues that was damaged, oldest first. Nothing reads them, and nothing removes them.
	SetAside []string `json:"setAside,omitempty"`

	past int64          // behind the filler that may stand at EndPhyOffset
	log  *commitlog.Log // while it is read
}

// ViewStatus is how far a view of the log has come.
type ViewStatus struct {
	Name        string `json:"name"` // "file queues", "rocks queues", "index", "rocks index"
	Dispatched  int64  `json:"dispatched"`
	BehindBytes int64  `json:"behindBytes"`           // -1 when not known
	BeyondBytes int64  `json:"beyondBytes,omitempty"` // it has come further than the log, which has lost its end
	// BehindMs is from the store time of the first record that is not in the view to that of the log's last; -1 when not known.
	BehindMs int64 `json:"behindMs"`
	// ByCheckpoint tells that Dispatched is how far the checkpoint says that the queues were flushed. RocketMQ keeps no other note: they may have all the log.
	ByCheckpoint bool   `json:"byCheckpoint,omitempty"`
	Fault        string `json:"fault,omitempty"`
}

// ReadStatus reads it off the directory of a stopped store, and changes nothing. *InUseError while a broker has the store.
func ReadStatus(root string, o Options) (st Status, err error) {
	l := NewLayout(root)
	st = Status{Store: l.Root, MinPhyOffset: -1, EndPhyOffset: -1, Appended: -1, Committed: -1, Flushed: -1, Confirmed: -1, Views: []ViewStatus{}, ErrorFlags: []FlagError{}}
	if err := l.CheckRoot(); err != nil {
		return st, err
	}
	lock, err := LockShared(root)
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if st.Unclean, err = l.HasAbort(); err != nil {
		return st, err
	}
	log, err := commitlog.Open(l.CommitLogDir(), commitlog.Options{PassMissing: true})
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	st.log = log
	defer func() { st.log = nil }()
	if err := st.readLog(log); err != nil {
		return st, err
	}
	st.readCheckpoint(l)
	s := newStore(o)
	s.layout, s.abort.found = l, st.Unclean
	if promised, by := s.promisedTo(); promised > st.past && st.LogEnd != commitlog.EndCorrupt.String() { // behind damage there are records: nothing tells how many are lost
		st.LostEndBytes, st.PromisedBy = promised-max(st.EndPhyOffset, 0), by
	}
	if flags, err := OpenRunningFlags(nil, l.StateDir()); err == nil {
		st.ErrorFlags = append(st.ErrorFlags, flags.Errors()...)
	}
	if st.SetAside, err = setAsideDirs(l, "rocksdb"); err != nil {
		return st, err
	}
	st.readFlushed(l, o)
	st.readFileQueues(l, log)
	st.readRocksQueues(l, log)
	st.readIndex(l, log, o)
	st.readRocksIndex(l, log)
	return st, nil
}

func (st *Status) readLog(log *commitlog.Log) error {
	end, err := log.End(commitlog.ScanOptions{CheckCRC: true})
	if err != nil {
		return err
	}
	st.MissingFiles = log.Missing()
	st.MinPhyOffset, st.EndPhyOffset, st.LogEnd = log.MinOffset(), end.Offset, end.Kind.String()
	if st.past, err = log.PastFiller(end.Offset); err != nil {
		return err
	}
	if size := log.FileSize(); size > 0 {
		st.LogFiles = log.Size()/size - int64(len(log.Missing()))
	}
	s := log.Scanner(-1, commitlog.ScanOptions{NoReadahead: true})
	defer s.Close()
	if s.Next() {
		st.FirstMs = s.Record().StoreTimestampMs
	}
	st.LastMs = lastStoreTime(log, end.Offset)
	return nil
}

// lastStoreTime returns the store time of the last record of a log that ends at end, 0 without one.
func lastStoreTime(log *commitlog.Log, end int64) (ms int64) {
	size := log.FileSize()
	if size == 0 || end <= log.MinOffset() {
		return 0
	}
	s := log.Scanner(max((end-1)/size*size, log.MinOffset()), commitlog.ScanOptions{To: end, NoReadahead: true})
	defer s.Close()
	for s.Next() {
		ms = s.Record().StoreTimestampMs
	}
	return ms
}

// firstStoreTime returns the store time of the first record in [from, end), 0 without one: behind from there may be a filler.
func firstStoreTime(log *commitlog.Log, from, end int64) int64 {
	s := log.Scanner(from, commitlog.ScanOptions{To: end, NoReadahead: true})
	defer s.Close()
	if s.Next() {
		return s.Record().StoreTimestampMs
	}
	return 0
}

// readFlushed finds out how far the log is known to be durable.
func (st *Status) readFlushed(l Layout, o Options) {
	st.Appended, st.Committed, st.Confirmed = st.EndPhyOffset, st.EndPhyOffset, st.EndPhyOffset
	s := newStore(o)
	s.layout, s.abort.found = l, st.Unclean
	if to := s.knownDurable().to; to > 0 {
		st.Flushed = min(to, st.EndPhyOffset)
	}
}

func (st *Status) readCheckpoint(l Layout) {
	c, err := ReadCheckpoint(l.CheckpointPath())
	st.Checkpoint = c
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		st.CheckpointFault = err.Error()
	}
}

// add adds a view that has come to dispatched.
func (st *Status) add(name string, dispatched int64, err error) {
	v := ViewStatus{Name: name, Dispatched: dispatched, BehindBytes: -1, BehindMs: -1}
	if dispatched >= 0 && st.EndPhyOffset >= 0 {
		v.BehindBytes, v.BeyondBytes = max(st.EndPhyOffset-dispatched, 0), max(dispatched-st.past, 0)
	}
	if v.BehindBytes == 0 {
		v.BehindMs = 0
	} else if v.BehindBytes > 0 {
		if ms := firstStoreTime(st.log, max(dispatched, st.MinPhyOffset), st.EndPhyOffset); ms > 0 {
			v.BehindMs = max(st.LastMs-ms, 0)
		}
	}
	if err != nil {
		v.Fault = err.Error()
	}
	st.Views = append(st.Views, v)
}

// readFileQueues goes by the note that comes with them, or by the checkpoint: the files themselves do not tell.
func (st *Status) readFileQueues(l Layout, log *commitlog.Log) {
	name := string(cq.KindFile) + " queues"
	has, err := l.HasFileQueues()
	if !has {
		if err != nil {
			st.add(name, -1, err)
		}
		return
	}
	note, err := readQueueOffsets(mmap.OS, l.queueOffsetsPath())
	switch {
	case err == nil && note != nil:
		st.add(name, note.phyOffset, nil)
	case st.Checkpoint.LogicsPhysicalOffset > 0:
		st.add(name, recordEnd(log, st.Checkpoint.LogicsPhysicalOffset), err)
		st.Views[len(st.Views)-1].ByCheckpoint = true
	default:
		st.add(name, -1, err)
	}
}

// readRocksQueues goes by the checkpoint row. A migration lets it point into the last record that has its unit, one byte before its end: RocketMQ 5.5.0 goes on with the record that
// begins above the row, and would pass over one that begins at it (F1). What counts is where the next record begins.
func (st *Status) readRocksQueues(l Layout, log *commitlog.Log) {
	name := string(cq.KindRocks) + " queues"
	dir, _, found, err := l.FindRocks()
	if err != nil || !found {
		if err != nil {
			st.add(name, -1, err)
		}
		return
	}
	s, err := rocks.Open(dir, rocks.Options{ReadOnly: true, MinPhyOffset: max(st.MinPhyOffset, 0)})
	if err != nil {
		st.add(name, -1, err)
		return
	}
	st.add(name, recordFrom(log, s.DispatchFrom(), st.EndPhyOffset), s.Close())
}

// recordFrom returns where the first record at or behind phy begins in a log that ends at end; phy itself where that is not in the log, or cannot be told.
func recordFrom(log *commitlog.Log, phy, end int64) int64 {
	size := log.FileSize()
	if phy <= log.MinOffset() || phy >= end || size == 0 {
		return phy
	}
	var r message.Record
	if release, err := log.Read(phy, 0, false, &r); err == nil {
		release()
		return phy
	}
	s := log.Scanner(max(phy/size*size, log.MinOffset()), commitlog.ScanOptions{To: end, NoReadahead: true})
	defer s.Close()
	for s.Next() {
		if at := s.Record().PhyOffset; at >= phy {
			return at
		}
	}
	if s.End().Kind == commitlog.EndClean {
		return end
	}
	return phy
}

func (st *Status) readIndex(l Layout, log *commitlog.Log, o Options) {
	r := recovery{layout: l, base: o}
	if err := l.indexInTheWay(); err != nil {
		st.add(indexName, -1, err)
		return
	}
	if err := r.indexSizes(); err == nil && !r.noIndex {
		o = r.base // its files tell
	}
	ix, err := index.Open(l.IndexDir(), index.Options{HashSlots: int32(o.MaxHashSlotNum), MaxEntries: int32(o.MaxIndexNum), ReadOnly: true, Logger: slog.New(slog.DiscardHandler)})
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		st.add(indexName, -1, err)
		return
	}
	faults := errors.Join(ix.Faults()...)
	read, _ := readIndexRead(mmap.OS, l, log, st.EndPhyOffset, ix.Files())
	if read < 0 && len(ix.Files()) == 0 {
		_ = ix.Close() // read-only, and nothing in it
		if faults != nil {
			st.add(indexName, -1, faults)
		}
		return
	}
	from := ix.DispatchFrom()
	if from >= 0 { // the start of the last message that has entries: behind it nothing may have had keys
		from = recordEnd(log, from)
	}
	from = max(from, read)
	hole, err := findIndexHole(log, read, st.EndPhyOffset, ix.Files(), message.DefaultDelayLevels())
	if hole != nil {
		from, err = hole.from, hole
	}
	st.add(indexName, from, errors.Join(err, faults, ix.Close()))
}

// readRocksIndex goes by its rows of progress; those of RocketMQ alone do not tell that nothing is missing below (I13).
func (st *Status) readRocksIndex(l Layout, log *commitlog.Log) {
	dir := l.RocksIndexDir()
	if _, err := os.Stat(filepath.Join(dir, currentFile)); missing(err) {
		return
	}
	x, err := indexrocks.Open(dir, indexrocks.Options{ReadOnly: true})
	if err != nil {
		st.add(rocksIndexName, -1, err)
		return
	}
	to := x.DispatchFrom()
	if phy, _ := x.Last(); to < 0 && phy >= 0 {
		to = recordEnd(log, phy)
	}
	if err := x.Close(); to >= 0 || err != nil {
		st.add(rocksIndexName, to, err)
	}
}

// recordEnd returns the end of the record at phy, phy itself when none is there.
func recordEnd(log *commitlog.Log, phy int64) int64 {
	var r message.Record
	release, err := log.Read(phy, 0, false, &r)
	if err != nil {
		return phy
	}
	defer release()
	return phy + int64(r.TotalSize)
}

// Text says how the view stands, for people.
func (v *ViewStatus) Text() string {
	switch {
	case v.Fault != "":
		return v.Fault
	case v.BehindBytes < 0:
		return "not known; found out when the store is opened"
	case v.BeyondBytes > 0:
		return fmt.Sprintf("%d bytes beyond the log's end", v.BeyondBytes)
	case v.BehindBytes == 0:
		return "up to the log's end"
	}
	behind := fmt.Sprintf("%d bytes", v.BehindBytes)
	if v.BehindMs >= 0 {
		behind = fmt.Sprintf("%d bytes and %d ms", v.BehindBytes, v.BehindMs)
	}
	if v.ByCheckpoint {
		return "flushed up to there, as the checkpoint says, which is " + behind + " before the log's end; the queues may have more, `tandemmq store check --deep` tells"
	}
	return behind + " behind"
}
