//go:build !race

package commitlog

const sweepStep = 1

// raceEnabled tells that the race detector is at work.
const raceEnabled = false
