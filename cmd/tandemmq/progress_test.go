package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vbauerster/mpb/v8"
)

// stepClock is a clock that a test moves by hand.
type stepClock struct{ t time.Time }

func (c *stepClock) now() time.Time { return c.t }

func TestProgressLines(t *testing.T) {
	var out bytes.Buffer
	clock := &stepClock{t: time.Unix(1000, 0)}
	p := newProgress(&out, progressLines)
	p.now = clock.now

	update := p.Phase("backfill", 10_000_000, "units")
	update(0)
	clock.t = clock.t.Add(time.Second)
	update(1_000_000) // too early for a line
	clock.t = clock.t.Add(3 * time.Second)
	update(4_000_000)
	clock.t = clock.t.Add(6 * time.Second)
	update(10_000_000)
	update = p.Phase("copy", 0, "bytes")
	clock.t = clock.t.Add(4 * time.Second)
	update(3 << 20)
	p.Finish()
	p.Finish()
	update(4 << 20)

	require.Equal(t, `backfill: 10,000,000 units to do
backfill: 4,000,000 of 10,000,000 units (40.0%), 1,000,000 units/s, 6s left
backfill: 10,000,000 of 10,000,000 units (100.0%), 1,000,000 units/s
backfill: 10,000,000 units in 10s (1,000,000 units/s)
copy ...
copy: 3.0 MiB
copy: 3.0 MiB in 4s
`, out.String())
}

// Work that was resumed begins with what was done before; that is not this run's speed.
func TestProgressLinesResumed(t *testing.T) {
	var out bytes.Buffer
	clock := &stepClock{t: time.Unix(1000, 0)}
	p := newProgress(&out, progressLines)
	p.now = clock.now
	update := p.Phase("backfill", 1000, "units")
	update(900)
	clock.t = clock.t.Add(10 * time.Second)
	update(950)
	p.Finish()
	require.Contains(t, out.String(), "backfill: 950 of 1,000 units (95.0%), 5 units/s, 10s left\n")
}

// What the first update told, and the time it took, do not count: the rate is that of the work in between.
func TestProgressRateBeginsWithTheFirstUpdate(t *testing.T) {
	var out bytes.Buffer
	clock := &stepClock{t: time.Unix(1000, 0)}
	p := newProgress(&out, progressLines)
	p.now = clock.now
	update := p.Phase("put", 1000, "messages")
	clock.t = clock.t.Add(10 * time.Second)
	update(500) // a batch that took ten seconds, or the wait for it
	clock.t = clock.t.Add(5 * time.Second)
	update(600)
	p.Finish()
	require.Equal(t, `put: 1,000 messages to do
put: 500 of 1,000 messages (50.0%)
put: 600 of 1,000 messages (60.0%), 20 messages/s, 20s left
put: 600 messages in 15s (20 messages/s)
`, out.String())
}

func TestProgressLinesTotalTooLow(t *testing.T) {
	var out bytes.Buffer
	clock := &stepClock{t: time.Unix(1000, 0)}
	p := newProgress(&out, progressLines)
	p.now = clock.now
	update := p.Phase("verify", 10, "units")
	clock.t = clock.t.Add(lineInterval)
	update(25)
	p.Finish()
	require.Contains(t, out.String(), "verify: 25 of 25 units (100.0%)\n")
}

// A phase that counted nothing says how long it took, never "0 B".
func TestProgressLinesNothingCounted(t *testing.T) {
	var out bytes.Buffer
	clock := &stepClock{t: time.Unix(1000, 0)}
	p := newProgress(&out, progressLines)
	p.now = clock.now
	p.Phase("backfill", 0, "bytes")
	clock.t = clock.t.Add(27 * time.Millisecond)
	p.Phase("compare", 4, "queues")
	clock.t = clock.t.Add(2 * time.Second)
	update := p.Phase("compact", 0, "bytes")
	clock.t = clock.t.Add(90 * time.Second)
	update(0)
	late := p.Phase("flush", 5, "units")
	update(1 << 20) // its phase is over
	late(0)
	p.Finish()
	clock.t = clock.t.Add(time.Minute)
	late(5)

	require.Equal(t, `backfill ...
backfill: done in 27ms
compare: 4 queues to do
compare: done in 2s
compact ...
compact: 1m30s
compact: done in 1m30s
flush: 5 units to do
flush: 0 units in 0s
`, out.String())
}

// The bars of ended phases are drawn again with every refresh: they say what they said at the end. One that has nothing
// to count shows its time.
func TestProgressBarTexts(t *testing.T) {
	var out bytes.Buffer
	clock := &stepClock{t: time.Unix(1000, 0)}
	p := newProgress(&out, progressBars)
	p.now = clock.now
	p.bars = mpb.New(mpb.WithOutput(&out), mpb.WithManualRefresh(make(chan any)))
	defer p.Finish()

	update := p.Phase("backfill", 1000, "units")
	backfill := p.current
	update(0)
	clock.t = clock.t.Add(10 * time.Second)
	update(1000)
	p.Phase("compact", 0, "bytes")
	compact := p.current
	clock.t = clock.t.Add(90 * time.Second)
	update(10)
	require.Equal(t, "1,000 of 1,000 units (100.0%), 100 units/s", backfill.describe())
	require.Equal(t, "1m30s", compact.describe())
	p.Phase("flush", 0, "bytes")
	clock.t = clock.t.Add(time.Hour)
	require.Equal(t, "done in 1m30s", compact.describe())
}

func TestProgressSilent(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, progressSilent)
	p.Phase("backfill", 10, "units")(10)
	p.Finish()
	require.Empty(t, out.String())
}

// The bars end whether or not the work did, also when the total was wrong, and show each phase.
func TestProgressBars(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, progressBars)
	p.bars = mpb.New(mpb.WithOutput(&out), mpb.ForceTTY(), mpb.ForceAutoRefresh(), mpb.WithWidth(100))
	update := p.Phase("plan", 4, "queues")
	update(2)
	update(9)
	update = p.Phase("backfill", 1000, "units")
	update(500)
	p.Phase("flush", 0, "bytes")(2048)
	p.Finish()
	p.Finish()
	update(600)
	require.Contains(t, out.String(), "9 of 9 queues (100.0%)")
	require.Contains(t, out.String(), "500 of 1,000 units (50.0%)")
	require.Contains(t, out.String(), "2.0 KiB")
}

func TestChooseProgress(t *testing.T) {
	require.Equal(t, progressSilent, chooseProgress(os.Stderr, true))
	require.Equal(t, progressLines, chooseProgress(new(bytes.Buffer), false))
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, progressLines, chooseProgress(f, false))
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	t.Setenv("TERM", "xterm")
	require.Equal(t, progressBars, chooseProgress(null, false))
	t.Setenv("TERM", "dumb")
	require.Equal(t, progressLines, chooseProgress(null, false))
}

func TestNumbersForPeople(t *testing.T) {
	require.Equal(t, "0", thousands(0))
	require.Equal(t, "999", thousands(999))
	require.Equal(t, "1,000", thousands(1000))
	require.Equal(t, "-1,234,567", thousands(-1234567))
	require.Equal(t, "1023 B", byteSize(1023))
	require.Equal(t, "1.0 KiB", byteSize(1024))
	require.Equal(t, "1.5 GiB", byteSize(3<<29))
	require.Equal(t, "8.0 EiB", byteSize(1<<63-1))
}
