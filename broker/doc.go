// Package broker serves a store to RocketMQ clients: producers, consumers and the admin tool of 5.5.0 and others that speak its protocol.
//
// # Basics
//
//	Open    opens the store and what belongs to it, and recovers; nobody is served yet
//	Start   listens, registers with the NameServers, and serves
//	Close   answers what is waiting, tells clients to go, saves offsets, and closes the store
//
// A Broker is wired from parts that know nothing of one another:
//
//	meta      topics, groups, consumer offsets, delay offsets: the files of config/
//	acl       which requests are taken from whom
//	clients   who is connected: producers, consumers with their subscriptions, queue locks
//	stats     counters and rates
//	remoting  frames and connections
//	store     messages
//
// Each request code has one handler, a method of Broker in the file of its subject: send.go, pull.go, offsets.go, client.go, admin*.go and so on. handlers.go lists
// them all with their class; classes bound what is in flight, so that pulls cannot starve sends, nor tools either. A handler answers at once, or later from
// another goroutine (a put that waits for the disk, a pull that waits for a message).
//
// # Goroutines
//
// One for each connection (remoting), and those of the services, each started by Start and joined by Close: holds (pulls that wait), delays (messages that come
// due), transactions (check-back), and housekeeping (offsets are saved every 5 seconds, connections scanned every 10, counters sampled every second).
//
// # Caveats
//
// Pop, lite topics, the timer wheel, static topics and replication are not there: their codes are answered with "not supported", and a store that holds undelivered
// messages of the timer wheel or of pop is refused unless AcceptUndelivered is set.
//
// Source: what RocketMQ 5.5.0's broker answers on the wire.
package broker
