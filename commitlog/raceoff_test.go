//go:build !race

package commitlog

const sweepStep = 1
