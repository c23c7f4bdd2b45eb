package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// dumpedLine has the fields that the tests look at.
type dumpedLine struct {
	T               string
	Topic           string
	QueueID         int32
	QueueOffset     int64
	CommitLogOffset int64
	Size            int32
	TagsCode        int64
	RawCrc32        *uint32
	Min, Max        int64
	Readable        int64
	CqCrc32         uint32
	Unreadable      int64
	MsgTopic        string
	Damaged         string
}

type dumpProblem struct {
	key  cq.Key
	slot int64
	err  error
}

// dump opens the store at root, dumps it and closes it.
func dump(t *testing.T, root string, o DumpOptions) (lines []dumpedLine, rep DumpReport, problems []dumpProblem, err error) {
	t.Helper()
	v, err := OpenView(root, ViewOptions{Kind: cq.KindFile})
	require.NoError(t, err)
	defer func() { require.NoError(t, v.Close()) }()
	o.OnProblem = func(k cq.Key, slot int64, err error) { problems = append(problems, dumpProblem{k, slot, err}) }
	var out bytes.Buffer
	rep, err = Dump(t.Context(), &out, v, o)
	for s := bufio.NewScanner(&out); s.Scan(); {
		var l dumpedLine
		require.NoError(t, json.Unmarshal(s.Bytes(), &l), "%s", s.Text())
		lines = append(lines, l)
	}
	return lines, rep, problems, err
}

var allQueues = DumpOptions{QueueID: -1}

func TestDumpShowsEveryUnit(t *testing.T) {
	root, gen := generate(t, variedOptions())
	want, _, _ := unitsOfLog(t, root)
	lines, rep, problems, err := dump(t, root, allQueues)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Equal(t, DumpReport{Queues: int64(gen.Queues), Messages: gen.Units}, rep)

	var last, k cq.Key
	var units []cq.Unit
	slot := int64(0)
	for _, l := range lines {
		if l.T == "queue" {
			last, k = k, cq.Key{Topic: l.Topic, QueueID: l.QueueID}
			require.Negative(t, last.Compare(k), "%s before %s", last, k)
			require.Len(t, units, int(slot), "messages of %s", last)
			units, slot = want[k], 0
			crc := crc32.NewIEEE()
			for _, u := range units {
				_ = binary.Write(crc, binary.BigEndian, u.PhyOffset)
				_ = binary.Write(crc, binary.BigEndian, u.Size)
				_ = binary.Write(crc, binary.BigEndian, u.TagsCode)
			}
			require.Equal(t, dumpedLine{
				T: "queue", Topic: k.Topic, QueueID: k.QueueID, Max: int64(len(units)), Readable: int64(len(units)), CqCrc32: crc.Sum32(),
			}, l)
			continue
		}
		u := units[slot]
		require.Equal(t, "msg", l.T)
		require.Equal(t, cq.Key{Topic: l.Topic, QueueID: l.QueueID}, k)
		require.Equal(t, slot, l.QueueOffset)
		require.Equal(t, cq.Unit{PhyOffset: l.CommitLogOffset, Size: l.Size, TagsCode: l.TagsCode, StoreTimestampMs: cq.NoTimestamp}, u)
		require.Equal(t, k.IsLMQ(), l.MsgTopic != "")
		slot++
	}
	require.Len(t, units, int(slot))
}

