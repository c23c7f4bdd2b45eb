package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
)

// state looks at the small files beside log and queues.
func (c *checker) state() error {
	var err error
	if c.rep.Unclean, err = c.layout.HasAbort(); err != nil {
		return err
	}
	if c.rep.Unclean {
		c.found.add(placeFinding(CheckNotice, CheckAbortMark, checkSideState, c.layout.AbortPath(),
			"the store was not closed cleanly and recovery has not run: the tail of the log and of the queues is as the crash left it"))
	}
	if err := c.readCheckpoint(); err != nil {
		return err
	}
	if err := c.readOwed(); err != nil {
		return err
	}
	names, known, err := c.layout.Topics()
	if err != nil {
		c.found.add(placeFinding(CheckWarning, CheckTopicsUnreadable, checkSideState, c.layout.TopicsPath(), "%v", err))
	}
	if known {
		c.topics = names
	}
	batch, err := c.layout.BatchTopics()
	if err != nil {
		return err
	}
	c.batch = make(map[string]bool, len(batch))
	for _, topic := range batch {
		c.batch[topic] = true
		c.notChecked("batch queues and records of topic " + topic)
	}
	return nil
}

func (c *checker) readCheckpoint() error {
	path := c.layout.CheckpointPath()
	var err error
	c.checkpoint, err = ReadCheckpoint(path)
	var bad *CheckpointError
	switch {
	case err == nil:
	case missing(err):
		c.found.add(placeFinding(CheckNotice, CheckCheckpoint, checkSideState, path, "there is no checkpoint: a recovery reads the whole log"))
	case errors.As(err, &bad):
		c.found.add(placeFinding(CheckWarning, CheckCheckpoint, checkSideState, path,
			"the checkpoint is %s: %s; a recovery takes longer and loses nothing", bad.Fault, bad.Detail))
	default:
		return err
	}
	return nil
}

// checkpointAgainstLog reports a checkpoint that speaks of records which the log does not hold: either it belongs to another
// state of the store, or the log has lost its end.
func (c *checker) checkpointAgainstLog() {
	cp, path := &c.checkpoint, c.layout.CheckpointPath()
	ahead := func(field string, got int64, what string, want int64) {
		f := placeFinding(CheckWarning, CheckCheckpointAhead, checkSideState, path, "%s is %d, %s %d: the log has lost its end, or the checkpoint is of another day", field, got, what, want)
		f.Got, f.Want = fmt.Sprintf("%s %d", field, got), fmt.Sprintf("at most %d", want)
		c.found.add(f)
	}
	if cp.LogicsPhysicalOffset > c.end {
		ahead("logicsPhysicalOffset", cp.LogicsPhysicalOffset, "the log ends at", c.end)
	}
	if cp.ConfirmPhyOffset > c.end {
		ahead("confirmPhyOffset", cp.ConfirmPhyOffset, "the log ends at", c.end)
	}
	if c.lastStoreMs >= 0 && cp.PhysicMsgTimestampMs > c.lastStoreMs {
		ahead("physicMsgTimestamp", cp.PhysicMsgTimestampMs, "the last record is of", c.lastStoreMs)
	}
}

// topicsAgainstQueues reports topics that have queues and that the broker does not know: it removes their queues after a while.
func (c *checker) topicsAgainstQueues() {
	if c.topics == nil {
		return
	}
	last := ""
	for _, q := range c.queues {
		if topic := q.key.Topic; topic != last {
			if last = topic; c.topics[topic] || neverListed(topic) {
				continue
			}
			f := placeFinding(CheckWarning, CheckTopicNotInTable, checkSideState, c.layout.TopicsPath(),
				"topic %s has queues, and the topic table does not list it: a broker removes them", topic)
			f.Topic = topic
			c.found.add(f)
		}
	}
}

// neverListed tells whether RocketMQ spares the topic when it removes those that its table does not list.
//
// Source: TopicValidator.isSystemTopic, ConsumeQueueStore.cleanUnusedTopic, 5.5.0.
func neverListed(topic string) bool {
	return strings.HasPrefix(topic, message.SystemPrefix) || strings.HasPrefix(topic, message.LMQPrefix) ||
		topic == message.TopicSchedule || topic == message.TopicTransHalf || topic == message.TopicTransOpHalf
}

