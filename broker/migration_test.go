package broker

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/migrate/online"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// migration asks for the status.
func migration(t *testing.T, b *Broker, client *remoting.Client) (st online.Status) {
	t.Helper()
	resp := call(t, b, client, remoting.MigrateOnlineStatus, nil)
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	require.NoError(t, json.Unmarshal(resp.Body, &st))
	return st
}

// migrateStep asks for a step.
func migrateStep(t *testing.T, b *Broker, client *remoting.Client, step string, more ...remoting.Field) *remoting.Command {
	t.Helper()
	return call(t, b, client, remoting.MigrateOnline, nil, append(more, field("step", step), field("actor", "operator@here"))...)
}

// restarted is the broker over the same store, opened with what the migration asks for.
func restarted(t *testing.T, b *Broker) (*Broker, *remoting.Client) {
	t.Helper()
	require.NoError(t, b.Close())
	root := b.o.StorePathRootDir
	require.NoError(t, online.Finish(root, "test", nil))
	need, err := online.Require(root)
	require.NoError(t, err)
	return openTest(t, func(o *Options) {
		*o = b.o
		need.Apply(&o.Store, nil)
	})
}

// The whole way of a migration through a broker's own requests: each side serves every message, at each step.
func TestMigrateOnline(t *testing.T) {
	if !rocks.Available {
		t.Skip("built without cgo: no RocksDB")
	}
	b, client := openTest(t, func(o *Options) { o.Store.StoreType = store.StoreTypeFile })
	sent := 0
	send := func() {
		t.Helper()
		for range 5 {
			require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "").Code)
			sent++
		}
		stored(t, b, "T", 1, int64(sent-1))
		stored(t, b, "T", 1, 0)
	}
	await := func(p state.Phase) {
		t.Helper()
		require.Eventually(t, func() bool { return migration(t, b, client).Phase == p }, 20*time.Second, time.Millisecond, "%s", p)
	}
	send()
	require.Equal(t, state.Absent, migration(t, b, client).Phase)
	resp := migrateStep(t, b, client, MigrateCutover)
	require.Equal(t, remoting.MigrationRefused, resp.Code)
	require.Contains(t, resp.Remark, "no migration has been begun")
	require.Equal(t, remoting.InvalidParameter, migrateStep(t, b, client, "dance").Code)
	require.Equal(t, remoting.InvalidParameter, migrateStep(t, b, client, MigrateBegin, field("layout", "x")).Code)
	require.Equal(t, remoting.InvalidParameter, migrateStep(t, b, client, MigrateFinalize, field("graceSeconds", "-1")).Code)
	require.Equal(t, remoting.MigrationRefused, migrateStep(t, b, client, MigrateBegin, field("to", "file")).Code)
	require.Equal(t, remoting.Success, migrateStep(t, b, client, MigrateBegin).Code)
	st := migration(t, b, client)
	require.True(t, st.RestartNeeded)
	require.Contains(t, st.History[0].Actor, "operator@here, request of 127.0.0.1")

	b, client = restarted(t, b)
	await(state.Verified)
	send()
	resp = call(t, b, client, remoting.UpdateBrokerConfig, []byte("combineCQPreferCQType=defaultRocksDB"))
	require.Equal(t, remoting.SystemError, resp.Code)
	require.Contains(t, resp.Remark, "tandemmq migrate online")
	ok(t, b, client, remoting.UpdateBrokerConfig, "backfillBytesPerSec=1000\nbackfillPutLatency=7")
	require.Contains(t, string(ok(t, b, client, remoting.GetBrokerConfig, "").Body), "\nbackfillPutLatency=7\n")

	resp = call(t, b, client, remoting.MigrateOnlineStatus, nil, field("topics", "5"))
	require.Equal(t, remoting.Success, resp.Code, resp.Remark)
	require.NoError(t, json.Unmarshal(resp.Body, &st))
	at := slices.IndexFunc(st.Topics, func(one online.Topic) bool { return one.Topic == "T" })
	require.GreaterOrEqual(t, at, 0)
	require.Equal(t, [2]int{1, 1}, [2]int{st.Topics[at].Queues, st.Topics[at].Verified})
	require.Contains(t, st.Lag, cq.KindRocks)
	require.Equal(t, remoting.InvalidParameter, call(t, b, client, remoting.MigrateOnlineStatus, nil, field("topics", "-1")).Code)

	require.Equal(t, remoting.MigrationRefused, migrateStep(t, b, client, MigrateCutover, field("topics", "nobody")).Code)
	require.Equal(t, remoting.Success, migrateStep(t, b, client, MigrateCutover, field("topics", " T ; ")).Code)
	require.Equal(t, []string{"T"}, migration(t, b, client).CanaryTopics)
	send()
	require.Equal(t, remoting.Success, migrateStep(t, b, client, MigrateCutover).Code)
	st = migration(t, b, client)
	require.Equal(t, [2]cq.Kind{cq.KindRocks, cq.KindRocks}, [2]cq.Kind{st.Reads, st.Authority})
	send()
	require.Equal(t, remoting.Success, migrateStep(t, b, client, MigrateRollback).Code)
	require.Equal(t, cq.KindFile, migration(t, b, client).Reads)
	send()
	require.Equal(t, remoting.Success, migrateStep(t, b, client, MigrateVerify).Code)
	await(state.Verified)
	require.Equal(t, remoting.Success, migrateStep(t, b, client, MigrateCutover).Code)
	b, client = restarted(t, b)
	require.Equal(t, cq.KindRocks, migration(t, b, client).Reads, "it stays over a restart")
	send()
	require.Eventually(t, func() bool {
		return migrateStep(t, b, client, MigrateFinalize, field("graceSeconds", "1")).Code == remoting.Success
	}, 20*time.Second, 10*time.Millisecond)
	b, client = restarted(t, b)
	st = migration(t, b, client)
	require.Equal(t, state.Finalized, st.Phase)
	require.Equal(t, cq.KindRocks, st.Queues)
	send()
	has, err := store.NewLayout(b.o.StorePathRootDir).HasFileQueues()
	require.NoError(t, err)
	require.False(t, has)
	require.Len(t, st.Retired, 1)
	require.Eventually(t, func() bool { return migration(t, b, client).Retired[0].Removed }, 20*time.Second, 10*time.Millisecond)
	require.NoDirExists(t, filepath.Join(b.o.StorePathRootDir, st.Retired[0].Path))
}

