package failpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every place is somewhere in the product, at one line for each kind of view.
func TestPlacesAreReached(t *testing.T) {
	var text strings.Builder
	for _, dir := range []string{"store", "cq/file", "cq/rocks", "migrate"} {
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		require.NoError(t, err)
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				b, err := os.ReadFile(f)
				require.NoError(t, err)
				text.Write(b)
			}
		}
	}
	b, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, p := range Places() {
		name := ""
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, `"`+string(p)+`"`) && strings.Contains(line, " Place = ") {
				name = strings.Fields(line)[0]
			}
		}
		require.NotEmpty(t, name, p)
		require.Contains(t, text.String(), "failpoint.Hit(failpoint."+name+")", p)
	}
}
