// Package cq defines what a consume queue is and what a store of consume queues owes its callers. It holds the
// vocabulary (Key, Unit, Entry), the roles (Reader, Queue, Appender, Importer, Store) and the errors; it holds no
// implementation. The stores are cq/file, cq/rocks and cq/combine; cq/cqtest is the one suite that all of them pass.
//
// # Basics
//
// A consume queue is a dense array of units. Slot n of queue (topic, queueId) says where in the CommitLog the n-th
// message of that queue lies, how long the record is, and the code of its tags. The CommitLog is the truth; a queue is a
// view that can be rebuilt from it, so a unit never decides what a message is.
//
//	min              first slot whose record is still in the log (derived from the log's min physical offset)
//	max              next slot to be assigned; the last unit is at max-1
//	min == max       nothing is readable; with max > 0 the queue is "empty but advanced"
//
// # Caveats
//
// Two numbers are easily confused: a queue offset counts units, a physical offset counts CommitLog bytes. They have
// different names everywhere in this module (QueueOffset, PhyOffset) and are never passed as a bare "offset".
//
// The file format keeps no store time: units read from files carry NoTimestamp. RocksDB units carry it.
//
// # Goroutines
//
// The package starts none. Each role says which of its methods may be called concurrently.
package cq
