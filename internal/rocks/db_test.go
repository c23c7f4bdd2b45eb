//go:build cgo

package rocks

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/linxGnu/grocksdb"
	"github.com/stretchr/testify/require"
)

// testOptions makes everything small.
func testOptions() Options {
	o := MigrationOptions()
	o.Units.WriteBufferBytes, o.Offsets.WriteBufferBytes = 64*kib, 64*kib
	o.Units.BlockBytes = 1 * kib
	return o
}

func openTest(t *testing.T, dir string, o Options) *DB {
	t.Helper()
	db, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// prefixOf is a queue's key up to the slot, as cq/rocks makes it.
func prefixOf(topic string, queueID uint32) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(len(topic)))
	p = append(append(append(p, 1), topic...), 1)
	return append(binary.BigEndian.AppendUint32(p, queueID), 1)
}

func unitAt(phy int64) Unit {
	return Unit{PhyOffset: phy, Size: int32(100 + phy%50), TagsCode: -phy, StoreTimestampMs: 1_700_000_000_000 + phy}
}

func valueOf(u Unit) []byte {
	v := binary.BigEndian.AppendUint64(nil, uint64(u.PhyOffset))
	v = binary.BigEndian.AppendUint32(v, uint32(u.Size))
	v = binary.BigEndian.AppendUint64(v, uint64(u.TagsCode))
	return binary.BigEndian.AppendUint64(v, uint64(u.StoreTimestampMs))
}

// putSlots writes units with phy 10*slot.
func putSlots(t *testing.T, db *DB, prefix []byte, slots ...int64) {
	t.Helper()
	b := db.NewBatch()
	for _, s := range slots {
		b.PutSlot(prefix, s, valueOf(unitAt(10*s)))
	}
	require.NoError(t, db.Write(b, true))
}

func slotsUpTo(n int64) []int64 {
	s := make([]int64, n)
	for i := range s {
		s[i] = int64(i)
	}
	return s
}

func TestReadUnits(t *testing.T) {
	db := openTest(t, t.TempDir(), testOptions())
	a, b := prefixOf("topic", 1), prefixOf("topic", 2)
	putSlots(t, db, a, slotsUpTo(100)...)
	putSlots(t, db, b, 100, 101)
	putSlots(t, db, a, 105, 106)
	c, d := prefixOf("topic", 4), prefixOf("topic", 5)
	putSlots(t, db, c, 7, 8)
	putSlots(t, db, d, 9, 10) // goes on where c ends
	short := db.NewBatch()
	short.PutSlot(a, 107, valueOf(unitAt(1070))[:27])
	short.PutSlot(a, 109, append(valueOf(unitAt(1090)), 7))
	require.NoError(t, db.Write(short, false))

	for _, tc := range []struct {
		name    string
		prefix  []byte
		from    int64
		n, want int
	}{
		{"from the start", a, 0, 10, 10},
		{"none asked for", a, 0, 0, 0},
		{"to the gap", a, 90, 50, 10},
		{"in the gap", a, 102, 50, 0},
		{"behind the gap, up to a short value", a, 105, 50, 2},
		{"short value", a, 107, 50, 0},
		{"long value", a, 109, 50, 1},
		{"not into the next queue", c, 7, 50, 2},
		{"at the end", c, 9, 50, 0},
		{"other queue", b, 100, 50, 2},
		{"below its first", b, 99, 50, 0},
		{"no such queue", prefixOf("topic", 3), 0, 50, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dst := make([]Unit, tc.n+1)
			n, err := ReadUnits(db, tc.prefix, tc.from, dst[:tc.n])
			require.NoError(t, err)
			require.Equal(t, tc.want, n)
			for i, u := range dst[:n] {
				require.Equal(t, unitAt(10*(tc.from+int64(i))), u)
			}
			require.Zero(t, dst[tc.n], "nothing behind dst is written")
		})
	}
}

