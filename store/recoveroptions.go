package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/index"
	indexrocks "github.com/tandemq/tandemmq/index/rocks"
)

// options makes the options that the store is opened with: those of its broker, or what the directory tells.
func (r *recovery) options() error {
	r.base = DefaultOptions()
	if r.o.Options != nil {
		r.base = *r.o.Options
	}
	if r.detects() {
		if err := r.readSizes(); err != nil {
			return err
		}
	}
	o := &r.base
	o.BuildConsumeQueues, o.Logger, o.FS = true, r.o.Logger, nil
	o.LogDamagePolicy = DamageRefuse // Recover decides
	if o.IsBatchTopic == nil {
		topics, err := r.layout.BatchTopics()
		if err != nil {
			return err
		}
		if len(topics) > 0 {
			r.note("batch queues are not supported, those of %d topics stay as they are: %s", len(topics), strings.Join(topics[:min(len(topics), 5)], ", "))
		}
		o.IsBatchTopic = func(topic string) bool { return slices.Contains(topics, topic) }
	}
	return r.sides()
}

// detects tells whether the directory is asked for what the options leave open.
func (r *recovery) detects() bool { return r.o.Options == nil || r.o.Given != nil }

// given tells whether somebody has set a property.
func (r *recovery) given(property string) bool {
	return r.o.Options != nil && (r.o.Given == nil || slices.Contains(r.o.Given, property))
}

// noteDefaults says which sizes are taken where nothing is left to tell them and nobody has set them: files of another length than the broker's keep it from starting (FR-B04).
func (r *recovery) noteDefaults(files, index bool) {
	const change = "the length of %s cannot be read off the directory, because there is none: new ones get %s, RocketMQ's default; where the broker has another, give it in a file (--conf broker.conf) before anything is made"
	if files && r.noQueueFile && slices.Contains(r.kinds, StoreTypeFile) && !r.given("mappedFileSizeConsumeQueue") {
		r.note(change, "queue files", fmt.Sprintf("mappedFileSizeConsumeQueue=%d", r.base.MappedFileSizeConsumeQueue))
	}
	if index && r.noIndexFile && r.base.MessageIndexEnable && (!r.given("maxHashSlotNum") || !r.given("maxIndexNum")) {
		r.note(change, "index files", fmt.Sprintf("maxHashSlotNum=%d and maxIndexNum=%d", r.base.MaxHashSlotNum, r.base.MaxIndexNum))
	}
}

// sides chooses the consume queues to bring in order.
func (r *recovery) sides() error {
	var err error
	if r.found.File, err = r.layout.HasFileQueues(); err != nil {
		return err
	}
	if r.found.RocksDB, err = r.hasRocks(); err != nil {
		return err
	}
	none := !r.found.File && !r.found.RocksDB
	if r.kept, err = r.layout.Kept(); err == nil && none {
		r.kept, err = r.layout.KeptBefore()
	}
	if err != nil {
		return err
	}
	r.placeRocks(r.found.RocksDB)
	var want Kept
	switch r.o.Kind {
	case cq.KindFile, cq.KindRocks, cq.KindCombine:
		want.File, want.RocksDB = r.o.Kind != cq.KindRocks, r.o.Kind != cq.KindFile
	case "":
		want = r.usual()
	default:
		return fmt.Errorf("recover store %s: no kind of queues %q", r.layout.Root, r.o.Kind)
	}
	for _, kind := range want.kinds() {
		if err := r.mayBuild(kind); err != nil {
			return err
		}
	}
	r.base.RocksdbCQDoubleWriteEnable = false // each side is spoken of by itself
	for _, kind := range want.kinds() {
		t := StoreTypeFile
		if kind == cq.KindRocks {
			t = StoreTypeRocksDB
		}
		r.kinds, r.rep.Sides = append(r.kinds, t), append(r.rep.Sides, string(kind))
	}
	return nil
}

