package file

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
)

func entries(k cq.Key, from, to int64) []cq.Entry {
	var out []cq.Entry
	for slot := from; slot < to; slot++ {
		out = append(out, cq.Entry{Key: k, QueueOffset: slot, Unit: testUnit(slot)})
	}
	return out
}

// fileOf returns what RocketMQ would have in the file that holds slots [first, first+50): filler, units, zeros.
func fileOf(preBlanks, units, first int64) []byte {
	var b []byte
	for range preBlanks {
		b = append(b, "\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00"...)
	}
	for i := range units {
		b = cq.AppendUnit(b, testUnit(first+preBlanks+i))
	}
	return append(b, make([]byte, perFile*20-len(b))...)
}

func requireFiles(t *testing.T, dir string, want map[string][]byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(filepath.Dir(path(dir, 0)), "*"))
	require.NoError(t, err)
	got := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		got[filepath.Base(name)] = b
	}
	require.Equal(t, want, got)
}

// TestBytes: an append and an import of the same units leave the same files, byte for byte those of RocketMQ.
func TestBytes(t *testing.T) {
	for _, tc := range []struct {
		name     string
		from, to int64
		want     map[string][]byte
	}{
		{"one unit", 0, 1, map[string][]byte{"00000000000000000000": fileOf(0, 1, 0)}},
		{"two files and a bit", 0, 101, map[string][]byte{
			"00000000000000000000": fileOf(0, 50, 0),
			"00000000000000001000": fileOf(0, 50, 50), "00000000000000002000": fileOf(0, 1, 100),
		}},
		{"exactly one file", 0, 50, map[string][]byte{"00000000000000000000": fileOf(0, 50, 0)}},
		{"begins inside a file", 137, 152, map[string][]byte{
			"00000000000000002000": fileOf(37, 13, 100),
			"00000000000000003000": fileOf(0, 2, 150),
		}},
		{"begins with a file", 150, 151, map[string][]byte{"00000000000000003000": fileOf(0, 1, 150)}},
		{"begins with the last slot of a file", 99, 101, map[string][]byte{
			"00000000000000001000": fileOf(49, 1, 50),
			"00000000000000002000": fileOf(0, 1, 100),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Options{FileSizeBytes: perFile * 20})
			require.NoError(t, s.Append(t.Context(), entries(testKey, tc.from, tc.to)))
			requireFiles(t, dir, tc.want)
			require.NoError(t, s.Close())

			dir = t.TempDir()
			s = open(t, dir, Options{FileSizeBytes: perFile * 20})
			require.NoError(t, s.Import(t.Context(), []cq.Run{{Key: testKey, From: tc.from, Units: unitsOf(tc.from, tc.to)}}))
			requireFiles(t, dir, tc.want)
		})
	}
}

// What a crash leaves of a queue that was about to begin at slot 37 must not stop the replay that begins it again.
func TestQueueBeginsAgainAfterCrash(t *testing.T) {
	for _, tc := range []struct {
		name string
		left func(t *testing.T, dir string)
	}{
		{"a bare directory", func(t *testing.T, dir string) { require.NoError(t, os.MkdirAll(filepath.Dir(path(dir, 0)), 0o755)) }},
		{"a file of length zero", func(t *testing.T, dir string) {
			require.NoError(t, os.MkdirAll(filepath.Dir(path(dir, 0)), 0o755))
			require.NoError(t, os.WriteFile(path(dir, 137), nil, 0o644))
		}},
		{"a file of zeros", func(t *testing.T, dir string) { putUnits(t, dir, testKey, 137, cq.Unit{}) }},
		{"part of the pre-blank", func(t *testing.T, dir string) { putUnits(t, dir, testKey, 100, repeated(preBlank, 12)...) }},
		{"all of the pre-blank", func(t *testing.T, dir string) { putUnits(t, dir, testKey, 100, repeated(preBlank, 37)...) }},
		{"the unit without the pre-blank", func(t *testing.T, dir string) { putUnits(t, dir, testKey, 137, testUnit(137)) }},
		{"pre-blank with a hole", func(t *testing.T, dir string) {
			putUnits(t, dir, testKey, 100, repeated(preBlank, 37)...)
			putUnits(t, dir, testKey, 137, testUnit(137))
			field(120, 0, 20, 0)(t, dir)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			tc.left(t, dir)
			s := open(t, dir, Options{FileSizeBytes: perFile * 20})
			require.NoError(t, s.Append(t.Context(), entries(testKey, 137, 152)))
			b := bounds(t, s, testKey)
			require.Equal(t, [2]int64{137, 152}, [2]int64{b.Min, b.Max})
			requireFiles(t, dir, map[string][]byte{"00000000000000002000": fileOf(37, 13, 100), "00000000000000003000": fileOf(0, 2, 150)})
		})
	}
}

