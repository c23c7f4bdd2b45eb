package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/broker"
	"github.com/tandemq/tandemmq/cq"
	rocksdb "github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/online"
	"github.com/tandemq/tandemmq/store"
)

// defaultNamesrvListen is where a NameServer is looked for.
const defaultNamesrvListen = "127.0.0.1:9876"

func brokerCommand() *cli.Command {
	return &cli.Command{
		Name: "broker", Usage: "serve a store to RocketMQ clients",
		Description: `Opens the store, or makes a new one, and serves producers, consumers and the admin tool of RocketMQ until it gets SIGTERM or SIGINT. When it serves, it prints one
line that begins with "ready" and has its addresses. It listens on this machine alone unless --listen says otherwise.

With --embedded-namesrv it is a NameServer too, and needs nothing else; with --namesrv it registers with RocketMQ's own.

Properties are RocketMQ's (broker.conf): from --conf, over them those of --set, and over all the flags. What none of them sets is read off an existing
directory: sizes of files, and where its consume queues are. A new store keeps its queues in RocksDB, as --set storeType=defaultRocksDB does; --set storeType=default
keeps them in files, and with --set rocksdbCQDoubleWriteEnable=true in both.

   tandemmq broker --store /data/store --embedded-namesrv
   tandemmq broker --conf broker.conf --namesrv 10.0.0.5:9876 --listen 10.0.0.7:10911`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "store", Usage: "store `DIR` (storePathRootDir); required unless --conf has it"},
			&cli.StringFlag{Name: "conf", Usage: "broker.conf `FILE`; properties that are changed while the broker runs (updateBrokerConfig) are written there"},
			&cli.StringSliceFlag{Name: "set", Usage: "set a property, `NAME=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "listen", Usage: "`HOST:PORT` for clients (default: 127.0.0.1:10911); the port two below serves the same; port 0: any free one"},
			&cli.BoolFlag{Name: "embedded-namesrv", Usage: "be a NameServer too"},
			&cli.StringFlag{Name: "namesrv-listen", Usage: "`HOST:PORT` of the embedded NameServer (default: " + defaultNamesrvListen + ")"},
			&cli.StringFlag{Name: "namesrv", Usage: "NameServers to register with, `HOST:PORT`, several separated by ';' (namesrvAddr)"},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the broker (brokerName; default: the host's)"},
			&cli.StringFlag{Name: "cluster", Usage: "`NAME` of its cluster (brokerClusterName; default: DefaultCluster)"},
			&cli.StringFlag{Name: "log-format", Value: "text", Usage: "of what is logged on standard error: `text or json`"},
			&cli.BoolFlag{Name: "print-config", Usage: "print all properties as they are in effect, and end"},
			&cli.BoolFlag{Name: "json", Usage: "with --print-config: as one JSON object"},
			&cli.BoolFlag{Name: "quiet", Usage: "log nothing but errors"},
		},
		Action: runBroker,
	}
}

func runBroker(c *cli.Context) error {
	log, err := brokerLog(c)
	if err != nil {
		return err
	}
	conf, err := brokerProperties(c)
	if err != nil {
		return err
	}
	o, notes, err := broker.ParseOptions(conf)
	if err != nil {
		return commandLineFault(c, err)
	}
	for _, n := range notes {
		log.Warn("a property has no effect", slog.String("property", n.Text))
	}
	o.Logger = log
	if path := c.String("conf"); path != "" {
		if o.ConfFile, err = filepath.Abs(path); err != nil {
			return err
		}
	}
	if !c.Bool("print-config") {
		if err := online.Finish(o.StorePathRootDir, "start of the broker, tandemmq "+version(), log); err != nil {
			return err
		}
	}
	told, err := fitToStore(&o, slices.Collect(maps.Keys(conf)))
	if err != nil {
		return err
	}
	if c.Bool("print-config") {
		return printProperties(c, o.Properties())
	}
	for _, line := range told {
		log.Info("the store", slog.String("note", line))
	}
	b, err := broker.Open(o)
	if err != nil {
		return err
	}
	if err := b.Start(); err != nil {
		return joinClose(err, b)
	}
	ready := fmt.Sprintf("ready broker=%s cluster=%s listen=%s", o.BrokerName, o.BrokerClusterName, b.Addr())
	if a := b.NameServerAddr(); a.IsValid() {
		ready += fmt.Sprintf(" namesrv=%s", a)
	}
	if _, err := fmt.Fprintf(c.App.Writer, "%s store=%s queues=%s\n", ready, o.StorePathRootDir, queuesText(&o.Store)); err != nil {
		return joinClose(err, b)
	}
	<-c.Done()
	log.Info("closing")
	if err := b.Close(); err != nil {
		return fmt.Errorf("close broker: %w", err)
	}
	return nil
}

func joinClose(err error, b io.Closer) error {
	if more := b.Close(); more != nil {
		return fmt.Errorf("%w; %w", err, more)
	}
	return err
}

func brokerLog(c *cli.Context) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if c.Bool("quiet") {
		o.Level = slog.LevelError
	}
	switch format := c.String("log-format"); format {
	case "text":
		return slog.New(slog.NewTextHandler(c.App.ErrWriter, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(c.App.ErrWriter, o)), nil
	default:
		return nil, usageError("--log-format %q: use text or json", format)
	}
}