// placeRocks has a RocksDB that is made anew where the one was that is gone.
func (r *recovery) placeRocks(found bool) {
	if !found && r.kept.Separate && !r.given("useSeparateStorePathForRocksdbCQ") {
		r.base.UseSeparateStorePathForRocksdbCQ = true
	}
}

// usual returns the sides where nobody has named one: those that are there, and those that the store keeps and has lost.
func (r *recovery) usual() (want Kept) {
	none := !r.found.File && !r.found.RocksDB
	want = r.found
	switch {
	case none && (r.given("storeType") || !r.kept.Known()):
		want.File, want.RocksDB = r.base.sides()
		r.note("there are no consume queues: they are built from the log, of store type %s", r.base.StoreType)
	case none:
		want = r.kept
		r.note("there are no consume queues: they are built from the log, in %s, where the store kept them (%s)", want.words(), want.By)
	case r.kept.By == keptByNote && !r.noQueues: // a migration leaves the other side behind
		for _, kind := range r.kept.kinds() {
			want.add(kind)
		}
	}
	return want
}

// mayBuild answers why queues of a kind are not built: the store does not have them and never had, while it has the other. Where they are built although they are not there, it says so.
func (r *recovery) mayBuild(kind cq.Kind) error {
	other, found := otherKind(kind), r.found
	switch {
	case found.Has(kind) || r.building:
	case r.kept.Has(kind) && found.Has(other):
		r.note("the %s queues, which the store keeps too (%s), are gone: they are built from the log, beside the %s queues", kind, r.kept.By, other)
	case r.kept.Has(kind), !found.Has(other) && !r.kept.Has(other):
	case !r.o.Create:
		return &NoSideError{Root: r.layout.Root, Kind: kind, Other: other, Lost: !found.Has(other), By: r.kept.By}
	case found.Has(other):
		r.note("the store had no %s queues: they are built from the log, beside the %s queues, and it keeps both from now on; a broker that is told no storeType feeds both, one with storeType=%s the %s queues alone",
			kind, other, storeTypeOf(other), other)
	default:
		r.note("the store kept its queues in %s, where they are gone: they are built from the log in %s", sideWords(other), sideWords(kind))
	}
	return nil
}

// storeTypeOf returns the store type that keeps queues of a kind alone.
func storeTypeOf(kind cq.Kind) StoreType {
	if kind == cq.KindRocks {
		return StoreTypeRocksDB
	}
	return StoreTypeFile
}

// NoSideError tells that a side of the queues was asked for that the store does not keep, while it keeps the other.
type NoSideError struct {
	Root        string
	Kind, Other cq.Kind
	// Lost tells that the other side is gone, too, and By what tells that it was there.
	Lost bool
	By   string
}

func (e *NoSideError) Error() string {
	if e.Lost {
		return fmt.Sprintf("store %s: it kept its queues in %s (%s), where they are gone: `tandemmq store rebuild --store %s --queues %s --yes` builds them again there; --create makes %s queues from the log instead",
			e.Root, sideWords(e.Other), e.By, e.Root, e.Other, e.Kind)
	}
	return fmt.Sprintf("store %s: it has %s queues and no %s queues: `tandemmq migrate run --store %s --to %s` moves them there, and proves it; --create makes %s queues from the log all the same, and the store keeps both then",
		e.Root, e.Other, e.Kind, e.Root, e.Kind, e.Kind)
}

// sizeError tells that a property was set to something else than the files are (FR-B04).
func (r *recovery) sizeError(set, found, file string) error {
	return fmt.Errorf("the broker's options have %s, and %s has %s: one of them is of another store; leave the property out and what is on disk counts", set, file, found)
}

