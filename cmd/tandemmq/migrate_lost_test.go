package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	rocksdb "github.com/tandemq/tandemmq/cq/rocks"
)

// A target whose database has lost files cannot be opened; each step says what leads on, and that does.
func TestMigrateSaysWhatLeadsOnFromALostTarget(t *testing.T) {
	if !rocksdb.Available {
		t.Skip("built without cgo: no RocksDB")
	}
	for _, c := range []struct {
		name, lost string
		run        []string // of the migration
		out        []string // the way out
		said       string
	}{
		{"tables before the cutover", "*.sst", []string{"run"}, []string{"run", "--restart", "--replace-target"}, "`tandemmq migrate run --to rocks --restart --replace-target`"},
		{"the manifest after it", "MANIFEST-*", []string{"run", "--yes"}, []string{"rollback", "--from-log", "--yes"}, "`tandemmq migrate rollback --from-log --yes`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := checkSample(t)
			migrate := func(words ...string) (code int, errs string) {
				code, _, errs = runApp(t, append(append([]string{"migrate"}, words...), "--store", root, "--quiet")...)
				return code, errs
			}
			code, errs := migrate(c.run...)
			require.Zero(t, code, errs)
			lost, err := filepath.Glob(filepath.Join(root, "consumequeue_rocksdb", c.lost))
			require.NoError(t, err)
			require.NotEmpty(t, lost)
			for _, path := range lost {
				require.NoError(t, os.Remove(path))
			}
			for _, step := range [][]string{{"verify"}, {"cutover"}, {"repair", "--dry-run"}} {
				code, errs := migrate(step...)
				require.Equal(t, 1, code, errs)
				require.Contains(t, errs, c.said, step)
			}
			code, errs = migrate(c.out...)
			require.Zero(t, code, errs)
		})
	}
}
