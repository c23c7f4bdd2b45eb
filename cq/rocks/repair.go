//go:build cgo

package rocks

import "github.com/tandemq/tandemmq/internal/rocks"

// Repair makes a database of all table files in dir, whatever manifest there is. Nobody has it open.
func Repair(dir string) error { return rocks.Repair(dir) }
