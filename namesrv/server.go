package namesrv

import (
	"context"
	"errors"
	"hash/crc32"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/remoting"
)

// Options of a Server.
type Options struct {
	// KVConfigPath is the file of the key-value configuration. Empty: it is not kept.
	KVConfigPath string
	// OrderMessageEnable puts the key-value configuration of ordered topics into routes. Default false.
	OrderMessageEnable bool
	// TLS says whether connections may or must be encrypted. Its zero value: they are not.
	TLS remoting.TLSOptions
	// Logger gets what needs an operator's eye. nil: nothing is logged.
	Logger *slog.Logger
}

// Server is a NameServer.
type Server struct {
	o      Options
	log    *slog.Logger
	table  *table
	values *keyValueStore
	server *remoting.Server

	stop     context.CancelFunc
	ctx      context.Context
	services sync.WaitGroup
}

// scanInterval is the time between two looks for silent brokers.
const scanInterval = 5 * time.Second

// NewServer returns a NameServer that serves nobody yet. Errors: *conffile.FileError of a key-value configuration that cannot be read.
func NewServer(o Options) (*Server, error) {
	s := &Server{o: o, log: o.Logger, table: newTable()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.values, err = openKeyValues(o.KVConfigPath, s.log); err != nil {
		return nil, err
	}
	so := remoting.DefaultServerOptions()
	so.Logger = s.log
	if o.TLS.Mode != "" {
		so.TLS = o.TLS
	}
	so.OnClose = func(c *remoting.Conn, _ error) { s.table.closed(c) }
	// Everything is in memory and short, but for the key-value configuration, which is rare.
	so.Classes = []remoting.Class{{Name: "all", MaxInFlight: 10_000}}
	if s.server, err = remoting.NewServer(s.handlers(), so); err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Listen listens on HOST:PORT and serves until Close; it returns the address.
func (s *Server) Listen(addr string) (netip.AddrPort, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	at, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return netip.AddrPort{}, errors.Join(err, l.Close())
	}
	s.services.Go(func() {
		if err := s.server.Serve(l); err != nil && s.ctx.Err() == nil {
			s.log.Error("the NameServer's listener has ended", slog.Any("err", err))
		}
	})
	s.services.Go(s.scan)
	return at, nil
}

func (s *Server) scan() {
	tick := time.NewTicker(scanInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			for _, c := range s.table.silent(now) {
				c.Close()
			}
		}
	}
}

// Close ends the server and all connections.
func (s *Server) Close() error {
	s.stop()
	err := s.server.Close()
	s.services.Wait()
	return err
}

func (s *Server) handlers() remoting.Mux {
	return remoting.Mux{
		remoting.RegisterBroker:                answer(s.register),
		remoting.UnregisterBroker:              answer(s.unregister),
		remoting.QueryDataVersion:              answer(s.queryVersion),
		remoting.BrokerHeartbeat:               answer(s.heartbeat),
		remoting.GetRouteInfoByTopic:           answer(s.route),
		remoting.GetBrokerClusterInfo:          answer(s.clusterInfo),
		remoting.GetBrokerMemberGroup:          answer(s.members),
		remoting.GetAllTopicListFromNameServer: answer(s.allTopics),
		remoting.GetSystemTopicListFromNS:      answer(s.systemTopics),
		remoting.GetTopicsByCluster:            answer(s.topicsByCluster),
		remoting.GetUnitTopicList:              answer(noTopics),
		remoting.GetHasUnitSubTopicList:        answer(noTopics),
		remoting.GetHasUnitSubUnunitTopicList:  answer(noTopics),
		remoting.DeleteTopicInNamesrv:          answer(s.deleteTopic),
		remoting.RegisterTopicInNamesrv:        answer(s.registerTopic),
		remoting.WipeWritePermOfBroker:         answer(s.wipeWrite),
		remoting.AddWritePermOfBroker:          answer(s.addWrite),
		remoting.PutKVConfig:                   answer(s.putValue),
		remoting.GetKVConfig:                   answer(s.getValue),
		remoting.DeleteKVConfig:                answer(s.deleteValue),
		remoting.GetKVListByNamespace:          answer(s.listValues),
		remoting.GetNamesrvConfig:              answer(s.getConfig),
		remoting.UpdateNamesrvConfig:           answer(s.updateConfig),
	}
}

