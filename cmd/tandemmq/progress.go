package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/tandemq/tandemmq/internal/htmlreport"
)

// progressMode says how a command tells how far it is.
type progressMode int

const (
	progressSilent progressMode = iota // nothing: --json, --quiet
	progressLines                      // a plain line now and then: stderr is a file, a pipe or a dumb terminal
	progressBars                       // bars drawn in place: stderr is a terminal
)

// lineInterval is the least time between two plain lines of one phase: rare enough for a log file of a job that takes
// hours, often enough that nobody takes a minute's job for stuck.
const lineInterval = 3 * time.Second

// chooseProgress picks the mode for a command that writes its progress to w. A device that is no terminal (the null
// device) passes here for one; the bar library looks again and draws nothing on it.
func chooseProgress(w io.Writer, silent bool) progressMode {
	if silent {
		return progressSilent
	}
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return progressLines
	}
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return progressLines
	}
	return progressBars
}

// progress shows the phases of one command, one after the other. Phase and Finish belong to one goroutine; the update
// functions may be called from any. The bar library's goroutines end with Finish, which every command defers.
type progress struct {
	w       io.Writer
	mode    progressMode
	now     func() time.Time
	bars    *mpb.Progress // progressBars only, made with the first phase
	current *phase
}

func newProgress(w io.Writer, mode progressMode) *progress {
	return &progress{w: w, mode: mode, now: time.Now}
}

// phase is one stretch of work with its own total.
type phase struct {
	p     *progress
	name  string
	unit  string
	start time.Time
	bar   *mpb.Bar
	first atomic.Int64 // what the first update said, so that resumed work does not count as speed; -1 before it
	since atomic.Int64 // nanoseconds from start to the first update: what was done by then does not count, nor does the time
	done  atomic.Int64
	total atomic.Int64 // 0: unknown

	// final is what describe says for good once the phase ended: the bar stays on the screen, and is drawn again, while
	// later phases run.
	final atomic.Pointer[string]

	line struct {
		sync.Mutex
		last time.Time
	}
}

// Phase ends the phase before it and begins one of the given total (0: unknown) in unit, a plural noun; "bytes" is shown
// in KiB, MiB and so on. The function returned takes how much is done so far, an absolute number; it is cheap enough to
// be called once a batch, and may be called late: after the phase ended it does nothing visible.
func (p *progress) Phase(name string, total int64, unit string) func(done int64) {
	p.endPhase()
	ph := &phase{p: p, name: name, unit: unit, start: p.now()}
	ph.first.Store(-1)
	ph.total.Store(max(total, 0))
	p.current = ph
	switch p.mode {
	case progressBars:
		if p.bars == nil {
			p.bars = mpb.New(mpb.WithOutput(p.w), mpb.WithWidth(100), mpb.WithRefreshRate(200*time.Millisecond))
		}
		ph.bar = p.bars.AddBar(max(total, 0),
			mpb.PrependDecorators(decor.Name(name, decor.WC{W: 12, C: decor.DindentRight})),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + ph.describe() })),
			mpb.BarFillerTrim(),
		)
	case progressLines:
		ph.line.last = ph.start
		if total > 0 {
			fmt.Fprintf(p.w, "%s: %s to do\n", name, amount(total, unit))
		} else {
			fmt.Fprintf(p.w, "%s ...\n", name)
		}
	}
	return ph.update
}

// Finish ends the last phase and leaves what was drawn on the screen. A phase that did not reach its total stays as far
// as it came: the command's error says the rest. It may be called twice.
func (p *progress) Finish() {
	p.endPhase()
	if p.bars != nil {
		p.bars.Wait()
		p.bars = nil
	}
}

func (p *progress) endPhase() {
	ph := p.current
	p.current = nil
	if ph == nil {
		return
	}
	elapsed := p.now().Sub(ph.start)
	final := ph.describeAt(elapsed)
	if ph.nothingToTell() {
		final = "done in " + round(elapsed).String()
	}
	ph.final.Store(&final)
	switch p.mode {
	case progressBars:
		if done, total := ph.done.Load(), ph.total.Load(); done > 0 && done >= total {
			ph.bar.SetTotal(done, true)
		} else {
			ph.bar.Abort(false)
		}
		ph.bar.Wait()
	case progressLines:
		if ph.nothingToTell() {
			fmt.Fprintf(p.w, "%s: %s\n", ph.name, final)
			return
		}
		fmt.Fprintf(p.w, "%s: %s in %s%s\n", ph.name, amount(ph.done.Load(), ph.unit), round(elapsed), ph.rateText(elapsed, " (", ")"))
	}
}

