// Package namesrv is a NameServer, which tells RocketMQ clients which brokers have the queues of a topic, and the part of a broker that registers with NameServers,
// embedded or RocketMQ's own.
//
// # Basics
//
//	Server     answers brokers, clients and the admin tool; its tables live in memory, but for key-value configuration (kvConfig.json)
//	Registrar  registers a broker with several NameServers, again and again, and unregisters it
//
// # Liveness
//
// A broker is known as long as its connection is open and it registers, or sends a heartbeat, within 120 seconds (or what its registration says). Its topics go with
// it. Topics that a later registration no longer names stay, as in 5.5.0, until they are deleted.
//
// # Caveats
//
// Compressed registrations, which 5.5.0 never sends, are refused. Controllers and acting masters are not there.
//
// # Goroutines
//
// A Server has those of its remoting.Server and one that looks for silent brokers every 5 seconds; Close joins them. A Registrar has none but during a call.
//
// Source: RouteInfoManager and DefaultRequestProcessor, 5.5.0.
package namesrv
