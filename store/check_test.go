package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// FRB19: damage in old files, which a start never looks at, is found with file, byte and field; nothing changes.
func TestFRB19SilentDamageInOldFiles(t *testing.T) {
	s := newCheckedStore(t)
	u := s.units[queueA][10]
	require.Less(t, u.PhyOffset, int64(checkedLogBytes), "in the first file")
	s.flipLog(u.PhyOffset + 100) // in the body
	require.Empty(t, briefs(s.check(CheckOptions{})), "a shallow check does not look there")

	rep := s.check(CheckOptions{Deep: true})
	want := []string{
		fmt.Sprintf("error no-record file sample_0/1 slot 10 at %d", u.PhyOffset),
		fmt.Sprintf("error log-damage log at %d", u.PhyOffset),
	}
	light := []string{}
	for _, b := range briefs(rep) {
		if strings.Contains(b, "%LMQ%") {
			light = append(light, b) // the message may be in light queues too
			require.Contains(t, b, fmt.Sprintf("at %d", u.PhyOffset))
		}
	}
	require.ElementsMatch(t, append(want, light...), briefs(rep))
	f := rep.Findings[len(rep.Findings)-1]
	require.Equal(t, CheckLogDamage, f.Code)
	require.Equal(t, u.End(), f.EndPhyOffset)
	require.Contains(t, f.Got, "bodyCRC ")
	require.Contains(t, f.Text, "bodyCRC")
	require.EqualValues(t, u.Size, rep.Damaged)
}

// FRB05: a whole valid record at another place is no record there.
func TestFRB05ForeignRecord(t *testing.T) {
	s := newCheckedStore(t)
	from := s.units[queueA][20]
	var to cq.Unit
	for _, u := range s.units[queueB] {
		if u.PhyOffset > from.PhyOffset && u.Size == from.Size {
			to = u
			break
		}
	}
	require.NotZero(t, to.Size, "no record of that size")
	s.pokeLog(to.PhyOffset, s.readLog(from.PhyOffset, int64(from.Size))...)
	rep := s.check(CheckOptions{Deep: true})
	f := rep.Findings[len(rep.Findings)-1]
	require.Equal(t, fmt.Sprintf("error log-damage log at %d", to.PhyOffset), brief(f))
	require.Equal(t, to.End(), f.EndPhyOffset)
	require.Equal(t, fmt.Sprintf("a record of physical offset %d", from.PhyOffset), f.Got)
	require.Contains(t, f.Text, fmt.Sprintf("want %d", to.PhyOffset))
	for _, f := range rep.Findings[:len(rep.Findings)-1] {
		require.Equal(t, CheckNoRecord, f.Code)
		require.Equal(t, to.PhyOffset, f.PhyOffset)
	}
	require.GreaterOrEqual(t, len(rep.Findings), 2)
}

// Every range of damage is told, also one that goes on to the end of a file, over several files, or lies at a beginning.
func TestCheckListsEveryDamage(t *testing.T) {
	s := newCheckedStore(t)
	one, two := s.records[3].PhyOffset, s.records[9].PhyOffset
	s.flipLog(one + 4)   // magic
	s.flipLog(two + 100) // body
	s.flipLog(s.records[10].PhyOffset + 28)
	first := int64(2 * checkedLogBytes) // the whole third file
	s.pokeLog(first, make([]byte, checkedLogBytes)...)
	s.flipLog(first + 2*checkedLogBytes + 5) // the first record of the fifth

	rep := s.check(CheckOptions{Deep: true, Workers: 3})
	var got [][2]int64
	var damaged int64
	for _, f := range rep.Findings {
		if f.Code == CheckLogDamage {
			got = append(got, [2]int64{f.PhyOffset, f.EndPhyOffset})
			damaged += f.EndPhyOffset - f.PhyOffset
		}
	}
	require.Equal(t, [][2]int64{
		{one, s.after(one)},
		{two, s.records[11].PhyOffset},
		{first, first + checkedLogBytes},
		{first + 2*checkedLogBytes, s.after(first + 2*checkedLogBytes)},
	}, got)
	require.Equal(t, damaged, rep.Damaged)
	require.Equal(t, s.end, rep.LogEnd)
	require.Equal(t, "clean end", rep.LogEndKind)

	// Without reading it all, what does not begin is seen.
	got = nil
	for _, f := range s.check(CheckOptions{}).Findings {
		if f.Code == CheckLogDamage {
			got = append(got, [2]int64{f.PhyOffset, f.EndPhyOffset})
		}
	}
	require.Equal(t, [][2]int64{{first, -1}, {first + 2*checkedLogBytes, -1}}, got)
}

