//go:build interop

package interop

import (
	"fmt"
	"os"
	"testing"

	"github.com/tandemq/tandemmq/tests/golden"
)

var (
	tandemmq   *golden.Binary
	storeCheck *javaProgram
)

func TestMain(m *testing.M) {
	code := 1
	defer func() { os.Exit(code) }()
	dir, err := os.MkdirTemp("", "tandemmq-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if tandemmq, err = golden.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	if storeCheck, err = buildStoreCheck(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	code = m.Run()
}
