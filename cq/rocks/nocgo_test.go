//go:build !cgo

package rocks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
)

func TestWithoutCgo(t *testing.T) {
	s, err := rocks.Open(t.TempDir(), rocks.DefaultOptions())
	require.ErrorIs(t, err, cq.ErrNoRocksDB)
	require.Nil(t, s)
}
