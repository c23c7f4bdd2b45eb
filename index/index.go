package index

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Index is the index files of a store: one writer, any number of queries beside it.
type Index struct {
	dir     string
	o       Options
	layout  layout
	foreign []string
	faults  []error
	repairs []Repair

	flushing sync.Mutex // held by Flush, and by whatever unmaps a file or cuts it
	writing  sync.Mutex // held by whatever changes a file or the list

	// files is in the order of their names. It changes under writing and life, so that either is enough to read it.
	files []*file
	life  sync.RWMutex // held shared by queries, exclusively when files come, go or are cut
	gone  bool         // closed; as files

	// The rest is guarded by writing.
	failed    error
	last      lastMessage
	own       Batch // of Append
	flushedTo int64 // the latest end that a caller may have put down as flushed

	indexed atomic.Int64 // phyOffset of the end of what Append was given
	durable atomic.Int64 // indexed, as of the last Flush
	skipped atomic.Int64
}

// lastMessage is the last message that has entries. Its entries are those from first on of each of the places.
type lastMessage struct {
	phy    int64 // -1: there is none
	places []place
}

type place struct {
	f     *file
	first int32
}

// Repair is what Open did to a file that was not as it should be.
type Repair struct {
	Path   string
	Action RepairAction
	// Entries were in the file before and after.
	Before, After int32
	Why           error
}

// RepairAction is what became of a file.
type RepairAction string

// The actions.
const (
	RepairCut      RepairAction = "cut"       // the entries that are beyond doubt stay
	RepairRemove   RepairAction = "remove"    // nothing of it is beyond doubt, or it comes after one that ends too early
	RepairSetAside RepairAction = "set aside" // renamed to NAME.broken: its header is impossible, or it has another geometry
)

// brokenSuffix is put behind the name of a file that is set aside. RocketMQ skips names that are no number.
const brokenSuffix = ".broken"

// Open opens the index in dir, which is made when it does not exist. The store's lock is the caller's duty.
//
// Every header is checked, with the first and last entry. After an unclean stop (Options.Unclean) the last file and all that the
// checkpoint does not vouch for are verified from the first entry to the last, some 20 million entries a second, and cut to what is
// beyond doubt. Whatever comes behind a file that had to be cut or set aside is removed: it all comes back from the log, which
// dispatch has to repeat from DispatchFrom. Repairs tells what was done.
//
// With ReadOnly nothing is changed, nor made: files that are not right are left out and told by Faults.
//
// Errors: those of Options, and of the filesystem. A damaged file is none.
//
// Source: IndexService.load, 5.5.0, which after an unclean stop deletes every file that ends after indexMsgTimestamp and has
// no more than the last few log files indexed again.
func Open(dir string, o Options) (*Index, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", dir, err)
	}
	x := &Index{dir: dir, o: o, layout: layout{o.HashSlots, o.MaxEntries}, flushedTo: o.FlushedToMs}
	if err := x.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open index %s: %w", dir, err), x.closeFiles())
	}
	return x, nil
}

func (x *Index) open() error {
	if !x.o.ReadOnly {
		if err := x.makeDir(); err != nil {
			return err
		}
	}
	infos, err := x.o.FS.ReadDir(x.dir)
	if errors.Is(err, fs.ErrNotExist) && x.o.ReadOnly {
		infos, err = nil, nil
	}
	if err != nil {
		return err
	}
	infos = slices.DeleteFunc(infos, func(i fs.FileInfo) bool {
		if _, ok := parseName(i.Name()); ok && i.Mode().IsRegular() {
			return false
		}
		x.foreign = append(x.foreign, i.Name())
		return true
	})
	if err := x.load(infos); err != nil {
		return err
	}
	if err := x.findLast(); err != nil {
		return err
	}
	x.indexed.Store(x.last.phy)
	x.durable.Store(x.last.phy)
	return nil
}

// load opens the files, up to the first that has to be repaired, and repairs.
func (x *Index) load(infos []fs.FileInfo) error {
	for i, info := range infos { // ReadDir sorts by name, which is by number
		r, err := x.examine(info, i == len(infos)-1)
		switch {
		case err != nil:
			return err
		case r == nil:
			continue
		case x.o.ReadOnly:
			x.faults = append(x.faults, r.Why)
			continue
		}
		for j := len(infos) - 1; j > i; j-- { // one after the other, so that a crash leaves no gap
			later := repair{Repair: Repair{Path: filepath.Join(x.dir, infos[j].Name()), Action: RepairRemove, Why: fmt.Errorf("comes after %s", info.Name())}}
			if err := x.repair(&later); err != nil {
				return err
			}
		}
		return x.repair(r)
	}
	return nil
}

