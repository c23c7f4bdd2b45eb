// Package mappedfile presents a directory of equally long files as one run of bytes. The CommitLog and every file consume
// queue are stored that way: each file is named by the position of its first byte, 20 decimal digits, and holds exactly
// FileSize bytes.
//
//	<dir>/00000000000000000000   bytes [0, FileSize)
//	<dir>/00000000000001048576   bytes [FileSize, 2*FileSize)     here FileSize = 1 MiB
//
// # Basics
//
// Open reads the directory and nothing else: it keeps no descriptor and no mapping, so a store of 100,000 queues opens
// within the default limits of the system. A file is mapped when it is first held (File.Hold) and stays mapped while it is
// idle, until the process needs its place for another: the number of mappings of the process is bounded (SetLimit), and
// the idle one used least recently goes first. A held file is never unmapped.
//
// A writable Queue stores through the mappings, makes the next file when a write passes the end, and syncs files by their
// names; it too keeps no descriptor open.
//
// # Caveats
//
// Holding is for the length of one operation. A component that holds a file per queue for ever runs into the limit, and
// Hold then answers ErrLimit.
//
// The end of a Queue is the end of its last file. Where the content ends is knowledge of the owner: files are made in full
// length and read as zero beyond what was written.
//
// Touching a mapping may fault when someone else cuts the file: wrap accesses in mmap.GuardFault.
//
// # Goroutines
//
// The package starts none. All methods of Queue and File may be called concurrently; WriteAt and Truncate take turns. A
// reader beside a writer must stay below a position that the writer has published.
package mappedfile
