package commitlog

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
)

// builder makes the files of a log in memory, so that a test can damage any byte before it writes them. Offsets are
// physical; the first file begins at first.
type builder struct {
	t        testing.TB
	fileSize int64
	first    int64
	files    [][]byte
	used     int     // bytes used in the last file
	records  []int64 // where each record begins
	sizes    []int32
}

func newBuilder(t testing.TB, fileSize, first int64) *builder {
	return &builder{t: t, fileSize: fileSize, first: first}
}

func testMessage(phy int64, bodyBytes int) message.Message {
	host := message.Host{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Port: 10911}
	body := make([]byte, bodyBytes)
	for i := range body {
		body[i] = byte(phy + int64(i)*31 + 1)
	}
	return message.Message{
		Topic: "TopicTest", QueueID: int32(phy % 4), QueueOffset: phy / 7, PhyOffset: phy,
		BornTimestampMs: 1_700_000_000_000 + phy, StoreTimestampMs: 1_700_000_000_500 + phy,
		BornHost: host, StoreHost: host, Body: body,
		Properties: message.AppendProperty(message.AppendProperty(nil, "TAGS", "TagA"), "KEYS", "k1 k2"),
	}
}

// overhead is the size of a test record without its body.
func overhead(t testing.TB) int {
	m := testMessage(0, 0)
	n, err := m.EncodedSize()
	require.NoError(t, err)
	return n
}

// end returns the physical offset at which the next byte goes.
func (b *builder) end() int64 {
	if len(b.files) == 0 {
		return b.first
	}
	return b.first + int64(len(b.files)-1)*b.fileSize + int64(b.used)
}

// roll begins the next file; what is left of the current one stays zero.
func (b *builder) roll() *builder {
	b.files = append(b.files, make([]byte, b.fileSize))
	b.used = 0
	return b
}

// raw puts bytes at the end, whatever they are. They must fit.
func (b *builder) raw(p []byte) *builder {
	if len(b.files) == 0 {
		b.roll()
	}
	require.LessOrEqual(b.t, b.used+len(p), int(b.fileSize))
	copy(b.files[len(b.files)-1][b.used:], p)
	b.used += len(p)
	return b
}

// blank fills the current file and begins the next.
func (b *builder) blank() *builder {
	return b.raw(message.AppendBlank(nil, int32(b.fileSize)-int32(b.used))).roll()
}

// add appends records of these body sizes, rolling as the store does.
func (b *builder) add(bodyBytes ...int) *builder {
	if len(b.files) == 0 {
		b.roll()
	}
	for _, n := range bodyBytes {
		size := overhead(b.t) + n
		if int64(b.used+size+message.BlankHeaderSize) > b.fileSize {
			b.blank()
		}
		b.force(n)
	}
	return b
}

// force appends a record without asking whether a filler would fit behind it.
func (b *builder) force(bodyBytes int) *builder {
	m := testMessage(b.end(), bodyBytes)
	p, err := m.AppendTo(nil)
	require.NoError(b.t, err)
	b.records = append(b.records, b.end())
	b.sizes = append(b.sizes, int32(len(p)))
	return b.raw(p)
}

// at returns the bytes from physical offset phy to the end of its file, to be damaged.
func (b *builder) at(phy int64) []byte {
	i := (phy - b.first) / b.fileSize
	return b.files[i][phy-b.first-i*b.fileSize:]
}

// path returns where file i of the log in dir lies.
func (b *builder) path(dir string, i int) string {
	return filepath.Join(dir, mappedfile.Name(b.first+int64(i)*b.fileSize))
}

// write writes the files to a new directory. Trailing zeros are left as holes.
func (b *builder) write() string {
	dir := b.t.TempDir()
	for i, p := range b.files {
		n := len(p)
		for n > 0 && p[n-1] == 0 {
			n--
		}
		require.NoError(b.t, os.WriteFile(b.path(dir, i), p[:n], 0o644))
		require.NoError(b.t, os.Truncate(b.path(dir, i), b.fileSize))
	}
	return dir
}

// open writes the files and opens the log.
func (b *builder) open() *Log { return openLog(b.t, b.write()) }

func openLog(t testing.TB, dir string) *Log {
	l, err := Open(dir, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// scanned is what a scan from the beginning finds.
type scanned struct {
	records []int64
	end     ScanEnd
	err     error
}

func scan(t testing.TB, l *Log, from int64, o ScanOptions) scanned {
	var got scanned
	s := l.Scanner(from, o)
	defer s.Close()
	for s.Next() {
		got.records = append(got.records, s.Record().PhyOffset)
	}
	require.False(t, s.Next(), "Next after the end")
	got.end, got.err = s.End(), s.Err()
	return got
}
