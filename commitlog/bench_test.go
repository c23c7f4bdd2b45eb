package commitlog

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
)

// BenchmarkScan walks a page-cached log of 300-byte records; one op is one record.
func BenchmarkScan(b *testing.B) {
	const recordBytes, fileBytes, files = 300, 64 << 20, 4
	dir, _ := benchLog(b, recordBytes, fileBytes, files)
	for _, o := range []ScanOptions{{}, {CheckCRC: true}, {NoReadahead: true}, {CheckCRC: true, NoReadahead: true}} {
		b.Run(fmt.Sprintf("crc=%t/readahead=%t", o.CheckCRC, !o.NoReadahead), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(recordBytes)
			for n := 0; n < b.N; {
				// A new log each time: mapped pages of the last round would spare this one its page faults.
				l := openLog(b, dir)
				s := l.Scanner(-1, o)
				for n < b.N && s.Next() {
					n++
				}
				require.NoError(b, s.Err())
				s.Close()
				require.NoError(b, l.Close())
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
		})
	}
}

// BenchmarkRead reads records at random places of a page-cached, mapped log.
func BenchmarkRead(b *testing.B) {
	const recordBytes, fileBytes, files = 300, 64 << 20, 2
	dir, records := benchLog(b, recordBytes, fileBytes, files)
	for _, crc := range []bool{false, true} {
		b.Run(fmt.Sprintf("crc=%t", crc), func(b *testing.B) {
			l := openLog(b, dir)
			var r message.Record
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				release, err := l.Read(records[i*7919%len(records)], recordBytes, crc, &r)
				if err != nil {
					b.Fatal(err)
				}
				release()
			}
		})
	}
}

// benchLog writes full files of equal records and returns where they are.
func benchLog(b *testing.B, recordBytes int, fileBytes int64, files int) (dir string, records []int64) {
	dir = b.TempDir()
	body := recordBytes - overhead(b)
	var buf []byte
	for i := range files {
		from := int64(i) * fileBytes
		f, err := os.Create(filepath.Join(dir, mappedfile.Name(from)))
		require.NoError(b, err)
		w := bufio.NewWriterSize(f, 1<<20)
		at := from
		for ; at+int64(recordBytes)+message.BlankHeaderSize <= from+fileBytes; at += int64(recordBytes) {
			m := testMessage(at, body)
			buf, err = m.AppendTo(buf[:0])
			require.NoError(b, err)
			_, _ = w.Write(buf) // Flush answers its error
			records = append(records, at)
		}
		_, _ = w.Write(message.AppendBlank(nil, int32(from+fileBytes-at)))
		require.NoError(b, w.Flush())
		require.NoError(b, f.Truncate(fileBytes))
		require.NoError(b, f.Close())
	}
	return dir, records
}
