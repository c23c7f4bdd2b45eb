package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/broker"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/online"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/remoting"
)

const migrateOnlineHelp = `Moves the consume queues of a running broker between files and RocksDB while it serves. The broker does the work, and goes on by itself after each restart, also after
a kill; these commands only ask it. The way, with one restart at its beginning and one at its end:

   tandemmq migrate online begin                       (restart the broker: from then on it writes both)
   tandemmq migrate online status --watch              (it backfills, and verifies every unit)
   tandemmq migrate online cutover --topics T1,T2      (reads of these topics move)
   tandemmq migrate online cutover                     (all reads move, and offsets)
   tandemmq migrate online rollback                    (they move back)
   tandemmq migrate online finalize                    (compares once more; the next restart moves the other side aside)

docs/migration.md is the runbook. Exit codes: 0 ok, 1 failed or refused, 2 wrong usage, 3 compared and found different.`

func migrateOnlineCommand() *cli.Command {
	step := func(name, usage, help string, run func(o *onlineCall) error, flags ...cli.Flag) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage, Description: help, Flags: append(onlineFlags(), flags...),
			Action: func(c *cli.Context) error {
				o := &onlineCall{c: c, out: c.App.Writer}
				err := o.withBroker(run)
				if err != nil && c.Bool("json") && !o.printed {
					err = errors.Join(err, printJSON(o.out, errorJSON(err)))
				}
				return err
			},
		}
	}
	return &cli.Command{
		Name: "online", Usage: "move the consume queues of a running broker while it serves", Description: migrateOnlineHelp,
		Subcommands: []*cli.Command{
			step("begin", "set a migration up", "A broker with one kind of queues has to be restarted then, once: it opens with both kinds by itself, unless storeType or rocksdbCQDoubleWriteEnable are set for it.",
				(*onlineCall).begin,
				&cli.StringFlag{Name: "to", Usage: "`SIDE` to migrate to: rocks or file (default: the one that the broker does not serve from)"},
				&cli.StringFlag{Name: "layout", Usage: "where a new RocksDB goes: `LAYOUT` separate (consumequeue_rocksdb/, the default) or shared (consumequeue/)"},
				&cli.BoolFlag{Name: "any-space", Usage: "begin although the disk seems to have too little room"}),
			step("status", "say where the migration stands, how far it is, and who did what", "",
				(*onlineCall).status,
				watchFlag("verified, diverged, cutover, rolled back, finalized, or in need of a restart"), everyFlag(),
				reportFlag(),
				&cli.IntFlag{Name: "topics", Value: 10, Usage: "show `N` topics at most, those that lack most; 0: none"}),
			step("verify", "compare everything again, from the first unit on", "Canary topics are read from the source again. After a rollback it leads on to another cutover.",
				func(o *onlineCall) error { return o.step(broker.MigrateVerify) }),
			step("cutover", "move reads to the target, of some topics or of all", "Refused unless verified. The queues that move are compared once more, from the first unit on, which takes as long as their verification: this waits for it, and status shows how far it is. Interrupting this command does not end it; rollback does.",
				func(o *onlineCall) error {
					return o.step(broker.MigrateCutover, "topics", strings.ReplaceAll(o.c.String("topics"), ",", ";"))
				},
				&cli.StringFlag{Name: "topics", Usage: "move the reads of these `TOPICS` alone, several separated by commas, in addition to those that were moved before"}),
			step("rollback", "move reads back; before the cutover: give the migration up", "The ends of the queues and what came since the last comparison are compared first; it says how much was not read again. Both sides are still written then.",
				func(o *onlineCall) error {
					return o.step(broker.MigrateRollback, "quick", strconv.FormatBool(o.c.Bool("quick")))
				},
				&cli.BoolFlag{Name: "quick", Usage: "for an emergency: compare the ends of the queues alone, also where nothing counts that was compared before"}),
			step("resolve", "choose which side of queues stays, where the log does not tell which is right", "The other side gets a copy of it. With --keep log the queue is built again from the log on both, as far as that has its records: try this first. The audit trail says who has chosen what. Only queues in which something was found can be named.",
				func(o *onlineCall) error {
					queues := o.c.StringSlice("queue")
					if len(queues) == 0 {
						return usageError("--queue: say which queues, as TOPIC/ID")
					}
					for _, q := range queues {
						for one := range strings.SplitSeq(q, ";") {
							if !isQueueName(one) {
								return usageError("--queue %q: use TOPIC/ID", one)
							}
						}
					}
					switch keep := cq.Kind(o.c.String("keep")); keep {
					case "", cq.KindFile, cq.KindRocks, online.KeepLog:
					default:
						return usageError("--keep %q: use file, rocks or log", keep)
					}
					return o.step(broker.MigrateResolve, "queues", strings.Join(queues, ";"), "side", o.c.String("keep"))
				},
				&cli.StringSliceFlag{Name: "queue", Usage: "a `QUEUE`, as TOPIC/ID; may be given several times"},
				&cli.StringFlag{Name: "keep", Usage: "the `SIDE` whose units stay: file or rocks (default: the one that the queue is read from); or log"}),
			step("finalize", "give up the side that reads do not belong to", "The side that is kept is compared once more, each unit of each queue: this waits for it, and status shows how far it is. The next start of the broker, after a stop in order, moves the other one to tandemmq/retired in the store's directory, and keeps the other side alone. It is deleted after --grace.",
				func(o *onlineCall) error {
					grace := o.c.Duration("grace")
					if grace < time.Second {
						return usageError("--grace %v: use 1s or more", grace)
					}
					return o.step(broker.MigrateFinalize, "graceSeconds", strconv.FormatInt(int64(grace.Seconds()), 10))
				},
				&cli.DurationFlag{Name: "grace", Value: online.DefaultGrace, Usage: "`TIME` for which the side is kept that was moved aside"}),
		},
	}
}

