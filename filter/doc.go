// Package filter decides which messages of a queue a subscription wants, as the broker of RocketMQ 5.5.0 does: by tag, or by an SQL92
// expression over a message's properties.
//
// # Basics
//
//	f, err := filter.Compile(filter.TypeSQL92, "region = 'eu' AND amount > 100", filter.Options{})
//	...                                // *SyntaxError: line, column, what was expected there
//	if f.MatchUnit(unit.TagsCode) &&   // from the queue's unit alone, before the log is read
//		f.MatchRecord(record.Properties) {
//
// A subscription is compiled once, when it is registered (about 0.1 ms for three comparisons); then each message costs a look at its tags
// code, or one pass over its property string and no allocation.
//
// docs/filters.md tells the language, with its surprises; docs/decisions/0006 why the parser is a library's, and where this package
// departs from RocketMQ. testdata/java.json holds more than 600 expressions with RocketMQ's own answers; tests/interop asks RocketMQ for them
// again, and for thousands of random ones.
//
// # Caveats
//
// Tags are matched by hash: MatchUnit lets through tags that collide (AaAa and BBBB), and RocketMQ leaves those to the client. Options.ExactTags
// has MatchRecord compare the text.
//
// Names and texts are compared as bytes. RocketMQ compares decoded strings; the two differ only for bytes that are not valid UTF-8.
//
// The Bloom filter bits in extension units (enableCalcFilterBitMap) are not looked at: they are a shortcut in front of the same answer.
//
// # Goroutines
//
// The package starts none. A Filter never changes and may be used by any number of goroutines.
package filter
