//go:build interop

package interop

import (
	"bytes"
	"context"

	"github.com/tandemq/tandemmq/tests/interop/java"
)

// javaProgram is StoreCheck, built.
type javaProgram struct{ classPath string }

func buildStoreCheck() (*javaProgram, error) {
	classPath, err := java.Build(context.Background())
	return &javaProgram{classPath: classPath}, err
}

// lastBytes is the end of a long output.
func lastBytes(b *bytes.Buffer, n int) string {
	return string(b.Bytes()[max(0, b.Len()-n):])
}
