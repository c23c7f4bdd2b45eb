package store

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/tests/golden"
)

// checkedStore is a sample store to be broken, and what was in it before.
type checkedStore struct {
	t       *testing.T
	root    string
	units   map[cq.Key][]cq.Unit
	records []message.Record
	end     int64
}

// Sizes of checkedStore: ten log files or so, and four files for each of the queues of a topic.
const (
	checkedLogBytes   = 64 << 10
	checkedQueueBytes = 1000
	checkedQueueUnits = checkedQueueBytes / 20
)

// checkedImage is the store of newCheckedStore as files in memory: making it waits for the disk, writing it does not.
var checkedImage struct {
	sync.Once
	files map[string][]byte
}

func newCheckedStore(t *testing.T) *checkedStore {
	t.Helper()
	checkedImage.Do(func() {
		o := variedOptions()
		o.Messages, o.CommitLogFileBytes, o.QueueFileBytes = 1500, checkedLogBytes, checkedQueueBytes
		root, _ := generate(t, o)
		checkedImage.files = make(map[string][]byte)
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, _ := filepath.Rel(root, path)
			checkedImage.files[rel], err = os.ReadFile(path)
			return err
		}))
	})
	s := &checkedStore{t: t, root: filepath.Join(t.TempDir(), "store")}
	for rel, b := range checkedImage.files {
		path := filepath.Join(s.root, rel)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, b, 0o644))
	}
	var end commitlog.ScanEnd
	s.units, s.records, end = unitsOfLog(t, s.root)
	s.end = end.Offset
	return s
}

// extRange are tags codes that RocketMQ takes for addresses of extension units.
var extRange = []int64{math.MinInt64, math.MinInt32 - 1, -1 << 40}

func (s *checkedStore) poke(path string, at int64, b ...byte) {
	s.t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(s.t, err)
	_, err = f.WriteAt(b, at)
	require.NoError(s.t, err)
	require.NoError(s.t, f.Close())
}

func (s *checkedStore) logPlace(phy int64) (path string, at int64) {
	return filepath.Join(s.root, "commitlog", mappedfile.Name(phy/checkedLogBytes*checkedLogBytes)), phy % checkedLogBytes
}

func (s *checkedStore) pokeLog(phy int64, b ...byte) {
	s.t.Helper()
	path, at := s.logPlace(phy)
	s.poke(path, at, b...)
}

func (s *checkedStore) readLog(phy, n int64) []byte {
	s.t.Helper()
	path, at := s.logPlace(phy)
	b, err := os.ReadFile(path)
	require.NoError(s.t, err)
	return b[at : at+n]
}

func (s *checkedStore) flipLog(phy int64) { s.pokeLog(phy, s.readLog(phy, 1)[0]^0x40) }

func (s *checkedStore) queueDir(k cq.Key) string {
	return filepath.Join(s.root, "consumequeue", k.Topic, strconv.Itoa(int(k.QueueID)))
}

func (s *checkedStore) unitPlace(k cq.Key, slot int64) (path string, at int64) {
	at = slot * 20
	return filepath.Join(s.queueDir(k), mappedfile.Name(at/checkedQueueBytes*checkedQueueBytes)), at % checkedQueueBytes
}

func (s *checkedStore) pokeUnit(k cq.Key, slot int64, u cq.Unit) {
	s.t.Helper()
	b := binary.BigEndian.AppendUint64(nil, uint64(u.PhyOffset))
	b = binary.BigEndian.AppendUint32(b, uint32(u.Size))
	path, at := s.unitPlace(k, slot)
	s.poke(path, at, binary.BigEndian.AppendUint64(b, uint64(u.TagsCode))...)
}

// after returns the record that begins where another ends, or the end of its file when a filler does.
func (s *checkedStore) after(phy int64) int64 {
	for i := range s.records {
		if s.records[i].PhyOffset > phy {
			return s.records[i].PhyOffset
		}
	}
	return s.end
}

