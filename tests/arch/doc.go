// Package arch holds the rules about who may import what, as a test over the output of go list, and another that every id
// of a known fault is explained.
//
// The rules are the table layers and the table importers in rules.go: arrows between our own packages
// only go down, and each third-party module has the one importer named there. The linter's depguard
// says the second kind too, while one types; this test says both, with and without cgo and for the
// files behind build tags, and needs no linter. A new package fails the test until it has a row.
package arch
