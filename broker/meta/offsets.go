package meta

import (
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/internal/configdb"
)

// NoOffset says that a group has none for a queue. A client may also commit it.
const NoOffset = -1

// offsetShards is how many locks the rows share.
const offsetShards = 64

// Offsets is the table of consumer offsets, kept in consumerOffset.json or a database: the next queue offset that a group wants of each queue. Whether topic and
// group are known does not matter to it.
type Offsets struct {
	saver   *saver
	shards  [offsetShards]offsetShard
	saving  sync.Mutex
	changed atomic.Bool // since the table was read or written

	mu struct {
		sync.Mutex
		version DataVersion
		extra   extra
	}
}

type offsetShard struct {
	mu struct {
		sync.RWMutex
		rows map[offsetRow]*offsetsOfRow
		odd  map[string]map[int32]int64 // rows of the file that have no topic and group
	}
}

type offsetRow struct{ group, topic string }

type offsetsOfRow struct {
	committed map[int32]int64
	pulled    map[int32]int64 // how far queues were read; not read back by 5.5.0
	reset     map[int32]int64 // waiting to be taken by the group's next pull; not in the file
}

type offsetsFile struct {
	Version DataVersion                `json:"dataVersion"`
	Topics  map[string][]string        `json:"groupTopicMap"`
	Table   map[string]map[int32]int64 `json:"offsetTable"`
	Pulled  map[string]map[int32]int64 `json:"pullOffsetTable"`
}

// OpenOffsets reads <dir>/consumerOffset.json, or, with d not nil, the database with what the file has that is newer; without either there are no offsets. Errors: those of
// OpenTopics.
func OpenOffsets(dir string, d *Databases, log *slog.Logger) (*Offsets, error) {
	o := &Offsets{}
	o.saver = saverOf(dir, configdb.Offsets, d, o.file)
	f, taken, err := load[offsetsFile](dir, configdb.Offsets, d, log)
	if err != nil {
		return nil, err
	}
	o.mu.version, o.mu.extra = f.known.Version, f.extra
	if _, err := os.Stat(filePath(dir, configdb.Offsets)); d == nil && err != nil {
		o.changed.Store(true) // there is no file, or its backup was taken
	}
	for i := range o.shards {
		o.shards[i].mu.rows = map[offsetRow]*offsetsOfRow{}
		o.shards[i].mu.odd = map[string]map[int32]int64{}
	}
	for key, queues := range f.known.Table {
		if r, ok := splitOffsetRow(key); ok {
			o.shard(r).row(r).committed = queues
		} else {
			o.shards[0].mu.odd[key] = queues
		}
	}
	for key, queues := range f.known.Pulled {
		if r, ok := splitOffsetRow(key); ok {
			o.shard(r).row(r).pulled = queues
		}
	}
	if taken {
		return o, o.saver.save()
	}
	return o, nil
}

func splitOffsetRow(key string) (r offsetRow, ok bool) {
	r.topic, r.group, ok = strings.Cut(key, "@")
	return r, ok && r.topic != "" && r.group != "" && !strings.Contains(r.group, "@")
}

func (r offsetRow) key() string { return r.topic + "@" + r.group }

func (o *Offsets) shard(r offsetRow) *offsetShard {
	h := uint32(2166136261)
	for i := 0; i < len(r.group); i++ {
		h = (h ^ uint32(r.group[i])) * 16777619
	}
	for i := 0; i < len(r.topic); i++ {
		h = (h ^ uint32(r.topic[i])) * 16777619
	}
	return &o.shards[h%offsetShards]
}

// row returns the offsets of a group on a topic, made if need be. The lock is held, or nobody else knows the table yet.
func (s *offsetShard) row(r offsetRow) *offsetsOfRow {
	if q, ok := s.mu.rows[r]; ok {
		return q
	}
	q := &offsetsOfRow{}
	s.mu.rows[r] = q
	return q
}