// isQueueName tells whether a name is TOPIC/ID, as a broker reads it.
func isQueueName(name string) bool {
	name = strings.TrimSpace(name)
	at := strings.LastIndexByte(name, '/')
	id, err := strconv.ParseInt(name[at+1:], 10, 32)
	return at > 0 && err == nil && id >= 0
}

func watchFlag(until string) cli.Flag {
	return &cli.BoolFlag{Name: "watch", Usage: "go on until the migration waits for somebody: " + until + "; on a terminal in place, with --json a line for each look"}
}

func everyFlag() cli.Flag {
	return &cli.DurationFlag{Name: "every", Value: time.Second, Usage: "with --watch: `TIME` between two looks"}
}

// leastEvery is how often may be looked.
const leastEvery = 10 * time.Millisecond

func checkEvery(c *cli.Context) error {
	if every := c.Duration("every"); c.Bool("watch") && every < leastEvery {
		return usageError("--every %v: use %v or more", every, leastEvery)
	}
	return nil
}

func onlineFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "broker", Value: "127.0.0.1:10911", Usage: "`HOST:PORT` of the broker"},
		&cli.DurationFlag{Name: "timeout", Value: 10 * time.Minute, Usage: "`TIME` to wait for an answer; a step that takes longer is waited for all the same"},
		&cli.StringFlag{Name: "access-key", EnvVars: []string{"TANDEMMQ_ACCESS_KEY"}, Usage: "access `KEY` of an admin's account, if the broker has access rules"},
		&cli.StringFlag{Name: "secret-key-file", EnvVars: []string{"TANDEMMQ_SECRET_KEY_FILE"}, Usage: "`FILE` with its secret key"},
		&cli.BoolFlag{Name: "tls", Usage: "use TLS; without --tls-trust the broker's certificate is not checked"},
		&cli.StringFlag{Name: "tls-trust", Usage: "`FILE` of certificates, in PEM, that the broker's has to be signed by; implies --tls"},
		&cli.BoolFlag{Name: "json", Usage: "print the status as one JSON document"},
	}
}

// onlineCall is a command that asks a broker.
type onlineCall struct {
	c      *cli.Context
	client *remoting.Client
	addr   string
	out    io.Writer
	// printed tells that a JSON document has been printed.
	printed bool
}

func (o *onlineCall) withBroker(run func(o *onlineCall) error) (err error) {
	c := o.c
	o.addr = c.String("broker")
	if _, _, ok := cutHostPort(o.addr); !ok {
		return usageError("--broker %q: use HOST:PORT", o.addr)
	}
	opt := remoting.DefaultClientOptions()
	if key := c.String("access-key"); key != "" {
		secret, err := os.ReadFile(c.String("secret-key-file"))
		if err != nil {
			return fmt.Errorf("--secret-key-file: %w", err)
		}
		opt.Sign = remoting.Credentials{AccessKey: key, SecretKey: strings.TrimSpace(string(secret))}.Sign
	}
	if c.Bool("tls") || c.String("tls-trust") != "" {
		if opt.TLS, err = trusting(c.String("tls-trust")); err != nil {
			return err
		}
	}
	if o.client, err = remoting.NewClient(opt); err != nil {
		return err
	}
	defer func() { _ = o.client.Close() }() // it was answered
	return run(o)
}

