package file

import (
	"encoding/binary"
	"log/slog"
	"math"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// An extension file (enableConsumeQueueExt) holds units of varying length, one behind the other, big-endian:
//
//	offset  width  name          type  meaning                                          source
//	0       2      size          i16   length of this unit; < 1: no unit follows here   ConsumeQueueExt.CqExtUnit.read
//	2       8      tagsCode      i64   hash of TAGS, as a plain unit would hold it      ConsumeQueueExt.CqExtUnit.read
//	10      8      msgStoreTime  i64   store time of the record, ms since the epoch     ConsumeQueueExt.CqExtUnit.read
//	18      2      bitMapSize    i16   length of the filter bit map                     ConsumeQueueExt.CqExtUnit.read
//	20      n      bitMap        byte  filter bits, not needed to resolve tags          ConsumeQueueExt.CqExtUnit.read
//
// Files are named like queue files and have one length per store (RocketMQ's default is 50,331,648 bytes). The queue's unit
// then holds, instead of the tags code, the address of the extension unit: its position plus the smallest i64.
// Source: ConsumeQueueExt.decorate and unDecorate, 5.5.0.
//
// No extension unit is written here: the units of Append hold tags codes themselves, which RocketMQ reads beside addresses. What it then lacks is the
// filter's bit map (enableCalcFilterBitMap), an early "no" for SQL filters: it decides by the record. Cutting, expiring and dropping a queue do
// cut, remove and drop its extension files.
const (
	extUnitMinBytes = 20
	extSizeAt       = 0
	extTagsAt       = 2
)

// extPosition returns the position in the run of extension files that an address stands for.
func extPosition(address int64) int64 { return address - math.MinInt64 }

// readExtUnit returns size and tags code of the extension unit at that address; false when there is no such unit.
func readExtUnit(ext *mappedfile.Queue, address int64) (size int16, tagsCode int64, ok bool) {
	pos := extPosition(address)
	f, ok := ext.Find(pos)
	if !ok {
		return 0, 0, false
	}
	at := pos - f.From()
	if at+extUnitMinBytes > f.Size() {
		return 0, 0, false
	}
	b, err := f.Hold()
	if err != nil {
		return 0, 0, false
	}
	defer f.Release()
	err = mmap.GuardFault(func() error {
		u := b[at : at+extUnitMinBytes]
		size = int16(binary.BigEndian.Uint16(u[extSizeAt:]))
		ok = size >= extUnitMinBytes && at+int64(size) <= f.Size()
		tagsCode = int64(binary.BigEndian.Uint64(u[extTagsAt:]))
		return nil
	})
	return size, tagsCode, ok && err == nil
}

// resolveExt returns the tags code of the extension unit at that address. It is false when there is no such unit; the
// unit's own tags code, the address, then stands, which RocketMQ's filters take for "matches everything".
// Source: ConsumeQueue iterator, 5.5.0.
func resolveExt(ext *mappedfile.Queue, address int64) (tagsCode int64, ok bool) {
	_, tagsCode, ok = readExtUnit(ext, address)
	return tagsCode, ok
}

// HasExtFile implements cq.ExtReader. What cannot be read is no file.
func (s *Store) HasExtFile(k cq.Key, address int64) bool {
	ext, err := mappedfile.Open(queueDir(s.extDir, k), mappedfile.Options{Logger: s.log})
	if err != nil {
		return false
	}
	defer func() { _ = ext.Close() }() // nothing of it is mapped
	_, ok := ext.Find(extPosition(address))
	return ok
}

// withExtLocked calls fn with the extension files of the queue, open for writing, if it has some.
func (q *queue) withExtLocked(fn func(ext *mappedfile.Queue) error) error {
	dir := queueDir(q.s.extDir, q.key)
	ext, err := mappedfile.Open(dir, mappedfile.Options{Writable: true, Logger: q.s.log})
	if err != nil {
		return corruptLayout(err)
	}
	defer func() { _ = ext.Close() }() // Truncate and RemoveFirst are durable by themselves
	if len(ext.Files()) == 0 {
		return nil
	}
	if q.ext != nil { // its list of files is about to be wrong
		_ = q.ext.Close()
		q.ext = nil
	}
	return fn(ext)
}

// truncateExtLocked cuts the extension files behind the unit that the last of the slots below cut points to, after the units from cut on are gone. A unit that
// points nowhere leaves them as they are.
//
// Source: ConsumeQueue.truncateDirtyLogicFiles, 5.5.0, which does so only when no unit is left (F36).
func (q *queue) truncateExtLocked(cut int64) error {
	return q.withExtLocked(func(ext *mappedfile.Queue) error {
		address, ok, err := q.lastAddressLocked(cut)
		if err != nil {
			return err
		}
		end := ext.MinOffset()
		if ok {
			size, _, found := readExtUnit(ext, address)
			if !found {
				q.s.log.Warn("extension files are not cut: a unit points nowhere into them", slog.String("topic", q.key.Topic),
					slog.Int("queueId", int(q.key.QueueID)), slog.Int64("extOffset", extPosition(address)))
				return nil
			}
			end = extPosition(address) + int64(size)
		}
		return ext.Truncate(end)
	})
}

// lastAddressLocked returns the address in the last of the slots below end that has one.
func (q *queue) lastAddressLocked(end int64) (address int64, ok bool, err error) {
	files := q.files.Files()
	if len(files) == 0 {
		return 0, false, nil
	}
	p := newProber(files)
	defer p.close()
	const step = scanBytes / unitBytes
	for to := end; to > p.first && !ok; to -= step {
		err := p.walk(max(to-step, p.first), func(slot int64, u cq.Unit) error {
			switch {
			case slot >= to:
				return errStop
			case valid(u) && cq.IsExtAddress(u.TagsCode):
				address, ok = u.TagsCode, true
			}
			return nil
		})
		if err != nil {
			return 0, false, err
		}
	}
	return address, ok, nil
}

// expireExtLocked removes the extension files that lie wholly below what the units from slot min on point to; the last one stays. It returns how many.
//
// Source: ConsumeQueueExt.truncateByMinAddress, 5.5.0.
func (q *queue) expireExtLocked(minSlot int64) (files int, bytes int64, err error) {
	err = q.withExtLocked(func(ext *mappedfile.Queue) error {
		if len(ext.Files()) == 1 {
			return nil
		}
		keep := ext.EndOffset() - 1
		p := newProber(q.files.Files())
		defer p.close()
		err := p.walk(minSlot, func(_ int64, u cq.Unit) error {
			if valid(u) && cq.IsExtAddress(u.TagsCode) {
				keep = min(keep, extPosition(u.TagsCode))
				return errStop
			}
			return nil
		})
		if err != nil {
			return err
		}
		for ext.Files()[0].End() <= keep {
			if err := ext.RemoveFirst(); err != nil {
				return err
			}
			files++
			bytes += ext.FileSize()
		}
		return nil
	})
	return files, bytes, err
}
