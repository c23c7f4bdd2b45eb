// Package cqtest is the suite that every store of consume queues passes, whatever it keeps its units in. It judges a
// store by the contract written in package cq and by nothing else: it opens a directory, writes, reads back, closes and
// opens again.
//
// # Use
//
// A new implementation needs one test:
//
//	func TestContract(t *testing.T) {
//		cqtest.Run(t, cqtest.Harness{
//			Open: func(dir string, o cqtest.OpenOptions) (cq.Store, error) {
//				return mystore.Open(dir, mystore.Options{ReadOnly: o.ReadOnly, MinPhyOffset: o.MinPhyOffset})
//			},
//		})
//	}
//
// Open the store with the smallest internal sizes it allows: the cases write from one to a few hundred units a queue,
// and they are worth most when that crosses the boundaries of files, blocks or memtables. Run it with -race as well: the
// concurrent case is there for that.
//
// # Basics
//
// Every case begins with an empty directory of its own and an imaginary CommitLog (type Log) that hands out physical
// offsets in order. Records that owe no unit lie between the others, so the end of one record is often not the start of
// the next one that has a unit.
//
// # Caveats
//
// What a store may decide by itself is not asserted: whether units below Bounds.Min are still answered, what a queue
// built by Import shows before Publish, and how the directory looks. The suite opens one store of a directory at a time.
//
// # Goroutines
//
// Only the concurrent case starts any; it joins them before it ends.
package cqtest
