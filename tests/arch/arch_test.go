package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// touchSources walks the module's folders. go test caches a pass until a file or folder that the test
// process itself looked at changes, and go list is another process.
func touchSources(t *testing.T) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if errors.Is(err, fs.ErrNotExist) { // another test's file, gone between two looks
			return nil
		}
		return err
	}))
}

// list runs go list over the whole module.
func list(t *testing.T, cgo string) []Package {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-tags", "interop,tandemmq_failpoints",
		"-json=ImportPath,Imports,TestImports,XTestImports", Module+"/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var packages []Package
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
}

func TestImports(t *testing.T) {
	touchSources(t)
	for _, cgo := range []string{"1", "0"} {
		t.Run("cgo="+cgo, func(t *testing.T) {
			packages := list(t, cgo)
			paths := make(map[string]bool)
			for _, p := range packages {
				paths[p.ImportPath] = true
			}
			for _, name := range []string{"message", "commitlog", "cq", "cq/file", "cq/rocks", "internal/mmap", "internal/failpoint", "internal/faultfs", "tests/arch"} {
				require.True(t, paths[Module+"/"+name], "go list did not show %s", name)
			}
			require.Empty(t, Check(packages))
		})
	}
}

// TestCheck breaks each rule on purpose: the rules above could otherwise pass by matching nothing.
func TestCheck(t *testing.T) {
	tests := []struct {
		name string
		pkg  Package
		want []string
	}{
		{
			name: "allowed",
			pkg:  Package{ImportPath: Module + "/cq/rocks", Imports: []string{"fmt", Module + "/cq", Module + "/internal/rocks"}},
		},
		{
			name: "one store knows another",
			pkg:  Package{ImportPath: Module + "/cq/combine", Imports: []string{Module + "/cq/file"}},
			want: []string{"cq/combine must not import cq/file"},
		},
		{
			name: "a store knows the log",
			pkg:  Package{ImportPath: Module + "/cq/file", Imports: []string{Module + "/commitlog"}},
			want: []string{"cq/file must not import commitlog"},
		},
		{
			name: "its test may",
			pkg:  Package{ImportPath: Module + "/cq/combine", XTestImports: []string{Module + "/cq/file"}},
		},
		{
			name: "index knows a store",
			pkg:  Package{ImportPath: Module + "/index/rocks", Imports: []string{Module + "/cq/rocks", Module + "/index"}},
			want: []string{"index/rocks must not import cq/rocks"},
		},
		{
			name: "internal looks up",
			pkg:  Package{ImportPath: Module + "/internal/mappedfile", Imports: []string{Module + "/message"}},
			want: []string{"internal/mappedfile must not import message"},
		},
		{
			name: "message looks up",
			pkg:  Package{ImportPath: Module + "/message", Imports: []string{Module + "/cq"}},
			want: []string{"message must not import cq"},
		},
		{
			name: "migrate constructs a store",
			pkg:  Package{ImportPath: Module + "/migrate", Imports: []string{Module + "/cq/rocks"}},
			want: []string{"migrate must not import cq/rocks"},
		},
		{
			name: "a package without a row",
			pkg:  Package{ImportPath: Module + "/util"},
			want: []string{"util has no row in the table of layers"},
		},
		{
			name: "grocksdb elsewhere, even in a test",
			pkg:  Package{ImportPath: Module + "/cq/rocks", TestImports: []string{"github.com/linxGnu/grocksdb"}},
			want: []string{"cq/rocks must not import github.com/linxGnu/grocksdb: only internal/rocks may"},
		},
		{
			name: "x/sys elsewhere",
			pkg:  Package{ImportPath: Module + "/store", Imports: []string{"golang.org/x/sys/unix"}},
			want: []string{"store must not import golang.org/x/sys/unix: only internal/mmap may"},
		},
		{
			name: "cli below cmd",
			pkg:  Package{ImportPath: Module + "/migrate", Imports: []string{"github.com/urfave/cli/v2"}},
			want: []string{"migrate must not import github.com/urfave/cli/v2: only cmd/... may"},
		},
		{
			name: "testify outside tests",
			pkg:  Package{ImportPath: Module + "/cq", Imports: []string{"github.com/stretchr/testify/require"}},
			want: []string{"cq must not import github.com/stretchr/testify/require: only cq/cqtest, tests/... may"},
		},
		{
			name: "the filesystem that fails in the product",
			pkg:  Package{ImportPath: Module + "/internal/mappedfile", Imports: []string{Module + "/internal/faultfs"}},
			want: []string{"internal/mappedfile must not import github.com/tandemq/tandemmq/internal/faultfs: only cq/cqtest, tests/... may"},
		},
		{
			name: "a place to stop at, below the stores",
			pkg:  Package{ImportPath: Module + "/commitlog", Imports: []string{Module + "/internal/failpoint"}},
			want: []string{"commitlog must not import github.com/tandemq/tandemmq/internal/failpoint: only cq/..., migrate, store, tests/... may"},
		},
		{
			name: "the filesystem that fails in any test",
			pkg:  Package{ImportPath: Module + "/commitlog", XTestImports: []string{Module + "/internal/faultfs"}},
		},
		{
			name: "testify in any test",
			pkg:  Package{ImportPath: Module + "/cq", TestImports: []string{"github.com/stretchr/testify/require"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, Check([]Package{tt.pkg}))
		})
	}
}

func TestMatches(t *testing.T) {
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"cq", "cq", true},
		{"cq", "cq/file", false},
		{"cq/...", "cq", true},
		{"cq/...", "cq/file", true},
		{"cq/...", "cqx", false},
		{"...", "anything/at/all", true},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, matches(tt.pattern, tt.name), "%s over %s", tt.pattern, tt.name)
	}
}
