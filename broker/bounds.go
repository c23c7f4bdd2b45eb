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

// ofQueue makes a handler that answers what the store says of a queue, as the field name. A queue that is not there is no error.
func ofQueue(name string, of func(topic string, queueID int32) (int64, error)) remoting.HandlerFunc {
	return func(c *remoting.Conn, req *remoting.Command) {
		h := req.Fields()
		topic, queueID := queueOf(&h)
		err := h.Err()
		value := int64(0)
		if err == nil {
			value, err = of(topic, queueID)
		}
		if err != nil {
			c.RespondError(req, err)
			return
		}
		number(c, req, name, value)
	}
}

// minOffset is the queue offset of the oldest message; 0 of a queue of a topic that has no message yet, from where tools then pull, and -1 of a queue that is not there.
func (b *Broker) minOffset(topic string, queueID int32) (int64, error) {
	at, err := b.store.MinOffset(topic, queueID)
	if t, ok := b.topics.Get(topic); ok && queueID >= 0 && queueID < t.Queues() {
		at = max(at, 0)
	}
	return at, err
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
