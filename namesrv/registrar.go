package namesrv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/remoting"
)

// Identity is who a broker says it is.
type Identity struct {
	Cluster, Name string
	Addr          string // HOST:PORT that clients are told
	HAAddr        string // HOST:PORT of replication, which is announced whether it is there or not
	ID            int64
}

// Timeouts of calls. Source: BrokerOuterAPI, 5.5.0.
const (
	registerTimeout   = 24 * time.Second
	unregisterTimeout = 3 * time.Second
)

// Registrar registers a broker with NameServers. Connections stay open between the calls: a NameServer forgets a broker whose connection closes.
type Registrar struct {
	id     Identity
	client *remoting.Client
}

// NewRegistrar returns one for a broker; calls go over client, which stays the caller's.
func NewRegistrar(id Identity, client *remoting.Client) *Registrar {
	return &Registrar{id: id, client: client}
}

// fields are those of each call.
func (r *Registrar) fields() remoting.Ext {
	return remoting.Ext{
		{Key: "brokerAddr", Value: r.id.Addr},
		{Key: "brokerId", Value: strconv.FormatInt(r.id.ID, 10)},
		{Key: "brokerName", Value: r.id.Name},
		{Key: "clusterName", Value: r.id.Cluster},
	}
}

// Register tells all servers, at once, which topics the broker has: body is a RegisterBrokerBody in JSON, with all topics or, where the server knows the broker,
// those that have changed. It returns the names of the topics that a server's key-value configuration has as ordered. The error joins those of the servers
// that were not reached or refused, with their address; the others have taken the registration.
func (r *Registrar) Register(ctx context.Context, servers []string, body []byte) (ordered []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	ext := append(r.fields(), remoting.Field{Key: "haServerAddr", Value: r.id.HAAddr}, remoting.Field{Key: "bodyCrc32", Value: strconv.FormatInt(int64(checksum(body)), 10)},
		remoting.Field{Key: "compressed", Value: "false"}, remoting.Field{Key: "enableActingMaster", Value: "false"})
	seen := map[string]bool{}
	var mu sync.Mutex
	err = r.each(servers, func(server string) error {
		resp, err := r.client.Invoke(ctx, server, &remoting.Command{Code: remoting.RegisterBroker, Ext: ext, Body: body})
		if err == nil {
			err = resp.Error()
		}
		if err != nil {
			return err
		}
		if len(resp.Body) == 0 {
			return nil
		}
		var order keyValues
		if err := remoting.UnmarshalBody(resp.Body, &order); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for topic := range order.Table {
			if !seen[topic] {
				seen[topic] = true
				ordered = append(ordered, topic)
			}
		}
		return nil
	})
	return ordered, err
}

// Unregister tells all servers, at once, that the broker goes.
func (r *Registrar) Unregister(ctx context.Context, servers []string) error {
	ctx, cancel := context.WithTimeout(ctx, unregisterTimeout)
	defer cancel()
	ext := r.fields()
	return r.each(servers, func(server string) error {
		resp, err := r.client.Invoke(ctx, server, &remoting.Command{Code: remoting.UnregisterBroker, Ext: ext})
		if err != nil {
			return err
		}
		return resp.Error()
	})
}

func (r *Registrar) each(servers []string, call func(server string) error) error {
	faults := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, server := range servers {
		wg.Go(func() {
			if err := call(server); err != nil {
				faults[i] = fmt.Errorf("NameServer %s: %w", server, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(faults...)
}
