//go:build cgo

package rocks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// expireBatch is how many queues are looked at while writers wait.
const expireBatch = 256

// Expire writes the min of each queue whose beginning has expired into its min row, so that neither this store nor RocketMQ has to search for it after a
// restart; see cq.Expirer. The units themselves go as tables are compacted: the compaction filter drops those below the log's min. Compact does
// that at once.
//
// Rows are durable with the next flush. Until then a crash brings the old ones back, which costs a search.
//
// Source: RocksDBConsumeQueueOffsetTable.getMinCqOffset, 5.5.0, which writes the same rows as it is asked.
func (s *Store) Expire(ctx context.Context, pause time.Duration) (done cq.Expired, err error) {
	batch := make([]cq.Key, 0, expireBatch)
	var failed error // of the first queue that cannot be read
	flush := func() error {
		n, bad, err := s.expireQueues(ctx, batch)
		batch = batch[:0]
		if failed == nil {
			failed = bad
		}
		if done.Queues += n; n == 0 || err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		return nil
	}
	for k, err := range s.Queues() {
		if err != nil {
			return done, err
		}
		if batch = append(batch, k); len(batch) == expireBatch {
			if err := flush(); err != nil {
				return done, err
			}
		}
	}
	err = flush()
	return done, errors.Join(failed, err)
}

// expireQueues writes min rows and returns how many. bad tells of a queue that cannot be read.
func (s *Store) expireQueues(ctx context.Context, keys []cq.Key) (n int, bad, err error) {
	if err := s.beginChange(ctx); err != nil {
		return 0, nil, err
	}
	defer s.write.Unlock()
	minPhy := max(s.minPhy.Load(), 0)
	w := &s.write.rows
	moved := make(map[cq.Key]int64)
	for _, k := range keys {
		e, ok := s.end(k)
		if !ok {
			continue
		}
		b, err := (&queue{s: s, key: k, prefix: appendUnitPrefix(nil, k)}).Bounds()
		if err != nil {
			bad = fmt.Errorf("expire queue %s: %w", k, err)
			continue
		}
		if b.Min <= e.minSlot {
			continue
		}
		phy := b.MinPhyOffset
		if b.Empty() {
			phy = minPhy
		}
		w.putRow(k, tagMin, phy, b.Min)
		moved[k] = b.Min
	}
	if len(moved) == 0 {
		return 0, bad, nil
	}
	if err := s.db.Write(w.batch, false); err != nil {
		return 0, bad, s.stick(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, slot := range moved {
		if e, ok := s.mu.ends.get(k); ok {
			e.minSlot = slot
			s.mu.ends.put(k, e)
		}
	}
	return len(moved), bad, nil
}

// LostFiles says in words which files of the database are not in its directory as they should be; none mostly.
func (s *Store) LostFiles() ([]string, error) { return s.db.LostFiles() }
