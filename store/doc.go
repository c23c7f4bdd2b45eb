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
// An open store keeps its consume queues (files or RocksDB) and its index up to the log, each by a follower of its own: what was put is in
// them a moment later, and all of it when Close returns. See Store.Watermarks.
//
// # Goroutines
//
// Generate runs one goroutine that writes while it encodes, and joins it. A Store has those that its type lists. Nothing else
// here starts any.
package store
