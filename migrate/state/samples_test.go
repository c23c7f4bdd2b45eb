package state

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/latency"
)

var sampleTime = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func sampleAt(second int, phase Phase) Sample {
	return Sample{Time: sampleTime.Add(time.Duration(second) * time.Second), Phase: phase, Done: int64(second), Of: 1e6, Unit: "bytes", Puts: latency.Counts{7: 1}}
}

// However long a migration takes, its samples are few, and a put that was timed is in one of them.
func TestSamplesAreBounded(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenSamples(dir, time.Second)
	require.NoError(t, err)
	taken := 0
	for i := range 5000 {
		x := sampleAt(i, Backfilling)
		if s.Wanted(x.Phase, x.Work, x.Time) {
			taken++
		}
		x.Disk = map[cq.Kind]int64{cq.KindFile: 1}
		if i != 77 {
			x.Disk = nil
		}
		s.Add(x, false)
	}
	require.NoError(t, s.Close())
	all, err := LoadSamples(dir)
	require.NoError(t, err)
	require.Less(t, len(all), maxStretch)
	require.Greater(t, len(all), maxStretch/3)
	var puts int64
	disks := 0
	for i, x := range all {
		puts += x.Puts.Total()
		if x.Disk != nil {
			disks++
		}
		if i > 0 {
			require.Greater(t, x.Done, all[i-1].Done, "in order")
		}
	}
	require.EqualValues(t, taken, puts)
	require.Equal(t, 1, disks)
	require.Zero(t, all[0].Done, "the beginning stays")
	require.Greater(t, all[len(all)-1].Done, int64(4900), "and so does the end")

	// Opened again, they go on; stretches have their own samples, and the oldest go in the end.
	s, err = OpenSamples(dir, time.Second)
	require.NoError(t, err)
	for i := range 30 * maxStretch {
		phase := Verifying
		if i/150%2 == 1 {
			phase = Repairing
		}
		s.Add(sampleAt(6000+i, phase), false)
	}
	require.NoError(t, s.Close())
	all, err = LoadSamples(dir)
	require.NoError(t, err)
	require.LessOrEqual(t, len(all), maxSamples)
	require.Greater(t, len(all), maxSamples/2)
	require.EqualValues(t, 6000+30*maxStretch-1, all[len(all)-1].Done)
	st, err := os.Stat(filepath.Join(dir, SamplesFileName))
	require.NoError(t, err)
	require.Less(t, st.Size(), int64(1<<20))
}

func TestSamplesTooNearAreLeftOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tandemmq")
	s, err := OpenSamples(dir, time.Second)
	require.NoError(t, err)
	x := sampleAt(0, Planned)
	s.Add(x, false) // there is no directory yet
	x.Time = x.Time.Add(time.Millisecond)
	s.Add(x, false)
	require.False(t, s.Wanted(x.Phase, x.Work, x.Time))
	require.True(t, s.Wanted(x.Phase, "other", x.Time))
	require.NoError(t, os.Mkdir(dir, 0o755))
	x.Time, x.Done = x.Time.Add(time.Millisecond), 5
	s.Add(x, true)
	s.Add(sampleAt(1, Backfilling), false)
	require.NoError(t, s.Close())
	all, err := LoadSamples(dir)
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, []int64{0, 5, 1}, []int64{all[0].Done, all[1].Done, all[2].Done})
}

// A line that was cut off by a crash costs that line.
func TestSamplesAreReadOverACutLine(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenSamples(dir, time.Second)
	require.NoError(t, err)
	s.Add(sampleAt(0, Planned), false)
	s.Add(sampleAt(10, Planned), false)
	require.NoError(t, s.Close())
	path := filepath.Join(dir, SamplesFileName)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(b[:len(b)-20], 0, 0, 0), 0o644))
	all, err := LoadSamples(dir)
	require.NoError(t, err)
	require.Len(t, all, 1)
	s, err = OpenSamples(dir, time.Second)
	require.NoError(t, err)
	s.Add(sampleAt(20, Planned), false)
	require.NoError(t, s.Close())
	all, err = LoadSamples(dir)
	require.NoError(t, err)
	require.Len(t, all, 2)

	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o755))
	_, err = OpenSamples(dir, time.Second)
	require.ErrorContains(t, err, path)
}
