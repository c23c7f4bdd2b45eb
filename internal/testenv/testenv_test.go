package testenv

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tests is a package's tests.
type tests func() int

func (f tests) Run() int { return f() }

func TestMainWorksInMemory(t *testing.T) {
	t.Setenv("TMPDIR", "")
	if !roomy() {
		t.Skip("this machine has no memory for it")
	}
	var dir string
	require.Equal(t, 3, Main(tests(func() int {
		dir = os.TempDir()
		require.DirExists(t, dir)
		return 3
	})))
	require.True(t, strings.HasPrefix(dir, memory+"/tandemmq-test-"), dir)
	require.NoDirExists(t, dir)
}

// Who says where tests work is obeyed.
func TestMainObeys(t *testing.T) {
	own := t.TempDir()
	t.Setenv("TMPDIR", own)
	require.Zero(t, Main(tests(func() int {
		require.Equal(t, own, os.TempDir())
		return 0
	})))
}