func TestFillerIsNoLicenceForGaps(t *testing.T) {
	for _, tc := range []struct {
		name  string
		units []cq.Unit
		slot  int64
	}{
		{"pre-blank, then another file", repeated(preBlank, 12), 50},
		{"synthetic", append(repeated(preBlank, 12), synthetic(0)), 14},
		{"a unit", unitsOf(0, 13), 14},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			putUnits(t, dir, testKey, 0, tc.units...)
			s := open(t, dir, Options{})
			err := s.Append(t.Context(), entries(testKey, tc.slot, tc.slot+1))
			require.ErrorIs(t, err, cq.ErrDiverged)
			require.EqualValues(t, len(tc.units), bounds(t, s, testKey).Max)
		})
	}
}

func TestRefusedEntries(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{FileSizeBytes: perFile * 20})
	good := testUnit(0)
	for _, tc := range []struct {
		name string
		e    cq.Entry
		want error
	}{
		{"no topic", cq.Entry{Unit: good}, ErrName},
		{"separator in the topic", cq.Entry{Key: cq.Key{Topic: "a/b"}, Unit: good}, ErrName},
		{"parent directory", cq.Entry{Key: cq.Key{Topic: ".."}, Unit: good}, ErrName},
		{"topic too long", cq.Entry{Key: cq.Key{Topic: strings.Repeat("x", 256)}, Unit: good}, ErrName},
		{"negative queue id", cq.Entry{Key: cq.Key{Topic: "t", QueueID: -1}, Unit: good}, ErrName},
		{"negative slot", cq.Entry{Key: testKey, QueueOffset: -1, Unit: good}, nil},
		{"slot without a position", cq.Entry{Key: testKey, QueueOffset: 1 << 60, Unit: good}, nil},
		{"size 0", cq.Entry{Key: testKey, Unit: cq.Unit{PhyOffset: 1}}, nil},
		{"negative position", cq.Entry{Key: testKey, Unit: cq.Unit{PhyOffset: -1, Size: 100}}, nil},
		{"pre-blank", cq.Entry{Key: testKey, Unit: preBlank}, nil},
		{"synthetic", cq.Entry{Key: testKey, Unit: synthetic(4)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := s.Append(t.Context(), []cq.Entry{tc.e})
			require.Error(t, err)
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
			}
			require.Error(t, s.Import(t.Context(), []cq.Run{{Key: tc.e.Key, From: tc.e.QueueOffset, Units: []cq.Unit{tc.e.Unit}}}))
		})
	}
	require.NoDirExists(t, filepath.Join(dir, "consumequeue"), "nothing was written")
	require.NoError(t, s.Append(t.Context(), entries(testKey, 0, 1)), "none of it is sticky")
}

