package commitlog

import (
	"bytes"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

// addWith appends a record whose last property is that one.
func (b *builder) addWith(bodyBytes int, name, value string) *builder {
	m := testMessage(b.end(), bodyBytes)
	m.Properties = message.AppendProperty(m.Properties, name, value)
	p, err := m.AppendTo(nil)
	require.NoError(b.t, err)
	b.records = append(b.records, b.end())
	b.sizes = append(b.sizes, int32(len(p)))
	return b.raw(p)
}

// zeroEnd makes the builder's last record one whose properties end in n zeros.
func (b *builder) zeroEnd(n int) {
	at := b.end() - int64(n)
	clear(b.at(at)[:n])
}

// A record whose last page was lost decodes when the page begins within the properties. It is no record; one whose properties are meant to
// end in zeros is.
func TestRecordThatLostItsLastPage(t *testing.T) {
	const fileSize = 4 * pageBytes
	// The builder's properties are some 18 bytes long; the record ends n bytes behind a page.
	ending := func(b *builder, n int) *builder {
		return b.add(pageBytes - int(b.end()%pageBytes) - overhead(t) + n)
	}
	for _, c := range []struct {
		name    string
		build   func(b *builder)
		records int
		kind    EndKind
	}{
		{"lost", func(b *builder) { ending(b, 5).zeroEnd(5) }, 1, EndTorn},
		{"whole", func(b *builder) { ending(b, 5) }, 2, EndClean},
		{"zeros begin before the page", func(b *builder) { ending(b, 5).zeroEnd(7) }, 1, EndTorn},
		{"zeros begin behind the page", func(b *builder) { ending(b, 5).zeroEnd(4) }, 2, EndClean},
		{"cut in a value of a client's own", func(b *builder) { b.add(20).zeroEnd(3) }, 2, EndClean},
		{"cut before a value", func(b *builder) { b.add(20).zeroEnd(8) }, 1, EndTorn},
		{"cut between two properties", func(b *builder) { b.add(20).zeroEnd(11) }, 1, EndTorn},
		{"cut in a value that has no zeros", func(b *builder) { b.addWith(20, "UNIQ_KEY", "7F0000010001").zeroEnd(1) }, 1, EndTorn},
		{"cut in the checksum", func(b *builder) { b.addWith(20, message.PropertyCRC, "0123456789").zeroEnd(4) }, 1, EndTorn},
		{"cut, and a record follows", func(b *builder) { b.add(20).zeroEnd(8); b.add(20) }, 3, EndClean},
		{"a record follows", func(b *builder) { ending(b, 5).zeroEnd(5); b.add(10) }, 3, EndClean},
		{"a filler follows", func(b *builder) { ending(b, 5).zeroEnd(5); b.blank().add(10) }, 3, EndClean},
		{"its copy follows in the next file", func(b *builder) { ending(b, 5).zeroEnd(5); b.roll().add(10) }, 1, EndCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(t, fileSize, 0).add(20)
			c.build(b)
			got := scan(t, b.open(), -1, ScanOptions{CheckCRC: true})
			require.Len(t, got.records, c.records)
			require.Equal(t, c.kind, got.end.Kind, "%v", got.err)
		})
	}
}

// What a loss of power took from a file that was not the last one is found before anything is appended behind the hole.
func TestFRB14HoleBeforeTheLastFileIsFound(t *testing.T) {
	for _, c := range []struct {
		name      string
		durableTo int64
		refused   bool
	}{
		{"nothing known", 0, true},
		{"durable to before the hole", 4096, true},
		{"durable to the last file", 8192, false},
		{"stopped cleanly", math.MaxInt64, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(t, 4096, 0).add(1000, 1000, 1000)
			b.add(1000, 1000, 1000, 1000, 1000, 1000)
			require.Len(t, b.files, 3)
			clear(b.at(b.records[4])[100:500])
			dir := b.write()
			o := testOptions(dir, false, WriteMapped)
			o.FileSize, o.DurableTo = 4096, c.durableTo
			before, err := os.ReadFile(b.path(dir, 1))
			require.NoError(t, err)
			w, err := OpenWriter(o)
			if c.refused {
				require.ErrorIs(t, err, ErrCorrupt)
				var ee *EndError
				require.ErrorAs(t, err, &ee)
				require.Equal(t, b.records[4], ee.Offset)
				require.Equal(t, b.records[5], ee.NextValid)
			} else {
				require.NoError(t, err)
				require.NoError(t, w.Close())
			}
			after, err := os.ReadFile(b.path(dir, 1))
			require.NoError(t, err)
			require.True(t, bytes.Equal(before, after), "the damaged file was changed")
		})
	}
}
