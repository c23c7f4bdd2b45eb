//go:build !race

package store

const sweepStep = 1

// raceEnabled tells that the race detector is at work.
const raceEnabled = false