// check runs a check, and holds the place of each finding against the layout.
func (s *checkedStore) check(o CheckOptions) *CheckReport {
	s.t.Helper()
	if o.Limit == 0 {
		o.Limit = 10_000
	}
	rep, err := Check(s.t.Context(), s.root, o)
	require.NoError(s.t, err)
	var listed int64
	for _, f := range rep.Findings {
		listed++
		require.Equal(s.t, invariantOf[f.Code], f.Invariant)
		require.NotEmpty(s.t, f.Text)
		var path string
		var at int64
		switch {
		case f.Side == "log" && f.Code != CheckLogRun && f.Code != CheckLogForeign:
			path, at = s.logPlace(f.PhyOffset)
		case f.Side == "file" && f.QueueOffset >= 0:
			path, at = s.unitPlace(cq.Key{Topic: f.Topic, QueueID: f.QueueID}, f.QueueOffset)
		default:
			continue
		}
		require.Equal(s.t, path, f.File, "%s", f)
		require.Equal(s.t, at, f.FileOffset, "%s", f)
	}
	require.Equal(s.t, listed, rep.Errors+rep.Warnings+rep.Notices)
	require.Equal(s.t, rep.Errors == 0, rep.Sound)
	return rep
}

// brief is a finding without its words.
func brief(f *CheckFinding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", f.Severity, f.Code, f.Side)
	if f.Topic != "" {
		fmt.Fprintf(&b, " %s", f.Topic)
	}
	if f.QueueID >= 0 {
		fmt.Fprintf(&b, "/%d", f.QueueID)
	}
	if f.QueueOffset >= 0 {
		fmt.Fprintf(&b, " slot %d", f.QueueOffset)
	}
	if f.PhyOffset >= 0 {
		fmt.Fprintf(&b, " at %d", f.PhyOffset)
	}
	return b.String()
}

func briefs(rep *CheckReport) []string {
	list := []string{}
	for _, f := range rep.Findings {
		list = append(list, brief(f))
	}
	return list
}

var (
	queueA = cq.Key{Topic: "sample_0", QueueID: 1}
	queueB = cq.Key{Topic: "sample_2", QueueID: 0}
	lightA = cq.Key{Topic: "%LMQ%light_2"}
)

func TestCheckSoundStores(t *testing.T) {
	s := newCheckedStore(t)
	var units int64
	for _, u := range s.units {
		units += int64(len(u))
	}
	for _, workers := range []int{1, 4} {
		rep := s.check(CheckOptions{Deep: true, Workers: workers})
		require.Empty(t, briefs(rep))
		require.True(t, rep.Sound)
		require.Equal(t, CheckReport{
			Store: s.root, Deep: true, Sound: true, Sides: []string{"file"}, LogFiles: s.end/checkedLogBytes + 1, LogEnd: s.end, LogEndKind: "clean end",
			Records: int64(len(s.records)), LogBytes: rep.LogBytes, Queues: int64(len(s.units)), Units: units, Proven: units,
			Counts: []CheckCount{}, NotChecked: nil, Elapsed: rep.Elapsed,
		}, *rep)
	}
	rep := s.check(CheckOptions{})
	require.Empty(t, briefs(rep))
	require.Equal(t, units, rep.Units)
	require.Less(t, rep.Records, int64(len(s.records))/5, "the last file alone")
	require.Positive(t, rep.Records)

	for _, name := range golden.Names() {
		if !strings.HasPrefix(name, "file-") {
			continue // the others want RocksDB: tests/e2e
		}
		for _, deep := range []bool{false, true} {
			rep, err := Check(t.Context(), golden.Unpack(t, name), CheckOptions{Deep: deep})
			require.NoError(t, err, name)
			require.True(t, rep.Sound, "%s: %v", name, briefs(rep))
			require.Zero(t, rep.Warnings, name)
			require.Equal(t, name == "file-abort", rep.Unclean, name)
			if deep {
				require.Equal(t, rep.Units, rep.Proven, name)
			}
		}
	}
}