// logRun looks at names and lengths of the log's files, and opens the log. Files that are missing between others are told and passed over. c.log stays nil when it cannot be opened as one run for another
// reason: then nothing but the run has been checked, which the report says.
func (c *checker) logRun() error {
	broken, err := c.logFiles()
	if err != nil {
		return err
	}
	log, err := commitlog.Open(c.layout.CommitLogDir(), commitlog.Options{PassMissing: true, Logger: c.o.Logger})
	var fe *mappedfile.FileError
	switch {
	case err == nil:
		c.log = log
	case errors.As(err, &fe):
		if !broken {
			c.found.add(placeFinding(CheckError, CheckLogRun, checkSideLog, fe.Path, "got %s, want %s", fe.Got, fe.Want))
		}
		c.rep.LogMin, c.rep.LogEnd, c.rep.LogEndKind = -1, -1, commitlog.EndNone.String()
		c.notChecked("records and queues: the files of the log are no run")
		return nil
	default:
		return err
	}
	c.rep.LogMin, c.lastStoreMs = log.MinOffset(), -1
	c.end = max(log.MinOffset(), 0) + log.Size()
	return nil
}

type logFile struct {
	from, size int64
	path       string
}

// logFiles reports everything that keeps the log's files from being a run, not only the first.
func (c *checker) logFiles() (broken bool, err error) {
	dir := c.layout.CommitLogDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("check the files of the log: %w", err)
	}
	var files []logFile
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		st, err := os.Stat(path) // follows links: a file may live on another disk
		if err != nil {
			return false, fmt.Errorf("check the files of the log: %w", err)
		}
		from, ok := mappedfile.ParseName(e.Name())
		if !ok || !st.Mode().IsRegular() {
			c.found.add(placeFinding(CheckNotice, CheckLogForeign, checkSideLog, path, "no log file by its name; it is passed over"))
			continue
		}
		files = append(files, logFile{from, st.Size(), path})
	}
	slices.SortFunc(files, func(a, b logFile) int { return int(min(max(a.from-b.from, -1), 1)) })
	if n := len(files); n > 0 && files[n-1].size == 0 {
		c.found.add(placeFinding(CheckWarning, CheckLogRun, checkSideLog, files[n-1].path, "the last log file is empty: the store died while it was made; the next start drops it"))
		files = files[:n-1]
	}
	c.rep.LogFiles = int64(len(files))
	size := commonSize(files)
	report := func(f *logFile, phy, end int64, got, want string) {
		broken = true
		x := placeFinding(CheckError, CheckLogRun, checkSideLog, f.path, "got %s, want %s", got, want)
		x.PhyOffset, x.EndPhyOffset, x.Got, x.Want = phy, end, got, want
		c.found.add(x)
	}
	for i := range files {
		f := &files[i]
		if f.size != size {
			report(f, f.from, -1, fmt.Sprintf("%d bytes", f.size), fmt.Sprintf("%d bytes, as most log files have", size))
		}
		if f.from%size != 0 {
			report(f, f.from, -1, fmt.Sprintf("a file that begins at %d", f.from), fmt.Sprintf("a multiple of %d", size))
		} else if i > 0 && f.from != files[i-1].from+size {
			hole := files[i-1].from + size
			report(f, hole, f.from, fmt.Sprintf("no file for physical offsets %d to %d", hole, f.from), "a run of log files without a gap")
		}
	}
	return broken, nil
}

// commonSize returns the length that most files have, of several the largest.
func commonSize(files []logFile) (size int64) {
	count := make(map[int64]int)
	for _, f := range files {
		count[f.size]++
	}
	for s, n := range count {
		if n > count[size] || n == count[size] && s > size {
			size = s
		}
	}
	return max(size, 1)
}

// claimOf returns the slot that a record claims in a queue, its own or one that it is dispatched to besides; false when it
// has nothing to do with that queue.
func claimOf(r *message.Record, k cq.Key) (slot int64, ok bool) {
	if !r.OwesUnit() {
		return 0, false
	}
	if r.QueueID == k.QueueID && string(r.Topic) == k.Topic {
		return r.QueueOffset, true
	}
	r.MultiDispatch(func(queue []byte, id int32, offset int64, good bool) bool {
		if good && id == k.QueueID && string(queue) == k.Topic {
			slot, ok = offset, true
		}
		return !ok
	})
	return slot, ok
}
