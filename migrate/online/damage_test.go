package online

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// real is a store with messages, migrated as a broker would, that is closed and opened with what its migration asks for.
type real struct {
	root string
	o    store.Options
	s    *store.Store
	m    *Migration
	rng  *rand.Rand
}

const realUnits = 200 // of each queue at least

var realQueues = []cq.Key{{Topic: "A"}, {Topic: "A", QueueID: 1}, {Topic: "B"}}

func newReal(t *testing.T, seed uint64) *real {
	t.Helper()
	if !rocks.Available {
		t.Skip("built without cgo: no RocksDB")
	}
	o := store.DefaultOptions()
	o.MappedFileSizeCommitLog, o.PreallocateAheadBytes, o.MappedFileSizeConsumeQueue = 1<<20, 0, 20*100
	o.MessageIndexEnable, o.ShadowReadPercent = false, 0
	r := &real{root: t.TempDir(), o: o, rng: rand.New(rand.NewPCG(seed, 1))}
	r.open(t)
	t.Cleanup(func() { r.close(t) })
	r.put(t, realUnits)
	require.NoError(t, r.m.Begin(t.Context(), "me", BeginOptions{}))
	r.restart(t)
	r.await(t, state.Verified)
	return r
}

func (r *real) open(t *testing.T) {
	t.Helper()
	need, err := Require(r.root)
	require.NoError(t, err)
	o := r.o
	need.Apply(&o, nil)
	r.s, err = store.Open(r.root, o)
	require.NoError(t, err)
	r.m, err = Open(r.s, Options{Root: r.root, Kind: r.s.QueueKind(), CQFileBytes: o.MappedFileSizeConsumeQueue, Actor: "broker", Tick: time.Millisecond})
	require.NoError(t, err)
}

func (r *real) close(t *testing.T) {
	if r.s == nil {
		return
	}
	r.m.Close()
	require.NoError(t, r.s.Close())
	r.s = nil
}

func (r *real) restart(t *testing.T) {
	t.Helper()
	r.close(t)
	require.NoError(t, Finish(r.root, "start", nil))
	r.open(t)
}

func (r *real) put(t *testing.T, n int) {
	t.Helper()
	host := message.Host{Addr: netip.MustParseAddr("127.0.0.1"), Port: 1000}
	for i := range n {
		for _, k := range realQueues {
			_, err := r.s.Put(t.Context(), &message.Message{
				Topic: k.Topic, QueueID: k.QueueID, BornTimestampMs: 1_700_000_000_000, BornHost: host, StoreHost: host, Body: []byte(fmt.Sprint("body ", i)),
				Properties: message.AppendProperty(nil, message.PropertyTags, fmt.Sprint("tag", i%3)),
			})
			require.NoError(t, err)
		}
	}
}

func (r *real) await(t *testing.T, p state.Phase) {
	t.Helper()
	require.Eventually(t, func() bool {
		sides, err := r.s.SideStates()
		files, other := sides[cq.KindFile], sides[cq.KindRocks]
		return err == nil && r.m.Status().Phase == p && files.Whole() && other.Whole()
	}, 20*time.Second, time.Millisecond, "want %s, is %+v", p, r.m.Status())
}

// damage overwrites a unit of a side behind the back of the store, which is closed for that, and returns where.
func (r *real) damage(t *testing.T, kind cq.Kind) (k cq.Key, slot int64) {
	t.Helper()
	return r.damageAt(t, kind, realQueues[r.rng.IntN(len(realQueues))], r.rng.Int64N(realUnits))
}

