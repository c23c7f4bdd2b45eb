package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/tandemq/tandemmq/cq"
)

// The file broken-queues lists the queues that lack units and are not yet built again. RocksDB says of all its queues in one number how far they are, and its row does not pass a record
// of which it refused a unit before the queue is noted here (cq.Noter), so where there is a RocksDB it is kept up at every moment; file queues are compared with the log at each open, and it only says how far they have been built again. It is not there while all are whole.
//
//	{"queues":[{"topic":"t","queueId":3,"phyOffset":268435456},{"topic":"u","queueId":0,"side":"rocks"}]}
//
// phyOffset: every unit of a record below it is there and durable; left out where nothing is known. side: of a combined store RocksDB alone lacks units, which matters to who opens it
// with RocksDB alone; a store with files alone leaves such rows as they are.
const brokenQueuesName = "broken-queues.json"

// maxBrokenBytes bounds what is read of it.
const maxBrokenBytes = 1 << 30

type brokenQueuesFile struct {
	Queues []brokenQueue `json:"queues"`
}

type brokenQueue struct {
	Topic     string `json:"topic"`
	QueueID   int32  `json:"queueId"`
	PhyOffset int64  `json:"phyOffset,omitempty"`
	Side      string `json:"side,omitempty"`
}

// sideRocksOnly is the side that is noted by itself.
const sideRocksOnly = string(cq.KindRocks)

func (l Layout) brokenQueuesPath() string { return filepath.Join(l.StateDir(), brokenQueuesName) }

// loadBroken has the queues mended that an earlier run did not come to mend, and keeps the file from now on. Where all queues were lost, all are built.
func (v *views) loadBroken(lost bool) error {
	path := v.s.layout.brokenQueuesPath()
	v.view.saveBroken, v.view.saveAtOnce = v.saveBroken, v.queues.Kind() != cq.KindFile
	b, err := readFile(v.s.fs, path, maxBrokenBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var file brokenQueuesFile
	if err == nil {
		err = json.Unmarshal(b, &file)
	}
	if err != nil && !lost {
		return fmt.Errorf("read broken queues %s: %w", path, err)
	}
	if v.queues.Kind() == cq.KindFile {
		for _, q := range file.Queues {
			if q.Side == sideRocksOnly {
				v.rocksBroken = append(v.rocksBroken, q)
			}
		}
	}
	if lost {
		return v.saveBroken(nil)
	}
	v.view.mu.Lock()
	defer v.view.mu.Unlock()
	for _, q := range file.Queues {
		k := cq.Key{Topic: q.Topic, QueueID: q.QueueID}
		if q.Side == sideRocksOnly && v.queues.Kind() != cq.KindRocks {
			if v.sides != nil {
				v.sides.store.MarkDiverged(cq.KindRocks, k, errStillBroken)
			}
			continue
		}
		v.view.breakLocked(k, errStillBroken)
		if queue, ok := v.queues.Queue(k); ok && q.PhyOffset > 0 {
			if _, err := queue.Bounds(); err == nil {
				v.view.mu.mended[k] = q.PhyOffset
			}
		}
	}
	return nil
}

var errStillBroken = errors.New("it was not built again before the store was closed")

func (v *views) saveBroken(mended map[cq.Key]int64) error {
	path := v.s.layout.brokenQueuesPath()
	rest := append(v.sides.shortInRocks(), v.rocksBroken...)
	if len(mended)+len(rest) == 0 {
		err := v.s.fs.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(err, v.s.fs.SyncDir(filepath.Dir(path)))
	}
	file := brokenQueuesFile{Queues: make([]brokenQueue, 0, len(mended)+len(rest))}
	for _, k := range slices.SortedFunc(maps.Keys(mended), cq.Key.Compare) {
		file.Queues = append(file.Queues, brokenQueue{Topic: k.Topic, QueueID: k.QueueID, PhyOffset: mended[k]})
	}
	file.Queues = append(file.Queues, rest...)
	b, err := json.Marshal(file)
	if err != nil {
		return err
	}
	if err := makeDir(v.s.fs, filepath.Dir(path)); err != nil {
		return err
	}
	return replaceFile(v.s.fs, path, append(b, '\n'))
}

// shortInRocks returns the queues that RocksDB alone lacks units of.
func (d *sides) shortInRocks() (list []brokenQueue) {
	if d == nil {
		return nil
	}
	for _, one := range d.store.Diverged() {
		if one.Side == cq.KindRocks && !barred(one.Err) && !d.hasGivenUp(cq.KindRocks, one.Key) {
			list = append(list, brokenQueue{Topic: one.Key.Topic, QueueID: one.Key.QueueID, Side: sideRocksOnly})
		}
	}
	return list
}
