package migrate

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// The estimate of a plan is measured: what a migration does is done with a sample of the queues, here and now, into a place of its own, and taken times what there is. A sample has up to sampleQueues queues, any
// of them as likely as any other, and of each as many units as make up sampleUnits together: whole queues where they are short. What a queue costs by itself and what its units cost is measured apart.

const (
	sampleQueues = 1000
	sampleUnits  = 200_000
	sampleLog    = 32 << 20 // bytes that are scanned at each of sampleScans places
	sampleScans  = 3
	sampleReads  = 500 // records that are read one by one, as a verification does

	rocksBytesPerQueue = 64 // of the rows that say where a queue begins and ends
	joinPerUnit        = 100 * time.Nanosecond
)

// sampled is a queue of the sample.
type sampled struct {
	key   cq.Key
	from  int64
	units []cq.Unit
}

// sample chooses queues as they come by.
type sample struct {
	rng    *rand.Rand
	seen   int
	queues []sampledQueue
}

type sampledQueue struct {
	key    cq.Key
	bounds cq.Bounds
}

func newSample() *sample { return &sample{rng: rand.New(rand.NewPCG(1, 2))} }

func (s *sample) offer(k cq.Key, b cq.Bounds) {
	if b.Empty() {
		return
	}
	s.seen++
	q := sampledQueue{k, b}
	if len(s.queues) < sampleQueues {
		s.queues = append(s.queues, q)
	} else if i := s.rng.IntN(s.seen); i < sampleQueues {
		s.queues[i] = q
	}
}

// costs are what was measured.
type costs struct {
	readQueue, readUnit     time.Duration // from the source
	checkQueue, checkUnit   time.Duration // from the target
	importQueue, importUnit time.Duration
	compactUnit             time.Duration
	record                  time.Duration // to read and decode one
	open                    time.Duration
	logBytesPerSecond       float64
	bytesAlways, perUnit    float64 // on the disk, of RocksDB
}

// estimate fills in what p says of time and space. listed is how long it took to look at all queues of the source.
func (m *Migrator) estimate(ctx context.Context, p *Plan, source cq.Reader, s *sample, listed time.Duration) error {
	c, err := m.measure(ctx, p, source, s)
	if err != nil || c == nil {
		return err
	}
	queues, units := float64(p.Queues), float64(p.Units)
	if p.To == cq.KindRocks {
		p.DiskNeeded, p.DiskPeak = c.space(queues, units, p.Units > int64(m.opt.ChunkUnits))
	}
	times := func(d time.Duration, n float64) time.Duration { return time.Duration(float64(d) * n) }
	left := 1.0 // of the log
	if m.state.Phase == PhaseBackfilling && m.state.To == p.To && p.LogEnd > p.LogMin && !m.opt.Restart {
		left = 1 - float64(max(m.state.BackfilledTo-p.LogMin, 0))/float64(p.LogEnd-p.LogMin)
	}
	pieces := max(queues, units/float64(readAhead(p.Queues))) // in which a backfill reads the queues
	scan := time.Duration(float64(p.LogEnd-p.LogMin)/c.logBytesPerSecond*float64(time.Second)) + times(c.readQueue, pieces) + times(c.readUnit+joinPerUnit, units)
	write := times(c.importUnit, units)
	both := scan + write
	if chunks := units / float64(m.opt.ChunkUnits); chunks > 1 { // the one goes on beside the other
		both = max(scan, write) + min(scan, write)/time.Duration(chunks) + times(c.compactUnit, units)
	}
	p.EstimateBackfill = listed + c.open + times(both, left) + times(c.importQueue, queues)
	workers := float64(runtime.GOMAXPROCS(0))
	records := max(float64(m.opt.Samples), 2*queues)
	compare := times(c.readQueue+c.checkQueue, queues) + times(c.readUnit+c.checkUnit, units) + times(c.record, min(records, units))
	p.EstimateVerify = c.open + times(listed+compare, 1/min(workers, max(queues, 1))) // each queue is looked at by who compares it
	p.Estimate = p.EstimateBackfill + p.EstimateVerify
	return nil
}

// measure does what a migration does, with the sample. nil: there is nothing to measure, or no place.
func (m *Migrator) measure(ctx context.Context, p *Plan, source cq.Reader, s *sample) (_ *costs, err error) {
	if m.dir.OpenScratch == nil || len(s.queues) == 0 || p.LogEnd <= p.LogMin {
		return nil, nil
	}
	var c costs
	start := time.Now()
	t, dir, remove, err := m.dir.OpenScratch(p.To)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	c.open = time.Since(start)
	runs, err := c.read(ctx, source, s)
	if err == nil {
		if p.From == cq.KindFile {
			err = m.giveTimes(p, runs)
		}
		if err == nil {
			err = c.write(ctx, t, runs, p.Units > int64(m.opt.ChunkUnits), m.dir.Log.MinOffset())
		}
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return nil, err
	}
	if p.To == cq.KindRocks {
		if err := c.weigh(dir, runs); err != nil {
			return nil, err
		}
	}
	return &c, m.measureLog(&c, p, runs)
}

