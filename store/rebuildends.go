package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/laxjson"
)

// ForgottenQueue is a queue of which neither the log nor anything else tells where it ended: its next message gets the offset 0, whatever consumers have read before.
type ForgottenQueue struct {
	Topic   string `json:"topic"`
	QueueID int32  `json:"queueId"`
	Why     string `json:"why"` // how it is known that there was such a queue, and what should have told
}

// maxForgotten bounds how many of them are listed.
const maxForgotten = 1000

// endOf returns the offset that comes next in a queue, also where its units cannot be read and the max can.
func endOf(q cq.Queue) (int64, error) {
	b, err := q.Bounds()
	if m, ok := q.(interface{ Max() int64 }); ok && err != nil && m.Max() > 0 {
		return m.Max(), nil
	}
	return b.Max, err
}

// knownEnds is what is known of where queues ended.
type knownEnds struct {
	next   map[cq.Key]int64
	unread map[cq.Key]error // queues that are there, and of which that cannot be read
	failed []error          // sources that cannot be read at all
	whole  bool             // a source that knows all queues was read
}

func newKnownEnds() *knownEnds {
	return &knownEnds{next: make(map[cq.Key]int64), unread: make(map[cq.Key]error)}
}

func (e *knownEnds) add(k cq.Key, next int64) {
	if next > e.next[k] {
		e.next[k] = next
	}
}

// take reads the ends of those queues that are wanted.
func (e *knownEnds) take(queues cq.Reader, wanted func(k cq.Key) bool) error {
	for k, err := range queues.Queues() {
		if err != nil {
			return err
		}
		q, ok := queues.Queue(k)
		if !ok || !wanted(k) {
			continue
		}
		next, err := endOf(q)
		if err != nil {
			e.unread[k] = err
			continue
		}
		e.add(k, next)
	}
	return nil
}

// takeFrom opens a store of queues for reading and takes the ends. What cannot be read is noted.
func (e *knownEnds) takeFrom(open func() (cq.Store, error), wanted func(k cq.Key) bool) {
	queues, err := open()
	if err == nil {
		err = errors.Join(e.take(queues, wanted), queues.Close())
	}
	if err != nil {
		e.failed = append(e.failed, err)
		return
	}
	e.whole = true
}

// ends returns what is to be published: the ends of queues that target does not have and can have.
func (e *knownEnds) ends(target cq.Store, minPhy int64) (list []cq.QueueEnd) {
	for _, k := range slices.SortedFunc(maps.Keys(e.next), cq.Key.Compare) {
		if _, there := target.Queue(k); there || e.next[k] <= 0 || checkName(target, k) != nil {
			continue
		}
		list = append(list, cq.QueueEnd{Key: k, Min: e.next[k], Max: e.next[k], MinPhyOffset: minPhy})
	}
	return list
}