func TestLowerBound(t *testing.T) {
	db := openTest(t, t.TempDir(), testOptions())
	holes := map[string][]int64{
		"dense":       slotsUpTo(40),
		"front gone":  slotsUpTo(40)[17:],
		"one unit":    {5},
		"empty":       {},
		"many holes":  {0, 3, 4, 5, 11, 12, 30, 31, 39},
		"hole at end": slotsUpTo(30),
	}
	queue := uint32(0)
	for name, slots := range holes {
		queue++
		prefix := prefixOf("topic", queue)
		putSlots(t, db, prefix, slots...)
		putSlots(t, db, prefix, 40, 41) // outside what is searched
		putSlots(t, db, prefixOf("topic", 100+queue), slotsUpTo(40)...)
		t.Run(name, func(t *testing.T) {
			for from := int64(0); from <= 40; from += 3 {
				for phy := int64(-5); phy <= 420; phy += 5 {
					wantBelow, wantAt := int64(-1), int64(-1)
					for _, s := range slots {
						if s >= from && 10*s < phy {
							wantBelow = s
						}
						if s >= from && 10*s >= phy && wantAt < 0 {
							wantAt = s
						}
					}
					below, at, err := db.LowerBound(prefix, from, 40, phy)
					require.NoError(t, err)
					require.Equal(t, wantBelow, below.Slot, "below %d from %d", phy, from)
					require.Equal(t, wantAt, at.Slot, "at %d from %d", phy, from)
					if wantAt >= 0 {
						require.Equal(t, unitAt(10*wantAt), at.Unit)
					}
					if wantBelow >= 0 {
						require.Equal(t, unitAt(10*wantBelow), below.Unit)
					}
				}
			}
		})
	}
}

func TestBatchAgainstLibrary(t *testing.T) {
	db := openTest(t, t.TempDir(), testOptions())
	long := make([]byte, 300)
	own, lib := db.NewBatch(), grocksdb.NewWriteBatch()
	defer lib.Destroy()
	for range 2 { // the second time in reused memory
		own.Reset()
		lib.Clear()
		own.Put(Units, []byte("key"), []byte("value"))
		lib.PutCF(db.units, []byte("key"), []byte("value"))
		own.PutSlot(prefixOf("topic", 3), 77, valueOf(unitAt(5)))
		lib.PutCF(db.units, slotKey(nil, prefixOf("topic", 3), 77), valueOf(unitAt(5)))
		own.Put(Offsets, long, []byte{})
		lib.PutCF(db.offsets, long, []byte{})
		own.Delete(Units, []byte("k"))
		lib.DeleteCF(db.units, []byte("k"))
		own.Delete(Offsets, []byte("k"))
		lib.DeleteCF(db.offsets, []byte("k"))
		own.DeleteRange(Units, []byte("a"), long)
		lib.DeleteRangeCF(db.units, []byte("a"), long)
		own.DeleteRange(Offsets, []byte("a"), []byte("b"))
		lib.DeleteRangeCF(db.offsets, []byte("a"), []byte("b"))
		require.Equal(t, lib.Data(), own.data())
		require.Equal(t, lib.Count(), own.Count())
	}
}

func TestFlushDecidesWhatSurvives(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	o.AvoidFlushDuringShutdown = true // as a kill
	db, err := Open(dir, o)
	require.NoError(t, err)
	q := prefixOf("topic", 0)
	write := func(slot int64, row string) {
		b := db.NewBatch()
		b.PutSlot(q, slot, valueOf(unitAt(slot)))
		b.Put(Offsets, []byte("row"), []byte(row))
		require.NoError(t, db.Write(b, false))
	}
	write(0, "a")
	require.NoError(t, db.Flush())
	write(1, "b")
	require.NoError(t, db.Close())

	db = openTest(t, dir, o)
	n, err := ReadUnits(db, q, 0, make([]Unit, 5))
	require.NoError(t, err)
	require.Equal(t, 1, n, "the unflushed unit is lost")
	v, ok, err := db.Get(Offsets, []byte("row"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "a", string(v), "and the row of the other family with it")
}

func TestClosed(t *testing.T) {
	db, err := Open(t.TempDir(), testOptions())
	require.NoError(t, err)
	b := db.NewBatch()
	b.Put(Units, []byte("k"), []byte("v"))
	require.NoError(t, db.Close())
	require.NoError(t, db.Close())
	_, err = ReadUnits(db, prefixOf("t", 0), 0, make([]Unit, 1))
	require.ErrorIs(t, err, ErrClosed)
	_, _, err = db.LowerBound(prefixOf("t", 0), 0, 1, 1)
	require.ErrorIs(t, err, ErrClosed)
	_, _, err = db.Get(Units, []byte("k"))
	require.ErrorIs(t, err, ErrClosed)
	_, err = db.TableBytes()
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, db.Scan(Units, nil, nil), ErrClosed)
	require.ErrorIs(t, db.Write(b, false), ErrClosed)
	require.ErrorIs(t, db.Flush(), ErrClosed)
	require.ErrorIs(t, db.SetMinPhyOffset(1), ErrClosed)
	require.ErrorIs(t, db.Compact(t.Context(), nil), ErrClosed)
}

