package compare

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// Layout: the same records, in the same order, appended to one file that all topics share, or to a file of their topic, or to a file of their queue, by plain
// appenders that have nothing else in common with a store: what the layout costs, and nothing but that.

// The layouts.
const (
	sharedLog       = "shared-log"
	sharedLogQueues = "shared-log+queues"  // with a unit of 20 bytes for each record in a file of its queue, which is made durable in the end
	sharedLogRocks  = "shared-log+rocksdb" // with the units in RocksDB, likewise
	filePerTopic    = "file-per-topic"
	filePerQueue    = "file-per-queue"
)

const (
	layoutQueues = 4    // of a topic
	layoutRecord = 1024 // bytes
	layoutGroup  = 64   // records that arrive together
	layoutUnit   = 20
)

// layoutFlushEvery is how often what was written is made durable where nobody waits for it; layoutSyncers is how many files are synced at once.
const (
	layoutFlushEvery = 500 * time.Millisecond
	layoutSyncers    = 8
)

// Blocks are reserved ahead: a file's share of layoutAhead, but not less than layoutLeastAhead, which is what files of units get.
const (
	layoutAhead      = 256 << 20
	layoutLeastAhead = 64 << 10
)

// layoutSize is how much is written: until the time is over, or so many bytes are.
type layoutSize struct {
	topics int
	sync   bool // a group is acknowledged when it is durable
	time   time.Duration
	bytes  int64
	ahead  int64 // layoutAhead, less in tests
}

// LayoutScenarios compare one shared log with a file for each topic and for each queue, over the number of topics.
func LayoutScenarios() (all []Scenario) {
	engines := []string{sharedLog, sharedLogQueues, filePerTopic, filePerQueue}
	if HasRocks {
		engines = slices.Insert(engines, 2, sharedLogRocks)
	}
	for _, c := range []struct {
		flush, words string
		sync         bool
	}{{"async", "made durable every 500 ms", false}, {"sync", "each group of 64 acknowledged when it is durable", true}} {
		for _, topics := range []int{1, 10, 100, 1000, 10_000} {
			all = append(all, Scenario{
				Name: fmt.Sprintf("layout-%s/topics-%d", c.flush, topics), Engines: engines,
				Title:    fmt.Sprintf("Records of 1 KiB over %d topics of %d queues, %s", topics, layoutQueues, c.words),
				Headline: "bytesPerSecond", X: float64(topics), XLabel: "topics", ManyFiles: topics >= 100,
				Full: topics != 1000, Once: topics == 10_000, NewPages: !c.sync,
				Bounds: map[string]string{LimitWriteBack: "bytesPerSecond"}, Limit: 2 * time.Minute, Disk: 8 << 30,
				Run: func(ctx context.Context, r *Run) error {
					return runLayout(ctx, r, layoutSize{
						topics: topics, sync: c.sync, time: size(r.Profile, 400*time.Millisecond, 2*time.Second), bytes: size[int64](r.Profile, 256<<20, 1<<30), ahead: layoutAhead,
					})
				},
			})
		}
	}
	return all
}

// appendFile is a file that is only appended to. What changes belongs to who writes, but for dirty.
type appendFile struct {
	path    string
	unit    bool     // it has units, for which nobody waits
	f       *os.File // nil: not open at present
	at      int64    // where the next bytes go
	ahead   int64    // up to where there are blocks
	pending []byte   // of the group that arrives
	dirty   bool     // to be synced; guarded by layout.mu
}

// layout is the appenders. All but what mu guards belongs to who writes.
type layout struct {
	size    layoutSize
	records []*appendFile // one, or by topic, or by queue
	units   []*appendFile // by queue; nil: none
	rocks   cq.Store      // of units; nil: none
	keys    []cq.Key      // its queues
	batch   []cq.Entry    // for it
	next    []int64       // number of the next record, by queue
	open    []*appendFile // the longest open one first
	most    int           // so many may be open
	step    int64         // by which blocks are reserved
	touched []*appendFile // by the group that arrives
	waited  []*appendFile // those of them that have records
	written int64         // bytes of records

	mu    sync.Mutex
	dirty []*appendFile
	syncs int64
}

// descriptors is how many files a layout may have open: the same for all.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 2 * layoutGroup
	}
	return int(max(2*layoutGroup, min(limit.Cur/2, 8192)))
}