// request is one that is being answered.
type request struct {
	body []byte
	remoting.Fields
	conn *remoting.Conn
	ext  remoting.Ext // of the answer
}

// answer makes a handler of a function that returns the body of the answer, encoded as JSON if it is no text, or an error.
func answer(f func(r *request) (any, error)) remoting.HandlerFunc {
	return func(c *remoting.Conn, req *remoting.Command) {
		r := &request{body: req.Body, Fields: req.Fields(), conn: c}
		v, err := f(r)
		resp := remoting.Command{Code: remoting.Success, Ext: r.ext}
		if err == nil {
			switch v := v.(type) {
			case nil:
			case []byte:
				resp.Body = v
			default:
				resp.Body, err = remoting.MarshalBody(v)
			}
		}
		if err != nil {
			c.RespondError(req, err)
			return
		}
		c.Respond(req, &resp)
	}
}

// checksum is that of a registration's body. Source: UtilAll.crc32, 5.5.0.
func checksum(body []byte) int32 { return int32(crc32.ChecksumIEEE(body) & 0x7FFFFFFF) }

func (s *Server) register(r *request) (any, error) {
	reg := registration{cluster: r.String("clusterName"), name: r.String("brokerName"), addr: r.String("brokerAddr"), ha: r.StringOr("haServerAddr", ""), id: r.Int64("brokerId")}
	sum, compressed := r.Int32Or("bodyCrc32", 0), r.BoolOr("compressed", false)
	if r.Has("enableActingMaster") {
		acting := r.Bool("enableActingMaster")
		reg.actingMaster = &acting
	}
	reg.life = time.Duration(r.Int64Or("heartbeatTimeoutMillis", 0)) * time.Millisecond
	if err := r.Err(); err != nil {
		return nil, err
	}
	if got := checksum(r.body); sum != 0 && sum != got {
		return nil, remoting.Errorf(remoting.SystemError, "the body has checksum %d, and the header says %d", got, sum)
	}
	if compressed {
		return nil, remoting.Errorf(remoting.SystemError, "compressed registrations are not supported")
	}
	if len(r.body) > 0 {
		if err := remoting.UnmarshalBody(r.body, &reg.body); err != nil {
			return nil, err
		}
	}
	master, ha, err := s.table.register(&reg, r.conn, time.Now())
	if err != nil {
		return nil, err
	}
	r.ext.Set("masterAddr", master)
	r.ext.Set("haServerAddr", ha)
	if order := s.values.all(orderTopics); len(order) > 0 {
		return keyValues{order}, nil
	}
	return nil, nil
}

func (s *Server) unregister(r *request) (any, error) {
	cluster, addr := r.String("clusterName"), r.String("brokerAddr")
	if err := r.Err(); err != nil {
		return nil, err
	}
	s.table.unregister(cluster, addr)
	return nil, nil
}

func (s *Server) queryVersion(r *request) (any, error) {
	cluster, addr := r.String("clusterName"), r.String("brokerAddr")
	var v DataVersion
	if err := errors.Join(r.Err(), remoting.UnmarshalBody(r.body, &v)); err != nil {
		return nil, err
	}
	known, changed := s.table.heard(cluster, addr, v, time.Now())
	r.ext.SetBool("changed", changed)
	return known, nil
}

func (s *Server) heartbeat(r *request) (any, error) {
	cluster, addr := r.String("clusterName"), r.String("brokerAddr")
	if err := r.Err(); err != nil {
		return nil, err
	}
	s.table.heard(cluster, addr, DataVersion{}, time.Now())
	return nil, nil
}

func (s *Server) route(r *request) (any, error) {
	topic := r.String("topic")
	if err := r.Err(); err != nil {
		return nil, err
	}
	route, ok := s.table.route(topic)
	if !ok {
		return nil, remoting.Errorf(remoting.TopicNotExist, "no broker has topic %s", topic)
	}
	if s.o.OrderMessageEnable {
		route.OrderConf, _ = s.values.get(orderTopics, topic)
	}
	return route, nil
}

func (s *Server) clusterInfo(*request) (any, error) { return s.table.cluster(), nil }