// read reads the units of the sample, as a pass over all queues does.
func (c *costs) read(ctx context.Context, source cq.Reader, s *sample) ([]sampled, error) {
	per := int64(max(sampleUnits/len(s.queues), 1))
	runs := make([]sampled, len(s.queues))
	for i := range s.queues {
		q := &s.queues[i]
		n := min(q.bounds.Max-q.bounds.Min, per)
		runs[i] = sampled{key: q.key, from: q.bounds.Min + (q.bounds.Max-q.bounds.Min-n)/2, units: make([]cq.Unit, n)}
	}
	side := newSideReader(source)
	var err error
	c.readQueue, c.readUnit, err = timeReads(ctx, runs, func(r *sampled, most int) (n int, err error) {
		if len(r.units) > compareBatch { // of a long one
			q, ok := source.Queue(r.key)
			if !ok {
				return 0, nil
			}
			n, err = readUnits(q, r.from, r.units[:most])
		} else if n, err = side.read(r.key, r.from, r.units[:most]); impossibleUnit(err) {
			n, err = 0, nil
		}
		if most == len(r.units) || n == 0 {
			r.units = r.units[:n]
		}
		return n, err
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(runs, func(r sampled) bool { return len(r.units) == 0 }), nil
}

// timeReads reads the units of the runs and returns what one call takes for each queue, and what each unit adds to that: of every other run one unit is read, of those between them all. What was not read
// then is read afterwards.
func timeReads(ctx context.Context, runs []sampled, read func(r *sampled, most int) (int, error)) (queue, unit time.Duration, err error) {
	var took [2]time.Duration
	var calls, units [2]int
	pass := func(which int, from, step int, all bool) error {
		start := time.Now()
		for i := from; i < len(runs); i += step {
			if err := ctx.Err(); err != nil {
				return err
			}
			r, most := &runs[i], 1
			if all {
				most = len(r.units)
			}
			n, err := read(r, min(most, len(r.units)))
			if err != nil {
				return err
			}
			calls[which]++
			units[which] += n
		}
		took[which] += time.Since(start)
		return nil
	}
	err = pass(0, 0, 2, false)
	if err == nil {
		err = pass(1, min(1, len(runs)-1), 2, true)
	}
	if err != nil {
		return 0, 0, err
	}
	queue = took[0] / time.Duration(max(calls[0], 1))
	if more := units[1] - calls[1]; more > 0 {
		unit = max(took[1]-queue*time.Duration(calls[1]), 0) / time.Duration(more)
	}
	if len(runs) > 1 {
		err = pass(0, 0, 2, true)
	}
	return queue, unit, err
}

// giveTimes gives units of files the store times that they may have: between those of the log's first record and its last one, by where they are.
func (m *Migrator) giveTimes(p *Plan, runs []sampled) error {
	log := m.dir.Log
	first, err := log.StoreTimestamp(p.LogMin, 0)
	if err != nil {
		return err
	}
	last := first
	for i := range runs {
		u := runs[i].units[len(runs[i].units)-1]
		if i == 0 || u.PhyOffset > p.LogMin {
			if t, err := log.StoreTimestamp(u.PhyOffset, u.Size); err == nil && t > last {
				last = t
			}
		}
		if i >= 16 {
			break
		}
	}
	for i := range runs {
		for j := range runs[i].units {
			u := &runs[i].units[j]
			u.StoreTimestampMs = first + int64(float64(last-first)*float64(u.PhyOffset-p.LogMin)/float64(p.LogEnd-p.LogMin))
		}
	}
	return nil
}

// write fills the target with the sample, as a backfill does, in two chunks where it would take several, and reads it again.
func (c *costs) write(ctx context.Context, t Target, runs []sampled, chunks bool, logMin int64) error {
	imported, total := make([]cq.Run, 0, len(runs)), 0
	ends := make([]cq.QueueEnd, 0, len(runs))
	for i := range runs {
		r := &runs[i]
		total += len(r.units)
		imported = append(imported, cq.Run{Key: r.key, From: r.from, Units: r.units})
		last := r.units[len(r.units)-1]
		ends = append(ends, cq.QueueEnd{Key: r.key, Min: r.from, MinPhyOffset: r.units[0].PhyOffset, Max: r.from + int64(len(r.units)), LastPhyOffset: last.PhyOffset})
	}
	start := time.Now()
	if chunks {
		later := make([]cq.Run, 0, len(runs))
		for i := range imported {
			r := &imported[i]
			half := len(r.Units) / 2
			later = append(later, cq.Run{Key: r.Key, From: r.From + int64(half), Units: r.Units[half:]})
			r.Units = r.Units[:half]
		}
		if err := t.Import(ctx, imported); err != nil {
			return err
		}
		imported = later
	}
	if err := t.Import(ctx, imported); err != nil {
		return err
	}
	took := time.Since(start)
	start = time.Now()
	if err := t.Publish(ctx, ends, max(logMin, 0)); err != nil {
		return err
	}
	if err := t.Flush(ctx); err != nil {
		return err
	}
	published := time.Since(start)
	if comp, ok := t.(Compactor); ok && chunks {
		start = time.Now()
		if err := comp.Compact(ctx, func(int64, int64) {}); err != nil {
			return err
		}
		c.compactUnit = time.Since(start) / time.Duration(total)
	}
	c.importUnit, c.importQueue = took/time.Duration(total), published/time.Duration(len(runs))
	if t.Kind() == cq.KindFile { // a queue's files are made with its first units
		c.importUnit, c.importQueue = 0, (took+published)/time.Duration(len(runs))
	}

	side, buf := newSideReader(t), make([]cq.Unit, compareBatch)
	var err error
	c.checkQueue, c.checkUnit, err = timeReads(ctx, runs, func(r *sampled, most int) (int, error) {
		for at := 0; at < most; {
			n, err := side.read(r.key, r.from+int64(at), buf[:min(len(buf), most-at)])
			if err == nil && n == 0 {
				err = errors.New("estimate: a queue of the sample was not written")
			}
			if err != nil {
				return at, err
			}
			at += n
		}
		return most, nil
	})
	return err
}

// weigh finds out what the sample takes on the disk.
func (c *costs) weigh(dir string, runs []sampled) error {
	always, bytes, err := occupied(dir)
	if err != nil {
		return err
	}
	queues, units := float64(len(runs)), 0.0
	for i := range runs {
		units += float64(len(runs[i].units))
	}
	c.bytesAlways, c.perUnit = float64(always), max(float64(bytes)-queues*rocksBytesPerQueue, 0)/units
	return nil
}

// filePages returns what the units of a queue take in files: whole pages, of which no file shares one with another.
func filePages(b cq.Bounds, fileBytes int64) (n int64) {
	const page = 4096
	for at, end := b.Min*fileBytesPerUnit, b.Max*fileBytesPerUnit; at < end; {
		file := at / fileBytes * fileBytes
		stop := min(end, file+fileBytes)
		n += (stop-file+page-1)/page*page - (at-file)/page*page
		at = stop
	}
	return n
}

// directoryBytes is what a directory like those of queues takes on the disk of the store.
func directoryBytes(root string) int64 {
	if i, err := os.Stat(root); err == nil {
		if st, ok := i.Sys().(*syscall.Stat_t); ok {
			return st.Blocks * 512
		}
	}
	return 0
}

// occupied returns what files and directories below dir take on the disk; that of tables apart from all else.
func occupied(dir string) (other, tables int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		n := i.Size()
		if st, ok := i.Sys().(*syscall.Stat_t); ok {
			n = st.Blocks * 512
		}
		if filepath.Ext(path) == ".sst" {
			tables += n
		} else {
			other += n
		}
		return nil
	})
	return other, tables, err
}