// newLayout makes the files.
func newLayout(engine, dir string, size layoutSize) (_ *layout, err error) {
	l := &layout{size: size, next: make([]int64, size.topics*layoutQueues), most: descriptors()}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	count, units := 1, 0
	switch engine {
	case sharedLog:
	case sharedLogQueues:
		units = len(l.next)
	case sharedLogRocks:
		o := rocks.DefaultOptions()
		o.Create = true
		db, err := rocks.Open(filepath.Join(dir, "rocksdb"), o)
		if err != nil {
			return nil, err
		}
		l.rocks = db
		for queue := range l.next {
			l.keys = append(l.keys, cq.Key{Topic: fmt.Sprintf("topic-%05d", queue/layoutQueues), QueueID: int32(queue % layoutQueues)})
		}
	case filePerTopic:
		count = size.topics
	case filePerQueue:
		count = len(l.next)
	default:
		return nil, fmt.Errorf("no layout %q", engine)
	}
	l.step = max(layoutLeastAhead, size.ahead/int64(count))
	perFile := len(l.next) / count // queues
	for i := range count {
		if err := l.add(&l.records, filepath.Join(dir, "log", layoutName(i*perFile, perFile)), false); err != nil {
			return nil, err
		}
	}
	for i := range units {
		if err := l.add(&l.units, filepath.Join(dir, "queues", layoutName(i, 1)), true); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// layoutName is where a file lies that has so many queues, from that one on.
func layoutName(queue, queues int) string {
	topic := fmt.Sprintf("topic-%05d", queue/layoutQueues)
	switch queues {
	case 1:
		return filepath.Join(topic, fmt.Sprint(queue%layoutQueues))
	case layoutQueues:
		return filepath.Join(topic, "all")
	}
	return "all"
}

func (l *layout) add(to *[]*appendFile, path string, unit bool) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f := &appendFile{path: path, unit: unit}
	*to = append(*to, f)
	return l.reserve(f, 1)
}

// reserve opens a file, unless it is, and sees that so many bytes more have blocks.
func (l *layout) reserve(f *appendFile, n int64) (err error) {
	if f.f == nil {
		if len(l.open) == l.most {
			oldest := l.open[0]
			l.open = l.open[:copy(l.open, l.open[1:])]
			if err := oldest.f.Close(); err != nil {
				return err
			}
			oldest.f = nil
		}
		if f.f, err = os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
			return err
		}
		l.open = append(l.open, f)
	}
	step := l.step
	if f.unit {
		step = layoutLeastAhead
	}
	for f.at+n > f.ahead {
		if err := mmap.Preallocate(f.f, f.ahead, step); err != nil {
			return err
		}
		f.ahead += step
	}
	return nil
}

// The header of a record; what follows is the body.
//
//	offset  width  field
//	     0      4  CRC-32 of all that follows
//	     4      4  queue, counted over all topics
//	     8      8  number in the queue
const layoutHeader = 16

// record appends the next record of a queue to what is pending.
func (l *layout) record(pending []byte, queue int, body []byte) []byte {
	begin := len(pending)
	pending = binary.BigEndian.AppendUint32(pending, 0)
	pending = binary.BigEndian.AppendUint32(pending, uint32(queue))
	pending = binary.BigEndian.AppendUint64(pending, uint64(l.next[queue]))
	pending = append(pending, body...)
	binary.BigEndian.PutUint32(pending[begin:], crc32.ChecksumIEEE(pending[begin+4:]))
	return pending
}

func (l *layout) touch(f *appendFile) {
	if len(f.pending) == 0 {
		l.touched = append(l.touched, f)
	}
}

