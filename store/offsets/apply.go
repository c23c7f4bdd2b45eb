package offsets

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// CopySuffix ends the name of the dated copy that Apply makes of the file it replaces:
// consumerOffset.json.20060102T150405Z.before-reset. It lies beside RocketMQ's own .bak, which RocketMQ replaces every few
// seconds, and stays until somebody removes it.
const CopySuffix = ".before-reset"

// copyTime is the time in its name, UTC.
const copyTime = "20060102T150405Z"

// maxCopies is how many copies of one second get a name of their own.
const maxCopies = 100

// RefusedError tells why a plan is not done.
type RefusedError struct{ Reasons []string }

func (e *RefusedError) Error() string {
	return "nothing was changed: " + strings.Join(e.Reasons, "; ")
}

// Applied says what Apply did.
type Applied struct {
	File string `json:"file"`
	// Copy is the dated copy of what was there before; "" when nothing was.
	Copy string `json:"copy,omitempty"`
}

// Apply writes the file of a plan. The caller holds the store's lock for writing since before the plan was made. First a
// dated copy of the present file is made and synced, then the new content is written beside it, synced, and renamed over
// it: killed at any moment, the old or the new file is there, whole. RocketMQ's own backup is not touched.
//
// A plan without changes does nothing. Errors: *RefusedError; the file changed since the plan; those of the file system.
func (p *Plan) Apply(now time.Time) (Applied, error) { return p.apply(mmap.OS, now) }

func (p *Plan) apply(fsys mmap.FS, now time.Time) (a Applied, err error) {
	if len(p.Refusals) > 0 {
		return a, &RefusedError{Reasons: p.Refusals}
	}
	if len(p.Changes) == 0 {
		return a, nil
	}
	present, err := readWhole(p.File)
	if err != nil {
		return a, err
	}
	if !bytes.Equal(present, p.before) || (present == nil) != (p.before == nil) {
		return a, fmt.Errorf("replace offset file %s: it changed meanwhile: is a broker running?", p.File)
	}
	perm := fs.FileMode(0o644)
	if st, err := os.Stat(p.File); err == nil {
		perm = st.Mode().Perm()
	}
	if p.before != nil {
		if a.Copy, err = writeCopy(fsys, p.File, p.before, perm, now); err != nil {
			return a, fmt.Errorf("copy offset file %s: %w", p.File, err)
		}
	}
	content := render(p.base, p.offsets, p.Version, p.Place == LightJSON)
	if err := checkRendered(content, p); err != nil {
		return a, err
	}
	if err := makeDir(fsys, filepath.Dir(p.File)); err != nil {
		return a, fmt.Errorf("replace offset file %s: %w", p.File, err)
	}
	if err := replace(fsys, p.File, content, perm); err != nil {
		return a, fmt.Errorf("replace offset file %s: %w", p.File, err)
	}
	a.File = p.File
	return a, nil
}

// checkRendered reads what is about to be written, and compares: a file that lacks an offset is never written.
func checkRendered(content []byte, p *Plan) error {
	d, err := parseDocument(p.File, content, p.Place == LightJSON)
	if err != nil {
		return fmt.Errorf("check the new content: %w", err)
	}
	same := len(d.offsets) == len(p.offsets) && len(d.faults) == 0
	for k, v := range p.offsets {
		same = same && d.offsets[k].Offset == v
	}
	if !same {
		return fmt.Errorf("check the new content of %s: it does not hold the offsets planned; nothing was written", p.File)
	}
	return nil
}

// readWhole reads a file; nil when there is none.
func readWhole(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, &FileError{Path: path, Err: cause(err)}
	case b == nil:
		b = []byte{}
	}
	return b, nil
}

// writeCopy writes a copy that was not there before.
func writeCopy(fsys mmap.FS, path string, b []byte, perm fs.FileMode, now time.Time) (string, error) {
	stem := path + "." + now.UTC().Format(copyTime)
	for i := 1; i <= maxCopies; i++ {
		name := stem + CopySuffix
		if i > 1 {
			name = fmt.Sprintf("%s-%d%s", stem, i, CopySuffix)
		}
		err := writeSynced(fsys, name, b, os.O_EXCL, perm)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = fsys.SyncDir(filepath.Dir(path))
		}
		return name, err
	}
	return "", fmt.Errorf("%d copies named %s are there already", maxCopies, stem)
}

func writeSynced(fsys mmap.FS, name string, b []byte, flag int, perm fs.FileMode) error {
	f, err := fsys.OpenFile(name, os.O_CREATE|os.O_WRONLY|flag, perm)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Datasync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = fsys.Remove(name) // half a file helps nobody
	}
	return err
}

func replace(fsys mmap.FS, path string, b []byte, perm fs.FileMode) error {
	tmp := path + ".tmp"
	if err := writeSynced(fsys, tmp, b, os.O_TRUNC, perm); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, path); err != nil {
		_ = fsys.Remove(tmp)
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// makeDir makes the directory config of a store that has none.
func makeDir(fsys mmap.FS, dir string) error {
	err := fsys.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(dir))
}
