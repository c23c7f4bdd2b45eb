package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// GenerateOptions says what a sample store shall hold. Take them from DefaultGenerateOptions.
type GenerateOptions struct {
	Messages       int64 // number of log records; default 10000
	Topics         int   // default 2
	QueuesPerTopic int   // default 4
	BodyBytes      int   // length of every body; default 200
	Tags           int   // number of distinct tags, one on each message; 0: no tags; default 5
	Keys           int   // keys on each message; default 1

	// Delayed makes one message in twenty a delayed one, waiting on SCHEDULE_TOPIC_XXXX.
	Delayed bool
	// Transactions makes one message in twenty each a prepared, a committed and a rolled back one.
	Transactions bool
	// LMQ is the number of light queues; half the messages also go to one to three of them. 0: none.
	LMQ int

	// Seed decides everything that looks random. Equal options give equal logs and queues, byte for byte.
	Seed uint64
	// StartMs is the store time of the first message in ms since the epoch; each next one is a millisecond later.
	StartMs int64
	// CommitLogFileBytes is the size of a log file (mappedFileSizeCommitLog); default 1 GiB. Files are sparse.
	CommitLogFileBytes int64
	// QueueFileBytes is the size of a queue file (mappedFileSizeConsumeQueue), rounded up to whole units; default 6000000.
	QueueFileBytes int64

	// Progress is told how many messages are written, now and then and at the end; it must be quick. nil: nobody.
	Progress func(done int64)
	// Logger gets what the queue store reports. nil: discard.
	Logger *slog.Logger
}

// Limits of GenerateOptions.
const (
	minLogFileBytes = 4096
	maxBodyBytes    = 4 << 20 // maxMessageSize of 5.5.0
)

// DefaultGenerateOptions returns the options of a small sample.
func DefaultGenerateOptions() GenerateOptions {
	return GenerateOptions{
		Messages: 10_000, Topics: 2, QueuesPerTopic: 4, BodyBytes: 200, Tags: 5, Keys: 1,
		Seed: 1, StartMs: 1_700_000_000_000, CommitLogFileBytes: 1 << 30, QueueFileBytes: 6_000_000,
	}
}

// Validate returns every fault of o, joined.
func (o *GenerateOptions) Validate() error {
	var faults []error
	check := func(name string, v, low, high int64) {
		if v < low || v > high {
			faults = append(faults, fmt.Errorf("%s is %d, want %d to %d", name, v, low, high))
		}
	}
	check("messages", o.Messages, 1, 1<<40)
	check("topics", int64(o.Topics), 1, 1_000_000)
	check("queues per topic", int64(o.QueuesPerTopic), 1, 65536)
	check("body bytes", int64(o.BodyBytes), 0, maxBodyBytes)
	check("tags", int64(o.Tags), 0, 1_000_000)
	check("keys", int64(o.Keys), 0, 64)
	check("light queues", int64(o.LMQ), 0, 1_000_000)
	check("start time in ms", o.StartMs, 1, 1<<50)
	check("queue file bytes", o.QueueFileBytes, 20, 1<<30)
	// A record must fit between the start of a file and the filler at its end, with all its properties.
	check("commit log file bytes", o.CommitLogFileBytes, max(minLogFileBytes, int64(o.BodyBytes)+minLogFileBytes), 1<<30)
	return errors.Join(faults...)
}

// GenerateReport says what a sample store holds.
type GenerateReport struct {
	Messages     int64 `json:"messages"`     // records in the log
	Units        int64 `json:"units"`        // slots over all queues
	Queues       int   `json:"queues"`       // queues with at least one slot
	MaxPhyOffset int64 `json:"maxPhyOffset"` // end of the last record
	LogFiles     int64 `json:"logFiles"`
}

// unitBatch is how many units are handed to the queue store at once: enough to pay its locks and syscalls once for many,
// small enough to stay in the cache.
const unitBatch = 4096

// Generate makes a store at root as RocketMQ 5.5.0 in file mode leaves one that was shut down cleanly: log files, file
// queues, checkpoint, lock and the broker's topic table. root must be empty or not there; it is created.
//
// The file abort is the first thing made and the last thing removed, so that a store whose making was cut short (by an
// error, ctx or a kill) is never taken for a whole one. What was written stays for the caller to look at and remove.
// Everything is durable when it returns nil.
func Generate(ctx context.Context, root string, o GenerateOptions) (rep GenerateReport, err error) {
	if err := o.Validate(); err != nil {
		return rep, fmt.Errorf("generate store: %w", err)
	}
	l := NewLayout(root)
	if err := makeEmptyRoot(l); err != nil {
		return rep, err
	}
	lock, err := LockExclusive(l.Root)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := lock.mark(); err != nil {
		return rep, fmt.Errorf("generate store: %w", err)
	}
	if err := writeDurable(l.AbortPath(), []byte(strconv.Itoa(os.Getpid()))); err != nil {
		return rep, fmt.Errorf("generate store: %w", err)
	}
	g := &generator{o: o, sample: newSample(&o)}
	if err := g.run(ctx, l); err != nil {
		return rep, fmt.Errorf("generate store %s (it is incomplete, remove it): %w", l.Root, err)
	}
	if err := g.finish(l); err != nil {
		return rep, fmt.Errorf("generate store %s (it is incomplete, remove it): %w", l.Root, err)
	}
	return g.report(), nil
}

