package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// maxNameBytes is the longest file name that Linux filesystems take.
const maxNameBytes = 255

// listChunk is how many entries of a directory are read at a time: a directory of a million topics is never sorted.
const listChunk = 1024

// possibleKey tells whether a queue of that key can exist in files at all.
func possibleKey(k cq.Key) bool {
	return k.QueueID >= 0 && k.Topic != "" && k.Topic != "." && k.Topic != ".." && len(k.Topic) <= maxNameBytes &&
		!strings.ContainsAny(k.Topic, "/\x00")
}

// checkKey refuses a queue that cannot be, or must not.
func (s *Store) checkKey(k cq.Key) error {
	switch {
	case !possibleKey(k):
		return &cq.QueueError{Key: k, Err: ErrName}
	case s.reserved != nil && s.reserved(k.Topic):
		return &cq.QueueError{Key: k, Err: ErrReserved}
	}
	return nil
}

// queueDir returns the directory of a queue under the given tree.
func queueDir(tree string, k cq.Key) string {
	return filepath.Join(tree, k.Topic, strconv.Itoa(int(k.QueueID)))
}

// parseQueueID is the inverse of the directory name. "007" is no queue: RocketMQ reads it as queue 7 and then looks for the
// files of queue 7 in directory "7".
func parseQueueID(name string) (int32, bool) {
	n, err := strconv.ParseInt(name, 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != name {
		return 0, false
	}
	return int32(n), true
}

// walkKeys calls yield for each queue directory below tree, until it returns false. Plain files are passed over, as a
// RocksDB database may live in the same directory; a directory is a topic whatever its name. foreign is called with the
// path of each directory inside a topic that is no queue.
func walkKeys(tree string, foreign func(path string), yield func(k cq.Key) bool) error {
	return walkDirs(tree, func(topic string) (bool, error) {
		more := true
		err := walkDirs(filepath.Join(tree, topic), func(name string) (bool, error) {
			if id, ok := parseQueueID(name); ok {
				more = yield(cq.Key{Topic: topic, QueueID: id})
			} else {
				foreign(filepath.Join(tree, topic, name))
			}
			return more, nil
		})
		return more, err
	})
}

// walkDirs calls fn with the name of each directory in dir, in no order, until it returns false. A missing dir has none.
func walkDirs(dir string, fn func(name string) (more bool, err error)) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list consume queues: %w", err)
	}
	defer func() { _ = d.Close() }() // only read
	for {
		entries, err := d.ReadDir(listChunk)
		for _, e := range entries {
			if !isDir(dir, e) {
				continue
			}
			if more, err := fn(e.Name()); err != nil || !more {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list consume queues: %w", err)
		}
	}
}

// isDir follows links: an operator may have moved a topic to another disk.
func isDir(dir string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(filepath.Join(dir, e.Name()))
	return err == nil && info.IsDir()
}

// sampleQueues is how many queues are asked for the length of their files.
const sampleQueues = 9

// DetectFileBytes reads the length of the queue files off the directory: the one that most of the first few queues
// have. A single file that was cut is so outvoted and reported later, by its queue. 0: there is no file yet.
func DetectFileBytes(tree string) (int64, error) {
	count := map[int64]int{}
	sampled := 0
	err := walkKeys(tree, func(string) {}, func(k cq.Key) bool {
		q, err := mappedfile.Open(queueDir(tree, k), mappedfile.Options{})
		if err != nil {
			return true // told when the queue is asked for
		}
		if n := q.FileSize(); n > 0 && n%unitBytes == 0 {
			count[n]++
			sampled++
		}
		_ = q.Close() // nothing was held
		return sampled < sampleQueues
	})
	if err != nil {
		return 0, err
	}
	var best int64
	for n, c := range count {
		if c > count[best] || c == count[best] && n > best {
			best = n
		}
	}
	return best, nil
}
