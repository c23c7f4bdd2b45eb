package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/broker/acl"
	"github.com/tandemq/tandemmq/broker/clients"
	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/internal/configdb"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/migrate/online"
	"github.com/tandemq/tandemmq/namesrv"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// Broker serves one store. See the package comment for its parts and goroutines.
type Broker struct {
	o       Options // as the broker was opened; what is tagged live is read off live()
	current atomic.Pointer[Options]
	log     *slog.Logger

	store   *store.Store
	topics  *meta.Topics
	groups  *meta.Groups
	offsets *meta.Offsets
	delays  *meta.DelayOffsets
	tables  *meta.Databases // of topics, groups and offsets; nil: they are in files
	levels  *message.DelayLevels
	clients *clients.Registry
	locks   *clients.Locks
	results sync.Pool // of *store.GetResult
	sends   sync.Pool // of *sending
	pulls   sync.Pool // of *pulled
	filters filterCache
	holds   *holder
	delayer *delayer
	halves  *halves
	ids     *uniqueIDs
	counts  counts
	rules   *acl.File // nil: everybody may do everything

	migration *online.Migration // nil: there are no consume queues
	// stepAnswer is after how long a step of it is answered that is not done. Constant.
	stepAnswer time.Duration

	server    *remoting.Server
	announced netip.AddrPort // what clients are told
	storeHost message.Host   // the same, for records
	started   time.Time

	out          *remoting.Client // calls to NameServers
	registrar    *namesrv.Registrar
	embedded     *namesrv.Server // nil: none
	embeddedAddr netip.AddrPort
	leaving      atomic.Bool // the broker goes, and does not register any more

	changing           sync.Mutex        // of properties
	given              map[string]string // properties that were set while running and have no effect; guarded by changing
	changes            int64             // of properties; guarded by changing
	cleaning, checking atomic.Bool       // asked for and under way: of the log, and of files against RocksDB

	stop     context.CancelFunc // ends ctx, which the services run until
	ctx      context.Context
	services sync.WaitGroup
	holding  sync.WaitGroup // the service of pulls that wait, which ends before connections do
	closing  sync.Once
	closed   error
}

// Open opens the store in o.StorePathRootDir with its topics, groups and offsets. The error names what is wrong with the options, or the file.
func Open(o Options) (b *Broker, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	o.fitConnections(log)
	b = &Broker{o: o, log: log, clients: clients.NewRegistry(), locks: clients.NewLocks(), ids: newUniqueIDs(), stepAnswer: stepAnswer}
	b.current.Store(&o)
	b.results.New = func() any { return new(store.GetResult) }
	b.sends.New = func() any { return new(sending) }
	b.pulls.New = b.newPulled
	b.holds = newHolder(b)
	b.ctx, b.stop = context.WithCancel(context.Background())
	if b.levels, err = message.ParseDelayLevels(o.Store.MessageDelayLevel); err != nil {
		return nil, fmt.Errorf("broker options: messageDelayLevel: %w", err)
	}
	o.Store.Logger = b.log
	// A store asks for topics while it is opened, when it knows its lock taken.
	dir := filepath.Join(o.StorePathRootDir, "config")
	openTopics := sync.OnceValue(func() error { return b.openTopics(dir) })
	o.Store.IsBatchTopic = func(topic string) bool {
		if openTopics() != nil {
			return false // Open fails
		}
		t, _ := b.topics.Get(topic)
		return isBatch(t)
	}
	o.Store.HasBatchTopics = func() bool {
		if openTopics() != nil {
			return true // Open fails
		}
		all, _ := b.topics.All()
		for _, t := range all {
			if isBatch(t) {
				return true
			}
		}
		return false
	}
	o.Store.OnLocked = func() error { return b.checkTables(dir) }
	if err := b.openRules(); err != nil {
		return nil, err
	}
	if err := b.o.portsAreFree(); err != nil { // a new store is made for a broker that can serve it
		return nil, err
	}
	// The store's lock comes first: what stands beside it belongs to whoever holds it.
	if b.store, err = store.Open(o.StorePathRootDir, o.Store); err != nil {
		return nil, errors.Join(err, b.tables.Close())
	}
	if err = openTopics(); err == nil {
		err = b.openMeta(dir)
	}
	if err == nil {
		err = b.refuseUndelivered(dir)
	}
	if err == nil {
		err = b.openMigration()
	}
	if err != nil {
		return nil, errors.Join(err, b.tables.Close(), b.store.Close())
	}
	return b, nil
}