func trusting(path string) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: path == ""} // as said in the flag's help
	if path == "" {
		return t, nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--tls-trust: %w", err)
	}
	t.RootCAs = x509.NewCertPool()
	if !t.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tls-trust: %s has no certificate in PEM", path)
	}
	return t, nil
}

// ask sends a request and returns the status that is the answer.
func (o *onlineCall) ask(code int32, fields ...string) (st online.Status, err error) {
	return st, o.invoke(code, &st, fields...)
}

// invoke sends a request and reads the answer into v.
func (o *onlineCall) invoke(code int32, v any, fields ...string) error {
	req := &remoting.Command{Code: code}
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] != "" {
			req.Ext.Set(fields[i], fields[i+1])
		}
	}
	ctx, cancel := context.WithTimeout(o.c.Context, o.c.Duration("timeout"))
	defer cancel()
	resp, err := o.client.Invoke(ctx, o.addr, req)
	if err != nil {
		return fmt.Errorf("ask broker %s: %w", o.addr, err)
	}
	switch resp.Code {
	case remoting.Success:
	case remoting.MigrationDiffers:
		return &differs{resp.Remark}
	case remoting.RequestCodeNotSupported:
		return fmt.Errorf("broker %s is not one of tandemmq's, or one that knows no migration", o.addr)
	default:
		return fmt.Errorf("broker %s: %s", o.addr, resp.Remark)
	}
	if err := json.Unmarshal(resp.Body, v); err != nil {
		return fmt.Errorf("answer of broker %s: %w", o.addr, err)
	}
	return nil
}

// differs is an error with exit code 3.
type differs struct{ what string }

func (e *differs) Error() string { return e.what }

// ExitCode is 3: verified and found different.
func (e *differs) ExitCode() int { return 3 }

func (o *onlineCall) step(name string, fields ...string) error {
	actor := "unknown"
	if u, err := user.Current(); err == nil {
		actor = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		actor += "@" + host
	}
	actor += " tandemmq " + version()
	st, err := o.ask(remoting.MigrateOnline, append([]string{"step", name, "actor", actor}, fields...)...)
	if err != nil {
		return err
	}
	if err := o.await(&st, name, actor); err != nil {
		return err
	}
	return o.show(&st, true)
}

// await waits for a step that was answered before it was over, and tells how far it is.
func (o *onlineCall) await(st *online.Status, name, actor string) (err error) {
	at := slices.IndexFunc(st.Asked, func(a online.Step) bool { return a.Running && a.Name == name && strings.HasPrefix(a.Actor, actor) })
	if at < 0 {
		return nil
	}
	begun, shown := st.Asked[at].Begun, ""
	for {
		if line := onlineLine(st); line != shown && !o.c.Bool("json") {
			shown = line
			fmt.Fprintln(o.c.App.ErrWriter, line)
		}
		select {
		case <-o.c.Done():
			return o.c.Err()
		case <-time.After(time.Second):
		}
		if *st, err = o.ask(remoting.MigrateOnlineStatus); err != nil {
			return err
		}
		at := slices.IndexFunc(st.Asked, func(a online.Step) bool { return a.Name == name && a.Begun.Equal(begun) })
		if at < 0 {
			return fmt.Errorf("broker %s: the step %s has ended, and what came of it is not known any more: see the history of `migrate online status`", o.addr, name)
		}
		switch a := &st.Asked[at]; {
		case a.Running:
		case a.Differs:
			return &differs{a.Error}
		case a.Error != "":
			return fmt.Errorf("broker %s: %s", o.addr, a.Error)
		default:
			return nil
		}
	}
}

func (o *onlineCall) begin() error {
	to, layout := o.c.String("to"), o.c.String("layout")
	if to != "" && to != string(cq.KindRocks) && to != string(cq.KindFile) {
		return usageError("--to %q: use rocks or file", to)
	}
	if layout != "" && layout != string(state.LayoutSeparate) && layout != string(state.LayoutShared) {
		return usageError("--layout %q: use separate or shared", layout)
	}
	return o.step(broker.MigrateBegin, "to", to, "layout", layout, "anySpace", strconv.FormatBool(o.c.Bool("any-space")))
}

