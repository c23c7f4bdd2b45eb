package index

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Flush returns when everything appended before the call is durable. Appending goes on meanwhile. A failed sync sticks: nobody knows
// what reached the disk, so every later Append and Flush answers ErrFailed.
func (x *Index) Flush() error {
	x.flushing.Lock()
	defer x.flushing.Unlock()
	x.writing.Lock()
	if err := x.writable(); err != nil {
		x.writing.Unlock()
		return err
	}
	indexed := x.indexed.Load()
	var dirty, full []*file // full: those of dirty that get no more entries
	for _, f := range x.files {
		if f.dirty {
			f.dirty = false
			dirty = append(dirty, f)
			if f.full() {
				full = append(full, f)
			}
		}
	}
	x.writing.Unlock()
	for _, f := range dirty {
		if err := f.m.Flush(0, f.fileBytes()); err != nil {
			x.writing.Lock()
			defer x.writing.Unlock()
			return x.fail(err)
		}
	}
	x.writing.Lock()
	for _, f := range full {
		f.synced = true
	}
	x.writing.Unlock()
	x.durable.Store(indexed)
	return nil
}

// IndexMsgTimestampMs returns the store time (ms) of the last entry of the last full file that is durable with all those before it; 0
// when there is none. The checkpoint keeps it as indexMsgTimestamp.
func (x *Index) IndexMsgTimestampMs() int64 {
	x.writing.Lock()
	defer x.writing.Unlock()
	ms := int64(0)
	for _, f := range x.files {
		if !f.synced {
			break
		}
		ms = f.head.endMs
	}
	x.flushedTo = max(x.flushedTo, ms)
	return ms
}

// Progress returns up to which physical offset messages were given to Append, and up to which that is durable. After Open both are
// DispatchFrom.
func (x *Index) Progress() (indexed, durable int64) {
	return x.indexed.Load(), x.durable.Load()
}

// DispatchFrom returns the physical offset from which dispatch has to resume so that the index lacks nothing: the start of the last
// message that has entries, which may not have all of them; -1 when the index is empty, and all of the log is missing. Messages
// without keys leave no trace, so it may lie far behind what Append was given. After a clean stop nothing is missing unless
// Repairs tells of something.
func (x *Index) DispatchFrom() int64 {
	x.writing.Lock()
	defer x.writing.Unlock()
	return x.last.phy
}

// TruncateDirty removes the entries of messages at or above a physical offset, durably when it returns nil: of those that the log
// lost. Without it Append would take what the log gets in their place for indexed already. IndexMsgTimestampMs may be
// lower afterwards. An error sticks.
func (x *Index) TruncateDirty(phy int64) error {
	x.flushing.Lock()
	defer x.flushing.Unlock()
	x.writing.Lock()
	defer x.writing.Unlock()
	if err := x.writable(); err != nil {
		return err
	}
	x.life.Lock()
	defer x.life.Unlock()
	err := x.truncateLocked(phy)
	if err == nil {
		err = x.findLast()
	}
	if err != nil {
		return x.fail(fmt.Errorf("cut at phyOffset %d: %w", phy, err))
	}
	x.indexed.Store(min(x.indexed.Load(), phy))
	x.durable.Store(min(x.durable.Load(), phy))
	return nil
}

var errBegin = errors.New("entry 1 is not where it begins")

func (x *Index) truncateLocked(phy int64) error {
	for len(x.files) > 0 {
		f := x.files[len(x.files)-1]
		if !f.empty() && f.head.endPhy < phy {
			return nil
		}
		if f.empty() || f.head.beginPhy >= phy {
			if err := x.removeLocked(len(x.files)-1, "cut"); err != nil {
				return err
			}
			continue
		}
		var s scanned
		err := mmap.GuardFault(func() error {
			count := f.head.count
			for count > 1 && f.entry(count-1).phy >= phy {
				count--
			}
			s = f.scan(count)
			return nil
		})
		if err != nil {
			return err
		}
		if s.fault != nil || s.count == 1 {
			return &FileError{f.path, fmt.Errorf("entries contradict header: %w", cmp.Or(s.fault, errBegin))}
		}
		x.o.Logger.Info("index file cut", slog.String("file", f.path), slog.Int64("phyOffset", phy),
			slog.Int("entriesBefore", int(f.head.count-1)), slog.Int("entries", int(s.count-1)))
		return f.cut(&s)
	}
	return nil
}

// removeLocked unlinks file i, durably, and takes it from the list. Caller holds flushing, writing and life.
func (x *Index) removeLocked(i int, why string) error {
	f := x.files[i]
	if err := x.o.FS.Remove(f.path); err != nil {
		return fmt.Errorf("remove index file: %w", err)
	}
	x.files = slices.Delete(slices.Clone(x.files), i, i+1)
	x.o.Logger.Info("index file removed", slog.String("file", f.path), slog.String("why", why), slog.Int64("endPhyOffset", f.head.endPhy))
	return errors.Join(f.close(), x.o.FS.SyncDir(x.dir))
}

// Expire removes files from the front all of whose messages lie below minPhy, the first physical offset that the log still has. The
// last file stays. It returns how many were removed; at the first that cannot be it stops with the error, and may be tried
// again.
//
// Source: IndexService.deleteExpiredFile, 5.5.0.
func (x *Index) Expire(minPhy int64) (removed int, err error) {
	x.flushing.Lock()
	defer x.flushing.Unlock()
	x.writing.Lock()
	defer x.writing.Unlock()
	if err := x.writable(); err != nil {
		return 0, err
	}
	x.life.Lock()
	defer x.life.Unlock()
	for len(x.files) > 1 && x.files[0].head.endPhy < minPhy {
		if err := x.removeLocked(0, "expired"); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// FileInfo tells about one file.
type FileInfo struct {
	Path           string
	BeginMs, EndMs int64
	BeginPhyOffset int64
	EndPhyOffset   int64
	SlotsUsed      int32
	Entries        int32
	Full           bool
}

// Files lists the files in order, oldest first.
func (x *Index) Files() []FileInfo {
	x.writing.Lock()
	defer x.writing.Unlock()
	infos := make([]FileInfo, 0, len(x.files))
	for _, f := range x.files {
		h := &f.head
		infos = append(infos, FileInfo{f.path, h.beginMs, h.endMs, h.beginPhy, h.endPhy, h.used, h.count - 1, f.full()})
	}
	return infos
}

// Repairs lists what Open had to do.
func (x *Index) Repairs() []Repair { return x.repairs }

// Faults lists the files that Open left out because they are not right; each is a *FileError or a *mmap.FaultError. Only with ReadOnly.
func (x *Index) Faults() []error { return x.faults }

// Foreign lists the names in the directory that are no index files'.
func (x *Index) Foreign() []string { return x.foreign }

// Skipped returns how many messages Append took for indexed already.
func (x *Index) Skipped() int64 { return x.skipped.Load() }

// Verify reads every entry and slot of every file and returns what contradicts itself; none when the index is sound. It does not look
// at the log. Appending waits for the file being read.
func (x *Index) Verify() []error {
	var faults []error
	x.flushing.Lock() // nothing is unmapped
	defer x.flushing.Unlock()
	x.writing.Lock()
	files := slices.Clone(x.files)
	x.writing.Unlock()
	for _, f := range files {
		x.writing.Lock()
		_, fault, err := f.verify()
		x.writing.Unlock()
		if fault != nil {
			err = &FileError{f.path, fault}
		}
		if err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}
