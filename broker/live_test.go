package broker

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLiveOptionsAreReadOffTheSnapshot looks through the sources for options tagged live that are read as they were when the broker was opened.
func TestLiveOptionsAreReadOffTheSnapshot(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	stale := regexp.MustCompile(`\bb\.o\.(\w+)`)
	options := reflect.TypeFor[Options]()
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, m := range stale.FindAllStringSubmatch(line, -1) {
				f, ok := options.FieldByName(m[1])
				if ok && strings.HasSuffix(f.Tag.Get("prop"), ",live") && !strings.Contains(line, "// at the start") {
					t.Errorf("%s:%d: %s is live: read it off b.live()", name, i+1, m[1])
				}
			}
		}
	}
}