func (r *real) damageAt(t *testing.T, kind cq.Kind, k cq.Key, slot int64) (cq.Key, int64) {
	t.Helper()
	r.close(t)
	if kind == cq.KindFile {
		path := filepath.Join(r.root, "consumequeue", k.Topic, fmt.Sprint(k.QueueID), fmt.Sprintf("%020d", slot/100*2000))
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		b := make([]byte, 20)
		_, err = f.ReadAt(b, slot%100*20)
		require.NoError(t, err)
		switch n := r.rng.IntN(4); {
		case n == 0 && slot < 100: // no unit; in its last file the store finds that itself
			clear(b)
		case n < 2: // another position
			b[6] ^= 1
		case n == 2: // another size
			b[11] ^= 1
		default: // other tags
			b[19] ^= 1
		}
		_, err = f.WriteAt(b, slot%100*20)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	} else {
		db, err := rocks.Open(filepath.Join(r.root, "consumequeue_rocksdb"), rocks.Options{})
		require.NoError(t, err)
		q, found := db.Queue(k)
		require.True(t, found)
		var u [1]cq.Unit
		_, err = q.Read(slot, u[:])
		require.NoError(t, err)
		switch r.rng.IntN(3) {
		case 0:
			u[0].PhyOffset ^= 256
		case 1:
			u[0].Size ^= 1
		case 2:
			u[0].TagsCode ^= 1
		}
		require.NoError(t, db.Import(t.Context(), []cq.Run{{Key: k, From: slot, Units: u[:]}}))
		require.NoError(t, db.Flush(t.Context()))
		require.NoError(t, db.Close())
	}
	r.restart(t)
	require.Eventually(t, func() bool {
		sides, err := r.s.SideStates()
		return err == nil && !sides[cq.KindFile].Comparing
	}, 20*time.Second, time.Millisecond)
	return k, slot
}

// requireFound requires that a step is refused, and names what was damaged.
func requireFound(t *testing.T, err error, step string, k cq.Key, slot int64, side cq.Kind) {
	t.Helper()
	var differs *DiffersError
	require.ErrorAs(t, err, &differs, "%v %v", k, slot)
	require.Equal(t, 3, differs.ExitCode())
	require.Equal(t, 1, differs.Queues)
	require.True(t, differs.Mending)
	require.ErrorContains(t, err, step+" refused: 1 queues differ between files and RocksDB; nothing was moved. queues are being built again from the log")
	require.Regexp(t, fmt.Sprintf(`queue %s: slot %d, %s side: (hole|wrong-position|wrong-size|wrong-tags): `, k, slot, side), differs.Differences[0])
}

// Damage done behind the back of a verification, anywhere, is found before reads move and before a side is given up: on the side that they move to, or that is kept, and on the other one.
func TestDamageBehindAVerification(t *testing.T) {
	for seed := range uint64(6) {
		kind := []cq.Kind{cq.KindFile, cq.KindRocks}[seed%2]
		t.Run(fmt.Sprintf("%d, %s side", seed, kind), func(t *testing.T) {
			r := newReal(t, seed)
			ctx := t.Context()

			// Verified, damaged, and cut over: refused, healed, and done.
			k, slot := r.damage(t, kind)
			require.Equal(t, state.Verified, r.m.Status().Phase, "a stop in order voids nothing")
			topics := [][]string{nil, {k.Topic}}[r.rng.IntN(2)]
			requireFound(t, r.m.Cutover(ctx, "me", topics), "cutover", k, slot, kind)
			require.Equal(t, cq.KindFile, r.m.Status().Reads)
			r.await(t, state.Verified)
			require.Equal(t, &Findings{Found: 1, Healed: 1}, r.m.Status().Findings)
			require.NoError(t, r.m.Cutover(ctx, "me", topics))
			require.NoError(t, r.m.Cutover(ctx, "me", nil))
			r.put(t, 5)

			// Cut over, damaged, and finalized: the same.
			k, slot = r.damage(t, kind)
			requireFound(t, r.m.Finalize(ctx, "me", time.Hour), "finalize", k, slot, kind)
			st := r.m.Status()
			require.Equal(t, state.Cutover, st.Phase)
			require.Equal(t, cq.KindRocks, st.Reads)
			require.EqualValues(t, 2, st.Findings.Found)
			require.Equal(t, "finalize", st.Asked[0].Name)
			require.True(t, st.Asked[0].Differs && !st.Asked[0].Running)
			require.Eventually(t, func() bool { f := r.m.Status().Findings; return f.Healed == 2 && f.Remaining == 0 }, 20*time.Second, time.Millisecond)
			require.Empty(t, r.m.Status().Differences)
			topic, _, err := r.m.Topics(ctx, 0)
			require.NoError(t, err)
			healed := int64(0)
			for i := range topic {
				healed += topic[i].Healed
			}
			require.EqualValues(t, 2, healed)

			// Rolled back, damaged, and finalized with the other side kept: the same.
			back := seed%3 == 0
			if back {
				require.NoError(t, r.m.Rollback(ctx, "me", RollbackOptions{}))
				history := r.m.Status().History
				at := slices.IndexFunc(history, func(h state.HistoryEntry) bool { return h.Event == state.RollbackStart })
				require.Regexp(t, `the ends and what came last were compared; \d+ units that were the same by .* were not read again`, history[at].Note)
				k, slot = r.damage(t, kind)
				requireFound(t, r.m.Finalize(ctx, "me", time.Hour), "finalize", k, slot, kind)
				require.Equal(t, state.RolledBack, r.m.Status().Phase)
				require.Eventually(t, func() bool { return r.m.Status().Findings.Remaining == 0 }, 20*time.Second, time.Millisecond)
			}
			require.NoError(t, r.m.Finalize(ctx, "me", time.Hour))
			require.True(t, r.m.Status().RestartNeeded)
			r.restart(t)
			require.Equal(t, state.Finalized, r.m.Status().Phase)
			kept := cq.KindRocks
			if back {
				kept = cq.KindFile
			}
			require.Equal(t, kept, r.s.QueueKind())
			units := int64(0)
			require.NoError(t, r.s.CheckSide(ctx, kept, store.VerifySidesOptions{}, func(v *store.SideVerdict) error {
				require.True(t, v.OK(), "%v", v.Words())
				units += v.Units
				return nil
			}))
			require.EqualValues(t, 3*(realUnits+5), units)
		})
	}
}

