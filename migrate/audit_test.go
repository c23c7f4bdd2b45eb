package migrate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
)

// audited runs an audit of sides against a log and returns what it said, and the slots that it would mend.
func audited(t *testing.T, log *commitlog.Log, o auditOptions, sides ...cq.Reader) (found, notices Findings, mends []row) {
	t.Helper()
	if o.missing == "" {
		o.missing = MissingRefuse
	}
	for parts := range uint32(3) { // all at once, and in parts
		found, notices, mends = Findings{}, Findings{}, nil
		for part := range parts + 1 {
			a := newAudit(t.Context(), log, -1, sides, o)
			a.part, a.parts = part, parts+1
			a.report, a.notice = found.Add, notices.Add
			a.mend = func(q *auditQueue, _ int, slot int64, u cq.Unit) error {
				mends = append(mends, row{q.key, slot, u})
				return nil
			}
			require.NoError(t, a.run())
		}
	}
	return found, notices, mends
}

// rocksSource says that it is the other side.
type rocksSource struct{ *source }

func (rocksSource) Kind() cq.Kind { return cq.KindRocks }

// copied returns the units as another side.
func (l *testLog) copied() rocksSource {
	c := &source{units: map[cq.Key][]cq.Unit{}, first: map[cq.Key]int64{}}
	for k, u := range l.units {
		c.units[k], c.first[k] = append([]cq.Unit{}, u...), l.first[k]
	}
	return rocksSource{c}
}

// A queue whose numbers are RocketMQ's own doing (F1) is right as it is, alone and beside its copy; a copy that is numbered otherwise is told from it.
func TestF1AuditKeepsNumbering(t *testing.T) {
	for _, tc := range []struct {
		name    string
		records func(l *testLog)
		notices map[Code]int64
	}{
		{"two records claim one slot", func(l *testLog) {
			l.put(msg{topic: "A", queue: 0, offset: 10, noUnit: true})
			l.put(msg{topic: "A", queue: 0, offset: 10})
			l.put(msg{topic: "A", queue: 0, offset: 11})
		}, map[Code]int64{CodeSlotTaken: 1}},
		{"the later of two has no unit", func(l *testLog) {
			l.put(msg{topic: "A", queue: 0, offset: 10})
			l.put(msg{topic: "A", queue: 0, offset: 10, noUnit: true})
			l.put(msg{topic: "A", queue: 0, offset: 11})
		}, map[Code]int64{CodeSlotTaken: 1}},
		{"shifted by one", func(l *testLog) {
			l.put(msg{topic: "A", queue: 0, offset: 10, noUnit: true})
			for at := range int64(5) {
				l.put(msg{topic: "A", queue: 0, offset: 11 + at})
			}
		}, map[Code]int64{CodeSlotTaken: 1, CodeNumbering: 1}},
		{"shifted twice", func(l *testLog) {
			l.put(msg{topic: "A", queue: 0, offset: 10, noUnit: true})
			l.put(msg{topic: "A", queue: 0, offset: 11})
			l.put(msg{topic: "A", queue: 0, offset: 12})
			l.put(msg{topic: "A", queue: 0, offset: 13, noUnit: true})
			l.put(msg{topic: "A", queue: 0, offset: 14})
			l.put(msg{topic: "A", queue: 0, offset: 15})
		}, map[Code]int64{CodeSlotTaken: 2, CodeNumbering: 1}},
		{"shifted for a while", func(l *testLog) {
			l.put(msg{topic: "A", queue: 0, offset: 10, noUnit: true})
			l.put(msg{topic: "A", queue: 0, offset: 11})
			l.put(msg{topic: "A", queue: 0, offset: 12})
			l.put(msg{topic: "A", queue: 0, offset: 12}) // the queue's own end counts
			l.put(msg{topic: "A", queue: 0, offset: 13})
		}, map[Code]int64{CodeSlotTaken: 1, CodeNumbering: 1}},
		{"deleted and made anew", func(l *testLog) {
			l.units[keyA0] = nil
			for range 4 {
				l.put(msg{topic: "A", queue: 0, offset: -1})
			}
		}, map[Code]int64{CodeSlotTaken: 10}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newTestLog(t)
			fillLog(l, 30)
			tc.records(l)
			log := l.open()
			found, notices, mends := audited(t, log, auditOptions{keep: cq.KindFile}, l.source())
			require.Zero(t, found.Len(), found.First)
			require.Empty(t, mends)
			require.Equal(t, tc.notices, notices.Counts, notices.First)
			found, _, mends = audited(t, log, auditOptions{keep: cq.KindFile}, l.source(), l.copied())
			require.Zero(t, found.Len(), found.First)
			require.Empty(t, mends)
		})
	}
}

