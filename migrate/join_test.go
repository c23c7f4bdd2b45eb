package migrate

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

var (
	keyA0 = cq.Key{Topic: "A", QueueID: 0}
	keyA1 = cq.Key{Topic: "A", QueueID: 1}
	keyB5 = cq.Key{Topic: "B", QueueID: 5000} // beyond the dense ids
)

// fill puts n messages over three queues.
func fillLog(l *testLog, n int) {
	for i := range n {
		switch i % 3 {
		case 0:
			l.put(msg{topic: "A", queue: 0, offset: -1, tags: "TagA"})
		case 1:
			l.put(msg{topic: "A", queue: 1, offset: -1})
		default:
			l.put(msg{topic: "B", queue: 5000, offset: -1, tags: "中文"})
		}
	}
}

func TestJoinYieldsEveryUnitWithItsStoreTime(t *testing.T) {
	l := newTestLog(t)
	fillLog(l, 300)
	j, rows := joined(t, l.open(), l.source(), -1, joinOptions{})
	require.Zero(t, j.found.Len(), j.found.First)
	require.Zero(t, j.notices.Len(), j.notices.First)
	require.Len(t, rows, 300)
	at := map[cq.Key]int{}
	for _, r := range rows {
		want := l.units[r.key][at[r.key]]
		require.EqualValues(t, at[r.key], r.slot)
		want.StoreTimestampMs = 1_000_000 + want.PhyOffset
		if r.unit.StoreTimestampMs != want.StoreTimestampMs { // records behind a filler were stamped before the roll
			require.Less(t, r.unit.StoreTimestampMs, want.StoreTimestampMs)
			want.StoreTimestampMs = r.unit.StoreTimestampMs
		}
		require.Equal(t, want, r.unit)
		at[r.key]++
	}
}

func TestJoinResumesAtEveryRecord(t *testing.T) {
	l := newTestLog(t)
	fillLog(l, 120)
	log := l.open()
	_, all := joined(t, log, l.source(), -1, joinOptions{})
	for i, r := range all {
		j, rest := joined(t, log, l.source(), r.unit.PhyOffset, joinOptions{})
		require.Zero(t, j.found.Len(), j.found.First)
		require.Equal(t, all[i:], rest)
	}
}

func TestJoinDamage(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(l *testLog)
		code   Code
		queue  cq.Key
		slot   int64
	}{
		{"unit past the log", func(l *testLog) {
			l.units[keyA1] = append(l.units[keyA1], cq.Unit{PhyOffset: l.phy + 100, Size: 100})
		}, CodeUnitOutsideLog, keyA1, 20},
		{"unit at the log's end", func(l *testLog) {
			l.units[keyA1] = append(l.units[keyA1], cq.Unit{PhyOffset: l.phy, Size: 100})
		}, CodeUnitOutsideLog, keyA1, 20},
		{"unit between records", func(l *testLog) { l.units[keyA0][7].PhyOffset += 3 }, CodeUnitNoRecord, keyA0, 7},
		{"unit at another queue's record", func(l *testLog) { l.units[keyA0][7].PhyOffset = l.units[keyB5][7].PhyOffset }, CodeUnitNoRecord, keyA0, 7},
		{"unit that goes backwards", func(l *testLog) { l.units[keyA0][7].PhyOffset = l.units[keyA0][3].PhyOffset }, CodeUnitNoRecord, keyA0, 7},
		{"wrong size", func(l *testLog) { l.units[keyB5][0].Size++ }, CodeWrongSize, keyB5, 0},
		{"wrong tags", func(l *testLog) { l.units[keyB5][19].TagsCode ^= 1 }, CodeWrongTags, keyB5, 19},
		{"an address where no file is", func(l *testLog) { l.units[keyB5][19].TagsCode = math.MinInt64 + 1<<40 }, CodeWrongTags, keyB5, 19},
		{"below all hashes", func(l *testLog) { l.units[keyB5][19].TagsCode = math.MinInt32 - 1 }, CodeWrongTags, keyB5, 19},
		{"wrong time", func(l *testLog) { l.units[keyB5][19].StoreTimestampMs = 1 }, CodeWrongTime, keyB5, 19},
		{"hole", func(l *testLog) { l.units[keyA0][9] = cq.Unit{} }, CodeHole, keyA0, 9},
		{"queue ends early", func(l *testLog) { l.units[keyA0] = l.units[keyA0][:18] }, CodeSourceBehind, keyA0, 18},
		{"queue begins late", func(l *testLog) { l.units[keyA0] = l.units[keyA0][5:]; l.first[keyA0] = 5 }, CodeMissingUnits, keyA0, 0},
		{"queue is empty", func(l *testLog) { l.units[keyA0] = nil; l.first[keyA0] = 20 }, CodeMissingUnits, keyA0, 0},
		{"queue is missing", func(l *testLog) { delete(l.units, keyB5) }, CodeMissingQueue, keyB5, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newTestLog(t)
			fillLog(l, 60)
			tc.damage(l)
			j, _ := joined(t, l.open(), l.source(), -1, joinOptions{})
			require.Equal(t, []Code{tc.code}, codes(&j.found), j.found.First)
			f := j.found.First[0]
			got := cq.Key{Topic: f.Topic, QueueID: f.QueueID}
			require.Equal(t, tc.queue, got)
			require.Equal(t, tc.slot, f.QueueOffset)
			require.NotEmpty(t, f.Text)
		})
	}
}