// What was announced is not done when the side that is kept was compared long ago: it is compared once more, and damage since then stops it.
func TestFinalizeIsComparedAgain(t *testing.T) {
	r := newReal(t, 1)
	ctx := t.Context()
	records := r.m.Status().Verified.Records
	require.Positive(t, records)
	require.NoError(t, r.m.Cutover(ctx, "me", nil))
	require.Equal(t, records, r.m.Status().Verified.Records, "of the last comparison alone, as it was one of everything")
	require.NoError(t, r.m.Finalize(ctx, "me", time.Hour))
	age := func() {
		r.close(t)
		st := reload(t, r.root)
		st.Online.Verified.Time = st.Online.Verified.Time.Add(-finalizeWithin)
		require.NoError(t, st.Save(filepath.Join(r.root, "tandemmq")))
	}
	age()
	k, _ := r.damage(t, cq.KindRocks)
	require.Equal(t, cq.KindCombine, r.s.QueueKind(), "nothing is moved aside")
	require.Eventually(t, func() bool {
		st := r.m.Status()
		return st.Findings != nil && st.Findings.Healed == 1 && st.RestartNeeded
	}, 20*time.Second, time.Millisecond, "%+v", r.m.Status())
	history := reload(t, r.root).History
	require.Equal(t, state.StepDiffers, history[len(history)-1].Event)
	require.Contains(t, history[len(history)-1].Note, k.String())
	r.restart(t)
	require.Equal(t, cq.KindRocks, r.s.QueueKind())
}

