// Package state is the state machine of a migration and its durable file, <root>/tandemmq/migration.json. A migration of a stopped store
// (package migrate) and one inside a running broker (package migrate/online) share both.
//
// # Basics
//
// Next is the machine: a pure function from a phase and an event to a phase. A State holds the phase, what the steps need to go on after
// a kill, and the audit trail: who did what when. Apply moves a State by an event, Save replaces its file. A side effect comes after the event that
// announces it is durable and before the one that says it is done, and can be repeated: a process that is killed in between finds the announced
// phase and does it again.
//
//	absent -> planned -> backfilling -> [catching-up ->] verifying -> verified -> cutover -> finalizing -> finalized
//	                                                       |   ^                     |          ^
//	                                                       v   |                     v          |
//	                                             diverged -> repairing      rolling-back -> rolled-back
//
// catching-up and finalizing are phases of a migration in a running broker alone. From each phase before the cutover it can be cancelled, which leads to
// rolled-back as well: reads never left the source then.
//
// # The file
//
// It is JSON, of version 1, and RocketMQ ignores it. Fields are added, never changed: a file of an earlier build is read by a later one. A phase that is not known is an
// error, so an earlier build refuses to act on what it does not understand.
//
// # Goroutines
//
// A State is not for concurrent use.
package state
