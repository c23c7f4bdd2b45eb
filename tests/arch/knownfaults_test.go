package arch

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const knownFaults = "docs/format/known-faults.md"

var (
	// An id in running text, and the row that explains it.
	faultID  = regexp.MustCompile(`\b(?:[WFICG][0-9]{1,2}|FR-[A-L][0-9]{2})\b`)
	faultRow = regexp.MustCompile(`(?m)^\| ([WFICG][0-9]{1,2}|FR-[A-L][0-9]{2}) \|`)
	// The ids in the name of a test: TestW24W25Reads, TestI1FRE01PowerLoss.
	faultTest = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)((?:FR[A-L][0-9]{2}|[WFICG][0-9]{1,2})+)[A-Z]`)
	faultPart = regexp.MustCompile(`FR[A-L][0-9]{2}|[WFICG][0-9]{1,2}`)
)

// notFaults are the files in which such words are something else.
var notFaults = map[string]string{
	"message/tags.go": "bytes of UTF-8",
}

// faultsIn returns the ids that text cites, those in names of tests included, and apart the latter.
func faultsIn(text string) (cited, named map[string]bool) {
	cited, named = map[string]bool{}, map[string]bool{}
	for _, id := range faultID.FindAllString(text, -1) {
		cited[id] = true
	}
	for _, m := range faultTest.FindAllStringSubmatch(text, -1) {
		for _, id := range faultPart.FindAllString(m[1], -1) {
			if report, ok := strings.CutPrefix(id, "FR"); ok {
				id = "FR-" + report
			}
			cited[id], named[id] = true, true
		}
	}
	return cited, named
}

// docs/format/known-faults.md explains every id that Go files and documents cite; those that docs/config.md cites are in the names of
// tests, as it says.
func TestKnownFaultsAreExplained(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, knownFaults))
	require.NoError(t, err)
	rows := map[string]bool{}
	for _, m := range faultRow.FindAllStringSubmatch(string(page), -1) {
		require.NotContains(t, rows, m[1], "it has two rows")
		rows[m[1]] = true
	}
	tested := map[string]bool{}
	cited := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // another test's file, gone between two looks
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".md" || notFaults[name] != "" || strings.HasPrefix(name, "tests/arch/") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		ids, named := faultsIn(string(text))
		for _, id := range slices.Sorted(maps.Keys(ids)) {
			if cited++; !rows[id] {
				t.Errorf("%s cites %s, which %s does not explain", name, id, knownFaults)
			}
		}
		if strings.HasSuffix(name, "_test.go") {
			maps.Copy(tested, named)
		}
		return nil
	}))
	require.Greater(t, cited, 100)

	config, err := os.ReadFile(filepath.Join(root, "docs", "config.md"))
	require.NoError(t, err)
	ids, _ := faultsIn(string(config))
	require.NotEmpty(t, ids)
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if !tested[id] {
			t.Errorf("docs/config.md cites %s, after which no test is named", id)
		}
	}
}

func TestFaultsIn(t *testing.T) {
	cited, named := faultsIn("// W7, (FR-B15) and FRI-2, HTTP2; see TestI1FRE01PowerLoss, TestW24W25Reads\nfunc TestW1x() {}")
	require.Equal(t, []string{"FR-B15", "FR-E01", "I1", "W24", "W25", "W7"}, slices.Sorted(maps.Keys(cited)))
	require.Equal(t, []string{"FR-E01", "I1", "W24", "W25"}, slices.Sorted(maps.Keys(named)))
}
