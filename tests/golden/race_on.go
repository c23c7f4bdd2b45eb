//go:build race

package golden

import "os"

// raceFlag makes the binary under test look for races when its tests do.
var raceFlag = []string{"-race"}

// The race detector waits a second before a process ends; a test here starts hundreds.
func init() {
	if os.Getenv("GORACE") == "" {
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
}
