package golden

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/*.gz
var testdata embed.FS

const (
	archiveSuffix  = ".tar.gz"
	manifestSuffix = ".manifest.jsonl.gz"
)

// Names lists the stores, sorted.
func Names() []string {
	paths, err := fs.Glob(testdata, "testdata/*"+archiveSuffix)
	if err != nil {
		panic(err) // the pattern is constant
	}
	var names []string
	for _, p := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(p), archiveSuffix))
	}
	return names
}

// Unpack writes a fresh copy of the store into the test's temporary directory and returns the store root
// (storePathRootDir). Each call makes another copy.
func Unpack(tb testing.TB, name string) string {
	tb.Helper()
	packed, err := testdata.ReadFile("testdata/" + name + archiveSuffix)
	require.NoError(tb, err, "no such store; there are %v", Names())
	dir := tb.TempDir()
	require.NoError(tb, unpack(packed, dir), "unpack %s", name)
	return filepath.Join(dir, name)
}

// unpack writes directories and regular files below dir; an entry of another type, or one that would leave dir, is an error.
func unpack(packed []byte, dir string) error {
	plain, err := gunzip(packed)
	if err != nil {
		return err
	}
	for r := tar.NewReader(bytes.NewReader(plain)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("entry %q leaves the directory", h.Name)
		}
		to := filepath.Join(dir, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(to, 0o755)
		case tar.TypeReg:
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(to, b, 0o644)
			}
		default:
			err = fmt.Errorf("entry %q has type %q", h.Name, h.Typeflag)
		}
		if err != nil {
			return err
		}
	}
}

func gunzip(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
