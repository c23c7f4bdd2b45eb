//go:build !race

package golden

var raceFlag []string
