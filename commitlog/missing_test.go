package commitlog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// Which files are missing in the middle of a log that lies in several directories, and where they belong. Anything else that keeps the log from being opened is left for that to tell.
func TestMissingFiles(t *testing.T) {
	const size = 4096
	for _, c := range []struct {
		name    string
		files   map[string]int64 // by directory and number: their length
		missing []string
	}{
		{name: "none", files: map[string]int64{"a/0": size, "a/1": size}},
		{name: "an empty last one", files: map[string]int64{"a/0": size, "a/1": 0}},
		{name: "one", files: map[string]int64{"a/0": size, "a/2": size}, missing: []string{"a/1"}},
		{name: "an empty one", files: map[string]int64{"a/0": size, "a/1": 0, "a/2": size}, missing: []string{"a/1"}},
		{name: "two directories", files: map[string]int64{"a/3": size, "b/4": size, "a/7": size}, missing: []string{"b/5", "b/6"}},
		{name: "behind a read-only one", files: map[string]int64{"ro/0": size, "b/2": size}, missing: []string{"a/1"}},
		{name: "another length", files: map[string]int64{"a/0": size, "a/2": size, "a/3": size - 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for _, dir := range []string{"a", "b", "ro"} {
				require.NoError(t, os.Mkdir(filepath.Join(root, dir), 0o755))
			}
			place := func(name string) string {
				dir, n := filepath.Split(name)
				return filepath.Join(root, dir, mappedfile.Name(int64(n[0]-'0')*size))
			}
			for name, n := range c.files {
				require.NoError(t, os.WriteFile(place(name), make([]byte, n), 0o644))
			}
			o := RecoveryOptions{Dir: filepath.Join(root, "a"), MoreDirs: []string{filepath.Join(root, "b")}, ReadOnlyDirs: []string{filepath.Join(root, "ro")}, SetAsideDir: filepath.Join(root, "aside")}
			list, err := MissingFiles(o)
			require.NoError(t, err)
			require.Len(t, list, len(c.missing))
			for i, f := range list {
				require.Equal(t, place(c.missing[i]), f.Path)
				require.EqualValues(t, size, f.To-f.From)
			}
			require.NoError(t, FillMissing(t.Context(), o, list))
			again, err := MissingFiles(o)
			require.NoError(t, err)
			require.Empty(t, again)
			if len(list) == 0 {
				require.NoDirExists(t, o.SetAsideDir)
				return
			}
			log, err := Open(o.Dir, Options{MoreDirs: append(o.MoreDirs, o.ReadOnlyDirs...)})
			require.NoError(t, err)
			defer func() { require.NoError(t, log.Close()) }()
			for _, f := range list {
				past, err := log.PastFiller(f.From)
				require.NoError(t, err)
				require.Equal(t, f.To, past, "a filler over the whole file")
			}
		})
	}
}
