package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

// garbage is no record, and not zero.
func garbage(n int) []byte { return bytes.Repeat([]byte{0xDA, 0xA3, 0x20, 0xA7, 0x00}, n/5+1)[:n] }

// fill returns the body size of a record that leaves free bytes in the current file.
func (b *builder) fill(free int) int { return int(b.fileSize) - b.used - free - overhead(b.t) }

// endCases are logs of 4096-byte files, the first at 4096, and how their scan ends.
var endCases = []struct {
	name    string
	build   func(b *builder)
	records int // that a scan yields
	kind    EndKind
	offset  int64
	next    int64 // NextValid
	reason  string
	// ends is the kind that Log.End answers, which begins at a later file; EndNone: the same as the scan.
	ends EndKind
}{
	{
		name:    "filler of exactly 8 bytes",
		build:   func(b *builder) { b.roll(); b.add(b.fill(8)).blank().add(19) },
		records: 2, kind: EndClean, offset: 8192 + 140, next: -1,
	},
	{
		name:    "filler of all the file",
		build:   func(b *builder) { b.roll().blank().blank().add(19) },
		records: 1, kind: EndClean, offset: 3*4096 + 140, next: -1,
	},
	{
		name:    "record ending 8 bytes before the end of the last file",
		build:   func(b *builder) { b.roll(); b.add(b.fill(8)) },
		records: 1, kind: EndClean, offset: 8192 - 8, next: -1,
	},
	{
		name:    "the same before a file made ahead",
		build:   func(b *builder) { b.roll(); b.add(b.fill(8)).roll() },
		records: 1, kind: EndClean, offset: 8192 - 8, next: -1,
	},
	{
		name:    "record ending 3 bytes before the end of the last file",
		build:   func(b *builder) { b.roll(); b.force(b.fill(3)) },
		records: 1, kind: EndClean, offset: 8192 - 3, next: -1,
	},
	{
		name:    "last file exactly full",
		build:   func(b *builder) { b.roll(); b.force(b.fill(0)) },
		records: 1, kind: EndClean, offset: 8192, next: -1,
	},
	{
		name:    "exactly full before a file made ahead",
		build:   func(b *builder) { b.roll(); b.force(b.fill(0)).roll() },
		records: 1, kind: EndClean, offset: 8192, next: -1,
	},
	{
		name:    "exactly full without filler before records",
		build:   func(b *builder) { b.roll(); b.force(b.fill(0)).roll().add(19) },
		records: 1, kind: EndCorrupt, offset: 8192, next: 8192, reason: "zeros, then data at physical offset 8192", ends: EndClean,
	},
	{
		name:    "no filler before records",
		build:   func(b *builder) { b.add(19).roll().add(19) },
		records: 1, kind: EndCorrupt, offset: 4096 + 140, next: 8192, reason: "zeros, then data at physical offset 8192", ends: EndClean,
	},
	{
		name:    "8 zeros instead of a filler before records",
		build:   func(b *builder) { b.roll(); b.add(b.fill(8)).roll().add(19) },
		records: 1, kind: EndCorrupt, offset: 8192 - 8, next: 8192, reason: "zeros, then data", ends: EndClean,
	},
	{
		name:    "filler too short",
		build:   func(b *builder) { b.add(19).raw(message.AppendBlank(nil, 4096-140-1)).roll().add(19) },
		records: 1, kind: EndCorrupt, offset: 4096 + 140, next: 8192, reason: "got a filler of 3955 bytes, want 3956 bytes", ends: EndClean,
	},
	{
		name:    "filler too long, nothing behind",
		build:   func(b *builder) { b.add(19).raw(message.AppendBlank(nil, 4096)).roll() },
		records: 1, kind: EndTorn, offset: 4096 + 140, next: -1, reason: "got a filler of 4096 bytes, want 3956 bytes",
	},
	{
		name:    "filler in the last file",
		build:   func(b *builder) { b.add(19).blank(); b.files = b.files[:1] },
		records: 1, kind: EndClean, offset: 4096 + 140, next: -1,
	},
	{
		name: "leftovers behind a filler",
		build: func(b *builder) {
			b.add(19).blank()
			copy(b.files[0][140+8:], garbage(500))
		},
		records: 1, kind: EndClean, offset: 8192, next: -1,
	},
	{
		name:    "filler before a file made ahead",
		build:   func(b *builder) { b.add(19).blank().roll().roll() },
		records: 1, kind: EndClean, offset: 8192, next: -1,
	},
	{
		name:    "filler before garbage",
		build:   func(b *builder) { b.add(19).blank().raw(garbage(999)) },
		records: 1, kind: EndTorn, offset: 8192, next: -1,
	},
	{
		name:    "filler before garbage before a record",
		build:   func(b *builder) { b.add(19).blank().raw(garbage(999)).add(19) },
		records: 1, kind: EndCorrupt, offset: 8192, next: 8192 + 999,
	},
	{
		name:    "filler before a zero file before records",
		build:   func(b *builder) { b.add(19).blank().roll().add(19) },
		records: 1, kind: EndCorrupt, offset: 8192, next: 3 * 4096, reason: "zeros, then data", ends: EndClean,
	},
	{
		name:    "garbage behind zeros",
		build:   func(b *builder) { b.add(19).roll().roll().raw(make([]byte, 700)).raw(garbage(1)) },
		records: 1, kind: EndTorn, offset: 4096 + 140, next: -1, reason: "zeros, then data at physical offset 12988",
	},
	{
		name:    "record behind zeros",
		build:   func(b *builder) { b.add(19).raw(make([]byte, 700)).add(19) },
		records: 1, kind: EndCorrupt, offset: 4096 + 140, next: 4096 + 840, reason: "zeros, then data at physical offset 4939",
	},
	{
		name:    "garbage to the end of the file before records",
		build:   func(b *builder) { b.add(19); b.raw(garbage(4096 - b.used)).roll().add(19) },
		records: 1, kind: EndCorrupt, offset: 4096 + 140, next: 8192, ends: EndClean,
	},
	{
		name: "records of another place behind the end", // what W5 and W6 leave, see docs/format/known-faults.md
		build: func(b *builder) {
			m := testMessage(77, 10)
			p, err := m.AppendTo(nil)
			require.NoError(b.t, err)
			b.add(19).raw(p).raw(p).roll().raw(p)
		},
		records: 1, kind: EndTorn, offset: 4096 + 140, next: -1, reason: "got a record of physical offset 77, want 4236",
	},
	{
		name: "record inside a torn record's body",
		build: func(b *builder) {
			b.add(19)
			inner := testMessage(5, 10)
			p, err := inner.AppendTo(nil)
			require.NoError(b.t, err)
			outer := testMessage(b.end(), 0)
			outer.Body = p
			p, err = outer.AppendTo(nil)
			require.NoError(b.t, err)
			b.raw(p[:len(p)-60])
		},
		records: 1, kind: EndTorn, offset: 4096 + 140, next: -1,
	},
	{
		name: "two damaged records, the second in its body",
		build: func(b *builder) {
			b.add(19, 19, 19, 19)
			b.at(b.records[1])[4] ^= 1
			b.at(b.records[2])[90] ^= 1
		},
		records: 1, kind: EndCorrupt, offset: 4096 + 140, next: 4096 + 3*140,
	},
	{
		name:    "damage in the first record of all",
		build:   func(b *builder) { b.add(19, 19); b.at(4096)[7] = 1 },
		records: 0, kind: EndCorrupt, offset: 4096, next: 4096 + 140,
	},
	{
		name:    "nothing but garbage",
		build:   func(b *builder) { b.raw(garbage(4096)).roll().raw(garbage(4096)) },
		records: 0, kind: EndTorn, offset: 4096, next: -1,
	},
	{
		name:    "record announcing more than its file has",
		build:   func(b *builder) { b.add(19, 19); b.at(b.records[1])[1] = 1 },
		records: 1, kind: EndTorn, offset: 4096 + 140, next: -1, reason: "totalSize",
	},
}