func (o *onlineCall) status() error {
	n := o.c.Int("topics")
	if n < 0 {
		return usageError("--topics %d: use 0 or more", n)
	}
	if err := checkEvery(o.c); err != nil {
		return err
	}
	look := func() (online.Status, error) { return o.ask(remoting.MigrateOnlineStatus, "topics", strconv.Itoa(n)) }
	if !o.c.Bool("watch") {
		st, err := look()
		if err != nil {
			return err
		}
		return errors.Join(o.show(&st, true), o.writeReport())
	}
	w := watching{out: o.out, json: o.c.Bool("json")}
	if chooseProgress(o.out, w.json) == progressBars {
		w.screen = &screen{w: o.out}
	}
	for {
		st, err := look()
		if err != nil {
			return err
		}
		o.printed = true
		if err := w.show(&st); err != nil || settled(&st) {
			return errors.Join(err, o.writeReport())
		}
		select {
		case <-o.c.Done():
			return o.c.Err()
		case <-time.After(o.c.Duration("every")):
		}
	}
}

// settled tells whether a migration waits for somebody.
func settled(st *online.Status) bool {
	if !st.Online || st.RestartNeeded {
		return true
	}
	if slices.ContainsFunc(st.Asked, func(a online.Step) bool { return a.Running }) {
		return false
	}
	if st.Fill != nil && st.Waits == "" {
		return false
	}
	switch st.Phase {
	case state.Backfilling, state.CatchingUp, state.Verifying, state.Repairing, state.RollingBack, state.Planned, state.Finalizing:
		return st.Waits != ""
	case state.Diverged, state.Verified, state.Cutover:
		return st.Diverged[cq.KindFile]+st.Diverged[cq.KindRocks] == 0
	}
	return true
}

func (o *onlineCall) show(st *online.Status, history bool) error {
	if o.c.Bool("json") {
		o.printed = true
		return printJSON(o.out, st)
	}
	printOnline(o.out, st, history)
	return nil
}

// watching shows looks: on a terminal the whole status in one place; elsewhere a line where that has changed, and the status at the end; or JSON.
type watching struct {
	out    io.Writer
	json   bool
	screen *screen // nil: no terminal
	last   string
}

func (w *watching) show(st *online.Status) error {
	if w.json {
		return json.NewEncoder(w.out).Encode(st)
	}
	if w.screen != nil {
		var b strings.Builder
		printOnline(&b, st, false)
		return w.screen.show(b.String())
	}
	if line := onlineLine(st); line != w.last {
		w.last = line
		if _, err := fmt.Fprintln(w.out, line); err != nil {
			return err
		}
	}
	if settled(st) {
		printOnline(w.out, st, false)
	}
	return nil
}

// onlineLine says in a line how far a migration is.
func onlineLine(st *online.Status) string {
	line := string(st.Phase)
	switch {
	case st.Fill != nil:
		f := st.Fill
		line += fmt.Sprintf(": %s side at %s of %s bytes of the log", f.Kind, thousands(f.Done), thousands(f.To))
		if f.BytesPerSecond > 0 {
			line += fmt.Sprintf(", %s bytes/s", thousands(f.BytesPerSecond))
		}
		if f.SecondsLeft >= 0 {
			line += fmt.Sprintf(", %v left", time.Duration(f.SecondsLeft)*time.Second)
		}
	case st.Verifying != nil:
		v := st.Verifying
		line += fmt.Sprintf(": %s of %s queues compared, %s units", thousands(int64(v.Queues)), thousands(int64(v.Of)), thousands(v.Units))
		if v.UnitsPerSecond > 0 {
			line += fmt.Sprintf(", %s units/s", thousands(v.UnitsPerSecond))
		}
		if v.SecondsLeft >= 0 {
			line += fmt.Sprintf(", %v left", time.Duration(v.SecondsLeft)*time.Second)
		}
	case st.Phase == state.Repairing:
		line += fmt.Sprintf(": %d queues are built again from the log", st.Diverged[cq.KindFile]+st.Diverged[cq.KindRocks])
	}
	if st.Waits != "" {
		line += "; " + st.Waits
	}
	return line
}