// A write that fails is not taken for done: the max stays, the entries before it are there, and the error sticks.
func TestFailedWrite(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{FileSizeBytes: perFile * 20})
	require.NoError(t, s.Append(t.Context(), entries(testKey, 0, 30)))
	require.NoError(t, s.Flush(t.Context()))
	require.NoError(t, os.Mkdir(path(dir, 50), 0o755)) // where the next file has to be
	first := s.Append(t.Context(), entries(testKey, 30, 60))
	require.ErrorContains(t, first, path(dir, 50))
	require.EqualValues(t, 50, bounds(t, s, testKey).Max)
	accepted, readable, durable := s.Progress()
	require.Equal(t, [3]int64{testUnit(49).End(), testUnit(49).End(), testUnit(29).End()}, [3]int64{accepted, readable, durable})

	require.NoError(t, os.Remove(path(dir, 50)))
	for name, call := range map[string]func() error{
		"append":    func() error { return s.Append(t.Context(), entries(testKey, 50, 60)) },
		"elsewhere": func() error { return s.Append(t.Context(), entries(cq.Key{Topic: "u"}, 0, 1)) },
		"flush":     func() error { return s.Flush(t.Context()) },
		"truncate":  func() error { return s.TruncateDirty(t.Context(), 0) },
		"import":    func() error { return s.Import(t.Context(), nil) },
	} {
		require.ErrorIs(t, call(), first, name)
	}
	require.ErrorIs(t, s.Close(), first)
	s = open(t, dir, Options{})
	require.EqualValues(t, 50, bounds(t, s, testKey).Max)
	require.NoError(t, s.Append(t.Context(), entries(testKey, 30, 60)))
}

// More queues than may be open at a time, with a tenth of the mappings: they take turns, and unflushed ones are not closed.
func TestManyQueuesFewOpen(t *testing.T) {
	mappedfile.SetLimit(5)
	t.Cleanup(func() { mappedfile.SetLimit(0) })
	dir := t.TempDir()
	s := open(t, dir, Options{FileSizeBytes: perFile * 20})
	s.opened.limit = 7
	const queues = 50
	for round := range int64(3) {
		for i := range queues {
			k := cq.Key{Topic: fmt.Sprintf("topic-%d", i%9), QueueID: int32(i)}
			require.NoError(t, s.Append(t.Context(), entries(k, round*20, round*20+20)))
		}
		require.Len(t, s.opened.ring, queues, "unflushed")
		require.NoError(t, s.Flush(t.Context()))
		q, ok := s.Queue(cq.Key{Topic: "topic-0", QueueID: 0})
		require.True(t, ok)
		_, err := q.Read(0, make([]cq.Unit, 1))
		require.NoError(t, err)
	}
	for round := range 2 {
		if round == 1 {
			require.NoError(t, s.Close())
			s = open(t, dir, Options{ReadOnly: true})
			s.opened.limit = 7
		}
		n := 0
		for k, err := range s.Queues() {
			require.NoError(t, err)
			n++
			require.EqualValues(t, 60, bounds(t, s, k).Max)
			q, _ := s.Queue(k)
			buf := make([]cq.Unit, 100)
			got, err := q.Read(0, buf)
			require.NoError(t, err)
			require.Equal(t, unitsOf(0, 50), buf[:got])
			require.LessOrEqual(t, mmap.Mapped(), 5)
		}
		require.Equal(t, queues, n)
		if round == 1 {
			require.LessOrEqual(t, len(s.opened.ring), 7)
		}
	}
}

// Unflushed queues beyond the limit cost the next one a bounded search for room, not a look at each of them.
func TestEnteringAFullTableIsBounded(t *testing.T) {
	s := open(t, t.TempDir(), Options{FileSizeBytes: perFile * 20})
	s.opened.limit = 10
	const queues = 5 * stepsPerEntry
	for id := range int32(queues) {
		require.NoError(t, s.Append(t.Context(), entries(cq.Key{Topic: "t", QueueID: id}, 0, 1)))
	}
	for _, q := range s.opened.ring {
		q.recent.Store(true)
	}
	require.NoError(t, s.Append(t.Context(), entries(cq.Key{Topic: "t", QueueID: queues}, 0, 1)))
	seen := 0
	for _, q := range s.opened.ring {
		if !q.recent.Load() {
			seen++
		}
	}
	require.LessOrEqual(t, seen, 2*stepsPerEntry, "a new queue enters twice: to look for files, and to make one")

	// Once they are flushed, the entries that follow make up for it.
	require.NoError(t, s.Flush(t.Context()))
	for id := range int32(10) {
		require.NoError(t, s.Append(t.Context(), entries(cq.Key{Topic: "u", QueueID: id}, 0, 1)))
		require.NoError(t, s.Flush(t.Context()))
	}
	require.LessOrEqual(t, len(s.opened.ring), 10)
}

