package store

import (
	"encoding/binary"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// awaitBeginnings waits until the beginnings of queues were looked for, and what was found broken is whole again.
func awaitBeginnings(t *testing.T, s *Store, broken int) {
	t.Helper()
	require.Eventually(t, func() bool {
		v := s.views.view
		v.mu.Lock()
		defer v.mu.Unlock()
		return s.views.behind() == 0 && s.views.compared() && len(v.mu.broken) == 0 && v.mu.beginsFound >= int64(broken)
	}, 20*time.Second, time.Millisecond)
}

const toldBeginnings = "read for the beginnings"

// TestLostFirstFiles: the files of a queue do not tell that some before them are missing; the log does, as long as it has the records.
func TestLostFirstFiles(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.MessageIndexEnable = false
	root := t.TempDir()
	s := openStore(t, root, o)
	putSome(t, s, 170) // 50 units in a file
	require.NoError(t, s.Close())
	dir := filepath.Join(NewLayout(root).ConsumeQueueDir(), "T", "0")
	for _, name := range []string{"00000000000000000000", "00000000000000001000"} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	log := new(told)
	o.Logger = slog.New(log)
	s = openStore(t, root, o)
	require.Eventually(t, func() bool {
		q, ok := s.views.queues.Queue(cq.Key{Topic: "T"})
		if !ok {
			return false
		}
		b, err := q.Bounds()
		return err == nil && b.Min == 0 && b.Max == 170
	}, 20*time.Second, time.Millisecond)
	awaitBeginnings(t, s, 0)
	require.Len(t, readAll(t, s, "T", 0), 170)
	require.Equal(t, 1, log.times(toldBeginnings))
	require.NoError(t, s.Close())
	requireWhole(t, root, o)

	s = openStore(t, root, o)
	awaitBeginnings(t, s, 0)
	require.NoError(t, s.views.view.verifyBeginnings(t.Context(), s.Log()))
	require.NoError(t, s.Close())
	require.Equal(t, 1, log.times(toldBeginnings), "slot 0 is there")
	require.Equal(t, 1, log.times("lacks units"))
}

// A queue that begins above slot 0 because the log does is looked for once, and not at each start.
func TestBeginningsAreNoted(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.MessageIndexEnable = false
	root := t.TempDir()
	s := openStore(t, root, o)
	putSome(t, s, 170)
	awaitDispatch(t, s)
	require.NoError(t, s.writer.Flush())
	for range 2 {
		_, removed, err := s.writer.RemoveFirst()
		require.NoError(t, err)
		require.True(t, removed)
	}
	require.NoError(t, s.Close())
	require.NoError(t, os.RemoveAll(NewLayout(root).ConsumeQueueDir()))

	log := new(told)
	o.Logger = slog.New(log)
	scans := 0
	for round := range 3 {
		s = openStore(t, root, o)
		awaitBeginnings(t, s, 1-min(round, 1))
		require.NoError(t, s.views.view.verifyBeginnings(t.Context(), s.Log()))
		require.NoError(t, s.Close())
		requireWhole(t, root, o)
		if round == 0 {
			scans = log.times(toldBeginnings)
		}
	}
	require.Positive(t, scans)
	require.Equal(t, scans, log.times(toldBeginnings))
	require.Zero(t, log.times("lacks units"), "%v", log.n)
}

// A note of an earlier version of this module is read.
func TestQueueOffsetsWithoutBeginnings(t *testing.T) {
	be := binary.BigEndian
	b := be.AppendUint32(nil, queueOffsetsMagic0)
	b = be.AppendUint64(b, 1000)
	b = be.AppendUint64(b, 900)
	b = be.AppendUint64(b, 77)
	b = be.AppendUint32(b, 2)
	for id, next := range []uint64{5, 6 | unitlessBit} {
		b = be.AppendUint16(b, 2)
		b = append(b, "Tx"...)
		b = be.AppendUint32(b, uint32(id))
		b = be.AppendUint64(b, next)
	}
	b = be.AppendUint32(b, crc32.ChecksumIEEE(b))
	q, err := parseQueueOffsets(b)
	require.NoError(t, err)
	require.Equal(t, map[cq.Key]queueState{{Topic: "Tx"}: {next: 5}, {Topic: "Tx", QueueID: 1}: {next: 6, unitless: true}}, q.next)
	state := q.next[cq.Key{Topic: "Tx"}]
	state.begins = 4
	q.next[cq.Key{Topic: "Tx"}] = state
	again, err := parseQueueOffsets(q.image())
	require.NoError(t, err)
	require.Equal(t, q, again)
}

// A queue that has lost its first units on both sides of a combined store gets them back on both from the log, and goes on numbering where it was; whatever side is preferred and assigns.
func TestIssue9Part9BeginningsLostOnBothSides(t *testing.T) {
	needRocksDB(t)
	for _, prefer := range viewKinds {
		for _, assign := range viewKinds {
			t.Run(string(prefer.kind()+" preferred, "+assign.kind()+" assigns"), func(t *testing.T) {
				root := t.TempDir()
				o := combineOptions()
				o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = prefer, assign
				openPuts(t, root, o, guardPuts)
				for _, kind := range combinedKinds {
					loseBeginning(t, root, kind)
				}
				s := openStore(t, root, guarded(o))
				require.EqualValues(t, guardPuts, s.NextOffset("T", 0))
				putSome(t, s, 1)
				require.Eventually(t, func() bool {
					for _, kind := range combinedKinds {
						q, ok := s.views.sides.side(kind).Queue(cq.Key{Topic: "T"})
						if !ok {
							return false
						}
						if b, err := q.Bounds(); err != nil || b.Min != 0 || b.Max != guardPuts+1 {
							return false
						}
					}
					return s.views.sides.lacking() == nil
				}, 20*time.Second, time.Millisecond)
				require.Len(t, readAll(t, s, "T", 0), guardPuts+1)
				require.NoError(t, s.Close())
				requireWhole(t, root, o)
			})
		}
	}
}
