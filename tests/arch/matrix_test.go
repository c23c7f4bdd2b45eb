package arch

import (
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

// matrix are the rows of the test matrix: what a broker has to do for RocketMQ's clients, tools and servers.
const matrix = "T01 T02 T03 T05 T06 T07 T10 T11 T12 T13 T15 T17 T19 T20 T21 T22 T23 T25 T26 T27 T28 T29 T30 T31 T33 T34 T35 T40 T41 T42 T43 T44 T45 T46 T47 T48 T50 T52 T53 T54 T60 T61"

// matrixPage has the table of what each client comes to; its columns, and the files whose tests they are. The last one is everything else.
const matrixPage = "docs/broker.md"

var matrixColumns = []struct{ name, file string }{
	{"Java client", "tests/interop/broker_test.go"},
	{"Go client", "tests/interop/goclient_test.go"},
	{"mqadmin", "tests/interop/admin_test.go"},
	{"RocketMQ's servers", "tests/interop/cluster_test.go"},
	{"frames", ""},
}

var (
	// Names of tests with ids: TestT20T21FilteredPulls, and "T10 T11 send" of a part.
	matrixTest = regexp.MustCompile(`\bfunc Test((?:T[0-9]{2})+)[A-Z]|"((?:T[0-9]{2} )+)[a-zA-Z]`)
	matrixID   = regexp.MustCompile(`T[0-9]{2}`)
	matrixRow  = regexp.MustCompile(`(?m)^\| (T[0-9]{2}) \|(.*)\|$`)
)

// idsInNames returns the ids that names of tests in a file have.
func idsInNames(text string) map[string]bool {
	ids := map[string]bool{}
	for _, m := range matrixTest.FindAllString(text, -1) {
		for _, id := range matrixID.FindAllString(m, -1) {
			ids[id] = true
		}
	}
	return ids
}

// Every row of the matrix is in the table, and the table tells of exactly those clients that a test named by the row's id is run with.
func TestMatrixIsTested(t *testing.T) {
	root := filepath.Join("..", "..")
	tested := map[string]map[string]bool{} // column, id
	for _, c := range matrixColumns {
		tested[c.name] = map[string]bool{}
	}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		name, err := filepath.Rel(root, path)
		if err != nil || !strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "tests/arch/") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		column := slices.IndexFunc(matrixColumns, func(c struct{ name, file string }) bool { return c.file == name || c.file == "" })
		maps.Copy(tested[matrixColumns[column].name], idsInNames(string(text)))
		return nil
	}))

	page, err := os.ReadFile(filepath.Join(root, matrixPage))
	require.NoError(t, err)
	header := "| id | call |"
	for _, c := range matrixColumns {
		header += " " + c.name + " |"
	}
	require.Contains(t, string(page), "\n"+header+"\n", "the table's head")
	rows := map[string]bool{}
	for _, m := range matrixRow.FindAllStringSubmatch(string(page), -1) {
		id, cells := m[1], strings.Split(m[2], " |")
		require.Len(t, cells, len(matrixColumns)+1, "%s has as many cells as the head", id)
		require.NotContains(t, rows, id, "it has two rows")
		rows[id] = true
		clients := 0
		for i, c := range matrixColumns {
			told := strings.TrimSpace(cells[i+1]) != ""
			if told != tested[c.name][id] {
				t.Errorf("%s, %s, column %s: told there %v, a test has its id in its name %v", matrixPage, id, c.name, told, tested[c.name][id])
			}
			if told {
				clients++
			}
		}
		if clients == 0 {
			t.Errorf("%s is tested by nothing", id)
		}
	}
	require.Equal(t, strings.Fields(matrix), slices.Sorted(maps.Keys(rows)), "rows of the table in %s", matrixPage)
}

func TestIDsInNames(t *testing.T) {
	ids := idsInNames("func TestT20T21Pulls(t *testing.T) {\n part(\"T41 topics\", f)\n {\"T10 T11 send\", `x`} \"T2006-01-02\" func TestT1x() // T33 is\n")
	require.Equal(t, []string{"T10", "T11", "T20", "T21", "T41"}, slices.Sorted(maps.Keys(ids)))
}
