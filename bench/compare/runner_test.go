package compare

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// fake is a scenario whose runs are noted.
func fake(name string, engines []string, ran *[]string, run func(r *Run) error) Scenario {
	return Scenario{Name: name, Title: name, Engines: engines, Headline: "doPerSecond", Disk: 1 << 20, Run: func(_ context.Context, r *Run) error {
		*ran = append(*ran, name+" "+r.Engine)
		r.Figures["doPerSecond"] = float64(len(*ran))
		r.checked("it was done")
		if run == nil {
			return nil
		}
		return run(r)
	}}
}

func runner(t *testing.T, scenarios ...Scenario) *Runner {
	dir := t.TempDir()
	return &Runner{Dir: dir, Cache: filepath.Join(dir, "cache"), Profile: Quick, Engines: []string{File, Rocks}, Reps: 2, Scenarios: scenarios}
}

// requireClean demands that nothing but the cache is left.
func requireClean(t *testing.T, x *Runner) {
	t.Helper()
	entries, err := os.ReadDir(x.Dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestOrder(t *testing.T) {
	var ran []string
	x := runner(t, fake("a", storeEngines, &ran, nil), fake("b", []string{Rocks, "own"}, &ran, func(r *Run) error {
		entries, err := os.ReadDir(r.Dir)
		require.NoError(t, err)
		require.Empty(t, entries)
		return os.WriteFile(filepath.Join(r.Dir, "some"), make([]byte, 8192), 0o600)
	}), fake("java", []string{Java}, &ran, nil))
	full := fake("full", []string{File}, &ran, nil)
	full.Full = true
	x.Scenarios = append(x.Scenarios, full)
	var told []string
	x.Told = func(n int, scenario, engine string, _ Repetition) {
		told = append(told, strings.Repeat("'", n)+scenario+" "+engine)
	}
	rep, err := x.Run(t.Context())
	require.NoError(t, err)
	once := []string{"a file", "a rocks", "b rocks", "b own"}
	require.Equal(t, append(once, once...), ran)
	require.Equal(t, "'a file", told[0])
	require.Equal(t, "''b own", told[7])
	require.Len(t, rep.Rows, 4)
	require.Zero(t, rep.Failed())
	v, ok := rep.Row("a", Rocks).Spread("doPerSecond")
	require.True(t, ok)
	require.Equal(t, [3]float64{2, 6, 6}, v)
	require.Positive(t, rep.Row("b", "own").Repetitions[0].Figures[diskFigure])
	requireClean(t, x)

	x.Profile = Full
	rep, err = x.Run(t.Context())
	require.NoError(t, err)
	require.NotNil(t, rep.Row("full", File))
	x.Only = regexp.MustCompile("^none$")
	_, err = x.Run(t.Context())
	require.ErrorContains(t, err, "no scenario has this name")
}

// A run that fails is told, is not tried again, and does not count in the spread; the others go on.
func TestFailures(t *testing.T) {
	var ran []string
	unchecked := fake("unchecked", []string{File}, &ran, func(r *Run) error {
		r.Checks = nil
		return nil
	})
	headless := fake("headless", []string{File}, &ran, nil)
	headless.Headline = "otherPerSecond"
	large := fake("large", []string{File}, &ran, func(r *Run) error {
		return os.WriteFile(filepath.Join(r.Dir, "some"), make([]byte, 2<<20), 0o600)
	})
	slow := fake("slow", []string{File}, &ran, nil)
	slow.Limit, slow.Run = 10*time.Millisecond, func(ctx context.Context, r *Run) error {
		<-ctx.Done()
		r.checked("nothing")
		return nil // it says that all is well
	}
	second := 0
	x := runner(t, fake("lost", []string{File, Rocks}, &ran, func(r *Run) error {
		if r.Engine == Rocks {
			return errors.New("queue 3 lacks a message")
		}
		return nil
	}), fake("later", []string{File}, &ran, func(r *Run) error {
		if second++; second == 2 {
			return errors.New("the second time")
		}
		return nil
	}), unchecked, headless, large, slow)
	rep, err := x.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, 6, rep.Failed())
	for name, want := range map[string]string{"unchecked": "nothing was checked", "headless": "no figure otherPerSecond", "large": "bytes of disk", "slow": "stopped after 10ms", "later": "the second time"} {
		row := rep.Row(name, File)
		require.Contains(t, row.Failed(), want)
		if name != "later" {
			require.Len(t, row.Repetitions, 1, name)
		}
	}
	require.Equal(t, "queue 3 lacks a message", rep.Row("lost", Rocks).Failed())
	require.Len(t, rep.Row("lost", File).Repetitions, 2)
	_, ok := rep.Row("lost", Rocks).Spread("doPerSecond")
	require.False(t, ok)
	v, ok := rep.Row("later", File).Spread("doPerSecond")
	require.True(t, ok)
	require.InDelta(t, v[0], v[2], 0)
	requireClean(t, x)
	var out strings.Builder
	require.NoError(t, rep.Text(&out))
	require.Contains(t, out.String(), "FAILED lost with rocks: queue 3 lacks a message\n")
}

func TestStopped(t *testing.T) {
	var ran []string
	ctx, cancel := context.WithCancel(t.Context())
	x := runner(t, fake("a", []string{File, Rocks}, &ran, func(*Run) error {
		cancel()
		return nil
	}))
	rep, err := x.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, rep)
	require.Len(t, ran, 1)
	requireClean(t, x)
}