func TestImportKeepsQueuesWhole(t *testing.T) {
	importAt := func(s *Store, from, to int64) error {
		return s.Import(t.Context(), []cq.Run{{Key: testKey, From: from, Units: unitsOf(from, to)}})
	}
	t.Run("a gap over live units is refused", func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, Options{FileSizeBytes: perFile * 20})
		require.NoError(t, importAt(s, 0, 30))
		var ge *cq.GapError
		require.ErrorAs(t, importAt(s, 31, 40), &ge)
		require.Equal(t, cq.GapError{Key: testKey, Want: 31, Max: 30, PhyOffset: testUnit(31).PhyOffset}, *ge)
		require.NoError(t, importAt(s, 30, 40))
	})
	t.Run("a gap of gone records is filled over files", func(t *testing.T) {
		dir := t.TempDir()
		putUnits(t, dir, testKey, 0, unitsOf(0, 30)...)
		s := open(t, dir, Options{MinPhyOffset: testUnit(120).PhyOffset})
		require.NoError(t, importAt(s, 120, 130))
		first := slices.Concat(fileOf(0, 30, 0)[:600], bytes.Repeat(cq.AppendUnit(nil, preBlank), 20))
		requireFiles(t, dir, map[string][]byte{
			"00000000000000000000": first, "00000000000000001000": fileOf(50, 0, 50),
			"00000000000000002000": fileOf(20, 10, 100),
		})
	})
	t.Run("files below the first one are never missing", func(t *testing.T) {
		dir := t.TempDir()
		putUnits(t, dir, testKey, 150, unitsOf(150, 160)...)
		s := open(t, dir, Options{})
		require.NoError(t, importAt(s, 10, 20))
		require.EqualValues(t, 160, bounds(t, s, testKey).Max, "slots 20 to 149 are filler until they come")
		require.NoError(t, importAt(s, 20, 150))
		require.NoError(t, s.Check(t.Context(), testKey))
		requireFiles(t, dir, map[string][]byte{
			"00000000000000000000": fileOf(10, 40, 0), "00000000000000001000": fileOf(0, 50, 50),
			"00000000000000002000": fileOf(0, 50, 100), "00000000000000003000": fileOf(0, 10, 150),
		})
	})
	t.Run("unflushed appends of the same queue become durable too", func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, Options{FileSizeBytes: perFile * 20})
		require.NoError(t, s.Append(t.Context(), entries(testKey, 100, 130)))
		require.NoError(t, importAt(s, 40, 100))
		require.Empty(t, s.writing.dirty)
		require.NoError(t, s.Append(t.Context(), entries(testKey, 130, 131)))
		require.NoError(t, s.Flush(t.Context()))
		require.EqualValues(t, 131, bounds(t, s, testKey).Max)
	})
	t.Run("many queues in one call", func(t *testing.T) {
		s := open(t, t.TempDir(), Options{FileSizeBytes: perFile * 20})
		var runs []cq.Run
		for i := range int32(2 * syncFSAbove) {
			runs = append(runs, cq.Run{Key: cq.Key{Topic: "many", QueueID: i}, From: int64(i), Units: unitsOf(int64(i), int64(i)+2)})
		}
		require.NoError(t, s.Import(t.Context(), runs))
		for i := range int64(2 * syncFSAbove) {
			require.Equal(t, i, bounds(t, s, cq.Key{Topic: "many", QueueID: int32(i)}).Min)
		}
	})
}

