package broker

import (
	"sync"
	"sync/atomic"

	"github.com/tandemq/tandemmq/filter"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// compiled is a subscription's expression, ready to be used.
type compiled struct {
	filter *filter.Filter
	store  *store.Filter // the same for Get; nil: everything matches
	err    error

	bytes   int64        // of memory, about
	waiting atomic.Int64 // pulls that wait with it
}

// matches tells whether a message that has arrived may match: by its tags code, and by its properties, which are asked for only if they matter.
func (c *compiled) matches(tagsCode int64, properties func() ([]byte, bool)) bool {
	if c.store == nil {
		return true
	}
	if c.store.Unit != nil {
		return c.store.Unit(tagsCode)
	}
	p, ok := properties()
	return !ok || c.filter.MatchRecord(p)
}

// Bounds of the cache: who sends ever new expressions compiles them.
const (
	maxFilters     = 10_000
	maxFilterBytes = 64 << 20
)

// bytesPerCharacter is about how much memory a compiled expression takes, most of all for one of many comparisons (measured: TestBytesOfFilters).
const bytesPerCharacter = 128

// filterCache compiles each expression once.
type filterCache struct {
	mu    sync.RWMutex
	all   map[filterKey]*compiled
	bytes int64
}

type filterKey struct{ kind, expression string }

// get returns the compiled expression, or one with an error.
func (f *filterCache) get(kind, expression string) *compiled {
	if kind == "" {
		kind = filter.TypeTag
	}
	k := filterKey{kind, expression}
	f.mu.RLock()
	c := f.all[k]
	f.mu.RUnlock()
	if c != nil {
		return c
	}
	c = &compiled{bytes: int64(len(expression)) * bytesPerCharacter}
	c.filter, c.err = filter.Compile(kind, expression, filter.Options{})
	switch {
	case c.err != nil || c.filter.MatchesAll():
	case kind == filter.TypeTag:
		c.store = &store.Filter{Unit: c.filter.MatchUnit}
	default:
		c.store = &store.Filter{Record: func(r *message.Record) bool { return c.filter.MatchRecord(r.Properties) }}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) >= maxFilters || f.bytes+c.bytes > maxFilterBytes {
		clear(f.all)
		f.bytes = 0
	}
	f.bytes += c.bytes
	if f.all == nil {
		f.all = map[filterKey]*compiled{}
	}
	f.all[k] = c
	return c
}