// F1: RocketMQ skips the first record after a restart and gives its number to the next one, or shifts the file queue by
// one. The source's numbering is kept, and every oddity is a notice.
func TestJoinKeepsNumberingOf55(t *testing.T) {
	t.Run("two records claim one slot", func(t *testing.T) {
		l := newTestLog(t)
		fillLog(l, 30)
		l.put(msg{topic: "A", queue: 0, offset: 10, noUnit: true})
		l.put(msg{topic: "A", queue: 0, offset: 10})
		l.put(msg{topic: "A", queue: 0, offset: 11})
		j, rows := joined(t, l.open(), l.source(), -1, joinOptions{})
		require.Zero(t, j.found.Len(), j.found.First)
		require.Equal(t, map[Code]int64{CodeSlotTaken: 1}, j.notices.Counts)
		require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, slots(rows, keyA0))
	})
	t.Run("queue shifted by one", func(t *testing.T) {
		l := newTestLog(t)
		fillLog(l, 30)
		l.put(msg{topic: "A", queue: 0, offset: 10, noUnit: true})
		l.put(msg{topic: "A", queue: 0, offset: 11})
		l.put(msg{topic: "A", queue: 0, offset: 12})
		j, rows := joined(t, l.open(), l.source(), -1, joinOptions{})
		require.Zero(t, j.found.Len(), j.found.First)
		require.Equal(t, map[Code]int64{CodeSlotTaken: 1, CodeNumbering: 2}, j.notices.Counts)
		require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, slots(rows, keyA0))
	})
	t.Run("a topic deleted and made again", func(t *testing.T) {
		l := newTestLog(t)
		for i := range 5 {
			l.put(msg{topic: "A", queue: 0, offset: int64(i), noUnit: true})
		}
		l.put(msg{topic: "A", queue: 0, offset: 0})
		l.put(msg{topic: "A", queue: 0, offset: 1})
		j, rows := joined(t, l.open(), l.source(), -1, joinOptions{})
		require.Zero(t, j.found.Len(), j.found.First)
		require.Equal(t, map[Code]int64{CodeSlotTaken: 5}, j.notices.Counts)
		require.Equal(t, []int64{0, 1}, slots(rows, keyA0))
	})
}

func TestJoinTransactionsOweNoUnit(t *testing.T) {
	l := newTestLog(t)
	l.put(msg{topic: "A", offset: -1, flags: message.TransactionPrepared, noUnit: true})
	l.put(msg{topic: "A", offset: -1, flags: message.TransactionRollback, noUnit: true})
	l.put(msg{topic: "A", offset: -1, flags: message.TransactionCommit})
	j, rows := joined(t, l.open(), l.source(), -1, joinOptions{})
	require.Zero(t, j.found.Len(), j.found.First)
	require.Zero(t, j.notices.Len())
	require.Len(t, rows, 1)
}

