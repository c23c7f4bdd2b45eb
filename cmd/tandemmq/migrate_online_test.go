package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	rocksdb "github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/internal/htmlreport/htmltest"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/online"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// migratable makes a store of queues in files, and returns the flags that a broker of it has.
func migratable(t *testing.T) (root string, small []string) {
	t.Helper()
	if !rocksdb.Available {
		t.Skip("built without cgo: no RocksDB")
	}
	root = filepath.Join(t.TempDir(), "store")
	g := store.DefaultGenerateOptions()
	g.Messages, g.Topics, g.CommitLogFileBytes = 200, 2, 4<<20
	_, err := store.Generate(t.Context(), root, g)
	require.NoError(t, err)
	return root, []string{"--store", root, "--set", "maxHashSlotNum=100", "--set", "maxIndexNum=400", "--set", "preallocateAheadBytes=1048576"}
}

// The way of the runbook, by its commands.
func TestMigrateOnlineCommands(t *testing.T) {
	root, small := migratable(t)
	ready, stop := startBroker(t, small...)
	require.Equal(t, "file", ready[5])
	ask := func(code int, args ...string) (out, errs string) {
		t.Helper()
		got, out, errs := runApp(t, append(append([]string{"migrate", "online"}, args...), "--broker", ready[2])...)
		require.Equal(t, code, got, "%s%s", out, errs)
		return out, errs
	}
	out, _ := ask(0, "status")
	require.Equal(t, "Migration: absent\n", out)
	_, errs := ask(1, "cutover")
	require.Contains(t, errs, "no migration has been begun")
	out, errs = ask(1, "cutover", "--json")
	var failed errorReport
	require.NoError(t, json.Unmarshal([]byte(out), &failed))
	require.Equal(t, 1, failed.ExitCode)
	require.Contains(t, errs, failed.Error)
	out, _ = ask(0, "begin", "--to", "rocks")
	require.Contains(t, out, "Next: restart the broker")
	out, _ = ask(0, "status", "--watch")
	require.Contains(t, out, "Migration: planned; the broker has to be restarted")
	stop()

	ready, stop = startBroker(t, small...)
	require.Equal(t, "file+rocksdb", ready[5])
	out, _ = ask(0, "status", "--watch", "--every", "10ms", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var st online.Status
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &st))
	require.Equal(t, state.Verified, st.Phase)
	require.EqualValues(t, 200, st.Verified.Units)
	out, _ = ask(0, "status")
	require.Contains(t, out, "Migration: verified\n")
	require.Contains(t, out, "Next: tandemmq migrate online cutover")
	require.Contains(t, out, "caught-up       -> verifying")
	require.Regexp(t, `sample_1 +4 +105 +100.0% +0s +4 of 4 +0 +0 +0 +0\n`, out)
	require.Regexp(t, `rocks side +at the end of the log`, out)
	out, _ = ask(0, "status", "--topics", "1")
	require.Contains(t, out, "  and 1 topics more\n")
	page := filepath.Join(t.TempDir(), "out.html")
	ask(0, "status", "--report", page)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	text := htmltest.Check(t, string(html))
	for _, want := range []string{"in a running broker: verified", "caught-up", "200 units in", "Latency of puts"} {
		require.Contains(t, text, want)
	}
	out, _ = ask(0, "status", "--topics", "0")
	require.NotContains(t, out, "sample_0")
	_, errs = ask(1, "cutover", "--topics", "sample_0,sample_9")
	require.Contains(t, errs, "topic sample_9 has no queues here")
	out, _ = ask(0, "cutover", "--topics", "sample_0,sample_1")
	require.Contains(t, out, "sample_0, sample_1")
	out, _ = ask(0, "cutover")
	require.Contains(t, out, "Migration: cutover\n")
	require.Regexp(t, `read from +rocks`, out)
	out, _ = ask(0, "rollback")
	require.Regexp(t, `read from +file`, out)
	ask(0, "verify")
	ask(0, "status", "--watch", "--every", "10ms")
	out, _ = ask(0, "cutover", "--json")
	require.NoError(t, json.Unmarshal([]byte(out), &st))
	require.Equal(t, cq.KindRocks, st.Reads)
	out, _ = ask(0, "finalize", "--grace", "1h")
	require.Contains(t, out, "Next: stop the broker in order and start it")
	stop()

	ready, stop = startBroker(t, small...)
	defer stop()
	require.Equal(t, "rocksdb", ready[5])
	out, _ = ask(0, "status")
	require.Contains(t, out, "Migration: finalized\n")
	require.Contains(t, out, "the file queues, in tandemmq/retired/file-")
	_, errs = ask(1, "verify")
	require.Contains(t, errs, "the migration is finalized, and the store has its rocks queues alone")
	require.DirExists(t, filepath.Join(root, "tandemmq", "retired"))
	code, out, errs := runApp(t, "migrate", "status", "--store", root)
	require.Zero(t, code, errs)
	require.Contains(t, out, "finalized")
	require.Contains(t, out, "reads belong to  rocks")
}