// A difference that the log does not decide blocks what gives a side up, and the way back, until somebody chooses; what then is the same on both sides, and goes on.
func TestResolve(t *testing.T) {
	for _, keep := range []cq.Kind{"", cq.KindFile, KeepLog} {
		t.Run(fmt.Sprintf("keep %q", keep), func(t *testing.T) {
			r := newReal(t, 3)
			ctx := t.Context()
			require.NoError(t, r.m.Cutover(ctx, "me", nil))
			k := realQueues[1]
			r.damageBoth(t, k, 77)
			err := r.m.Finalize(ctx, "me", time.Hour)
			var differs *DiffersError
			require.ErrorAs(t, err, &differs)
			require.False(t, differs.Mending)
			require.ErrorContains(t, err, "tandemmq migrate online resolve --queue")
			require.ErrorContains(t, err, "queue A/1: slot 77: wrong-tags: ")
			require.ErrorAs(t, r.m.Rollback(ctx, "me", RollbackOptions{}), &differs)
			require.Equal(t, &Findings{Found: 1, Remaining: 1}, r.m.Status().Findings)
			requireRefused(t, r.m.Resolve(ctx, "me", nil, ""), "say which queues")
			requireRefused(t, r.m.Resolve(ctx, "me", []cq.Key{realQueues[0]}, ""), "nothing was found in queue A/0")
			requireRefused(t, r.m.Resolve(ctx, "me", []cq.Key{k}, "java"), `side "java"`)
			r.restart(t)
			r.await(t, state.Cutover)
			r.put(t, 3)
			require.Eventually(t, func() bool { // what differs is compared after a restart
				err = r.m.Resolve(ctx, "the operator", []cq.Key{k}, keep)
				return err == nil || !strings.Contains(err.Error(), "queues are compared")
			}, 20*time.Second, time.Millisecond)
			require.NoError(t, err)
			if keep == KeepLog {
				require.Eventually(t, func() bool { return *r.m.Status().Findings == Findings{Found: 1, Healed: 1} }, 20*time.Second, time.Millisecond)
				history := r.m.Status().History
				at := slices.IndexFunc(history, func(h state.HistoryEntry) bool { return h.Event == state.QueueRebuilt })
				require.Equal(t, [2]string{"the operator", "built again from the log: A/1"}, [2]string{history[at].Actor, history[at].Note})
				require.NoError(t, r.m.Finalize(ctx, "me", time.Hour))
				r.restart(t)
				require.Equal(t, cq.KindRocks, r.s.QueueKind())
				require.NoError(t, r.s.CheckSide(ctx, cq.KindRocks, store.VerifySidesOptions{}, func(v *store.SideVerdict) error {
					require.True(t, v.OK(), "%v", v.Words())
					return nil
				}))
				return
			}
			st := r.m.Status()
			require.Equal(t, &Findings{Found: 1, Kept: 1}, st.Findings)
			require.Empty(t, st.Differences)
			side := keep
			if keep == "" {
				side = cq.KindRocks
			}
			require.Len(t, st.Chosen, 1)
			require.Equal(t, [2]any{side, "the operator"}, [2]any{st.Chosen[0].Side, st.Chosen[0].By})
			require.GreaterOrEqual(t, st.Chosen[0].To, int64(realUnits)) // what was put meanwhile may come later
			last := st.History[len(st.History)-1]
			require.Equal(t, [2]string{string(state.QueueKept), "the operator"}, [2]string{string(last.Event), last.Actor})
			require.Contains(t, last.Note, fmt.Sprintf("queue A/1: the %s side stays, and the other one has got its %d units; it was: slot 77: wrong-tags", side, st.Chosen[0].To))
			if keep != "" {
				require.NoError(t, r.m.Rollback(ctx, "me", RollbackOptions{}))
				require.NoError(t, r.m.Verify(ctx, "me"))
				r.await(t, state.Verified)
				require.NoError(t, r.m.Cutover(ctx, "me", nil))
			}
			require.NoError(t, r.m.Finalize(ctx, "me", time.Hour))
			r.restart(t)
			require.Equal(t, cq.KindRocks, r.s.QueueKind())
			require.EqualValues(t, realUnits+3, r.s.NextOffset(k.Topic, k.QueueID))
		})
	}
}

// damageBoth gives both sides wrong tags in a slot, each other ones.
func (r *real) damageBoth(t *testing.T, k cq.Key, slot int64) {
	t.Helper()
	r.close(t)
	path := filepath.Join(r.root, "consumequeue", k.Topic, fmt.Sprint(k.QueueID), fmt.Sprintf("%020d", slot/100*2000))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{0, 0, 0, 0, 0, 0, 0, 9}, slot%100*20+12)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	db, err := rocks.Open(filepath.Join(r.root, "consumequeue_rocksdb"), rocks.Options{})
	require.NoError(t, err)
	q, found := db.Queue(k)
	require.True(t, found)
	var u [1]cq.Unit
	_, err = q.Read(slot, u[:])
	require.NoError(t, err)
	u[0].TagsCode = 8
	require.NoError(t, db.Import(t.Context(), []cq.Run{{Key: k, From: slot, Units: u[:]}}))
	require.NoError(t, db.Flush(t.Context()))
	require.NoError(t, db.Close())
	r.restart(t)
	r.await(t, r.m.Status().Phase)
}

