package migrate

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sort"

	"github.com/tandemq/tandemmq/cq"
)

// CertifiedQueues is what a certificate says of its queues, in the order of names: 48 bytes for each and one string for each topic, without a pointer that the collector would have to follow for each. A nil
// one, like the zero value, has none. It is not for concurrent use while it is added to.
type CertifiedQueues struct {
	topics []certifiedTopic // sorted
	rows   [][]certifiedRow // chunks of certifiedChunk rows, the last one with fewer
	last   cq.Key
}

// certifiedTopic is a topic, and where its queues begin.
type certifiedTopic struct {
	name string
	from int
}

type certifiedRow struct {
	min, max, minPhy, maxPhy int64
	crc                      uint32
	queueID                  int32
	alone                    bool
}

const certifiedChunk = 1024

// Len counts the queues.
func (t *CertifiedQueues) Len() int {
	if t == nil || len(t.rows) == 0 {
		return 0
	}
	n := len(t.rows) - 1
	return n*certifiedChunk + len(t.rows[n])
}

// Add adds a queue whose name is behind those of all that were added before; another one is an error.
func (t *CertifiedQueues) Add(c Certified) error {
	if t.Len() > 0 && t.last.Compare(c.Key) >= 0 {
		return fmt.Errorf("queue %s stands behind %s: queues are certified in the order of their names", c.Key, t.last)
	}
	t.add(c)
	return nil
}

// add adds a queue that comes next.
func (t *CertifiedQueues) add(c Certified) {
	n := t.Len()
	if n == 0 || t.last.Topic != c.Key.Topic {
		t.topics = append(t.topics, certifiedTopic{c.Key.Topic, n})
	}
	t.last = cq.Key{Topic: t.topics[len(t.topics)-1].name, QueueID: c.Key.QueueID}
	if n%certifiedChunk == 0 {
		t.rows = append(t.rows, make([]certifiedRow, 0, certifiedChunk))
	}
	chunk := &t.rows[len(t.rows)-1]
	*chunk = append(*chunk, certifiedRow{c.Min, c.Max, c.MinPhyOffset, c.MaxPhyOffset, c.CRC, c.Key.QueueID, c.Alone})
}

func (t *CertifiedQueues) row(i int) *certifiedRow {
	return &t.rows[i/certifiedChunk][i%certifiedChunk]
}

func (r *certifiedRow) of(topic string) Certified {
	return Certified{cq.Key{Topic: topic, QueueID: r.queueID}, r.min, r.max, r.minPhy, r.maxPhy, r.crc, r.alone}
}

// Get returns what is said of a queue; false where nothing is.
func (t *CertifiedQueues) Get(k cq.Key) (Certified, bool) {
	if t == nil {
		return Certified{}, false
	}
	at, ok := slices.BinarySearchFunc(t.topics, k.Topic, func(t certifiedTopic, name string) int { return cmp.Compare(t.name, name) })
	if !ok {
		return Certified{}, false
	}
	from, to := t.topics[at].from, t.end(at)
	i := from + sort.Search(to-from, func(i int) bool { return t.row(from+i).queueID >= k.QueueID })
	if i == to || t.row(i).queueID != k.QueueID {
		return Certified{}, false
	}
	return t.row(i).of(t.topics[at].name), true
}

// end is where the queues of a topic end.
func (t *CertifiedQueues) end(topic int) int {
	if topic+1 < len(t.topics) {
		return t.topics[topic+1].from
	}
	return t.Len()
}

// All yields the queues in the order of names.
func (t *CertifiedQueues) All() iter.Seq[Certified] {
	return func(yield func(Certified) bool) {
		if t == nil {
			return
		}
		for at := range t.topics {
			for i := t.topics[at].from; i < t.end(at); i++ {
				if !yield(t.row(i).of(t.topics[at].name)) {
					return
				}
			}
		}
	}
}

// With returns what t says of its queues, and more of others and in place of t. Of a nil t nothing counts, and nothing is added.
func (t *CertifiedQueues) With(more *CertifiedQueues) *CertifiedQueues {
	if t == nil || more.Len() == 0 {
		return t
	}
	next, stop := iter.Pull(more.All())
	defer stop()
	all := &CertifiedQueues{}
	m, ok := next()
	for c := range t.All() {
		for ; ok && m.Key.Compare(c.Key) < 0; m, ok = next() {
			all.add(m)
		}
		if !ok || m.Key != c.Key {
			all.add(c)
		}
	}
	for ; ok; m, ok = next() {
		all.add(m)
	}
	return all
}

// Without returns what t says of all other queues.
func (t *CertifiedQueues) Without(k cq.Key) *CertifiedQueues {
	if _, there := t.Get(k); !there {
		return t
	}
	others := &CertifiedQueues{}
	for c := range t.All() {
		if c.Key != k {
			others.add(c)
		}
	}
	return others
}
