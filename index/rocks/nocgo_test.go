//go:build !cgo

package rocks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/index"
)

func TestWithoutCgo(t *testing.T) {
	x, err := Open(t.TempDir(), Options{Create: true})
	require.ErrorIs(t, err, index.ErrNoRocksDB)
	require.Nil(t, x)
}
