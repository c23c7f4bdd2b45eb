package migrate

import (
	"context"
	"errors"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// SpaceEstimate finds out what the queues of a store that is open will take on the disk on another side, as a plan does of a stopped one. Not for concurrent use.
type SpaceEstimate struct {
	to        cq.Kind
	fileBytes int64
	root      string

	queues *sample
	topics map[string]bool
	count  int64 // of queues
	units  int64
	pages  int64 // bytes of files
}

// NewSpaceEstimate begins one for a side of that kind of the store at root. fileBytes is the length of a queue file.
func NewSpaceEstimate(to cq.Kind, fileBytes int64, root string) *SpaceEstimate {
	return &SpaceEstimate{to: to, fileBytes: max(fileBytes, fileBytesPerUnit), root: root, queues: newSample(), topics: make(map[string]bool)}
}

// Add counts a queue of the store.
func (e *SpaceEstimate) Add(k cq.Key, b cq.Bounds) {
	e.count++
	e.units += max(b.Max-b.Min, 0)
	if e.to == cq.KindFile {
		e.topics[k.Topic] = true
		e.pages += filePages(b, e.fileBytes)
		return
	}
	e.queues.offer(k, b)
}

// Bytes returns what all queues take in the end, and at most meanwhile. read reads units of a queue that was added, and may answer that there are none. scratch opens an empty side in an empty directory of
// its own, as Directory.OpenScratch does; nil: nothing is tried out, and what the figures say that were measured elsewhere is returned.
func (e *SpaceEstimate) Bytes(ctx context.Context, read func(k cq.Key, from int64, dst []cq.Unit) (int, error), scratch func(cq.Kind) (Target, string, func() error, error)) (all, peak int64, err error) {
	if e.to == cq.KindFile {
		all = e.pages + (e.count+int64(len(e.topics)))*directoryBytes(e.root)
		return all, all, nil
	}
	if scratch == nil || len(e.queues.queues) == 0 {
		all = diskNeeded(e.to, e.units, e.count)
		return all, all, nil
	}
	runs, err := e.read(ctx, read)
	if err != nil || len(runs) == 0 {
		all = diskNeeded(e.to, e.units, e.count)
		return all, all, err
	}
	t, dir, remove, err := scratch(e.to)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var c costs
	if err := errors.Join(c.write(ctx, t, runs, false, 0), t.Close()); err != nil {
		return 0, 0, err
	}
	if err := c.weigh(dir, runs); err != nil {
		return 0, 0, err
	}
	all, peak = c.space(float64(e.count), float64(e.units), true)
	return all, peak, nil
}

// space returns what RocksDB takes of so many queues and units, in the end and at most meanwhile.
func (c *costs) space(queues, units float64, merged bool) (all, peak int64) {
	all = int64(c.bytesAlways + rocksBytesPerQueue*queues + c.perUnit*units)
	peak = all
	if merged {
		peak *= 2 // while sorted runs are merged, both are there
	}
	return all, peak + rocksBaseBytes // for what RocksDB writes beside
}

// read reads the units of the sample. What has gone meanwhile is left out.
func (e *SpaceEstimate) read(ctx context.Context, read func(k cq.Key, from int64, dst []cq.Unit) (int, error)) ([]sampled, error) {
	per := int64(max(sampleUnits/len(e.queues.queues), 1))
	now := time.Now().UnixMilli()
	var runs []sampled
	for _, q := range e.queues.queues {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(q.bounds.Max-q.bounds.Min, per)
		r := sampled{key: q.key, from: q.bounds.Min + (q.bounds.Max-q.bounds.Min-n)/2, units: make([]cq.Unit, n)}
		got, err := read(q.key, r.from, r.units)
		if err != nil {
			return nil, err
		}
		if r.units = r.units[:got]; got == 0 {
			continue
		}
		for i := range r.units {
			if u := &r.units[i]; u.StoreTimestampMs == cq.NoTimestamp { // of files: a millisecond for each record of the log is as good as any
				u.StoreTimestampMs = now + u.PhyOffset/int64(max(u.Size, 1))
			}
		}
		runs = append(runs, r)
	}
	return runs, nil
}
