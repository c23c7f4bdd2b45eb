package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/online"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// The steps of a migration in a running broker, as the header field "step" of remoting.MigrateOnline names them. Those of the other fields that a step takes:
//
//	begin      to, layout, anySpace
//	verify
//	cutover    topics: several separated by ';', none: all
//	rollback   quick
//	resolve    queues: several TOPIC/ID separated by ';'; side: file, rocks or log, none: the side that is read
//	finalize   graceSeconds
//
// A step that takes longer than stepAnswer goes on: the answer is the status then, in which it is running, and a later status says what came of it.
const (
	MigrateBegin    = "begin"
	MigrateVerify   = "verify"
	MigrateCutover  = "cutover"
	MigrateRollback = "rollback"
	MigrateResolve  = "resolve"
	MigrateFinalize = "finalize"
)

// stepAnswer is after how long a step is answered that is not done.
const stepAnswer = 20 * time.Second

// migrationActor says in the audit trail who did what happens by itself.
func migrationActor() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("broker of %s@%s pid %d", name, host, os.Getpid())
}

// openMigration goes on with a migration that is under way. Without consume queues there is none.
func (b *Broker) openMigration() (err error) {
	kind := b.store.QueueKind()
	if kind == "" {
		return nil
	}
	root := b.o.StorePathRootDir
	b.migration, err = online.Open(b.store, online.Options{
		Root: root, Kind: kind, LightAlone: kind == cq.KindCombine && !b.store.FilesHaveLight(), CQFileBytes: b.o.Store.MappedFileSizeConsumeQueue,
		FreeBytes: func() (int64, error) { return mmap.FreeBytes(root) }, OpenScratch: b.openScratch, TimePuts: b.store.TimePuts, PutsRefused: b.store.PutsRefused, QueueDisk: store.NewLayout(root).QueueDisk, Actor: migrationActor(), Logger: b.log,
	})
	return err
}

// openScratch opens a RocksDB of queues to try out what room it takes.
func (b *Broker) openScratch(cq.Kind) (t migrate.Target, dir string, remove func() error, err error) {
	return b.store.OpenScratchRocks()
}

// closeMigration ends what is under way.
func (b *Broker) closeMigration() {
	if b.migration != nil {
		b.migration.Close()
	}
}

// migrates tells why properties that say which side does what are not to be changed: nil when they may be.
func (b *Broker) migrates(set map[string]string) error {
	if b.migration == nil {
		return nil
	}
	st := b.migration.Status()
	if !st.Online || st.Phase == state.RolledBack || st.Phase == state.Finalized {
		return nil
	}
	for _, name := range []string{"combineCQPreferCQType", "combineAssignOffsetCQType"} {
		if _, ok := set[name]; ok {
			return fmt.Errorf("%s is the migration's, which is %s: `tandemmq migrate online` moves reads and authority", name, st.Phase)
		}
	}
	return nil
}

// migrationStatus serves MigrateOnlineStatus, an addition. The header field "topics" asks for so many topics too, those that lack most. With "overview" the
// answer is a migrate.Overview.
func (b *Broker) migrationStatus(c *remoting.Conn, req *remoting.Command) {
	h := req.Fields()
	topics := h.Int32Or("topics", 0)
	switch {
	case b.migration == nil:
		c.RespondError(req, errNoQueues)
		return
	case h.Err() != nil || topics < 0:
		c.RespondError(req, remoting.Errorf(remoting.InvalidParameter, "topics: want how many"))
		return
	}
	if h.StringOr("overview", "") == "true" {
		b.migrationOverview(c, req)
		return
	}
	ticket := c.Hold(req)
	b.services.Go(func() { // every queue is looked at
		st := b.migration.Status()
		if topics > 0 && st.Online && st.Queues == cq.KindCombine {
			var err error
			if st.Topics, st.MoreTopics, err = b.migration.Topics(b.ctx, int(topics)); err != nil {
				ticket.Respond(&remoting.Command{Code: remoting.SystemError, Remark: err.Error()})
				return
			}
		}
		resp, err := withBody(st)
		if err != nil {
			resp = remoting.Command{Code: remoting.SystemError, Remark: err.Error()}
		}
		ticket.Respond(&resp)
	})
}

// migrationOverview answers with what there is to be told of the migration.
func (b *Broker) migrationOverview(c *remoting.Conn, req *remoting.Command) {
	ticket := c.Hold(req)
	b.services.Go(func() {
		l := store.NewLayout(b.o.StorePathRootDir)
		o, err := migrate.LoadOverview(l.Root, l.StateDir())
		var resp remoting.Command
		if err == nil {
			within, cancel := context.WithTimeout(b.ctx, overviewDiskLimit)
			if o.Disk, err = l.QueueDisk(within); err != nil {
				o.Problems = append(o.Problems, err.Error())
			}
			cancel()
			resp, err = withBody(o)
		}
		if err != nil {
			resp = remoting.Command{Code: remoting.SystemError, Remark: err.Error()}
		}
		ticket.Respond(&resp)
	})
}

// overviewDiskLimit is how long an overview may look for what is on the disk.
const overviewDiskLimit = 30 * time.Second