func TestEndKinds(t *testing.T) {
	require.Equal(t, 140-19, overhead(t), "the offsets of the table stand on this")
	for _, c := range endCases {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(t, 4096, 4096)
			c.build(b)
			dir := b.write()
			l := openLog(t, dir)
			got := scan(t, l, -1, ScanOptions{})
			require.Len(t, got.records, c.records)
			require.Equal(t, c.kind, got.end.Kind)
			require.Equal(t, c.offset, got.end.Offset)
			require.Equal(t, c.next, got.end.NextValid)
			i := 0
			for int64(i+1) < int64(len(b.files)) && got.end.Offset-got.end.FileOffset > b.first+int64(i)*4096 {
				i++
			}
			require.Equal(t, b.path(dir, i), got.end.File)
			if c.kind == EndClean {
				require.NoError(t, got.err)
				require.NoError(t, got.end.Reason)
			} else {
				class := map[EndKind]error{EndTorn: ErrTorn, EndCorrupt: ErrCorrupt}[c.kind]
				require.ErrorIs(t, got.err, class)
				require.ErrorContains(t, got.err, fmt.Sprintf("%s+%d", got.end.File, got.end.FileOffset))
				require.ErrorContains(t, got.end.Reason, c.reason)
				if c.next >= 0 {
					require.ErrorContains(t, got.err, fmt.Sprintf("next valid record at physical offset %d", c.next))
				}
			}

			end, err := l.End(ScanOptions{})
			require.NoError(t, err)
			if c.ends == EndNone {
				require.Equal(t, got.end, end)
			} else {
				require.Equal(t, c.ends, end.Kind)
				require.Equal(t, b.end(), end.Offset)
			}
		})
	}
}

