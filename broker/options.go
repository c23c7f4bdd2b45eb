package broker

import (
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/internal/property"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// Options of a broker. Take them from DefaultOptions or ParseOptions. Each field mirrors the property of RocketMQ's BrokerConfig, NettyServerConfig or MessageStoreConfig that its
// tag names; "live" behind the name says that a running broker takes a new value over (updateBrokerConfig). docs/broker.md has the same as a table, and is tested against this.
//
// Durations are whole milliseconds in properties.
//
// Source: BrokerConfig, NettyServerConfig, 5.5.0.
type Options struct {
	// BrokerClusterName and BrokerName say who the broker is at the NameServers. Defaults: DefaultCluster, and the host's name.
	BrokerClusterName string `prop:"brokerClusterName"`
	BrokerName        string `prop:"brokerName"`
	// BrokerID is 0, the master's. Others are refused until there is replication.
	BrokerID int64 `prop:"brokerId"`
	// BrokerIP1 is the address that clients are told, and that records carry as the host they were stored on. Default: the address that is listened on, or, if that is
	// any, the first one of the machine that is no loopback.
	BrokerIP1 string `prop:"brokerIP1"`
	// BindAddress is the address to listen on. Default 127.0.0.1: only this machine. 0.0.0.0 is what RocketMQ does.
	BindAddress string `prop:"bindAddress"`
	// ListenPort is the port of clients. Default 10911. The port two below serves the same (RocketMQ's VIP channel), if VipChannelEnable. 0: any free one.
	ListenPort int `prop:"listenPort"`
	// VipChannelEnable listens on ListenPort-2 too. Default true.
	VipChannelEnable bool `prop:"vipChannelEnable,own"`
	// NamesrvAddr lists the NameServers, HOST:PORT, separated by ';'. Empty (default): none.
	NamesrvAddr string `prop:"namesrvAddr,live"`
	// EmbeddedNamesrv is HOST:PORT where the broker is a NameServer too, with which it registers. Empty (default): it is none.
	EmbeddedNamesrv string `prop:"embeddedNamesrv,own"`
	// StorePathRootDir is the store's directory. Default: store in the home directory.
	StorePathRootDir string `prop:"storePathRootDir"`

	// BrokerPermission is what clients may do: 4 read, 2 write. Default 6.
	BrokerPermission int32 `prop:"brokerPermission,live"`
	// AutoCreateTopicEnable lets a send make its topic after TBW102. Default true.
	AutoCreateTopicEnable bool `prop:"autoCreateTopicEnable,live"`
	// AutoCreateSubscriptionGroup lets the first use of a group make it. Default true.
	AutoCreateSubscriptionGroup bool `prop:"autoCreateSubscriptionGroup,live"`
	// DefaultTopicQueueNums is how many queues such a topic has at most. Default 8.
	DefaultTopicQueueNums int32 `prop:"defaultTopicQueueNums,live"`
	// ClusterTopicEnable and BrokerTopicEnable open the topics named as the cluster and the broker. Defaults true.
	ClusterTopicEnable bool `prop:"clusterTopicEnable"`
	BrokerTopicEnable  bool `prop:"brokerTopicEnable"`
	// TraceTopicEnable makes the topic of message traces. Default false.
	TraceTopicEnable bool `prop:"traceTopicEnable"`
	// TraceOn tells clients with tracing that they may trace. Default true.
	TraceOn bool `prop:"traceOn,live"`
	// RegionID is the region that messages are marked with. Default DefaultRegion.
	RegionID string `prop:"regionId"`

	// RejectTransactionMessage refuses prepared messages. Default false.
	RejectTransactionMessage bool `prop:"rejectTransactionMessage,live"`
	// TransactionTimeOut is the age of a prepared message from which its producer is asked; TransactionCheckInterval the time between two rounds, and TransactionCheckMax how often one is asked
	// about. Defaults 6 s, 30 s, 15.
	TransactionTimeOut       time.Duration `prop:"transactionTimeOut,live"`
	TransactionCheckInterval time.Duration `prop:"transactionCheckInterval,live"`
	TransactionCheckMax      int           `prop:"transactionCheckMax,live"`
	// TransactionOpMsgMaxSize and TransactionOpBatchInterval say when the marks of finished transactions are written: that many bytes, or that long after the first.
	// Defaults 4096, 3 s.
	TransactionOpMsgMaxSize    int           `prop:"transactionOpMsgMaxSize,live"`
	TransactionOpBatchInterval time.Duration `prop:"transactionOpBatchInterval,live"`
	// StoreReplyMessageEnable stores replies too. Default true.
	StoreReplyMessageEnable bool `prop:"storeReplyMessageEnable,live"`

	// LongPollingEnable lets a pull wait for a message as long as it says (default true); otherwise ShortPollingTimeMills, default 1 s.
	LongPollingEnable     bool          `prop:"longPollingEnable,live"`
	ShortPollingTimeMills time.Duration `prop:"shortPollingTimeMills,live"`
	// LitePullMessageEnable serves LITE_PULL_MESSAGE. Default true.
	LitePullMessageEnable bool `prop:"litePullMessageEnable,live"`
	// EnablePropertyFilter serves SQL92 subscriptions. Default true; false in 5.5.0, which refuses them.
	EnablePropertyFilter bool `prop:"enablePropertyFilter,live"`
	// NotifyConsumerIdsChangedEnable tells consumers when their group changes. Default true.
	NotifyConsumerIdsChangedEnable bool `prop:"notifyConsumerIdsChangedEnable,live"`
	// UseServerSideResetOffset resets offsets at the broker (default true); otherwise the group's clients are told to.
	UseServerSideResetOffset bool `prop:"useServerSideResetOffset,live"`
	// SlaveReadEnable suggests replicas to consumers that are far behind. Default false.
	SlaveReadEnable bool `prop:"slaveReadEnable,live"`
	// FlushConsumerOffsetInterval is the time between two writes of the offsets. Default 5 s.
	FlushConsumerOffsetInterval time.Duration `prop:"flushConsumerOffsetInterval"`
	// UseSingleRocksDBForAllConfigs keeps topics, groups and offsets in one database and not in three, where they are in databases: over a RocksDB store (storeType=defaultRocksDB). Default false.
	UseSingleRocksDBForAllConfigs bool `prop:"useSingleRocksDBForAllConfigs"`
	// ConfigManagerVersion is v1 where they are in databases. v2 (config/rdb) is refused. Default empty: v1, and a store with config/rdb is refused.
	ConfigManagerVersion string `prop:"configManagerVersion"`
	// RegisterNameServerPeriod is the time between two registrations, from 10 s to 60 s. Default 30 s.
	RegisterNameServerPeriod time.Duration `prop:"registerNameServerPeriod"`

	// MaxConnections bounds the connections; ServerChannelMaxIdleTimeSeconds is how long one may be silent; MaxInFlightBytes bounds the requests and answers in memory.
	// Defaults 100000, 120 s, an eighth of the machine's memory.
	MaxConnections                  int   `prop:"maxConnections,own"`
	ServerChannelMaxIdleTimeSeconds int   `prop:"serverChannelMaxIdleTimeSeconds"`
	MaxInFlightBytes                int64 `prop:"maxInFlightBytes,own"`

	// MaxHeldPulls and MaxHeldPullBytes bound the pulls that wait for a message; more are answered 2. Defaults 200000, 256 MiB.
	MaxHeldPulls     int64 `prop:"maxHeldPulls,own"`
	MaxHeldPullBytes int64 `prop:"maxHeldPullBytes,own"`

	// TLSMode says which connections are taken: disabled (default) without TLS, enforcing with it, permissive both. It is the embedded NameServer's too.
	TLSMode remoting.TLSMode `prop:"tls.server.mode"`
	// TLSCertPath and TLSKeyPath are PEM files, read anew when they change. Required by the other two modes, unless TLSTestMode has a pair made that nobody has signed.
	// Default of TLSTestMode: false; true in 5.5.0.
	TLSCertPath string `prop:"tls.server.certPath"`
	TLSKeyPath  string `prop:"tls.server.keyPath"`
	TLSTestMode bool   `prop:"tls.test.mode.enable"`
	// TLSEnable encrypts the connections to NameServers. TLSAuthServer checks their certificates, by those in TLSTrustCertPath or else the system's. Defaults false.
	TLSEnable        bool   `prop:"tls.enable"`
	TLSAuthServer    bool   `prop:"tls.client.authServer"`
	TLSTrustCertPath string `prop:"tls.client.trustCertPath"`
	// ACLEnable has every request checked by the accounts in ACLFile (package acl), which is read anew when it changes. Defaults false; conf/plain_acl.yml in the
	// directory that ROCKETMQ_HOME in the environment names.
	ACLEnable bool   `prop:"aclEnable"`
	ACLFile   string `prop:"aclFile,own"`

	// AcceptUndelivered opens a store with undelivered messages of the timer wheel or of pop, which stay undelivered. Default false.
	AcceptUndelivered bool `prop:"acceptUndelivered,own"`

	// Store are the options of the store.
	Store store.Options `prop:"-"`
	// ConfFile is the broker.conf that the options come from: properties that are changed while the broker runs are written there. Empty: such changes end with it.
	ConfFile string `prop:"-"`
	// Logger gets what needs an operator's eye. nil: nothing is logged.
	Logger *slog.Logger `prop:"-"`

	openFiles func() (int64, error) // how many files the process may have open; another one in tests

	now func() time.Time // the clock of delayed messages and of transactions; another one in tests
}

var brokerProperties = property.Fields[Options]()

// DefaultOptions returns RocketMQ's defaults, but for BindAddress, EnablePropertyFilter, TLSMode and TLSTestMode.
func DefaultOptions() Options {
	name, err := os.Hostname()
	if err != nil || meta.CheckTopicName(name) != nil {
		name = "DEFAULT_BROKER"
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "."
	}
	return Options{
		BrokerClusterName: "DefaultCluster", BrokerName: name, BindAddress: "127.0.0.1", ListenPort: 10911, VipChannelEnable: true, StorePathRootDir: filepath.Join(home, "store"),
		BrokerPermission: meta.PermRead | meta.PermWrite, AutoCreateTopicEnable: true, AutoCreateSubscriptionGroup: true, DefaultTopicQueueNums: 8,
		ClusterTopicEnable: true, BrokerTopicEnable: true, TraceOn: true, RegionID: "DefaultRegion",
		TransactionTimeOut: 6 * time.Second, TransactionCheckInterval: 30 * time.Second, TransactionCheckMax: 15, TransactionOpMsgMaxSize: 4096, TransactionOpBatchInterval: 3 * time.Second,
		StoreReplyMessageEnable: true, LongPollingEnable: true, ShortPollingTimeMills: time.Second, LitePullMessageEnable: true, EnablePropertyFilter: true,
		NotifyConsumerIdsChangedEnable: true, UseServerSideResetOffset: true, FlushConsumerOffsetInterval: 5 * time.Second, RegisterNameServerPeriod: 30 * time.Second,
		MaxConnections: 100_000, ServerChannelMaxIdleTimeSeconds: 120, MaxInFlightBytes: memoryBytes() / 8,
		MaxHeldPulls: 200_000, MaxHeldPullBytes: 256 << 20, TLSMode: remoting.TLSDisabled, ACLFile: defaultACLFile(),
		Store: store.DefaultOptions(), openFiles: openFiles, now: time.Now,
	}
}

// refused are properties that ask for what is not there, with the values that do not ask for it.
var refused = map[string][]string{
	"enableControllerMode": {"false"}, "isolateLogEnable": {"false"}, "enableSlaveActingMaster": {"false"}, "inSyncReplicas": {"1"}, "duplicationEnable": {"false"},
}

// rocketmqProperties are the names of all properties that RocketMQ's broker has, sorted, a line each.
//
// Source: the answer of a 5.5.0 broker to GET_BROKER_CONFIG.
//
//go:embed rocketmqproperties.txt
var rocketmqProperties string

// ofRocketMQ tells whether RocketMQ's broker has a property of that name.
func ofRocketMQ(name string) bool {
	_, found := slices.BinarySearch(strings.Fields(rocketmqProperties), name)
	return found
}

// withoutEffect says what an operator has to know who sets a property of 5.5.0's broker that changes nothing here; "" for a value that asks for nothing, and for all other names.
func withoutEffect(name, value string) string {
	if name == "coldCtrStrategyEnable" && strings.EqualFold(strings.TrimSpace(value), "true") {
		return "limits of cold data do not adapt here; each group has cgColdReadThreshold, and all together have globalColdReadThreshold"
	}
	return ""
}

// Note is a property that was taken and has no effect.
type Note struct {
	Name, Text string
	Unknown    bool // neither the broker nor its store know it
}

// ParseOptions returns the options that conf, named as in RocketMQ's broker.conf, makes out of the defaults, checked by Validate. Properties without effect are listed, sorted by
// name, and no error. The error joins every fault.
func ParseOptions(conf map[string]string) (Options, []Note, error) {
	o := DefaultOptions()
	rest := map[string]string{}
	var faults []error
	var without []Note
	for _, name := range slices.Sorted(maps.Keys(conf)) {
		if i := slices.IndexFunc(brokerProperties, func(p property.Field) bool { return p.Name == name }); i >= 0 {
			if err := brokerProperties[i].Set(&o, conf[name]); err != nil {
				faults = append(faults, fmt.Errorf("broker options: %w", err))
			}
			continue
		}
		if good, ok := refused[name]; ok {
			if !slices.Contains(good, strings.ToLower(strings.TrimSpace(conf[name]))) {
				faults = append(faults, fmt.Errorf("broker options: %s is %s, which is not supported: there is no replication", name, conf[name]))
			}
			continue
		}
		if why := withoutEffect(name, conf[name]); why != "" {
			without = append(without, Note{Name: name, Text: name + ": without effect: " + why})
			continue
		}
		if why, ok := unprotected(name, conf[name]); ok {
			if why != "" {
				faults = append(faults, fmt.Errorf("broker options: %s is set: %s", name, why))
			}
			continue
		}
		rest[name] = conf[name]
	}
	notes := without
	s, storeNotes, err := store.ParseOptions(rest)
	if err != nil {
		faults = append(faults, err)
	}
	o.Store = s
	for _, n := range storeNotes {
		unknown := n.Kind == store.NoteUnknown && !ofRocketMQ(n.Name)
		text := n.String()
		if n.Kind == store.NoteUnknown && !unknown {
			text = n.Name + ": known to RocketMQ, without effect here"
		}
		if near := property.Nearest(brokerProperties, n.Name); unknown && n.Nearest == "" && near != "" {
			text = n.Name + ": unknown; did you mean " + near + "?"
		}
		notes = append(notes, Note{Name: n.Name, Text: text, Unknown: unknown})
	}
	slices.SortFunc(notes, func(a, b Note) int { return strings.Compare(a.Name, b.Name) })
	if err := o.Validate(); err != nil {
		faults = append(faults, err)
	}
	return o, notes, errors.Join(faults...)
}

// Properties returns the options of the broker and of its store by the name of their property.
func (o *Options) Properties() map[string]string {
	all := store.Properties(&o.Store)
	for i := range brokerProperties {
		all[brokerProperties[i].Name] = brokerProperties[i].Text(o)
	}
	return all
}

// Validate joins every fault of the broker's own options.
func (o *Options) Validate() error {
	var faults []error
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("broker options: "+format, args...))
	}
	for name, value := range map[string]string{"brokerName": o.BrokerName, "brokerClusterName": o.BrokerClusterName} {
		if err := meta.CheckTopicName(value); err != nil {
			bad("%s is %q, want a name: %w", name, value, err)
		}
	}
	if o.BrokerID != 0 {
		bad("brokerId is %d, want 0: there is no replication", o.BrokerID)
	}
	if o.Store.BrokerRole != store.AsyncMaster {
		bad("brokerRole is %s, want %s: there is no replication", o.Store.BrokerRole, store.AsyncMaster)
	}
	if v := o.ConfigManagerVersion; v != "" && v != "v1" {
		bad("configManagerVersion is %q, want v1: config/rdb, where v2 keeps topics, groups and offsets, is not known here", v)
	}
	if o.ListenPort < 0 || o.ListenPort > 65535 || o.VipChannelEnable && (o.ListenPort == 1 || o.ListenPort == 2) {
		bad("listenPort is %d, want 3 to 65535, or 0 for any free one", o.ListenPort)
	}
	if net.ParseIP(o.BindAddress) == nil {
		bad("bindAddress is %q, want an address as 127.0.0.1 or 0.0.0.0", o.BindAddress)
	}
	if o.BrokerIP1 != "" && net.ParseIP(o.BrokerIP1) == nil {
		bad("brokerIP1 is %q, want an address", o.BrokerIP1)
	}
	for _, addr := range o.NameServers() {
		if !hostPort(addr, 1) {
			bad("namesrvAddr has %q, want HOST:PORT with a port from 1 to 65535, several separated by ';'", addr)
		}
	}
	if o.EmbeddedNamesrv != "" {
		if !hostPort(o.EmbeddedNamesrv, 0) {
			bad("embeddedNamesrv is %q, want HOST:PORT", o.EmbeddedNamesrv)
		}
	}
	if o.BrokerPermission&^7 != 0 {
		bad("brokerPermission is %d, want the sum of 4 (read) and 2 (write)", o.BrokerPermission)
	}
	for name, d := range map[string]time.Duration{
		"transactionTimeOut": o.TransactionTimeOut, "transactionCheckInterval": o.TransactionCheckInterval, "transactionOpBatchInterval": o.TransactionOpBatchInterval,
		"shortPollingTimeMills": o.ShortPollingTimeMills, "flushConsumerOffsetInterval": o.FlushConsumerOffsetInterval, "registerNameServerPeriod": o.RegisterNameServerPeriod,
	} {
		if d <= 0 {
			bad("%s is %v, want more than 0", name, d)
		}
	}
	for name, n := range map[string]int64{
		"defaultTopicQueueNums": int64(o.DefaultTopicQueueNums), "transactionCheckMax": int64(o.TransactionCheckMax), "transactionOpMsgMaxSize": int64(o.TransactionOpMsgMaxSize),
		"maxConnections": int64(o.MaxConnections), "serverChannelMaxIdleTimeSeconds": int64(o.ServerChannelMaxIdleTimeSeconds), "maxInFlightBytes": o.MaxInFlightBytes,
		"maxHeldPulls": o.MaxHeldPulls, "maxHeldPullBytes": o.MaxHeldPullBytes,
	} {
		if n <= 0 {
			bad("%s is %d, want more than 0", name, n)
		}
	}
	faults = append(faults, o.securityFaults()...)
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// hostPort tells whether addr is HOST:PORT, HOST an address or a name, PORT from lowest to 65535.
func hostPort(addr string, lowest int) bool {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if port, err := strconv.Atoi(text); err != nil || port < lowest || port > 65535 || text[0] == '+' {
		return false
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return r != '.' && r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// NameServers lists the addresses of NamesrvAddr.
func (o *Options) NameServers() []string {
	var list []string
	for addr := range strings.SplitSeq(o.NamesrvAddr, ";") {
		if addr = strings.TrimSpace(addr); addr != "" {
			list = append(list, addr)
		}
	}
	return list
}

// tablesForm is the form in which the broker keeps topics, groups and offsets, which is what 5.5.0 has.
//
// Source: BrokerController.initConfigManagers, 5.5.0.
func (o *Options) tablesForm() meta.Form {
	switch {
	case o.Store.StoreType != store.StoreTypeRocksDB:
		return meta.FormFiles
	case o.UseSingleRocksDBForAllConfigs:
		return meta.FormSingle
	}
	return meta.FormRocks
}

// announced is the address that clients are told.
func (o *Options) announced(listening netip.AddrPort) (netip.AddrPort, error) {
	if o.BrokerIP1 != "" {
		a, err := netip.ParseAddr(o.BrokerIP1)
		return netip.AddrPortFrom(a, listening.Port()), err
	}
	if !listening.Addr().IsUnspecified() {
		return listening, nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.AddrPort{}, err
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			ip, _ := netip.AddrFromSlice(n.IP.To4())
			return netip.AddrPortFrom(ip, listening.Port()), nil
		}
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), listening.Port()), nil
}