// Commit sets the next offset that the group wants of a queue, smaller or larger than before; -1 is taken as well. While a reset waits for
// that queue the offset is passed over, and Commit returns false.
func (o *Offsets) Commit(group, topic string, queueID int32, offset int64) bool {
	r := offsetRow{group, topic}
	s := o.shard(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.row(r)
	if _, waiting := q.reset[queueID]; waiting {
		return false
	}
	if q.committed == nil {
		q.committed = make(map[int32]int64, 1)
	}
	if old, ok := q.committed[queueID]; !ok || old != offset {
		q.committed[queueID] = offset
		o.noteChange()
	}
	return true
}

// noteChange has the next Save write.
func (o *Offsets) noteChange() {
	if !o.changed.Load() { // so that callers at once do not write to one word
		o.changed.Store(true)
	}
}

// Query returns the next offset that the group wants of a queue: a waiting reset goes before what was committed. NoOffset if there is neither.
func (o *Offsets) Query(group, topic string, queueID int32) int64 {
	r := offsetRow{group, topic}
	s := o.shard(r)
	s.mu.RLock()
	defer s.mu.RUnlock()
	q := s.mu.rows[r]
	if q == nil {
		return NoOffset
	}
	if at, ok := q.reset[queueID]; ok {
		return at
	}
	if at, ok := q.committed[queueID]; ok && at >= 0 {
		return at
	}
	return NoOffset
}

// Reset sets the offset, and has the group's next pull of the queue begin there. Offsets that the group commits until then are passed over.
//
// Source: ConsumerOffsetManager.assignResetOffset, 5.5.0.
func (o *Offsets) Reset(group, topic string, queueID int32, offset int64) {
	r := offsetRow{group, topic}
	s := o.shard(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.row(r)
	if q.committed == nil {
		q.committed = make(map[int32]int64, 1)
	}
	if q.reset == nil {
		q.reset = make(map[int32]int64, 1)
	}
	q.committed[queueID], q.reset[queueID] = offset, offset
	o.noteChange()
}

// TakeReset returns a waiting reset of the queue, which waits no longer; false if there is none.
func (o *Offsets) TakeReset(group, topic string, queueID int32) (int64, bool) {
	r := offsetRow{group, topic}
	s := o.shard(r)
	s.mu.RLock()
	q := s.mu.rows[r]
	waiting := q != nil && len(q.reset) > 0
	s.mu.RUnlock()
	if !waiting {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := q.reset[queueID]
	delete(q.reset, queueID)
	return at, ok
}

// Pulled notes how far the group has read a queue.
func (o *Offsets) Pulled(group, topic string, queueID int32, offset int64) {
	r := offsetRow{group, topic}
	s := o.shard(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.row(r)
	if q.pulled == nil {
		q.pulled = make(map[int32]int64, 1)
	}
	if old, ok := q.pulled[queueID]; !ok || old != offset {
		q.pulled[queueID] = offset
		o.noteChange()
	}
}

// QueryPulled returns what was noted last; NoOffset if nothing.
func (o *Offsets) QueryPulled(group, topic string, queueID int32) int64 {
	r := offsetRow{group, topic}
	s := o.shard(r)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if q := s.mu.rows[r]; q != nil {
		if at, ok := q.pulled[queueID]; ok {
			return at
		}
	}
	return NoOffset
}

// Of returns a copy of the offsets of a group on a topic by queue; empty if there are none.
func (o *Offsets) Of(group, topic string) map[int32]int64 {
	r := offsetRow{group, topic}
	s := o.shard(r)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if q := s.mu.rows[r]; q != nil {
		return maps.Clone(q.committed)
	}
	return nil
}

// each calls f with every row that has offsets, shard by shard, under its lock.
func (o *Offsets) each(f func(r offsetRow, q *offsetsOfRow)) {
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.RLock()
		for r, q := range s.mu.rows {
			if len(q.committed) > 0 || len(q.pulled) > 0 {
				f(r, q)
			}
		}
		s.mu.RUnlock()
	}
}

// TopicsOf returns the topics that the group has offsets for, sorted.
func (o *Offsets) TopicsOf(group string) []string {
	var topics []string
	o.each(func(r offsetRow, _ *offsetsOfRow) {
		if r.group == group {
			topics = append(topics, r.topic)
		}
	})
	slices.Sort(topics)
	return topics
}

// GroupsOf returns the groups that have offsets for the topic, sorted.
func (o *Offsets) GroupsOf(topic string) []string {
	var groups []string
	o.each(func(r offsetRow, _ *offsetsOfRow) {
		if r.topic == topic {
			groups = append(groups, r.group)
		}
	})
	slices.Sort(groups)
	return groups
}

// Min returns for each queue of the topic the smallest offset of all groups but those, for which there are offsets.
//
// Source: ConsumerOffsetManager.queryMinOffsetInAllGroup, 5.5.0.
func (o *Offsets) Min(topic string, but []string) map[int32]int64 {
	least := map[int32]int64{}
	o.each(func(r offsetRow, q *offsetsOfRow) {
		if r.topic != topic || slices.Contains(but, r.group) {
			return
		}
		for id, at := range q.committed {
			if old, ok := least[id]; at >= 0 && (!ok || at < old) {
				least[id] = at
			}
		}
	})
	return least
}

// Clone gives one group the offsets of another on a topic, queue by queue.
func (o *Offsets) Clone(from, to, topic string) {
	for id, at := range o.Of(from, topic) {
		o.Commit(to, topic, id, at)
	}
}

// RemoveTopic and RemoveGroup forget all offsets of one.
func (o *Offsets) RemoveTopic(topic string) {
	o.remove(func(r offsetRow) bool { return r.topic == topic })
}

// RemoveGroup forgets all offsets of a group.
func (o *Offsets) RemoveGroup(group string) {
	o.remove(func(r offsetRow) bool { return r.group == group })
}

func (o *Offsets) remove(which func(offsetRow) bool) {
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		maps.DeleteFunc(s.mu.rows, func(r offsetRow, _ *offsetsOfRow) bool { return which(r) })
		s.mu.Unlock()
	}
	o.noteChange()
}

// Save makes the offsets durable. Where none has changed, they are.
func (o *Offsets) Save() error {
	o.saving.Lock() // so that nobody returns before a write that another has begun
	defer o.saving.Unlock()
	if !o.changed.Swap(false) {
		return nil
	}
	o.mu.Lock()
	o.mu.version = o.mu.version.next(time.Now())
	o.mu.Unlock()
	err := o.saver.save()
	if err != nil {
		o.changed.Store(true)
	}
	return err
}

// Text is the content of the file as of now, without line breaks: what a replica asks for.
func (o *Offsets) Text() ([]byte, error) { return plain(o.snapshot()) }

// Export writes the table to its file, under the version it has, in whatever form it is kept.
func (o *Offsets) Export() error { return o.saver.export() }

// file is the table as of now.
func (o *Offsets) file() (table, extra) {
	o.mu.Lock()
	x := o.mu.extra
	o.mu.Unlock()
	return o.snapshot(), x
}

func (o *Offsets) snapshot() *offsetsFile {
	o.mu.Lock()
	f := &offsetsFile{Version: o.mu.version}
	o.mu.Unlock()
	f.Table, f.Pulled = map[string]map[int32]int64{}, map[string]map[int32]int64{}
	for i := range o.shards {
		maps.Copy(f.Table, o.shards[i].mu.odd) // not changed after the table was opened
	}
	o.each(func(r offsetRow, q *offsetsOfRow) {
		key := r.key()
		if len(q.committed) > 0 {
			f.Table[key] = maps.Clone(q.committed)
		}
		if len(q.pulled) > 0 {
			f.Pulled[key] = maps.Clone(q.pulled)
		}
	})
	f.Topics = f.groupTopics()
	return f
}
