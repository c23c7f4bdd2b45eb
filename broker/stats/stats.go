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
	"maps"
	"slices"
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
	mu     sync.RWMutex
	items  map[itemKey]*item // guarded by mu
	second int64             // of Tick alone
}

type itemKey struct{ name, key string }

type item struct {
	k          itemKey
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
	i := t.item(itemKey{name, key})
	if i == nil {
		i = t.begin(name, key)
	}
	i.sum.Add(value)
	i.times.Add(1)
}

// item returns a counter; nil: there is none.
func (t *Table) item(k itemKey) *item {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.items[k]
}

// begin makes a counter, unless somebody has made it meanwhile. The strings may be part of a larger text.
func (t *Table) begin(name, key string) *item {
	k := itemKey{strings.Clone(name), strings.Clone(key)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.items[k]; i != nil {
		return i
	}
	i := &item{k: k, idleSince: -1}
	first := sample{}
	i.minute, i.hour, i.day = series{first}, series{first}, series{first}
	if t.items == nil {
		t.items = map[itemKey]*item{}
	}
	t.items[k] = i
	return i
}

// Get returns the windows of a counter; false if there is none.
func (t *Table) Get(name, key string) (w Windows, ok bool) {
	i := t.item(itemKey{name, key})
	if i == nil {
		return w, false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return Windows{i.minute.window(), i.hour.window(), i.day.window()}, true
}

// Remove drops the counters whose key is, or has as its part before or behind an @, that text: a deleted topic or group.
func (t *Table) Remove(part string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.items, func(k itemKey, _ *item) bool {
		before, behind, _ := strings.Cut(k.key, "@")
		return k.key == part || before == part || behind == part
	})
}

// Tick takes the samples that are due, once a second.
func (t *Table) Tick() {
	t.second++
	if t.second%minuteStep != 0 {
		return
	}
	// The table is not held while samples are taken: there may be many counters, and who counts shall not wait.
	t.mu.RLock()
	all := slices.Collect(maps.Values(t.items))
	t.mu.RUnlock()
	all = slices.DeleteFunc(all, func(i *item) bool { return !i.tick(t.second) })
	if len(all) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range all {
		if t.items[i.k] == i {
			delete(t.items, i.k)
		}
	}
}

// tick takes a sample, and reports whether nobody has added anything for a day.
func (i *item) tick(second int64) (idle bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	x := sample{second, i.sum.Load(), i.times.Load()}
	if i.idleSince < 0 {
		// An item begins at its first sample's step: what came before is in that sample.
		for _, s := range []series{i.minute, i.hour, i.day} {
			s[0].second = second - minuteStep
		}
	}
	if i.idleSince < 0 || x.times != i.lastTimes {
		i.idleSince, i.lastTimes = second, x.times
	}
	if second-i.idleSince > dayStep*(daySamples-1) {
		return true
	}
	i.minute.add(x, minuteSamples)
	if second%hourStep == 0 {
		i.hour.add(x, hourSamples)
	}
	if second%dayStep == 0 {
		i.day.add(x, daySamples)
	}
	return false
}
