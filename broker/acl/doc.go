// Package acl says which requests a broker takes from whom: accounts with keys that sign, and what each may do, out of a file as RocketMQ's plain_acl.yml.
//
// # Basics
//
//	Load   reads a file; the error names its line
//	Open   the same, and takes changes of the file over while it runs (Watch)
//	Allow  nil, or the answer to a request that is refused: code 16, with a remark that has neither keys nor signatures
//
// # Rules
//
// A request is looked at in this order, as RocketMQ's plain access control does:
//
//  1. It comes from an address of globalWhiteRemoteAddresses: taken, whatever it is.
//  2. It names no account, or none that is there: refused.
//  3. It comes from an address of the account's whiteRemoteAddress: taken, whatever it is, and the signature is not looked at.
//  4. Its signature is wrong: refused.
//  5. The account is an admin's: taken.
//  6. What the request does is looked up by its code (needs.go), and each topic and group it touches must allow that.
//
// A topic's permission is that of topicPerms, or else defaultTopicPerm; a group's that of groupPerms, or else defaultGroupPerm; DENY where nothing is said. The topic
// %RETRY%g is the group g: consumers write and read it with the right SUB of the group. %DLQ%g is a topic like any other.
//
// # Caveats
//
// The signature has neither time nor number in it: who reads a connection can repeat what he read. Use TLS where others can.
//
// Requests that name a message by its place in the log (view, send back, end of a transaction) need the right to the topic of that message; RocketMQ takes
// them from every account. Codes that nothing is said about here need an admin; RocketMQ takes most of them from every account.
//
// # Goroutines
//
// Rules never change, and a File serves any number. Watch runs on the caller's.
package acl
