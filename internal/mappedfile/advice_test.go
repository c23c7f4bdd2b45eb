package mappedfile

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// vmFlags returns the kernel's flags of this process's mapping of path: "rr" is random, "sr" sequential reading.
func vmFlags(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip("no /proc/self/smaps:", err)
	}
	_, after, ok := strings.Cut(string(b), path)
	require.True(t, ok, "%s is not mapped", path)
	_, flags, ok := strings.Cut(after, "VmFlags:")
	require.True(t, ok)
	flags, _, _ = strings.Cut(flags, "\n")
	return strings.Fields(flags)
}

func TestReadahead(t *testing.T) {
	for _, readahead := range []bool{false, true} {
		for _, writable := range []bool{false, true} {
			f := tenFiles(t, Options{Readahead: readahead, Writable: writable}).Files()[3]
			hold(t, f)
			require.Equal(t, !readahead, slices.Contains(vmFlags(t, f.Path()), "rr"))
			f.Release()
		}
	}
}
