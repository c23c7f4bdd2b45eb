// Package faultfs is a filesystem in memory that fails, stalls, runs full and loses power when a test tells it to. It is an
// mmap.FS, so that what is tested is the code that runs on the machine, without a test branch in it. Only tests import it.
//
// # Basics
//
//	New          an empty FS
//	FS.Inject    sees every operation before it happens: may fail it, hold it up, or lose power there
//	FS.Observe   sees every operation after it happened
//	FS.Dirty     what a loss of power now would put at stake
//	FS.Crash     a new FS: what a loss of power now leaves. CrashSeed and CrashAll choose for the test
//
// A test fails operation 0, then 1, 2, … until a run is not failed any more; or it loses power at each of them and opens what
// CrashAll yields:
//
//	fsys.Inject(func(op faultfs.Op) error {
//		if op.Index == k {
//			for left := range fsys.CrashAll() {
//				check(left) // print left when it fails: it tells what survived
//			}
//		}
//		return nil
//	})
//
// # What survives
//
// A file has its content as all see it (the page cache) and as it is on the disk. Datasync and Flush copy from the one to the
// other; stores through a mapping are no operations and are found by comparing. At a loss of power each page of 4 KiB that
// differs goes its own way: old, as on the disk; new, as all saw it; or zero, where blocks were given back since. So do
// lengths. Directory entries survive by operation (create, remove, rename, mkdir), each of them or not, in their order, until
// SyncDir; a rename is one operation also between two directories. Blocks that were reserved and not synced are lost.
//
// A sync covers what was there when it was called: what is stored while Inject holds it up stays at stake. A sync that fails
// leaves its pages clean and not durable, as Linux does; a later sync that succeeds does not write them (Options.KeepDirty).
//
// # Caveats
//
// The bytes of a mapping are a Go slice, so that the race detector sees stores to them and loads from them, also against
// ReadAt, WriteAt and Erase; syncs and crashes read unseen by it, see snapshot.go. The lock of the FS orders goroutines that
// call it one after the other, which hides a race between just these.
//
// Nothing faults: bytes of a mapping beyond a file that was cut read as zero, stores into a mapping that is not writable
// succeed, and a store into a hole of a full disk is found out by the next sync (ENOSPC) instead of by SIGBUS. After the last
// mapping of a file is unmapped the old slice is filled with PoisonByte: who still reads it gets that, and who still stores
// to it is not heard.
//
// A file that is mapped cannot grow beyond twice its length when it was mapped (64 KiB at least), because the slice cannot
// move: it answers an error that matches errors.ErrUnsupported. A write that reached the disk on the way, between what
// was there at the last sync and what is there now, is not among the fates.
//
// # Goroutines
//
// The package starts none. All methods may be called concurrently, and from within Inject and Observe, which run without
// any lock.
package faultfs
