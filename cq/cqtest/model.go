package cqtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tandemq/tandemmq/cq"
)

// ModelHarness is how FuzzModel reaches one implementation.
type ModelHarness struct {
	Harness
	// Switch changes how the store works without changing what it holds, such as which side is preferred. Nil: there is nothing to change.
	Switch func(s cq.Store, choice byte) error
	// Check looks for what the model does not know of. next has the next slot of each queue. Nil: nothing.
	Check func(s cq.Store, next map[cq.Key]int64) error
}

const (
	modelSeeds     = 50
	modelSeedsFull = 2000
	modelSteps     = 30
	stepBytes      = 3
	maxModelSteps  = 200
	maxShrinks     = 150
)

// FuzzModel holds a store against a model, a map of what each slot holds, over random histories: append, repeat, gap, conflict, cut, expire, drop,
// flush, reopen, crash and replay, and whatever Switch does. Everything is compared after every step. It runs 50 seeds, 2000 with
// TANDEMMQ_SEEDS=full, and whatever the fuzzer makes of them. A history that fails is told as the shortest one found that fails.
func FuzzModel(f *testing.F, h ModelHarness) {
	n := uint64(modelSeeds)
	if os.Getenv("TANDEMMQ_SEEDS") == "full" {
		n = modelSeedsFull
	}
	for seed := range n {
		f.Add(ModelSteps(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dirs := 0
		run := func(data []byte) error {
			dirs++
			dir := filepath.Join(t.TempDir(), fmt.Sprint(dirs))
			defer func() { _ = os.RemoveAll(dir) }()
			return RunModel(dir, h, data)
		}
		err := run(data)
		if err == nil {
			return
		}
		data, err = shrink(data, err, run)
		t.Fatalf("%v\nhistory %x:\n%s", err, data, strings.Join(tell(data), "\n"))
	})
}

// ModelSteps returns a history drawn from a seed.
func ModelSteps(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 11))
	data := make([]byte, modelSteps*stepBytes)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// shrink leaves out steps as long as the history fails.
func shrink(data []byte, err error, run func([]byte) error) ([]byte, error) {
	tries := 0
	for size := len(data) / stepBytes / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(data)/stepBytes && tries < maxShrinks; {
			shorter := slices.Concat(data[:at*stepBytes], data[(at+size)*stepBytes:])
			tries++
			if e := run(shorter); e != nil {
				data, err = shorter, e
			} else {
				at += size
			}
		}
	}
	return data, err
}

// step is what happens to the model and the store.
type step struct {
	name   string
	weight int
	do     func(m *model, a, b byte) error
}

var steps = []step{
	{"append", 8, (*model).append},
	{"append one by one", 2, (*model).appendSingly},
	{"repeat", 3, (*model).repeat},
	{"gap", 2, (*model).gap},
	{"conflict", 2, (*model).conflict},
	{"flush", 3, func(m *model, _, _ byte) error { return m.s.Flush(m.ctx) }},
	{"expire", 2, (*model).expire},
	{"cut", 2, (*model).cut},
	{"drop and build again", 1, (*model).rebuild},
	{"drop for good", 1, (*model).drop},
	{"reopen", 1, (*model).reopen},
	{"crash and replay", 2, (*model).crash},
	{"switch", 3, (*model).change},
}

func stepOf(b byte) *step {
	total := 0
	for _, st := range steps {
		total += st.weight
	}
	at := int(b) % total
	for i := range steps {
		if at -= steps[i].weight; at < 0 {
			return &steps[i]
		}
	}
	return nil
}

func tell(data []byte) (out []string) {
	for ; len(data) >= stepBytes; data = data[stepBytes:] {
		out = append(out, fmt.Sprintf("  %s %d %d", stepOf(data[0]).name, data[1], data[2]))
	}
	return out
}

// modelKeys are the queues of a model, and where each begins.
var (
	modelKeys   = []cq.Key{keyA, keyA1, keyB, keyRetry, keyLMQ}
	modelStarts = []int64{0, 0, 73, 50, 0}
)

