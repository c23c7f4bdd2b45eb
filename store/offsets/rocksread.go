//go:build cgo

package offsets

import (
	"bytes"
	"errors"

	"github.com/tandemq/tandemmq/internal/rocks"
)

// readDatabase fills s from the database at s.Path.
func readDatabase(s *Source) (err error) {
	db, err := rocks.OpenReadOnly(s.Path, rocks.MigrationOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	names := families[s.Place]
	if s.Place == RocksV2 {
		return db.ScanNamed(names.offsets, v2TableStart, func(key, value []byte) bool {
			if !bytes.HasPrefix(key, v2TableStart) {
				return false
			}
			s.takeV2Row(key, value)
			return true
		})
	}
	if err := db.ScanNamed(names.offsets, nil, func(key, value []byte) bool {
		s.takeRow(key, value)
		return true
	}); err != nil {
		return err
	}
	var verr error
	err = db.ScanNamed(names.version, []byte(versionRow), func(key, value []byte) bool {
		if string(key) == versionRow {
			verr = s.takeVersion(bytes.Clone(value))
		}
		return false
	})
	return errors.Join(err, verr)
}