// What was measured before it was stopped is not lost.
func TestStoppedLater(t *testing.T) {
	var ran []string
	ctx, cancel := context.WithCancel(t.Context())
	x := runner(t, fake("a", []string{File, Rocks}, &ran, func(*Run) error {
		if len(ran) == 4 {
			cancel()
		}
		return nil
	}))
	rep, err := x.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, rep.Row("a", File).Repetitions, 2)
	require.Len(t, rep.Row("a", Rocks).Repetitions, 1)
	require.Zero(t, rep.Failed())
	require.Equal(t, []string{"what was to come in repetition 2 of 2, and behind it: context canceled"}, rep.Left)
	requireClean(t, x)
}

// What does not fit on the disk, and what comes after the time of the profile, is left out with a line.
func TestLeft(t *testing.T) {
	var ran []string
	huge := fake("huge", []string{File}, &ran, nil)
	huge.Disk = 1 << 60
	asked := 0
	huge.Unfit = func() string { // as what is free differs
		if asked++; asked == 1 {
			return ""
		}
		return "another reason"
	}
	x := runner(t, huge, fake("a", []string{File}, &ran, nil))
	x.Left = []string{"engine java: no JDK"}
	rep, err := x.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a file", "a file"}, ran)
	require.Len(t, rep.Left, 2)
	require.Equal(t, "engine java: no JDK", rep.Left[0])
	require.Contains(t, rep.Left[1], "huge: needs ")
	// A repetition that is not the first is made as far as the time goes: a has taken a while.
	g := x.groups()[1]
	g.took[File] = profileTime(Quick)
	late, err := x.repeat(t.Context(), 2, []*group{g}, 1, t.TempDir(), time.Now().Add(-time.Second), rep)
	require.NoError(t, err)
	require.Equal(t, 1, late)
	require.Len(t, ran, 2)
	require.Len(t, rep.Left, 2, "it was run before")
	g.took = map[string]time.Duration{}
	_, err = x.repeat(t.Context(), 1, []*group{g}, 1, t.TempDir(), time.Now().Add(-profileTime(Quick)-time.Second), rep)
	require.NoError(t, err)
	require.Equal(t, "the time of the profile was over before: a file", rep.Left[2])
	for _, p := range []Profile{Quick, Full} {
		x.Profile = p
		require.True(t, x.late(time.Now().Add(-profileTime(p)), time.Second))
		require.False(t, x.late(time.Now(), time.Second))
	}
	x.Profile = Tiny
	require.False(t, x.late(time.Now().Add(-time.Hour), time.Hour))
}

// The quick profile has fewer engines, unless they were chosen, and what it leaves out is told; what takes long is done once.
func TestProfiles(t *testing.T) {
	var ran []string
	few := fake("put/few", []string{File, Rocks, Combine}, &ran, nil)
	few.QuickEngines, few.Once = []string{File, Combine}, true
	full := fake("put/full", []string{File}, &ran, nil)
	full.Full = true
	own := fake("layout/own", []string{"own", "other"}, &ran, nil)
	own.QuickEngines = []string{"own"}
	x := runner(t, few, full, own, fake("open/same", []string{File}, &ran, nil))
	rep, err := x.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"put/few file", "layout/own own", "open/same file", "layout/own own", "open/same file"}, ran)
	require.Equal(t, []string{"put: few with rocks, full", "layout: own with other"}, rep.Full)
	require.Equal(t, []string{"put/few", "layout/own", "open/same"}, x.Chosen())
	var out strings.Builder
	require.NoError(t, rep.Text(&out))
	require.Contains(t, out.String(), "the full profile adds put: few with rocks, full\n")

	x.Narrow, ran = true, nil
	rep, err = x.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"put/few file", "put/few rocks", "layout/own own", "layout/own other", "open/same file"}, ran[:5])
	require.Equal(t, []string{"put: full"}, rep.Full)
	x.Profile = Full
	rep, err = x.Run(t.Context())
	require.NoError(t, err)
	require.Empty(t, rep.Full)
	require.Len(t, rep.Row("put/few", Rocks).Repetitions, 1)
	require.Len(t, rep.Row("put/full", File).Repetitions, 2)
}

