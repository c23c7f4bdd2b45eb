// Package laxjson reads the JSON that RocketMQ's library writes and takes, which is more than JSON: maps with integer keys are
// written bare ({0:12}), maps keyed by a message queue have the object itself as the key ({{"brokerName":"b",...}:5}), and on input
// single quotes, missing commas' values and unquoted words pass as well. encoding/json takes none of that, and a person who has to
// repair a file needs a line and a column.
//
// # Basics
//
//	Parse      a text as a tree of Nodes, each with its place and its own text
//	Unmarshal  a text into a Go value by encoding/json, lax text made strict first
//	Strict     that text; an object that is a key becomes a string that holds its text
//	Place      line and column of a byte position
//
// Nesting is bounded, and no text makes a reader panic or loop.
//
// Source: bodies and files written by 5.5.0, and what it read of texts made for the purpose.
package laxjson
