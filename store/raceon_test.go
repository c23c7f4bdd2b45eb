//go:build race

package store

// sweepStep: under the race detector the long sweeps take one of so many steps. They are complete without it.
const sweepStep = 5

// raceEnabled tells that the race detector is at work.
const raceEnabled = true
