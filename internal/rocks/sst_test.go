//go:build cgo

package rocks

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func newIngester(t *testing.T, db *DB) *Ingester {
	t.Helper()
	w, err := db.NewIngester(filepath.Join(t.TempDir(), "ingest"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

func unitsFrom(slot int64, n int, shift int64) []Unit {
	u := make([]Unit, n)
	for i := range u {
		u[i] = unitAt(10*(slot+int64(i)) + shift)
	}
	return u
}

func requireUnits(t *testing.T, db *DB, prefix []byte, from int64, want []Unit) {
	t.Helper()
	got := make([]Unit, len(want)+1)
	n, err := ReadUnits(db, prefix, from, got)
	require.NoError(t, err)
	require.Equal(t, want, got[:n])
}

func TestIngest(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, testOptions())
	require.NoError(t, err)
	a, b := prefixOf("topic", 1), prefixOf("topic", 2)
	putSlots(t, db, a, slotsUpTo(50)...) // these in a table
	require.NoError(t, db.Flush())
	putSlots(t, db, a, 50, 51, 52, 53) // these in memory

	w := newIngester(t, db)
	require.NoError(t, w.Commit(), "nothing to do")
	require.NoError(t, PutUnits(w, a, 48, unitsFrom(48, 4, 3)))
	require.NoError(t, w.Cut())
	require.NoError(t, w.Cut(), "nothing to cut")
	require.NoError(t, PutUnits(w, a, 52, unitsFrom(52, 10, 3)))
	require.NoError(t, PutUnits(w, b, 7, unitsFrom(7, 3, 0)))
	require.NoError(t, PutUnits(w, b, 10, []Unit(nil)))
	require.NoError(t, w.Commit())
	want := append(unitsFrom(0, 48, 0), unitsFrom(48, 14, 3)...)
	requireUnits(t, db, a, 0, want)
	requireUnits(t, db, b, 7, unitsFrom(7, 3, 0))

	// What is written afterwards replaces what was ingested, and an ingestion repeated is the same.
	putSlots(t, db, a, 55)
	want[55] = unitAt(550)
	requireUnits(t, db, a, 0, want)
	require.NoError(t, PutUnits(w, a, 55, unitsFrom(55, 1, 3)))
	require.NoError(t, w.Commit())
	want[55] = unitAt(553)
	requireUnits(t, db, a, 0, want)

	require.NoError(t, w.Close())
	require.NoError(t, db.Close())
	db = openTest(t, dir, testOptions())
	requireUnits(t, db, a, 0, want)
	requireUnits(t, db, b, 7, unitsFrom(7, 3, 0))
	require.NoError(t, db.Compact(context.Background(), nil))
	requireUnits(t, db, a, 0, want)
}

// TestIngestIsDurable copies the directory of a live database, as a kill would leave it.
func TestIngestIsDurable(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	db := openTest(t, dir, testOptions())
	w := newIngester(t, db)
	a := prefixOf("topic", 1)
	require.NoError(t, PutUnits(w, a, 0, unitsFrom(0, 100, 0)))
	require.NoError(t, w.Commit())
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	after := openTest(t, copied, testOptions())
	requireUnits(t, after, a, 0, unitsFrom(0, 100, 0))
}

func TestIngestErrorsAndLeftovers(t *testing.T) {
	db := openTest(t, t.TempDir(), testOptions())
	dir := filepath.Join(t.TempDir(), "ingest")
	require.NoError(t, os.Mkdir(dir, 0o755))
	left := filepath.Join(dir, "ingest-000001.sst")
	require.NoError(t, os.WriteFile(left, []byte("half a file"), 0o644))
	w, err := db.NewIngester(dir)
	require.NoError(t, err)
	require.NoFileExists(t, left)

	a := prefixOf("topic", 1)
	require.NoError(t, PutUnits(w, a, 5, unitsFrom(5, 3, 0)))
	err = PutUnits(w, a, 6, unitsFrom(6, 3, 0))
	require.ErrorContains(t, err, "ingest-000001.sst")
	require.ErrorContains(t, err, "order")
	require.NoError(t, w.Rollback())
	require.NoFileExists(t, left)
	require.NoError(t, w.Commit())
	requireUnits(t, db, a, 5, []Unit{})

	require.NoError(t, PutUnits(w, a, 0, unitsFrom(0, 3, 0)))
	require.ErrorContains(t, PutUnits(w, make([]byte, 600), 0, unitsFrom(0, 3, 0)), "key too long")
	require.NoError(t, w.Close())
	require.NoDirExists(t, dir)
	require.NoError(t, w.Close())
	requireUnits(t, db, a, 0, []Unit{})
}

// TestIngestGoesToTheBottom: files that touch nothing need no merge.
func TestIngestGoesToTheBottom(t *testing.T) {
	db := openTest(t, t.TempDir(), testOptions())
	w := newIngester(t, db)
	for q := range uint32(12) {
		require.NoError(t, PutUnits(w, prefixOf("topic", q), 0, unitsFrom(0, 100, 0)))
		require.NoError(t, w.Commit())
	}
	runs, err := db.SortedRuns()
	require.NoError(t, err)
	require.Equal(t, 1, runs)
	// The same again overlaps.
	for q := range uint32(2) {
		require.NoError(t, PutUnits(w, prefixOf("topic", q), 0, unitsFrom(0, 100, 5)))
		require.NoError(t, w.Commit())
	}
	runs, err = db.SortedRuns()
	require.NoError(t, err)
	require.Greater(t, runs, 1)
	require.NoError(t, db.Compact(context.Background(), nil))
	runs, err = db.SortedRuns()
	require.NoError(t, err)
	require.Equal(t, 1, runs)
	requireUnits(t, db, prefixOf("topic", 1), 0, unitsFrom(0, 100, 5))
	requireUnits(t, db, prefixOf("topic", 2), 0, unitsFrom(0, 100, 0))
}

// TestTableFormat reads the footer of every table, flushed, ingested and compacted: 53 bytes of which the first is the
// checksum type and the last 12 are the format version (u32 little-endian) and the magic number.
func TestTableFormat(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir, testOptions())
	w := newIngester(t, db)
	a := prefixOf("topic", 1)
	check := func(step string) {
		names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
		require.NoError(t, err)
		require.NotEmpty(t, names)
		for _, name := range names {
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			footer := b[len(b)-53:]
			require.EqualValues(t, 1, footer[0], "%s: crc32c", step)
			require.EqualValues(t, FormatVersion, binary.LittleEndian.Uint32(footer[41:]), "%s: format version", step)
			require.Equal(t, uint64(0x88e241b785f4cff7), binary.LittleEndian.Uint64(footer[45:]), "%s: magic", step)
			if step != "compaction" { // whose last level has none
				require.Contains(t, string(b), "fullfilter.rocksdb.BuiltinBloomFilter", step)
			}
		}
	}
	putSlots(t, db, a, slotsUpTo(20)...)
	b := db.NewBatch()
	b.Put(Offsets, []byte("row"), []byte("value"))
	require.NoError(t, db.Write(b, false))
	require.NoError(t, db.Flush())
	check("flush")
	require.NoError(t, PutUnits(w, a, 10, unitsFrom(10, 20, 0)))
	require.NoError(t, w.Commit())
	check("ingest")
	require.NoError(t, db.Compact(context.Background(), nil))
	check("compaction")
}

// TestExpiredUnitsGo: a compaction removes exactly the units below the bound, and nothing that is no unit.
func TestExpiredUnitsGo(t *testing.T) {
	db := openTest(t, t.TempDir(), testOptions())
	a, b := prefixOf("topic", 1), prefixOf("topic", 2)
	putSlots(t, db, a, slotsUpTo(300)...)
	putSlots(t, db, b, slotsUpTo(100)...)
	other := db.NewBatch()
	short := valueOf(unitAt(0))[:27]
	other.Put(Units, []byte("short value"), short)
	other.Put(Units, []byte("negative"), valueOf(Unit{PhyOffset: -1}))
	other.Put(Units, []byte("long value"), append(valueOf(unitAt(2000)), 9))
	other.Put(Units, []byte{}, valueOf(unitAt(0)))
	row := valueOf(unitAt(0))
	other.Put(Offsets, []byte("row"), row)
	require.NoError(t, db.Write(other, false))

	require.NoError(t, db.Compact(context.Background(), nil))
	requireUnits(t, db, a, 0, unitsFrom(0, 300, 0))
	_, ok, err := db.Get(Units, []byte("negative"))
	require.NoError(t, err)
	require.True(t, ok, "a new database keeps everything")

	require.NoError(t, db.SetMinPhyOffset(2000))
	require.NoError(t, db.Compact(context.Background(), nil))
	requireUnits(t, db, a, 199, []Unit{})
	requireUnits(t, db, a, 200, unitsFrom(200, 100, 0))
	requireUnits(t, db, b, 99, []Unit{})
	for key, want := range map[string]bool{"short value": true, "negative": false, "long value": true, "": true} {
		_, ok, err := db.Get(Units, []byte(key))
		require.NoError(t, err)
		require.Equal(t, want, ok, "row %q", key)
	}
	v, ok, err := db.Get(Offsets, []byte("row"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, row, v, "the other family is not filtered")
}

// lateContext is done from the start, but says so only when asked for the second time: past Compact's first look.
type lateContext struct {
	context.Context
	asked atomic.Int32
}

func (c *lateContext) Err() error {
	if c.asked.Add(1) == 1 {
		return nil
	}
	return context.Canceled
}

func TestCompactCancelled(t *testing.T) {
	db := openTest(t, t.TempDir(), testOptions())
	a := prefixOf("topic", 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, db.Compact(ctx, nil), context.Canceled)
	for err := error(nil); err == nil; { // a small merge may be over before it is paused
		putSlots(t, db, a, slotsUpTo(500)...)
		err = db.Compact(&lateContext{Context: ctx}, nil)
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	requireUnits(t, db, a, 0, unitsFrom(0, 500, 0))
	putSlots(t, db, a, 500)
	require.NoError(t, db.Compact(context.Background(), nil), "the pause was taken back")
	runs, err := db.SortedRuns()
	require.NoError(t, err)
	require.Equal(t, 1, runs)
}

func TestCloseEndsCompact(t *testing.T) {
	db, err := Open(t.TempDir(), testOptions())
	require.NoError(t, err)
	a := prefixOf("topic", 1)
	putSlots(t, db, a, 0)
	require.NoError(t, db.Compact(context.Background(), nil)) // there is a run to merge with
	result := make(chan error)
	go func() {
		for {
			b := db.NewBatch()
			for slot := range int64(20_000) {
				b.PutSlot(a, slot, valueOf(unitAt(slot)))
			}
			err := db.Write(b, false)
			if err == nil {
				err = db.Compact(context.Background(), nil)
			}
			if err != nil {
				result <- err
				return
			}
		}
	}()
	for merging := 0; merging == 0; { // wait for a merge to be under way
		db.mu.RLock()
		merging, _ = strconv.Atoi(db.c.GetPropertyCF("rocksdb.num-running-compactions", db.units))
		db.mu.RUnlock()
	}
	require.NoError(t, db.Close())
	require.ErrorIs(t, <-result, ErrClosed)
}
