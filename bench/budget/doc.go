// Package budget counts what put, dispatch, group commit, index and get allocate, by operation, and holds the counts against budget.txt. Unlike times, counts are the same on every machine and under
// every load, so that an ordinary run of the tests tells when one of these paths begins to feed the garbage collector. It is tests and nothing else.
//
// # Basics
//
// A line of budget.txt has the name of an operation, its allocations and the bytes of them. The test prints what it counted beside each, and fails where a count
// lies above the budget, and where it lies so far below that the budget would let a mistake pass. To take the counts over:
//
//	go test ./bench/budget -update
//
// # Caveats
//
// What C allocates in RocksDB is not counted. The counts are those of the whole process, background goroutines included, in the best of several rounds.
package budget