func (ph *phase) update(done int64) {
	if ph.p.mode == progressSilent || ph.final.Load() != nil {
		return
	}
	if ph.first.Load() < 0 {
		ph.since.Store(int64(ph.p.now().Sub(ph.start)))
		ph.first.CompareAndSwap(-1, done)
	}
	ph.done.Store(done)
	if total := ph.total.Load(); total > 0 && done > total {
		ph.total.Store(done) // an estimate that was too low
		if ph.bar != nil {
			ph.bar.SetTotal(done, false)
		}
	}
	if ph.bar != nil {
		// A bar that reaches its total ends and can grow no more; keep it one short until endPhase.
		if total := ph.total.Load(); total > 0 {
			done = min(done, total-1)
		}
		ph.bar.SetCurrent(done)
		return
	}
	ph.line.Lock()
	defer ph.line.Unlock()
	if now := ph.p.now(); now.Sub(ph.line.last) >= lineInterval {
		ph.line.last = now
		fmt.Fprintf(ph.p.w, "%s: %s\n", ph.name, ph.describe())
	}
}

// nothingToTell holds for a phase that never said how far it is, and for one of unknown total that counted nothing: its
// zero would read as if no work had been done.
func (ph *phase) nothingToTell() bool {
	return ph.first.Load() < 0 || ph.done.Load() == 0 && ph.total.Load() <= 0
}

// describe says how far the phase is, how fast it goes and how long it will take; of an ended one, how far it came.
func (ph *phase) describe() string {
	if final := ph.final.Load(); final != nil {
		return *final
	}
	return ph.describeAt(ph.p.now().Sub(ph.start))
}

// describeAt is describe after that much time. Where neither the total nor what is done is known, the time itself is all
// there is to show that the work goes on.
func (ph *phase) describeAt(elapsed time.Duration) string {
	done, total := ph.done.Load(), ph.total.Load()
	if total <= 0 && done == 0 {
		return round(elapsed).String()
	}
	if total <= 0 {
		return amount(done, ph.unit) + ph.rateText(elapsed, ", ", "")
	}
	s := fmt.Sprintf("%s of %s (%.1f%%)%s", quantity(done, ph.unit), amount(total, ph.unit), 100*float64(done)/float64(total),
		ph.rateText(elapsed, ", ", ""))
	if rate := ph.rate(elapsed); rate > 0 && done < total {
		s += ", " + round(time.Duration(float64(total-done)/rate*float64(time.Second))).String() + " left"
	}
	return s
}

// rate returns what was done a second since the first update, 0 while it is too early to tell.
func (ph *phase) rate(elapsed time.Duration) float64 {
	first := ph.first.Load()
	elapsed -= time.Duration(ph.since.Load())
	if first < 0 || elapsed < 100*time.Millisecond {
		return 0
	}
	return float64(ph.done.Load()-first) / elapsed.Seconds()
}

func (ph *phase) rateText(elapsed time.Duration, before, after string) string {
	rate := ph.rate(elapsed)
	if rate <= 0 {
		return ""
	}
	return before + amount(int64(rate), ph.unit) + "/s" + after
}

// round cuts a duration to what a person reads.
func round(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	default:
		return d.Round(time.Second)
	}
}

// amount writes n with its unit: "1,234 messages", "3.2 MiB".
func amount(n int64, unit string) string {
	if unit == "bytes" || unit == "" {
		return quantity(n, unit)
	}
	return quantity(n, unit) + " " + unit
}

// quantity writes n as amount does, without the unit unless the unit is part of the number.
func quantity(n int64, unit string) string {
	if unit == "bytes" {
		return byteSize(n)
	}
	return thousands(n)
}

// byteSize writes a number of bytes with a binary prefix, three digits or so.
func byteSize(n int64) string {
	const prefixes = "KMGTPE"
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, i := float64(n)/1024, 0
	for f >= 1024 && i < len(prefixes)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", f, prefixes[i])
}

// thousands writes n with a comma after every three digits.
func thousands(n int64) string { return htmlreport.Count(n) }
