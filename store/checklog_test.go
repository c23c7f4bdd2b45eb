package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

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
