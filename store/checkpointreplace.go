package store

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tandemq/tandemmq/internal/failpoint"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// replaceFile gives path the content b so that after a crash at any point the old or the new content is there, and the new
// one once it returned nil: write a neighbour, sync it, rename it, sync the directory. A neighbour that a crash left is
// written over. After an error path has the old content, or the new one that may not outlive a power loss.
func replaceFile(fsys mmap.FS, path string, b []byte) error {
	tmp := path + ".tmp"
	f, err := fsys.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Datasync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	failpoint.Hit(failpoint.FileReplaced)
	if err == nil {
		err = fsys.Rename(tmp, path)
	}
	if err != nil {
		_ = fsys.Remove(tmp)
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}