// Each invariant is broken on purpose, and found at its place: nothing less, and nothing else.
func TestCheckDeepFindsEachBreak(t *testing.T) {
	type broken struct {
		s *checkedStore
		t *testing.T
	}
	unit := func(b broken, k cq.Key, slot int64) cq.Unit { return b.s.units[k][slot] }
	for _, tc := range []struct {
		name   string
		damage func(b broken) (want []string)
	}{
		{"FRI-1 two units are swapped", func(b broken) []string {
			one, two := unit(b, queueA, 60), unit(b, queueA, 61)
			b.s.pokeUnit(queueA, 60, two)
			b.s.pokeUnit(queueA, 61, one)
			return []string{
				fmt.Sprintf("error other-slot file sample_0/1 slot 60 at %d", two.PhyOffset),
				fmt.Sprintf("error other-slot file sample_0/1 slot 61 at %d", one.PhyOffset),
			}
		}},
		{"FRI-1 a unit is one of another queue", func(b broken) []string {
			other := unit(b, queueB, 5)
			b.s.pokeUnit(queueA, 60, other)
			return []string{fmt.Sprintf("error other-queue file sample_0/1 slot 60 at %d", other.PhyOffset)}
		}},
		{"FRI-1 a unit points between records", func(b broken) []string {
			u := unit(b, queueA, 60)
			u.PhyOffset += 4
			b.s.pokeUnit(queueA, 60, u)
			return []string{fmt.Sprintf("error no-record file sample_0/1 slot 60 at %d", u.PhyOffset)}
		}},
		{"FRI-1 a unit points past the log", func(b broken) []string {
			u := unit(b, queueA, 60)
			u.PhyOffset = b.s.end
			b.s.pokeUnit(queueA, 60, u)
			return []string{fmt.Sprintf("error outside-log file sample_0/1 slot 60 at %d", b.s.end)}
		}},
		{"FRI-1 a unit is zero", func(b broken) []string {
			b.s.pokeUnit(queueA, 60, cq.Unit{})
			return []string{"error hole file sample_0/1 slot 60"}
		}},
		{"FRI-1 a unit is impossible", func(b broken) []string {
			b.s.pokeUnit(queueA, 60, cq.Unit{PhyOffset: -5, Size: 100})
			return []string{"error bad-queue file sample_0/1 slot 60"}
		}},
		{"FRI-1 a unit has the wrong size", func(b broken) []string {
			u := unit(b, queueA, 60)
			u.Size++
			b.s.pokeUnit(queueA, 60, u)
			return []string{fmt.Sprintf("error wrong-size file sample_0/1 slot 60 at %d", u.PhyOffset)}
		}},
		{"FRI-1 a unit has the wrong tags", func(b broken) []string {
			u := unit(b, queueA, 60)
			u.TagsCode++
			b.s.pokeUnit(queueA, 60, u)
			return []string{fmt.Sprintf("error wrong-tags file sample_0/1 slot 60 at %d", u.PhyOffset)}
		}},
		{"FRI-1 the tags of units are addresses of extension units, and there are none", func(b broken) (want []string) {
			for i, tags := range extRange {
				u := unit(b, queueA, 60+int64(i))
				u.TagsCode = tags
				b.s.pokeUnit(queueA, 60+int64(i), u)
				want = append(want, fmt.Sprintf("error wrong-tags file sample_0/1 slot %d at %d", 60+i, u.PhyOffset))
			}
			return want
		}},
		{"FRI-1 the tags of a unit are the address of an extension unit that is lost", func(b broken) []string {
			u := unit(b, queueA, 60)
			u.TagsCode = math.MinInt64
			b.s.pokeUnit(queueA, 60, u)
			dir := filepath.Join(b.s.root, "consumequeue_ext", queueA.Topic, fmt.Sprint(queueA.QueueID))
			require.NoError(b.s.t, os.MkdirAll(dir, 0o755))
			require.NoError(b.s.t, os.WriteFile(filepath.Join(dir, mappedfile.Name(0)), make([]byte, 100), 0o644))
			return []string{}
		}},
		{"a delayed message has another delay", func(b broken) []string {
			k := cq.Key{Topic: message.TopicSchedule, QueueID: 3}
			u := unit(b, k, 0)
			u.TagsCode++
			b.s.pokeUnit(k, 0, u)
			return []string{fmt.Sprintf("notice delay-tags file SCHEDULE_TOPIC_XXXX/3 slot 0 at %d", u.PhyOffset)}
		}},
		{"FRI-1 a light queue's unit is that of another message", func(b broken) []string {
			other := unit(b, lightA, 9)
			b.s.pokeUnit(lightA, 8, other)
			return []string{fmt.Sprintf("error other-slot file %%LMQ%%light_2/0 slot 8 at %d", other.PhyOffset)}
		}},
		{"FRI-2 a queue is gone", func(b broken) (want []string) {
			require.NoError(b.t, os.RemoveAll(b.s.queueDir(queueA)))
			for slot, u := range b.s.units[queueA] {
				want = append(want, fmt.Sprintf("error missing-queue log sample_0/1 slot %d at %d", slot, u.PhyOffset))
			}
			return want
		}},
		{"FRI-2 a light queue is gone", func(b broken) (want []string) {
			require.NoError(b.t, os.RemoveAll(b.s.queueDir(lightA)))
			for slot, u := range b.s.units[lightA] {
				want = append(want, fmt.Sprintf("error missing-queue log %%LMQ%%light_2/0 slot %d at %d", slot, u.PhyOffset))
			}
			return want
		}},
		{"dispatch to light queues was off", func(b broken) []string {
			for k := range b.s.units {
				if k.IsLMQ() {
					require.NoError(b.t, os.RemoveAll(b.s.queueDir(k)))
				}
			}
			rep := b.s.check(CheckOptions{Deep: true})
			require.Positive(b.t, rep.Notices)
			require.Equal(b.t, []CheckCount{{Severity: CheckNotice, Code: CheckLightOff, Count: rep.Notices, Listed: rep.Notices}}, rep.Counts)
			return briefs(rep)
		}},
		{"FRI-2 FRI-3 a queue has lost its end", func(b broken) (want []string) {
			n := int64(len(b.s.units[queueA])) / checkedQueueUnits * checkedQueueUnits
			path, _ := b.s.unitPlace(queueA, n)
			require.NoError(b.t, os.Remove(path))
			for slot, u := range b.s.units[queueA][n:] {
				want = append(want, fmt.Sprintf("error no-unit log sample_0/1 slot %d at %d", n+int64(slot), u.PhyOffset))
			}
			return append(want, "error next-offset file sample_0/1")
		}},
		{"FRI-2 a queue has lost its beginning", func(b broken) (want []string) {
			path, _ := b.s.unitPlace(queueA, 0)
			require.NoError(b.t, os.Remove(path))
			for slot, u := range b.s.units[queueA][:checkedQueueUnits] {
				want = append(want, fmt.Sprintf("error below-min log sample_0/1 slot %d at %d", slot, u.PhyOffset))
			}
			return want
		}},
		{"FRI-1 a queue has lost a file in the middle", func(b broken) []string {
			path, _ := b.s.unitPlace(queueA, checkedQueueUnits)
			require.NoError(b.t, os.Remove(path))
			return []string{"error bad-queue file sample_0/1"}
		}},
		{"FRI-2 two records claim a slot", func(b broken) []string {
			two := unit(b, queueA, 61)
			b.s.pokeLog(two.PhyOffset+20, binary.BigEndian.AppendUint64(nil, 60)...)
			return []string{
				fmt.Sprintf("error other-slot file sample_0/1 slot 61 at %d", two.PhyOffset),
				fmt.Sprintf("error duplicate-slot log sample_0/1 slot 60 at %d", two.PhyOffset),
			}
		}},
		{"FRI-2 two records claim a slot, and the one that has it is damaged", func(b broken) []string {
			k := cq.Key{Topic: message.TopicSchedule, QueueID: 3} // no light queue has its messages as well
			one, two := unit(b, k, 0), unit(b, k, 1)
			b.s.pokeLog(two.PhyOffset+20, binary.BigEndian.AppendUint64(nil, 0)...)
			b.s.flipLog(one.PhyOffset + 100)
			return []string{
				fmt.Sprintf("error no-record file SCHEDULE_TOPIC_XXXX/3 slot 0 at %d", one.PhyOffset),
				fmt.Sprintf("error other-slot file SCHEDULE_TOPIC_XXXX/3 slot 1 at %d", two.PhyOffset),
				fmt.Sprintf("error log-damage log at %d", one.PhyOffset),
			}
		}},
		{"FRI-1 a record says it is of another queue", func(b broken) []string {
			u, have := unit(b, queueA, 60), unit(b, cq.Key{Topic: "sample_0", QueueID: 0}, 60)
			b.s.pokeLog(u.PhyOffset+12, 0, 0, 0, 0)
			require.NotZero(b.t, have.Size)
			return []string{
				fmt.Sprintf("error other-queue file sample_0/1 slot 60 at %d", u.PhyOffset),
				fmt.Sprintf("error duplicate-slot log sample_0/0 slot 60 at %d", u.PhyOffset),
			}
		}},
		{"a topic was deleted and made anew", func(b broken) []string {
			// The queue of the day begins at slot 0 with what was its third file; the records before it claim slots as well.
			from := int64(2 * checkedQueueUnits)
			units := b.s.units[queueA][from : from+checkedQueueUnits]
			require.NoError(b.t, os.RemoveAll(b.s.queueDir(queueA)))
			require.NoError(b.t, os.MkdirAll(b.s.queueDir(queueA), 0o755))
			path, _ := b.s.unitPlace(queueA, 0)
			require.NoError(b.t, os.WriteFile(path, nil, 0o644))
			require.NoError(b.t, os.Truncate(path, checkedQueueBytes))
			for slot, u := range units {
				b.s.pokeUnit(queueA, int64(slot), u)
				b.s.pokeLog(u.PhyOffset+20, binary.BigEndian.AppendUint64(nil, uint64(slot))...)
			}
			rep := b.s.check(CheckOptions{Deep: true})
			var older int64
			for _, n := range rep.Counts {
				if n.Code == CheckOlderTopic {
					older = n.Count
				}
			}
			require.Equal(b.t, from, older)
			return briefs(rep)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newCheckedStore(t)
			want := tc.damage(broken{s, t})
			for _, workers := range []int{1, 3} {
				require.Equal(t, want, briefs(s.check(CheckOptions{Deep: true, Workers: workers})))
			}
		})
	}
}