func TestCheckTornTail(t *testing.T) {
	for _, unclean := range []bool{false, true} {
		for _, deep := range []bool{false, true} {
			s := newCheckedStore(t)
			s.pokeLog(s.end, s.readLog(s.records[0].PhyOffset, 60)...)
			severity := "error"
			want := []string{}
			if unclean {
				require.NoError(t, os.WriteFile(filepath.Join(s.root, "abort"), []byte("1"), 0o644))
				severity = "warning"
			}
			want = append(want, fmt.Sprintf("%s torn-tail log at %d", severity, s.end))
			if unclean {
				want = append(want, "notice abort-mark state")
			}
			rep := s.check(CheckOptions{Deep: deep})
			require.Equal(t, want, briefs(rep))
			require.Equal(t, "torn end", rep.LogEndKind)
			require.Equal(t, s.end, rep.LogEnd)
			require.Equal(t, unclean, rep.Unclean)
		}
	}
}

// In a store with an abort mark, what recovery puts right is a warning; a record whose unit was flushed has to have it.
func TestCheckUndispatchedTail(t *testing.T) {
	s := newCheckedStore(t)
	last := int64(len(s.units[queueA]) - 1)
	u := s.units[queueA][last]
	s.pokeUnit(queueA, last, cq.Unit{})
	b := s.units[queueB]
	past := b[len(b)-1]
	past.PhyOffset = s.end + 100
	s.pokeUnit(queueB, int64(len(b)), past) // a unit of a record that did not reach the disk
	noUnit := fmt.Sprintf("no-unit log sample_0/1 slot %d at %d", last, u.PhyOffset)
	outside := fmt.Sprintf("outside-log file sample_2/0 slot %d at %d", len(b), past.PhyOffset)
	require.Equal(t, []string{"error " + outside, "error " + noUnit, "error next-offset file sample_0/1"}, briefs(s.check(CheckOptions{Deep: true})))

	require.NoError(t, os.WriteFile(filepath.Join(s.root, "abort"), []byte("1"), 0o644))
	want := []string{"error " + noUnit, "warning " + outside, "warning next-offset file sample_0/1", "notice abort-mark state"}
	require.Equal(t, want, briefs(s.check(CheckOptions{Deep: true})), "the checkpoint says that the unit was flushed")

	require.NoError(t, UpdateCheckpoint(NewLayout(s.root).CheckpointPath(), func(c *Checkpoint) { c.LogicsPhysicalOffset = u.PhyOffset - 1 }))
	want = []string{"warning " + outside, "warning " + noUnit, "warning next-offset file sample_0/1", "notice abort-mark state"}
	rep := s.check(CheckOptions{Deep: true})
	require.Equal(t, want, briefs(rep))
	require.True(t, rep.Sound)
}

func TestCheckLogRun(t *testing.T) {
	s := newCheckedStore(t)
	name := func(i int64) string { return filepath.Join(s.root, "commitlog", mappedfile.Name(i*checkedLogBytes)) }
	files := s.end/checkedLogBytes + 1
	require.NoError(t, os.WriteFile(name(files), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(s.root, "commitlog", "notes"), nil, 0o644))
	require.Equal(t, []string{"warning log-run log", "notice log-foreign log"}, briefs(s.check(CheckOptions{Deep: true})))

	require.NoError(t, os.Remove(name(2)))
	require.NoError(t, os.Truncate(name(4), 100))
	rep := s.check(CheckOptions{Deep: true})
	require.Equal(t, []string{
		fmt.Sprintf("error log-run log at %d", 2*checkedLogBytes), fmt.Sprintf("error log-run log at %d", 4*checkedLogBytes),
		"warning log-run log", "notice log-foreign log",
	}, briefs(rep))
	require.EqualValues(t, 3*checkedLogBytes, rep.Findings[0].EndPhyOffset)
	require.Equal(t, "100 bytes", rep.Findings[1].Got)
	require.Equal(t, []string{"records and queues: the files of the log are no run"}, rep.NotChecked)
}

