package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/tandemq/tandemmq/cq"
)

// The file broken-queues lists the queues that lack units and are not yet built again, for stores of queues that cannot be compared with the log at the open: RocksDB
// says of all its queues in one number how far they are. It is not there while all are whole.
//
//	{"queues":[{"topic":"t","queueId":3}]}
const brokenQueuesName = "broken-queues.json"

// maxBrokenBytes bounds what is read of it.
const maxBrokenBytes = 1 << 30

type brokenQueuesFile struct {
	Queues []brokenQueue `json:"queues"`
}

type brokenQueue struct {
	Topic   string `json:"topic"`
	QueueID int32  `json:"queueId"`
}

func (l Layout) brokenQueuesPath() string { return filepath.Join(l.StateDir(), brokenQueuesName) }

// loadBroken has the queues mended that an earlier run did not come to mend, and keeps the file from now on.
func (v *views) loadBroken() error {
	path := v.s.layout.brokenQueuesPath()
	v.view.saveBroken = v.saveBroken
	b, err := readFile(v.s.fs, path, maxBrokenBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var file brokenQueuesFile
	if err == nil {
		err = json.Unmarshal(b, &file)
	}
	if err != nil {
		return fmt.Errorf("read broken queues %s: %w", path, err)
	}
	v.view.mu.Lock()
	defer v.view.mu.Unlock()
	for _, q := range file.Queues {
		v.view.breakLocked(cq.Key{Topic: q.Topic, QueueID: q.QueueID}, errStillBroken)
	}
	return nil
}

var errStillBroken = errors.New("it was not built again before the store was closed")

func (v *views) saveBroken(keys []cq.Key) error {
	path := v.s.layout.brokenQueuesPath()
	if len(keys) == 0 {
		err := v.s.fs.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(err, v.s.fs.SyncDir(filepath.Dir(path)))
	}
	file := brokenQueuesFile{}
	for _, k := range keys {
		file.Queues = append(file.Queues, brokenQueue{k.Topic, k.QueueID})
	}
	b, err := json.Marshal(file)
	if err != nil {
		return err
	}
	if err := makeDir(v.s.fs, filepath.Dir(path)); err != nil {
		return err
	}
	return replaceFile(v.s.fs, path, append(b, '\n'))
}
