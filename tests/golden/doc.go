// Package golden holds store directories written by RocketMQ 5.5.0, each with a manifest of what RocketMQ itself read from
// it, and unpacks them for tests. testdata/README.md tells what is in them and how they were made.
//
// # Basics
//
//	dir := golden.Unpack(t, "file-normal")          // a fresh copy, the store root
//	want := golden.Manifest(t, "file-normal")       // queues and messages as RocketMQ served them
//
// A manifest's message lines are kept as canonical JSON text (keys sorted), not as a struct: an absent field, a null and a
// zero are three different answers, and a comparison must see all three. Line.Decode fills a struct for whoever needs one.
//
// The package also builds and runs the tandemmq binary, because every test that needs these directories needs that too.
//
// # Caveats
//
// Opening a directory changes it (RocketMQ and RocksDB both do): never open testdata, always a copy. The message store
// timestamps are real, so whoever opens a directory with RocketMQ switches its retention off.
package golden