var errNoQueues = errors.New("the broker keeps no consume queues (buildConsumeQueues=false): there is nothing to migrate")

// migrateOnline serves MigrateOnline, an addition: it does a step, and answers with the status after it. What the step refuses is answered with remoting.MigrationRefused, differences with remoting.MigrationDiffers.
func (b *Broker) migrateOnline(c *remoting.Conn, req *remoting.Command) {
	if b.migration == nil {
		c.RespondError(req, errNoQueues)
		return
	}
	h := req.Fields()
	do, err := b.migrationStep(&h)
	if err != nil {
		c.RespondError(req, err)
		return
	}
	actor := "request of " + c.RemoteAddr()
	if host, _, err := net.SplitHostPort(c.RemoteAddr()); err == nil {
		actor = "request of " + host
	}
	if key := req.Ext.Get(remoting.FieldAccessKey); key != "" {
		actor += ", access key " + strings.Clone(key)
	}
	if by := h.StringOr("actor", ""); by != "" {
		actor = strings.Clone(by) + ", " + actor
	}
	ticket := c.Hold(req)
	b.services.Go(func() {
		ended := make(chan error, 1)
		b.services.Go(func() {
			err := do(b.ctx, actor)
			if err != nil {
				b.log.Warn("a step of the migration was not done", slog.Any("err", err), slog.String("actor", actor))
			}
			ended <- err
		})
		var err error
		select {
		case err = <-ended:
		case <-time.After(b.stepAnswer):
		}
		var resp remoting.Command
		if err == nil {
			resp, err = withBody(b.migration.Status())
		}
		if err != nil {
			resp = remoting.Command{Code: migrationCode(err), Remark: err.Error()}
		}
		ticket.Respond(&resp)
	})
}

func migrationCode(err error) int32 {
	var coded interface{ ExitCode() int }
	switch {
	case !errors.As(err, &coded):
		return remoting.SystemError
	case coded.ExitCode() == 1:
		return remoting.MigrationRefused
	}
	return remoting.MigrationDiffers
}

// migrationStep reads what is asked for.
func (b *Broker) migrationStep(h *remoting.Fields) (do func(ctx context.Context, actor string) error, err error) {
	m := b.migration
	switch step := strings.Clone(h.StringOr("step", "")); step {
	case MigrateBegin:
		o := online.BeginOptions{
			To: cq.Kind(strings.Clone(h.StringOr("to", ""))), Layout: state.RocksLayout(strings.Clone(h.StringOr("layout", ""))), AnySpace: h.StringOr("anySpace", "") == "true",
		}
		if o.Layout != "" && o.Layout != state.LayoutShared && o.Layout != state.LayoutSeparate {
			return nil, remoting.Errorf(remoting.InvalidParameter, "layout %q, want %s or %s", o.Layout, state.LayoutSeparate, state.LayoutShared)
		}
		o.BatchTopics, err = store.NewLayout(b.o.StorePathRootDir).BatchTopics()
		return func(ctx context.Context, actor string) error { return m.Begin(ctx, actor, o) }, err
	case MigrateVerify:
		return m.Verify, nil
	case MigrateCutover:
		var topics []string
		for t := range strings.SplitSeq(h.StringOr("topics", ""), ";") {
			if t = strings.TrimSpace(t); t != "" {
				topics = append(topics, strings.Clone(t))
			}
		}
		return func(ctx context.Context, actor string) error { return m.Cutover(ctx, actor, topics) }, nil
	case MigrateRollback:
		o := online.RollbackOptions{Quick: h.StringOr("quick", "") == "true"}
		return func(ctx context.Context, actor string) error { return m.Rollback(ctx, actor, o) }, nil
	case MigrateResolve:
		side := cq.Kind(strings.Clone(h.StringOr("side", "")))
		keys, err := queueNames(h.StringOr("queues", ""))
		return func(ctx context.Context, actor string) error { return m.Resolve(ctx, actor, keys, side) }, err
	case MigrateFinalize:
		grace := time.Duration(h.Int64Or("graceSeconds", 0)) * time.Second
		if h.Err() != nil || grace < 0 {
			return nil, remoting.Errorf(remoting.InvalidParameter, "graceSeconds: want seconds")
		}
		return func(ctx context.Context, actor string) error { return m.Finalize(ctx, actor, grace) }, nil
	default:
		return nil, remoting.Errorf(remoting.InvalidParameter, "step %q, want %s", step, strings.Join([]string{MigrateBegin, MigrateVerify, MigrateCutover, MigrateRollback, MigrateResolve, MigrateFinalize}, ", "))
	}
}

// queueNames reads queues, each as TOPIC/ID, separated by ';'.
func queueNames(list string) (keys []cq.Key, err error) {
	for name := range strings.SplitSeq(list, ";") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		at := strings.LastIndexByte(name, '/')
		id, err := strconv.ParseInt(name[at+1:], 10, 32)
		if at <= 0 || err != nil || id < 0 {
			return nil, remoting.Errorf(remoting.InvalidParameter, "queue %q, want TOPIC/ID", name)
		}
		keys = append(keys, cq.Key{Topic: strings.Clone(name[:at]), QueueID: int32(id)})
	}
	return keys, nil
}
