package main

import (
	"context"

	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// use has the load put into s.
func (l *load) use(s *store.Store) {
	l.put = func(ctx context.Context, m *message.Message, batch bool) (int64, error) {
		put := s.Put
		if batch {
			put = s.PutBatch
		}
		r, err := put(ctx, m)
		return r.Append.PhyOffset, err
	}
	l.figures = func() logFigures {
		st := s.Stats()
		return logFigures{
			syncs: st.Flushes, undurableBytes: st.UndurableBytes, undurableFor: max(st.MaxUndurableFor, st.UndurableFor),
			prepared: st.Allocations + st.PopulatedBytes,
		}
	}
}
