package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// readSlots reads a queue from an offset to its end, and returns the slots of what was served with their bodies.
func readSlots(t *testing.T, s *Store, id int32, from int64) (list []string) {
	t.Helper()
	var res GetResult
	defer res.Release()
	for at := from; at < s.NextOffset("T", id); at = res.NextOffset {
		require.NoError(t, s.Get(&GetRequest{Topic: "T", QueueID: id, Offset: at, MaxMessages: 7}, &res))
		require.Greater(t, res.NextOffset, at)
		for i, body := range bodies(t, &res) {
			list = append(list, fmt.Sprintf("%d %s", res.Messages[i].QueueOffset, body))
		}
	}
	return list
}

// A unit that leads to a neighbour's message is not served where the other side has the right one: no message is missed, and none comes twice. It is counted, and the queue is built again.
func TestGetServesNoNeighbour(t *testing.T) {
	needRocksDB(t)
	k := cq.Key{Topic: "T", QueueID: 1}
	for _, side := range combinedKinds {
		t.Run(string(side), func(t *testing.T) {
			o := combineOptions()
			o.ShadowReadPercent = 0
			o.CombineCQPreferCQType = StoreTypeFile
			if side == cq.KindRocks {
				o.CombineCQPreferCQType = StoreTypeRocksDB
			}
			root := filledStore(t, o, 150)
			if side == cq.KindRocks {
				replaceInRocks(t, root, o, k, 20, storedUnit(t, root, k, 21))
			}
			s := openStore(t, root, o)
			defer s.Close()
			awaitSides(t, s)
			want := readSlots(t, s, 0, 0) // of a queue nobody has touched
			require.Len(t, want, 150)
			if side == cq.KindFile { // while it is served
				harmSlot(t, root, "1", 20, slotBytes(t, root, "1", 21))
			}
			got := readSlots(t, s, 1, 19)
			require.Len(t, got, 131)
			for i, one := range got {
				require.Regexp(t, fmt.Sprintf("^%d ", 19+i), one)
			}
			require.Len(t, slices.Compact(bodiesOf(got)), 131, "each message once")
			shadow := s.ShadowReads()
			require.EqualValues(t, 1, shadow.Found)
			require.EqualValues(t, 1, shadow.Judged)
			require.Equal(t, []cq.Key{k}, shadow.Queues)
			require.Contains(t, shadow.Differences[0], "slot 20")
			require.Zero(t, s.Watermarks().StrayUnits)
			awaitSides(t, s)
			require.NoError(t, s.Close())
			requireWhole(t, root, o)
		})
	}
}

// bodiesOf cuts the slots off.
func bodiesOf(list []string) (bodies []string) {
	for _, one := range list {
		var slot int64
		var word, body string
		_, _ = fmt.Sscanf(one, "%d %s %s", &slot, &word, &body)
		bodies = append(bodies, word+" "+body)
	}
	return bodies
}

// Where there is one side alone, or both have the same, a message that has a slot of its own is served there, and the unit that repeats it is passed and counted.
func TestGetServesNoMessageTwice(t *testing.T) {
	needRocksDB(t)
	k := cq.Key{Topic: "T", QueueID: 1}
	for name, o := range map[string]Options{"files": viewOptions(StoreTypeFile), "RocksDB": viewOptions(StoreTypeRocksDB), "both": combineOptions()} {
		t.Run(name, func(t *testing.T) {
			both := combineOptions()
			root := filledStore(t, both, 150)
			u := storedUnit(t, root, k, 21)
			if name != "RocksDB" {
				harmSlot(t, root, "1", 20, slotBytes(t, root, "1", 21))
			}
			if name != "files" {
				replaceInRocks(t, root, both, k, 20, u)
			}
			s := openStore(t, root, o)
			defer s.Close()
			got := readSlots(t, s, 1, 19)
			require.Len(t, got, 130)
			require.Regexp(t, "^19 ", got[0])
			require.Regexp(t, "^21 ", got[1])
			require.Len(t, slices.Compact(bodiesOf(got)), 130)
			require.EqualValues(t, 1, s.Watermarks().StrayUnits)
		})
	}
}

// A queue whose slots are not those of its records is read as it is: RocketMQ 5.5.0 leaves such (F1).
func TestF1GetServesWhatIsShifted(t *testing.T) {
	needRocksDB(t)
	k := cq.Key{Topic: "T", QueueID: 1}
	for name, o := range map[string]Options{"files": viewOptions(StoreTypeFile), "RocksDB": viewOptions(StoreTypeRocksDB), "both": combineOptions()} {
		t.Run(name, func(t *testing.T) {
			both := combineOptions()
			root := filledStore(t, both, 150)
			const first, count = 20, 5
			var units []cq.Unit
			var inFile [][]byte
			for slot := range count {
				units = append(units, storedUnit(t, root, k, first+int64(slot)))
				inFile = append(inFile, slotBytes(t, root, "1", first+slot))
			}
			for slot := range count {
				from := (slot + 1) % count
				harmSlot(t, root, "1", first+slot, inFile[from])
				replaceInRocks(t, root, both, k, first+int64(slot), units[from])
			}
			s := openStore(t, root, o)
			defer s.Close()
			got := readSlots(t, s, 1, 0)
			require.Len(t, got, 150)
			for i, one := range got {
				require.Regexp(t, fmt.Sprintf("^%d ", i), one)
			}
			require.Zero(t, s.Watermarks().StrayUnits)
			require.Zero(t, s.ShadowReads().Found)
		})
	}
}