// The stopped store of a migration in a running broker can be repaired: the broker verifies again then. What an attempt that was killed has left is removed.
func TestMigrateOnlineRepairOfTheStoppedStore(t *testing.T) {
	root, small := migratable(t)
	ready, stop := startBroker(t, small...)
	ask := func(code int, args ...string) (out, errs string) {
		t.Helper()
		got, out, errs := runApp(t, args...)
		require.Equal(t, code, got, "%s%s", out, errs)
		return out, errs
	}
	ask(0, "migrate", "online", "begin", "--broker", ready[2])
	stop()
	ready, stop = startBroker(t, small...)
	ask(0, "migrate", "online", "status", "--watch", "--every", "10ms", "--broker", ready[2])
	stop()

	queues, err := filepath.Glob(filepath.Join(root, "consumequeue", "sample_1", "2", "0*"))
	require.NoError(t, err)
	require.Len(t, queues, 1)
	f, err := os.OpenFile(queues[0], os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{1}, 3*20+19) // the tags code of slot 3
	require.NoError(t, err)
	require.NoError(t, f.Close())
	left := filepath.Join(root, "tandemmq", "plan-123")
	require.NoError(t, os.Mkdir(left, 0o755))

	_, errs := ask(1, "migrate", "verify", "--store", root)
	require.Contains(t, errs, "`tandemmq migrate repair` of the stopped store, first with --dry-run")
	require.NoDirExists(t, left)
	out, _ := ask(3, "migrate", "repair", "--store", root, "--dry-run")
	require.Contains(t, out, "wrong-tags")
	out, _ = ask(0, "migrate", "status", "--store", root)
	require.Contains(t, out, "verified")
	ask(0, "migrate", "repair", "--store", root)
	out, _ = ask(0, "migrate", "status", "--store", root)
	require.Contains(t, out, "repair-end")

	ready, stop = startBroker(t, small...)
	defer stop()
	ask(0, "migrate", "online", "status", "--watch", "--every", "10ms", "--broker", ready[2])
	out, _ = ask(0, "migrate", "online", "status", "--broker", ready[2])
	require.Contains(t, out, "Migration: verified\n")
	require.Regexp(t, `repair-end +-> verifying`, out)
	ask(0, "migrate", "online", "cutover", "--broker", ready[2])
}

