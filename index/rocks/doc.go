// Package rocks is the message index in RocksDB, the one that RocketMQ 5.5.0 keeps with indexRocksDBEnable=true: either opens what the other wrote.
//
// It is the family "default" of the database <root>/rocksdbstore. The families "timer" and "trans", which RocketMQ has there too, are opened and kept, and never written.
// The rows are drawn in key.go.
//
// # Basics
//
//	Open               reads how far the index has come
//	Index.AppendBatch  adds the keys of messages in the order of the log, with the rows of progress, in one write
//	Index.Query        physical offsets of the messages that may have a key, newest first
//	Index.Flush        makes durable what was appended
//	Index.TruncateDirty, Index.Expire   follow the log where it was cut, and where its old files went
//
// # Keys are not quoted
//
// The pieces of a row are put together with '@', which keys and unique keys may contain, so that the rows of key a and those of key a@z begin alike. What a query finds is
// therefore a candidate, as in index files, and the record decides (I9). Paging goes by physical offset, which has no such trouble (I10).
//
// # Progress
//
// RocketMQ's own row of progress, lastOffsetPy, says where the last message with a unique key is, not that all before it are there: the index is not filled with what the log had when the option was
// turned on, and has a gap where it was off for a while (I13). A row of ours beside it, which RocketMQ never reads, says up to where this package has indexed without a gap. Dispatch begins there, and what RocketMQ added
// is added again, which changes nothing.
//
// # Durability
//
// There is no write-ahead log; RocketMQ's, if it was killed, is replayed. What was appended is durable after Flush or Close, and rows and progress are always of one write.
//
// # Goroutines
//
// The package starts none. AppendBatch, TruncateDirty and Expire take turns; Flush and any number of queries run beside them.
//
// # Without cgo
//
// Open answers index.ErrNoRocksDB.
package rocks
