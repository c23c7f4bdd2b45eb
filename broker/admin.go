package broker

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/remoting"
)

// What tools ask of a broker stands in admin_*.go, by subject:
//
//	admin_topics.go   topics are made, changed, deleted and listed; how far their queues are
//	admin_groups.go   the same of groups of consumers, and who consumes what
//	admin_offsets.go  consumer offsets: how far groups are, resets, copies
//	admin_clients.go  who is connected
//	admin_store.go    queues and log: units, cleaning, comparing files with RocksDB
//	admin_config.go   properties, of which those that are live are taken over at once
//	admin_runtime.go  what the broker has done
//
// Errors that are no *remoting.ResponseError are answered with code 1 and their text.

// answer answers a request at once.
type answer func(req *remoting.Command, h *remoting.Fields) (remoting.Command, error)

// serve makes a handler of it.
func (f answer) serve(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	resp, err := f(req, &h)
	if err != nil {
		c.RespondError(req, err)
		return
	}
	c.Respond(req, &resp)
}

// withBody is a successful answer of v in JSON.
func withBody(v any) (remoting.Command, error) {
	body, err := remoting.MarshalBody(v)
	return remoting.Command{Code: remoting.Success, Body: body}, err
}

// success is a successful answer without anything, unless there is an error.
func success(err error) (remoting.Command, error) {
	return remoting.Command{Code: remoting.Success}, err
}

// pageEntries is how many entries a page of a table has at most. Source: AdminBrokerProcessor.getAllTopicConfig, 5.5.0.
const pageEntries = 2000

// page returns the part of a table that a request asks for: all of it, or up to most names from the seq-th on where it says so. It begins anew when the table is not of the version that the
// asker has seen.
//
// An asker adds what it got to its sequence, and ends one entry before the last: so a page is never followed by one of a single entry.
func page[T any](all map[string]T, h *remoting.Fields, seqField, mostField string, v meta.DataVersion) map[string]T {
	if !h.Has(seqField) && !h.Has(mostField) && !h.Has("dataVersion") {
		return all
	}
	seq, most := int(h.Int32Or(seqField, 0)), int(h.Int32Or(mostField, pageEntries))
	var seen meta.DataVersion
	if json.Unmarshal([]byte(h.StringOr("dataVersion", "")), &seen) != nil || seen != v {
		seq = 0
	}
	names := slices.Sorted(maps.Keys(all))
	names = names[min(max(seq, 0), len(names)):]
	if most = min(max(most, 1), pageEntries); len(names) > most+1 {
		names = names[:most]
	}
	part := make(map[string]T, len(names))
	for _, name := range names {
		part[name] = all[name]
	}
	return part
}

// topic returns a topic, or the error that there is none.
func (b *Broker) topic(name string) (meta.Topic, error) {
	t, ok := b.topics.Get(name)
	if !ok {
		return t, remoting.Errorf(remoting.TopicNotExist, "there is no topic %s", name)
	}
	return t, nil
}

// queue names a queue of this broker.
func (b *Broker) queue(topic string, queueID int32) remoting.MessageQueue {
	return remoting.MessageQueue{BrokerName: b.o.BrokerName, QueueID: queueID, Topic: topic}
}