// TestReadersBesideClose runs reads, scans and searches with garbage collections between and in them, beside a writer, until
// the database closes under them.
func TestReadersBesideClose(t *testing.T) {
	o := testOptions()
	o.MaxCalls = 3
	db, err := Open(t.TempDir(), o)
	require.NoError(t, err)
	q := prefixOf("topic", 0)
	putSlots(t, db, q, slotsUpTo(3000)...)
	require.NoError(t, db.Flush())
	var wg sync.WaitGroup
	failures := make(chan error, 16)
	for g := range 6 {
		wg.Go(func() {
			dst := make([]Unit, 700)
			for i := 0; ; i++ {
				from := int64((i*37 + g*500) % 2300)
				n, err := ReadUnits(db, q, from, dst)
				if err != nil {
					return // closed
				}
				if n != len(dst) || dst[0] != unitAt(10*from) || dst[n-1] != unitAt(10*(from+int64(n)-1)) {
					failures <- fmt.Errorf("read %d units from %d: %v", n, from, dst[0])
					return
				}
				rows := 0
				if err := db.Scan(Units, nil, func(_, _ []byte) bool {
					if rows++; rows%500 == 0 {
						runtime.GC()
					}
					return rows < 1500
				}); err != nil {
					return
				}
				if _, at, err := db.LowerBound(q, 0, 3000, 10*from); err == nil && at.Slot != from {
					failures <- fmt.Errorf("search of %d found %d", from, at.Slot)
					return
				}
			}
		})
	}
	for i := range int64(60) {
		putSlots(t, db, q, 3000+i)
		if i%20 == 0 {
			runtime.GC()
			require.NoError(t, db.Flush())
		}
	}
	require.NoError(t, db.Close())
	wg.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
}

func TestFamilies(t *testing.T) {
	dir := t.TempDir()
	// A foreign database: one family of its own, none called "offset".
	o := grocksdb.NewDefaultOptions()
	o.SetCreateIfMissing(true)
	o.SetCreateIfMissingColumnFamilies(true)
	c, handles, err := grocksdb.OpenDbColumnFamilies(o, dir, []string{"default", "theirs"}, []*grocksdb.Options{o, o})
	require.NoError(t, err)
	w := grocksdb.NewDefaultWriteOptions()
	require.NoError(t, c.PutCF(w, handles[1], []byte("k"), []byte("v")))
	for _, h := range handles {
		h.Destroy()
	}
	c.Close()
	w.Destroy()

	ro, err := OpenReadOnly(dir, testOptions())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"default", "theirs"}, ro.Families())
	_, ok, err := ro.Get(Offsets, []byte("k"))
	require.NoError(t, err, "a family that is missing is empty")
	require.False(t, ok)
	require.NoError(t, ro.Close())

	db, err := Open(dir, testOptions())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"default", "theirs", "offset"}, db.Families())
	b := db.NewBatch()
	b.Put(Offsets, []byte("row"), []byte("1")) // here "offset" has number 2
	b.PutSlot(prefixOf("t", 0), 0, valueOf(unitAt(0)))
	require.NoError(t, db.Write(b, false))
	require.NoError(t, db.Flush())
	require.NoError(t, db.Close())

	c, handles, err = grocksdb.OpenDbColumnFamilies(o, dir, []string{"default", "theirs", "offset"}, []*grocksdb.Options{o, o, o})
	require.NoError(t, err)
	r := grocksdb.NewDefaultReadOptions()
	for i, want := range []struct{ key, value string }{1: {"k", "v"}, 2: {"row", "1"}} {
		if want.key == "" {
			continue
		}
		s, err := c.GetCF(r, handles[i], []byte(want.key))
		require.NoError(t, err)
		require.Equal(t, want.value, string(s.Data()))
		s.Free()
	}
	for _, h := range handles {
		h.Destroy()
	}
	c.Close()
	r.Destroy()
	o.Destroy()
}

