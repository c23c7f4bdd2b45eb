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
// Preferred and authority can be changed while the store is open. Neither side is ever written to, or begun anew, to make numbers match:
// what differs is reported as a Divergence, and the owner has it built again from the log.
//
// # Ready
//
// A side is ready for a queue when it has whatever the other has of it: it has not failed, is not held, the queue is not diverged on it, and
// the queue begins no later and ends no earlier than on the other side. A queue for which the preferred side is not ready is read from the
// other one; one for which neither is ready, as each lacks something, from the side that ends later. A held side is not read at all.
//
// From which side a queue is read is decided when it is first read, between two batches and when all that was appended can be read as far as that may matter, and
// then remembered, in some 30 bytes a queue. It is decided anew after whatever may change it: a switch, a hold, its end, a failure, a divergence of
// the queue, its healing, a cut, an import, a new min of the log, and, where the preferred side only ended too early, each Flush. So
// readers follow a switch without asking for the queue again, a read costs one comparison more than on the side itself, and the max of a queue never falls
// because one side got a batch before the other.
//
// Being ready is about the ends of a queue. Whether the units are the same is what Verify tells.
//
// # When a side is behind
//
// A side that does not have what the log has, such as a RocksDB made this minute, is held: Append passes it over. Its owner fills it through
// Side, and releases it at the moment when it has everything that was appended. A single queue is handled likewise: one that diverges on a
// side (a gap, a slot that another record has) is passed over there from then on, until its owner has built it again and calls Heal.
// A queue that is dropped begins anew on both sides, which heals it; a held side is left alone then, and the queue counts as diverged on it.
//
// What both sides refuse alike is no divergence: Append answers it, as any store does.
//
// # Failure
//
// A side whose write failed for good is given up: nothing more is appended to it, reads go to the other side, and Failure says why. The
// authority cannot be given up, nor can a side while the other is held: Append then answers the error, and so does the next offset. Where
// light queues are in RocksDB alone and RocksDB has failed, Append answers its failure at the first entry of a light queue.
//
// A side that has failed, or is damaged, comes back by being replaced: its owner suspends it (Suspend), which the authority can be too, replaces what it has, says so (Renew), fills it
// as a side that is held, and releases it. Preference and authority stay what they are, and hold again from then on.
//
// # What is known of what
//
//	Progress         over the sides that are neither held nor failed: what was accepted, can be read and is durable on each of them.
//	                 Watermarks, lag and the checkpoint of a running store are made of it.
//	DispatchFrom     over both sides, held or not: from there on the log has what either lacks. Nothing that lies above may be forgotten.
//	                 It is -1 when one side cannot tell.
//	Side(kind)       answers both questions for one side. A start that replays the log through Append while a side is held asks the other
//	                 side alone, as a replay passes the held one over. For files after a crash the checkpoint is asked besides; see cq/file.
//
// # Goroutines
//
// The package starts none. Reading and switching are safe from any number of goroutines beside one Appender. Whatever writes, and what
// changes who is written to, takes turns with Append: Hold, Release, Heal, SetPreferred, SetAuthority, NextOffset, Ready and the first read of
// a queue wait for the batch that is being appended. Lock order: Store.write, then the locks of the sides and of the tables here, which are never held together.
package combine