// group appends records of queues at random, each file's with one write, and returns when they are acknowledged.
func (l *layout) group(ctx context.Context, random *rand.Rand, body []byte) error {
	l.touched, l.waited, l.batch = l.touched[:0], l.waited[:0], l.batch[:0]
	for range layoutGroup {
		queue := random.IntN(len(l.next))
		f := l.records[queue*len(l.records)/len(l.next)]
		l.touch(f)
		phy := f.at + int64(len(f.pending))
		f.pending = l.record(f.pending, queue, body)
		if l.units != nil {
			u := l.units[queue]
			l.touch(u)
			u.pending = appendLayoutUnit(u.pending, phy, l.next[queue])
		}
		if l.rocks != nil {
			l.batch = append(l.batch, cq.Entry{Key: l.keys[queue], QueueOffset: l.next[queue], Unit: cq.Unit{PhyOffset: phy, Size: layoutRecord, TagsCode: l.next[queue]}})
		}
		l.next[queue]++
	}
	for _, f := range l.touched {
		if err := l.reserve(f, int64(len(f.pending))); err != nil {
			return err
		}
		if _, err := f.f.WriteAt(f.pending, f.at); err != nil {
			return err
		}
		f.at += int64(len(f.pending))
		f.pending = f.pending[:0]
		if !f.unit {
			l.waited = append(l.waited, f)
		}
	}
	l.written += layoutGroup * layoutRecord
	if l.rocks != nil {
		if err := l.rocks.Append(ctx, l.batch); err != nil {
			return err
		}
	}
	if l.size.sync {
		return l.syncAll(l.waited)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.waited {
		if !f.dirty {
			f.dirty = true
			l.dirty = append(l.dirty, f)
		}
	}
	return nil
}

// appendLayoutUnit appends a unit as consume queues have them: where the record is, its length, and what would be its tags code.
func appendLayoutUnit(b []byte, phy, number int64) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(phy))
	b = binary.BigEndian.AppendUint32(b, layoutRecord)
	return binary.BigEndian.AppendUint64(b, uint64(number))
}

