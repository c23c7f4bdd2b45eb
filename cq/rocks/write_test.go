//go:build cgo

package rocks

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// TestF3TruncateAtEveryUnit: the boundary is exact, at a record's start too, and nothing is left above it.
func TestF3TruncateAtEveryUnit(t *testing.T) {
	untouched := cq.Key{Topic: "older"}
	o := testOptions()
	o.RocksDB.AvoidFlushDuringShutdown = true // the truncation is durable by itself
	for _, n := range []int64{1, 2, 7} {
		for at := range n {
			for _, shift := range []int64{-999, 0} { // inside the gap before the record, and at its start
				t.Run(fmt.Sprintf("%d of %d%+d", at, n, shift), func(t *testing.T) {
					s := openNew(t, o)
					appendAll(t, s, []cq.Entry{{Key: untouched, Unit: cq.Unit{PhyOffset: 0, Size: 1}}})
					var es []cq.Entry
					for slot := range n {
						u := unit(slot)
						u.PhyOffset += 1000
						es = append(es, cq.Entry{Key: keyT, QueueOffset: slot, Unit: u})
					}
					appendAll(t, s, es)
					cut := 1000*(at+1) + shift
					require.NoError(t, s.TruncateDirty(t.Context(), cut))
					for range 2 {
						require.Equal(t, int(at)+1, countRows(t, s, rocks.Units))
						require.Equal(t, cut, s.DispatchFrom())
						require.EqualValues(t, 1, boundsOf(t, s, untouched).Max)
						_, ok := s.Queue(keyT)
						require.Equal(t, at > 0, ok)
						if ok {
							require.Equal(t, at, boundsOf(t, s, keyT).Max)
						}
						_, _, durable := s.Progress()
						require.Equal(t, cut, durable)
						s = reopen(t, s, o)
					}
				})
			}
		}
	}
}

// TestF30TruncateLeavesNothingAbove: a queue set to a new beginning that loses everything since leaves nothing behind that
// could come up again.
func TestF30TruncateLeavesNothingAbove(t *testing.T) {
	s := openNew(t, testOptions())
	rows(t, s, func(b *rocks.Batch) {
		putUnits(b, keyT, 0, 5) // from before
		putUnits(b, keyT, 10, 20)
		putRow(b, keyT, tagMin, 0, 10)
		putRow(b, keyT, tagMax, 19_000, 19)
	})
	s = reopen(t, s, testOptions())
	require.NoError(t, s.TruncateDirty(t.Context(), 15_000))
	require.Equal(t, cq.Bounds{Min: 10, Max: 15, MinPhyOffset: 10_000, MaxPhyOffset: 14_100, LastPhyOffset: 14_000}, boundsOf(t, s, keyT))
	require.NoError(t, s.TruncateDirty(t.Context(), 10_000))
	_, ok := s.Queue(keyT)
	require.False(t, ok)
	require.Zero(t, countRows(t, s, rocks.Units))
	require.Zero(t, countRows(t, s, rocks.Offsets))
	appendAll(t, s, entries(keyT, 10, 12))
	require.EqualValues(t, 10, boundsOf(t, s, keyT).Min)
}

func run(k cq.Key, from, to int64) cq.Run { return cq.Run{Key: k, From: from, Units: units(from, to)} }

func endAt(k cq.Key, from, to int64) cq.QueueEnd {
	return cq.QueueEnd{Key: k, Min: from, MinPhyOffset: unit(from).PhyOffset, Max: to, LastPhyOffset: unit(to - 1).PhyOffset}
}

// TestImportAfterKill copies the directory of a store in the middle of an import, as a kill leaves it, and imports again.
func TestImportAfterKill(t *testing.T) {
	s := openNew(t, testOptions())
	long := cq.Key{Topic: "a-longer-topic"}
	first := []cq.Run{run(long, 0, 300), run(keyT, 5, 100)} // not in the order of keys
	second := []cq.Run{run(keyT, 100, 250)}
	require.NoError(t, s.Import(t.Context(), first))
	killed := filepath.Join(t.TempDir(), "cq")
	require.NoError(t, os.CopyFS(killed, os.DirFS(s.dir)))
	leftover := killed + ".ingest"
	require.NoError(t, os.Mkdir(leftover, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(leftover, "ingest-000007.sst"), []byte("half"), 0o644))

	s = openAt(t, killed, testOptions())
	require.NoDirExists(t, leftover)
	require.Zero(t, countKeys(t, s), "nothing is visible yet")
	require.EqualValues(t, -1, s.DispatchFrom())
	require.Equal(t, 395, countRows(t, s, rocks.Units), "but what Import took is durable")
	require.NoError(t, s.Import(t.Context(), first))
	require.NoError(t, s.Import(t.Context(), second))
	require.DirExists(t, leftover)
	require.NoError(t, s.Publish(t.Context(), []cq.QueueEnd{endAt(keyT, 5, 250), endAt(long, 0, 300)}, 299_100))
	copied := filepath.Join(t.TempDir(), "cq")
	require.NoError(t, os.CopyFS(copied, os.DirFS(killed)), "as a kill right after Publish")
	require.NoError(t, s.Compact(t.Context(), nil))
	s2 := openAt(t, copied, testOptions())
	for _, s := range []*Store{s, s2} {
		require.Equal(t, cq.Bounds{Min: 5, Max: 250, MinPhyOffset: 5000, MaxPhyOffset: 249_100, LastPhyOffset: 249_000}, boundsOf(t, s, keyT))
		requireUnits(t, s, keyT, 5, units(5, 250))
		requireUnits(t, s, long, 0, units(0, 300))
		require.EqualValues(t, 299_100, s.DispatchFrom())
	}
	require.NoError(t, s.Close())
	require.NoDirExists(t, leftover)
}