func TestDumpFilters(t *testing.T) {
	o := variedOptions()
	root, _ := generate(t, o)
	count := func(o DumpOptions) (queues, messages int) {
		lines, _, _, err := dump(t, root, o)
		require.NoError(t, err)
		for _, l := range lines {
			if l.T == "queue" {
				queues++
			} else {
				messages++
			}
		}
		return queues, messages
	}
	queues, messages := count(DumpOptions{QueueID: -1, QueuesOnly: true})
	require.Equal(t, []int{29, 0}, []int{queues, messages})
	queues, messages = count(DumpOptions{QueueID: -1, Limit: 3})
	require.Equal(t, []int{29, 3 * 29}, []int{queues, messages})
	queues, messages = count(DumpOptions{QueueID: -1, Topic: "sample_1", Limit: 1})
	require.Equal(t, []int{2, 2}, []int{queues, messages})
	queues, messages = count(DumpOptions{QueueID: 1, Limit: 1})
	require.Equal(t, []int{4, 4}, []int{queues, messages}, "one of each topic and one delay level")
	queues, messages = count(DumpOptions{QueueID: 0, Topic: "nobody"})
	require.Equal(t, []int{0, 0}, []int{queues, messages})
}

// patch overwrites bytes of a file.
func patch(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func unitImage(u cq.Unit) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(u.PhyOffset))
	b = binary.BigEndian.AppendUint32(b, uint32(u.Size))
	return binary.BigEndian.AppendUint64(b, uint64(u.TagsCode))
}

// A dump of a damaged store shows what is there: the good, the bad with what the log has in its place, and the rest.
func TestDumpDamaged(t *testing.T) {
	o := DefaultGenerateOptions()
	o.Messages, o.Topics, o.QueuesPerTopic, o.CommitLogFileBytes, o.QueueFileBytes = 100, 1, 1, 65536, 4000
	key := cq.Key{Topic: "sample_0"}
	tests := []struct {
		name     string
		unit     *cq.Unit // put in slot 50
		log      []byte   // put at the start of the record of slot 50
		readable int64
		hasCRC   bool
		problem  string
	}{
		{name: "unit past the files", unit: &cq.Unit{PhyOffset: 1 << 40, Size: 300}, readable: 99, problem: "outside of the files"},
		{name: "unit over the end of a file", unit: &cq.Unit{PhyOffset: 65500, Size: 300}, readable: 99, problem: "commitlog/00000000000000000000+65500"},
		{name: "unit past the last record", unit: &cq.Unit{PhyOffset: 60000, Size: 300}, readable: 100, hasCRC: true, problem: "+60000"},
		{name: "unit into a record", unit: &cq.Unit{PhyOffset: 17, Size: 300}, readable: 100, hasCRC: true, problem: "+17"},
		{name: "unit of another size", unit: &cq.Unit{PhyOffset: 0, Size: 100}, readable: 100, hasCRC: true, problem: "want 100 bytes"},
		{name: "record overwritten", log: []byte("garbage!"), readable: 100, hasCRC: true, problem: "corrupt"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, _ := generate(t, o)
			units, _, _ := unitsOfLog(t, root)
			logFile := filepath.Join(root, "commitlog/00000000000000000000")
			at := units[key][50]
			if tt.unit != nil {
				at = *tt.unit
				patch(t, filepath.Join(root, "consumequeue/sample_0/0/00000000000000000000"), 50*20, unitImage(at))
			} else {
				patch(t, logFile, at.PhyOffset, tt.log)
			}
			before := treeSums(t, root)
			lines, rep, problems, err := dump(t, root, allQueues)
			require.NoError(t, err)
			require.Equal(t, before, treeSums(t, root))
			require.Len(t, problems, 1)
			require.Equal(t, key, problems[0].key)
			require.EqualValues(t, 50, problems[0].slot)
			require.ErrorContains(t, problems[0].err, tt.problem)
			require.Equal(t, DumpReport{Queues: 1, Messages: 99, Bad: 1}, rep)
			require.Equal(t, tt.readable, lines[0].Readable)
			require.Zero(t, lines[0].Unreadable)
			require.Len(t, lines, 101)
			want := dumpedLine{T: "bad", Topic: key.Topic, QueueOffset: 50, CommitLogOffset: at.PhyOffset, Size: at.Size}
			if tt.hasCRC {
				b, err := os.ReadFile(logFile)
				require.NoError(t, err)
				crc := crc32.ChecksumIEEE(b[at.PhyOffset:at.End()])
				want.RawCrc32 = &crc
			}
			require.Equal(t, want, lines[51])
		})
	}
}

