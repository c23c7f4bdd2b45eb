package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// Import stores runs; see cq.Importer. Units are written to their positions with pwrite, not through mappings: most of a
// million queues get one short run, for which mapping a file and reserving blocks would cost more than the write.
//
// What lies around a run is kept whole at every moment. Below the first run of a new queue goes pre-blank, from the start
// of its first file. A queue that is present and ends below the run gets pre-blank in between, provided that none of its
// records is left in the log; otherwise that is a *cq.GapError. A run that begins below the first file of a queue
// gets the files in between, full of pre-blank until later runs overwrite it.
//
// Durable when it returns nil: each touched file and directory is synced, or the filesystem once when there are many.
func (s *Store) Import(ctx context.Context, runs []cq.Run) error {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	defer s.endWrite()
	var t touched
	for i := range runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := &runs[i]
		if err := s.checkKey(r.Key); err != nil {
			return fmt.Errorf("import: %w", err)
		}
		if err := checkUnits(r.Key, r.From, r.Units...); err != nil {
			return fmt.Errorf("import: %w", err)
		}
		if err := s.importRun(r, &t); err != nil {
			return err
		}
	}
	if err := t.sync(s.dir); err != nil {
		return s.fail(fmt.Errorf("import: %w", err))
	}
	return nil
}

// Publish sees that the queues end where they should; see cq.Importer. A queue of which no record is left gets a synthetic
// unit in its last slot (see codec.go), unless it is present with that max or a larger one. For every other queue the
// files already say it all: one that ends below Max is a *cq.CorruptError.
//
// dispatchFrom is recorded nowhere: files have no place for it, and DispatchFrom is derived from the units. A broker needs
// it as logicsPhysicalOffset of the store's checkpoint file, which is not this package's.
func (s *Store) Publish(ctx context.Context, ends []cq.QueueEnd, _ int64) error {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if err := s.beginWrite(ctx); err != nil {
		return err
	}
	defer s.endWrite()
	var t touched
	for i := range ends {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.publishQueue(&ends[i], &t); err != nil {
			return err
		}
	}
	if err := t.sync(s.dir); err != nil {
		return s.fail(fmt.Errorf("publish: %w", err))
	}
	return nil
}

func (s *Store) publishQueue(e *cq.QueueEnd, t *touched) error {
	if err := s.checkKey(e.Key); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if e.Max <= 0 || e.Max > maxSlot || e.Min < 0 || e.Min > e.Max {
		return fmt.Errorf("publish queue %s: bounds [%d, %d) are none", e.Key, e.Min, e.Max)
	}
	st, err := s.obtain(e.Key).look()
	switch {
	case err != nil:
		return fmt.Errorf("publish: %w", err)
	case st.present && st.max >= e.Max:
		return nil
	case e.Min == e.Max:
		last := synthetic(max(e.LastPhyOffset, 0))
		return s.importRun(&cq.Run{Key: e.Key, From: e.Max - 1, Units: []cq.Unit{last}}, t)
	}
	return &cq.CorruptError{
		File: queueDir(s.dir, e.Key), Offset: -1, Row: "queue " + e.Key.String(),
		Want: fmt.Sprintf("units up to slot %d", e.Max-1), Got: fmt.Sprintf("an end at slot %d", st.max),
	}
}

// look returns the state, with its damage as the error.
func (q *queue) look() (state, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.loadLocked(); err != nil {
		return state{}, err
	}
	return q.state, q.state.damage
}

