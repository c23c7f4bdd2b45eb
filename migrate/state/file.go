package state

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// FileName of the state inside the state directory (<root>/tandemmq).
const FileName = "migration.json"

const stateVersion = 1

// Load reads the state of the store whose state directory is dir. A store without one is Absent.
func Load(dir string) (*State, error) {
	path := filepath.Join(dir, FileName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &State{Version: stateVersion, Phase: Absent, BackfilledTo: -1}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read migration state: %w", err)
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("read migration state %s: %w (move the file away to begin anew; queues and log are not affected by it)", path, err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("read migration state %s: version %d, this tool knows version %d", path, s.Version, stateVersion)
	}
	if !slices.Contains(Phases(), s.Phase) {
		return nil, fmt.Errorf("read migration state %s: unknown phase %q", path, s.Phase)
	}
	return &s, nil
}

// Save replaces the state file atomically and durably.
func (s *State) Save(dir string) error {
	return ReplaceFile(filepath.Join(dir, FileName), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	})
}

// ReplaceFile writes path, a file in the state directory, so that after a crash at any point either the old or the new content is there: write a
// neighbour, sync it, rename it, sync the directory.
func ReplaceFile(path string, write func(w io.Writer) error) error {
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return err
	}
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	w := bufio.NewWriterSize(f, 1<<16)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(dir)
}

// makeDir creates dir (one level) and makes its name durable.
func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return fmt.Errorf("create state directory: %w", err)
	}
	return syncDir(filepath.Dir(dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