// A message whose body or properties are damaged is printed, and told: in its line, as a problem, and in the report.
func TestDumpDamagedMessages(t *testing.T) {
	o := viewOptions(StoreTypeFile)
	o.EnabledAppendPropCRC = true
	root := t.TempDir()
	s := openStore(t, root, o)
	var at []int64
	for range 5 {
		m := plainMessage("T", "some body")
		m.Properties = message.AppendProperty(nil, message.PropertyKeys, "keyword")
		r, err := s.Put(t.Context(), m)
		require.NoError(t, err)
		at = append(at, r.Append.PhyOffset)
	}
	require.NoError(t, s.Close())
	logFile := filepath.Join(root, "commitlog/00000000000000000000")
	b, err := os.ReadFile(logFile)
	require.NoError(t, err)
	patch(t, logFile, at[1]+int64(bytes.Index(b[at[1]:], []byte("body"))), []byte("B"))
	patch(t, logFile, at[3]+int64(bytes.Index(b[at[3]:], []byte("keyword"))), []byte("K"))
	lines, rep, problems, err := dump(t, root, allQueues)
	require.NoError(t, err)
	require.Equal(t, DumpReport{Queues: 1, Messages: 5, Damaged: 2}, rep)
	require.EqualValues(t, 5, lines[0].Readable)
	var damaged []string
	for _, l := range lines[1:] {
		require.Equal(t, "msg", l.T)
		damaged = append(damaged, l.Damaged)
	}
	require.Equal(t, []string{"", "body", "", "properties", ""}, damaged)
	require.Len(t, problems, 2)
	for i, slot := range []int64{1, 3} {
		require.Equal(t, slot, problems[i].slot)
		require.ErrorContains(t, problems[i].err, fmt.Sprintf("the record at physical offset %d is damaged: ", at[slot]))
	}
}

// A queue that cannot be read at all does not hide the others, and is not passed over in silence.
func TestDumpBrokenQueue(t *testing.T) {
	o := DefaultGenerateOptions()
	o.Messages, o.Topics, o.QueuesPerTopic, o.CommitLogFileBytes, o.QueueFileBytes = 1000, 1, 2, 1<<20, 4000
	const first = "consumequeue/sample_0/0/00000000000000000000"
	tests := map[string]func(t *testing.T, root string){
		"file cut": func(t *testing.T, root string) { require.NoError(t, os.Truncate(filepath.Join(root, first), 3999)) },
		"middle file lost": func(t *testing.T, root string) {
			require.NoError(t, os.Remove(filepath.Join(root, "consumequeue/sample_0/0/00000000000000004000")))
		},
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			root, _ := generate(t, o)
			damage(t, root)
			lines, rep, problems, err := dump(t, root, allQueues)
			require.EqualError(t, err, "dump store "+root+": 1 queues could not be read")
			require.EqualValues(t, 1, rep.Queues)
			require.EqualValues(t, 1, rep.Broken)
			require.EqualValues(t, 1, lines[0].QueueID)
			require.Len(t, problems, 1)
			require.ErrorContains(t, problems[0].err, "sample_0/0/0000000000000000")
		})
	}
}

// A slot whose unit cannot be one is counted, and told with its place.
func TestDumpHole(t *testing.T) {
	o := DefaultGenerateOptions()
	o.Messages, o.Topics, o.QueuesPerTopic, o.CommitLogFileBytes, o.QueueFileBytes = 1000, 1, 1, 1<<20, 4000
	root, _ := generate(t, o)
	patch(t, filepath.Join(root, "consumequeue/sample_0/0/00000000000000000000"), 50*20, unitImage(cq.Unit{PhyOffset: 5, Size: -1}))
	lines, rep, problems, err := dump(t, root, allQueues)
	require.NoError(t, err)
	require.Equal(t, DumpReport{Queues: 1, Messages: 999, Unreadable: 1}, rep)
	require.EqualValues(t, 999, lines[0].Readable)
	require.EqualValues(t, 1, lines[0].Unreadable)
	require.Len(t, problems, 1)
	require.EqualValues(t, 50, problems[0].slot)
	require.ErrorContains(t, problems[0].err, "sample_0/0/00000000000000000000+1000")
}

