// Package migrate moves the consume queues of a stopped store between file and RocksDB: it plans, backfills, verifies,
// cuts over and rolls back. It is a library: it never exits and prints nothing; cmd/tandemmq gives it the opened sides
// of a store directory and shows what it reports.
//
// # Basics
//
// One side of the directory is the source, the other the target. The source is never written. One sequential pass over
// the CommitLog is joined with the source's own units: the queue keeps its numbers and stored tags codes, the log
// supplies the store time and proves each unit (that a record of that queue starts there and has that size and those
// tags). Rows go to the target in chunks, sorted by queue, and are durable before progress is recorded; max, min and
// checkpoint rows are published only when the whole log has been joined. Verification then compares the two sides, every
// queue and every unit, samples decoded records, or all of them (Level), and writes a certificate; cutover recomputes what the
// certificate says and refuses when anything differs. An audit holds every record against its slot on each side and
// names all that is wrong; Repair writes it anew.
//
//	absent -> planned -> backfilling -> verifying -> verified -> cutover -> rolling-back -> rolled-back
//	                              |   ^           |
//	                              v   |           |
//	                         diverged -> repairing   (a repair begins in either of these three phases)
//
// The state lives in <root>/tandemmq/migration.json and is replaced atomically; see State. Every step may be killed at
// any instruction and be repeated.
//
// # What is damage and what is not
//
// RocketMQ 5.5.0 leaves logs in which two records claim one slot, or in which a queue is shifted by one (F1, F5 in
// docs/format/known-faults.md). Such numbering is kept as it is and reported as a notice. What stops a migration is damage: a unit
// that points to no record of its queue, a wrong size, wrong tags, missing units, a missing queue. Finding lists them.
//
// # Goroutines
//
// Backfill runs the scan in the caller's goroutine and one importer goroutine beside it; Verify runs one worker per
// processor, and so does its audit. Both join what they started before they return. Repair runs in the caller's alone.
package migrate