// Before the cutover, a choice leads on to the verification by itself.
func TestResolveBeforeTheCutover(t *testing.T) {
	f, m, root := verified(t)
	f.set(func() { f.differ[keyB] = "both wrong" })
	requireRefused(t, m.Resolve(t.Context(), "me", []cq.Key{keyB}, ""), "nothing was found in queue b/1")
	var differs *DiffersError
	require.ErrorAs(t, m.Cutover(t.Context(), "me", nil), &differs)
	awaitPhase(t, m, state.Diverged)
	require.NoError(t, m.Resolve(t.Context(), "me", []cq.Key{keyB}, ""))
	awaitPhase(t, m, state.Verified)
	require.Equal(t, []cq.Key{keyB}, f.kept)
	require.Equal(t, &Findings{Found: 1, Kept: 1}, m.Status().Findings)
	require.Equal(t, []state.KeptQueue{{QueueName: nameOf(keyB), Side: cq.KindFile, To: 5, By: "me", Time: m.Status().Chosen[0].Time}}, reload(t, root).Online.Kept)
	f.set(func() { f.keepErr = errDisk })
	require.NoError(t, m.Begin(t.Context(), "me", BeginOptions{}))
}

// The side that is kept is held against the log where the other one is not whole, or is not open.
func TestFinalizeAgainstTheLog(t *testing.T) {
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprint("one side open: ", single), func(t *testing.T) {
			f, m, root := verified(t)
			require.NoError(t, m.Cutover(t.Context(), "me", nil))
			if single {
				m.Close()
				f.set(func() { f.single, f.keepErr = true, store.ErrNotCombined })
				m = openFake(t, f, root, nil)
			} else {
				f.side(cq.KindFile, store.SideState{Failure: errDisk})
				f.set(func() { f.keepErr = store.ErrRebuilding })
			}
			f.set(func() { f.alone = map[cq.Key]string{keyA: "it leads nowhere"} })
			err := m.Finalize(t.Context(), "me", 0)
			require.ErrorContains(t, err, "finalize refused: 1 queues of the rocks side are not as the log says, and the other side is not whole; nothing was moved.")
			require.ErrorContains(t, err, "queue a/0: slot 3, rocks side: wrong-position: it leads nowhere")
			require.Equal(t, cq.KindRocks, f.checked)
			require.Equal(t, state.Cutover, m.Status().Phase)
			require.NoError(t, m.Resolve(t.Context(), "me", []cq.Key{keyA}, ""))
			requireNoted(t, m, "the rocks side stays as it is up to slot 10")
			require.NoError(t, m.Finalize(t.Context(), "me", 0))
			requireNoted(t, m, "15 units of 2 queues were compared with the log")
		})
	}
}

// A rollback in an emergency reads nothing again, also where nothing counts that was compared.
func TestRollbackQuick(t *testing.T) {
	f, m, root := verified(t)
	require.NoError(t, m.Cutover(t.Context(), "me", nil))
	m.Close()
	f.unclean = true
	m = openFake(t, f, root, nil)
	f.set(func() { f.differ, f.at = map[cq.Key]string{keyA: "differs"}, map[cq.Key]int64{keyA: 3} })
	require.NoError(t, m.Rollback(t.Context(), "me", RollbackOptions{Quick: true}))
	require.Equal(t, []int64{10, 5}, f.begins)
	history := m.Status().History
	require.Equal(t, "the ends of the queues were compared, and 15 units were not: `verify` compares them", history[len(history)-2].Note)
	require.NoError(t, m.Verify(t.Context(), "me"))
	awaitPhase(t, m, state.Diverged)
}

// A comparison for a step that takes long is seen, and ends when a rollback is asked for.
func TestRollbackEndsTheComparisonOfAStep(t *testing.T) {
	f, m, _ := verified(t)
	require.NoError(t, m.Cutover(t.Context(), "me", nil))
	f.set(func() { f.block = make(chan struct{}) })
	ended := make(chan error)
	go func() { ended <- m.Finalize(t.Context(), "me", 0) }()
	require.Eventually(t, func() bool { return m.Status().Verifying != nil }, 10*time.Second, time.Millisecond)
	require.True(t, m.Status().Asked[1].Running)
	requireRefused(t, m.Finalize(t.Context(), "you", 0), "0 of 2 queues are compared")
	requireRefused(t, m.Resolve(t.Context(), "you", []cq.Key{keyA}, ""), "0 of 2 queues are compared")
	done := make(chan error)
	go func() { done <- m.Rollback(t.Context(), "me", RollbackOptions{}) }()
	requireRefused(t, <-ended, "finalize refused: it was given up")
	close(f.block)
	require.NoError(t, <-done)
	require.Equal(t, state.RolledBack, m.Status().Phase)
}
