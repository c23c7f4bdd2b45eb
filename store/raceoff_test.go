//go:build !race

package store

const sweepStep = 1
