//go:build interop

package interop

import (
	"testing"

	"github.com/tandemq/tandemmq/tests/golden"
)

var (
	tandemmq   *golden.Binary
	storeCheck *javaProgram
)

func TestMain(m *testing.M) {
	golden.Main(m, func(b *golden.Binary, _ string) (err error) {
		tandemmq = b
		storeCheck, err = buildStoreCheck()
		return err
	})
}
