// Package file keeps consume queues the way RocketMQ's default store does: a directory per queue with files of 20-byte
// units (storeType=default). What it writes RocketMQ 5.5.0 opens and serves, and the other way round.
//
//	<root>/consumequeue/<topic>/<queueId>/<20 digits>       units; the layout is drawn in codec.go
//	<root>/consumequeue_ext/<topic>/<queueId>/<20 digits>   extension units; the layout is drawn in ext.go
//	<root>/batchconsumequeue/<topic>/<queueId>/<20 digits>  units of batch queues, which are read (OpenBatch) and not written; the layout is drawn in batch.go
//
// # Basics
//
// Open reads next to nothing. A queue is looked at when it is asked for: its directory is listed and its last file
// scanned where the filesystem has data, once; from then on its bounds are in memory, about 250 bytes a queue. A store that
// is only read forgets them again where there are many (remembered.go), so that its memory does not grow with the number of
// queues. Files are mapped by internal/mappedfile while they are in use. Neither descriptors nor mappings grow with it.
//
// The end of a queue is not written anywhere: it is where the units stop and the zeros begin. Min is not written
// either: it is the first unit whose record is still in the log (Options.MinPhyOffset).
//
// # What is no unit
//
// Two fillers look like units to RocketMQ and are none here: the pre-blank unit below the first slot of a queue, and the
// synthetic unit in the last slot of a queue of which no record is left. Both keep a queue's max; neither is ever
// returned by Read or counted by Bounds.
//
// # Damage
//
// Behind the last unit everything is zero. A byte that is not makes Bounds answer a *cq.CorruptError with file and
// position: what lies there may be units behind a hole, after a crash that lost pages. Bounds looks at the last file and
// at each unit that its searches touch; Check looks at every unit.
//
// After a loss of power, cutting off what the log does not have (TruncateDirty) and appending again what the log has behind the last Flush repairs a
// queue, whatever mix of old and new sectors was left: Append works on a damaged queue as RocketMQ does, from the first hole on, and writes slots anew that read
// as zero or as half a unit. Until then bounds may be wrong, and a unit may have a position that it never had.
//
// Whether the first files of a queue are missing cannot be told by what is left of it; Beginning tells what is proven.
//
// # Caveats
//
// A store does not notice what another process does to the directory after a queue was first looked at. The store
// directory's lock is the caller's duty.
//
// The format cannot hide a queue that is being imported: RocketMQ sees the units that are there. Each of them is right,
// and the max never falls, but until Publish some may be missing at the end.
//
// # Goroutines
//
// The package starts none. Reading is safe from any number of goroutines beside one writer; the writing methods take turns.
// Lock order: Store.flushing, Store.writing, Store.queues, queue.mu, openTable.mu.
package file
