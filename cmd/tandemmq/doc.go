// Command tandemmq is the operator's tool for RocketMQ store directories: it shows what they hold, makes sample ones,
// moves their consume queues between mapped files and RocksDB, and measures how fast a new one takes messages.
//
// It holds flags, wiring, output and exit codes, one file per command; the work is done by the packages store and
// migrate. Commands take their writers from the cli application, so tests run them in process. The only goroutines
// are those of the progress bars, which end with progress.Finish, and the producers of bench put, which load.run joins.
//
// Exit codes:
//
//	0  ok
//	1  failed; standard error says at what, in which file
//	2  wrong usage: unknown command or flag, missing or impossible value; nothing was touched
//	3  verified and found different
package main
