//go:build race

package remoting

const poisonReleased = true
