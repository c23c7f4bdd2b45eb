// Package meta keeps what a broker knows beside its messages: topics, consumer groups, consumer offsets and how far each delay
// level was delivered, in the files and databases of <root>/config that RocketMQ 5.5.0 reads and writes as well.
//
// # Basics
//
//	OpenTopics        topics.json: a Topic by name, created by an operator, by a send, or for retries
//	OpenGroups        subscriptionGroup.json: a Group by name, created by an operator or by first use
//	OpenOffsets       consumerOffset.json: the next queue offset a group wants, and pending resets
//	OpenDelayOffsets  delayOffset.json: the next queue offset of each delay level
//	OpenDatabases     where a broker over a RocksDB store keeps the first three, for OpenTopics, OpenGroups and OpenOffsets
//	Move              has databases hold what the files hold, or the other way round; Older tells which were left behind
//	CheckTopicName, CheckGroupName, IsSystemTopic  what 5.5.0 takes for a name
//
// # Files
//
// A file is written to a temporary name, synced and renamed over the old one, which stays as <name>.bak: at any instant one
// of the two is whole. A file that cannot be read is set aside as <name>.broken, and the .bak is taken; if both are bad, opening fails
// and names them, while 5.5.0 goes on with nothing. Members that are not known here are kept as they are. Integer keys, bare or quoted,
// are read; they are written quoted, which 5.5.0 reads too.
//
// Topics and groups are durable when the call that changed them returns; changes made at once share one write. Offsets are written
// when Save is called, as 5.5.0 does every 5 seconds.
//
// # Databases
//
// A table has rows and a version in its database as it has members in its file (package configdb). One change of the table is one change of the database. When it is opened, a file
// with a greater version counter is taken in; a file that has the same counter and other rows is logged, and the database counts.
//
// # Goroutines
//
// All types serve any number of goroutines. The package starts none.
//
// Source: files written by 5.5.0, and what it read of files made for the purpose.
package meta
