package broker

import (
	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// viewMessage serves VIEW_MESSAGE_BY_ID: the record that begins at a physical offset.
func (b *Broker) viewMessage(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	phyOffset := h.Int64("offset")
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	var r message.Record
	release, err := b.store.MessageAt(phyOffset, &r)
	if err != nil {
		c.RespondError(req, err)
		return
	}
	c.Respond(req, &remoting.Command{Code: remoting.Success, Payload: &remoting.Payload{Slices: [][]byte{r.Raw}, Release: release}})
}

// Query of a unique key: as many as there may be of it. Source: QueryMessageProcessor.queryMessage, 5.5.0.
const (
	uniqueKeyQuery = "_UNIQUE_KEY_QUERY"
	uniqueKeyMax   = 32
)

// queryMessage serves QUERY_MESSAGE: the records of a topic with a key.
//
// Source: QueryMessageProcessor.queryMessage, 5.5.0.
func (b *Broker) queryMessage(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	q := store.QueryRequest{Topic: h.String("topic"), Key: h.String("key"), Max: int(h.Int32("maxNum")), BeginMs: h.Int64("beginTimestamp"), EndMs: h.Int64("endTimestamp"), Type: index.TypeKey}
	if kind := h.StringOr("indexType", ""); kind != "" {
		q.Type = index.Type(kind[0])
	}
	if h.BoolOr(uniqueKeyQuery, false) {
		q.Type, q.Max = index.TypeUniqKey, uniqueKeyMax
	}
	if err := h.Err(); err != nil {
		c.RespondError(req, err)
		return
	}
	res := new(store.QueryResult)
	if err := b.store.Query(q, res); err != nil {
		c.RespondError(req, err)
		return
	}
	resp := remoting.Command{Code: remoting.Success}
	resp.Ext.SetInt("indexLastUpdateTimestamp", res.Answer.LastMs)
	resp.Ext.SetInt("indexLastUpdatePhyoffset", res.Answer.LastPhyOffset)
	if len(res.Messages) == 0 {
		resp.Code, resp.Remark = remoting.QueryNotFound, "no message of that key"
		c.Respond(req, &resp)
		return
	}
	slices := make([][]byte, len(res.Messages))
	for i := range res.Messages {
		slices[i] = res.Messages[i].Record
	}
	resp.Payload = &remoting.Payload{Slices: slices, Release: res.Release}
	c.Respond(req, &resp)
}
