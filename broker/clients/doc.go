// Package clients knows who is connected to a broker: producers, consumers with what they subscribe to, and which of them have a queue locked.
//
// # Basics
//
//	Heartbeat  what a client says of itself every 30 seconds
//	Registry   groups of producers and of consumers by connection; it tells which groups have changed, and never talks to a client itself
//	Locks      queues of ordered consumers, each held by one client of its group for 60 seconds at a time
//
// A group is there as long as it has a connection. The table is keyed by connection: a client that comes back on a new one is there twice until the old one is
// closed, but its id is listed once.
//
// # Caveats
//
// A subscription's tags are always computed from its text: some clients send hashes that are none of RocketMQ's.
//
// # Goroutines
//
// None of its own; all types serve any number.
//
// Source: ProducerManager, ConsumerManager, RebalanceLockManager, 5.5.0.
package clients
