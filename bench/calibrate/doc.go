// Package calibrate measures the machine that a benchmark runs on, so that the benchmark can state ratios: what a copy into
// warm memory costs, what a checksum adds, how fast a bare append is made durable, how fast the disk writes back.
//
// # Basics
//
// A benchmark calls Memory before and after each of its rows, because the speed of memory on a shared machine changes by
// the minute, and Append and WriteBack once a repetition. All work in files of their own below the directory they are
// given, on the filesystem under test, and remove them. Latency is the histogram that benchmarks record into; Device
// counts the bytes that reach the block device.
//
// # Caveats
//
// Nothing here repeats or takes a median: the caller does, and interleaves what it compares. The figures stand for one
// thread.
package calibrate
