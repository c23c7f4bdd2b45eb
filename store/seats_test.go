package store

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// Numbers of the records of a queue, as the log has them, and the slots they get.
func TestSlotsAreProvenByNeighbours(t *testing.T) {
	type list = []int64
	for _, c := range []struct {
		name        string
		says, slots list
		part        bool // the log was not read from its beginning
		want        list // slots in the order of emission where that is not slots; -1: all before was dropped
	}{
		{name: "in order", says: list{3, 4, 5}, slots: list{3, 4, 5}},
		{name: "too high", says: list{3, 4, 5 + 64, 6, 7}, slots: list{3, 4, 5, 6, 7}},
		{name: "too high by one", says: list{3, 4, 6, 6, 7}, slots: list{3, 4, 5, 6, 7}},
		{name: "too low", says: list{67, 68, 69 - 64, 70, 71}, slots: list{67, 68, 69, 70, 71}},
		{name: "impossible", says: list{3, unplaced, 5, 6}, slots: list{3, 4, 5, 6}},
		{name: "impossible and the first", says: list{unplaced, 4, 5}, slots: list{3, 4, 5}},
		{name: "impossible and the last", says: list{3, unplaced}, slots: list{3, 4}},
		{name: "lost in the middle", says: list{3, 4, 8, 9, 10}, slots: list{3, 4, 8, 9, 10}},
		{name: "lost before the last", says: list{3, 4, 8}, slots: list{3, 4, 8}},
		{name: "lost twice", says: list{3, 5, 8, 9}, slots: list{3, 5, 8, 9}},
		{name: "a lost one, and one that is too high", says: list{3, 4, 64 + 5, 7, 8}, slots: list{3, 4, 5, 7, 8}},
		{name: "the first too high", says: list{4 + 64, 5, 6, 7}, want: list{68, -1, 4, 5, 6, 7}},
		{name: "the first too high, in a part", says: list{4 + 64, 5, 6, 7}, part: true, want: list{68, 5, 6, 7}},
		{name: "the second too low", says: list{67, 68 - 64, 69, 70}, slots: list{67, 68, 69, 70}},
		{name: "a repeat (F1)", says: list{3, 4, 4, 5, 6}, slots: list{3, 4, 4, 5, 6}},
		{name: "the topic was made anew", says: list{3, 4, 5, 0, 1, 2}, slots: list{3, 4, 5, 0, 1, 2}},
		{name: "the topic was made anew after one message", says: list{3, 0, 1, 2}, slots: list{3, 0, 1, 2}},
		{name: "a stray number", says: list{3, 64, 4, 5}, slots: list{3, 4, 5}},
		{name: "more than can be lost", says: list{3, 4, 1 << 30}, slots: list{3, 4, 5}},
		{name: "given to nobody", says: list{3, 4, 1 << 30, 1<<30 + 1}, slots: list{3, 4, 1 << 30, 1<<30 + 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got list
			s := seats{whole: !c.part, logger: slog.New(slog.DiscardHandler)}
			s.emit = func(e cq.Entry) { got = append(got, e.QueueOffset) }
			s.redo = func(cq.Key) { got = append(got, -1) }
			for i, slot := range c.says {
				s.add(cq.Entry{Key: cq.Key{Topic: "T"}, QueueOffset: slot, Unit: cq.Unit{PhyOffset: int64(1000 * i), Size: 1000}})
			}
			s.finish()
			want := c.want
			if want == nil {
				want = c.slots
			}
			require.Equal(t, want, got)
		})
	}
}

// What is held has not been appended: progress does not claim it.
func TestHeldRecordsHoldProgress(t *testing.T) {
	s := seats{logger: slog.New(slog.DiscardHandler), emit: func(cq.Entry) {}}
	add := func(slot, phy int64) {
		s.add(cq.Entry{Key: cq.Key{Topic: "T"}, QueueOffset: slot, Unit: cq.Unit{PhyOffset: phy, Size: 100}})
	}
	add(0, 0)
	require.EqualValues(t, 900, s.oldest(900))
	add(64, 100)
	require.EqualValues(t, 100, s.oldest(900))
	add(2, 200)
	require.EqualValues(t, 900, s.oldest(900))
}