func TestCheckPropertyCRC(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	dir := filepath.Join(root, "commitlog")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	w := newLogWriter(dir, 4096)
	var last int64
	for i := range 3 {
		m := newMessage("T")
		m.PropertyCRC, m.QueueOffset = true, int64(i)
		size, err := m.EncodedSize()
		require.NoError(t, err)
		m.PhyOffset, err = w.place(int32(size))
		require.NoError(t, err)
		last = m.PhyOffset
		w.buf, err = m.AppendTo(w.buf)
		require.NoError(t, err)
	}
	require.NoError(t, w.finish())
	require.NoError(t, w.close())
	codes := func() (n int64) {
		rep, err := Check(t.Context(), root, CheckOptions{Deep: true})
		require.NoError(t, err)
		for _, f := range rep.Findings {
			if f.Code == CheckPropertyCRC {
				n = f.PhyOffset
				require.Contains(t, f.Got, "propertyCRC ")
			}
		}
		return n
	}
	require.Zero(t, codes())
	f, err := os.OpenFile(filepath.Join(dir, mappedfile.Name(0)), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{'x'}, last+50) // the born host: no other checksum covers it
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, last, codes())
}

func TestCheckStateFiles(t *testing.T) {
	s := newCheckedStore(t)
	l := NewLayout(s.root)
	require.NoError(t, UpdateCheckpoint(l.CheckpointPath(), func(c *Checkpoint) {
		c.LogicsPhysicalOffset, c.ConfirmPhyOffset = s.end+1, s.end+1
		c.PhysicMsgTimestampMs = s.records[len(s.records)-1].StoreTimestampMs + 1
	}))
	rep := s.check(CheckOptions{})
	require.Equal(t, []string{"warning checkpoint-ahead state", "warning checkpoint-ahead state", "warning checkpoint-ahead state"}, briefs(rep))

	require.NoError(t, os.Truncate(l.CheckpointPath(), 20))
	require.Equal(t, []string{"warning checkpoint state"}, briefs(s.check(CheckOptions{})))
	require.NoError(t, os.Remove(l.CheckpointPath()))
	require.Equal(t, []string{"notice checkpoint state"}, briefs(s.check(CheckOptions{})))

	topics := []brokerTopic{{"sample_0", 2}, {"sample_2", 2}}
	require.NoError(t, os.WriteFile(l.TopicsPath(), encodeTopics(topics, 1), 0o644))
	require.Equal(t, []string{"warning topic-not-in-table state sample_1", "notice checkpoint state"}, briefs(s.check(CheckOptions{})))
	require.NoError(t, os.RemoveAll(filepath.Join(s.root, "consumequeue", "sample_1")))
	rep = s.check(CheckOptions{Deep: true})
	require.True(t, rep.Sound, "a topic that was deleted")
	require.Equal(t, CheckDeletedTopic, rep.Counts[1].Code)
	require.EqualValues(t, len(s.units[cq.Key{Topic: "sample_1"}])+len(s.units[cq.Key{Topic: "sample_1", QueueID: 1}]), rep.Counts[1].Count)
	require.NoError(t, os.WriteFile(l.TopicsPath(), []byte("{"), 0o644))
	rep = s.check(CheckOptions{Deep: true})
	require.False(t, rep.Sound, "nothing tells that it was")
	require.Equal(t, CheckMissingQueue, rep.Findings[0].Code)
	require.Contains(t, briefs(rep), "warning topics-unreadable state")
}