func TestImportErrors(t *testing.T) {
	s := openNew(t, testOptions())
	require.NoError(t, s.Import(t.Context(), nil))
	require.NoError(t, s.Import(t.Context(), []cq.Run{{Key: keyT}}))
	require.ErrorContains(t, s.Import(t.Context(), []cq.Run{run(keyT, 0, 3), run(keyT, 3, 5)}), "two runs of queue topic/3")
	require.Zero(t, countRows(t, s, rocks.Units))
	for _, q := range []cq.QueueEnd{{Key: keyT}, {Key: keyT, Min: 3, Max: 2}, {Key: keyT, Min: -1, Max: 2}, {Key: keyT, Max: 2, LastPhyOffset: -1}, {Max: 2}} {
		require.Error(t, s.Publish(t.Context(), []cq.QueueEnd{q}, 0), "%+v", q)
	}
	require.Zero(t, countRows(t, s, rocks.Offsets))
}

// TestImportCutsFiles: one call may hold more than a table file does, and a queue may go on in the next file.
func TestImportCutsFiles(t *testing.T) {
	s := openNew(t, testOptions())
	s.unitsPerFile = 100
	const n = 250
	other := cq.Key{Topic: "topic", QueueID: 4}
	require.NoError(t, s.Import(t.Context(), []cq.Run{run(other, 0, 50), run(keyT, 0, n)}))
	require.NoError(t, s.Publish(t.Context(), []cq.QueueEnd{endAt(keyT, 0, n), endAt(other, 0, 50)}, 1000*n))
	tables, err := filepath.Glob(filepath.Join(s.dir, "*.sst"))
	require.NoError(t, err)
	require.Len(t, tables, 4, "three of units and one of rows")
	runs, err := s.SortedRuns()
	require.NoError(t, err)
	require.Equal(t, 1, runs)
	requireUnits(t, s, keyT, 0, units(0, n))
	requireUnits(t, s, other, 0, units(0, 50))
}

func TestF34DropQueue(t *testing.T) {
	s := openNew(t, testOptions())
	same := cq.Key{Topic: "topic", QueueID: 4}
	require.NoError(t, s.DropQueue(t.Context(), keyT), "absent")
	appendAll(t, s, append(entries(keyT, 0, 9), entries(same, 0, 9)...))
	require.NoError(t, s.Publish(t.Context(), []cq.QueueEnd{endAt(keyT, 0, 9)}, -1))
	require.NoError(t, s.Import(t.Context(), []cq.Run{run(cq.Key{Topic: "hidden"}, 0, 5)}))
	require.NoError(t, s.DropQueue(t.Context(), keyT))
	require.NoError(t, s.DropQueue(t.Context(), cq.Key{Topic: "hidden"}), "not published")
	for range 2 {
		_, ok := s.Queue(keyT)
		require.False(t, ok)
		require.Equal(t, 9, countRows(t, s, rocks.Units))
		require.Equal(t, 2, countRows(t, s, rocks.Offsets), "max of the other queue and checkpoint")
		requireUnits(t, s, same, 0, units(0, 9))
		s = reopen(t, s, testOptions())
	}
	appendAll(t, s, entries(keyT, 40, 42), "it may begin anew anywhere")
	require.EqualValues(t, 40, boundsOf(t, s, keyT).Min)
}

// TestRowsOnDisk compares every row with the bytes that RocketMQ would have written.
func TestRowsOnDisk(t *testing.T) {
	s := openNew(t, testOptions())
	k := cq.Key{Topic: "T1", QueueID: 1}
	appendAll(t, s, []cq.Entry{{Key: k, QueueOffset: 2, Unit: cq.Unit{PhyOffset: 0x1000, Size: 0x20, TagsCode: -1, StoreTimestampMs: 0x55}}})
	require.NoError(t, s.Publish(t.Context(), []cq.QueueEnd{{Key: k, Min: 2, MinPhyOffset: 0x1000, Max: 3, LastPhyOffset: 0x1000}}, 0x1021))
	dump := func(f rocks.Family) (out []string) {
		require.NoError(t, s.db.Scan(f, nil, func(k, v []byte) bool {
			out = append(out, hex.EncodeToString(k)+" = "+hex.EncodeToString(v))
			return true
		}))
		return out
	}
	require.Equal(t, []string{
		"00000002" + "01" + "5431" + "01" + "00000001" + "01" + "0000000000000002" + " = " +
			"0000000000001000" + "00000020" + "ffffffffffffffff" + "0000000000000055",
	}, dump(rocks.Units))
	require.Equal(t, []string{
		"00000002" + "01" + "5431" + "01" + "6d6178" + "01" + "00000001" + " = " + "0000000000001000" + "0000000000000002",
		"00000002" + "01" + "5431" + "01" + "6d696e" + "01" + "00000001" + " = " + "0000000000001000" + "0000000000000002",
		"00000010" + "01" + "434845434b504f494e545f544f504943" + "01" + "6d6178" + "01" + "00000000" + " = " + "0000000000001021",
	}, dump(rocks.Offsets))
}