// forgotten returns the queues of which nothing tells the end: those that could not be read, and, where no source knew all of them, those that consumers have read from.
func (e *knownEnds) forgotten(l Layout, target cq.Store, wanted func(k cq.Key) bool) (list []ForgottenQueue) {
	unread := maps.Clone(e.unread)
	if !e.whole {
		for k, next := range consumedQueues(l) {
			if _, told := unread[k]; !told && wanted(k) {
				unread[k] = fmt.Errorf("consumers have read it up to %d, and nothing tells where it ended", next)
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(unread), cq.Key.Compare) {
		if _, there := target.Queue(k); there || len(list) == maxForgotten || checkName(target, k) != nil {
			continue
		}
		list = append(list, ForgottenQueue{Topic: k.Topic, QueueID: k.QueueID, Why: unread[k].Error()})
	}
	return list
}

// maxConsumerOffsetsBytes bounds what is read of consumers' offsets.
const maxConsumerOffsetsBytes = 1 << 30

// consumedQueues returns the queues that consumers of the broker have read from, each with the highest offset: config/consumerOffset.json, {"offsetTable":{"topic@group":{0:7}}}.
// It is asked for names of queues alone; a file that cannot be read names none.
func consumedQueues(l Layout) map[cq.Key]int64 {
	b, err := os.ReadFile(filepath.Join(l.Root, "config", "consumerOffset.json"))
	if err != nil || len(b) > maxConsumerOffsetsBytes {
		return nil
	}
	var file struct {
		OffsetTable map[string]map[string]int64 `json:"offsetTable"`
	}
	if laxjson.Unmarshal(b, &file) != nil {
		return nil
	}
	queues := make(map[cq.Key]int64)
	for at, offsets := range file.OffsetTable {
		topic, _, _ := strings.Cut(at, "@")
		for id, next := range offsets {
			n, err := strconv.ParseInt(id, 10, 32)
			if k := (cq.Key{Topic: topic, QueueID: int32(n)}); err == nil && next > queues[k] {
				queues[k] = next
			}
		}
	}
	return queues
}

var manifestName = regexp.MustCompile(`^MANIFEST-(\d+)$`)

// openSetAside opens a database that was set aside, for reading. Without CURRENT the newest manifest is taken: what it tells may be old, and no end in it is too high.
// Where the manifest is older than it was, all tables are taken.
func (l Layout) openSetAside(dir string, minPhy int64) (cq.Store, error) {
	if l.cutManifest(dir) != "" {
		return openTables(dir, minPhy)
	}
	current := filepath.Join(dir, currentFile)
	if _, err := os.Stat(current); missing(err) {
		newest, number := "", int64(-1)
		if err := readDir(dir, func(e fs.DirEntry) error {
			if m := manifestName.FindStringSubmatch(e.Name()); m != nil && e.Type().IsRegular() {
				if n, err := strconv.ParseInt(m[1], 10, 64); err == nil && n > number {
					newest, number = e.Name(), n
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
		if newest == "" {
			return nil, fmt.Errorf("read what was set aside in %s: neither %s nor a manifest is there", dir, currentFile)
		}
		if err := os.WriteFile(current, []byte(newest+"\n"), 0o644); err != nil {
			return nil, err
		}
		defer func() { _ = os.Remove(current) }() // it is open; left there, it would say the same next time
	}
	return openAt(dir, cq.KindRocks, minPhy)
}

// publishEnds gives queues of which the log has nothing any more their ends back, so that they go on at their max: from the old files, the other side and what is noted.
func (r *rebuilding) publishEnds(ctx context.Context, s *Store) error {
	target, minPhy := s.views.queues, max(s.Log().MinOffset(), 0)
	kind := target.Kind()
	known := r.oldEnds(kind, minPhy)
	other := otherKind(kind)
	wanted := func(k cq.Key) bool { return r.job.owns(k) && (kind != cq.KindFile || !k.IsLMQ()) }
	if has, err := r.hasSide(other); err != nil {
		known.failed = append(known.failed, err)
	} else if has {
		known.takeFrom(func() (cq.Store, error) { return openQuietly(r.layout, other, minPhy) }, wanted)
	}
	if note := s.views.readNote(s.Log(), s.Positions().Wrote); note != nil {
		known.whole = true
		for k, state := range note.next {
			if !state.unitless && wanted(k) {
				known.add(k, state.next)
			}
		}
	}
	if list := known.ends(target, minPhy); len(list) > 0 {
		if err := target.(cq.Importer).Publish(ctx, list, s.views.follow.from.Load()); err != nil {
			return err
		}
	}
	if minPhy > 0 || len(known.unread) > 0 {
		for _, err := range known.failed {
			r.rec.note("where queues ended could not be read from everything that tells it: %v", err)
		}
		r.rep.Forgotten = append(r.rep.Forgotten, known.forgotten(r.layout, target, r.job.owns)...)
	}
	return nil
}

// hasSide tells whether there are queues of a kind.
func (r *rebuilding) hasSide(kind cq.Kind) (bool, error) {
	if kind == cq.KindFile {
		return r.layout.HasFileQueues()
	}
	_, _, found, err := r.layout.FindRocks()
	return found, err
}

// oldEnds reads them off what was moved aside or dropped.
func (r *rebuilding) oldEnds(kind cq.Kind, minPhy int64) *knownEnds {
	known := newKnownEnds()
	if kind == cq.KindRocks {
		known.whole = r.job.Topic != "" // it was opened to drop them
		for _, e := range r.job.Ends {
			if k := (cq.Key{Topic: e.Topic, QueueID: e.QueueID}); e.Next > 0 {
				known.add(k, e.Next)
			} else {
				known.unread[k] = errors.New("its old rows did not tell its max")
			}
		}
	}
	for _, name := range r.job.Aside {
		aside := filepath.Join(r.layout.brokenDir(), filepath.Base(name))
		for _, old := range []struct {
			dir  string
			kind cq.Kind
		}{{filepath.Join(aside, "consumequeue"), cq.KindFile}, {filepath.Join(aside, "rocksdb"), cq.KindRocks}, {aside, cq.KindRocks}} {
			if _, err := os.Stat(old.dir); missing(err) || old.dir == aside && !strings.HasPrefix(filepath.Base(name), "rocksdb-") {
				continue
			}
			known.takeFrom(func() (cq.Store, error) {
				if old.kind == cq.KindRocks {
					return r.layout.openSetAside(old.dir, minPhy)
				}
				return openAt(old.dir, cq.KindFile, minPhy)
			}, func(k cq.Key) bool { return r.job.owns(k) && (old.kind == kind || kind != cq.KindFile || !k.IsLMQ()) })
		}
	}
	return known
}
