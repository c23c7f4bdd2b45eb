package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// variedOptions makes a store with everything in it, over several log and queue files.
func variedOptions() GenerateOptions {
	o := DefaultGenerateOptions()
	o.Messages, o.Topics, o.QueuesPerTopic, o.Keys = 3000, 3, 2, 2
	o.Delayed, o.Transactions, o.LMQ = true, true, 5
	o.CommitLogFileBytes, o.QueueFileBytes = 256<<10, 4000
	return o
}

// generate makes a store in a fresh directory.
func generate(t *testing.T, o GenerateOptions) (root string, rep GenerateReport) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "store")
	rep, err := Generate(t.Context(), root, o)
	require.NoError(t, err)
	return root, rep
}

// unitsOfLog dispatches the whole log by the rules of the format, as recovery would.
func unitsOfLog(t *testing.T, root string) (units map[cq.Key][]cq.Unit, records []message.Record, end commitlog.ScanEnd) {
	t.Helper()
	log, err := commitlog.Open(NewLayout(root).CommitLogDir(), commitlog.Options{})
	require.NoError(t, err)
	defer log.Close()
	s := log.Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
	defer s.Close()
	units = map[cq.Key][]cq.Unit{}
	add := func(k cq.Key, slot int64, u cq.Unit) {
		require.EqualValues(t, len(units[k]), slot, "slot of %s", k)
		units[k] = append(units[k], u)
	}
	for s.Next() {
		r := s.Record()
		records = append(records, message.Record{PhyOffset: r.PhyOffset, TotalSize: r.TotalSize, StoreTimestampMs: r.StoreTimestampMs, SysFlag: r.SysFlag})
		if !r.OwesUnit() {
			continue
		}
		u := cq.Unit{PhyOffset: r.PhyOffset, Size: r.TotalSize, TagsCode: r.TagsCode(nil), StoreTimestampMs: cq.NoTimestamp}
		add(cq.Key{Topic: string(r.Topic), QueueID: r.QueueID}, r.QueueOffset, u)
		r.MultiDispatch(func(queue []byte, queueID int32, queueOffset int64, ok bool) bool {
			require.True(t, ok)
			add(cq.Key{Topic: string(queue), QueueID: queueID}, queueOffset, u)
			return true
		})
	}
	require.NoError(t, s.Err())
	return units, records, s.End()
}

// The queues of a generated store are what dispatching its log gives, unit for unit.
func TestGenerateQueuesFollowFromTheLog(t *testing.T) {
	o := variedOptions()
	var last int64
	o.Progress = func(done int64) { last = done }
	root, rep := generate(t, o)
	want, records, end := unitsOfLog(t, root)
	require.Len(t, records, 3000)
	require.EqualValues(t, 3000, last)
	require.Equal(t, commitlog.EndClean, end.Kind)
	require.Equal(t, end.Offset, rep.MaxPhyOffset)
	require.Greater(t, rep.LogFiles, int64(3))

	v, err := OpenView(root, ViewOptions{Kind: cq.KindFile})
	require.NoError(t, err)
	defer v.Close()
	require.False(t, v.Unclean)
	units := int64(0)
	var kinds struct{ plain, delayed, light bool }
	for k, err := range v.Queues.Queues() {
		require.NoError(t, err)
		q, ok := v.Queues.Queue(k)
		require.True(t, ok)
		b, err := q.Bounds()
		require.NoError(t, err)
		require.Zero(t, b.Min)
		got := make([]cq.Unit, 0, b.Max)
		for int64(len(got)) < b.Max {
			n, err := q.Read(int64(len(got)), got[len(got):cap(got)])
			require.NoError(t, err)
			require.Positive(t, n)
			got = got[:len(got)+n]
		}
		require.Equal(t, want[k], got, "queue %s", k)
		units += b.Max
		kinds.delayed = kinds.delayed || k.Topic == message.TopicSchedule
		kinds.light = kinds.light || k.IsLMQ()
		kinds.plain = kinds.plain || k.Topic == "sample_2"
		delete(want, k)
	}
	require.Empty(t, want, "queues that the log has and the store has not")
	require.Equal(t, rep.Units, units)
	require.True(t, kinds.plain && kinds.delayed && kinds.light, "%+v", kinds)
}

// Everything that is not log or queue is as a clean shutdown leaves it.
func TestGenerateStateFiles(t *testing.T) {
	root, rep := generate(t, variedOptions())
	_, records, _ := unitsOfLog(t, root)
	l := NewLayout(root)
	has, err := l.HasAbort()
	require.NoError(t, err)
	require.False(t, has)
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{"checkpoint", "commitlog", "config", "consumequeue", "lock"}, names)
	lock, err := os.ReadFile(l.LockPath())
	require.NoError(t, err)
	require.Equal(t, "lock", string(lock))
	topics, known, err := l.Topics()
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, map[string]bool{"sample_0": true, "sample_1": true, "sample_2": true, message.TopicSchedule: true}, topics)

	last := records[len(records)-1]
	lastWithUnit := last
	for i := len(records) - 1; !lastWithUnit.OwesUnit(); i-- {
		lastWithUnit = records[i]
	}
	c, err := ReadCheckpoint(l.CheckpointPath())
	require.NoError(t, err)
	require.Equal(t, Checkpoint{
		PhysicMsgTimestampMs: last.StoreTimestampMs, LogicsMsgTimestampMs: last.StoreTimestampMs, LogicsPhysicalOffset: lastWithUnit.PhyOffset,
	}, c)
	require.EqualValues(t, 3000, rep.Messages)
	require.Equal(t, 6+18+5, rep.Queues)

	var transactions [4]int
	for _, r := range records {
		transactions[r.Transaction()/4]++
	}
	require.Equal(t, [4]int{2550, 150, 150, 150}, transactions)
}

