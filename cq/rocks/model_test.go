//go:build cgo

package rocks_test

import (
	"path/filepath"
	"testing"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/cqtest"
	"github.com/tandemq/tandemmq/cq/rocks"
)

func FuzzModel(f *testing.F) {
	cqtest.FuzzModel(f, cqtest.ModelHarness{Harness: cqtest.Harness{
		Open: func(dir string, o cqtest.OpenOptions) (cq.Store, error) {
			so := smallOptions()
			so.RocksDB.DisableAutoCompactions = true // a crash is a copy of the directory, from which nothing may vanish meanwhile
			so.MinPhyOffset = o.MinPhyOffset
			return rocks.Open(filepath.Join(dir, "consumequeue"), so)
		},
		KeepsTime: true,
	}})
}
