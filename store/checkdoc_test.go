package store

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/check.md explains every code, with its invariant, and no other.
func TestCheckPageListsEveryCode(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "checkfinding.go", nil, 0)
	require.NoError(t, err)
	codes := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if id, ok := v.Type.(*ast.Ident); ok && id.Name == "CheckCode" {
				code, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				require.NoError(t, err)
				codes[code] = string(invariantOf[CheckCode(code)])
			}
		}
		return true
	})
	require.Greater(t, len(codes), 30)
	page, err := os.ReadFile("../docs/check.md")
	require.NoError(t, err)
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (FRI-\\d)? ?\\| (error|warning|notice)").FindAllStringSubmatch(string(page), -1) {
		require.NotContains(t, rows, m[1])
		rows[m[1]] = m[2]
	}
	require.Equal(t, codes, rows)
}
