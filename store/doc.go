// Package store knows a RocketMQ store directory as a whole: where everything lies in it, who may touch it, and what its
// state files say. It opens a store for puts (Open) or for reading (OpenView), prints one (Dump) and makes sample ones
// (Generate).
//
// # Basics
//
// A store directory is what RocketMQ calls storePathRootDir. It belongs to one process at a time, which holds a lock on
// the file lock. It was left in order when no file abort is there. The CommitLog in it is the truth; the consume queues,
// as files, in RocksDB or both, are views of it.
//
// # Caveats
//
// RocketMQ takes the lock only after it has loaded and recovered, so a broker that is just starting is not seen.
//
// A view never writes: it shows what is on disk, also when recovery would cut some of it away.
//
// An open store writes the log and nothing else yet: no consume queue, no index, no checkpoint. Store.Close leaves the abort
// mark when there are messages that no queue has, so that RocketMQ builds the queues when it starts on the store.
//
// # Goroutines
//
// Generate runs one goroutine that writes while it encodes, and joins it. A Store has those that its type lists. Nothing else
// here starts any.
package store
