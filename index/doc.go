// Package index keeps the hash index files of a store (<root>/index), in which messages are found by key. What it writes RocketMQ 5.5.0
// reads and continues, and the other way round; the layout is drawn in format.go.
//
//	<root>/index/20261129211406563   named by the local time at which it was made, to the millisecond; any higher number will do
//
// # Basics
//
//	Open           reads the headers; after an unclean stop verifies what may not have reached the disk, and repairs
//	Index.Append   adds the keys of messages in the order of the log: the unique key, the words of KEYS, the tags
//	Index.Query    physical offsets of the messages that may have a key, newest first
//	Index.Flush    makes durable what was appended
//	Index.TruncateDirty, Index.Expire   follow the log where it was cut, and where its old files went
//
// A file is a header, a table of slots and a list of entries; a slot leads to the newest entry of its hashes, an entry to the next
// older one. An entry has the hash of a key and a physical offset, never the key: a query has each hit verified against the record.
// A file that is full gets a successor.
//
// # One entry per message and hash
//
// Two keys of a message with one hash would make two entries that say the same, so one is kept. That is also the rule by
// which dispatch may resume anywhere at or below DispatchFrom: of the last message only those keys are added whose hashes it has not,
// so that nothing is lost or doubled, however far the last stop let it come. RocketMQ adds the last message a second
// time.
//
// # After an unclean stop
//
// An index is a hint like every view: what is in doubt is dropped and comes back from the log. What is in doubt is found
// by comparing slots, entries and header of a file with one another; the argument stands in verify.go. RocketMQ
// drops whole files, and has only the newest of their messages indexed again.
//
// # Caveats
//
// Store times are kept to the second. Queries take the whole second for matching and leave it to the record.
//
// The numbers of slots and entries are not in the files. With other numbers than those it was written with a file has another
// length, as a rule, and is set aside.
//
// Files are sparse; blocks are reserved ahead for entries, and slots take theirs as they are used. A disk that is full by then is
// an error of Append, which may be tried again.
//
// # Goroutines
//
// The package starts none. Append, TruncateDirty and Expire take turns; Flush runs beside Append; any number of queries run beside
// everything, and wait only while a file is added, removed or cut. Lock order: Index.flushing, Index.writing, Index.life.
package index
