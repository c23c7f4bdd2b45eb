//go:build race

package budget

// raceEnabled tells that the race detector is at work, which allocates and makes pools forget.
const raceEnabled = true