// The way of the runbook in the other direction: a broker over RocksDB, whose topics, groups and offsets are in databases, comes to files.
func TestMigrateOnlineToFileCommands(t *testing.T) {
	if !rocksdb.Available {
		t.Skip("built without cgo: no RocksDB")
	}
	root := filepath.Join(t.TempDir(), "store")
	small := []string{"--store", root, "--set", "maxHashSlotNum=100", "--set", "maxIndexNum=400", "--set", "mappedFileSizeCommitLog=1048576", "--set", "preallocateAheadBytes=1048576"}
	ready, stop := startBroker(t, append(small, ownQueues("defaultRocksDB")...)...)
	require.Equal(t, "rocksdb", ready[5])
	client, err := remoting.NewClient(remoting.DefaultClientOptions())
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	call := func(code int32, body string, fields ...string) *remoting.Command {
		t.Helper()
		req := &remoting.Command{Code: code, Body: []byte(body)}
		for i := 0; i < len(fields); i += 2 {
			req.Ext.Set(fields[i], fields[i+1])
		}
		resp, err := client.Invoke(t.Context(), ready[2], req)
		require.NoError(t, err)
		require.Equal(t, remoting.Success, resp.Code, resp.Remark)
		return resp
	}
	queue := []string{"topic", "T", "queueId", "1"}
	group := append(queue, "consumerGroup", "g")
	for i := range 10 {
		call(remoting.SendMessageV2, fmt.Sprint(i), "a", "pg", "b", "T", "c", "TBW102", "d", "4", "e", "1", "f", "0", "g", "1700000000000", "h", "7", "i", "", "j", "0", "k", "false", "l", "0", "m", "false")
	}
	call(remoting.UpdateAndCreateSubscriptionGroup, `{"groupName":"g"}`)
	call(remoting.UpdateConsumerOffset, "", append(group, "commitOffset", "7")...)
	ask := func(args ...string) string {
		t.Helper()
		code, out, errs := runApp(t, append(append([]string{"migrate", "online"}, args...), "--broker", ready[2])...)
		require.Zero(t, code, "%s%s", out, errs)
		return out
	}
	require.Contains(t, ask("begin", "--to", "file"), "Next: stop the broker, take topics, groups and offsets over with `tandemmq migrate metadata --store DIR --to file --yes`, and start it")
	stop()

	// Without the line that asked for RocksDB alone it keeps both sides, and has topics, groups and offsets in files.
	code, _, errs := runApp(t, append([]string{"broker", "--listen", "127.0.0.1:0"}, small...)...)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "tandemmq migrate metadata --store "+root+" --to file --yes")
	code, out, errs := runApp(t, "migrate", "metadata", "--store", root, "--to", "file", "--yes")
	require.Zero(t, code, "%s%s", out, errs)
	require.Contains(t, out, "offsets: 1 moved")
	ready, stop = startBroker(t, small...)
	require.Equal(t, "file+rocksdb", ready[5])
	same := func() {
		t.Helper()
		require.Equal(t, "7", call(remoting.QueryConsumerOffset, "", group...).Ext.Get("offset"))
		require.Equal(t, "10", call(remoting.GetMaxOffset, "", queue...).Ext.Get("offset"))
	}
	same()
	ask("status", "--watch", "--every", "10ms")
	require.Regexp(t, `read from +rocks`, ask("status"))
	require.Regexp(t, `read from +file`, ask("cutover"))
	require.Regexp(t, `read from +rocks`, ask("rollback"))
	ask("verify")
	ask("status", "--watch", "--every", "10ms")
	ask("cutover")
	ask("finalize", "--grace", "1h")
	stop()
	ready, stop = startBroker(t, small...)
	defer stop()
	require.Equal(t, "file", ready[5])
	same()
	require.Contains(t, ask("status"), "the rocks queues, in tandemmq/retired/rocks-")
	require.NoDirExists(t, filepath.Join(root, "consumequeue_rocksdb"))
}

func TestMigrateOnlineUsage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := l.Addr().String()
	require.NoError(t, l.Close())
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{"status", "--broker", "x"}, `--broker "x": use HOST:PORT`},
		{2, []string{"finalize", "--grace", "0s"}, "--grace 0s: use 1s or more"},
		{2, []string{"status", "--watch", "--every", "1ns"}, "--every 1ns: use 10ms or more"},
		{2, []string{"status", "--topics", "-1"}, "--topics -1: use 0 or more"},
		{2, []string{"dance"}, `no command "dance"`},
		{1, []string{"status", "--broker", nobody}, "ask broker " + nobody},
		{1, []string{"status", "--broker", nobody, "--tls-trust", "nowhere.pem"}, "--tls-trust: open nowhere.pem"},
		{1, []string{"status", "--broker", nobody, "--access-key", "k", "--secret-key-file", "nowhere"}, "--secret-key-file: open nowhere"},
	} {
		code, _, errs := runApp(t, append([]string{"migrate", "online"}, c.args...)...)
		require.Equal(t, c.code, code, errs)
		require.Contains(t, errs, c.want)
	}
}

// A status is drawn in the place of the one before it.
func TestWatchingInPlace(t *testing.T) {
	var out strings.Builder
	w := watching{out: &out, screen: &screen{w: &out}}
	st := online.Status{Phase: state.Backfilling, Online: true, From: cq.KindFile, To: cq.KindRocks, Queues: cq.KindCombine, Reads: cq.KindFile, Fill: &online.Progress{Kind: cq.KindRocks, Done: 10, To: 100, SecondsLeft: -1}}
	require.NoError(t, w.show(&st))
	require.True(t, strings.HasPrefix(out.String(), "\r\x1b[J\x1b[?7lMigration: backfilling: rocks side at 10 of 100 bytes of the log\n"), "%q", out.String())
	lines := strings.Count(out.String(), "\n")
	out.Reset()
	require.NoError(t, w.show(&st))
	require.Empty(t, out.String(), "nothing has changed")
	st.Fill.Done, st.Fill.BytesPerSecond, st.Fill.SecondsLeft = 60, 20, 2
	st.Topics = []online.Topic{{Topic: "T", Queues: 2, Units: 1000, Filled: 999, UnitsPerSecond: 5, SecondsLeft: 1}}
	require.NoError(t, w.show(&st))
	require.True(t, strings.HasPrefix(out.String(), fmt.Sprintf("\x1b[%dA\r\x1b[J", lines)), "%q", out.String())
	require.Contains(t, out.String(), "60 of 100 bytes of the log, 20 bytes/s, 2s left\n")
	require.Regexp(t, `T +2 +1,000 +99.9% +5 +1s +0 of 2`, out.String())
	require.True(t, strings.HasSuffix(out.String(), "\x1b[?7h"))
}

