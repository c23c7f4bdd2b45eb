// Package online moves the consume queues of a store that is open, and written and read all the while, between files and RocksDB: it backfills, verifies, moves reads, of some topics first if
// that is wanted, moves them back, and gives up the side that is not needed any more. docs/decisions/0008-online-migration.md says why it is done this way; docs/migration.md is the operator's page.
//
// # Basics
//
// The combined store does the work on queues: it writes both sides, fills one from the log, has both meet, builds single queues again, and reads each queue from the preferred side
// as far as that is ready. A Migration decides. It watches the store, moves the state machine of package migrate/state, whose file it keeps, and gives the sides their roles.
//
//	Begin      notes the plan. A store with one kind of queues has to be closed and opened with what Require answers, which is combined; one that is combined goes on
//	(by itself) backfilling, catching-up: the store fills the target; verifying: VerifySides; diverged and repairing: the store builds queues again
//	Verify     begins with the verification again
//	Cutover    compares what came since the verification, then moves reads and authority, or the reads of some topics
//	Rollback   the same, back; before a cutover it gives the migration up
//	Finalize   notes which side is kept. Finish moves the other one aside before the next start, and Require answers one kind from then on
//
// The order is always: compare, make the new phase durable, then give the roles. A process that was killed in between gives them when it opens the store again: Require names them, so that
// they hold from the first read on. Both sides are written all the while, so whichever side serves has every message.
//
// # What a stop does
//
// After a stop in order a verification still counts. After any other it does not: the phase goes back to verifying, canary topics go back to the source, and the units are compared from the first on. A
// cutover stays: the combined store knows by itself where a side may lack something, and reads from the other.
//
// # Goroutines
//
// Open starts one, which goes on with whatever is due, and one that takes down how it goes (state.Samples), both of which Close joins. The steps may be called from any goroutine; they take turns with one another, and a verification under way gives way
// to Rollback. Lock order: Migration.step, then Migration.mu, under which nothing is waited for but the state's file.
package online