// treeSums returns a checksum of every file below root.
func treeSums(t *testing.T, root string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		sums[strings.TrimPrefix(path, root)] = fmt.Sprintf("%d %x", len(b), sha256.Sum256(b))
		return err
	}))
	return sums
}

func TestGenerateIsDeterministic(t *testing.T) {
	o := variedOptions()
	a, _ := generate(t, o)
	b, _ := generate(t, o)
	sums := treeSums(t, a)
	require.Equal(t, sums, treeSums(t, b))
	o.Seed++
	c, _ := generate(t, o)
	require.NotEqual(t, sums, treeSums(t, c))
}

func TestGenerateRefusesANonEmptyDirectory(t *testing.T) {
	root := t.TempDir()
	put(t, root, "notes", "x")
	_, err := Generate(t.Context(), root, DefaultGenerateOptions())
	require.ErrorContains(t, err, "is not empty (it holds notes)")
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// A store whose making was cut short says so to everybody.
func TestGenerateCutShortLeavesAbort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := variedOptions()
	o.Messages = 1 << 30
	o.Progress = func(int64) { cancel() }
	root := t.TempDir()
	_, err := Generate(ctx, root, o)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "incomplete")
	has, err := NewLayout(root).HasAbort()
	require.NoError(t, err)
	require.True(t, has)
	l, err := LockExclusive(root) // and holds nothing
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

func TestGenerateOptionsValidate(t *testing.T) {
	o := DefaultGenerateOptions()
	require.NoError(t, o.Validate())
	tests := []struct {
		name string
		set  func(*GenerateOptions)
		want string
	}{
		{"no messages", func(o *GenerateOptions) { o.Messages = 0 }, "messages is 0, want 1 to"},
		{"no topic", func(o *GenerateOptions) { o.Topics = 0 }, "topics is 0"},
		{"no queue", func(o *GenerateOptions) { o.QueuesPerTopic = -1 }, "queues per topic is -1"},
		{"huge body", func(o *GenerateOptions) { o.BodyBytes = 5 << 20 }, "body bytes is 5242880, want 0 to 4194304"},
		{"body larger than a log file", func(o *GenerateOptions) { o.BodyBytes, o.CommitLogFileBytes = 100_000, 65536 }, "commit log file bytes is 65536, want 104096"},
		{"tiny queue file", func(o *GenerateOptions) { o.QueueFileBytes = 19 }, "queue file bytes is 19"},
		{"two faults", func(o *GenerateOptions) { o.Tags, o.Keys = -1, 65 }, "tags is -1, want 0 to 1000000\nkeys is 65"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := DefaultGenerateOptions()
			tt.set(&o)
			require.ErrorContains(t, o.Validate(), tt.want)
			root := filepath.Join(t.TempDir(), "s")
			_, err := Generate(t.Context(), root, o)
			require.Error(t, err)
			require.NoDirExists(t, root)
		})
	}
}

// The largest messages the options allow fit into the smallest log files they allow.
func TestGenerateLargestRecords(t *testing.T) {
	o := DefaultGenerateOptions()
	o.Messages, o.Keys, o.LMQ, o.Delayed = 60, 64, 3, true
	o.BodyBytes = 10_000
	o.CommitLogFileBytes = int64(o.BodyBytes) + minLogFileBytes
	root, rep := generate(t, o)
	require.EqualValues(t, 60, rep.LogFiles)
	_, records, _ := unitsOfLog(t, root)
	require.Len(t, records, 60)
}

// A queue file size that is no multiple of a unit is rounded up, as RocketMQ does it.
func TestGenerateRoundsQueueFiles(t *testing.T) {
	o := DefaultGenerateOptions()
	o.Messages, o.QueueFileBytes = 10, 1001
	root, _ := generate(t, o)
	var sizes []int64
	require.NoError(t, filepath.WalkDir(NewLayout(root).ConsumeQueueDir(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			st, err := d.Info()
			sizes = append(sizes, st.Size())
			return err
		}
		return err
	}))
	require.Equal(t, []int64{1020}, slices.Compact(sizes))
}

func TestWriteDurableDoesNotOverwrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, writeDurable(path, []byte("a")))
	require.ErrorIs(t, writeDurable(path, []byte("b")), fs.ErrExist)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "a", string(b))
}
