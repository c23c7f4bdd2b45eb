// Package rocks is the module's one door to RocksDB: it opens a database with the families and options that RocketMQ
// expects, keeps every C object's owner in one place, and pays one crossing into C per query or per batch.
//
// # Basics
//
// A [DB] has the column families "default" (units) and "offset" (ends of queues, checkpoint). Families it does not know are
// opened and kept. Writes are a [Batch], assembled in Go memory in RocksDB's own representation and handed over in one call.
// Units, the fixed 28-byte values under keys that end in a slot number, are read, searched and written to table files by
// small C functions (shim.c) that walk whole ranges.
//
// # Caveats
//
// Every table is written with format version 5: RocketMQ 5.5.0 carries RocksDB 8.4.4, which refuses 6 and later.
//
// The write-ahead log is off, but for [DB.WriteNamed]. What was written is durable after [DB.Flush]; both families are flushed as one (atomic flush),
// so a crash never separates units from the rows that count them.
//
// RocksDB guards nothing against use after close. A DB therefore takes a shared lock before each call and Close takes it
// exclusively; a call after Close answers [ErrClosed].
//
// Each goroutine inside C occupies an operating system thread. Options.MaxCalls bounds how many there may be at once.
//
// # Goroutines
//
// The package starts none; RocksDB runs its own threads between Open and Close.
//
// Without cgo only the options are there.
package rocks