func TestJoinLightQueues(t *testing.T) {
	light := func(name string) cq.Key { return cq.Key{Topic: cq.LMQPrefix + name} }
	l := newTestLog(t)
	multi := func(offsets string) int64 {
		p := message.AppendProperty(nil, message.PropertyMultiDispatch, "%LMQ%x,%LMQ%y")
		p = message.AppendProperty(p, message.PropertyMultiQueueOffset, offsets)
		return l.put(msg{topic: "A", queue: 1, offset: -1, props: p})
	}
	unit := func(phy int64) cq.Unit {
		all := l.units[keyA1]
		require.Equal(t, phy, all[len(all)-1].PhyOffset)
		return all[len(all)-1]
	}
	for _, offsets := range []string{"0,0", "1,1", "2,2"} {
		u := unit(multi(offsets))
		l.units[light("x")] = append(l.units[light("x")], u)
		l.units[light("y")] = append(l.units[light("y")], u)
	}
	log := l.open()

	j, rows := joined(t, log, l.source(), -1, joinOptions{})
	require.Zero(t, j.found.Len(), j.found.First)
	require.Equal(t, []int64{0, 1, 2}, slots(rows, light("x")))
	require.Equal(t, []int64{0, 1, 2}, slots(rows, light("y")))
	require.Zero(t, j.notices.Len(), j.notices.First)

	all := l.units[light("x")]
	for name, tc := range map[string]struct {
		units []cq.Unit
		first int64
		code  Code
	}{
		"begins late": {all[1:], 1, CodeMissingUnits},
		"ends early":  {all[:2], 0, CodeSourceBehind},
	} {
		l.units[light("x")], l.first[light("x")] = tc.units, tc.first
		j, _ = joined(t, log, l.source(), -1, joinOptions{})
		require.Equal(t, []Code{tc.code}, codes(&j.found), name)
	}
	l.units[light("x")], l.first[light("x")] = all, 0

	// One light queue is gone, the other tells that dispatch to them was on.
	y := l.units[light("y")]
	delete(l.units, light("y"))
	j, _ = joined(t, log, l.source(), -1, joinOptions{})
	require.Equal(t, []Code{CodeMissingQueue}, codes(&j.found))
	j, rows = joined(t, log, l.source(), -1, joinOptions{missing: MissingBuild})
	require.Zero(t, j.found.Len(), j.found.First)
	require.Equal(t, []int64{0, 1, 2}, slots(rows, light("y")))
	require.Equal(t, y[2].PhyOffset, rows[len(rows)-1].unit.PhyOffset)

	// None is there at all: dispatch to them was off. Every record that names one counts.
	delete(l.units, light("x"))
	j, rows = joined(t, log, l.source(), -1, joinOptions{})
	require.Zero(t, j.found.Len(), j.found.First)
	require.Equal(t, map[Code]int64{CodeLMQWithout: 6}, j.notices.Counts)
	require.Len(t, rows, 3)
}

func TestJoinMissingQueue(t *testing.T) {
	l := newTestLog(t)
	fillLog(l, 60)
	want := l.units[keyB5]
	delete(l.units, keyB5)
	log := l.open()

	t.Run("built from the log", func(t *testing.T) {
		j, rows := joined(t, log, l.source(), -1, joinOptions{missing: MissingBuild})
		require.Zero(t, j.found.Len(), j.found.First)
		require.Len(t, slots(rows, keyB5), 20)
		for _, r := range rows {
			if r.key == keyB5 {
				require.True(t, want[r.slot].SameRecord(r.unit), "slot %d", r.slot)
			}
		}
		require.Len(t, j.built, 1)
		require.EqualValues(t, 20, j.built[0].bounds.Max)
		require.Equal(t, want[19].PhyOffset, j.built[0].bounds.LastPhyOffset)
	})
	t.Run("skipped", func(t *testing.T) {
		j, rows := joined(t, log, l.source(), -1, joinOptions{missing: MissingSkip})
		require.Zero(t, j.found.Len())
		require.Empty(t, slots(rows, keyB5))
		require.Equal(t, map[Code]int64{CodeSkippedQueue: 20}, j.notices.Counts)
	})
	t.Run("of a deleted topic", func(t *testing.T) {
		j, rows := joined(t, log, l.source(), -1, joinOptions{known: map[string]bool{"A": true}})
		require.Zero(t, j.found.Len(), j.found.First)
		require.Empty(t, slots(rows, keyB5))
		require.Equal(t, map[Code]int64{CodeDeletedTopic: 20}, j.notices.Counts)
	})
	t.Run("cannot be built where numbers jump", func(t *testing.T) {
		l := newTestLog(t)
		l.put(msg{topic: "B", queue: 1, offset: 0, noUnit: true})
		l.put(msg{topic: "B", queue: 1, offset: 2, noUnit: true})
		j, _ := joined(t, l.open(), l.source(), -1, joinOptions{missing: MissingBuild})
		require.Equal(t, []Code{CodeMissingQueue}, codes(&j.found))
	})
}