// measureLog scans parts of the log, from the beginnings of files, and reads records of the sample.
func (m *Migrator) measureLog(c *costs, p *Plan, runs []sampled) error {
	log := m.dir.Log
	var bytes int64
	start := time.Now()
	for i := range int64(sampleScans) {
		at := p.LogMin + (p.LogEnd-p.LogMin)*i/sampleScans
		if at > p.LogMin {
			if at = log.FileEnd(at); at >= p.LogEnd {
				continue
			}
		}
		s := log.Scanner(at, commitlog.ScanOptions{CheckCRC: true})
		end := at
		for s.Next() && end-at < sampleLog {
			end = s.Record().PhyOffset + int64(s.Record().TotalSize)
		}
		s.Close() // what is damaged is the backfill's to tell
		bytes += end - at
	}
	c.logBytesPerSecond = float64(max(bytes, 1)) / max(time.Since(start).Seconds(), 1e-6)
	var r message.Record
	n := 0
	start = time.Now()
	for i := range runs {
		for _, u := range [2]cq.Unit{runs[i].units[0], runs[i].units[len(runs[i].units)-1]} {
			release, err := log.Read(u.PhyOffset, u.Size, true, &r)
			if unreadableRecord(err) {
				continue
			}
			if err != nil {
				return err
			}
			release()
			n++
		}
		if n >= sampleReads {
			break
		}
	}
	c.record = time.Since(start) / time.Duration(max(n, 1))
	return nil
}