// The first log file expired: queues begin with what is left.
func TestDumpExpired(t *testing.T) {
	o := DefaultGenerateOptions()
	o.Messages, o.CommitLogFileBytes, o.QueueFileBytes = 1000, 65536, 4000
	root, _ := generate(t, o)
	require.NoError(t, os.Remove(filepath.Join(root, "commitlog/00000000000000000000")))
	lines, rep, problems, err := dump(t, root, allQueues)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Zero(t, rep.Unreadable)
	for _, l := range lines {
		if l.T == "queue" {
			require.Positive(t, l.Min)
			require.Equal(t, l.Max-l.Min, l.Readable)
		} else {
			require.GreaterOrEqual(t, l.CommitLogOffset, int64(65536))
		}
	}
}

func TestDumpEnds(t *testing.T) {
	root, _ := generate(t, variedOptions())
	v, err := OpenView(root, ViewOptions{Kind: cq.KindFile})
	require.NoError(t, err)
	defer v.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Dump(ctx, new(bytes.Buffer), v, allQueues)
	require.ErrorIs(t, err, context.Canceled)
	_, err = Dump(t.Context(), failingWriter{}, v, allQueues)
	require.ErrorContains(t, err, "write dump: no space")
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestOpenView(t *testing.T) {
	root, _ := generate(t, DefaultGenerateOptions())
	t.Run("unclean", func(t *testing.T) {
		put(t, root, "abort", "1")
		v, err := OpenView(root, ViewOptions{Kind: cq.KindFile})
		require.NoError(t, err)
		require.True(t, v.Unclean)
		require.NoError(t, v.Close())
		require.NoError(t, v.Close())
	})
	t.Run("no rocks", func(t *testing.T) {
		_, err := OpenView(root, ViewOptions{Kind: cq.KindRocks})
		require.ErrorContains(t, err, "no RocksDB consume queues")
	})
	t.Run("no kind", func(t *testing.T) {
		_, err := OpenView(root, ViewOptions{Kind: cq.KindCombine})
		require.ErrorContains(t, err, `not "combine"`)
	})
	t.Run("no store", func(t *testing.T) {
		_, err := OpenView(filepath.Join(root, "config"), ViewOptions{Kind: cq.KindFile})
		require.ErrorContains(t, err, "no RocketMQ store")
	})
	t.Run("in use", func(t *testing.T) {
		_, release := holdStore(t, root)
		defer release()
		_, err := OpenView(root, ViewOptions{Kind: cq.KindFile})
		require.ErrorIs(t, err, mmap.ErrLocked)
	})
	t.Run("queues only in RocksDB", func(t *testing.T) {
		require.NoError(t, os.RemoveAll(filepath.Join(root, "consumequeue")))
		put(t, root, "consumequeue_rocksdb/CURRENT", "x")
		_, err := OpenView(root, ViewOptions{Kind: cq.KindFile})
		require.ErrorContains(t, err, "they are in RocksDB")
	})
	t.Run("log file of another size", func(t *testing.T) {
		require.NoError(t, os.Truncate(filepath.Join(root, "commitlog/00000000000000000000"), 100))
		put(t, root, "commitlog/00000000000000000100", "short")
		_, err := OpenView(root, ViewOptions{Kind: cq.KindFile})
		require.Error(t, err)
		l, err := LockExclusive(root) // nothing stays held
		require.NoError(t, err)
		require.NoError(t, l.Close())
	})
}
