package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
)

// canReplaceRows looks whether RocksDB can take the units of single queues, before it is made to drop those it has: damage anywhere in it ends all writing as soon as RocksDB merges what
// is damaged. All of it is read for that, as is the log for the units.
func (r *rebuilding) canReplaceRows(ctx context.Context) (err error) {
	if r.job.Topic == "" || !r.buildsRocks() {
		return nil
	}
	dir, _, found, err := r.layout.FindRocks()
	if err != nil || !found {
		return err
	}
	first, err := firstLogFile(r.layout, &r.rec.base)
	if err != nil {
		return err
	}
	queues, err := rocks.Open(dir, rocks.Options{ReadOnly: true, MinPhyOffset: first})
	if err == nil {
		err = errors.Join(queues.ReadAll(ctx, nil), queues.Close())
	}
	if errors.Is(err, cq.ErrCorrupt) {
		return fmt.Errorf("RocksDB of the consume queues is damaged and cannot be trusted to take units of single queues; nothing was changed. `tandemmq store rebuild --store %s --queues rocks --yes` builds all of its queues: %w",
			r.layout.Root, err)
	}
	return err
}

// buildsRocks tells whether queues of RocksDB are to be built.
func (r *rebuilding) buildsRocks() bool {
	for _, kind := range r.sides() {
		if kind == StoreTypeRocksDB && r.wantsQueues() {
			return true
		}
	}
	return false
}