// brokerProperties puts together what --conf, --set and the flags say.
func brokerProperties(c *cli.Context) (map[string]string, error) {
	conf := map[string]string{}
	if path := c.String("conf"); path != "" {
		read, err := readConf(path)
		if err != nil {
			return nil, err
		}
		conf = read
	}
	for _, set := range c.StringSlice("set") {
		name, value, ok := strings.Cut(set, "=")
		if !ok || name == "" {
			return nil, usageError("--set %q: use NAME=VALUE", set)
		}
		conf[name] = value
	}
	if err := addTLSConf(conf); err != nil {
		return nil, err
	}
	for flag, name := range map[string]string{"store": "storePathRootDir", "namesrv": "namesrvAddr", "name": "brokerName", "cluster": "brokerClusterName"} {
		if c.IsSet(flag) {
			conf[name] = c.String(flag)
		}
	}
	if c.IsSet("listen") {
		host, port, ok := cutHostPort(c.String("listen"))
		if !ok {
			return nil, usageError("--listen %q: use HOST:PORT", c.String("listen"))
		}
		conf["bindAddress"], conf["listenPort"] = host, port
	}
	switch {
	case c.Bool("embedded-namesrv"):
		conf["embeddedNamesrv"] = defaultNamesrvListen
		if c.IsSet("namesrv-listen") {
			conf["embeddedNamesrv"] = c.String("namesrv-listen")
		}
	case c.IsSet("namesrv-listen"):
		return nil, usageError("--namesrv-listen is for --embedded-namesrv")
	}
	if conf["storePathRootDir"] == "" {
		return nil, usageError("--store is missing")
	}
	return conf, nil
}

// commandLineFault makes a usage error of one in the properties that --set and the flags have brought in: what is in --conf alone can be meant.
func commandLineFault(c *cli.Context, err error) error {
	conf := map[string]string{}
	if path := c.String("conf"); path != "" {
		read, cerr := readConf(path)
		if cerr != nil {
			return err
		}
		conf = read
	}
	conf["storePathRootDir"] = cmp.Or(conf["storePathRootDir"], "store")
	if _, _, alone := broker.ParseOptions(conf); alone != nil {
		return err
	}
	return usageError("%v", err)
}

func cutHostPort(s string) (host, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 1 || i == len(s)-1 {
		return "", "", false
	}
	return strings.Trim(s[:i], "[]"), s[i+1:], true
}

// fitToStore takes over what an existing directory tells and nobody has set. It returns what to tell. Whether the directory supports what was set is looked at when it is opened.
func fitToStore(o *broker.Options, given []string) (told []string, err error) {
	root := o.StorePathRootDir
	d, err := store.Detect(root, o.Store, given)
	if err != nil {
		return nil, err
	}
	o.Store = d.Options
	told = append(told, d.Notes...)
	need, err := online.Require(root)
	if err != nil {
		return nil, err
	}
	applied, note := need.Apply(&o.Store, given)
	if note != "" {
		told = append(told, note)
	}
	if applied || slices.Contains(given, "storeType") || slices.Contains(given, "rocksdbCQDoubleWriteEnable") {
		return told, nil
	}
	st, err := migrate.LoadState(store.NewLayout(root).StateDir())
	if err != nil {
		return nil, err
	}
	return append(told, chooseSides(&o.Store, &d, st)...), nil
}

// chooseSides takes the sides that the store keeps its queues on, where nobody has said any.
func chooseSides(o *store.Options, d *store.Detected, st *migrate.State) (told []string) {
	side, moved := st.Active()
	switch both := d.File && d.RocksDB; {
	case moved && st.Phase == migrate.PhaseCutover:
		takeSide(o, side)
		told = append(told, fmt.Sprintf("the store was migrated to %s: its %s queues are served", side, side))
	case moved && both:
		takeSide(o, side)
		told = append(told, fmt.Sprintf("the store's migration is %s: its %s queues are served", st.Phase, side))
	case d.Kept.File && d.Kept.RocksDB:
		takeBoth(o)
		told = append(told, fmt.Sprintf("the store keeps its queues in files and in RocksDB (%s): both are kept", d.Kept.By))
	case d.Kept.Known():
		side = cq.KindFile
		if d.Kept.RocksDB {
			side = cq.KindRocks
		}
		takeSide(o, side)
		if !d.File && !d.RocksDB || both {
			told = append(told, fmt.Sprintf("the store keeps its queues in %s alone (%s)", side, d.Kept.By))
		}
	case both:
		takeBoth(o)
		told = append(told, "the store has its queues in files and in RocksDB: both are kept")
	case d.File:
		takeSide(o, cq.KindFile)
	case !d.RocksDB && !rocksdb.Available: // a new store, in a binary without RocksDB
		takeSide(o, cq.KindFile)
	default: // a new store, too
		takeSide(o, cq.KindRocks)
	}
	return told
}

func takeBoth(o *store.Options) {
	o.StoreType, o.RocksdbCQDoubleWriteEnable = store.StoreTypeFile, true
}

func takeSide(o *store.Options, kind cq.Kind) {
	o.StoreType, o.RocksdbCQDoubleWriteEnable = store.StoreTypeFile, false
	if kind == cq.KindRocks {
		o.StoreType = store.StoreTypeRocksDB
	}
}

// queuesText says where the queues are.
func queuesText(o *store.Options) string {
	switch {
	case o.StoreType == store.StoreTypeRocksDB:
		return "rocksdb"
	case o.RocksdbCQDoubleWriteEnable:
		return "file+rocksdb"
	}
	return "file"
}

func printProperties(c *cli.Context, all map[string]string) error {
	if c.Bool("json") {
		return printJSON(c.App.Writer, all)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, err := fmt.Fprintf(c.App.Writer, "%s=%s\n", name, all[name]); err != nil {
			return err
		}
	}
	return nil
}
