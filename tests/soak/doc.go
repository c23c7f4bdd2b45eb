// Package soak runs a broker under producers and consumers for as long as it is told to, kills it again and again, and looks whether anything is lost, out of order, or grows.
//
//	SOAK=20m go test -count=1 -timeout 60m -v ./tests/soak     what make soak does
//	go test ./tests/soak                                       20 seconds
//
// # Basics
//
// The broker is a process of its own (child_test.go, this test's binary again), over a store with files of 2 MB and less, whose queues are in files in the beginning and in RocksDB in the end. The others live in the test:
//
//	producers   4; each sends numbered messages in turn to all queues, one at a time, and sends one again until it is acknowledged
//	consumers   8 in 4 groups; each takes its share of the queues as RocketMQ's client does, pulls and waits, and commits
//	ledger      which message is at which offset, told by acknowledgements and by what is consumed; whatever contradicts it ends the run
//	disruptions what happens meanwhile, at parts of the time: kill -9 and a new start of the broker, and the steps of a migration (migration_test.go)
//	retention   log files that all groups have consumed are removed, and queues and index behind them
//
// The broker is restarted in the first quarter alone, and at the end; from the middle on its memory (RssAnon), goroutines, mappings and descriptors are looked at, and the slope over them is what
// grows, over a cutover, a rollback, two verifications and another cutover. In the end every group must have consumed every message, the migration be finished, and the store, closed in order, pass
// store check --deep.
package soak