// readSizes reads the sizes of files off the directory. What it finds counts, unless somebody has set the property: then both have to agree.
func (r *recovery) readSizes() error {
	if err := r.logSize(); err != nil {
		return err
	}
	n, light, err := r.queueFiles()
	if err != nil {
		return err
	}
	o := &r.base
	r.noQueueFile = n == 0
	if n > 0 {
		o.MappedFileSizeConsumeQueue = n
	}
	hasRocks, err := r.hasRocks()
	if err != nil {
		return err
	}
	if r.mayBeNew && n == 0 && !hasRocks {
		return r.indexSizes() // nothing to tell whether there are light queues
	}
	if !r.given("enableLmq") {
		o.EnableLmq = light || hasRocks // RocksDB keeps light queues without the further option
	}
	if !r.given("enableMultiDispatch") {
		o.EnableMultiDispatch = light
	}
	if err := r.indexSizes(); err != nil {
		return err
	}
	return r.readRocksIndex()
}

// readRocksIndex finds out whether an index is kept in RocksDB: RocketMQ makes the database in every store, so rows of progress tell. With no files beside it, it is the only one.
func (r *recovery) readRocksIndex() error {
	dir := r.layout.RocksIndexDir()
	if _, err := os.Stat(filepath.Join(dir, currentFile)); missing(err) {
		return nil
	}
	has, err := indexrocks.Exists(dir, indexrocks.RocksDBOptions{})
	if err != nil {
		r.note("the index in RocksDB, if there is one, is left alone, because it cannot be opened: give the broker's options (%v)", err)
		return nil
	}
	if !has {
		return nil
	}
	var n int
	if r.inTheWay == nil {
		n, err = countEntries(r.layout.IndexDir())
	}
	if !r.given("indexRocksDBEnable") {
		r.base.IndexRocksDBEnable = true
	}
	if !r.given("indexFileWriteEnable") {
		r.base.IndexFileWriteEnable = n > 0 || !r.base.IndexRocksDBEnable
	}
	return err
}

// logSize reads the length of log files off the directories of the log.
func (r *recovery) logSize() error {
	if r.mayBeNew && !r.hasLog() {
		return nil
	}
	dir, more := r.layout.CommitLogDir(), r.base.ReadOnlyCommitLogStorePaths
	if dirs := r.base.writeDirs(); len(dirs) > 0 {
		dir, more = dirs[0], append(slices.Clone(dirs[1:]), more...)
	}
	log, err := commitlog.Open(dir, commitlog.Options{MoreDirs: more, Logger: r.o.Logger})
	if err != nil {
		return err
	}
	size := log.FileSize()
	if err := log.Close(); err != nil {
		return err
	}
	set := r.given("mappedFileSizeCommitLog")
	switch {
	case size == 0 && !set:
		return fmt.Errorf("recover store %s: the commit log has no file, so that its sizes cannot be read off it: give the broker's options (--conf)", r.layout.Root)
	case size > 0 && set && size != r.base.MappedFileSizeCommitLog:
		return r.sizeError(fmt.Sprintf("mappedFileSizeCommitLog=%d", r.base.MappedFileSizeCommitLog), fmt.Sprintf("files of %d bytes", size), dir)
	case size > 0:
		r.base.MappedFileSizeCommitLog = size
	}
	return nil
}

// queueFiles returns the length of queue files, 0 without any, and whether light queues are kept: there are some, or no queue at all, so that the records decide.
func (r *recovery) queueFiles() (size int64, light bool, err error) {
	dir := r.layout.ConsumeQueueDir()
	topics, err := listDirs(dir)
	if err != nil || len(topics) == 0 {
		return 0, true, err
	}
	light = slices.ContainsFunc(topics, func(topic string) bool { return strings.HasPrefix(topic, cq.LMQPrefix) })
	if size, err = file.DetectFileBytes(dir); err != nil {
		return 0, false, err
	}
	if set := r.base.queueFileBytes(); size > 0 && r.given("mappedFileSizeConsumeQueue") && set != size {
		return 0, false, r.sizeError(fmt.Sprintf("mappedFileSizeConsumeQueue=%d", r.base.MappedFileSizeConsumeQueue), fmt.Sprintf("queue files of %d bytes", size), dir)
	}
	return size, light, nil
}

// Geometry of index files, which do not tell it: those of RocketMQ's defaults have four entries for each slot.
const (
	indexHeaderBytes    = 40
	indexSlotBytes      = 4
	indexEntryBytes     = 20
	indexEntriesPerSlot = 4
)