func TestCheckRocksPlaces(t *testing.T) {
	s := newCheckedStore(t)
	l := NewLayout(s.root)
	require.NoError(t, os.Mkdir(l.RocksDir(RocksSeparate), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(l.RocksDir(RocksSeparate), "MANIFEST-000001"), nil, 0o644))
	for _, kind := range []cq.Kind{"", cq.KindCombine} {
		rep := s.check(CheckOptions{Deep: true, Kind: kind})
		require.Equal(t, []string{"error rocks-place rocks"}, briefs(rep))
		require.Equal(t, []string{"file"}, rep.Sides)
	}
	for _, layout := range []RocksLayout{RocksSeparate, RocksShared} {
		require.NoError(t, os.WriteFile(filepath.Join(l.RocksDir(layout), "CURRENT"), nil, 0o644))
	}
	rep := s.check(CheckOptions{Deep: true})
	require.Equal(t, []string{"error rocks-place rocks"}, briefs(rep))
	require.Contains(t, rep.Findings[0].Text, "both")
	require.NoError(t, os.RemoveAll(filepath.Join(s.root, "consumequeue")))
	rep, err := Check(t.Context(), s.root, CheckOptions{Deep: true}) // one place alone, and no database that can be opened
	if errors.Is(err, cq.ErrNoRocksDB) {
		return
	}
	require.NoError(t, err)
	require.Equal(t, []string{"error bad-side rocks"}, briefs(rep))
	require.Empty(t, rep.Sides, "no records are told to lack queues that cannot be read")
}

// boundsQueue is a queue of any bounds.
type boundsQueue struct {
	cq.Queue
	b cq.Bounds
}

func (q boundsQueue) Bounds() (cq.Bounds, error) { return q.b, nil }

func TestCheckBadBounds(t *testing.T) {
	for _, b := range []cq.Bounds{{Min: 5, Max: 4}, {Min: -1, Max: 4}, {Min: 4, Max: 4}, {}} {
		c := newChecker(t.Context(), t.TempDir(), CheckOptions{})
		q := &checkedQueue{key: queueA}
		q.sides[sideRocks].q = boundsQueue{b: b}
		require.NoError(t, c.readBounds(q))
		want := []string{}
		if b.Min < 0 || b.Min > b.Max {
			want = append(want, "error bad-bounds rocks sample_0/1")
		}
		require.Equal(t, want, briefs(c.report()))
		require.Equal(t, len(want) == 0, q.sides[sideRocks].usable())
	}
}

func TestCheckProgress(t *testing.T) {
	s := newCheckedStore(t)
	s.flipLog(s.records[3].PhyOffset + 4)
	type phase struct {
		name, unit string
		total      int64
		done       atomic.Int64
	}
	for _, deep := range []bool{true, false} {
		var phases []*phase
		s.check(CheckOptions{Deep: deep, Workers: 3, Progress: func(name string, total int64, unit string) func(int64) {
			p := &phase{name: name, unit: unit, total: total}
			phases = append(phases, p)
			return func(done int64) {
				for old := p.done.Load(); done > old && !p.done.CompareAndSwap(old, done); old = p.done.Load() {
				}
			}
		}})
		var names []string
		for _, p := range phases {
			names = append(names, p.name+" in "+p.unit)
			require.Positive(t, p.total)
			require.Equal(t, p.total, p.done.Load(), p.name)
		}
		require.Equal(t, []string{"bounds in queues", "log in bytes", "queues in queues"}, names)
	}
}

func TestCheckErrors(t *testing.T) {
	_, err := Check(t.Context(), filepath.Join(t.TempDir(), "none"), CheckOptions{})
	require.ErrorContains(t, err, "no such directory")
	root, _ := generate(t, variedOptions())
	_, err = Check(t.Context(), root, CheckOptions{Kind: cq.KindRocks})
	require.ErrorContains(t, err, "no RocksDB consume queues")
	_, err = Check(t.Context(), root, CheckOptions{Kind: "tape"})
	require.ErrorContains(t, err, "tape")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, deep := range []bool{false, true} {
		_, err = Check(ctx, root, CheckOptions{Deep: deep})
		require.ErrorIs(t, err, context.Canceled)
	}
	_, release := holdStore(t, root)
	defer release()
	_, err = Check(t.Context(), root, CheckOptions{})
	var inUse *InUseError
	require.ErrorAs(t, err, &inUse)
}

