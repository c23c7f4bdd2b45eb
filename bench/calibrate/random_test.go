package calibrate

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each gives a number and leaves nothing, and says what it was when there is no directory.
func TestMore(t *testing.T) {
	dir := t.TempDir()
	require.Positive(t, Checksum(time.Millisecond))
	rate, err := Writev(time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, rate)
	for name, measure := range map[string]func(dir string) (float64, error){
		"cold copies":            func(dir string) (float64, error) { return CopyCold(dir, 1<<20) },
		"random writes":          func(dir string) (float64, error) { return RandomWrites(dir, 1<<20, 10) },
		"random reads":           func(dir string) (float64, error) { return RandomReads(dir, 1<<20, 10) },
		"sequential reads":       func(dir string) (float64, error) { return Read(dir, 1<<20) },
		"sendfile over loopback": func(dir string) (float64, error) { return Sendfile(dir, time.Millisecond) },
		"appends beside writes": func(dir string) (float64, error) {
			s, err := BusyAppend(dir, 2<<20, time.Millisecond)
			return s.PerSecond, err
		},
	} {
		v, err := measure(dir)
		require.NoError(t, err, name)
		require.Positive(t, v, name)
		requireEmpty(t, dir)
		_, err = measure(filepath.Join(dir, "nowhere"))
		require.ErrorIs(t, err, os.ErrNotExist, name)
		require.ErrorContains(t, err, "calibrate "+name)
	}
}