// makeEmptyRoot creates the root and makes sure that nothing is in it.
func makeEmptyRoot(l Layout) error {
	if err := os.MkdirAll(l.Root, 0o755); err != nil {
		return fmt.Errorf("generate store: %w", err)
	}
	entries, err := os.ReadDir(l.Root)
	if err != nil {
		return fmt.Errorf("generate store: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("generate store: %s is not empty (it holds %s)", l.Root, entries[0].Name())
	}
	return nil
}

// generator is one run of Generate.
type generator struct {
	o      GenerateOptions
	sample *sample
	batch  []cq.Entry

	messages, units int64
	end             int64 // phyOffset behind the last record
	lastUnitPhy     int64 // start of the last record with a unit
	lastStoreMs     int64
}

func (g *generator) run(ctx context.Context, l Layout) (err error) {
	if err := os.Mkdir(l.CommitLogDir(), 0o755); err != nil {
		return err
	}
	log := newLogWriter(l.CommitLogDir(), g.o.CommitLogFileBytes)
	defer func() {
		if cerr := log.close(); err == nil {
			err = cerr
		}
	}()
	queues, err := file.Open(l.ConsumeQueueDir(), file.Options{FileSizeBytes: (g.o.QueueFileBytes + 19) / 20 * 20, ExtDir: l.ExtDir(), Logger: g.o.Logger})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := queues.Close(); err == nil { // a write that failed makes Close fail the same way
			err = cerr
		}
	}()

	g.batch = make([]cq.Entry, 0, unitBatch+4)
	for ; g.messages < g.o.Messages; g.messages++ {
		if len(g.batch) >= unitBatch {
			if err := g.flushUnits(ctx, queues); err != nil {
				return err
			}
		}
		if err := g.one(log); err != nil {
			return err
		}
	}
	if err := g.flushUnits(ctx, queues); err != nil {
		return err
	}
	if err := log.finish(); err != nil {
		return err
	}
	return queues.Flush(ctx)
}

// one writes the next record and collects its units.
func (g *generator) one(log *logWriter) error {
	m, light := g.sample.next(g.messages)
	size, err := m.EncodedSize()
	if err != nil {
		return err
	}
	m.PhyOffset, err = log.place(int32(size))
	if err != nil {
		return err
	}
	if log.buf, err = m.AppendTo(log.buf); err != nil {
		return err
	}
	g.end, g.lastStoreMs = m.PhyOffset+int64(size), m.StoreTimestampMs
	r := message.Record{SysFlag: m.SysFlag}
	if !r.OwesUnit() {
		g.sample.prepared = m.PhyOffset
		return nil
	}
	u := cq.Unit{PhyOffset: m.PhyOffset, Size: int32(size), TagsCode: g.sample.tagsCode, StoreTimestampMs: m.StoreTimestampMs}
	g.lastUnitPhy = m.PhyOffset
	g.batch = append(g.batch, cq.Entry{Key: cq.Key{Topic: m.Topic, QueueID: m.QueueID}, QueueOffset: m.QueueOffset, Unit: u})
	for _, q := range light {
		g.batch = append(g.batch, cq.Entry{Key: cq.Key{Topic: q.name}, QueueOffset: q.next - 1, Unit: u})
	}
	return nil
}

func (g *generator) flushUnits(ctx context.Context, queues cq.Appender) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := queues.Append(ctx, g.batch); err != nil {
		return err
	}
	g.units += int64(len(g.batch))
	g.batch = g.batch[:0]
	if g.o.Progress != nil {
		g.o.Progress(g.messages)
	}
	return nil
}

// finish writes what a clean shutdown leaves, the removal of abort last.
func (g *generator) finish(l Layout) error {
	if err := os.Mkdir(filepath.Dir(l.TopicsPath()), 0o755); err != nil {
		return err
	}
	if err := writeDurable(l.TopicsPath(), encodeTopics(g.sample.brokerTopics(), g.o.StartMs)); err != nil {
		return err
	}
	c := Checkpoint{PhysicMsgTimestampMs: g.lastStoreMs, LogicsMsgTimestampMs: g.lastStoreMs, LogicsPhysicalOffset: g.lastUnitPhy}
	if err := WriteCheckpoint(l.CheckpointPath(), c); err != nil {
		return err
	}
	if err := os.Remove(l.AbortPath()); err != nil {
		return err
	}
	if err := mmap.SyncDir(l.Root); err != nil {
		return err
	}
	return mmap.SyncDir(filepath.Dir(l.Root))
}

func (g *generator) report() GenerateReport {
	return GenerateReport{
		Messages: g.messages, Units: g.units, Queues: g.sample.usedQueues(), MaxPhyOffset: g.end,
		LogFiles: (g.end + g.o.CommitLogFileBytes - 1) / g.o.CommitLogFileBytes,
	}
}

// writeDurable creates a file with that content and syncs it and its directory.
func writeDurable(path string, content []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil && !errors.Is(cerr, fs.ErrClosed) {
			err = cerr
		}
	}()
	if _, err = f.Write(content); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	return mmap.SyncDir(filepath.Dir(path))
}