func (x *Index) makeDir() error {
	switch err := x.o.FS.Mkdir(x.dir, 0o755); {
	case err == nil:
		return x.o.FS.SyncDir(filepath.Dir(x.dir))
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	return nil
}

// repair is a Repair to be made.
type repair struct {
	Repair
	f *file   // open, when there is a cut to make
	s scanned // what stays of it
}

// examine opens a file and adds it to the list, or tells what has to be done to it.
func (x *Index) examine(info fs.FileInfo, last bool) (*repair, error) {
	path := filepath.Join(x.dir, info.Name())
	number, _ := parseName(info.Name())
	unfit := func(how RepairAction, why error) (*repair, error) {
		return &repair{Repair: Repair{Path: path, Action: how, Why: why}}, nil
	}
	f, err := openFile(x.o.FS, path, number, x.layout, !x.o.ReadOnly)
	switch {
	case err != nil && info.Size() == 0:
		return unfit(RepairRemove, err) // died while it was made
	case errors.Is(err, ErrCorrupt), errors.Is(err, mmap.ErrFault):
		return unfit(RepairSetAside, err)
	case err != nil:
		return nil, err
	}
	if x.o.ReadOnly || !x.o.Unclean || !last && f.full() && f.head.endMs < x.o.FlushedToMs {
		if err := x.trust(f, last); err != nil {
			return unfit(RepairSetAside, errors.Join(err, f.close()))
		}
		return nil, nil
	}
	s, fault, err := f.verify()
	if err != nil {
		return unfit(RepairSetAside, errors.Join(err, f.close()))
	}
	if fault == nil && !last && !f.full() {
		fault = errors.New("is followed by another before it is full")
	}
	switch {
	case fault != nil:
		return &repair{Repair{path, RepairCut, f.head.count - 1, s.count - 1, &FileError{path, fault}}, f, s}, nil
	case last: // what lies behind its entries has to be zero
		if err := f.cut(&s); err != nil {
			return nil, errors.Join(err, f.close())
		}
	default:
		f.dirty = true // it is as it was written, but the disk may not know
	}
	x.files = append(x.files, f)
	return nil, nil
}

// trust adds a file to the list whose ends fit.
func (x *Index) trust(f *file, last bool) error {
	err := mmap.GuardFault(func() error { return f.checkEnds(&f.head, last && x.o.ReadOnly) })
	if n := len(x.files); err == nil && n > 0 && !f.empty() && f.head.beginPhy < x.files[n-1].head.endPhy {
		err = fmt.Errorf("begins at phyOffset %d, below %d where %s ends", f.head.beginPhy, x.files[n-1].head.endPhy, x.files[n-1].path)
	}
	if err != nil {
		return &FileError{f.path, err}
	}
	f.synced = f.full()
	x.files = append(x.files, f)
	return nil
}

// repair does it, durably.
func (x *Index) repair(r *repair) error {
	if r.Action == RepairCut {
		if r.After > 0 {
			x.files = append(x.files, r.f)
			x.repaired(r.Repair)
			return r.f.cut(&r.s)
		}
		r.Action = RepairRemove
		if err := r.f.close(); err != nil {
			return err
		}
	}
	x.repaired(r.Repair)
	err := error(nil)
	if r.Action == RepairSetAside {
		err = x.o.FS.Rename(r.Path, r.Path+brokenSuffix)
	} else {
		err = x.o.FS.Remove(r.Path)
	}
	if err != nil {
		return err
	}
	return x.o.FS.SyncDir(x.dir)
}

func (x *Index) repaired(r Repair) {
	x.repairs = append(x.repairs, r)
	x.o.Logger.Warn("index file repaired", slog.String("file", r.Path), slog.String("action", string(r.Action)),
		slog.Int("entriesBefore", int(r.Before)), slog.Int("entries", int(r.After)), slog.Any("why", r.Why))
}

// findLast sets last from the entries.
func (x *Index) findLast() error {
	x.last.phy, x.last.places = -1, x.last.places[:0]
	for i := len(x.files) - 1; i >= 0; i-- {
		f := x.files[i]
		if f.empty() {
			continue
		}
		if x.last.phy < 0 {
			x.last.phy = f.head.endPhy
		}
		first := f.head.count
		err := mmap.GuardFault(func() error {
			for first > 1 && f.entry(first-1).phy == x.last.phy {
				first--
			}
			return nil
		})
		if err != nil {
			return err
		}
		if first == f.head.count {
			break
		}
		x.last.places = append(x.last.places, place{f, first})
		if first > 1 {
			break
		}
	}
	return nil
}

// closeFiles closes all files.
func (x *Index) closeFiles() error {
	var errs []error
	for _, f := range x.files {
		errs = append(errs, f.close())
	}
	x.files = nil
	return errors.Join(errs...)
}

// Close flushes and closes. Queries that run are waited for; everything afterwards answers ErrClosed. A second call does
// nothing.
func (x *Index) Close() error {
	err := error(nil)
	if !x.o.ReadOnly {
		if err = x.Flush(); errors.Is(err, ErrClosed) {
			return nil
		}
	}
	x.flushing.Lock()
	defer x.flushing.Unlock()
	x.writing.Lock()
	defer x.writing.Unlock()
	x.life.Lock()
	defer x.life.Unlock()
	x.gone = true
	return errors.Join(err, x.closeFiles())
}