// A unit of the target that is wrong behind the back of a verification is found by a consumer's pull, which gets its messages from the source: the verification is void, the queue is built again, and all is
// verified anew, before reads can move.
func TestMigrateOnlineShadowRead(t *testing.T) {
	if !rocks.Available {
		t.Skip("built without cgo: no RocksDB")
	}
	b, client := openTest(t, func(o *Options) {
		o.Store.StoreType, o.Store.ShadowReadPercent = store.StoreTypeFile, 100
	})
	for range 20 {
		require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "").Code)
	}
	stored(t, b, "T", 1, 19)
	require.Equal(t, remoting.Success, migrateStep(t, b, client, MigrateBegin).Code)
	b, client = restarted(t, b)
	await := func(p state.Phase, events int) (st online.Status) {
		t.Helper()
		require.Eventually(t, func() bool {
			st = migration(t, b, client)
			return st.Phase == p && len(st.History) >= events
		}, 20*time.Second, time.Millisecond, "%s", p)
		return st
	}
	before := len(await(state.Verified, 1).History)
	require.NoError(t, b.Close())
	db, err := rocks.Open(filepath.Join(b.o.StorePathRootDir, "consumequeue_rocksdb"), rocks.Options{})
	require.NoError(t, err)
	q, found := db.Queue(cq.Key{Topic: "T", QueueID: 1})
	require.True(t, found)
	var u [1]cq.Unit
	_, err = q.Read(7, u[:])
	require.NoError(t, err)
	require.NoError(t, db.Import(t.Context(), []cq.Run{{Key: q.Key(), From: 8, Units: u[:]}}))
	require.NoError(t, db.Flush(t.Context()))
	require.NoError(t, db.Close())

	b, client = restarted(t, b)
	require.Len(t, await(state.Verified, before).History, before, "a stop in order costs nothing")
	require.Eventually(t, func() bool { // a pull may come before the broker has compared its queues with the log
		resp := invoke(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription))
		require.Equal(t, remoting.Success, resp.Code, resp.Remark)
		require.Len(t, bodies(t, resp), 20)
		st := migration(t, b, client)
		return st.Shadow != nil && st.Shadow.Found > 0
	}, 20*time.Second, 10*time.Millisecond)
	st := await(state.Verified, before+4)
	var events []state.Event
	for _, h := range st.History[before:] {
		events = append(events, h.Event)
	}
	require.Equal(t, []state.Event{state.VerifyDiffers, state.RepairStart, state.RepairEnd, state.VerifyOK}, events)
	require.Contains(t, st.History[before].Note, "queue T/1: slot 8 has")
	require.EqualValues(t, 1, st.Shadow.Found)
	require.Equal(t, remoting.Success, migrateStep(t, b, client, MigrateCutover).Code)
	resp := invoke(t, b, client, pullRequest(remoting.PullMessage, 0, pullSubscription))
	require.Len(t, bodies(t, resp), 20)
}

