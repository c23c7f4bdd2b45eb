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
