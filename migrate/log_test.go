package migrate

import (
	"fmt"
	"iter"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// testLog writes a commit log of small files, and the units that a store would dispatch from it.
type testLog struct {
	t        *testing.T
	dir      string
	fileSize int64
	phy      int64
	buf      []byte // of the current file
	units    map[cq.Key][]cq.Unit
	first    map[cq.Key]int64
}

func newTestLog(t *testing.T) *testLog {
	return &testLog{t: t, dir: filepath.Join(t.TempDir(), "commitlog"), fileSize: 4096, units: map[cq.Key][]cq.Unit{}, first: map[cq.Key]int64{}}
}

type msg struct {
	topic  string
	queue  int32
	offset int64 // queue offset; -1: the next slot of the queue
	tags   string
	props  []byte
	flags  int32
	noUnit bool // the record gets no unit
}

var testHost = message.HostOf(netip.MustParseAddrPort("127.0.0.1:10911"))

// put appends a record and, unless asked not to, its unit. It returns the record's physical offset.
func (l *testLog) put(m msg) int64 {
	k := cq.Key{Topic: m.topic, QueueID: m.queue}
	if m.offset < 0 {
		m.offset = l.first[k] + int64(len(l.units[k]))
	}
	props := m.props
	if m.tags != "" {
		props = message.AppendProperty(props, message.PropertyTags, m.tags)
	}
	e := message.Message{
		Topic: m.topic, QueueID: m.queue, QueueOffset: m.offset, SysFlag: m.flags, BornTimestampMs: 1, StoreTimestampMs: 1_000_000 + l.phy,
		BornHost: testHost, StoreHost: testHost, Body: fmt.Appendf(nil, "body %d", l.phy), Properties: props,
	}
	n, err := e.EncodedSize()
	require.NoError(l.t, err)
	if room := l.fileSize - int64(len(l.buf)); int64(n)+8 > room {
		l.buf = message.AppendBlank(l.buf, int32(room))
		l.roll()
	}
	e.PhyOffset = l.phy
	l.buf, err = e.AppendTo(l.buf)
	require.NoError(l.t, err)
	l.phy += int64(n)
	if !m.noUnit {
		l.units[k] = append(l.units[k], cq.Unit{PhyOffset: e.PhyOffset, Size: int32(n), TagsCode: message.TagsHash([]byte(m.tags)), StoreTimestampMs: cq.NoTimestamp})
	}
	return e.PhyOffset
}

func (l *testLog) roll() {
	from := l.phy / l.fileSize * l.fileSize
	require.NoError(l.t, os.MkdirAll(l.dir, 0o755))
	require.NoError(l.t, os.WriteFile(filepath.Join(l.dir, fmt.Sprintf("%020d", from)), append(l.buf, make([]byte, l.fileSize-int64(len(l.buf)))...), 0o600))
	l.buf, l.phy = l.buf[:0], from+l.fileSize
}

// open writes what is left and opens the log.
func (l *testLog) open() *commitlog.Log {
	phy := l.phy
	l.roll()
	l.phy = phy
	log, err := commitlog.Open(l.dir, commitlog.Options{})
	require.NoError(l.t, err)
	l.t.Cleanup(func() { require.NoError(l.t, log.Close()) })
	return log
}

// source is the units as a reader. What the real stores add to this is theirs to test.
type source struct {
	units map[cq.Key][]cq.Unit
	first map[cq.Key]int64
}

func (l *testLog) source() *source { return &source{l.units, l.first} }

func (s *source) Kind() cq.Kind       { return cq.KindFile }
func (s *source) DispatchFrom() int64 { return -1 }

// HasExtFile is of files whose first bytes are there.
func (s *source) HasExtFile(_ cq.Key, address int64) bool { return address == math.MinInt64 }

func (s *source) Queues() iter.Seq2[cq.Key, error] {
	return func(yield func(cq.Key, error) bool) {
		for k := range s.units {
			if !yield(k, nil) {
				return
			}
		}
	}
}

func (s *source) Queue(k cq.Key) (cq.Queue, bool) {
	u, ok := s.units[k]
	return &sourceQueue{k, u, s.first[k]}, ok
}

type sourceQueue struct {
	key   cq.Key
	units []cq.Unit
	first int64
}

func (q *sourceQueue) Key() cq.Key             { return q.key }
func (q *sourceQueue) Where(slot int64) string { return fmt.Sprintf("%s slot %d", q.key, slot) }

func (q *sourceQueue) Bounds() (cq.Bounds, error) {
	b := cq.Bounds{Min: q.first, Max: q.first + int64(len(q.units)), MinPhyOffset: -1, MaxPhyOffset: -1, LastPhyOffset: -1}
	if len(q.units) > 0 {
		last := q.units[len(q.units)-1]
		b.MinPhyOffset, b.LastPhyOffset, b.MaxPhyOffset = q.units[0].PhyOffset, last.PhyOffset, last.End()
	}
	return b, nil
}

// Read stops at a unit of size 0: a hole.
func (q *sourceQueue) Read(from int64, dst []cq.Unit) (int, error) {
	i := from - q.first
	if i < 0 || i >= int64(len(q.units)) {
		return 0, &cq.RangeError{Key: q.key, Want: from, Min: q.first, Max: q.first + int64(len(q.units))}
	}
	n := 0
	for ; n < len(dst) && int(i)+n < len(q.units) && q.units[int(i)+n].Size > 0; n++ {
		dst[n] = q.units[int(i)+n]
	}
	return n, nil
}

// row is one emitted unit.
type row struct {
	key  cq.Key
	slot int64
	unit cq.Unit
}

// joined runs a join and returns what it emitted.
func joined(t *testing.T, log *commitlog.Log, s cq.Reader, from int64, o joinOptions) (*join, []row) {
	j, err := newJoin(t.Context(), log, s, o)
	require.NoError(t, err)
	if from >= 0 {
		require.NoError(t, j.seek(from))
	}
	var rows []row
	j.emit = func(c *cursor, slot int64, u cq.Unit) error {
		rows = append(rows, row{c.key, slot, u})
		return nil
	}
	_, err = j.run(from)
	require.NoError(t, err)
	return j, rows
}

func slots(rows []row, k cq.Key) []int64 {
	var out []int64
	for _, r := range rows {
		if r.key == k {
			out = append(out, r.slot)
		}
	}
	return out
}

func codes(fs *Findings) []Code { return slices.Clone(fs.Codes()) }
