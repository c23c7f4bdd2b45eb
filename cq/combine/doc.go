// Package combine is the store of consume queues that writes every unit to two others, files and RocksDB, and reads from one of them,
// so that a live store can be moved from one to the other and back.
//
// # Basics
//
// A Store is handed two cq.Store values, its sides, which it owns from then on; it knows them by their Kind and by the roles of package cq
// alone. Every Append goes to both, in physical order.
//
//	preferred   the side that reads are served from, queue by queue as far as it is ready for them
//	authority   the side that says which offset comes next in a queue
//	light       where LightInRocks is set, light queues are in RocksDB alone: it is preferred and has authority for them
//
// Preferred and authority can be changed while the store is open. Neither side is ever written to, or begun anew, to make numbers match: what
// differs is reported as a Divergence, and the owner has it built again from the log.
//
// # Ready
//
// A side is ready for a queue when it has whatever the other has of it: it has not failed, is not held, the queue is not diverged on it, and it
// begins no later and ends no earlier than on the other side. That is looked at when a queue is first read and remembered while it can only stay true. A queue for which the preferred side is
// not ready is read from the other one; one for which none is (each lacks something) is read from the side that ends later.
//
// # When a side is behind
//
// A side that does not have what the log has, such as a RocksDB made this minute, is held: Append passes it over. Its owner fills it through
// Side, and releases it at the moment when it has everything that was appended. A single queue is handled likewise: one that diverges on a side (a gap, a
// slot that another record has) is passed over there from then on until its owner has built it again and calls Heal.
//
// # Failure
//
// A side whose write failed for good is given up: nothing more is appended to it, reads go to the other side, and Failure says why. The authority
// cannot be given up: Append then answers its error, and so does the next offset. What was not written is still in the log, from DispatchFrom on, which is the smaller of the
// two sides'.
//
// # Goroutines
//
// The package starts none. Reading and switching are safe from any number of goroutines beside one Appender.
package combine
