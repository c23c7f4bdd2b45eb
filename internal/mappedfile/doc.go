// Package mappedfile presents a directory, or several, of equally long files as one run of bytes. The CommitLog and every file consume
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
// An owner who must not wait for the disk when a file is full makes the next ones ahead (Queue.Create, on a goroutine of its
// own) and takes them in when it gets there (Adopt). It may write to them by any way it likes: File.Hold, File.OpenFile.
// Positions then say how far it came.
//
// All of it goes through an mmap.FS, so tests make every step fail or be the last one before a crash.
//
// # Caveats
//
// Holding is for the length of one operation. A component that holds a file per queue for ever runs into the limit, and
// Hold then answers ErrLimit.
//
// The end of a Queue is the end of its last file. Where the content ends is knowledge of the owner: files are made in full
// length and read as zero beyond what was written. Files made ahead that a crash leaves behind are full of zeros like any
// other; they never count as written, and their blocks may not be reserved when the crash came while they were made.
//
// Touching a page that is not in memory blocks a thread of the Go runtime until the disk has answered: for bytes that nobody has read for long there
// are File.InMemory and File.ReadAt, whose descriptor stays as long as the mapping.
//
// Touching a mapping may fault when someone else cuts the file: wrap accesses in mmap.GuardFault.
//
// # Goroutines
//
// The package starts none. All methods of Queue and File may be called concurrently. WriteAt, Truncate and Discard take
// turns, and so do RemoveFirst and Truncate; Create and RemoveFirst do their I/O beside all others. A reader beside a writer
// must stay below a position that the writer has published.
//
// Locks, in the order in which they are taken: Queue.removing or Queue.syncing, Queue.mu, File.mu, mappings.
package mappedfile
