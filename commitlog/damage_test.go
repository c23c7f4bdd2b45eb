package commitlog

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

// field is a part of the test record, in the drawing of message.Record, and what damage to it does: whether the record is
// still one, without and with checking the body.
type field struct {
	name          string
	off, width    int
	flip, flipCRC bool // survives all bits flipped
	zero, zeroCRC bool // survives zeroed
}

const damageBody = 300 // so that the size takes two bytes

func fields(t *testing.T) []field {
	m := testMessage(0, damageBody)
	var (
		bodyEnd  = 88 + damageBody
		topicEnd = bodyEnd + 1 + len(m.Topic)
		size     = topicEnd + 2 + len(m.Properties)
	)
	n, err := m.EncodedSize()
	require.NoError(t, err)
	require.Equal(t, n, size)
	return []field{
		{"totalSize", 0, 4, false, false, false, false},
		{"magic", 4, 4, false, false, false, false},
		{"bodyCRC", 8, 4, true, false, true, false},
		{"queueId", 12, 4, true, true, true, true},
		{"flag", 16, 4, true, true, true, true},
		{"queueOffset", 20, 8, true, true, true, true},
		{"phyOffset", 28, 8, false, false, false, false},
		{"sysFlag", 36, 4, false, false, true, true}, // flipped: IPv6 hosts, everything moves; it was zero
		{"bornTimestamp", 40, 8, true, true, true, true},
		{"bornHost", 48, 8, true, true, true, true},
		{"storeTimestamp", 56, 8, true, true, true, true},
		{"storeHost", 64, 8, true, true, true, true},
		{"reconsumeTimes", 72, 4, true, true, true, true},
		{"preparedTransactionOffset", 76, 8, true, true, true, true},
		{"bodyLen", 84, 4, false, false, false, false},
		{"body", 88, damageBody, true, false, true, false},
		{"topicLen", bodyEnd, 1, false, false, false, false},
		{"topic", bodyEnd + 1, len(m.Topic), true, true, true, true},
		{"propertiesLen", topicEnd, 2, false, false, false, false},
		{"properties", topicEnd + 2, len(m.Properties), true, true, true, true},
	}
}

// fiveRecords is a log of two files: five records in the first, the second made ahead.
func fiveRecords(t *testing.T) *builder {
	b := newBuilder(t, 8192, 8192)
	for range 5 {
		b.add(damageBody)
	}
	b.files = append(b.files, make([]byte, b.fileSize))
	return b
}

func TestDamagedFields(t *testing.T) {
	for _, f := range fields(t) {
		for _, at := range []int{0, 2, 4} { // which record is damaged
			for _, op := range []string{"flip", "zero"} {
				for _, crc := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/record %d/%s/crc=%t", f.name, at, op, crc), func(t *testing.T) {
						b := fiveRecords(t)
						p := b.at(b.records[at])[f.off : f.off+f.width]
						survives := map[string]bool{"flip": f.flip, "flip+crc": f.flipCRC, "zero": f.zero, "zero+crc": f.zeroCRC}
						if op == "zero" {
							clear(p)
						} else {
							for i := range p {
								p[i] ^= 0xFF
							}
						}
						lost := f.name == "properties" && at == 4 && op == "zero" // properties of zeros with nothing behind
						if crc {
							op += "+crc"
						}
						expectDamage(t, b, at, survives[op] && !lost, ScanOptions{CheckCRC: crc})
					})
				}
			}
		}
	}
}

// expectDamage scans a log of fiveRecords whose record at is damaged.
func expectDamage(t *testing.T, b *builder, at int, survives bool, o ScanOptions) {
	t.Helper()
	dir := b.write()
	got := scan(t, openLog(t, dir), -1, o)
	if survives {
		require.NoError(t, got.err)
		require.Equal(t, b.records, got.records)
		require.Equal(t, EndClean, got.end.Kind)
		return
	}
	require.Equal(t, b.records[:at], append([]int64{}, got.records...))
	require.Equal(t, b.records[at], got.end.Offset)
	require.Equal(t, b.path(dir, 0), got.end.File)
	require.Equal(t, b.records[at]-b.first, got.end.FileOffset)
	require.ErrorContains(t, got.end.Reason, fmt.Sprintf("%s+%d (physical offset %d)", got.end.File, got.end.FileOffset, got.end.Offset))
	require.ErrorContains(t, got.err, fmt.Sprintf("at %s+%d", got.end.File, got.end.FileOffset))
	if at == 4 {
		require.Equal(t, EndTorn, got.end.Kind)
		require.Equal(t, int64(-1), got.end.NextValid)
		require.ErrorIs(t, got.err, ErrTorn)
		require.NotErrorIs(t, &EndError{got.end}, ErrCorrupt)
		return
	}
	require.Equal(t, EndCorrupt, got.end.Kind)
	require.Equal(t, b.records[at+1], got.end.NextValid)
	require.ErrorIs(t, got.err, ErrCorrupt)
	require.NotErrorIs(t, got.err, ErrTorn)
}

