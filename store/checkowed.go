package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// owedQueues is what the store itself has noted of queues that lack units: those that are to be built again, and those of a rebuild that has not ended.
type owedQueues struct {
	noted map[cq.Key]bool
	job   *rebuildJob // nil: none
}

// readOwed reads the notes.
func (c *checker) readOwed() error {
	var file brokenQueuesFile
	if err := readNote(c.layout.brokenQueuesPath(), maxBrokenBytes, &file); err != nil {
		return err
	}
	c.owed.noted = make(map[cq.Key]bool, len(file.Queues))
	for _, q := range file.Queues {
		c.owed.noted[cq.Key{Topic: q.Topic, QueueID: q.QueueID}] = true
	}
	var job rebuildJob
	if err := readNote(c.layout.rebuildJobPath(), maxRebuildJobBytes, &job); err != nil {
		return err
	}
	if job.Kind != "" || job.Topic != "" {
		c.owed.job = &job
	}
	return nil
}

// readNote reads a small file of JSON; one that is not there changes nothing.
func readNote(path string, most int64, v any) error {
	b, err := readFile(mmap.OS, path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// whole tells whether a queue that no side has was there, by what is noted: it has lost all its units.
func (l *owedQueues) whole(k cq.Key) bool {
	j := l.job
	return l.noted[k] || j != nil && j.owns(k) && (j.Topic != "" || j.Moved && (!k.IsLMQ() || j.Shape != nil && j.Shape.Light))
}