func TestJoinExtendsFromLog(t *testing.T) {
	l := newTestLog(t)
	fillLog(l, 60)
	l.units[keyA0] = l.units[keyA0][:15]
	j, rows := joined(t, l.open(), l.source(), -1, joinOptions{extendFromLog: true})
	require.Zero(t, j.found.Len(), j.found.First)
	require.Len(t, slots(rows, keyA0), 20)
	require.Equal(t, map[Code]int64{CodeFromLog: 5}, j.notices.Counts)
	require.EqualValues(t, 20, j.topics["A"].get(0).bounds.Max)
}

// A topic deleted and made anew: the log alone cannot tell which of its records count, so a queue is not continued from it.
func TestJoinDoesNotExtendOverRestartedNumbers(t *testing.T) {
	l := newTestLog(t)
	fillLog(l, 60)
	l.put(msg{topic: "A", queue: 0, offset: 0, noUnit: true})
	j, _ := joined(t, l.open(), l.source(), -1, joinOptions{extendFromLog: true})
	require.Equal(t, []Code{CodeSourceBehind}, codes(&j.found))
}

// Nothing of the old queue is left in the log, nor of what came between: the queue goes on behind the gap.
func TestJoinExtendsOverExpiredGap(t *testing.T) {
	l := newTestLog(t)
	l.put(msg{topic: "A", queue: 0, offset: 30, noUnit: true})
	l.put(msg{topic: "A", queue: 0, offset: 31, noUnit: true})
	l.units[keyA0], l.first[keyA0] = nil, 20 // empty but advanced to 20
	j, rows := joined(t, l.open(), l.source(), -1, joinOptions{extendFromLog: true})
	require.Zero(t, j.found.Len(), j.found.First)
	require.Equal(t, []int64{30, 31}, slots(rows, keyA0))
}

// Delivery times depend on the broker's messageDelayLevel, which is not in the directory: the stored one is kept.
func TestJoinKeepsDeliveryTimes(t *testing.T) {
	l := newTestLog(t)
	k := cq.Key{Topic: message.TopicSchedule, QueueID: 2}
	l.put(msg{topic: k.Topic, queue: 2, offset: -1, props: message.AppendProperty(nil, message.PropertyDelay, "3")})
	l.units[k][0].TagsCode = 1_000_000 + 77_000
	j, rows := joined(t, l.open(), l.source(), -1, joinOptions{})
	require.Zero(t, j.found.Len(), j.found.First)
	require.EqualValues(t, 1_077_000, rows[0].unit.TagsCode)
	require.Equal(t, map[Code]int64{CodeDelayTags: 1}, j.notices.Counts)
}

// An ext address whose extension unit is gone is replaced by the code of the record's tags.
func TestJoinResolvesExtAddress(t *testing.T) {
	l := newTestLog(t)
	l.put(msg{topic: "A", queue: 0, offset: -1, tags: "TagA"})
	l.units[keyA0][0].TagsCode = -9223372036854775808
	j, rows := joined(t, l.open(), l.source(), -1, joinOptions{})
	require.Zero(t, j.found.Len(), j.found.First)
	require.EqualValues(t, 2598919, rows[0].unit.TagsCode)
}