// checkTables refuses to go on with topics, groups and offsets that were left behind. It changes nothing.
func (b *Broker) checkTables(dir string) error {
	if b.o.ConfigManagerVersion == "" {
		v2, err := configdb.ExistsV2(dir)
		if err != nil {
			return err
		}
		if v2 {
			return fmt.Errorf("%s holds topics, groups and offsets of configManagerVersion=v2, which are not known here: set configManagerVersion=v1 if they are left over", filepath.Join(dir, "rdb"))
		}
	}
	older, err := meta.Older(dir, b.o.tablesForm())
	if errors.Is(err, configdb.ErrNoRocksDB) {
		b.log.Warn("databases of topics, groups and offsets are there, and this binary cannot tell whether they are newer than the files", slog.Any("err", err))
	} else if err != nil {
		return err
	}
	if len(older) > 0 {
		return fmt.Errorf("%s; take them over with `tandemmq migrate metadata --store %s --to file --yes`, or remove them: %w", strings.Join(older, "; "), b.o.StorePathRootDir, errOlderTables)
	}
	return nil
}

// errOlderTables says that topics, groups or offsets were kept elsewhere since they were last kept where this broker has them.
var errOlderTables = errors.New("the broker would go on with older topics, groups or offsets")

func (b *Broker) openTopics(dir string) (err error) {
	if form := b.o.tablesForm(); form != meta.FormFiles {
		if b.tables, err = meta.OpenDatabases(dir, form); err != nil {
			return err
		}
	}
	b.topics, err = meta.OpenTopics(dir, meta.TopicsOptions{
		Databases: b.tables,
		System: meta.SystemTopics(b.o.BrokerClusterName, b.o.BrokerName, meta.SystemTopicOptions{
			AutoCreate: b.o.AutoCreateTopicEnable, ClusterTopic: b.o.ClusterTopicEnable, BrokerTopic: b.o.BrokerTopicEnable, Trace: b.o.TraceTopicEnable, // at the start
			DelayLevels: int32(b.levels.Max()),
		}),
		OnChange: b.topicsChanged,
		Logger:   b.log,
	})
	return err
}

func (b *Broker) openMeta(dir string) (err error) {
	b.groups, err = meta.OpenGroups(dir, meta.GroupsOptions{AutoCreate: func() bool { return b.live().AutoCreateSubscriptionGroup }, Databases: b.tables, Logger: b.log})
	if err != nil {
		return err
	}
	if b.offsets, err = meta.OpenOffsets(dir, b.tables, b.log); err != nil {
		return err
	}
	if b.delays, err = meta.OpenDelayOffsets(dir, b.log); err != nil {
		return err
	}
	b.delayer, b.halves = newDelayer(b), newHalves(b)
	return nil
}

// Start listens on the broker's port and serves. Addr is known when it returns.
func (b *Broker) Start() error {
	so := remoting.DefaultServerOptions()
	so.MaxConnections, so.Classes = b.o.MaxConnections, b.classes()
	so.IdleTimeout = time.Duration(b.o.ServerChannelMaxIdleTimeSeconds) * time.Second
	so.MaxRequestBytes, so.MaxResponseBytes = b.o.MaxInFlightBytes/2, b.o.MaxInFlightBytes/2
	so.OnClose, so.Logger, so.TLS = b.gone, b.log, b.o.serverTLS()
	server, err := remoting.NewServer(b.guarded(b.handlers()), so)
	if err != nil {
		return err
	}
	main, err := net.Listen("tcp", b.o.clientAddr(0))
	if err != nil {
		return fmt.Errorf(listenFailed, err)
	}
	at, err := netip.ParseAddrPort(main.Addr().String())
	if err == nil {
		b.announced, err = b.o.announced(at)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("find the address to announce: %w", err), main.Close())
	}
	listeners := []net.Listener{main}
	if b.o.VipChannelEnable && b.o.ListenPort != 0 {
		vip, err := net.Listen("tcp", b.o.clientAddr(vipPort))
		if err != nil {
			return errors.Join(fmt.Errorf(listenVIPFailed, err), main.Close())
		}
		listeners = append(listeners, vip)
	}
	b.server, b.started, b.storeHost = server, time.Now(), message.HostOf(b.announced)
	b.holds.subscribe() // before anything arrives that a service may not have looked at
	for _, l := range listeners {
		b.services.Go(func() {
			if err := server.Serve(l); err != nil && b.ctx.Err() == nil {
				b.log.Error("a listener has ended", slog.Any("err", err))
			}
		})
	}
	b.service(b.saveOffsets)
	b.service(b.dropSilent)
	b.service(b.counts.run)
	b.service(b.delayer.run)
	b.service(b.halves.runOps)
	b.service(b.halves.runChecks)
	if b.rules != nil {
		b.service(b.rules.Watch)
	}
	b.holding.Go(func() { b.holds.run(b.ctx) })
	if b.o.EmbeddedNamesrv != "" {
		if b.embedded, err = namesrv.NewServer(namesrv.Options{KVConfigPath: filepath.Join(b.o.StorePathRootDir, "config", "kvConfig.json"), TLS: b.o.serverTLS(), Logger: b.log}); err != nil {
			return err
		}
		if b.embeddedAddr, err = b.embedded.Listen(b.o.EmbeddedNamesrv); err != nil {
			return fmt.Errorf(listenNamesrvFailed, err)
		}
	}
	return b.startRegistering()
}

