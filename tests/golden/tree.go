package golden

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TreeSums returns the digest of every regular file below dir, and "dir" for every directory, by path relative to dir: two
// equal maps mean that nothing was written, made or removed in between.
func TreeSums(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	sums := map[string]string{}
	require.NoError(tb, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			sums[rel] = "dir"
			return nil
		}
		b, err := os.ReadFile(path)
		sum := sha256.Sum256(b)
		sums[rel] = hex.EncodeToString(sum[:])
		return err
	}))
	return sums
}

// CopyTree copies a store directory (directories and regular files) into the test's temporary directory and returns the copy.
func CopyTree(tb testing.TB, dir string) string {
	tb.Helper()
	to := filepath.Join(tb.TempDir(), filepath.Base(dir))
	require.NoError(tb, os.CopyFS(to, os.DirFS(dir)))
	return to
}
