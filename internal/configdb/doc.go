// Package configdb reads and writes the RocksDB databases in which RocketMQ 5.5.0 keeps topics, consumer groups and consumer offsets under
// storeType=defaultRocksDB with configManagerVersion=v1.
//
// # Basics
//
//	Exists   tells whether a broker has kept a table there
//	Open     opens the databases of a form, and makes what is missing; OpenReadOnly changes no byte
//	Read     returns a table as it is stored
//	Write    has the database hold a table, and nothing else, as one change that is durable when it returns
//
// A table is rows of JSON by name, and a data version (JSON too). What the JSON says is not looked at here; package broker/meta does that.
//
// # Rows
//
// All below <root>/config. Keys are the names in UTF-8; the key of a version is kvDataVersionKey.
//
//	form            table    directory           rows               versions                   forbidden
//	rocksdb         topics   topics              default            kvDataVersion
//	                groups   subscriptionGroups  default            kvDataVersion              forbidden
//	                offsets  consumerOffsets     default            kvDataVersion
//	rocksdb-single  topics   metadata            topic              topicVersion
//	                groups   metadata            subscriptionGroup  subscriptionGroupVersion   forbidden
//	                offsets  metadata            consumerOffset     consumerOffsetVersion
//
// Source: databases written by 5.5.0 (broker/meta/testdata).
//
// # Caveats
//
// What configManagerVersion=v2 keeps in config/rdb has rows of another kind, and is not known here.
//
// # Goroutines
//
// The package starts none; RocksDB has its own from Open to Close. A DB serves any number of goroutines.
package configdb
