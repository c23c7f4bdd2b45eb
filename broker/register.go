package broker

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/namesrv"
	"github.com/tandemq/tandemmq/remoting"
)

// Registration with the NameServers: at the start, 10 s later, then every RegisterNameServerPeriod, and when topics change; then with those topics alone.
//
// Source: BrokerController.start, registerBrokerAll, registerIncrementBrokerData, 5.5.0.
const (
	secondRegistration  = 10 * time.Second
	changedTimeout      = 3 * time.Second // of what waits for a topic to be known: one that creates it, or sends to it
	minRegisterInterval = 10 * time.Second
	maxRegisterInterval = 60 * time.Second
)

// registerBody is what a registration says of the topics.
type registerBody struct {
	FilterServers []string    `json:"filterServerList"`
	Topics        topicsTable `json:"topicConfigSerializeWrapper"`
}

// topicsTable is the answer of GET_ALL_TOPIC_CONFIG too.
type topicsTable struct {
	Version        meta.DataVersion      `json:"dataVersion"`
	MappingVersion meta.DataVersion      `json:"mappingDataVersion"`
	Table          map[string]meta.Topic `json:"topicConfigTable"`
	MappingDetail  struct{}              `json:"topicQueueMappingDetailMap"`
	MappingInfo    struct{}              `json:"topicQueueMappingInfoMap"`
}

// register keeps the broker registered until its context ends.
func (b *Broker) register(ctx context.Context) {
	period := min(max(b.o.RegisterNameServerPeriod, minRegisterInterval), maxRegisterInterval)
	timer := time.NewTimer(min(secondRegistration, period))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			b.registerAll(ctx)
			timer.Reset(period)
		}
	}
}

// registerAll registers all topics, and marks those as ordered that a NameServer has so.
func (b *Broker) registerAll(ctx context.Context) {
	all, v := b.topics.All()
	ordered := b.registerTopics(ctx, all, v)
	if len(ordered) > 0 {
		if err := b.topics.SetOrder(ordered); err != nil {
			b.log.Error("ordered topics were not noted", slog.Any("err", err))
		}
	}
}

// topicsChanged registers topics that were made or changed.
func (b *Broker) topicsChanged(changed []meta.Topic, v meta.DataVersion) {
	if b.registrar == nil {
		return // not started yet
	}
	table := make(map[string]meta.Topic, len(changed))
	for _, t := range changed {
		table[t.Name] = t
	}
	ctx, cancel := context.WithTimeout(b.ctx, changedTimeout)
	defer cancel()
	b.registerTopics(ctx, table, v)
}

func (b *Broker) registerTopics(ctx context.Context, table map[string]meta.Topic, v meta.DataVersion) (ordered []string) {
	servers := b.nameServers()
	if len(servers) == 0 || b.registrar == nil || b.leaving.Load() {
		return nil
	}
	for name, t := range table {
		if b.live().BrokerPermission&(meta.PermRead|meta.PermWrite) != meta.PermRead|meta.PermWrite {
			t.Perm &= b.live().BrokerPermission | meta.PermInherit
			table[name] = t
		}
	}
	body, err := remoting.MarshalBody(registerBody{FilterServers: []string{}, Topics: topicsTable{Version: v, Table: table}})
	if err == nil {
		ordered, err = b.registrar.Register(ctx, servers, body)
	}
	if err != nil && b.ctx.Err() == nil && !b.leaving.Load() {
		b.log.Warn("registration with a NameServer failed", slog.Any("err", err))
	}
	return ordered
}

// nameServers are those of the options, and the embedded one.
func (b *Broker) nameServers() []string {
	servers := b.live().NameServers()
	if b.embedded != nil {
		servers = append(servers, b.embeddedAddr.String())
	}
	slices.Sort(servers)
	return slices.Compact(servers)
}

// startRegistering registers for the first time, so that clients find the broker once it has started.
func (b *Broker) startRegistering() error {
	co := remoting.DefaultClientOptions()
	var err error
	if co.TLS, err = b.o.clientTLS(); err != nil {
		return err
	}
	client, err := remoting.NewClient(co)
	if err != nil {
		return err
	}
	b.out = client
	b.registrar = namesrv.NewRegistrar(namesrv.Identity{
		Cluster: b.o.BrokerClusterName, Name: b.o.BrokerName, Addr: b.announced.String(), HAAddr: netip.AddrPortFrom(b.announced.Addr(), b.announced.Port()+1).String(),
	}, client)
	b.registerAll(b.ctx)
	b.service(b.register)
	return nil
}

// stopRegistering takes the broker out of the NameServers' tables, so that clients stop coming.
func (b *Broker) stopRegistering() {
	if b.registrar == nil {
		return
	}
	b.leaving.Store(true)
	if servers := b.nameServers(); len(servers) > 0 {
		if err := b.registrar.Unregister(context.Background(), servers); err != nil {
			b.log.Warn("the broker was not unregistered", slog.Any("err", err))
		}
	}
}
