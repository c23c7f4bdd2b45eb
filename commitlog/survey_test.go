package commitlog

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
)

// openRecovery opens the log in dir for repair.
func openRecovery(t *testing.T, dir string) *Recovery {
	t.Helper()
	r, err := OpenRecovery(RecoveryOptions{Dir: dir, SetAsideDir: filepath.Join(dir, "aside")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// positions returns where the records of the log in dir stand that are no placeholders, and requires that it ends cleanly.
func positions(t *testing.T, dir string) (phys []int64, placeholders int) {
	t.Helper()
	log, err := Open(dir, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	s := log.Scanner(-1, ScanOptions{CheckCRC: true})
	defer s.Close()
	for s.Next() {
		if r := s.Record(); r.OwesUnit() {
			phys = append(phys, r.PhyOffset)
		} else {
			require.Contains(t, placeholderTopic, string(r.Topic))
			placeholders++
		}
	}
	require.NoError(t, s.Err())
	require.Equal(t, EndClean, s.End().Kind)
	return phys, placeholders
}

// damages are logs of 4096-byte files, the first at 4096, with damage in the middle.
var damages = []struct {
	name   string
	build  func(b *builder)
	hurt   []int // records that are damaged
	given  []int // records that mending has to give up besides
	ranges int
	lost   bool // the first range lost a page
}{
	{name: "one body", build: func(b *builder) { b.add(100, 100, 100); b.at(b.records[1])[100] ^= 1 }, hurt: []int{1}, ranges: 1},
	{name: "the first record", build: func(b *builder) { b.add(100, 100, 100); b.at(b.first)[4] ^= 1 }, hurt: []int{0}, ranges: 1},
	{name: "two ranges", build: func(b *builder) {
		b.add(100, 100, 100, 100, 100)
		b.at(b.records[1])[4] ^= 1
		b.at(b.records[3])[4] ^= 1
	}, hurt: []int{1, 3}, ranges: 2},
	{name: "to the end of a file", build: func(b *builder) {
		b.add(1000, 1000, 1000, 1000)
		clear(b.at(b.records[2]))
	}, hurt: []int{2}, ranges: 1, lost: true},
	{name: "over the end of a file", build: func(b *builder) {
		b.add(1000, 1000, 1000, 1000, 1000)
		clear(b.at(b.records[2]))
		clear(b.at(b.records[3])[:200])
	}, hurt: []int{2, 3}, ranges: 1, lost: true},
	{name: "a whole file", build: func(b *builder) {
		b.add(1000, 1000, 1000, 1000, 1000, 1000, 1000)
		clear(b.at(b.records[3]))
	}, hurt: []int{3, 4, 5}, ranges: 1, lost: true},
	{name: "a filler", build: func(b *builder) {
		b.add(1000, 1000, 1000, 1000)
		clear(b.at(b.records[2] + int64(b.sizes[2]))[:8])
	}, ranges: 1, lost: true},
	{name: "a record of another place", build: func(b *builder) { // W20, FR-B05
		b.add(100, 100, 100, 100)
		copy(b.at(b.records[2]), b.at(b.records[1])[:b.sizes[1]])
	}, hurt: []int{2}, ranges: 1},
	{name: "a file without room for a filler", build: func(b *builder) {
		b.add(100)
		b.force(b.fill(3))
		b.roll()
		b.add(100)
	}, given: []int{1}, ranges: 1},
	{name: "a file that is full", build: func(b *builder) {
		b.add(100)
		b.force(b.fill(0))
		b.roll()
		b.add(100)
	}, given: []int{1}, ranges: 1},
	{name: "too small for a placeholder", build: func(b *builder) {
		b.add(100).raw([]byte("fifty bytes that nobody knows where they come from")).add(100, 100)
	}, given: []int{1}, ranges: 1},
	{name: "too small before other damage", build: func(b *builder) {
		b.add(100).raw([]byte("fifty bytes that nobody knows where they come from")).add(0, 100, 100)
		b.at(b.records[2])[4] ^= 1
	}, hurt: []int{2}, given: []int{1}, ranges: 2},
	{name: "too small before a filler", build: func(b *builder) {
		b.add(100).raw([]byte("fifty bytes that nobody knows where they come from")).blank().add(100)
	}, ranges: 1},
}

// without returns the positions of b's records but for some.
func without(b *builder, gone ...int) (left []int64) {
	for i, phy := range b.records {
		keep := true
		for _, g := range gone {
			keep = keep && g != i
		}
		if keep {
			left = append(left, phy)
		}
	}
	return left
}

func TestMendKeepsWhatLiesBehindDamage(t *testing.T) {
	for _, tt := range damages {
		t.Run(tt.name, func(t *testing.T) {
			b := newBuilder(t, 4096, 4096)
			tt.build(b)
			dir := b.write()
			r := openRecovery(t, dir)
			s, err := r.Survey(t.Context())
			require.NoError(t, err)
			require.Len(t, s.Damage, tt.ranges)
			require.Equal(t, tt.lost, s.Damage[0].LostPage)
			require.Equal(t, EndClean, s.Kind)
			done, err := r.Mend(t.Context(), s)
			require.NoError(t, err)
			require.Len(t, done.Given, len(tt.given))
			for i, g := range tt.given {
				require.Equal(t, b.records[g], done.Given[i].PhyOffset)
			}
			phys, _ := positions(t, dir)
			require.Equal(t, without(b, append(tt.hurt, tt.given...)...), phys)
			s, err = r.Survey(t.Context())
			require.NoError(t, err)
			require.Empty(t, s.Damage)
			requireSaved(t, b, done)
			o := DefaultWriterOptions(dir)
			o.FileSize = 4096
			w, err := OpenWriter(o)
			require.NoError(t, err)
			require.NoError(t, w.Close())
		})
	}
}

// requireSaved checks that what was set aside is what stood in the log.
func requireSaved(t *testing.T, b *builder, done *Repaired) {
	t.Helper()
	m, err := ReadManifest(nil, done.Dir)
	require.NoError(t, err)
	require.True(t, m.Done)
	require.Equal(t, done.Saved, m.Saved)
	for _, s := range m.Saved {
		got, err := os.ReadFile(filepath.Join(done.Dir, s.As))
		require.NoError(t, err)
		require.Equal(t, b.at(s.PhyOffset)[:s.Bytes], got, s.As)
	}
}

func TestW7AcceptedLossIsSetAside(t *testing.T) {
	for _, tt := range damages {
		t.Run(tt.name, func(t *testing.T) {
			b := newBuilder(t, 4096, 4096)
			tt.build(b)
			dir := b.write()
			r := openRecovery(t, dir)
			s, err := r.Survey(t.Context())
			require.NoError(t, err)
			cut := s.Damage[0].From
			done, err := r.AcceptLoss(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, cut, done.CutAt)
			var want []int64
			for _, phy := range b.records {
				if phy < cut {
					want = append(want, phy)
				}
			}
			phys, placeholders := positions(t, dir)
			require.Equal(t, want, phys)
			require.Zero(t, placeholders)
			requireSaved(t, b, done)
			saved := map[int64]bool{}
			for _, s := range done.Saved {
				for at := s.PhyOffset; at < s.PhyOffset+s.Bytes; at++ {
					saved[at] = true
				}
			}
			for i, phy := range b.records {
				if phy >= cut {
					require.True(t, saved[phy] && saved[phy+int64(b.sizes[i])-1], "record %d is set aside", i)
				}
			}
			require.FileExists(t, filepath.Join(dir, mappedfile.Name(4096)), "the log begins where it began")
		})
	}
}

// The default is to change nothing, not even a time of a file.
func TestSurveyOnlyReads(t *testing.T) {
	b := newBuilder(t, 4096, 4096)
	b.add(100, 100, 100)
	b.at(b.records[1])[100] ^= 1
	dir := b.write()
	r, err := OpenRecovery(RecoveryOptions{Dir: dir, ReadOnly: true})
	require.NoError(t, err)
	s, err := r.Survey(t.Context())
	require.NoError(t, err)
	require.Len(t, s.Damage, 1)
	require.Equal(t, b.records[1], s.Damage[0].From)
	require.Equal(t, b.records[2], s.Damage[0].To)
	_, err = r.Mend(t.Context(), s)
	require.ErrorIs(t, err, mappedfile.ErrReadOnly)
	_, err = r.AcceptLoss(t.Context(), s)
	require.ErrorIs(t, err, mappedfile.ErrReadOnly)
	_, err = r.Rewrite(t.Context(), 0)
	require.ErrorIs(t, err, mappedfile.ErrReadOnly)
	require.NoError(t, r.Close())
	got, err := os.ReadFile(b.path(dir, 0))
	require.NoError(t, err)
	require.Equal(t, b.files[0], got)
}

// Reading begins where the log is not known to be whole: by position, by time, or with the last file that begins with a record.
func TestSurveyBeginsWhereNothingIsKnown(t *testing.T) {
	b := newBuilder(t, 4096, 4096)
	b.add(1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000) // three files of three
	dir := b.write()
	ms := func(i int) int64 { return testMessage(b.records[i], 0).StoreTimestampMs }
	for _, tt := range []struct {
		name string
		o    RecoveryOptions
		from int64
	}{
		{"nothing is known", RecoveryOptions{}, 4096},
		{"a position", RecoveryOptions{DurableTo: b.records[4]}, 8192},
		{"a position in the last file", RecoveryOptions{DurableTo: b.records[7]}, 12288},
		{"a position behind the log", RecoveryOptions{DurableTo: 1 << 40}, 12288},
		{"a time", RecoveryOptions{DurableBeforeMs: ms(4)}, 8192},
		{"the time of the first record of a file", RecoveryOptions{DurableBeforeMs: ms(3)}, 4096},
		{"a time behind the log", RecoveryOptions{DurableBeforeMs: time.Now().UnixMilli()}, 12288},
		{"a time before the log", RecoveryOptions{DurableBeforeMs: 1}, 4096},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Dir = dir
			r, err := OpenRecovery(tt.o)
			require.NoError(t, err)
			defer func() { require.NoError(t, r.Close()) }()
			s, err := r.Survey(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.from, s.From)
		})
	}
}

// A placeholder of any size is a record that says where it stands and owes no unit.
func TestPlaceholderSizes(t *testing.T) {
	for _, crc := range []bool{false, true} {
		d := Damage{storeMs: 5, crc: crc}
		for size := d.minPlaceholder(); size < 400; size++ {
			m := d.placeholder(77, size)
			p, err := m.AppendTo(nil)
			require.NoError(t, err)
			require.Len(t, p, int(size))
			var r message.Record
			require.NoError(t, r.Decode(p, true))
			require.False(t, r.OwesUnit())
			require.Equal(t, crc, hasPropertyCRC(&r))
		}
	}
}

// Ranges longer than a placeholder are cut so that nothing is left over.
func TestMendLongDamage(t *testing.T) {
	for _, rest := range []int{0, 1, 91, 92, 5000} {
		b := newBuilder(t, 4<<20, 0)
		b.add(100, 2*maxPlaceholder+rest-overhead(t), 100)
		b.at(b.records[1])[9] ^= 1
		dir := b.write()
		r := openRecovery(t, dir)
		s, err := r.Survey(t.Context())
		require.NoError(t, err)
		_, err = r.Mend(t.Context(), s)
		require.NoError(t, err)
		phys, placeholders := positions(t, dir)
		require.Equal(t, without(b, 1), phys)
		require.GreaterOrEqual(t, placeholders, 2)
	}
}

// The bytes of a torn tail are set aside before they are cut off, unless they are a few.
func TestTornTailIsSetAside(t *testing.T) {
	for _, tt := range []struct {
		name string
		cut  int
		kept bool
	}{{"half a record", 150, true}, {"the beginning of a header", 12, false}} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBuilder(t, 4096, 4096)
			b.add(100, 200)
			clear(b.at(b.records[1])[tt.cut:])
			dir := b.write()
			o := DefaultWriterOptions(dir)
			o.FileSize, o.SetAsideDir = 4096, filepath.Join(t.TempDir(), "a", "b")
			w, err := OpenWriter(o)
			require.NoError(t, err)
			require.Equal(t, b.records[1], w.Positions().Wrote)
			require.NoError(t, w.Close())
			entries, err := os.ReadDir(o.SetAsideDir)
			if !tt.kept {
				require.ErrorIs(t, err, os.ErrNotExist)
				return
			}
			require.NoError(t, err)
			require.Len(t, entries, 1)
			m, err := ReadManifest(nil, filepath.Join(o.SetAsideDir, entries[0].Name()))
			require.NoError(t, err)
			require.Equal(t, b.records[1], m.CutAt)
			require.Len(t, m.Saved, 1)
			got, err := os.ReadFile(filepath.Join(o.SetAsideDir, entries[0].Name(), m.Saved[0].As))
			require.NoError(t, err)
			require.Equal(t, b.at(b.records[1])[:tt.cut], got)
		})
	}
}