// The state of a stopped store's migration tells how far a backfill is that is under way, or was when it was killed.
func TestMigrateStatusOfABackfill(t *testing.T) {
	root := t.TempDir()
	dir := store.NewLayout(root).StateDir()
	require.NoError(t, os.Mkdir(store.NewLayout(root).CommitLogDir(), 0o755))
	begun := time.Now().Add(-20 * time.Second).Truncate(time.Millisecond)
	st := migrate.State{Version: 1, From: cq.KindFile, To: cq.KindRocks, BackfillFrom: 1000, BackfillEnd: 11000, BackfilledTo: -1}
	require.NoError(t, st.Apply(migrate.EventPlan, "me", "", begun))
	require.NoError(t, st.Apply(migrate.EventBackfillStart, "me", "", begun))
	require.NoError(t, st.Save(dir))
	look := func(after time.Duration) *backfillStatus {
		t.Helper()
		noted := begun.Add(10 * time.Second)
		require.NoError(t, os.Chtimes(filepath.Join(dir, migrate.StateFileName), noted, noted))
		s, err := offlineStatus(dir, noted.Add(after))
		require.NoError(t, err)
		return s.Backfill
	}
	require.Equal(t, &backfillStatus{Of: 10000, SecondsLeft: -1}, look(0))
	st.BackfilledTo = 5000
	require.NoError(t, st.Save(dir))
	require.Equal(t, &backfillStatus{Done: 4000, Of: 10000, BytesPerSecond: 400, SecondsLeft: 12, NotedSeconds: 3}, look(3*time.Second))
	code, out, errs := runApp(t, "migrate", "status", "--store", root)
	require.Zero(t, code, errs)
	require.Regexp(t, `backfill +3.9 KiB of 9.8 KiB of the log \(40.0%\), 400 B/s, about`, out)
	require.NoError(t, st.Apply(migrate.EventBackfillEnd, "me", "", begun))
	require.NoError(t, st.Save(dir))
	require.Nil(t, look(0))
	code, out, errs = runApp(t, "migrate", "status", "--store", root, "--watch", "--json")
	require.Zero(t, code, errs)
	var got migrate.State
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, migrate.PhaseVerifying, got.Phase)
	code, _, errs = runApp(t, "migrate", "status", "--store", root, "--watch", "--every", "1ns")
	require.Equal(t, 2, code, errs)
}

// The status tells of what was found, what became of it, and of what was asked for.
func TestPrintOnlineFindings(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	st := online.Status{
		Phase: state.Cutover, Online: true, From: cq.KindFile, To: cq.KindRocks, Queues: cq.KindCombine, Reads: cq.KindRocks,
		Findings: &online.Findings{Found: 1234, Healed: 1200, Remaining: 34},
		Asked: []online.Step{
			{Name: "rollback", Actor: "me", Begun: at, Error: "rollback refused: long ago"},
			{Name: "verify", Actor: "me", Begun: at},
			{Name: "finalize", Actor: "you", Begun: at, Running: true},
			{Name: "resolve", Actor: "me", Begun: at, Error: "resolve refused for 2 reasons:\n  - a\n  - b"},
		},
		Topics: []online.Topic{{Topic: "T", Queues: 9, Verified: 8, Found: 5, Healed: 3, Kept: 1, Remaining: 1}},
	}
	var b strings.Builder
	printOnline(&b, &st, false)
	require.Regexp(t, `found to differ +1,234 queues; 1,200 healed, 34 remaining\n`, b.String())
	require.Regexp(t, `asked for +finalize by you at 2026-01-02T03:04:05Z: being done\n`, b.String())
	require.Regexp(t, `asked for +resolve by me at 2026-01-02T03:04:05Z: resolve refused for 2 reasons: a; b\n`, b.String())
	require.NotContains(t, b.String(), "long ago")
	require.Regexp(t, `T +9 +0 +.* 8 of 9 +0 +5 +3 +1\n`, b.String())
	st.Findings.Kept, st.Findings.Remaining = 2, 32
	st.Chosen = []state.KeptQueue{{QueueName: state.QueueName{Topic: "T", QueueID: 3}, Side: cq.KindRocks, To: 7, By: "me", Time: at}}
	b.Reset()
	printOnline(&b, &st, false)
	require.Regexp(t, `found to differ +1,234 queues; 1,200 healed, of 2 a side was chosen, 32 remaining\n`, b.String())
	require.Regexp(t, `chosen +queue T/3: the rocks side stays, by me at 2026-01-02T03:04:05Z\n`, b.String())
	require.False(t, settled(&st), "a step is being done")
	st.Phase = state.Finalizing
	require.Contains(t, nextOnline(&st), "is compared once more")
	for d, want := range map[time.Duration]string{1500 * time.Millisecond: "1.5s", 3*time.Minute + 231*time.Millisecond: "3m0s", 96076659231 * time.Millisecond: "1,111 days"} {
		require.Equal(t, want, lagText(d))
	}
}

