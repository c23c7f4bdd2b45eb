//go:build race

package golden

// raceFlag makes the binary under test look for races when its tests do.
var raceFlag = []string{"-race"}
