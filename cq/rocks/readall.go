//go:build cgo

package rocks

import (
	"context"

	"github.com/tandemq/tandemmq/internal/rocks"
)

// rowsPerLook is how many rows ReadAll reads between two looks at its context.
const rowsPerLook = 1 << 16

// ReadAll reads every row of both families, with the checksums of their blocks: what it cannot read no merge can, and RocksDB ends all writing when a merge fails. It reads all of
// the directory. Errors: a *cq.CorruptError at damage; ctx.
func (s *Store) ReadAll(ctx context.Context) error {
	for _, f := range []rocks.Family{rocks.Offsets, rocks.Units} {
		rows := 0
		if err := s.db.Scan(f, nil, func(_, _ []byte) bool {
			rows++
			return rows%rowsPerLook != 0 || ctx.Err() == nil
		}); err != nil {
			return s.wrap(err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
