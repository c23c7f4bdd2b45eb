// Package combine is the place of the store that writes every unit to two others and reads from one of them. It holds its
// design so far; the code comes with dual write.
//
// # Basics
//
// The store is handed two cq.Store values and cannot name their kinds. Every Append goes to both, in physical order: to the
// first synchronously, to the second through a bounded queue and one committer. Reads are served from the preferred one.
// The authority is the one whose max offsets seed the table of next offsets; the other must reach the same max or be
// reported as diverged. Neither is ever re-initialised to make numbers match.
//
//	prefer      store that reads are served from; moves only to a verified one
//	authority   store that decides the next offset of a queue class (light queues may live in RocksDB alone)
//
// Progress is the smaller of the two for durable and readable, so that dispatch resumes where neither lacks a unit.
// DispatchFrom is the smaller of the two likewise.
//
// # Caveats
//
// A failed write of either store is sticky and shows; the healthy one goes on serving reads.
package combine
