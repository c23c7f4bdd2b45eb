//go:build cgo

package rocks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"

	"github.com/tandemq/tandemmq/internal/rocks"
)

// deletesAtOnce is how many rows one write removes.
const deletesAtOnce = 4096

// TruncateDirty removes the rows of messages at or above a physical offset, durably when it returns nil: of those that the log lost. It begins with the newest hour and ends with
// the first that has no such row. Where nothing was indexed beyond, it reads nothing.
func (x *Index) TruncateDirty(phy int64) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	if err := x.writable(); err != nil {
		return err
	}
	indexed, lastPhy, lastMs := x.indexed.Load(), x.lastPhy.Load(), x.lastMs.Load()
	if indexed <= phy && lastPhy < phy {
		return nil
	}
	n, err := x.removeFrom(phy)
	if err != nil {
		return fmt.Errorf("cut index %s at phyOffset %d: %w", x.dir, phy, err)
	}
	if lastPhy >= phy { // RocketMQ skips what is below it, and it has to be where a record begins
		lastPhy, lastMs = -1, 0
	}
	if err := x.writeProgress(min(indexed, phy), lastPhy, lastMs); err != nil {
		return fmt.Errorf("cut index %s at phyOffset %d: %w", x.dir, phy, err)
	}
	if err := x.db.Flush(); err != nil {
		return fmt.Errorf("flush index: %w", x.wrap(err))
	}
	x.durable.Store(x.indexed.Load())
	x.o.Logger.Info("index cut", slog.String("dir", x.dir), slog.Int64("phyOffset", phy), slog.Int("rows", n))
	return nil
}

// removeFrom removes the rows of messages at or above phy, but for the last of them, which are left in the batch.
func (x *Index) removeFrom(phy int64) (n int, err error) {
	x.batch.Reset()
	buf := x.buffers.Get().(*[]byte)
	defer x.buffers.Put(buf)
	before := binary.BigEndian.AppendUint64(nil, math.MaxUint64)
	hour, found, seen := int64(-1), false, false
	for {
		rows, err := x.db.RowsBefore(rocks.Units, before, nil, *buf)
		if err != nil {
			return n, x.wrap(err)
		}
		for key := range rows.All() {
			before = append(before[:0], key...)
			if isProgress(key) || len(key) < hourBytes+1+phyBytes || key[hourBytes] != separator {
				continue
			}
			if h := hourIn(key); !seen || h != hour {
				if seen && !found {
					return n, nil
				}
				hour, found, seen = h, false, true
			}
			if int64(binary.BigEndian.Uint64(key[len(key)-phyBytes:])) >= phy {
				x.batch.Delete(rocks.Units, key)
				found = true
				n++
			}
		}
		if x.batch.Count() >= deletesAtOnce {
			if err := x.db.Write(x.batch, false); err != nil {
				return n, x.wrap(err)
			}
			x.batch.Reset()
		}
		if !rows.More {
			return n, nil
		}
	}
}

// Expire removes the rows of messages that were stored an hour or more before firstMs, the store time (ms) of the log's first record. The hour is for clocks that were set back.
//
// Source: the cleaner of the RocksDB index, 5.5.0, which removes no more than 168 hours' rows below that, so that older ones stay after a pause (I12).
func (x *Index) Expire(firstMs int64) (removed bool, err error) {
	x.writing.Lock()
	defer x.writing.Unlock()
	if err := x.writable(); err != nil {
		return false, err
	}
	to := hourOf(max(firstMs, 0)) - hourMs
	if to <= x.expired {
		return false, nil
	}
	if err := x.removeRange(nil, binary.BigEndian.AppendUint64(nil, uint64(to))); err != nil {
		return false, fmt.Errorf("expire index %s: %w", x.dir, err)
	}
	x.expired = to
	return true, nil
}

// Clear removes every row, durably when it returns nil. The families beside stay.
func (x *Index) Clear() error {
	x.writing.Lock()
	defer x.writing.Unlock()
	if err := x.writable(); err != nil {
		return err
	}
	err := x.removeRange(nil, bytes.Repeat([]byte{math.MaxUint8}, 2*maxKeyPrefix))
	if err == nil {
		err = x.wrap(x.db.Flush())
	}
	if err != nil {
		return fmt.Errorf("clear index %s: %w", x.dir, err)
	}
	x.indexed.Store(-1)
	x.lastPhy.Store(-1)
	x.lastMs.Store(0)
	x.durable.Store(-1)
	return nil
}

// maxKeyPrefix is the length of 0xFF bytes that no key begins with, halved.
const maxKeyPrefix = 256

func (x *Index) removeRange(from, to []byte) error {
	x.batch.Reset()
	x.batch.DeleteRange(rocks.Units, from, to)
	return x.wrap(x.db.Write(x.batch, false))
}

// Rows calls visit with every row of a message, oldest hour first, until it answers false; bad is told of each row that is none.
func (x *Index) Rows(visit func(Row) bool, bad func(error)) error {
	err := x.db.Scan(rocks.Units, nil, func(key, value []byte) bool {
		if isProgress(key) {
			return true
		}
		r, err := decodeRow(key, value)
		if err != nil {
			bad(err)
			return true
		}
		return visit(r)
	})
	if err != nil {
		return fmt.Errorf("read index: %w", x.wrap(err))
	}
	return nil
}

// RowCount returns about how many rows there are.
func (x *Index) RowCount() (int64, error) {
	s, err := x.db.Stats()
	if err != nil {
		return 0, x.wrap(err)
	}
	return s.Units.Rows, nil
}