func (s *Store) importRun(r *cq.Run, t *touched) error {
	if len(r.Units) == 0 {
		return nil
	}
	q := s.obtain(r.Key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.loadLocked(); err != nil {
		return fmt.Errorf("import: %w", q.aloneLocked(err))
	}
	if err := q.openFilesLocked(); err != nil {
		return fmt.Errorf("import: %w", q.aloneLocked(err))
	}
	st, files := q.state, q.files.Files()
	if len(files) > 0 && r.From > st.max && st.min < st.max {
		return fmt.Errorf("import: %w", &cq.GapError{Key: r.Key, Want: r.From, Max: st.max, PhyOffset: r.Units[0].PhyOffset})
	}
	w := slotWriter{dir: queueDir(s.dir, r.Key), tree: s.dir, perFile: s.perFile, t: t}
	// From here on the files change beside the open list of them.
	q.forgetLocked()
	err := func() error {
		begin := r.From / s.perFile * s.perFile
		switch {
		case len(files) == 0:
			return w.fill(begin, r.From)
		case r.From > st.max:
			return w.fill(st.max, r.From)
		}
		for first := st.first - s.perFile; first >= begin; first -= s.perFile { // downwards: never a gap between files
			if err := w.fill(first, first+s.perFile); err != nil {
				return err
			}
		}
		return nil
	}()
	if err == nil {
		err = w.write(r.From, r.Units)
	}
	if cerr := w.close(); err == nil {
		err = cerr
	}
	s.undirtyAfterImport(q, t)
	if err != nil && len(files) == 0 && alone(s.dir, err) {
		return fmt.Errorf("import: %w", &cq.QueueError{Key: r.Key, Err: err})
	}
	if err != nil {
		return s.fail(fmt.Errorf("import into queue %s at slot %d: %w", r.Key, r.From, err))
	}
	return nil
}

// undirtyAfterImport hands the files of a queue that had unflushed units over to t: its open list, which knew them, is gone.
func (s *Store) undirtyAfterImport(q *queue, t *touched) {
	if q.dirty {
		s.undirty(q)
		t.all = true
	}
}

// slotWriter writes slots of one queue by position and makes the files it needs.
type slotWriter struct {
	dir, tree string
	perFile   int64
	t         *touched
	f         *os.File // file that begins at slot first, or nil
	first     int64
	buf       []byte
}

// fill writes pre-blank into slots [from, to).
func (w *slotWriter) fill(from, to int64) error {
	if from >= to {
		return nil
	}
	units := make([]cq.Unit, min(to-from, w.perFile, scanBytes/unitBytes))
	for i := range units {
		units[i] = preBlank
	}
	for from < to {
		n := min(to-from, int64(len(units)))
		if err := w.write(from, units[:n]); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// write stores units at slots from on.
func (w *slotWriter) write(from int64, units []cq.Unit) error {
	for len(units) > 0 {
		if err := w.open(from / w.perFile * w.perFile); err != nil {
			return err
		}
		n := min(int64(len(units)), w.first+w.perFile-from, scanBytes/unitBytes)
		w.buf = w.buf[:0]
		for _, u := range units[:n] {
			w.buf = cq.AppendUnit(w.buf, u)
		}
		if _, err := w.f.WriteAt(w.buf, (from-w.first)*unitBytes); err != nil {
			return err
		}
		units, from = units[n:], from+n
	}
	return nil
}

func (w *slotWriter) open(first int64) error {
	if w.f != nil && w.first == first {
		return nil
	}
	if err := w.close(); err != nil {
		return err
	}
	path := filepath.Join(w.dir, mappedfile.Name(first*unitBytes))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err = w.mkdirs(); err != nil {
			return err
		}
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	}
	if err != nil {
		return err
	}
	w.f, w.first = f, first
	w.t.file(path)
	st, err := f.Stat()
	if err == nil && st.Size() == 0 { // new, or made by a process that died then
		w.t.dir(w.dir)
		err = f.Truncate(w.perFile * unitBytes)
	}
	return err
}

func (w *slotWriter) mkdirs() error {
	topic := filepath.Dir(w.dir)
	for _, dir := range []string{filepath.Dir(w.tree), w.tree, topic, w.dir} {
		switch err := os.Mkdir(dir, 0o755); {
		case err == nil:
			w.t.dir(filepath.Dir(dir))
		case !errors.Is(err, fs.ErrExist):
			return err
		}
	}
	return nil
}

func (w *slotWriter) close() error {
	if w.f == nil {
		return nil
	}
	f := w.f
	w.f = nil
	return f.Close()
}

// touched collects what has to be synced before an import is durable.
type touched struct {
	files map[string]struct{}
	dirs  map[string]struct{}
	all   bool // too many, or not known
}

func (t *touched) file(path string) { t.add(&t.files, path) }
func (t *touched) dir(path string)  { t.add(&t.dirs, path) }

func (t *touched) add(m *map[string]struct{}, path string) {
	if t.all {
		return
	}
	if *m == nil {
		*m = make(map[string]struct{})
	}
	(*m)[path] = struct{}{}
	if len(t.files)+len(t.dirs) > syncFSAbove {
		t.all, t.files, t.dirs = true, nil, nil
	}
}

// sync makes everything durable: files before the directories that name them.
func (t *touched) sync(tree string) error {
	if t.all {
		return mmap.SyncFS(tree)
	}
	for path := range t.files {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		err = mmap.Datasync(f)
		_ = f.Close() // synced
		if err != nil {
			return err
		}
	}
	for path := range t.dirs {
		if err := mmap.SyncDir(path); err != nil {
			return err
		}
	}
	return nil
}