// syncAll makes what was written to the files durable, several at once. Each is opened for it: who writes may close its own descriptor meanwhile.
func (l *layout) syncAll(files []*appendFile) error {
	if len(files) == 1 {
		return l.syncOne(files[0])
	}
	var wg sync.WaitGroup
	errs := make([]error, min(layoutSyncers, len(files)))
	for w := range errs {
		wg.Go(func() {
			for i := w; i < len(files); i += len(errs) {
				if err := l.syncOne(files[i]); err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (l *layout) syncOne(f *appendFile) error {
	l.mu.Lock()
	l.syncs++
	l.mu.Unlock()
	own, err := os.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(mmap.Datasync(own), own.Close())
}

// flush makes durable what was written before the call.
func (l *layout) flush() error {
	l.mu.Lock()
	files := l.dirty
	l.dirty = nil
	for _, f := range files {
		f.dirty = false
	}
	l.mu.Unlock()
	return l.syncAll(files)
}

// flushing flushes now and then until stop is closed, and tells what went wrong.
func (l *layout) flushing(stop chan struct{}) error {
	tick := time.NewTicker(layoutFlushEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
			if err := l.flush(); err != nil {
				return err
			}
		}
	}
}

func (l *layout) close() error {
	var errs []error
	if l.rocks != nil {
		errs = append(errs, l.rocks.Close())
	}
	for _, f := range l.open {
		errs = append(errs, f.f.Close())
		f.f = nil
	}
	l.open = nil
	return errors.Join(errs...)
}

// awaitUnits returns when the units can be read, and flushUnits when they are durable.
func (l *layout) awaitUnits(ctx context.Context) error {
	if l.rocks == nil {
		return nil
	}
	return l.rocks.AwaitReadable(ctx)
}

func (l *layout) flushUnits(ctx context.Context) error {
	if l.rocks == nil {
		return nil
	}
	return l.rocks.Flush(ctx)
}

// runLayout writes, and reads everything back.
func runLayout(ctx context.Context, r *Run, size layoutSize) (err error) {
	start := time.Now()
	l, err := newLayout(r.Engine, r.Dir, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	// What making the files has left is on the disk before the clock starts.
	if err := l.syncAll(append(l.records[:len(l.records):len(l.records)], l.units...)); err != nil {
		return err
	}
	l.syncs = 0
	r.Figures["createMillis"] = millis(time.Since(start))

	stop, flushed := make(chan struct{}), make(chan error, 1)
	go func() { flushed <- l.flushing(stop) }()
	random, body, groups := rand.New(rand.NewPCG(1, 2)), make([]byte, layoutRecord-layoutHeader), calibrate.NewLatency()
	for i := range body {
		body[i] = byte(random.Uint32())
	}
	start = time.Now()
	for last := start; last.Sub(start) < size.time && l.written < size.bytes && ctx.Err() == nil; {
		if err = l.group(ctx, random, body); err != nil {
			break
		}
		now := time.Now()
		groups.Record(now.Sub(last))
		last = now
	}
	close(stop)
	if err := errors.Join(err, ctx.Err(), <-flushed, l.flush(), l.awaitUnits(ctx)); err != nil {
		return err
	}
	took := time.Since(start)
	r.Figures["bytesPerSecond"] = float64(l.written) / took.Seconds()
	r.Figures["syncsPerSecond"] = float64(l.syncs) / took.Seconds()
	r.Figures["files"] = float64(len(l.records) + len(l.units))
	r.latency("group", groups)
	if err := errors.Join(l.syncAll(l.units), l.flushUnits(ctx), l.check()); err != nil {
		return err
	}
	r.checked("%d records of %d queues read back from %d files: checksums, numbers, units", l.written/layoutRecord, len(l.next), len(l.records)+len(l.units))
	return nil
}

// check reads everything and fails unless each queue has its records, whole, in order and to the last one, and its units lead to them.
func (l *layout) check() error {
	seen := make([]int64, len(l.next))
	at := make([][]int64, len(l.next)) // where the records are, by queue and number; only with units
	record := make([]byte, layoutRecord)
	for _, f := range l.records {
		if err := readAppended(f, record, func(phy int64) error {
			queue, number := int(binary.BigEndian.Uint32(record[4:])), int64(binary.BigEndian.Uint64(record[8:]))
			switch {
			case binary.BigEndian.Uint32(record) != crc32.ChecksumIEEE(record[4:]):
				return errors.New("wrong checksum")
			case queue >= len(seen) || number != seen[queue]:
				return fmt.Errorf("number %d of queue %d", number, queue)
			case l.units != nil || l.rocks != nil:
				at[queue] = append(at[queue], phy)
			}
			seen[queue]++
			return nil
		}); err != nil {
			return err
		}
	}
	for queue, n := range l.next {
		if seen[queue] != n {
			return fmt.Errorf("queue %d has %d records, want %d", queue, seen[queue], n)
		}
	}
	if l.rocks != nil {
		return l.checkRocks(at)
	}
	unit := make([]byte, layoutUnit)
	for queue, f := range l.units {
		number := int64(0)
		if err := readAppended(f, unit, func(int64) error {
			if number >= l.next[queue] {
				return fmt.Errorf("a unit for number %d", number)
			}
			if want := appendLayoutUnit(nil, at[queue][number], number); !bytes.Equal(want, unit) {
				return fmt.Errorf("unit %x, want %x", unit, want)
			}
			number++
			return nil
		}); err != nil {
			return err
		}
		if number != l.next[queue] {
			return fmt.Errorf("%s: %d units, want %d", f.path, number, l.next[queue])
		}
	}
	return nil
}

// checkRocks fails unless RocksDB has a unit for each record, which leads to it.
func (l *layout) checkRocks(at [][]int64) error {
	units := make([]cq.Unit, 1024)
	for queue, k := range l.keys {
		if l.next[queue] == 0 {
			continue
		}
		q, ok := l.rocks.Queue(k)
		if !ok {
			return fmt.Errorf("%s is not in RocksDB", k)
		}
		b, err := q.Bounds()
		if err == nil && b.Max != l.next[queue] {
			err = fmt.Errorf("%s has %d units in RocksDB, want %d", k, b.Max, l.next[queue])
		}
		if err != nil {
			return err
		}
		for number := int64(0); number < l.next[queue]; {
			n, err := q.Read(number, units)
			if err == nil && n == 0 {
				err = fmt.Errorf("%s: no unit %d in RocksDB", k, number)
			}
			if err != nil {
				return err
			}
			for _, u := range units[:n] {
				if u.PhyOffset != at[queue][number] || u.Size != layoutRecord || u.TagsCode != number {
					return fmt.Errorf("%s: unit %d in RocksDB is %+v, and its record at %d", k, number, u, at[queue][number])
				}
				number++
			}
		}
	}
	return nil
}

// readAppended reads what a file has, into b piece by piece.
func readAppended(f *appendFile, b []byte, each func(at int64) error) (err error) {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	buffered := bufio.NewReaderSize(in, 64<<10)
	for at := int64(0); at < f.at; at += int64(len(b)) {
		if _, err := io.ReadFull(buffered, b); err != nil {
			return fmt.Errorf("%s at %d: %w", f.path, at, err)
		}
		if err := each(at); err != nil {
			return fmt.Errorf("%s at %d: %w", f.path, at, err)
		}
	}
	return nil
}