func TestOpenErrors(t *testing.T) {
	table := func(dir string) string {
		names, _ := filepath.Glob(filepath.Join(dir, "*.sst"))
		return names[0]
	}
	manifest := func(dir string) string {
		names, _ := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
		return names[0]
	}
	for _, c := range []struct {
		name   string
		damage func(dir string) error
		text   string
	}{
		{"CURRENT is garbage", func(d string) error { return os.WriteFile(filepath.Join(d, "CURRENT"), []byte("nonsense"), 0o644) }, "CURRENT"},
		{"CURRENT is missing", func(d string) error { return os.Remove(filepath.Join(d, "CURRENT")) }, "CURRENT is missing"},
		{"manifest is missing", func(d string) error { return os.Remove(manifest(d)) }, "No such file"},
		{"manifest is cut", func(d string) error { return os.Truncate(manifest(d), 20) }, ""},
		{"table is missing", func(d string) error { return os.Remove(table(d)) }, "No such file"},
		{"table is cut", func(d string) error { return os.Truncate(table(d), 100) }, "Sst file size mismatch"},
	} {
		for mode, open := range map[string]func(string, Options) (*DB, error){"read-only": OpenReadOnly, "writing": Open} {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				dir := t.TempDir()
				db, err := Open(dir, testOptions())
				require.NoError(t, err)
				putSlots(t, db, prefixOf("topic", 0), slotsUpTo(50)...)
				require.NoError(t, db.Flush())
				require.NoError(t, db.Close())
				require.NoError(t, c.damage(dir))
				_, err = open(dir, testOptions())
				var e *Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, dir, e.Dir)
				require.True(t, e.Corruption(), err.Error())
				require.ErrorContains(t, err, "open RocksDB in "+dir)
				require.ErrorContains(t, err, c.text)
				require.ErrorContains(t, err, "rebuild the consume queues from the CommitLog")
			})
		}
	}
}

func TestOpenAbsent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	o := testOptions()
	_, err := OpenReadOnly(dir, o)
	require.ErrorIs(t, err, os.ErrNotExist)
	o.CreateIfMissing = false
	_, err = Open(dir, o)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoDirExists(t, dir)

	topic := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(topic, "CURRENT"), 0o755))
	_, err = Open(topic, testOptions())
	require.ErrorContains(t, err, "CURRENT is a directory")
}

func TestOpenTwice(t *testing.T) {
	dir := t.TempDir()
	openTest(t, dir, testOptions())
	_, err := Open(dir, testOptions())
	var e *Error
	require.ErrorAs(t, err, &e)
	require.True(t, e.Locked())
	require.False(t, e.Corruption())
	require.NotContains(t, err.Error(), "rebuild")
}

// A file that is removed or cut behind the back of an open database is named, although reads go on.
func TestLostFiles(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, testOptions())
	require.NoError(t, err)
	defer db.Close()
	lost, err := db.LostFiles()
	require.NoError(t, err)
	require.Empty(t, lost)
	require.NoError(t, os.Remove(filepath.Join(dir, "CURRENT")))
	lost, err = db.LostFiles()
	require.NoError(t, err)
	require.Len(t, lost, 1)
	require.Contains(t, lost[0], "CURRENT")
}