// The lock is shared with other readers.
func TestCheckSharesTheLock(t *testing.T) {
	root, _ := generate(t, variedOptions())
	lock, err := LockShared(root)
	require.NoError(t, err)
	defer lock.Close()
	_, err = Check(t.Context(), root, CheckOptions{})
	require.NoError(t, err)
}

// An empty store is sound, and one whose queues were never made is not.
func TestCheckEmpty(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "commitlog"), 0o755))
	for _, deep := range []bool{false, true} {
		rep, err := Check(t.Context(), root, CheckOptions{Deep: deep})
		require.NoError(t, err)
		require.Equal(t, []string{"notice checkpoint state"}, briefs(rep))
		require.EqualValues(t, -1, rep.LogMin)
		require.Zero(t, rep.LogEnd)
	}
	s := newCheckedStore(t)
	require.NoError(t, os.RemoveAll(filepath.Join(s.root, "consumequeue")))
	rep := s.check(CheckOptions{Deep: true})
	require.Equal(t, CheckMissingQueue, rep.Counts[0].Code)
	require.False(t, rep.Sound)
}

// stamps are the digests of everything below a store and the times of its files and directories.
func stamps(t *testing.T, root string) map[string]string {
	t.Helper()
	sums := golden.TreeSums(t, root)
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		st, err := d.Info()
		require.NoError(t, err)
		rel, err := filepath.Rel(root, path)
		require.NoError(t, err)
		sums[rel] += fmt.Sprintf(" %s %d %d", st.Mode(), st.Size(), st.ModTime().UnixNano())
		return nil
	}))
	return sums
}

// A check changes no byte and no time, whatever state the store is in.
func TestCheckWritesNothing(t *testing.T) {
	s := newCheckedStore(t)
	noLock := newCheckedStore(t)
	require.NoError(t, os.Remove(filepath.Join(noLock.root, "lock")))
	broken := newCheckedStore(t)
	broken.flipLog(broken.records[5].PhyOffset + 100)
	broken.pokeLog(broken.end, 1, 2, 3)
	require.NoError(t, os.WriteFile(filepath.Join(broken.root, "abort"), nil, 0o644))
	roots := []string{s.root, noLock.root, broken.root, golden.Unpack(t, "file-abort")}
	for _, root := range roots {
		before := stamps(t, root)
		for _, deep := range []bool{false, true} {
			_, err := Check(t.Context(), root, CheckOptions{Deep: deep})
			require.NoError(t, err)
			require.Equal(t, before, stamps(t, root))
		}
	}
}

// With hardly any memory the result is the same: windows that take turns lose no count.
func TestCheckWithFewWindows(t *testing.T) {
	s := newCheckedStore(t)
	s.pokeUnit(queueA, 60, cq.Unit{})
	c := newChecker(t.Context(), s.root, CheckOptions{Deep: true, Workers: 2})
	c.windowUnits = 3 * windowMinUnits
	require.NoError(t, c.run())
	rep := c.report()
	require.Equal(t, []string{"error hole file sample_0/1 slot 60"}, briefs(rep))
	require.Equal(t, rep.Units-1, rep.Proven)
}

func TestUnitWindowsAreBounded(t *testing.T) {
	for _, queues := range []int{0, 1, 100, 1000, 100_000, 1_000_000, 10_000_000} {
		for _, sides := range []int{1, 2} {
			w := newUnitWindows(windowBudgetUnits, queues, sides)
			require.LessOrEqual(t, len(w.places)*w.units, windowBudgetUnits)
			require.LessOrEqual(t, len(w.places), windowBudgetUnits/windowMinUnits)
			require.NotEmpty(t, w.places)
		}
	}
}
