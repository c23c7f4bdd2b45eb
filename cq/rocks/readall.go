//go:build cgo

package rocks

import (
	"context"

	"github.com/tandemq/tandemmq/internal/rocks"
)

// rowsPerLook is how many rows ReadAll reads between two looks at its context.
const rowsPerLook = 1 << 16

// ReadAll reads every row of both families, with the checksums of their blocks: what it cannot read no merge can, and RocksDB ends all writing when a merge fails. It reads all of
// the directory. progress is told now and then how many rows were read, nil: nobody. Errors: a *cq.CorruptError at damage; ctx.
func (s *Store) ReadAll(ctx context.Context, progress func(rows int64)) error {
	read := int64(0)
	for _, f := range []rocks.Family{rocks.Offsets, rocks.Units} {
		if err := s.db.Scan(f, nil, func(_, _ []byte) bool {
			if read++; read%rowsPerLook != 0 {
				return true
			}
			if progress != nil {
				progress(read)
			}
			return ctx.Err() == nil
		}); err != nil {
			return s.wrap(err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
