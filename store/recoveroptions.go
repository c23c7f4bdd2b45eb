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
	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// options makes the options that the store is opened with: those of its broker, or what the directory tells.
func (r *recovery) options() error {
	if r.o.Options != nil {
		r.base = *r.o.Options
	} else {
		r.base = DefaultOptions()
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

// sides chooses the consume queues to bring in order.
func (r *recovery) sides() error {
	hasFile, err := r.layout.HasFileQueues()
	if err != nil {
		return err
	}
	hasRocks, err := r.hasRocks()
	if err != nil {
		return err
	}
	switch r.o.Kind {
	case cq.KindFile:
		hasFile, hasRocks = true, false
	case cq.KindRocks:
		hasFile, hasRocks = false, true
	case cq.KindCombine:
		hasFile, hasRocks = true, true
	case "":
		if !hasFile && !hasRocks {
			hasFile, hasRocks = r.base.sides()
			r.note("there are no consume queues: they are built from the log, of store type %s", r.base.StoreType)
		}
	default:
		return fmt.Errorf("recover store %s: no kind of queues %q", r.layout.Root, r.o.Kind)
	}
	r.base.RocksdbCQDoubleWriteEnable = false // each side is spoken of by itself
	if hasFile {
		r.kinds, r.rep.Sides = append(r.kinds, StoreTypeFile), append(r.rep.Sides, string(cq.KindFile))
	}
	if hasRocks {
		r.kinds, r.rep.Sides = append(r.kinds, StoreTypeRocksDB), append(r.rep.Sides, string(cq.KindRocks))
	}
	return nil
}

// readSizes reads the sizes of files off the directory.
func (r *recovery) readSizes() error {
	log, err := commitlog.Open(r.layout.CommitLogDir(), commitlog.Options{Logger: r.o.Logger})
	if err != nil {
		return err
	}
	size := log.FileSize()
	if err := log.Close(); err != nil {
		return err
	}
	if size == 0 {
		return fmt.Errorf("recover store %s: the commit log has no file, so that its sizes cannot be read off it: give the broker's options", r.layout.Root)
	}
	o := &r.base
	o.MappedFileSizeCommitLog = size
	n, light, err := r.queueFiles()
	if err != nil {
		return err
	}
	if n > 0 {
		o.MappedFileSizeConsumeQueue = n
	}
	hasRocks, err := r.hasRocks()
	if err != nil {
		return err
	}
	o.EnableLmq, o.EnableMultiDispatch = light || hasRocks, light // RocksDB keeps light queues without the further option
	return r.indexSizes()
}

// queueFiles returns the length of a queue file, 0 without any, and whether light queues are kept: there are some, or no queue at all, so that the records decide.
func (r *recovery) queueFiles() (size int64, light bool, err error) {
	topics, err := listDirs(r.layout.ConsumeQueueDir())
	if err != nil {
		return 0, false, err
	}
	light = len(topics) == 0
	for _, topic := range topics {
		light = light || strings.HasPrefix(topic, cq.LMQPrefix)
		if size > 0 {
			continue
		}
		if size, err = firstFileSize(filepath.Join(r.layout.ConsumeQueueDir(), topic)); err != nil {
			return 0, false, err
		}
	}
	return size, light, nil
}

// firstFileSize returns the length of a queue file below a topic's directory, 0 without any.
func firstFileSize(dir string) (int64, error) {
	ids, err := listDirs(dir)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		entries, err := os.ReadDir(filepath.Join(dir, id))
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			if _, ok := mappedfile.ParseName(e.Name()); !ok {
				continue
			}
			if st, err := os.Stat(filepath.Join(dir, id, e.Name())); err == nil && st.Mode().IsRegular() && st.Size() > 0 {
				return st.Size(), nil
			}
		}
	}
	return 0, nil
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
	entries, err := os.ReadDir(r.layout.IndexDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() || strings.Trim(e.Name(), "0123456789") != "" || st.Size() == 0 {
			continue
		}
		const each = indexSlotBytes + indexEntriesPerSlot*indexEntryBytes
		if slots := (st.Size() - indexHeaderBytes) / each; slots > 0 && indexHeaderBytes+slots*each == st.Size() {
			r.base.MaxHashSlotNum, r.base.MaxIndexNum = int(slots), int(slots*indexEntriesPerSlot)
			break
		}
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

// hasRocks tells whether there are RocksDB queues. What is left of a database without CURRENT counts as one: it is set aside when the store is opened, and built from the log.
func (r *recovery) hasRocks() (bool, error) {
	_, _, found, err := r.layout.FindRocks()
	var remnants *RemnantsError
	if errors.As(err, &remnants) && r.base.QueueDamagePolicy != QueueDamageRefuse {
		r.note("files of a RocksDB database without CURRENT in %s are set aside, and its queues built from the log", remnants.Dir)
		return true, nil
	}
	return found, err
}