func printOnline(w io.Writer, st *online.Status, history bool) {
	fmt.Fprintf(w, "Migration: %s\n", onlineLine(st))
	if st.Phase == state.Absent || st.Phase == "" {
		return
	}
	var rows [][2]string
	add := func(name, format string, args ...any) {
		rows = append(rows, [2]string{name, fmt.Sprintf(format, args...)})
	}
	add("direction", "%s -> %s", st.From, st.To)
	add("queues are kept in", "%s", map[cq.Kind]string{cq.KindCombine: "files and RocksDB", cq.KindFile: "files", cq.KindRocks: "RocksDB"}[st.Queues])
	add("read from", "%s", st.Reads)
	if note := rolledBack(st); note != "" {
		add("rolled back", "%s", note)
	}
	if len(st.CanaryTopics) > 0 {
		add("canary topics", "%s", strings.Join(st.CanaryTopics, ", "))
	}
	if v := st.Verified; v != nil {
		add("verified", "%s queues, %s units, %s records, up to log offset %d, at %s", thousands(int64(v.Queues)), thousands(v.Units), thousands(v.Records), v.LogEnd, v.Time.Format(time.RFC3339))
	}
	for _, kind := range []cq.Kind{cq.KindFile, cq.KindRocks} {
		if l, ok := st.Lag[kind]; ok {
			text := "at the end of the log"
			if l.Bytes > 0 {
				text = fmt.Sprintf("%s bytes, %s, behind the end of the log", thousands(l.Bytes), lagText(time.Duration(l.Ms)*time.Millisecond))
			}
			if l.Failure != "" {
				text += "; " + l.Failure
			}
			add(string(kind)+" side", "%s", text)
		}
		if n := st.Diverged[kind]; n > 0 {
			add(string(kind)+" side", "%d queues are built again", n)
		}
		if n := st.Differ[kind]; n > 0 {
			add(string(kind)+" side", "%d queues differ and stay as they are", n)
		}
	}
	if st.PutsRefused != "" {
		add("puts", "REFUSED: %s", st.PutsRefused)
	}
	if r := st.Shadow; r != nil {
		add("reads compared", "%s with %s units on both sides, %d differences; %s were too many", thousands(r.Reads), thousands(r.Units), r.Found, thousands(r.Busy))
	}
	if f := st.Findings; f != nil {
		text := fmt.Sprintf("%s queues; %s healed, %s remaining", thousands(f.Found), thousands(f.Healed), thousands(f.Remaining))
		if f.Kept > 0 {
			text = fmt.Sprintf("%s queues; %s healed, of %s a side was chosen, %s remaining", thousands(f.Found), thousands(f.Healed), thousands(f.Kept), thousands(f.Remaining))
		}
		add("found to differ", "%s", text)
	}
	for i := range st.Chosen {
		c := &st.Chosen[i]
		add("chosen", "queue %s/%d: the %s side stays, by %s at %s", c.Topic, c.QueueID, c.Side, c.By, c.Time.Format(time.RFC3339))
	}
	for i := range st.Asked {
		a := &st.Asked[i]
		if !a.Running && (a.Error == "" || i < len(st.Asked)-1) {
			continue
		}
		text := fmt.Sprintf("%s by %s at %s", a.Name, a.Actor, a.Begun.Format(time.RFC3339))
		if a.Running {
			text += ": being done"
		} else {
			text += ": " + oneLine(a.Error)
		}
		add("asked for", "%s", text)
	}
	for i := range st.Retired {
		r := &st.Retired[i]
		switch {
		case r.Removed:
			add("retired", "the %s queues; deleted", r.Kind)
		case !r.Until.IsZero():
			add("retired", "the %s queues, in %s until %s", r.Kind, r.Path, r.Until.Format(time.RFC3339))
		}
	}
	table(w, rows...)
	printTopics(w, st)
	for _, d := range st.Differences {
		fmt.Fprintf(w, "  differs: %s\n", d)
	}
	if next := nextOnline(st); next != "" {
		fmt.Fprintf(w, "Next: %s\n", next)
	}
	if history {
		printHistory(w, st.History)
	}
}

// lagText writes a time without more than two units: the store times of a log may be years old.
func lagText(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 2*day {
		return round(d).String()
	}
	return fmt.Sprintf("%s days", thousands(int64(d/day)))
}

// oneLine puts the reasons of an error, each in a line of its own, behind its first line.
func oneLine(msg string) string {
	head, reasons, several := strings.Cut(msg, "\n  - ")
	if !several {
		return msg
	}
	return head + " " + strings.ReplaceAll(reasons, "\n  - ", "; ")
}

