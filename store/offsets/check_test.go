package offsets

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

const sampleTopic = "sample_0"

func TestCheck(t *testing.T) {
	l := sampleStore(t)
	v := view(t, l)
	max0 := maxOf(t, v, cq.Key{Topic: sampleTopic})
	write(t, JSON.path(l), `{"offsetTable":{
"sample_0@ok":{0:0,1:-1,5:0},
"sample_0@over":{0:900},
"sample_0@neg":{0:-2},
"sample_0@word":{0:x},
"gone@ok":{0:4}}}`)
	write(t, JSON.path(l)+BackupSuffix, `{"offsetTable":{"sample_0@over":{0:10},"sample_0@lost":{0:1}}}`)
	write(t, LightJSON.path(l), `{"offsetTable":{"sample_0@over":{0:20}},"lmqOffsetTable":{}}`)

	r, err := Check(t.Context(), v, find(t, l), All())
	require.NoError(t, err)
	require.Equal(t, Swept{Place: JSON, Path: JSON.path(l), Groups: 4, Offsets: 7, None: 1, NoQueueYet: 1, OnlyInBackup: 1}, r.Swept[0])
	require.Equal(t, LightJSON, r.Swept[1].Place)
	byKind := map[Kind]Finding{}
	for _, f := range r.Findings {
		byKind[f.Kind] = f
	}
	require.Len(t, r.Findings, 4)
	require.Len(t, byKind, 4)

	over := byKind[AboveMax]
	require.Equal(t, "line 3, column 20", over.At)
	require.Equal(t, [3]int64{900, 0, max0}, [3]int64{*over.Offset, *over.Min, *over.Max})
	require.Equal(t, int64(10), *over.Evidence.Backup)
	require.Equal(t, map[Place]int64{LightJSON: 20}, over.Evidence.Elsewhere)
	require.Nil(t, over.Evidence.OffsetStoreMs)
	require.Less(t, *over.Evidence.MinStoreMs, *over.Evidence.BackupStoreMs)
	require.Less(t, *over.Evidence.BackupStoreMs, *over.Evidence.LastStoreMs)
	require.Equal(t, Retry{Topic: "%RETRY%over"}, *over.Evidence.Retry)
	require.Equal(t, int64(-2), *byKind[Negative].Offset)
	require.Nil(t, byKind[BadValue].Offset)
	require.Contains(t, byKind[BadValue].Text, "reject the whole file")
	require.True(t, byKind[NoQueue].Evidence.UnknownTopic)
	require.Nil(t, byKind[NoQueue].Max)

	r, err = Check(t.Context(), v, find(t, l), Selection{Group: "over", Topic: sampleTopic, QueueID: 0})
	require.NoError(t, err)
	require.Len(t, r.Findings, 1)
	require.Equal(t, 1, r.Swept[0].Offsets)
}

// Min is that of the log: with its first files gone, offsets below are found.
func TestCheckBelowMin(t *testing.T) {
	l := sampleStore(t)
	files, err := filepath.Glob(filepath.Join(l.CommitLogDir(), "*"))
	require.NoError(t, err)
	require.Greater(t, len(files), 2)
	require.NoError(t, os.Remove(files[0]))
	v := view(t, l)
	q, _ := v.Queues.Queue(cq.Key{Topic: sampleTopic})
	b, err := q.Bounds()
	require.NoError(t, err)
	require.Positive(t, b.Min)
	for at, want := range map[int64]Kind{b.Min - 1: BelowMin, b.Min: "", b.Max: "", b.Max + 1: AboveMax} {
		kind, _ := judge(Value{Offset: at}, b, true, nil)
		require.Equal(t, want, kind, at)
	}
	write(t, JSON.path(l), `{"offsetTable":{"sample_0@g":{0:1}}}`)
	r, err := Check(t.Context(), v, find(t, l), All())
	require.NoError(t, err)
	require.Len(t, r.Findings, 1)
	require.Equal(t, BelowMin, r.Findings[0].Kind)
	require.Nil(t, r.Findings[0].Evidence.OffsetStoreMs, "the message is gone, and its time with it")
	require.NotNil(t, r.Findings[0].Evidence.MinStoreMs)
}

// The retry queue of a group is evidence: what waits there has failed, whatever the offset says.
func TestCheckShowsTheRetryQueue(t *testing.T) {
	l := sampleStore(t)
	require.NoError(t, os.Rename(filepath.Join(l.ConsumeQueueDir(), sampleTopic, "1"), filepath.Join(t.TempDir(), "x")))
	require.NoError(t, os.MkdirAll(filepath.Join(l.ConsumeQueueDir(), "%RETRY%g"), 0o755))
	require.NoError(t, os.CopyFS(filepath.Join(l.ConsumeQueueDir(), "%RETRY%g", "0"), os.DirFS(filepath.Join(l.ConsumeQueueDir(), sampleTopic, "0"))))
	write(t, JSON.path(l), `{"offsetTable":{"sample_0@g":{1:7},"%RETRY%g@g":{0:10}}}`)
	v := view(t, l)
	n := maxOf(t, v, cq.Key{Topic: "%RETRY%g"})
	r, err := Check(t.Context(), v, find(t, l), All())
	require.NoError(t, err)
	require.Len(t, r.Findings, 1)
	retry := r.Findings[0].Evidence.Retry
	require.Equal(t, [3]int64{1, n, n - 10}, [3]int64{int64(retry.Queues), retry.Messages, retry.Waiting})
	require.NotNil(t, retry.LastStoreMs)
}

func TestCheckOfAnUnreadableFile(t *testing.T) {
	l := sampleStore(t)
	write(t, JSON.path(l), "{")
	write(t, JSON.path(l)+BackupSuffix, `{"offsetTable":{"sample_0@g":{0:900}}}`)
	r, err := Check(t.Context(), view(t, l), find(t, l), All())
	require.NoError(t, err)
	require.True(t, r.Swept[0].FellBack)
	require.Len(t, r.Findings, 2)
	require.Equal(t, FileUnreadable, r.Findings[0].Kind)
	require.Contains(t, r.Findings[0].Text, "line 1, column 2")
	require.Equal(t, JSON.path(l)+BackupSuffix, r.Findings[1].Path, "the backup is what was swept")
}

func TestList(t *testing.T) {
	l := sampleStore(t)
	write(t, JSON.path(l), `{"offsetTable":{"sample_0@g":{0:10,9:3}}}`)
	v := view(t, l)
	list, err := List(t.Context(), v, find(t, l), All())
	require.NoError(t, err)
	require.Len(t, list.Lines, 2)
	require.Equal(t, maxOf(t, v, cq.Key{Topic: sampleTopic})-10, *list.Lines[0].Behind)
	require.NotNil(t, list.Lines[0].StoreMs)
	require.Equal(t, NoQueue, list.Lines[1].Kind)
}
