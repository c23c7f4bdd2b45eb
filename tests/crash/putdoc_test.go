package crash

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testsOf returns the names of all tests in the tree.
func testsOf(t *testing.T, root string) map[string]bool {
	all := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				all[f.Name.Name] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	return all
}

// promises returns what must name a test or promise nothing: of tables the cells, but for the head and the first column, and of
// lists the items.
func promises(page string) (all []string) {
	inTable, item := 0, ""
	end := func() {
		if item != "" {
			all = append(all, item)
		}
		item = ""
	}
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "|") {
			end()
			if inTable++; inTable > 2 {
				cells := strings.Split(strings.Trim(line, "|"), "|")
				all = append(all, cells[1:]...)
			}
			continue
		}
		inTable = 0
		switch {
		case strings.HasPrefix(line, "- "):
			end()
			item = line[2:]
		case item != "" && strings.HasPrefix(line, "  "):
			item += " " + strings.TrimSpace(line)
		default:
			end()
		}
	}
	end()
	return all
}

var testName = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")

// Each promise of docs/durability.md has a test that exists, or says that it is none (FR-A10).
func TestFRA10DurabilityPageNamesItsTests(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "durability.md"))
	require.NoError(t, err)
	have := testsOf(t, root)
	named := testName.FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(named), 50)
	for _, m := range named {
		require.True(t, have[m[1]], "%s does not exist", m[1])
	}
	all := promises(string(page))
	require.Greater(t, len(all), 40)
	for _, p := range all {
		require.True(t, testName.MatchString(p) || strings.Contains(p, "not promised"), "no test is named: %s", p)
	}
}

func TestPromisesOfAPage(t *testing.T) {
	require.Equal(t, []string{" b ", " c ", "item one goes on", "item two"},
		promises("# Title\n\nText.\n\n| x | y | z |\n|---|---|---|\n| a | b | c |\n\n- item one\n  goes on\n- item two\n\nText.\n"))
}