// indexSizes finds the numbers of slots and entries by the length of the files; where they do not fit, the index is left alone.
func (r *recovery) indexSizes() error {
	if err := r.layout.indexInTheWay(); err != nil {
		r.noIndexFile, r.noIndex, r.inTheWay, r.base.MessageIndexEnable = true, true, err, false
		r.note("the index is left alone: %v", err)
		return nil
	}
	entries, err := os.ReadDir(r.layout.IndexDir())
	if errors.Is(err, fs.ErrNotExist) {
		r.noIndexFile = true
		return nil
	}
	if err != nil {
		return err
	}
	r.noIndexFile = true
	other := error(nil) // a file of sizes that were not set
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() || strings.Trim(e.Name(), "0123456789") != "" || st.Size() == 0 {
			continue
		}
		r.noIndexFile = false
		if slots, number, ok := r.indexGeometry(st.Size()); ok {
			r.base.MaxHashSlotNum, r.base.MaxIndexNum, other = int(slots), int(number), nil
			break
		}
		if slots, number, ok := usualGeometry(st.Size()); ok && other == nil {
			other = r.sizeError(fmt.Sprintf("maxHashSlotNum=%d and maxIndexNum=%d", r.base.MaxHashSlotNum, r.base.MaxIndexNum),
				fmt.Sprintf("%d bytes, as of %d and %d", st.Size(), slots, number), filepath.Join(r.layout.IndexDir(), e.Name()))
		}
	}
	if other != nil {
		return other
	}
	ix, err := index.Open(r.layout.IndexDir(), index.Options{HashSlots: int32(r.base.MaxHashSlotNum), MaxEntries: int32(r.base.MaxIndexNum), ReadOnly: true})
	if err != nil {
		return err
	}
	faults := ix.Faults()
	if err := ix.Close(); err != nil {
		return err
	}
	if len(faults) > 0 && len(faults) == len(entries) {
		r.noIndex, r.base.MessageIndexEnable = true, false
		r.note("the index is left alone, because maxHashSlotNum and maxIndexNum cannot be read off its files: give the broker's options (%v)", faults[0])
	}
	return nil
}

// indexGeometry returns the numbers of slots and entries of an index file of so many bytes, in which what was set is kept; false: there are none.
func (r *recovery) indexGeometry(bytes int64) (slots, entries int64, ok bool) {
	room := bytes - indexHeaderBytes
	slots, entries = int64(r.base.MaxHashSlotNum), int64(r.base.MaxIndexNum)
	switch hasSlots, hasEntries := r.given("maxHashSlotNum"), r.given("maxIndexNum"); {
	case hasSlots && hasEntries:
	case hasSlots:
		entries = (room - slots*indexSlotBytes) / indexEntryBytes
	case hasEntries:
		slots = (room - entries*indexEntryBytes) / indexSlotBytes
	default:
		return usualGeometry(bytes)
	}
	return slots, entries, slots > 0 && entries > 0 && slots*indexSlotBytes+entries*indexEntryBytes == room
}

// usualGeometry is that of a file with RocketMQ's share of entries for each slot.
func usualGeometry(bytes int64) (slots, entries int64, ok bool) {
	const each = indexSlotBytes + indexEntriesPerSlot*indexEntryBytes
	slots = (bytes - indexHeaderBytes) / each
	return slots, slots * indexEntriesPerSlot, slots > 0 && indexHeaderBytes+slots*each == bytes
}

// hasRocks tells whether there are RocksDB queues. What is left of a database without CURRENT counts as one: it is set aside when the store is opened, and built from the log.
func (r *recovery) hasRocks() (bool, error) {
	_, _, found, err := r.layout.FindRocks()
	var remnants *RemnantsError
	if errors.As(err, &remnants) && r.base.QueueDamagePolicy != QueueDamageRefuse {
		r.note("%s: it is set aside, and its queues are built from the log", remnants.what())
		return true, nil
	}
	return found, err
}
