package mappedfile

import (
	"container/list"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// defaultMaxMapCount is Linux's own default of vm.max_map_count, used when the system does not tell its own.
const defaultMaxMapCount = 65530

// mappings is the process's table of mapped files. Evicting is by the clock algorithm, which approximates "least recently
// used" and costs a holder one flag and no lock: the hand goes round, a file used since its last visit is spared once,
// an idle one is unmapped, a new one is put just behind the hand. The use that maps a file does not count, so that a walk
// over many files pushes out what it mapped itself before it pushes out files in steady use.
var mappings struct {
	sync.Mutex
	limit int           // 0: not decided yet
	used  int           // places taken: ring.Len() and those being mapped right now
	ring  list.List     // of *File
	hand  *list.Element // the next one to look at; nil: the front
}

// SetLimit bounds how many files of all queues of this process are mapped at a time. n <= 0 restores the default: half of
// vm.max_map_count, since the Go runtime, RocksDB and others map memory too. Descriptors need no bound: one is kept of a file that was read by File.ReadAt, as long as it is mapped. A
// lower limit takes effect as files are mapped.
func SetLimit(n int) {
	mappings.Lock()
	defer mappings.Unlock()
	mappings.limit = max(n, 0)
}

// Usage returns how many files are mapped and how many may be.
func Usage() (mapped, limit int) {
	mappings.Lock()
	defer mappings.Unlock()
	return mappings.used, limitLocked()
}

// Lingering returns how many mapped files only wait for their holders: they were removed, or their queue closed. One that
// stays is a hold without release.
func Lingering() (n int) {
	mappings.Lock()
	defer mappings.Unlock()
	for e := mappings.ring.Front(); e != nil; e = e.Next() {
		if e.Value.(*File).gone.Load() != nil {
			n++
		}
	}
	return n
}

func limitLocked() int {
	if mappings.limit == 0 {
		mappings.limit = systemLimit("/proc/sys/vm/max_map_count")
	}
	return mappings.limit
}

func systemLimit(path string) int {
	n := 0
	if b, err := os.ReadFile(path); err == nil {
		n, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	if n <= 0 {
		n = defaultMaxMapCount
	}
	return max(n/2, 1)
}

// reservePasses is how often reserve looks for an idle file before it answers ErrLimit. One look may miss files that change
// hands during it: their old holder was still there, or their new one already.
const reservePasses = 16

// reserve takes one place, unmapping idle files for it if it has to.
func reserve() error {
	for pass := 1; ; pass++ {
		idle, used, limit := tryReserve()
		for _, f := range idle { // outside the lock: unmapping 1 GiB takes 10 ms and more
			f.unmap()
		}
		if used < limit {
			return nil
		}
		if pass == reservePasses {
			return fmt.Errorf("%w: %d files are held, %d may be mapped", ErrLimit, used, limit)
		}
		runtime.Gosched()
	}
}

// tryReserve takes a place if used is below limit when it returns. It brings used down as far as there are idle files.
func tryReserve() (idle []victim, used, limit int) {
	mappings.Lock()
	defer mappings.Unlock()
	limit = limitLocked()
	for mappings.used >= limit {
		v, ok := evictLocked()
		if !ok {
			return idle, mappings.used, limit
		}
		idle = append(idle, v)
	}
	used = mappings.used
	mappings.used++
	return idle, used, limit
}

// unreserve gives a place back that reserve took and enter did not fill.
func unreserve() {
	mappings.Lock()
	defer mappings.Unlock()
	mappings.used--
}

// enter puts a file that was just mapped into the ring, furthest from the hand; its place was reserved.
func enter(f *File) {
	mappings.Lock()
	defer mappings.Unlock()
	if mappings.hand == nil {
		f.place = mappings.ring.PushBack(f)
		return
	}
	f.place = mappings.ring.InsertBefore(f, mappings.hand)
}

// leave takes a file out of the ring and gives its place back.
func leave(f *File) {
	mappings.Lock()
	defer mappings.Unlock()
	leaveLocked(f)
}

func leaveLocked(f *File) {
	if mappings.hand == f.place {
		mappings.hand = f.place.Next()
	}
	mappings.ring.Remove(f.place)
	f.place = nil
	mappings.used--
}

// evictLocked unhooks one idle file. Two rounds suffice: the first clears the flags of all idle files.
func evictLocked() (victim, bool) {
	for range 2 * mappings.ring.Len() {
		if mappings.hand == nil {
			mappings.hand = mappings.ring.Front()
		}
		f := mappings.hand.Value.(*File)
		if f.state.Load() == 0 && !f.recent.Swap(false) {
			if v, ok := f.detach(true); ok {
				leaveLocked(f)
				return v, true
			}
		}
		mappings.hand = mappings.hand.Next()
	}
	return victim{}, false
}
