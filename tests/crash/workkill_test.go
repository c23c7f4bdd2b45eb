package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seeds returns the seeds of a test: so many by default, so many for TANDEMMQ_SEEDS=full, that many for a number. TANDEMMQ_SEED says the first one.
func seeds(t *testing.T, few, full int) (first uint64, n int) {
	first, n = uint64(time.Now().UnixNano()), few
	switch text := os.Getenv("TANDEMMQ_SEEDS"); text {
	case "":
	case "full":
		n = full
	default:
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	if text := os.Getenv("TANDEMMQ_SEED"); text != "" {
		var err error
		first, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("%d seeds from %d on", n, first)
	return first, n
}

// Kill -9 of a process that puts, dispatches, consumes, flushes, removes log files and reopens, at random moments: nothing acknowledged is lost, moved or
// there twice but for what retention removed, and after the next open every view says what the log says.
func TestKillWork(t *testing.T) {
	for _, view := range viewModes {
		t.Run(view.name, func(t *testing.T) {
			first, n := seeds(t, 6, 500)
			met := reach{}
			dir := t.TempDir()
			for i := range n {
				r := newWorkRun(view, filepath.Join(dir, fmt.Sprint("store", i)), first+uint64(i), met)
				for range 1 + r.rng.IntN(3) {
					for range 1 + r.rng.IntN(2) {
						r.kill(t, "")
					}
					r.verify(t)
				}
				require.NoError(t, os.RemoveAll(r.root))
			}
			t.Logf("%v", met)
			require.NotZero(t, met["acknowledged"])
		})
	}
}