func TestScanOnFromNextValid(t *testing.T) {
	b := newBuilder(t, 4096, 0)
	for range 60 {
		b.add(100)
	}
	b.at(b.records[20])[5] = 0
	b.at(b.records[41])[5] = 0
	l := b.open()
	var all []int64
	var damaged []int64
	for from := int64(-1); ; {
		got := scan(t, l, from, ScanOptions{})
		all = append(all, got.records...)
		if got.end.Kind == EndClean {
			break
		}
		damaged = append(damaged, got.end.Offset)
		from = got.end.NextValid
	}
	require.Equal(t, []int64{b.records[20], b.records[41]}, damaged)
	require.Len(t, all, 58)
}

// TestSearchIsBounded: when too much data is no record, the end must not be called torn, and the beginnings of later files
// still count.
func TestSearchIsBounded(t *testing.T) {
	b := newBuilder(t, 4096, 0).add(19)
	b.raw(garbage(3000)).add(19)
	b.roll().raw(garbage(4096)).roll()
	for _, c := range []struct {
		name  string
		bytes int64
		next  int64
	}{{"enough", 3500, 140 + 3000}, {"ends inside the garbage", 2000, -1}, {"nothing", 0, -1}} {
		t.Run(c.name, func(t *testing.T) {
			l := b.open()
			l.probeBytes = c.bytes
			got := scan(t, l, -1, ScanOptions{})
			require.Equal(t, EndCorrupt, got.end.Kind)
			require.ErrorIs(t, got.err, ErrCorrupt)
			require.Equal(t, c.next, got.end.NextValid)
			if c.next < 0 {
				require.ErrorContains(t, got.err, "given up")
			}
		})
	}
	b.add(20)
	l := b.open()
	l.probeBytes = 0
	require.Equal(t, int64(2*4096), scan(t, l, -1, ScanOptions{}).end.NextValid)

	z := newBuilder(t, 4096, 0).add(19).roll().roll().open()
	z.probeBytes = 0
	require.Equal(t, EndClean, scan(t, z, -1, ScanOptions{}).end.Kind, "zeros do not count")
}