func TestPublish(t *testing.T) {
	t.Run("bytes of a queue without records", func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, Options{MinPhyOffset: 1 << 20, FileSizeBytes: perFile * 20})
		end := cq.QueueEnd{Key: testKey, Min: 113, MinPhyOffset: 1 << 20, Max: 113, LastPhyOffset: 4711}
		require.NoError(t, s.Publish(t.Context(), []cq.QueueEnd{end}, 1<<20))
		want := slices.Concat(fileOf(12, 0, 100)[:240], []byte{0, 0, 0, 0, 0, 0, 0x12, 0x67, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0})
		requireFiles(t, dir, map[string][]byte{"00000000000000002000": append(want, make([]byte, 740)...)})
	})
	t.Run("units that are missing are told", func(t *testing.T) {
		s := open(t, t.TempDir(), Options{FileSizeBytes: perFile * 20})
		require.NoError(t, s.Append(t.Context(), entries(testKey, 0, 30)))
		end := cq.QueueEnd{Key: testKey, Max: 31, LastPhyOffset: testUnit(30).PhyOffset}
		err := s.Publish(t.Context(), []cq.QueueEnd{end}, 0)
		require.ErrorIs(t, err, cq.ErrCorrupt)
		require.ErrorContains(t, err, "got an end at slot 30, want units up to slot 30")
		require.EqualValues(t, 30, bounds(t, s, testKey).Max)
	})
	t.Run("live units are not buried", func(t *testing.T) {
		s := open(t, t.TempDir(), Options{FileSizeBytes: perFile * 20})
		require.NoError(t, s.Append(t.Context(), entries(testKey, 0, 30)))
		require.ErrorIs(t, s.Publish(t.Context(), []cq.QueueEnd{{Key: testKey, Min: 40, Max: 40}}, 0), cq.ErrDiverged)
	})
	t.Run("bounds that are none", func(t *testing.T) {
		s := open(t, t.TempDir(), Options{})
		for _, end := range []cq.QueueEnd{{Key: testKey}, {Key: testKey, Min: 5, Max: 4}, {Key: testKey, Min: -1, Max: 4}, {Key: cq.Key{Topic: "a/b"}, Min: 1, Max: 1}} {
			require.Error(t, s.Publish(t.Context(), []cq.QueueEnd{end}, 0))
		}
	})
}

func TestDropKeepsForeignFiles(t *testing.T) {
	dir := t.TempDir()
	putUnits(t, dir, testKey, 0, unitsOf(0, 70)...)
	foreign := filepath.Join(filepath.Dir(path(dir, 0)), "notes.txt")
	require.NoError(t, os.WriteFile(foreign, nil, 0o644))
	s := open(t, dir, Options{})
	require.NoError(t, s.DropQueue(t.Context(), testKey))
	require.FileExists(t, foreign)
	require.NoFileExists(t, path(dir, 0))
	require.Empty(t, sortedKeys(s))
	require.NoError(t, os.Remove(foreign))
	require.NoError(t, s.DropQueue(t.Context(), testKey))
	require.NoDirExists(t, filepath.Join(dir, "consumequeue", testKey.Topic))
	require.DirExists(t, filepath.Join(dir, "consumequeue"))
}

// A flush runs beside the appender, also while there are more queues than may be open.
func TestFlushBesideAppend(t *testing.T) {
	s := open(t, t.TempDir(), Options{FileSizeBytes: perFile * 20})
	s.opened.limit = 3
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				done <- nil
				return
			default:
				err = s.Flush(t.Context())
			}
		}
		done <- err
	}()
	var err error
	for slot := int64(0); slot < 200 && err == nil; slot++ {
		for id := int32(0); id < 8 && err == nil; id++ {
			err = s.Append(t.Context(), entries(cq.Key{Topic: "t", QueueID: id}, slot, slot+1))
		}
	}
	close(stop)
	require.NoError(t, <-done)
	require.NoError(t, err)
	require.NoError(t, s.Flush(t.Context()))
	accepted, _, durable := s.Progress()
	require.Equal(t, [2]int64{testUnit(199).End(), testUnit(199).End()}, [2]int64{accepted, durable})
	for id := range int32(8) {
		require.EqualValues(t, 200, bounds(t, s, cq.Key{Topic: "t", QueueID: id}).Max)
	}
}
