//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/store"
)

// putSizes are the sizes of the stores that puts are made into: several log files for all of it, several files a queue.
func putSizes(commitLog int64) sizes {
	return sizes{commitLog: commitLog, queue: 400, indexSlots: 500, indexEntries: 2000}
}

// sized gives a store's queues and index these sizes.
func sized(o *store.Options, s sizes) {
	o.MappedFileSizeConsumeQueue = s.queue
	o.MaxHashSlotNum, o.MaxIndexNum = int(s.indexSlots), int(s.indexEntries)
}

const (
	bigFiles   = largestBody + 128<<10 // as small as they can be for the largest body
	smallFiles = 64 << 10
	rounds     = 4
)

// A way of writing the log, and of reading it.
type writing struct {
	name  string
	files int64
	mode  string // of RocketMQ
	set   func(o *store.Options)
}

var writings = []writing{
	{"mmap", bigFiles, "file", func(*store.Options) {}},
	{"mmap, small files", smallFiles, "rocks", func(*store.Options) {}},
	{"pool, record checksums", bigFiles, "file", func(o *store.Options) {
		o.TransientStorePoolEnable, o.EnabledAppendPropCRC, o.ForceVerifyPropCRC = true, true, true
	}},
	{"pwrite, small files", smallFiles, "file", func(o *store.Options) { o.WriteWithoutMmap = true }},
	{"files and RocksDB", smallFiles, "combine", func(*store.Options) {}},
	{"staged, record checksums", bigFiles, "file", func(o *store.Options) {
		o.FlushDiskType, o.EnabledAppendPropCRC, o.ForceVerifyPropCRC = store.SyncFlush, true, true
	}},
}

func (w *writing) options() store.Options {
	o := store.DefaultOptions()
	o.MappedFileSizeCommitLog = w.files
	sized(&o, putSizes(w.files))
	switch w.mode {
	case "rocks":
		o.StoreType = store.StoreTypeRocksDB
	case "combine":
		o.RocksdbCQDoubleWriteEnable, o.CombineCQUseRocksdbForLmq = true, true
	}
	o.EnableLmq, o.EnableMultiDispatch = true, true
	o.IsBatchTopic = func(topic string) bool { return topic == batchTopic && w.batches() }
	w.set(&o)
	return o
}

// batches tells whether there are batch queues: RocketMQ has none on RocksDB.
func (w *writing) batches() bool { return w.mode == "file" }

func (w *writing) how() how {
	h := how{mode: w.mode, lmq: true, propCRC: w.options().EnabledAppendPropCRC, log: true, sizes: putSizes(w.files)}
	if w.batches() {
		h.batch = batchTopic
	}
	h.lmqRocks = w.mode == "combine"
	return h
}

// putAll opens the store, puts every shape, then messages up to the last byte that a record may have in the log's file, and
// closes it; all of it several times.
func (w *writing) putAll(t *testing.T, dir string, l *ledger) (end int64) {
	t.Helper()
	round := func() {
		s, err := store.Open(dir, w.options())
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		l.requireOffsets(t, s)
		for _, sh := range shapes(l.crc) {
			if sh.topic == batchTopic && !w.batches() || int64(len(sh.body)) > w.files {
				continue
			}
			l.put(t, s, &sh)
		}
		w.fill(t, s, l)
		l.requireOffsets(t, s)
		end = s.Positions().Wrote
	}
	for range rounds {
		round()
	}
	return end
}

// fill ends the log's file as tightly as can be: with the 8 bytes of the filler that the next record needs.
func (w *writing) fill(t *testing.T, s *store.Store, l *ledger) {
	t.Helper()
	edge := shape{name: "edge", topic: "Edge"}
	overhead := int64(91 + len(edge.topic))
	if l.crc {
		overhead += crcPropertyBytes
	}
	room := func() int64 { return w.files - 8 - s.Positions().Wrote%w.files - overhead }
	for room() > largestBody {
		edge.body = make([]byte, 64<<10)
		l.put(t, s, &edge)
	}
	if room() < 0 { // in the next file, then
		l.put(t, s, &edge)
	}
	edge.body = make([]byte, room())
	l.put(t, s, &edge)
	require.Equal(t, w.files-8, s.Positions().Wrote%w.files)
}

// RocketMQ reads what we put, in every shape and by every way of writing: each queue and each record, field by field. It goes on
// where we ended, we go on where it ended, and it reads that and goes on again.
func TestRocketMQReadsPuts(t *testing.T) {
	t.Parallel()
	ledgers := map[string]*ledger{}
	ends := map[string]int64{}
	write := func(w *writing, dir string, l *ledger) bool {
		return t.Run("put/"+w.name, func(t *testing.T) {
			ends[w.name] = w.putAll(t, dir, l)
			if w.batches() {
				require.FileExists(t, filepath.Join(dir, "abort"), "batch queues were not built: RocketMQ must see that")
			} else {
				require.NoFileExists(t, filepath.Join(dir, "abort"))
			}
			l.seal(t, dir, w.files)
			files, err := os.ReadDir(filepath.Join(dir, "commitlog"))
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(files), rounds, "several rolls")
		})
	}
	read := func(w *writing, r report, l *ledger) bool {
		return t.Run("read/"+w.name, func(t *testing.T) {
			require.Empty(t, r.failure)
			require.Equal(t, ends[w.name], r.log.max)
			l.requireRead(t, r.opened, r.log)
			requireContinued(t, r, true)
			require.Greater(t, len(r.logAfter.records), len(r.log.records))
			for i, rec := range r.log.records {
				require.Equal(t, rec, r.logAfter.records[i])
			}
		})
	}

	var jobs []job
	for _, w := range writings {
		l := newLedger(w.options().EnabledAppendPropCRC)
		ledgers[w.name] = l
		j := job{w.name, filepath.Join(t.TempDir(), "store"), w.how(), appendCount}
		if write(&w, j.dir, l) {
			jobs = append(jobs, j)
		}
	}
	const stations = 2
	for station := range stations {
		reports := runJobs(t, jobs)
		var next []job
		for _, j := range jobs {
			w := &writings[slices.IndexFunc(writings, func(w writing) bool { return w.name == j.name })]
			r, l := reports[j.name], ledgers[j.name]
			if !read(w, r, l) || station == stations-1 {
				continue
			}
			l.adopt(t, r.appended, r.logAfter.records)
			if write(w, j.dir, l) {
				next = append(next, j)
			}
		}
		jobs = next
	}
}
