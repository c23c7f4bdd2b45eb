package broker

import (
	"strings"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/remoting"
)

// queueOf reads topic and queueId, which most requests have.
func queueOf(h *remoting.Fields) (topic string, queueID int32) {
	return h.String("topic"), h.Int32("queueId")
}

// number answers a request with one number.
func number(c *remoting.Conn, req *remoting.Command, name string, value int64) {
	resp := remoting.Command{Code: remoting.Success}
	resp.Ext.SetInt(name, value)
	c.Respond(req, &resp)
}

// getMaxOffset serves GET_MAX_OFFSET: the queue offset of the next message, 0 of a queue that is not there.
func (b *Broker) getMaxOffset(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	topic, queueID := queueOf(&h)
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	at, err := b.store.MaxOffset(topic, queueID)
	if err != nil {
		c.RespondError(req, err)
		return
	}
	number(c, req, "offset", at)
}

// getMinOffset serves GET_MIN_OFFSET: the queue offset of the oldest message; of a queue without one, 0 where the topic has that queue, and -1 otherwise. Tools pull from it, and refuse to below 0.
func (b *Broker) getMinOffset(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	topic, queueID := queueOf(&h)
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	at, err := b.store.MinOffset(topic, queueID)
	if err != nil {
		c.RespondError(req, err)
		return
	}
	if t, ok := b.topics.Get(topic); ok && queueID >= 0 && queueID < t.Queues() {
		at = max(at, 0)
	}
	number(c, req, "offset", at)
}

// searchOffsetByTimestamp serves SEARCH_OFFSET_BY_TIMESTAMP.
func (b *Broker) searchOffsetByTimestamp(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	topic, queueID := queueOf(&h)
	at := h.Int64("timestamp")
	boundary := cq.BoundaryLower
	if strings.EqualFold(h.StringOr("boundaryType", ""), "UPPER") {
		boundary = cq.BoundaryUpper
	}
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	offset, err := b.store.OffsetByTime(topic, queueID, at, boundary)
	if err != nil {
		c.RespondError(req, err)
		return
	}
	number(c, req, "offset", offset)
}

// getEarliestStoreTime serves GET_EARLIEST_MSG_STORETIME: milliseconds, -1 where nothing is stored.
func (b *Broker) getEarliestStoreTime(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	topic, queueID := queueOf(&h)
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	at, err := b.store.EarliestTime(topic, queueID)
	if err != nil {
		c.RespondError(req, err)
		return
	}
	number(c, req, "timestamp", at)
}
