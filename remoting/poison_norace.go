//go:build !race

package remoting

const poisonReleased = false
