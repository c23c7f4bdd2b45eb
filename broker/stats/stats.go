// Package stats counts what a broker does, as RocketMQ's tools ask for it: totals, rates over the last 10 seconds, minute and 10 minutes, and
// sums over the last minute, hour and day for each topic and group.
//
// # Basics
//
//	Counter  a total with its Rates; Add is one atomic addition
//	Table    counters by name and key, with the Window of the last minute, hour and day
//
// Nothing is sampled unless Tick is called, once a second, by one goroutine. A counter that nobody has added to for a day is dropped from its Table.
//
// Source: StoreStatsService and StatsItemSet, 5.5.0.
package stats

import (
	"strings"
	"sync"
	"sync/atomic"
)

// Counter is a total. The zero value is ready.
type Counter struct {
	n       atomic.Int64
	samples [rateSeconds + 1]atomic.Int64 // the total at each of the last seconds, by second modulo their number
	second  atomic.Int64                  // samples taken
}

const rateSeconds = 600

// Add adds n.
func (c *Counter) Add(n int64) { c.n.Add(n) }

// Total is the sum of what was added.
func (c *Counter) Total() int64 { return c.n.Load() }

// Tick takes a sample, once a second.
func (c *Counter) Tick() {
	s := c.second.Load()
	c.samples[s%int64(len(c.samples))].Store(c.n.Load())
	c.second.Store(s + 1)
}

// Rate is what was added a second, on average over the last so many seconds before the last sample, or since the first; 0 before there are two.
func (c *Counter) Rate(seconds int64) float64 {
	last := c.second.Load() - 1
	seconds = min(seconds, rateSeconds, last)
	if seconds < 1 {
		return 0
	}
	at := func(s int64) int64 { return c.samples[s%int64(len(c.samples))].Load() }
	return float64(at(last)-at(last-seconds)) / float64(seconds)
}

// Window is what a Table says of one of its counters over a time.
type Window struct {
	Sum     int64   `json:"sum"`   // of the values
	PerSec  float64 `json:"tps"`   // of the values
	Average float64 `json:"avgpt"` // of a value
}

// Windows of a counter.
type Windows struct {
	Minute Window `json:"statsMinute"`
	Hour   Window `json:"statsHour"`
	Day    Window `json:"statsDay"`
}

// Table has counters by name and key, a topic or topic@group. The zero value is ready.
type Table struct {
	items  sync.Map // itemKey to *item
	second int64    // of Tick alone
}

type itemKey struct{ name, key string }

type item struct {
	sum, times atomic.Int64

	mu                sync.Mutex
	minute, hour, day series
	idleSince         int64 // second of the last sample that had something new
	lastTimes         int64
}

// Steps between two samples in seconds, and samples of a window.
const (
	minuteStep, minuteSamples = 10, 7
	hourStep, hourSamples     = 600, 7
	dayStep, daySamples       = 3600, 25
)

// sample is the state of an item at a second.
type sample struct{ second, sum, times int64 }

type series []sample

func (s *series) add(x sample, most int) {
	*s = append(*s, x)
	if len(*s) > most {
		*s = append((*s)[:0], (*s)[1:]...)
	}
}

func (s series) window() (w Window) {
	if len(s) < 2 {
		return w
	}
	first, last := s[0], s[len(s)-1]
	w.Sum = last.sum - first.sum
	if d := last.second - first.second; d > 0 {
		w.PerSec = float64(w.Sum) / float64(d)
	}
	if n := last.times - first.times; n > 0 {
		w.Average = float64(w.Sum) / float64(n)
	}
	return w
}

// Add counts one event of that value.
func (t *Table) Add(name, key string, value int64) {
	k := itemKey{name, key}
	v, ok := t.items.Load(k)
	if !ok {
		// The caller's strings may be part of a larger text.
		k = itemKey{strings.Clone(name), strings.Clone(key)}
		n := &item{}
		first := sample{}
		n.minute, n.hour, n.day = series{first}, series{first}, series{first}
		n.idleSince = -1
		v, _ = t.items.LoadOrStore(k, n)
	}
	i := v.(*item)
	i.sum.Add(value)
	i.times.Add(1)
}

// Get returns the windows of a counter; false if there is none.
func (t *Table) Get(name, key string) (w Windows, ok bool) {
	v, ok := t.items.Load(itemKey{name, key})
	if !ok {
		return w, false
	}
	i := v.(*item)
	i.mu.Lock()
	defer i.mu.Unlock()
	return Windows{i.minute.window(), i.hour.window(), i.day.window()}, true
}

// Remove drops the counters whose key is, or has as its part before or behind an @, that text: a deleted topic or group.
func (t *Table) Remove(part string) {
	t.items.Range(func(k, _ any) bool {
		key := k.(itemKey).key
		before, behind, _ := strings.Cut(key, "@")
		if key == part || before == part || behind == part {
			t.items.Delete(k)
		}
		return true
	})
}

// Tick takes the samples that are due, once a second.
func (t *Table) Tick() {
	t.second++
	if t.second%minuteStep != 0 {
		return
	}
	t.items.Range(func(k, v any) bool {
		i := v.(*item)
		i.mu.Lock()
		defer i.mu.Unlock()
		x := sample{t.second, i.sum.Load(), i.times.Load()}
		if i.idleSince < 0 {
			// An item begins at its first sample's step: what came before is in that sample.
			for _, s := range []series{i.minute, i.hour, i.day} {
				s[0].second = t.second - minuteStep
			}
		}
		if i.idleSince < 0 || x.times != i.lastTimes {
			i.idleSince, i.lastTimes = t.second, x.times
		}
		if t.second-i.idleSince > dayStep*(daySamples-1) {
			t.items.Delete(k)
			return true
		}
		i.minute.add(x, minuteSamples)
		if t.second%hourStep == 0 {
			i.hour.add(x, hourSamples)
		}
		if t.second%dayStep == 0 {
			i.day.add(x, daySamples)
		}
		return true
	})
}
