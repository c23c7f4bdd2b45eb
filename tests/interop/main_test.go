//go:build interop

package interop

import (
	"os"
	"testing"

	"github.com/tandemq/tandemmq/tests/golden"
)

var (
	tandemmq   *golden.Binary
	storeCheck *javaProgram
	programs   string // a directory for what tests build
)

func TestMain(m *testing.M) {
	if job := os.Getenv(putterEnv); job != "" {
		putUntilKilled(job)
	}
	golden.Main(m, func(b *golden.Binary, dir string) (err error) {
		tandemmq, programs = b, dir
		storeCheck, err = buildStoreCheck()
		return err
	})
}
