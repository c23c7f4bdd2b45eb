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
)

func TestMain(m *testing.M) {
	if job := os.Getenv(putterEnv); job != "" {
		putUntilKilled(job)
	}
	golden.Main(m, func(b *golden.Binary, _ string) (err error) {
		tandemmq = b
		storeCheck, err = buildStoreCheck()
		return err
	})
}
