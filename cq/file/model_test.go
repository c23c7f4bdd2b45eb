package file_test

import (
	"path/filepath"
	"testing"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/cqtest"
	"github.com/tandemq/tandemmq/cq/file"
)

func FuzzModel(f *testing.F) {
	cqtest.FuzzModel(f, cqtest.ModelHarness{Harness: cqtest.Harness{
		Open: func(dir string, o cqtest.OpenOptions) (cq.Store, error) {
			return file.Open(filepath.Join(dir, "consumequeue"), file.Options{MinPhyOffset: o.MinPhyOffset, FileSizeBytes: 50 * 20})
		},
	}})
}
