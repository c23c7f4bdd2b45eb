package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// unitOf is what a side of an open store has in a slot.
func unitOf(t *testing.T, s *Store, kind cq.Kind, k cq.Key, slot int64) cq.Unit {
	t.Helper()
	q, ok := s.views.sides.side(kind).Queue(k)
	require.True(t, ok)
	var u [1]cq.Unit
	n, err := q.Read(slot, u[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	return u[0]
}

// undecidedStore is a store of which the log decides nothing about slot 20 of T/1: both sides are wrong, each in its way.
func undecidedStore(t *testing.T, o Options) (root string) {
	t.Helper()
	root = filledStore(t, o, 150)
	u := storedUnit(t, root, cq.Key{Topic: "T", QueueID: 1}, 20)
	u.TagsCode++
	replaceInRocks(t, root, o, cq.Key{Topic: "T", QueueID: 1}, 20, u)
	harmSlot(t, root, "1", 20, slotBytes(t, root, "0", 20))
	return root
}

// openUndecided opens such a store, read from one side.
func openUndecided(t *testing.T, prefer StoreType) (root string, o Options, s *Store) {
	t.Helper()
	o = combineOptions()
	o.CombineCQPreferCQType = prefer
	root = undecidedStore(t, o)
	s = openCombined(t, root, o)
	awaitSides(t, s)
	return root, o, s
}

// One side of a queue stays, whatever the log says, and the other one gets what it has, while puts go on. What is put then goes to both.
func TestKeepSide(t *testing.T) {
	needRocksDB(t)
	k := cq.Key{Topic: "T", QueueID: 1}
	for _, c := range []struct {
		prefer StoreType
		keep   cq.Kind
		stays  cq.Kind
	}{
		{StoreTypeFile, "", cq.KindFile},
		{StoreTypeRocksDB, "", cq.KindRocks},
		{StoreTypeFile, cq.KindRocks, cq.KindRocks},
		{StoreTypeRocksDB, cq.KindFile, cq.KindFile},
	} {
		t.Run(fmt.Sprintf("%s read, %q kept", c.prefer, c.keep), func(t *testing.T) {
			root, o, s := openUndecided(t, c.prefer)
			v := verifySides(t, s, VerifySidesOptions{}).at[k]
			require.EqualValues(t, 1, v.Different)
			require.False(t, v.Mending)
			require.Regexp(t, `^slot 20: wrong-position: slot 20 has record .* in file and .* in rocks$`, v.Words()[0])
			want := unitOf(t, s, c.stays, k, 20)
			stop, ended := make(chan struct{}), make(chan int)
			go func() {
				n := 0
				for ; ; n++ {
					select {
					case <-stop:
						ended <- n
						return
					default:
						m := plainMessage("T", "more")
						m.QueueID = 1
						if _, err := s.Put(t.Context(), m); err != nil {
							ended <- -1
							return
						}
					}
				}
			}()
			kept, err := s.KeepSide(t.Context(), k, c.keep)
			close(stop)
			put := <-ended
			require.NoError(t, err)
			require.GreaterOrEqual(t, put, 0)
			require.Equal(t, c.stays, kept.Side)
			require.GreaterOrEqual(t, kept.Copied, int64(150))
			require.Equal(t, kept.To, kept.Copied)
			putSome(t, s, 5)
			awaitSides(t, s)
			require.True(t, want.SameRecord(unitOf(t, s, otherKind(c.stays), k, 20)), "both have it now")
			for _, kind := range combinedKinds {
				require.Zero(t, s.views.sides.differ(kind))
				q, _ := s.views.sides.side(kind).Queue(k)
				b, err := q.Bounds()
				require.NoError(t, err)
				require.EqualValues(t, 155+put, b.Max)
			}
			require.Zero(t, verifySides(t, s, VerifySidesOptions{}).different)
			all := VerifySidesOptions{Samples: 1000}
			require.EqualValues(t, 2, verifySides(t, s, all).different, "the log says otherwise")
			all.Kept = func(one cq.Key) int64 {
				if one == k {
					return kept.To
				}
				return 0
			}
			require.Zero(t, verifySides(t, s, all).different)
			for slot := int64(5); slot < 150; slot += 10 {
				u, right := unitOf(t, s, cq.KindRocks, k, slot), unitOf(t, s, cq.KindFile, k, slot)
				require.True(t, u.SameRecord(right))
				require.Positive(t, u.StoreTimestampMs)
			}
			require.NoError(t, s.Close())

			s = openCombined(t, root, o) // and over a restart
			defer s.Close()
			awaitSides(t, s)
			require.Zero(t, verifySides(t, s, all).different)
			require.EqualValues(t, 155+put, s.NextOffset("T", 1))
		})
	}
}

// What was cut off while the other side's queue was half copied is built from the log when the store is opened again. Until then the side that stays is read.
func TestKeepSideIsCutOff(t *testing.T) {
	needRocksDB(t)
	k := cq.Key{Topic: "T", QueueID: 1}
	for _, prefer := range viewKinds {
		t.Run(string(prefer.kind()), func(t *testing.T) {
			root, o, s := openUndecided(t, prefer)
			d, other := s.views.sides, otherKind(prefer.kind())
			d.giveUp(other, k)
			d.store.MarkDiverged(other, k, errChosen)
			require.NoError(t, d.dropAll(t.Context(), other, []cq.Key{k}))
			q, _ := d.side(prefer.kind()).Queue(k)
			units := make([]cq.Unit, 60)
			n, err := q.Read(0, units)
			require.NoError(t, err)
			for i := range units[:n] {
				units[i].StoreTimestampMs = 1
			}
			require.NoError(t, d.side(other).(cq.Importer).Import(t.Context(), []cq.Run{{Key: k, Units: units[:n]}}))
			require.Len(t, readAll(t, s, "T", 0), 150)
			putSome(t, s, 5)
			require.NoError(t, s.Close())

			s = openCombined(t, root, o)
			defer s.Close()
			awaitMended(t, s)
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
		})
	}
}

// awaitMended waits until the sides are what the log says.
func awaitMended(t *testing.T, s *Store) {
	t.Helper()
	require.Eventually(t, func() bool {
		return s.views.compared() && s.views.sides.lacking() == nil && verifySides(t, s, VerifySidesOptions{Samples: 1000}).different == 0
	}, 20*time.Second, 5*time.Millisecond)
}

// A queue of which both sides are wrong in a slot is built from the log on both, where somebody asks for it, while the store goes on.
func TestRebuildQueue(t *testing.T) {
	needRocksDB(t)
	k := cq.Key{Topic: "T", QueueID: 1}
	for _, prefer := range viewKinds {
		t.Run(string(prefer.kind()), func(t *testing.T) {
			root, o, s := openUndecided(t, prefer)
			require.False(t, verifySides(t, s, VerifySidesOptions{}).at[k].Mending)
			require.NoError(t, s.RebuildQueue(k))
			putSome(t, s, 5)
			awaitMended(t, s)
			require.Len(t, readAll(t, s, "T", 1), 155)
			require.ErrorContains(t, s.RebuildQueue(cq.Key{Topic: "no"}), "has no such queue")
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
			require.ErrorIs(t, s.RebuildQueue(k), ErrClosed)
		})
	}
}

// A side with a slot without a unit cannot be copied: nothing is changed, and the other side can be kept.
func TestKeepSideOfAQueueWithAHole(t *testing.T) {
	needRocksDB(t)
	k := cq.Key{Topic: "T", QueueID: 1}
	o := combineOptions()
	root := undecidedStore(t, o)
	harmSlot(t, root, "1", 20, harms["zeros"])
	s := openCombined(t, root, o)
	defer s.Close()
	awaitSides(t, s)
	_, err := s.KeepSide(t.Context(), k, "")
	require.ErrorIs(t, err, cq.ErrCorrupt)
	require.ErrorContains(t, err, "slot 20 of the file side")
	require.Empty(t, s.views.sides.store.Diverged())
	_, err = s.KeepSide(t.Context(), k, "java")
	require.ErrorContains(t, err, `side "java"`)
	_, err = s.KeepSide(t.Context(), cq.Key{Topic: "no"}, "")
	require.ErrorContains(t, err, "has no such queue")
	kept, err := s.KeepSide(t.Context(), k, cq.KindRocks)
	require.NoError(t, err)
	require.EqualValues(t, 150, kept.Copied)
	require.Zero(t, verifySides(t, s, VerifySidesOptions{}).different)

	single := openStore(t, t.TempDir(), viewOptions(StoreTypeFile))
	defer single.Close()
	_, err = single.KeepSide(t.Context(), k, "")
	require.ErrorIs(t, err, ErrNotCombined)
}

// Units that are wrong in other slots on each side are each built again from the log.
func TestBothSidesOfAQueueAreMended(t *testing.T) {
	needRocksDB(t)
	k := cq.Key{Topic: "T", QueueID: 1}
	o := combineOptions()
	root := filledStore(t, o, 150)
	harmSlot(t, root, "1", 20, slotBytes(t, root, "0", 20))
	harmSlot(t, root, "1", 21, slotBytes(t, root, "0", 21))
	replaceInRocks(t, root, o, k, 90, storedUnit(t, root, cq.Key{Topic: "T"}, 21))
	s := openCombined(t, root, o)
	awaitSides(t, s)
	v := verifySides(t, s, VerifySidesOptions{}).at[k]
	require.EqualValues(t, 3, v.Different)
	require.True(t, v.Mending)
	require.Len(t, v.Found, 2)
	require.Regexp(t, "^slots 20 to 21, file side: wrong-position: ", v.Found[0].String())
	require.Regexp(t, "^slot 90, rocks side: wrong-position: ", v.Found[1].String())
	awaitMended(t, s)
	require.NoError(t, s.Close())
	requireWhole(t, root, o)
}

// Of a queue that differs in many places the first ones are told, and how many more there are.
func TestManyFindings(t *testing.T) {
	needRocksDB(t)
	k := cq.Key{Topic: "T", QueueID: 1}
	o := combineOptions()
	root := filledStore(t, o, 150)
	for slot := 0; slot < 90; slot += 2 {
		harmSlot(t, root, "1", slot, slotBytes(t, root, "0", slot))
	}
	for slot := 90; slot < 140; slot++ {
		harmSlot(t, root, "1", slot, slotBytes(t, root, "0", slot))
	}
	s := openCombined(t, root, o)
	defer s.Close()
	awaitSides(t, s)
	v := verifySides(t, s, VerifySidesOptions{}).at[k]
	require.GreaterOrEqual(t, v.Different, int64(45+50))
	require.Len(t, v.Found, maxSideDifferences)
	words := v.Words()
	require.Regexp(t, "^and [0-9]+ slots more$", words[len(words)-1])
	awaitMended(t, s)
}

// A side that has no other is held against the log: each unit, and each slot without one.
func TestCheckSide(t *testing.T) {
	needRocksDB(t)
	k := cq.Key{Topic: "T", QueueID: 1}
	o := combineOptions()
	tags := func(t *testing.T, root string) cq.Unit {
		u := storedUnit(t, root, k, 20)
		u.TagsCode++
		return u
	}
	for name, c := range map[string]struct {
		kind StoreType
		harm func(t *testing.T, root string)
		want string
	}{
		"right files":             {StoreTypeFile, nil, ""},
		"right RocksDB":           {StoreTypeRocksDB, nil, ""},
		"zeros in files":          {StoreTypeFile, func(t *testing.T, root string) { harmSlot(t, root, "1", 20, harms["zeros"]) }, "slot 20, file side: hole: no unit, and the log has its record at "},
		"impossible in files":     {StoreTypeFile, func(t *testing.T, root string) { harmSlot(t, root, "1", 20, harms["impossible"]) }, "slot 20, file side: hole: "},
		"another record in files": {StoreTypeFile, func(t *testing.T, root string) { harmSlot(t, root, "1", 20, slotBytes(t, root, "0", 20)) }, "slot 20, file side: wrong-position: the record at .* belongs to T/0"},
		"the slot before in files": {
			StoreTypeFile, func(t *testing.T, root string) { harmSlot(t, root, "1", 20, slotBytes(t, root, "1", 19)) },
			"slot 20, file side: wrong-position: it leads to .*, and one before it to ",
		},
		"the slot behind in files": {
			StoreTypeFile, func(t *testing.T, root string) { harmSlot(t, root, "1", 20, slotBytes(t, root, "1", 21)) },
			"slot 21, file side: wrong-position: it leads to .*, and one before it to ",
		},
		"other tags in files": {StoreTypeFile, func(t *testing.T, root string) {
			harmSlot(t, root, "1", 20, append(slotBytes(t, root, "1", 20)[:12], 0, 0, 0, 0, 0, 0, 0, 9))
		}, "slot 20, file side: wrong-tags: "},
		"other tags in RocksDB": {StoreTypeRocksDB, func(t *testing.T, root string) { replaceInRocks(t, root, o, k, 20, tags(t, root)) }, "slot 20, rocks side: wrong-tags: "},
		"another time in RocksDB": {StoreTypeRocksDB, func(t *testing.T, root string) {
			u := storedUnit(t, root, k, 20)
			u.StoreTimestampMs = 7
			replaceInRocks(t, root, o, k, 20, u)
		}, "slot 20, rocks side: wrong-time: "},
	} {
		t.Run(name, func(t *testing.T) {
			root := filledStore(t, o, 150)
			if c.harm != nil {
				c.harm(t, root)
			}
			check := func(s *Store, o VerifySidesOptions) (v SideVerdict, units int64) {
				require.NoError(t, s.CheckSide(t.Context(), c.kind.kind(), o, func(one *SideVerdict) error {
					units += one.Units
					if one.Key == k {
						v = *one
						return nil
					}
					require.True(t, one.OK(), "%v", one.Words())
					return nil
				}))
				return v, units
			}
			one := func(s *Store) {
				v, units := check(s, VerifySidesOptions{})
				if c.want == "" {
					require.True(t, v.OK(), "%v", v.Words())
					require.EqualValues(t, 300+50*4, units)
					require.EqualValues(t, 150, v.Records)
					return
				}
				require.EqualValues(t, 1, v.Different, "%v", v.Words())
				require.Regexp(t, "^"+c.want, v.Words()[0])
				v, _ = check(s, VerifySidesOptions{Kept: func(cq.Key) int64 { return 22 }})
				require.True(t, v.OK(), "%v", v.Words())
			}
			s := openCombined(t, root, o)
			awaitSides(t, s)
			one(s)
			require.NoError(t, s.Close())
			s = openStore(t, root, only(o, c.kind))
			defer s.Close()
			one(s)
			require.ErrorIs(t, s.CheckSide(t.Context(), otherKind(c.kind.kind()), VerifySidesOptions{}, nil), ErrNotCombined)
		})
	}
}
