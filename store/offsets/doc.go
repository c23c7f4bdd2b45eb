// Package offsets finds consumer offsets that a store cannot serve, and puts others in their place: what an operator needs
// after config/consumerOffset.json, or the database that stands for it, was lost, damaged or set back.
//
// # Basics
//
//	Find         where a store keeps consumer offsets, and what lies there (Place, Source)
//	Check        every group and queue against the bounds of its queue, with evidence
//	PlanReset    what it takes to set offsets to a time, to min, to max, or into the bounds
//	PlanRestore  what it takes to get them back from a backup
//	Apply        does what a plan says: a dated copy of the file first, then an atomic replacement
//
// An offset is the queue offset of the next message a group wants. It is good from min to max of its queue, both included.
// What lies outside is found; what lies inside may be wrong all the same, and nobody can tell: no file says which messages
// were consumed. The evidence (the backup's value, store times, the retry queue) is for a person to judge.
//
// # Caveats
//
// RocketMQ 5.5.0 loads all of an offset file or nothing: one value that is no number, and every offset of every group is
// gone, and the file deleted. So no file is written that holds such a value, and check reports each.
//
// Only JSON files are written. A broker that keeps its offsets in RocksDB (configManagerVersion=v1, in either form) takes a
// JSON file in at its start when the file's version counter is the greater one; a plan for such a place therefore writes
// the whole table of the database, changed, into the file, with that counter. What v2 keeps in config/rdb has no such way
// in, and is only read.
//
// A store that was not closed cleanly has ends that recovery may move; a plan for it is refused.
//
// # Goroutines
//
// The package starts none.
package offsets
