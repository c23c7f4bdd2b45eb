// Package index is the place of the hash index files of a store (<root>/index), in which RocketMQ looks messages up by key.
// It holds its design so far; the code comes with reading by key.
//
// # Basics
//
// An index file is a header, a table of slots and a list of entries; a slot holds the newest entry of its hash, an entry
// the next older one. Keys are "topic#key". Entries hold a hash and a physical offset, never the key itself: a query
// verifies each hit against the record. Files are named by local time and roll when full.
//
// # Caveats
//
// An index is a hint like every view: it is rebuilt from the CommitLog, and a loop or a wild link in a chain is damage that a
// reader must notice and step over.
package index
