package online

import (
	"context"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate"
)

// space finds out how much room the other side needs at most while it is made.
func (m *Migration) space(ctx context.Context, to cq.Kind, keys []cq.Key) (int64, error) {
	e := migrate.NewSpaceEstimate(to, m.o.CQFileBytes, m.o.Root)
	for _, k := range keys {
		if b, ok, err := m.s.Bounds(k); err == nil && ok { // one that cannot be read is made from the log, and another error comes up again
			e.Add(k, b)
		}
	}
	_, peak, err := e.Bytes(ctx, func(k cq.Key, from int64, dst []cq.Unit) (int, error) {
		n, _, _, err := m.s.Units(k.Topic, k.QueueID, from, dst)
		return n, err
	}, m.o.OpenScratch)
	return peak, err
}