// A step that takes long is answered before it is over; the status says that it is running, and what came of it.
func TestMigrateOnlineStepIsAnsweredMeanwhile(t *testing.T) {
	if !rocks.Available {
		t.Skip("built without cgo: no RocksDB")
	}
	b, client := openTest(t, func(o *Options) {
		o.Store.StoreType, o.Store.RocksdbCQDoubleWriteEnable = store.StoreTypeFile, true
	})
	b.stepAnswer = 0
	for range 20 {
		require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "").Code)
	}
	stored(t, b, "T", 1, 19)
	ended := func(step string) (a online.Step) {
		t.Helper()
		require.Eventually(t, func() bool {
			st := migration(t, b, client)
			if len(st.Asked) > 0 {
				a = st.Asked[len(st.Asked)-1]
			}
			return a.Name == step && !a.Running
		}, 20*time.Second, time.Millisecond)
		return a
	}
	migrateStep(t, b, client, MigrateBegin)
	require.Eventually(t, func() bool { return migration(t, b, client).Phase == state.Verified }, 20*time.Second, time.Millisecond)
	migrateStep(t, b, client, MigrateCutover)
	a := ended(MigrateCutover)
	require.Empty(t, a.Error)
	require.Contains(t, a.Actor, "operator@here, request of 127.0.0.1")
	require.Equal(t, cq.KindRocks, migration(t, b, client).Reads)
	migrateStep(t, b, client, MigrateResolve, field("queues", "T/1; T/0 ;"), field("side", "file"))
	a = ended(MigrateResolve)
	require.Contains(t, a.Error, "nothing was found in queue T/1")
	require.Contains(t, a.Error, "nothing was found in queue T/0")
	require.False(t, a.Differs)
	migrateStep(t, b, client, MigrateRollback, field("quick", "true"))
	require.Empty(t, ended(MigrateRollback).Error)
	st := migration(t, b, client)
	require.Contains(t, st.History[len(st.History)-2].Note, "the ends of the queues were compared, and 20 units were not")
	for _, bad := range []string{"T", "T/x", "/1", "T/-1", "T/1;U"} {
		require.Equal(t, remoting.InvalidParameter, migrateStep(t, b, client, MigrateResolve, field("queues", bad)).Code, bad)
	}
}

// While a side is built, mqadmin's checkRocksdbCqWriteProgress answers that it is, and by topic how much it lacks; when it is built, that both are the same.
func TestT46CheckRocksDBWhileASideIsBuilt(t *testing.T) {
	if !rocks.Available {
		t.Skip("built without cgo: no RocksDB")
	}
	b, client := openTest(t, func(o *Options) {
		o.Store.StoreType, o.Store.MappedFileSizeCommitLog, o.Store.BackfillBytesPerSec = store.StoreTypeFile, 64<<20, 1000
	})
	body := make([]byte, 4<<20-1000) // what is less than 64 MiB is built before the broker serves
	for range 18 {
		require.Equal(t, remoting.Success, sendV2(t, b, client, "T", body, "").Code)
	}
	stored(t, b, "T", 1, 17)
	require.Equal(t, remoting.Success, migrateStep(t, b, client, MigrateBegin).Code)
	b, client = restarted(t, b)
	check := func() (a checkAnswer) {
		require.NoError(t, json.Unmarshal(ok(t, b, client, remoting.CheckRocksDBCQWriteProgress, "", field("checkStoreTime", "0")).Body, &a))
		return a
	}
	require.Eventually(t, func() bool { return migration(t, b, client).Phase == state.Backfilling }, 20*time.Second, time.Millisecond)
	a := check()
	require.Equal(t, checkRunning, a.Status, a.Result)
	require.Regexp(t, `the rocks side of the consume queues is being built from the log; topic T: (18|17|16|15) units of 1 queues are on one side alone`, a.Result)
	ok(t, b, client, remoting.UpdateBrokerConfig, "backfillBytesPerSec=0\nbackfillPutLatency=0")
	require.Eventually(t, func() bool { return migration(t, b, client).Phase == state.Verified }, 30*time.Second, time.Millisecond)
	require.Equal(t, checkAnswer{"equal: 1 queues and 18 units compared, 0 light queues that one side has alone left out", checkOK}, check())
}

// A broker without consume queues has nothing to migrate. (Who may ask for what is tested with the access rules.)
func TestMigrateOnlineWithoutQueues(t *testing.T) {
	b, client := openTest(t, func(o *Options) { o.Store.BuildConsumeQueues = false })
	resp := call(t, b, client, remoting.MigrateOnlineStatus, nil)
	require.Equal(t, remoting.SystemError, resp.Code)
	require.Contains(t, resp.Remark, "nothing to migrate")
	resp = migrateStep(t, b, client, MigrateBegin)
	require.Equal(t, remoting.SystemError, resp.Code)
}
