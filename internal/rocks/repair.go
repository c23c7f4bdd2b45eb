//go:build cgo

package rocks

import "github.com/linxGnu/grocksdb"

// Repair makes a database of the table files in dir, whatever its manifest says, with all their rows: of equal keys the newest. It reads all of them, and moves what is no table into lost/. Nobody has it open.
func Repair(dir string) error {
	o := made(grocksdb.NewDefaultOptions())
	defer destroy(o)
	if err := grocksdb.RepairDb(dir, o); err != nil {
		return &Error{Op: "repair", Dir: dir, Text: err.Error()}
	}
	return nil
}
