//go:build tandemmq_failpoints

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Enabled tells whether the binary has the places.
const Enabled = true

var handler atomic.Pointer[func(Place)]

// Hit is called where the place is.
func Hit(p Place) {
	if h := handler.Load(); h != nil {
		(*h)(p)
	}
}

// Set says what happens at any place; nil: nothing. It is called by any goroutine, several at once.
func Set(do func(Place)) {
	if do == nil {
		handler.Store(nil)
		return
	}
	handler.Store(&do)
}

func init() {
	place, count, ok := strings.Cut(os.Getenv(Env), ":")
	n, err := strconv.Atoi(count)
	if !ok || err != nil {
		return
	}
	var hits atomic.Int64
	Set(func(p Place) {
		if string(p) == place && hits.Add(1) == int64(n) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // nothing more is done by this goroutine
		}
	})
}