// printTopics shows how far each topic is.
func printTopics(w io.Writer, st *online.Status) {
	if len(st.Topics) == 0 {
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "  topic\tqueues\tunits\tin %s\tper second\tleft\tverified\tbuilt again\tfound\thealed\tremaining\n", st.To)
	for i := range st.Topics {
		t := &st.Topics[i]
		left, rate, part := "?", "", 100.0
		if t.SecondsLeft >= 0 {
			left = (time.Duration(t.SecondsLeft) * time.Second).String()
		}
		if t.UnitsPerSecond > 0 {
			rate = thousands(t.UnitsPerSecond)
		}
		if t.Units > 0 {
			part = 100 * float64(min(t.Filled, t.Units)) / float64(t.Units)
		}
		name := t.Topic
		if t.Canary {
			name += " (canary)"
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%.1f%%\t%s\t%s\t%d of %d\t%d\t%d\t%d\t%d\n", name, thousands(int64(t.Queues)), thousands(t.Units), math.Floor(part*10)/10, rate, left, t.Verified, t.Queues, t.Diverged, max(t.Found, int64(t.Differ)), t.Healed, max(t.Remaining, int64(t.Differ)))
	}
	_ = tw.Flush() // w's errors come back with its next write
	if st.MoreTopics > 0 {
		fmt.Fprintf(w, "  and %s topics more\n", thousands(int64(st.MoreTopics)))
	}
}

// nextOnline says what an operator does next.
func nextOnline(st *online.Status) string {
	switch {
	case !st.Online:
		return ""
	case st.PutsRefused != "":
		return "look at why puts are refused, first: no step mends it"
	case st.Phase == state.Finalizing && !st.RestartNeeded:
		return "wait: the side that is kept is compared once more, and the other one is moved aside by the start after that"
	case st.Phase == state.Finalizing:
		return "stop the broker in order and start it: the side that is not kept is moved aside then"
	case st.RestartNeeded && st.Queues == cq.KindRocks && st.To == cq.KindFile:
		return "stop the broker, take topics, groups and offsets over with `tandemmq migrate metadata --store DIR --to file --yes`, and start it: it then keeps its queues in files and in RocksDB"
	case st.RestartNeeded:
		return "restart the broker: it then keeps its queues in files and in RocksDB"
	}
	if n := st.Diverged[cq.KindFile] + st.Diverged[cq.KindRocks]; st.Phase == state.Verified && (st.Fill != nil || n > 0) {
		return "wait: what lacks something is built again, and then verified again"
	}
	switch st.Phase {
	case state.Verified:
		return nextStep(st, "cutover", "tandemmq migrate online cutover, with --topics for some first")
	case state.Diverged:
		return "see docs/migration.md; resolve keeps one side of a queue that the log does not decide, verify compares again, rollback gives up"
	case state.Cutover:
		return nextStep(st, "rollback", "tandemmq migrate online rollback goes back") + "; " + nextStep(st, "finalize", "finalize gives the old side up")
	case state.RolledBack:
		return nextStep(st, "verify", "tandemmq migrate online verify leads to another cutover") + "; " + nextStep(st, "finalize", "finalize gives the other side up")
	}
	return ""
}

// nextStep tells of a step what it does, or why it would be refused at this moment.
func nextStep(st *online.Status, step, what string) string {
	if reasons := st.Refused[step]; len(reasons) > 0 {
		return fmt.Sprintf("%s is refused for the moment: %s", step, strings.Join(reasons, ", and "))
	}
	return what
}

// rolledBack says what the rollback has compared, and what it has not; "" where there was none.
func rolledBack(st *online.Status) string {
	if st.Phase != state.RolledBack {
		return ""
	}
	for _, h := range slices.Backward(st.History) {
		if h.Event == state.RollbackStart || h.Event == state.Cancel {
			return h.Note
		}
	}
	return ""
}

func printHistory(w io.Writer, history []migrate.HistoryEntry) {
	for _, h := range history {
		fmt.Fprintf(w, "  %s  %-15s -> %-12s %s", h.Time.Format(time.RFC3339), h.Event, h.Phase, h.Actor)
		if h.Note != "" {
			fmt.Fprintf(w, "  (%s)", h.Note)
		}
		fmt.Fprintln(w)
	}
}
