// Package mmap is the one place that talks to the kernel beyond what package os offers: mapping files, advising and
// flushing ranges of a mapping, reserving and erasing blocks, locking a store directory, and turning a fault on mapped
// memory into an error. No other package of this module imports golang.org/x/sys. It supports Linux.
//
// # Basics
//
//	FS         a filesystem, as those see it who write logs and queues: OS, or one in memory under test
//	Map        a Region: the bytes of a file in memory, shared with every other process that maps it
//	GuardFault runs code that touches mappings; a SIGBUS becomes a *FaultError that names the file and the byte
//	Lock       excludes other processes, a Java broker included, from a store directory
//	Preallocate, Erase, Datasync, SyncDir, SyncFS, FreeBytes: what durability and full disks need
//
// # Caveats
//
// Nothing keeps a mapping alive: a slice of Region.Bytes must not be touched after Unmap, or the process dies by SIGSEGV.
// Counting the holders is the duty of the caller (internal/mappedfile does it).
//
// Record locks belong to the process and to the inode, not to the descriptor: closing ANY descriptor of the lock file
// drops the lock. See Lock.
//
// # Goroutines
//
// The package starts none. All functions may be called concurrently. Unmap waits for running Flush, Advise, Lock
// and Unlock calls of its Region, and for nothing else.
package mmap