func (s *Server) members(r *request) (any, error) {
	name, cluster := r.String("brokerName"), r.String("clusterName")
	if err := r.Err(); err != nil {
		return nil, err
	}
	var m memberGroup
	m.Group.Name, m.Group.Cluster, m.Group.Addrs = name, cluster, map[int64]string{}
	if d, ok := s.table.broker(name); ok {
		m.Group.Addrs = d.Addrs
	}
	return m, nil
}

func (s *Server) allTopics(*request) (any, error) {
	return topicList{Topics: s.table.allTopics("")}, nil
}

func (s *Server) systemTopics(*request) (any, error) {
	c := s.table.cluster()
	list := topicList{Topics: []string{}}
	for name, brokers := range c.Clusters {
		list.Topics = append(append(list.Topics, name), brokers...)
	}
	for _, d := range c.Brokers {
		for _, addr := range d.Addrs {
			list.BrokerAddr = addr
		}
	}
	return list, nil
}

func (s *Server) topicsByCluster(r *request) (any, error) {
	cluster := r.String("cluster")
	return topicList{Topics: s.table.allTopics(cluster)}, r.Err()
}

func noTopics(*request) (any, error) { return topicList{Topics: []string{}}, nil }

func (s *Server) deleteTopic(r *request) (any, error) {
	topic, cluster := r.String("topic"), r.StringOr("clusterName", "")
	if err := r.Err(); err != nil {
		return nil, err
	}
	s.table.deleteTopic(topic, cluster)
	return nil, nil
}

func (s *Server) registerTopic(r *request) (any, error) {
	topic := r.String("topic")
	var route Route
	if err := errors.Join(r.Err(), remoting.UnmarshalBody(r.body, &route)); err != nil {
		return nil, err
	}
	s.table.addTopic(topic, route.Queues)
	return nil, nil
}

func (s *Server) wipeWrite(r *request) (any, error) {
	return nil, s.setWrite(r, "wipeTopicCount", false)
}

func (s *Server) addWrite(r *request) (any, error) { return nil, s.setWrite(r, "addTopicCount", true) }

func (s *Server) setWrite(r *request, count string, may bool) error {
	name := r.String("brokerName")
	if err := r.Err(); err != nil {
		return err
	}
	r.ext.SetInt(count, int64(s.table.setWrite(name, may)))
	return nil
}

func (s *Server) putValue(r *request) (any, error) {
	namespace, key, value := r.String("namespace"), r.String("key"), r.String("value")
	if err := r.Err(); err != nil {
		return nil, err
	}
	return nil, s.values.change(namespace, func(t map[string]string) { t[key] = value })
}

func (s *Server) getValue(r *request) (any, error) {
	namespace, key := r.String("namespace"), r.String("key")
	if err := r.Err(); err != nil {
		return nil, err
	}
	value, ok := s.values.get(namespace, key)
	if !ok {
		return nil, remoting.Errorf(remoting.QueryNotFound, "namespace %s has no key %s", namespace, key)
	}
	r.ext.Set("value", value)
	return nil, nil
}

func (s *Server) deleteValue(r *request) (any, error) {
	namespace, key := r.String("namespace"), r.String("key")
	if err := r.Err(); err != nil {
		return nil, err
	}
	return nil, s.values.change(namespace, func(t map[string]string) { delete(t, key) })
}

func (s *Server) listValues(r *request) (any, error) {
	namespace := r.String("namespace")
	if err := r.Err(); err != nil {
		return nil, err
	}
	all := s.values.all(namespace)
	if all == nil {
		return nil, remoting.Errorf(remoting.QueryNotFound, "there is no namespace %s", namespace)
	}
	return keyValues{all}, nil
}

func (s *Server) getConfig(*request) (any, error) {
	return []byte("kvConfigPath=" + s.o.KVConfigPath + "\norderMessageEnable=" + strconv.FormatBool(s.o.OrderMessageEnable) + "\n"), nil
}

// updateConfig changes nothing: there is no property that a running server could take over. Those that name files are refused, as in 5.5.0.
func (s *Server) updateConfig(r *request) (any, error) {
	for line := range strings.Lines(string(r.body)) {
		name, _, _ := strings.Cut(line, "=")
		switch name = strings.TrimSpace(name); name {
		case "configBlackList", "configStorePath", "kvConfigPath":
			return nil, remoting.Errorf(remoting.NoPermission, "%s cannot be changed here", name)
		}
	}
	return nil, nil
}