// model is a log and what of it a store has to hold.
type model struct {
	ctx    context.Context //nolint:containedctx // of one history
	h      ModelHarness
	root   string // the store's directory is below it, another one after each crash
	dirs   int
	s      cq.Store
	log    []cq.Entry // every record that owes a unit, in order
	end    int64
	minPhy int64
	count  int64
	next   map[cq.Key]int64
}

// RunModel runs one history in a new directory. The error tells the step after which the store was not what it has to be, and in what.
func RunModel(root string, h ModelHarness, data []byte) (err error) {
	m := &model{ctx: context.Background(), h: h, root: root, next: map[cq.Key]int64{}}
	if err := m.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.s.Close()) }()
	for n := 0; len(data) >= stepBytes && n < maxModelSteps; n++ {
		st := stepOf(data[0])
		if err := st.do(m, data[1], data[2]); err != nil {
			return fmt.Errorf("step %d, %s: %w", n, st.name, err)
		}
		if err := m.compare(); err != nil {
			return fmt.Errorf("after step %d, %s: %w", n, st.name, err)
		}
		data = data[stepBytes:]
	}
	return nil
}

func (m *model) dir() string { return filepath.Join(m.root, fmt.Sprint(m.dirs)) }

func (m *model) open() error {
	if err := os.MkdirAll(m.dir(), 0o755); err != nil {
		return err
	}
	s, err := m.h.Open(m.dir(), OpenOptions{MinPhyOffset: m.minPhy})
	if err == nil {
		m.s = s
	}
	return err
}

// record returns the entry of one more record of the log; the caller puts it there.
func (m *model) record(i int) cq.Entry {
	k := modelKeys[i]
	slot, ok := m.next[k]
	if !ok {
		slot = modelStarts[i]
	}
	m.count++
	u := cq.Unit{PhyOffset: m.end, Size: int32(100 + m.count%57), TagsCode: m.count%5 - 2, StoreTimestampMs: 1_700_000_000_000 + m.count}
	return cq.Entry{Key: k, QueueOffset: slot, Unit: u}
}

func (m *model) put(e cq.Entry) {
	m.log = append(m.log, e)
	m.next[e.Key] = e.QueueOffset + 1
	m.end = e.Unit.End() + m.count%3*31
}

func (m *model) puts(a, b byte) []cq.Entry {
	from := len(m.log)
	for i := range 1 + int(a)%90 {
		m.put(m.record((i*(1+int(b>>4)) + int(b)) % len(modelKeys)))
	}
	return slices.Clone(m.log[from:])
}

func (m *model) append(a, b byte) error { return m.s.Append(m.ctx, m.puts(a, b)) }

func (m *model) appendSingly(a, b byte) error {
	for _, e := range m.puts(a%12, b) {
		if err := m.s.Append(m.ctx, []cq.Entry{e}); err != nil {
			return err
		}
	}
	return nil
}

// live returns the place of the first record that has not expired.
func (m *model) live() int {
	at, _ := slices.BinarySearchFunc(m.log, m.minPhy, func(e cq.Entry, phy int64) int { return cmp.Compare(e.Unit.PhyOffset, phy) })
	return at
}

func (m *model) repeat(a, b byte) error {
	live := m.log[m.live():]
	if len(live) == 0 {
		return nil
	}
	from := int(a) * len(live) / 256
	batch := slices.Clone(live[from:min(len(live), from+int(b)+1)])
	if b%2 == 0 {
		batch = append(batch, m.puts(b%5, a)...)
	}
	return m.s.Append(m.ctx, batch)
}

func (m *model) gap(a, b byte) error {
	good := m.record(int(a) % len(modelKeys))
	m.put(good)
	bad := m.record(int(a) % len(modelKeys))
	bad.QueueOffset += 1 + int64(b)%60
	return m.refuse(good, bad)
}

func (m *model) conflict(a, b byte) error {
	good := m.record(int(a) % len(modelKeys))
	m.put(good)
	live := m.log[m.live():]
	bad := live[int(b)*len(live)/256]
	bad.Unit.Size++
	return m.refuse(good, bad)
}

// refuse appends what must be accepted up to the entry bad.
func (m *model) refuse(good, bad cq.Entry) error {
	after := m.record(0)
	after.Key = cq.Key{Topic: "never"}
	err := m.s.Append(m.ctx, []cq.Entry{good, bad, after})
	if !errors.Is(err, cq.ErrDiverged) {
		return fmt.Errorf("entry %+v was answered %w", bad, err)
	}
	return nil
}

