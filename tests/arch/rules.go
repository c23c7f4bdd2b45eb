package arch

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Module is the path of this module, the prefix of every package of ours.
const Module = "github.com/tandemq/tandemmq"

// Package is what go list tells about one package. Imports are those of the package itself; TestImports
// are those of its test files, in the package or beside it.
type Package struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// layer is one row of the table of our own packages.
type layer struct {
	pattern string   // path below the module; a trailing /... takes in everything under it
	may     []string // patterns of our packages that its non-test files may import
}

// layers is read from the top; the first row whose pattern fits is the package's. Tests may import
// more than their package: a suite needs real stores.
var layers = []layer{
	{"internal/...", []string{"internal/..."}},
	{"message", []string{"internal/wire"}},
	{"filter", []string{"message"}},
	{"cq", []string{"message"}},
	{"cq/cqtest", []string{"cq", "message", "internal/..."}},
	{"cq/...", []string{"cq", "message", "internal/..."}}, // the stores: none knows another
	{"commitlog", []string{"message", "internal/..."}},
	{"index/...", []string{"index/...", "message", "internal/..."}},
	{"store", []string{"cq/...", "commitlog", "index/...", "message", "migrate/state", "internal/..."}}, // of a migration, what it has come to
	{"store/offsets", []string{"store", "cq", "message", "internal/..."}},
	{"migrate", []string{"migrate/state", "cq", "commitlog", "message", "internal/..."}}, // stores are handed to it
	{"migrate/state", []string{"cq", "internal/..."}},
	{"migrate/online", []string{"migrate", "migrate/state", "store", "cq", "message", "internal/..."}}, // works in an open store
	{"migrate/report", []string{"migrate", "migrate/state", "cq", "internal/..."}},                     // draws what migrate knows
	{"remoting/...", []string{"remoting/...", "message", "internal/..."}},
	{"namesrv", []string{"remoting/...", "internal/..."}},
	{"broker/...", []string{"broker/...", "namesrv", "store", "filter", "index", "remoting/...", "migrate/...", "cq", "commitlog", "message", "internal/..."}},
	{"cmd/...", []string{"..."}},
	{"bench/...", []string{"..."}},
	{"examples/...", []string{"..."}},
	{"tests/...", []string{"..."}},
}

// importer says who alone may import a module of somebody else's, or a package of ours that the layers do not tell about.
type importer struct {
	module string
	only   []string // patterns of our packages
	tests  bool     // whether test files of any package may import it as well
}

var importers = []importer{
	{"github.com/linxGnu/grocksdb", []string{"internal/rocks"}, false},
	{"golang.org/x/sys", []string{"internal/mmap"}, false},
	{"github.com/urfave/cli/v2", []string{"cmd/..."}, false},
	{"github.com/vbauerster/mpb/v8", []string{"cmd/..."}, false},
	{"github.com/HdrHistogram/hdrhistogram-go", []string{"bench/calibrate"}, false},
	{"github.com/alecthomas/participle/v2", []string{"filter"}, false},
	{"gonum.org/v1/plot", []string{"internal/htmlreport", "bench/chart"}, false},
	{"github.com/stretchr/testify", []string{"cq/cqtest", "tests/..."}, true},
	{Module + "/internal/faultfs", []string{"cq/cqtest", "tests/..."}, true},                     // of ours, but no part of the product
	{Module + "/internal/failpoint", []string{"cq/...", "migrate", "store", "tests/..."}, false}, // where tests stop the product
}

// matches reports whether the path name below the module fits pattern: equal to it, or, where it ends
// in "...", the folder before that or anything under it.
func matches(pattern, name string) bool {
	folder, wild := strings.CutSuffix(pattern, "...")
	if !wild {
		return pattern == name
	}
	return folder == "" || name == path.Clean(folder) || strings.HasPrefix(name, folder)
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// below gives the path of a package of ours below the module; ok is false for anybody else's.
func below(importPath string) (name string, ok bool) {
	if importPath == Module {
		return "", true
	}
	return strings.CutPrefix(importPath, Module+"/")
}

// Check holds packages against the rules and returns one sentence per breach, sorted.
func Check(packages []Package) []string {
	var breaches []string
	for _, p := range packages {
		name, ok := below(p.ImportPath)
		if !ok {
			continue
		}
		breaches = append(breaches, checkOwn(name, p.Imports)...)
		breaches = append(breaches, checkImporters(name, p.Imports, false)...)
		breaches = append(breaches, checkImporters(name, slices.Concat(p.TestImports, p.XTestImports), true)...)
	}
	slices.Sort(breaches)
	return slices.Compact(breaches)
}

func checkOwn(name string, imports []string) []string {
	row := slices.IndexFunc(layers, func(l layer) bool { return matches(l.pattern, name) })
	if row < 0 {
		return []string{fmt.Sprintf("%s has no row in the table of layers", name)}
	}
	var breaches []string
	for _, i := range imports {
		if own, ok := below(i); ok && !matchesAny(layers[row].may, own) {
			breaches = append(breaches, fmt.Sprintf("%s must not import %s", name, own))
		}
	}
	return breaches
}

func checkImporters(name string, imports []string, inTests bool) []string {
	var breaches []string
	for _, rule := range importers {
		if inTests && rule.tests || matchesAny(rule.only, name) {
			continue
		}
		for _, i := range imports {
			if i == rule.module || strings.HasPrefix(i, rule.module+"/") {
				breaches = append(breaches, fmt.Sprintf("%s must not import %s: only %s may", name, i, strings.Join(rule.only, ", ")))
			}
		}
	}
	return breaches
}
