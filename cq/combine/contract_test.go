//go:build cgo

package combine_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
	"github.com/tandemq/tandemmq/cq/cqtest"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/internal/testenv"
)

// perFile is how many units a file of these tests holds.
const perFile = 50

func openFile(dir string, o cqtest.OpenOptions) (cq.Store, error) {
	return file.Open(filepath.Join(dir, "consumequeue"), file.Options{
		ReadOnly: o.ReadOnly, MinPhyOffset: o.MinPhyOffset, FileSizeBytes: perFile * 20,
	})
}

func openRocks(dir string, o cqtest.OpenOptions) (cq.Store, error) {
	so := rocks.MigrationOptions()
	so.Create = !o.ReadOnly
	so.RocksDB.Units.WriteBufferBytes = 64 << 10
	so.RocksDB.Offsets.WriteBufferBytes = 64 << 10
	so.RocksDB.AvoidFlushDuringShutdown = false
	so.ReadOnly, so.MinPhyOffset = o.ReadOnly, o.MinPhyOffset
	return rocks.Open(filepath.Join(dir, "consumequeue_rocksdb"), so)
}

func openSides(dir string, o cqtest.OpenOptions) (files, db cq.Store, err error) {
	if db, err = openRocks(dir, o); err != nil {
		return nil, nil, err
	}
	if files, err = openFile(dir, o); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return files, db, nil
}

func openCombined(dir string, o cqtest.OpenOptions, co combine.Options) (*combine.Store, error) {
	files, db, err := openSides(dir, o)
	if err != nil {
		return nil, err
	}
	return combine.New(files, db, co)
}

func TestContract(t *testing.T) {
	for _, prefer := range bothKinds {
		for _, authority := range bothKinds {
			t.Run(fmt.Sprintf("prefer=%s/authority=%s", prefer, authority), func(t *testing.T) {
				if testenv.Race && prefer != authority {
					t.Skip("under the race detector one side has both roles")
				}
				cqtest.Run(t, cqtest.Harness{
					Open: func(dir string, o cqtest.OpenOptions) (cq.Store, error) {
						return openCombined(dir, o, combine.Options{Preferred: prefer, Authority: authority})
					},
					KeepsTime: prefer == cq.KindRocks,
				})
			})
		}
	}
}