// expire moves the log's beginning, having flushed: what was not may be lost in a crash, and then the log has to have it.
func (m *model) expire(a, b byte) error {
	x, ok := m.s.(cq.Expirer)
	if !ok {
		return nil
	}
	if err := m.s.Flush(m.ctx); err != nil {
		return err
	}
	live := m.log[m.live():]
	if len(live) > 0 {
		m.minPhy = live[int(a)*len(live)/256].Unit.PhyOffset + int64(b%2)
	}
	if err := x.SetMinPhyOffset(m.minPhy); err != nil {
		return err
	}
	if b%4 < 2 {
		return nil
	}
	_, err := x.Expire(m.ctx, 0)
	return err
}

// cut removes the end of the log. No queue is cut down to what has expired: stores may differ in whether it leaves a trace.
func (m *model) cut(a, b byte) error {
	at := len(m.log) - int(a)*len(m.log)/1024
	for ; at < len(m.log); at++ {
		if !m.cutsIntoExpired(at) {
			break
		}
	}
	phy := m.end
	if at < len(m.log) {
		phy = m.log[at].Unit.PhyOffset
	}
	if b%4 == 0 { // nothing to cut
		at, phy = len(m.log), m.end
	}
	if err := m.s.TruncateDirty(m.ctx, phy); err != nil {
		return err
	}
	m.log, m.end = m.log[:at], phy
	m.count++ // other records take the place
	m.learn()
	return nil
}

func (m *model) cutsIntoExpired(at int) bool {
	expired, left := map[cq.Key]bool{}, map[cq.Key]bool{}
	for i, e := range m.log[:at] {
		if i < m.live() {
			expired[e.Key] = true
		} else {
			left[e.Key] = true
		}
	}
	for _, e := range m.log[at:] {
		if expired[e.Key] && !left[e.Key] || e.Unit.PhyOffset < m.minPhy {
			return true
		}
	}
	return false
}

// learn finds out the next slots from the log.
func (m *model) learn() {
	clear(m.next)
	for _, e := range m.log {
		m.next[e.Key] = e.QueueOffset + 1
	}
}

// rebuild drops a queue and appends what the log has of it.
func (m *model) rebuild(a, _ byte) error {
	d, ok := m.s.(cq.Dropper)
	k := modelKeys[int(a)%len(modelKeys)]
	var batch []cq.Entry
	for _, e := range m.log[m.live():] {
		if e.Key == k {
			batch = append(batch, e)
		}
	}
	if !ok || len(batch) == 0 {
		return nil
	}
	if err := errors.Join(d.DropQueue(m.ctx, k), m.s.Append(m.ctx, batch)); err != nil {
		return err
	}
	// The expired part is gone from the store, and with the log's record of it from the model.
	first := m.live()
	m.log = slices.Concat(slices.DeleteFunc(slices.Clone(m.log[:first]), func(e cq.Entry) bool { return e.Key == k }), m.log[first:])
	return m.s.Flush(m.ctx)
}

// drop removes a queue, and its records from the log.
func (m *model) drop(a, _ byte) error {
	d, ok := m.s.(cq.Dropper)
	if !ok {
		return nil
	}
	k := modelKeys[int(a)%len(modelKeys)]
	if err := errors.Join(d.DropQueue(m.ctx, k), m.s.Flush(m.ctx)); err != nil {
		return err
	}
	m.log = slices.DeleteFunc(m.log, func(e cq.Entry) bool { return e.Key == k })
	m.learn()
	return nil
}

func (m *model) reopen(_, _ byte) error {
	if err := m.s.Close(); err != nil {
		return err
	}
	return m.open()
}