// Where the broker cannot listen: for clients, on their second port, and as a NameServer.
const (
	listenFailed        = "listen for clients (listenPort, --listen): %w"
	listenVIPFailed     = "listen for clients on the second port, two below the first (vipChannelEnable, --listen): %w"
	listenNamesrvFailed = "listen as a NameServer (embeddedNamesrv, --namesrv-listen): %w"
	vipPort             = -2 // from the first one
)

// clientAddr is where clients are listened for.
func (o *Options) clientAddr(distance int) string {
	return net.JoinHostPort(o.BindAddress, strconv.Itoa(o.ListenPort+distance))
}

// portsAreFree tells which of the ports that are to be listened on cannot be, now.
func (o *Options) portsAreFree() error {
	tries := []struct{ addr, failed string }{{o.clientAddr(0), listenFailed}}
	if o.VipChannelEnable && o.ListenPort != 0 {
		tries = append(tries, struct{ addr, failed string }{o.clientAddr(vipPort), listenVIPFailed})
	}
	if o.EmbeddedNamesrv != "" {
		tries = append(tries, struct{ addr, failed string }{o.EmbeddedNamesrv, listenNamesrvFailed})
	}
	var faults []error
	for _, try := range tries {
		l, err := net.Listen("tcp", try.addr)
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			faults = append(faults, fmt.Errorf(try.failed, err))
		}
	}
	return errors.Join(faults...)
}

// service runs f, which returns soon after its context has ended, until Close.
func (b *Broker) service(f func(ctx context.Context)) {
	b.services.Go(func() { f(b.ctx) })
}

// live are the options as they are now: those that a running broker takes over (admin_config.go) are read here and nowhere else. Not to be changed.
func (b *Broker) live() *Options { return b.current.Load() }

// Addr is what clients are told to connect to. Known after Start.
func (b *Broker) Addr() netip.AddrPort { return b.announced }

// NameServerAddr is where the embedded NameServer listens; invalid without one. Known after Start.
func (b *Broker) NameServerAddr() netip.AddrPort { return b.embeddedAddr }

// Store is the broker's store.
func (b *Broker) Store() *store.Store { return b.store }

// saveOffsets makes consumer offsets durable now and then.
func (b *Broker) saveOffsets(ctx context.Context) {
	tick := time.NewTicker(b.o.FlushConsumerOffsetInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := b.offsets.Save(); err != nil {
				b.log.Error("consumer offsets were not saved", slog.Any("err", err))
			}
		}
	}
}

// shutdownTime is how long requests that were taken may need to be answered.
const shutdownTime = 10 * time.Second

// Close ends the broker: new requests are told to go elsewhere, those that were taken are answered, and what is known is saved. Idempotent. The error joins what could not be
// ended in order.
func (b *Broker) Close() error {
	b.closing.Do(func() {
		var faults []error
		if b.server != nil {
			b.stopRegistering()
			b.server.GoAway()
		}
		b.stop()
		b.holding.Wait() // pulls that wait are answered while there are connections
		if b.server != nil {
			ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
			defer cancel()
			faults = append(faults, b.server.Shutdown(ctx))
		}
		b.services.Wait()
		b.closeMigration()
		if b.out != nil {
			faults = append(faults, b.out.Close())
		}
		if b.embedded != nil {
			faults = append(faults, b.embedded.Close())
		}
		faults = append(faults, b.halves.writeOps(), b.delayer.save(), b.offsets.Save(), b.tables.Close(), b.store.Close())
		b.closed = errors.Join(faults...)
	})
	return b.closed
}

// isBatch tells whether the queues of a topic are batch queues.
func isBatch(t meta.Topic) bool { return t.Attributes[meta.AttributeQueueType] == meta.QueueTypeBatch }