// TestFlippedBytes flips each byte of a record in turn.
func TestFlippedBytes(t *testing.T) {
	for _, f := range fields(t) {
		for i := range f.width {
			if f.name == "sysFlag" && i < 3 {
				continue // bits that say nothing about the layout
			}
			b := fiveRecords(t)
			b.at(b.records[2])[f.off+i] ^= 0xFF
			t.Run(fmt.Sprintf("%s+%d", f.name, i), func(t *testing.T) {
				expectDamage(t, b, 2, f.flipCRC, ScanOptions{CheckCRC: true})
			})
		}
	}
}

// TestCutWrites stops the write of the last record after each of its bytes, in a file that was zero before.
func TestCutWrites(t *testing.T) {
	fs := fields(t)
	properties := fs[len(fs)-1].off
	for cut := range properties + fs[len(fs)-1].width + 1 {
		for _, crc := range []bool{false, true} {
			b := fiveRecords(t)
			last := b.records[4]
			clear(b.at(last)[cut:b.sizes[4]])
			got := scan(t, b.open(), -1, ScanOptions{CheckCRC: crc})
			switch {
			case cut <= 2: // the upper half of the size, which is zero
				require.NoError(t, got.err, cut)
				require.Equal(t, b.records[:4], got.records, cut)
				require.Equal(t, EndClean, got.end.Kind, cut)
				require.Equal(t, last, got.end.Offset, cut)
			case cut < properties || cut < int(b.sizes[4]) && !inValue(testMessage(0, 0).Properties[:cut-properties]):
				require.ErrorIs(t, got.err, ErrTorn, cut)
				require.Equal(t, b.records[:4], got.records, cut)
				require.Equal(t, EndTorn, got.end.Kind, cut)
				require.Equal(t, last, got.end.Offset, cut)
			default: // all lengths and the body are there, and a value may end in zeros: nothing can tell
				require.NoError(t, got.err, cut)
				require.Equal(t, b.records, got.records, cut)
			}
		}
	}
}

// inValue tells whether properties end within a value.
func inValue(properties []byte) bool {
	return bytes.IndexByte(properties[bytes.LastIndexByte(properties, 2)+1:], 1) > 0
}

// TestCutWritesBeforeValidRecords does the same where the next file begins with a record: never a clean or torn end.
func TestCutWritesBeforeValidRecords(t *testing.T) {
	fs := fields(t)
	properties := fs[len(fs)-1].off
	for cut := range properties {
		b := newBuilder(t, 8192, 8192)
		for range 5 {
			b.add(damageBody)
		}
		b.blank().add(damageBody)
		clear(b.at(b.records[4])[cut:]) // with the filler
		got := scan(t, b.open(), -1, ScanOptions{})
		require.ErrorIs(t, got.err, ErrCorrupt, cut)
		require.Equal(t, b.records[:4], got.records, cut)
		require.Equal(t, EndCorrupt, got.end.Kind, cut)
		require.Equal(t, b.records[4], got.end.Offset, cut)
		require.Equal(t, b.records[5], got.end.NextValid, cut)
	}
}

// TestLostPages zeroes a run of bytes that begins in a record, as pages that never reached the disk do.
func TestLostPages(t *testing.T) {
	b := newBuilder(t, 64<<10, 0)
	for range 100 {
		b.add(damageBody)
	}
	size := int64(b.sizes[0])
	for page := int64(0); page < b.records[99]/4096; page++ {
		saved := append([]byte{}, b.files[0]...)
		clear(b.files[0][page*4096 : page*4096+4096])
		got := scan(t, b.open(), -1, ScanOptions{CheckCRC: true})
		copy(b.files[0], saved)

		require.Equal(t, EndCorrupt, got.end.Kind)
		first := page * 4096 / size // the record that lost bytes
		properties := int64(fields(t)[19].off)
		if page*4096 > first*size+properties {
			first++ // it lost properties only and is still a record
		}
		next := (page*4096 + 4096 + size - 1) / size
		require.Equal(t, b.records[:first], append([]int64{}, got.records...))
		require.Equal(t, b.records[next], got.end.NextValid)
	}
}

func TestFieldPlaces(t *testing.T) {
	m := testMessage(0x0102030405060708, 3)
	p, err := m.AppendTo(nil)
	require.NoError(t, err)
	require.Equal(t, []byte{1, 2, 3, 4, 5, 6, 7, 8}, p[phyOffsetAt:phyOffsetAt+8])
	for _, topic := range []string{"short", string(make([]byte, 200))} { // V1, V2
		m.Topic = topic
		p, err = m.AppendTo(nil)
		require.NoError(t, err)
		require.Equal(t, magicPrefix, p[magicAt:magicAt+3])
	}
	var r message.Record
	require.NoError(t, r.Decode(p, true))
	require.Equal(t, message.MagicV2, r.Magic)
}