// crash goes on with a copy of the directory as it is, and replays the log as a start does.
func (m *model) crash(a, _ byte) error {
	old := m.dir()
	m.dirs++
	err := copyTree(old, m.dir())
	if err = errors.Join(err, m.s.Close(), os.RemoveAll(old)); err != nil {
		return err
	}
	if err := m.open(); err != nil {
		return err
	}
	if err := m.s.TruncateDirty(m.ctx, m.end); err != nil {
		return err
	}
	from := m.s.DispatchFrom()
	if from > m.end {
		return fmt.Errorf("dispatch resumes at %d, behind the log's end %d", from, m.end)
	}
	at, _ := slices.BinarySearchFunc(m.log, max(from, m.minPhy), func(e cq.Entry, phy int64) int { return cmp.Compare(e.Unit.PhyOffset, phy) })
	for rest := range slices.Chunk(slices.Clone(m.log[at:]), 1+int(a)) {
		if err := m.s.Append(m.ctx, rest); err != nil {
			return fmt.Errorf("replay from %d: %w", from, err)
		}
	}
	return nil
}

func (m *model) change(a, _ byte) error {
	if m.h.Switch == nil {
		return nil
	}
	return m.h.Switch(m.s, a)
}

// compare holds the store against the log.
func (m *model) compare() error {
	if err := m.s.AwaitReadable(m.ctx); err != nil {
		return err
	}
	accepted, readable, durable := m.s.Progress()
	if accepted < readable || readable < durable {
		return fmt.Errorf("progress: accepted %d, readable %d, durable %d", accepted, readable, durable)
	}
	units := map[cq.Key][]cq.Unit{}
	for _, e := range m.log {
		units[e.Key] = append(units[e.Key], e.Unit)
	}
	keys, err := cq.SortedKeys(m.s)
	if err != nil {
		return err
	}
	if want := slices.SortedFunc(maps.Keys(units), cq.Key.Compare); !slices.Equal(keys, want) {
		return fmt.Errorf("queues present: %v, want %v", keys, want)
	}
	for k, units := range units {
		if err := m.compareQueue(k, units); err != nil {
			return fmt.Errorf("queue %s: %w", k, err)
		}
	}
	if m.h.Check != nil {
		return m.h.Check(m.s, m.next)
	}
	return nil
}

func (m *model) compareQueue(k cq.Key, units []cq.Unit) error {
	q, ok := m.s.Queue(k)
	if !ok {
		return errors.New("it is missing")
	}
	got, err := q.Bounds()
	if err != nil {
		return err
	}
	first := 0
	for first < len(units) && units[first].PhyOffset < m.minPhy {
		first++
	}
	live, end := units[first:], m.next[k]
	want := cq.Bounds{Min: end - int64(len(live)), Max: end, MinPhyOffset: -1, LastPhyOffset: got.LastPhyOffset, MaxPhyOffset: got.MaxPhyOffset}
	if len(live) > 0 {
		last := live[len(live)-1]
		want.MinPhyOffset, want.LastPhyOffset, want.MaxPhyOffset = live[0].PhyOffset, last.PhyOffset, last.End()
	}
	if got != want {
		return fmt.Errorf("bounds %+v, want %+v", got, want)
	}
	buf := make([]cq.Unit, 40)
	for i := 0; i < len(live); {
		n, err := q.Read(want.Min+int64(i), buf)
		if err != nil {
			return err
		}
		if n == 0 || i+n > len(live) {
			return fmt.Errorf("%d units at slot %d of [%d, %d)", n, want.Min+int64(i), want.Min, want.Max)
		}
		for j, u := range buf[:n] {
			w := live[i+j]
			if !m.h.KeepsTime || m.h.TimeMayVary && u.StoreTimestampMs == cq.NoTimestamp {
				w.StoreTimestampMs = cq.NoTimestamp
			}
			if u != w {
				return fmt.Errorf("slot %d is %+v, want %+v", want.Min+int64(i+j), u, w)
			}
		}
		i += n
	}
	return nil
}

// copyTree copies a directory that is in use: first what names other files, so that whatever it names is copied as well.
func copyTree(from, to string) error {
	var files []string
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files = append(files, path)
		return nil
	})
	if err != nil {
		return err
	}
	named := func(path string) int {
		switch name := filepath.Base(path); {
		case name == "CURRENT":
			return 0
		case strings.HasPrefix(name, "MANIFEST"):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(named(a), named(b)) })
	for _, path := range files {
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if err := copyFile(path, filepath.Join(to, rel)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	if filepath.Base(from) == "LOCK" {
		return nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