// A queue that is shifted on one side (F5) is named and left alone; asked to, the audit has it numbered as the log and the other side have it.
func TestF5AuditOfAShiftedSide(t *testing.T) {
	l := newTestLog(t)
	fillLog(l, 60)
	log := l.open()
	for _, lost := range []int64{1, 7, 18} {
		other := l.copied()
		right := l.units[keyA0]
		other.units[keyA0] = append(append([]cq.Unit{}, right[:lost]...), right[lost+1:]...)
		found, _, mends := audited(t, log, auditOptions{keep: cq.KindFile}, l.source(), other)
		require.Equal(t, map[Code]int64{CodeShifted: 1}, found.Counts, found.First)
		require.Equal(t, cq.KindRocks, found.First[0].Side)
		require.Empty(t, found.First[0].Remedy)
		require.Empty(t, mends)

		_, _, mends = audited(t, log, auditOptions{keep: cq.KindFile, renumber: true}, l.source(), other)
		require.Equal(t, int64(len(right))-lost, int64(len(mends)))
		for i, m := range mends {
			require.Equal(t, lost+int64(i), m.slot)
			require.Equal(t, right[m.slot].PhyOffset, m.unit.PhyOffset)
		}
	}
	other := l.copied() // a unit too many
	right := l.units[keyA0]
	other.units[keyA0] = append(append(append([]cq.Unit{}, right[:7]...), right[6]), right[7:]...)
	found, _, mends := audited(t, log, auditOptions{keep: cq.KindFile}, l.source(), other)
	require.Equal(t, map[Code]int64{CodeShifted: 1, CodeExtraUnits: 1}, found.Counts, found.First)
	require.Empty(t, mends)
}

// A side that was shifted for a while, and gave offsets then, is told from one that follows the log, and not written over.
func TestF5AuditOfASideThatWasShifted(t *testing.T) {
	l := newTestLog(t)
	fillLog(l, 30)
	for at := range int64(3) {
		l.put(msg{topic: "A", queue: 0, offset: 10 + at})
	}
	right := l.copied()
	u := l.units[keyA0]
	l.units[keyA0] = append(u[:10:10], u[11:]...)
	for at := range int64(2) {
		l.put(msg{topic: "A", queue: 0, offset: 12 + at})
	}
	found, _, mends := audited(t, l.open(), auditOptions{keep: cq.KindFile}, l.source(), right)
	require.Equal(t, map[Code]int64{CodeShifted: 1, CodeMissingUnits: 1}, found.Counts, found.First)
	require.Len(t, mends, 1)
	require.EqualValues(t, 13, mends[0].slot, "of the side that ends earlier")
}

// Where the log has two records of a slot and each side another one, the unit of the side that reads belong to stays.
func TestF1AuditOfASlotWithTwoRecords(t *testing.T) {
	l := newTestLog(t)
	fillLog(l, 30)
	l.put(msg{topic: "A", queue: 0, offset: 10})
	other := l.copied()
	l.units[keyA0] = l.units[keyA0][:10]
	l.put(msg{topic: "A", queue: 0, offset: 10})
	log := l.open()
	for keep, want := range map[cq.Kind]cq.Unit{cq.KindFile: l.units[keyA0][10], cq.KindRocks: other.units[keyA0][10]} {
		found, _, mends := audited(t, log, auditOptions{keep: keep}, l.source(), other)
		require.Equal(t, map[Code]int64{CodeSlotTwice: 1}, found.Counts, found.First)
		require.NotEqual(t, keep, found.First[0].Side)
		require.Len(t, mends, 1)
		require.EqualValues(t, 10, mends[0].slot)
		require.Equal(t, want.PhyOffset, mends[0].unit.PhyOffset)
	}
}

// What no side has is made from the log only when asked to, or when a repair that was killed had removed it.
func TestAuditOfAQueueThatNoSideHas(t *testing.T) {
	l := newTestLog(t)
	fillLog(l, 30)
	delete(l.units, keyB5)
	log := l.open()
	found, _, mends := audited(t, log, auditOptions{}, l.source())
	require.Equal(t, map[Code]int64{CodeMissingQueue: 1}, found.Counts)
	require.Empty(t, found.First[0].Remedy)
	require.Empty(t, mends)
	for _, o := range []auditOptions{{missing: MissingSkip}, {known: map[string]bool{"A": true}}} {
		found, _, mends = audited(t, log, o, l.source())
		require.Zero(t, found.Len(), found.First)
		require.Empty(t, mends)
	}
	for _, o := range []auditOptions{{missing: MissingBuild}, {build: map[cq.Key]bool{keyB5: true}}} {
		found, _, mends = audited(t, log, o, l.source())
		require.Equal(t, map[Code]int64{CodeMissingQueue: 1}, found.Counts)
		require.EqualValues(t, 10, found.First[0].Slots)
		require.NotEmpty(t, found.First[0].Remedy)
		require.Len(t, mends, 10)
	}
}
