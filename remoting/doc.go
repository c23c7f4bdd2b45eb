// Package remoting speaks RocketMQ's remoting protocol, as of 5.5.0: frames, connections, a server and a client. It knows no
// message and no store; what a code means is its handler's business.
//
// # Basics
//
//	srv, err := remoting.NewServer(handler, remoting.DefaultServerOptions())
//	go srv.Serve(listener)        // as often as there are listeners
//	...
//	err = srv.Shutdown(ctx)       // 1500 to new requests, drain, close
//
//	func (b *Broker) Serve(c *remoting.Conn, req *remoting.Command) {
//		h := req.Fields()
//		topic, queueID := h.String("topic"), h.Int32("queueId")
//		if err := h.Err(); err != nil {
//			c.RespondError(req, err) // code 1, a remark that names the field
//			return
//		}
//		...
//		c.Respond(req, &remoting.Command{Code: remoting.Success, Ext: remoting.Ext{{Key: "offset", Value: "7"}}})
//	}
//
//	client, err := remoting.NewClient(remoting.DefaultClientOptions())
//	resp, err := client.Invoke(ctx, "127.0.0.1:9876", &remoting.Command{Code: remoting.GetRouteInfoByTopic, Ext: ...})
//
// # Requests and answers
//
// A handler answers each request exactly once, whether at once, later, or from another goroutine; one-way requests too (the answer
// is dropped, but the request counts as in flight until then). With Respond the request ends: neither it nor its Body may be
// touched afterwards, as the memory is used for the next one. Strings out of Ext and Remark stay valid; they share one allocation per
// frame, so clone one that is kept for long. A request that waits for something keeps a Ticket instead (Conn.Hold): 24 bytes, and it is no
// longer counted as in flight.
//
// Respond never waits for the peer. Answers gather in the connection and leave in as few writes as possible: when all requests of one
// read have been handled, when 64 KiB have gathered, or at once when nobody is reading. A peer that does not take its answers is
// not read from until it does.
//
// # Classes
//
// A server sorts requests into classes (ServerOptions.Classify). A class either runs inline, on the goroutine that reads the
// connection (in order, cheapest, for handlers that do not wait), or on a bounded number of goroutines of its own. Each class has a limit of
// requests in flight, over which the answer is 2 with the remark [OVERLOAD], so that no class starves another.
//
// # Caveats
//
// Frames are answered in JSON, whatever the request came in: each known client reads that, and some read nothing else.
//
// A frame that cannot be decoded closes its connection without an answer, as RocketMQ does.
//
// # Goroutines
//
// Per connection one that reads, and for as long as there is something to write which did not fit into the socket's buffer, one that
// writes. Per server and per client one that closes idle connections and ends calls that have waited too long. Per class as many as
// run. Shutdown and Close join them all.
package remoting
