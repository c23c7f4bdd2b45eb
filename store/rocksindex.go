package store

import (
	"errors"
	"fmt"
	"runtime"

	indexrocks "github.com/tandemq/tandemmq/index/rocks"
	"github.com/tandemq/tandemmq/message"
)

// rocksIndexName names the index in RocksDB.
const rocksIndexName = "rocks index"

// rocksIndexView feeds the index in RocksDB. One that is new, or that RocketMQ made, is filled with all that the log has (I13).
type rocksIndexView struct {
	indexFeed
	indexing[indexrocks.Batch, *indexrocks.Batch]
	s     *Store
	index *indexrocks.Index
}

// openRocksIndex opens the index in RocksDB and says from where it has to be fed.
func (s *Store) openRocksIndex(levels *message.DelayLevels) (*rocksIndexView, error) {
	x, err := indexrocks.Open(s.layout.RocksIndexDir(), indexrocks.Options{
		Create: true, RocksDB: rocksIndexOptions(runtime.GOMAXPROCS(0), machineMemory()), Logger: s.o.Logger,
	})
	if err != nil {
		return nil, err
	}
	if err := x.TruncateDirty(s.writer.Positions().Confirm); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	v := newRocksIndexView(x, levels)
	v.s = s
	v.startFeed(s, v, x.DispatchFrom())
	return v, nil
}

func newRocksIndexView(x *indexrocks.Index, levels *message.DelayLevels) *rocksIndexView {
	return &rocksIndexView{index: x, indexing: newIndexing(x, levels)}
}

// rocksIndexOptions returns the options of the index's database: its defaults are for 2 cores and 24 GiB.
func rocksIndexOptions(cpus int, memory memoryBytes) indexrocks.RocksDBOptions {
	const mib = 1 << 20
	o := indexrocks.DefaultRocksDB()
	o.Units.BlockCacheBytes = min(max(int64(memory)/192, 16*mib), 1024*mib)
	o.Units.WriteBufferBytes = min(max(int64(memory)/768, 8*mib), 128*mib)
	o.MaxBackgroundJobs = min(max(cpus, 2), maxBackgroundJobs)
	o.MaxSubcompactions = min(o.MaxBackgroundJobs, maxSubcompactions)
	return o
}

func (v *rocksIndexView) name() string { return rocksIndexName }

func (v *rocksIndexView) entries() (int64, error) { return v.index.RowCount() }

func (v *rocksIndexView) expire(minPhy int64) (int, error) {
	ms, err := recordTime(v.s.writer.Log(), minPhy, 0)
	if err != nil || ms == NoTime {
		return 0, err
	}
	removed, err := v.index.Expire(ms)
	if removed {
		return 1, err
	}
	return 0, err
}

func (v *rocksIndexView) flush() error { return v.index.Flush() }

func (v *rocksIndexView) close() error {
	if err := v.index.Close(); err != nil {
		return fmt.Errorf("close %s: %w", rocksIndexName, err)
	}
	return nil
}