func TestEndBeginsAtTheLastGoodFile(t *testing.T) {
	b := newBuilder(t, 4096, 0)
	for range 100 {
		b.add(100)
	}
	require.Greater(t, len(b.files), 4)
	b.at(b.records[3])[4]++ // in the first file: not seen
	l := b.open()
	end, err := l.End(ScanOptions{CheckCRC: true})
	require.NoError(t, err)
	require.Equal(t, clean(b, l, b.end()), end)

	last := int64(len(b.files)-1) * 4096
	b.at(last)[100]++ // the body of the last file's first record
	l = b.open()
	end, err = l.End(ScanOptions{CheckCRC: true})
	require.NoError(t, err)
	require.Equal(t, EndCorrupt, end.Kind)
	require.Equal(t, last, end.Offset)
	end, err = l.End(ScanOptions{})
	require.NoError(t, err)
	require.Equal(t, EndClean, end.Kind)
}

func TestEndBeginsAtAFiller(t *testing.T) {
	b := newBuilder(t, 4096, 0).add(10)
	b.raw(garbage(100)).roll().blank() // damage, then a file that is all filler, then one made ahead
	end, err := b.open().End(ScanOptions{})
	require.NoError(t, err)
	require.Equal(t, EndClean, end.Kind)
	require.Equal(t, int64(2*4096), end.Offset)
	b.files[1][3]++ // a filler of another size
	end, err = b.open().End(ScanOptions{})
	require.NoError(t, err)
	require.Equal(t, EndTorn, end.Kind)
	require.Equal(t, b.records[0]+int64(b.sizes[0]), end.Offset)
}

func TestEndKindString(t *testing.T) {
	for k, s := range map[EndKind]string{
		EndNone: "no end", EndClean: "clean end", EndTorn: "torn end", EndCorrupt: "corruption", EndKind(9): "EndKind(9)",
	} {
		require.Equal(t, s, k.String())
	}
}

// FuzzScan feeds files of arbitrary bytes to a scan. Whatever they hold:
//
//	the records follow one another, in one file or from a filler to the beginning of the next
//	each of them can be read at its offset
//	the error is nil exactly when the end is clean; a clean end has only zeros behind it, or a filler in the last file
//	a torn end has no next valid record; a corrupt one has one behind it that can be read
func FuzzScan(f *testing.F) {
	const fileSize, first = 4096, 4096
	for _, c := range endCases {
		b := newBuilder(f, fileSize, first)
		c.build(b)
		f.Add(bytes.Join(b.files, nil))
	}
	small := newBuilder(f, fileSize, first).add(10, 20, 0, 3000, 2000, 1, 2, 3, 4)
	f.Add(bytes.Join(small.files, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return // no file: TestEmptyLogs
		}
		b := newBuilder(t, fileSize, first)
		for len(data) > 0 && len(b.files) < 4 {
			n := min(fileSize, len(data))
			b.roll().raw(data[:n])
			data = data[n:]
		}
		l := b.open()
		s := l.Scanner(-1, ScanOptions{CheckCRC: true})
		defer s.Close()
		at := int64(first)
		for s.Next() {
			r := *s.Record()
			if r.PhyOffset != at {
				require.Zero(t, r.PhyOffset%fileSize)
				require.Greater(t, r.PhyOffset, at)
				size, ok := message.BlankSize(b.at(at))
				require.True(t, ok)
				require.Equal(t, fileSize-at%fileSize, int64(size))
			}
			at = r.PhyOffset + int64(r.TotalSize)
			release, err := l.Read(r.PhyOffset, r.TotalSize, true, new(message.Record))
			require.NoError(t, err)
			release()
		}
		end := s.End()
		require.GreaterOrEqual(t, end.Offset, at)
		require.Equal(t, end.Kind == EndClean, s.Err() == nil)
		if end.Kind == EndClean {
			rest := bytes.Join(b.files, nil)[end.Offset-first:]
			size, blank := message.BlankSize(rest)
			require.True(t, int64(len(bytes.TrimLeft(rest, "\x00"))) == 0 || blank && int(size) == len(rest))
		}
		if end.Kind == EndTorn {
			require.Equal(t, int64(-1), end.NextValid)
		}
		if end.Kind == EndCorrupt {
			require.Greater(t, end.NextValid, end.Offset-1)
			release, err := l.Read(end.NextValid, 0, true, new(message.Record))
			require.NoError(t, err)
			release()
		}
		var ee *EndError
		require.Equal(t, s.Err() != nil, errors.As(s.Err(), &ee))
	})
}
