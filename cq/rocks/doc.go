// Package rocks is the store of consume queues in RocksDB, byte for byte the one that RocketMQ 5.5.0 keeps with
// storeType=defaultRocksDB and in its combined mode: either opens what the other wrote.
//
// # Basics
//
// One database holds all queues: a row per unit, a row per queue for its max, optionally one for its min, and one checkpoint
// row. The rows are drawn in codec.go. The ends of all queues are held in memory, about 90 bytes a queue and its topic, read by one
// scan at open. Units are read from RocksDB, one call for a run of them, except the newest ones of queues written to lately, of which the committer leaves a copy
// in memory (Options.TailBytes).
//
// Three ways in: Append (dispatch, one WriteBatch a call), Import and Publish (bulk: sorted table files, taken in
// whole), TruncateDirty and DropQueue (range deletes). See [Store].
//
// # Caveats
//
// There is no write-ahead log: the CommitLog is the log. What was appended is durable after Flush or Close; after a crash the
// checkpoint row, which is flushed together with the units, says from where to dispatch again.
//
// The row of a queue's end holds the start of its last record and the last slot, not the next one.
//
// Deriving min writes nothing. A stored min row is a lower bound: units below it stay invisible, as for RocketMQ.
//
// A topic is at most [MaxTopicBytes] long in what is written: RocketMQ builds its keys in 300 bytes.
//
// # Goroutines
//
// The package starts none that outlive a call. RocksDB runs its own threads between Open and Close.
//
// # Without cgo
//
// Open answers cq.ErrNoRocksDB.
package rocks