// Memory is brought in before what asks for it, and files of what has many are emptied and stay.
func TestAround(t *testing.T) {
	var ran []string
	pages := fake("pages", []string{File}, &ran, nil)
	pages.NewPages = true
	many := fake("many", []string{File}, &ran, func(r *Run) error {
		return os.WriteFile(filepath.Join(r.Dir, "some"), make([]byte, 8192), 0o600)
	})
	many.ManyFiles = true
	var left string
	last := fake("last", []string{File}, &ran, func(r *Run) error {
		left = filepath.Join(filepath.Dir(r.Dir), "1-file", "some")
		info, err := os.Stat(left)
		require.NoError(t, err)
		require.Zero(t, info.Size())
		return nil
	})
	x := runner(t, pages, many, last)
	x.Reps = 1
	x.Memory = func(bytes int64) error {
		ran = append(ran, "memory")
		require.Equal(t, newPages(Quick), bytes)
		return nil
	}
	rep, err := x.Run(t.Context())
	require.NoError(t, err)
	require.Zero(t, rep.Failed())
	require.Equal(t, []string{"memory", "pages file", "many file", "last file"}, ran)
	require.NoFileExists(t, left)
	x.Memory = func(int64) error { return errors.New("no memory") }
	rep, err = x.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, rep.Failed())
	require.Equal(t, "no memory", rep.Row("pages", File).Failed())
}

// Scenarios of one run take their own figures.
func TestShared(t *testing.T) {
	var ran []string
	one := fake("read/pull", []string{File}, &ran, func(r *Run) error {
		r.Figures["pullPerSecond"], r.Figures["getMicros"] = 7, 8
		r.Figures[peakFigure], r.Figures["get"+ownPeak] = 5, 50 // a process of its own has done the one
		return nil
	})
	one.Shared, one.Prefix, one.Headline = "read", "pull", "pullPerSecond"
	two := one
	two.Name, two.Prefix, two.Headline = "read/get", "get", "getMicros"
	x := runner(t, one, two)
	x.Reps = 1
	rep, err := x.Run(t.Context())
	require.NoError(t, err)
	require.Len(t, ran, 1)
	require.InDelta(t, 8, rep.Row("read/get", File).Repetitions[0].Figures["getMicros"], 0)
	require.NotContains(t, rep.Row("read/get", File).Repetitions[0].Figures, "pullPerSecond")
	require.Contains(t, rep.Row("read/get", File).Repetitions[0].Figures, diskFigure)
	require.NotContains(t, rep.Row("read/get", File).Repetitions[0].Figures, peakFigure)
	require.InDelta(t, 5, rep.Row("read/pull", File).Repetitions[0].Figures[peakFigure], 0)
}

// An input is made once, whole or not at all, and a copy of it has its holes, also where blocks had been reserved and looked at.
func TestInput(t *testing.T) {
	r := &Run{Cache: t.TempDir()}
	made := 0
	begin := func(dir string) error {
		made++
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
		f, err := os.Create(filepath.Join(dir, "sub", "some"))
		require.NoError(t, err)
		require.NoError(t, f.Truncate(8<<20))
		_, err = f.WriteAt([]byte("in the middle"), 4<<20)
		require.NoError(t, err)
		reserved, err := os.Create(filepath.Join(dir, "sub", "reserved"))
		require.NoError(t, err)
		require.NoError(t, mmap.Preallocate(reserved, 0, 8<<20))
		_, err = io.Copy(io.Discard, reserved)
		require.NoError(t, err)
		return errors.Join(f.Close(), reserved.Close(), map[bool]error{true: errors.New("broken")}[made == 1])
	}
	_, err := r.Input("some", begin)
	require.ErrorContains(t, err, "make input some: broken")
	entries, err := os.ReadDir(r.Cache)
	require.NoError(t, err)
	require.Empty(t, entries)
	for range 2 {
		_, err = r.Input("some", begin)
		require.NoError(t, err)
	}
	require.Equal(t, 2, made)
	from, err := r.Input("some", begin)
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, CopyInput(from, to))
	want, err := os.ReadFile(filepath.Join(from, "sub", "some"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(to, "sub", "some"))
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.ErrorIs(t, CopyInput(from, to), os.ErrExist)
	for _, name := range []string{"some", "reserved"} {
		var st syscall.Stat_t
		require.NoError(t, syscall.Stat(filepath.Join(to, "sub", name), &st))
		require.EqualValues(t, 8<<20, st.Size)
		require.Less(t, st.Blocks*512, st.Size/2, name)
	}
}

// Inputs are made before anything is measured, and what cannot be made fails its row.
func TestPrepare(t *testing.T) {
	var ran []string
	made := 0
	one := fake("one", []string{File, Rocks}, &ran, func(r *Run) error {
		if r.Engine == Rocks {
			_, err := r.Input("other", func(string) error { return errors.New("no room") })
			return err
		}
		_, err := r.Input("some", func(dir string) error {
			made++
			return os.Mkdir(dir, 0o755)
		})
		return err
	})
	one.Inputs = true
	x := runner(t, fake("before", []string{File}, &ran, nil), one)
	rep, err := x.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"one file", "one rocks", "before file", "one file", "before file", "one file"}, ran)
	require.Equal(t, 1, made)
	require.Equal(t, 1, rep.Failed())
	require.Equal(t, "make input other: no room", rep.Row("one", Rocks).Failed())
	require.Len(t, rep.Row("one", File).Repetitions, 2)
	requireClean(t, x)
}
