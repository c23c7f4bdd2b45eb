package broker

import (
	"github.com/tandemq/tandemmq/broker/clients"
	"github.com/tandemq/tandemmq/remoting"
)

// connection is a client as tools see it.
type connection struct {
	Addr     string `json:"clientAddr"`
	ClientID string `json:"clientId"`
	Language string `json:"language,omitempty"` // a name of the list; a tool takes no other
	Version  int32  `json:"version"`
}

// languageOf names what a client is written in; "" where that is not in the list.
func languageOf(m *clients.Member) string {
	if m.Language == remoting.UnknownLanguage {
		return ""
	}
	return m.Language.String()
}

func connections(members []clients.Member) []connection {
	list := make([]connection, len(members))
	for i := range members {
		m := &members[i]
		list[i] = connection{m.Conn.RemoteAddr(), m.ClientID, languageOf(m), m.Version}
	}
	return list
}

// consumerConnections serves GET_CONSUMER_CONNECTION_LIST.
func (b *Broker) consumerConnections(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	group := h.String("consumerGroup")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	g, ok := b.clients.Consumers(group)
	if !ok {
		return remoting.Command{}, remoting.Errorf(remoting.ConsumerNotOnline, "group %s has no consumer", group)
	}
	return withBody(struct {
		Connections   []connection                     `json:"connectionSet"`
		FromWhere     clients.FromWhere                `json:"consumeFromWhere"`
		Type          clients.ConsumeType              `json:"consumeType"`
		Model         clients.MessageModel             `json:"messageModel"`
		Subscriptions map[string]*clients.Subscription `json:"subscriptionTable"`
	}{connections(g.Members), g.FromWhere, g.Type, g.Model, g.Subscriptions})
}

// producerConnections serves GET_PRODUCER_CONNECTION_LIST.
func (b *Broker) producerConnections(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	group := h.String("producerGroup")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	members := b.clients.Producers(group)
	if len(members) == 0 {
		return remoting.Command{}, remoting.Errorf(remoting.SystemError, "group %s has no producer", group)
	}
	return withBody(struct {
		Connections []connection `json:"connectionSet"`
	}{connections(members)})
}

// producerInfo is a client that produces, as tools see it.
type producerInfo struct {
	ClientID string `json:"clientId"`
	Language string `json:"language,omitempty"`
	SeenMs   int64  `json:"lastUpdateTimestamp"` // its last heartbeat
	RemoteIP string `json:"remoteIP"`            // with a slash before it
	Version  int32  `json:"version"`
}

// allProducers serves GET_ALL_PRODUCER_INFO.
func (b *Broker) allProducers(*remoting.Command, *remoting.Fields) (remoting.Command, error) {
	table := map[string][]producerInfo{}
	for group, members := range b.clients.AllProducers() {
		for i := range members {
			m := &members[i]
			table[group] = append(table[group], producerInfo{m.ClientID, languageOf(m), m.Seen.UnixMilli(), "/" + m.Conn.RemoteAddr(), m.Version})
		}
	}
	if len(table) == 0 {
		return remoting.Command{}, remoting.Errorf(remoting.SystemError, "no producer is connected")
	}
	return withBody(struct {
		Data map[string][]producerInfo `json:"data"`
	}{table})
}