// What comes next is what can be done at this moment, and a rollback says what it has not read again.
func TestMigrateOnlineTellsTheTruthOfTheMoment(t *testing.T) {
	st := online.Status{Phase: state.Cutover, From: cq.KindFile, To: cq.KindRocks, Online: true}
	require.Equal(t, "tandemmq migrate online rollback goes back; finalize gives the old side up", nextOnline(&st))
	st.Refused = map[string][]string{"rollback": {"the file side was given up: no disk", "2 queues"}}
	require.Equal(t, "rollback is refused for the moment: the file side was given up: no disk, and 2 queues; finalize gives the old side up", nextOnline(&st))
	st.Refused["finalize"] = []string{"alone"}
	require.Contains(t, nextOnline(&st), "; finalize is refused for the moment: alone")
	st.Phase, st.Refused = state.Verified, map[string][]string{"cutover": {"it is filled"}}
	require.Equal(t, "cutover is refused for the moment: it is filled", nextOnline(&st))
	st.Phase, st.Refused = state.RolledBack, map[string][]string{"verify": {"alone"}}
	require.Equal(t, "verify is refused for the moment: alone; finalize gives the other side up", nextOnline(&st))
	st.History = []state.HistoryEntry{{Event: state.RollbackStart, Note: "long ago"}, {Event: state.RollbackStart, Note: "7 units were not read again"}, {Event: state.RollbackEnd}}
	var b strings.Builder
	printOnline(&b, &st, false)
	require.Regexp(t, `rolled back +7 units were not read again\n`, b.String())
}

// A step that is answered before it is over is waited for, and what came of it is told as if it had been the answer.
func TestMigrateOnlineStepIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(a *online.Step)
		code int
		want string
	}{
		{"done", func(*online.Step) {}, 0, "Migration: finalizing\n"},
		{"refused", func(a *online.Step) { a.Error = "finalize refused: no" }, 1, "finalize refused: no"},
		{"differs", func(a *online.Step) { a.Error, a.Differs = "finalize refused: 1 queues differ", true }, 3, "1 queues differ"},
		{"forgotten", func(a *online.Step) { a.Name = "verify" }, 1, "what came of it is not known any more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun := time.Now().UTC()
			looks := 0
			server, err := remoting.NewServer(remoting.HandlerFunc(func(conn *remoting.Conn, req *remoting.Command) {
				a := online.Step{Name: "finalize", Begun: begun, Running: true}
				st := online.Status{
					Phase: state.Cutover, Online: true, From: cq.KindFile, To: cq.KindRocks, Queues: cq.KindCombine, Reads: cq.KindRocks,
					Verifying: &online.Verifying{Queues: 3, Of: 10, SecondsLeft: -1},
				}
				switch {
				case req.Code == remoting.MigrateOnline:
					a.Actor = req.Ext.Get("actor") + ", request of 127.0.0.1"
				case looks == 0:
					looks++
				default:
					a.Running, st.Phase, st.Verifying = false, state.Finalizing, nil
					c.end(&a)
				}
				st.Asked = []online.Step{{Name: "cutover", Begun: begun.Add(-time.Hour)}, a}
				body, err := json.Marshal(st)
				if err != nil {
					conn.RespondError(req, err)
					return
				}
				conn.Respond(req, &remoting.Command{Code: remoting.Success, Body: body})
			}), remoting.DefaultServerOptions())
			require.NoError(t, err)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			served := make(chan error, 1)
			go func() { served <- server.Serve(l) }()
			code, out, errs := runApp(t, "migrate", "online", "finalize", "--broker", l.Addr().String())
			require.Equal(t, c.code, code, "%s%s", out, errs)
			require.Contains(t, out+errs, c.want)
			require.Contains(t, errs, "cutover: 3 of 10 queues compared")
			require.NoError(t, server.Close())
			require.ErrorIs(t, <-served, remoting.ErrServerClosed)
		})
	}
}
