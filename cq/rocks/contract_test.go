//go:build cgo

package rocks_test

import (
	"path/filepath"
	"testing"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/cqtest"
	"github.com/tandemq/tandemmq/cq/rocks"
)

// smallOptions makes memtables, files and caches small, so that little data crosses their boundaries.
func smallOptions() rocks.Options {
	o := rocks.MigrationOptions()
	o.Create = true
	o.TailBytes = 64 << 10
	o.RocksDB.DisableAutoCompactions = false
	o.RocksDB.Units.WriteBufferBytes = 64 << 10
	o.RocksDB.Offsets.WriteBufferBytes = 64 << 10
	o.RocksDB.Units.TargetFileBytes = 64 << 10
	o.RocksDB.Units.BlockBytes = 1 << 10
	return o
}

func TestContract(t *testing.T) {
	cqtest.Run(t, cqtest.Harness{
		Open: func(dir string, o cqtest.OpenOptions) (cq.Store, error) {
			so := smallOptions()
			so.ReadOnly, so.MinPhyOffset = o.ReadOnly, o.MinPhyOffset
			return rocks.Open(filepath.Join(dir, "consumequeue"), so)
		},
		KeepsTime: true,
	})
}