// What lies at the ends, a shallow check sees, and what the last file of the log speaks of.
func TestCheckShallow(t *testing.T) {
	s := newCheckedStore(t)
	tail := func(k cq.Key, back int) (slot int64, u cq.Unit) {
		slot = int64(len(s.units[k]) - back)
		u = s.units[k][slot]
		require.Greater(t, u.PhyOffset, s.end/checkedLogBytes*checkedLogBytes, "in the last file")
		return slot, u
	}
	other := s.units[queueB][4]
	s.pokeUnit(queueA, 0, other)
	s.pokeUnit(queueB, 60, other) // in the middle: not seen
	last, u := tail(queueA, 1)
	u.Size++
	s.pokeUnit(queueA, last, u)
	none, v := tail(queueA, 3)
	v.PhyOffset += 4
	s.pokeUnit(queueA, none, v)
	foreign, _ := tail(queueB, 1) // told once, as an end and by its record
	s.pokeUnit(queueB, foreign, other)
	old := s.units[lightA][0]
	old.TagsCode++
	s.pokeUnit(lightA, 0, old)
	require.Equal(t, []string{
		fmt.Sprintf("error no-record file sample_0/1 slot %d at %d", none, v.PhyOffset),
		fmt.Sprintf("error other-queue file sample_0/1 slot 0 at %d", other.PhyOffset),
		fmt.Sprintf("error other-slot file sample_2/0 slot %d at %d", foreign, other.PhyOffset),
		fmt.Sprintf("error wrong-size file sample_0/1 slot %d at %d", last, u.PhyOffset),
		fmt.Sprintf("error wrong-tags file %%LMQ%%light_2/0 slot 0 at %d", old.PhyOffset),
	}, briefs(s.check(CheckOptions{})))
}
