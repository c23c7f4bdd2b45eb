// Package interop checks compatibility with RocketMQ itself: a small Java program (java/, StoreCheck) opens store directories
// with the released rocketmq-store 5.5.0, reads every message, sends more, and shuts down; Go tests compare what it saw.
//
// # Basics
//
//	go test -tags interop ./tests/interop
//
// needs JDK 17 and Maven, set up to reach a repository, and a Go module proxy for the client for Go. The Java programs are built once into the cache directory (package java).
// One JVM serves many directories.
//
//	golden_test.go    the program reads the golden stores and gets what their manifests say: it is a sound judge
//	trip_test.go      a store moved, rolled back and moved again, with RocketMQ reading and sending at every station,
//	                  configured by the very lines that tandemmq prints for broker.conf
//	rocks_test.go     that trip for the file and combine stores
//	file_test.go      that trip for the RocksDB stores
//	generate_test.go  stores made by `tandemmq store generate`
//	expired_test.go   a store whose oldest log files are gone, moved both ways
//	putread_test.go   messages and batches of every shape, put by every way of writing, and gone on with from either side
//	putkill_test.go   the puts of a process that was killed
//	putgolden_test.go puts into the golden stores
//	offsets_test.go   consumer offsets reset by `tandemmq store offsets`, loaded by a broker's own offset managers
//	sequence_test.go  the sequences of modes that break RocketMQ, before and after migrate repair
//	combine_test.go   stores with queues in files and in RocksDB at once, opened with both or one of them, by either in turn, after stops and kills
//	reads_test.go     random reads, by the library and by RocketMQ; readstores_test.go the stores, readcalls_test.go the calls, readdiff_test.go the differences
//	broker_test.go    RocketMQ's own client against a broker of ours; goclient_test.go its client for Go, which goclient/ uses in a module of its own
//	admin_test.go     commands of mqadmin against a broker of ours with its NameServer
//	cluster_test.go   a broker of ours among RocketMQ's NameServers and brokers, and on a store of theirs
//	rocksindex_test.go the message index in RocksDB, written by either in turns, its rows and its answers
//	filter_test.go    message filters: a broker's own answers to the table of package filter and to random expressions
//
// Tests run at once, four at a time (make interop): RocketMQ's programs mostly sleep, 4 s for a store that shuts down, 3 s for a client. Parts of tests that are about the test matrix have its ids
// in their names; docs/broker.md has the matrix, and package arch holds the two together.
//
// # Caveats
//
// RocketMQ changes what it opens, and a wrong start can hide messages for good: every step works on its own copy. The
// program refuses to go on when its process listens on any port.
//
// Batch queues, and all queues of a store that is opened without BuildConsumeQueues, are RocketMQ's to build, when it finds the abort mark. It then
// goes back no more than 10 log files (commitLogRecoverMaxNum). Older messages stay in the log and are in no queue then.
package interop
