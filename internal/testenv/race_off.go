//go:build !race

package testenv

// Race tells whether the race detector is built in. With it everything takes some times as long, so that a test may leave out what only repeats.
const Race = false
