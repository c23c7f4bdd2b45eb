package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/store"
)

// readableStore is a sample store with an index.
func readableStore(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "store")
	code, _, stderr := runApp(t, "store", "generate", "--store", root, "--messages", "300", "--topics", "2", "--queues", "2", "--commitlog-size", "65536",
		"--cq-file-size", "1000", "--lmq", "2", "--transactions", "--body", "20", "--quiet")
	require.Zero(t, code, stderr)
	code, _, stderr = runApp(t, "store", "rebuild", "--store", root, "--index", "--yes", "--quiet")
	require.Zero(t, code, stderr)
	return root
}

// tell runs a command of store that has something to tell, and returns what it says; v gets its JSON.
func tell(t *testing.T, v any, args ...string) string {
	t.Helper()
	code, stdout, stderr := runApp(t, append([]string{"store"}, args...)...)
	require.Zero(t, code, "%v: %s", args, stderr)
	require.Empty(t, stderr)
	if v != nil {
		code, text, stderr := runApp(t, append(append([]string{"store"}, args...), "--json")...)
		require.Zero(t, code, stderr)
		require.NoError(t, json.Unmarshal([]byte(text), v))
	}
	return stdout
}

func TestStoreGet(t *testing.T) {
	root := readableStore(t)
	var got getReport
	text := tell(t, &got, "get", "--store", root, "--topic", "sample_0", "--queue", "1", "--offset", "5", "-n", "3", "--body")
	require.Len(t, got.Messages, 3)
	require.EqualValues(t, 8, got.Next)
	for i, m := range got.Messages {
		require.EqualValues(t, 5+i, m.QueueOffset)
		require.Equal(t, m.QueueOffset, m.RecordQueueOffset)
		require.Equal(t, "sample_0", m.Topic)
		require.Len(t, m.Body, 20)
		require.NotEmpty(t, m.Properties)
		require.Contains(t, text, m.MsgID)
		require.Contains(t, text, m.UniqKey)
	}
	require.Equal(t, "FOUND", got.Status)
	last := strconv.FormatInt(got.Max, 10)
	for _, tt := range []struct{ name, topic, queue, offset, want, status string }{
		{"beyond the end", "sample_0", "1", "5000", "queue sample_0/1 has offsets 0 to ", "OFFSET_OVERFLOW_BADLY"},
		{"at the end", "sample_0", "1", last, "queue sample_0/1 has offsets 0 to ", "OFFSET_OVERFLOW_ONE"},
		{"no such queue", "nosuch", "0", "0", "has no queue nosuch/0 (file side)", "NO_MATCHED_LOGIC_QUEUE"},
	} {
		args := []string{"store", "get", "--store", root, "--topic", tt.topic, "--queue", tt.queue, "--offset", tt.offset}
		code, stdout, stderr := runApp(t, args...)
		require.Equal(t, 1, code, tt.name)
		require.Empty(t, stdout)
		require.Contains(t, stderr, tt.want)
		code, stdout, stderr = runApp(t, append(args, "--json")...)
		require.Equal(t, 1, code, tt.name)
		require.Contains(t, stderr, tt.want)
		var none getReport
		require.NoError(t, json.Unmarshal([]byte(stdout), &none))
		require.Equal(t, tt.status, none.Status)
		require.Empty(t, none.Messages)
	}
}

// A unit that leads to a record of another queue, one with other tags, and a record whose body was changed are told, and not taken for what they seem.
func TestStoreGetOdd(t *testing.T) {
	root := readableStore(t)
	var other, got getReport
	tell(t, &other, "get", "--store", root, "--topic", "sample_1", "-n", "1")
	tell(t, &got, "get", "--store", root, "--topic", "sample_0", "-n", "8")
	queue := filepath.Join(root, "consumequeue", "sample_0", "0", "00000000000000000000")
	stray := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uint64(other.Messages[0].PhyOffset)), uint32(other.Messages[0].Size))
	overwrite(t, queue, 5*20, stray)
	overwrite(t, queue, 6*20+12, make([]byte, 8))
	m := got.Messages[7]
	b, err := os.ReadFile(filepath.Join(root, "commitlog", "00000000000000000000"))
	require.NoError(t, err)
	record := b[m.PhyOffset : m.PhyOffset+int64(m.Size)]
	overwrite(t, filepath.Join(root, "commitlog", "00000000000000000000"), m.PhyOffset+int64(bytes.Index(record, m.bodyOf(t, root))), []byte{'~'})

	var odd struct {
		Messages []map[string]any `json:"messages"`
	}
	text := tell(t, &odd, "get", "--store", root, "--topic", "sample_0", "-n", "8")
	require.Contains(t, text, "offset 5 has no message: the unit leads to a record of sample_1/0 offset 0, at physical offset 0")
	require.Regexp(t, `offset 6: the record's tags code is \d+ \(with the default delay levels\), the unit has 0`, text)
	require.Regexp(t, `offset 7 has no message: .*commitlog/00000000000000000000\+\d+`, text)
	require.Contains(t, odd.Messages[5]["fault"], "sample_1/0")
	require.NotContains(t, odd.Messages[5], "topic")
	require.NotContains(t, odd.Messages[5], "storeTimestamp")
	require.Contains(t, odd.Messages[6]["note"], "tags code")
	for slot, want := range map[string]string{"5": "fault: the unit leads to a record of sample_1/0", "6": "note: the record's tags code is ", "7": "fault: "} {
		require.Contains(t, tell(t, nil, "inspect", "unit", "--store", root, "--topic", "sample_0", "--offset", slot), want)
	}
	require.Contains(t, tell(t, nil, "inspect", "record", "--store", root, "--topic", "sample_0", "--offset", "7"), "fault: ")
	code, _, stderr := runApp(t, "store", "inspect", "record", "--store", root, "--at", strconv.FormatInt(m.PhyOffset+1, 10))
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "no record begins at physical offset "+strconv.FormatInt(m.PhyOffset+1, 10)+", or it is damaged: ")
	code, stdout, stderr := runApp(t, "store", "status", "--store", root)
	require.Zero(t, code, stderr)
	require.NotContains(t, stdout, "its end is lost", "behind damage there are records")
}

// Where the bounds of a queue cannot be told, none are.
func TestInspectQueueWithoutBounds(t *testing.T) {
	root := readableStore(t)
	overwrite(t, filepath.Join(root, "consumequeue", "sample_0", "1", "00000000000000001000"), 508, []byte{0xff}) // in a slot behind the last unit
	text := tell(t, nil, "inspect", "cq", "--store", root, "--topic", "sample_0", "--queue", "1")
	require.Contains(t, text, "cannot be told")
	require.Contains(t, text, "fault")
	require.NotContains(t, text, "0 messages")
	var got map[string]any
	tell(t, &got, "inspect", "cq", "--store", root, "--topic", "sample_0", "--queue", "1")
	require.NotContains(t, got, "max")
	require.Contains(t, got, "fault")
}

// bodyOf asks for the body of a message.
func (m *messageInfo) bodyOf(t *testing.T, root string) []byte {
	t.Helper()
	var got getReport
	tell(t, &got, "get", "--store", root, "--topic", m.Topic, "--queue", strconv.Itoa(int(m.QueueID)), "--offset", strconv.FormatInt(m.QueueOffset, 10), "--body")
	return got.Messages[0].Body
}

// A slot whose record is gone is told with file and byte, and what stands behind it is shown.
func TestStoreGetDamaged(t *testing.T) {
	root := readableStore(t)
	var got getReport
	tell(t, &got, "get", "--store", root, "--topic", "sample_0", "-n", "3")
	overwrite(t, filepath.Join(root, "commitlog", "00000000000000000000"), got.Messages[1].PhyOffset, make([]byte, got.Messages[1].Size))
	overwrite(t, filepath.Join(root, "consumequeue", "sample_0", "0", "00000000000000000000"), 40, make([]byte, 20))
	code, stdout, stderr := runApp(t, "store", "get", "--store", root, "--topic", "sample_0", "-n", "4")
	require.Zero(t, code, stderr)
	require.Regexp(t, `offset 1 has no message: .*commitlog/00000000000000000000\+\d+`, stdout)
	require.Regexp(t, `offset 2 has no message: .*consumequeue/sample_0/0/00000000000000000000\+40`, stdout)
	require.Regexp(t, `\n3  +\d+ `, stdout)
	text := tell(t, nil, "inspect", "unit", "--store", root, "--topic", "sample_0", "--offset", "2")
	require.Contains(t, text, "free: nothing was written here")
	require.Contains(t, text, "fault: ")
	text = tell(t, nil, "inspect", "unit", "--store", root, "--topic", "sample_0", "--offset", "1")
	require.Regexp(t, `fault: .*commitlog/00000000000000000000\+\d+`, text)
	require.Regexp(t, `00000000000000000000 +0 +50 +49 +0 +49 +0 +1 +2 +0\n`, tell(t, nil, "inspect", "cq", "--store", root, "--topic", "sample_0"))
}

func overwrite(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestStoreByTime(t *testing.T) {
	root := readableStore(t)
	var all getReport
	tell(t, &all, "get", "--store", root, "--topic", "sample_1", "-n", "1000")
	m := all.Messages[7]
	for _, tt := range []struct {
		name, time string
		upper      bool
		want       int64
	}{
		{"ms", strconv.FormatInt(m.StoreTimestamp, 10), false, 7},
		{"with a zone", m.StoreTime, true, 7},
		{"a moment later", strconv.FormatInt(m.StoreTimestamp+1, 10), false, 8},
		{"later than all", "2033-01-01T00:00:00Z", false, all.Max},
		{"the last one", "2033-01-01T00:00:00Z", true, all.Max - 1},
		{"earlier than all", "0", true, 0},
	} {
		args := []string{"by-time", "--store", root, "--topic", "sample_1", "--time", tt.time}
		if tt.upper {
			args = append(args, "--upper")
		}
		var got byTimeReport
		text := tell(t, &got, args...)
		require.Equal(t, tt.want, got.Offset, tt.name)
		require.Equal(t, tt.want < all.Max, got.Message != nil, tt.name)
		require.Contains(t, text, "offset "+strconv.FormatInt(tt.want, 10)+"\n")
	}
}

func TestStoreQuery(t *testing.T) {
	root := readableStore(t)
	var all getReport
	tell(t, &all, "get", "--store", root, "--topic", "sample_1", "-n", "1000")
	m := all.Messages[7]
	var got queryReport
	text := tell(t, &got, "query", "--store", root, "--topic", "sample_1", "--key", m.UniqKey, "--type", "U")
	require.Len(t, got.Messages, 1)
	require.Equal(t, m.PhyOffset, got.Messages[0].PhyOffset)
	require.Positive(t, got.IndexedTo)
	require.True(t, got.Complete)
	require.Equal(t, 1, got.Files)
	require.Contains(t, text, ": 1 message\n")
	require.Regexp(t, `index has +the log up to \d+, \d+`, text)
	got = queryReport{}
	tell(t, &got, "query", "--store", root, "--topic", "sample_1", "--key", m.Tags, "--type", "T", "-n", "2", "--to", m.StoreTime)
	require.LessOrEqual(t, len(got.Messages), 2)
	require.Equal(t, m.PhyOffset, got.Messages[len(got.Messages)-1].PhyOffset)
	got = queryReport{}
	text = tell(t, &got, "query", "--store", root, "--topic", "sample_1", "--key", "none")
	require.Empty(t, got.Messages)
	require.Contains(t, text, ": 0 messages\n")
	// An entry that leads to a record with another key, as one of the same hash does.
	b, err := os.ReadFile(filepath.Join(root, "commitlog", "00000000000000000000"))
	require.NoError(t, err)
	at := int64(bytes.Index(b, []byte(m.UniqKey)))
	overwrite(t, filepath.Join(root, "commitlog", "00000000000000000000"), at, []byte("X"))
	got = queryReport{}
	text = tell(t, &got, "query", "--store", root, "--topic", "sample_1", "--key", m.UniqKey, "--explain")
	require.Equal(t, []store.RejectedHit{{PhyOffset: m.PhyOffset, Why: "its message has other keys of the same hash"}}, got.Hits)
	require.Contains(t, text, "turned down: physical offset ")

	files, err := filepath.Glob(filepath.Join(root, "index", "*"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(files[0], 1000))
	code, stdout, stderr := runApp(t, "store", "query", "--store", root, "--topic", "sample_1", "--key", m.UniqKey, "--json")
	require.Zero(t, code, stderr)
	got = queryReport{}
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.False(t, got.Complete)
	require.NotEmpty(t, got.Faults)
	_, stdout, _ = runApp(t, "store", "status", "--store", root)
	require.Contains(t, stdout, files[0], "an index that cannot be used is told of")

	require.NoError(t, os.RemoveAll(filepath.Join(root, "index")))
	code, _, stderr = runApp(t, "store", "query", "--store", root, "--topic", "sample_1", "--key", "k")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "the store has no message index")
}

func TestStoreInspect(t *testing.T) {
	root := readableStore(t)
	var all getReport
	tell(t, &all, "get", "--store", root, "--topic", "sample_1", "-n", "1000")
	m := all.Messages[7]

	var record fieldsReport
	text := tell(t, &record, "inspect", "record", "--store", root, "--at", strconv.FormatInt(m.PhyOffset, 10), "--body")
	require.Len(t, record.Fields, 20)
	require.Contains(t, text, "property UNIQ_KEY = "+m.UniqKey)
	for _, args := range [][]string{{"--id", m.MsgID}, {"--topic", "sample_1", "--offset", "7"}} {
		require.Equal(t, text, tell(t, nil, append([]string{"inspect", "record", "--store", root, "--body"}, args...)...))
	}
	code, _, stderr := runApp(t, "store", "inspect", "record", "--store", root, "--at", strconv.FormatInt(m.PhyOffset+1, 10))
	require.Equal(t, 1, code)
	require.Regexp(t, `commitlog/00000000000000000000\+\d+`, stderr)

	text = tell(t, nil, "inspect", "unit", "--store", root, "--topic", "sample_1", "--offset", "7")
	require.Contains(t, text, "its record is of sample_1/0 offset 7")
	require.Contains(t, text, `the tags code is the hash of TAGS "`+m.Tags+`"`)

	text = tell(t, nil, "inspect", "checkpoint", "--store", root)
	require.Regexp(t, `\n +40 +8 +logicsPhysicalOffset +[1-9]\d* `, text)
	require.Regexp(t, `\n +108 +4 +crc +\d+ +right\n`, text)
	require.NotContains(t, text, "fault")
	overwrite(t, filepath.Join(root, "checkpoint"), 60, []byte{1})
	text = tell(t, nil, "inspect", "checkpoint", "--store", root)
	require.Regexp(t, `crc +\d+ +wrong: the bytes have \d+`, text)
	require.Contains(t, text, "fault: read checkpoint")

	var log logReport
	text = tell(t, &log, "inspect", "commitlog", "--store", root)
	require.Equal(t, "clean end", log.EndKind)
	require.Contains(t, text, "00000000000000000000  64.0 KiB  2023-11-14T22:13:20.000Z")
	log = logReport{}
	text = tell(t, &log, "inspect", "commitlog", "--store", root, "--from", "0", "-n", "1000")
	require.Len(t, log.Records, 300)
	require.Contains(t, text, "TRANSACTION_PREPARED")
	code, stdout, stderr := runApp(t, "store", "inspect", "commitlog", "--store", root, "--from", "7")
	require.Equal(t, 1, code, "the log is sound, the place is not")
	require.Empty(t, stdout)
	require.Contains(t, stderr, "inside the record at 0")

	var queue queueReport
	tell(t, &queue, "inspect", "cq", "--store", root, "--topic", "sample_1")
	require.True(t, *queue.Proven)
	require.Equal(t, all.Max, queue.Files[len(queue.Files)-1].LastUnit+1)

	// What reads no queue needs none.
	require.NoError(t, os.WriteFile(filepath.Join(root, "consumequeue", "CURRENT"), []byte("x"), 0o644))
	tell(t, nil, "inspect", "commitlog", "--store", root)
	tell(t, nil, "inspect", "record", "--store", root, "--id", m.MsgID)
	code, _, stderr = runApp(t, "store", "inspect", "unit", "--store", root, "--topic", "sample_1", "--offset", "7")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "say which with --cq file or --cq rocks")
	tell(t, nil, "query", "--store", root, "--topic", "sample_1", "--key", m.UniqKey)
	require.NoError(t, os.Remove(filepath.Join(root, "consumequeue", "CURRENT")))

	var ix indexReport
	tell(t, &ix, "inspect", "index", "--store", root)
	require.Len(t, ix.Files, 1)
	name := filepath.Base(ix.Files[0].Path)
	require.Regexp(t, `\n +36 +4 +indexCount +\d+ +\d+ entries\n`, tell(t, nil, "inspect", "index", "--store", root, "--file", name))
	var q queryReport
	tell(t, &q, "query", "--store", root, "--topic", "sample_1", "--key", m.UniqKey)
	ix = indexReport{}
	tell(t, &ix, "inspect", "index", "--store", root, "--file", name, "--slot", strconv.Itoa(int(q.Slot)))
	require.Len(t, ix.Links, int(q.Steps))
	code, stdout, stderr = runApp(t, "store", "inspect", "index", "--store", root, "--file", name, "--slot", "99999999")
	require.Equal(t, 1, code)
	require.Empty(t, stdout, "a slot that the file does not have is not an empty one")
	require.Contains(t, stderr, "not 99999999")
	ix = indexReport{}
	tell(t, &ix, "inspect", "index", "--store", root, "--file", name, "--entry", "1", "-n", "3")
	require.Len(t, ix.Links, 3)
	require.EqualValues(t, 1, ix.Links[0].Index)

	var note store.QueueOffsetsNote
	text = tell(t, &note, "inspect", "queue-offsets", "--store", root)
	require.True(t, note.Fits)
	require.Contains(t, note.Queues, store.NextOffset{Topic: "sample_1", Next: all.Max})
	require.Regexp(t, `\nsample_1 +0 +`+strconv.FormatInt(all.Max, 10), text)
	require.NoError(t, os.Remove(note.Path))
	code, _, stderr = runApp(t, "store", "inspect", "queue-offsets", "--store", root)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "the store has no note of next offsets")
}

func TestReadUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "--store", "x"}, "--topic is missing"},
		{[]string{"get", "--store", "x", "--topic", "t", "--queue", "-1"}, "--queue -1"},
		{[]string{"get", "--store", "ROOT", "--topic", "t", "-n", "0"}, "-n 0: use 1 to 100000"},
		{[]string{"get", "--store", "ROOT", "--topic", "t", "--offset", "-5"}, "--offset -5: use a queue offset"},
		{[]string{"inspect", "record", "--store", "ROOT", "--id", "zzz"}, `--id "zzz": use an offset message id`},
		{[]string{"inspect", "commitlog", "--store", "ROOT", "--from", "-1"}, "--from -1: use a physical offset"},
		{[]string{"by-time", "--store", "ROOT", "--topic", "t", "--time", "noon"}, `--time "noon": use ms`},
		{[]string{"query", "--store", "ROOT", "--topic", "t", "--key", "k", "--type", "X"}, `--type "X"`},
		{[]string{"query", "--store", "ROOT", "--topic", "t", "--key", "k", "-n", "65"}, "-n 65: use 1 to 64"},
		{[]string{"query", "--store", "ROOT", "--topic", "t", "--key", "k", "--from", "2", "--to", "1"}, "--from is later than --to"},
		{[]string{"inspect", "record", "--store", "ROOT"}, "use one of --at, --id"},
		{[]string{"inspect", "unit", "--store", "ROOT", "--topic", "t"}, "--offset is missing"},
		{[]string{"inspect", "index", "--store", "ROOT", "--slot", "3"}, "need --file"},
		{[]string{"inspect", "rekord"}, `did you mean "record"?`},
	} {
		root := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(root, "commitlog"), 0o755))
		for i := range tt.args {
			if tt.args[i] == "ROOT" {
				tt.args[i] = root
			}
		}
		code, stdout, stderr := runApp(t, append([]string{"store"}, tt.args...)...)
		require.Equal(t, 2, code, "%v: %s", tt.args, stderr)
		require.Empty(t, stdout)
		require.Contains(t, stderr, tt.want)
	}
}

// Both sides of a migrated store tell the same of a queue.
func TestReadRocks(t *testing.T) {
	root := readableStore(t)
	code, _, stderr := runApp(t, "migrate", "run", "--store", root, "--yes")
	if strings.Contains(stderr, "built without cgo") {
		t.Skip("this binary has no RocksDB")
	}
	require.Zero(t, code, stderr)
	var files, rocks getReport
	args := []string{"get", "--store", root, "--topic", "%LMQ%light_0", "-n", "1000"}
	tell(t, &files, append(args, "--cq", "file")...)
	tell(t, &rocks, append(args, "--cq", "rocks")...)
	require.NotEmpty(t, rocks.Messages)
	require.Equal(t, "rocks", string(rocks.Side))
	rocks.Side = files.Side
	require.Equal(t, files, rocks)
	var got byTimeReport
	tell(t, &got, "by-time", "--store", root, "--topic", "%LMQ%light_0", "--time", strconv.FormatInt(rocks.Messages[5].StoreTimestamp, 10), "--cq", "rocks")
	require.EqualValues(t, 5, got.Offset)
	require.Regexp(t, `\n +20 +8 +StoreTimestampMs +`+strconv.FormatInt(rocks.Messages[5].StoreTimestamp, 10)+` `,
		tell(t, nil, "inspect", "unit", "--store", root, "--topic", "%LMQ%light_0", "--offset", "5", "--cq", "rocks"))
	require.NotContains(t, tell(t, nil, "inspect", "cq", "--store", root, "--topic", "%LMQ%light_0", "--cq", "rocks"), "FIRST SLOT")
}

// TestReadWithAMissingLogFile: the commands that read name the file that is missing and read the rest; a dump tells damaged messages.
func TestReadWithAMissingLogFile(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	code, _, stderr := runApp(t, "store", "generate", "--store", root, "--messages", "300", "--topics", "1", "--queues", "1", "--commitlog-size", "16384", "--body", "20", "--quiet")
	require.Zero(t, code, stderr)
	path := filepath.Join(root, "commitlog", "00000000000000016384")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	gone := path + " is missing (physical offsets 16384 to 32768)"
	queue := []string{"--store", root, "--topic", "sample_0"}

	code, stdout, stderr := runApp(t, append([]string{"store", "dump"}, queue...)...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "warning: "+gone)
	require.Contains(t, stderr, "1 file of the commit log could not be read; the rest was printed")
	require.Contains(t, stderr, "210 good messages; 0 are damaged, 90 units point to no record, 0 slots hold no unit")
	require.Len(t, strings.Split(strings.TrimSpace(stdout), "\n"), 301)
	code, _, stderr = runApp(t, append([]string{"store", "dump", "--queues-only"}, queue...)...)
	require.Zero(t, code, stderr)

	code, stdout, stderr = runApp(t, append([]string{"store", "get", "-n", "300"}, queue...)...)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "warning: "+gone)
	require.Equal(t, 90, strings.Count(stdout, "has no message: "))
	require.Contains(t, stdout, gone)
	for _, args := range [][]string{{"inspect", "commitlog", "--store", root}, {"status", "--store", root}} {
		code, stdout, stderr = runApp(t, append([]string{"store"}, args...)...)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, gone)
	}
	code, stdout, _ = runApp(t, "store", "check", "--store", root, "--deep", "--quiet")
	require.Equal(t, 3, code)
	require.Contains(t, stdout, "no file for physical offsets 16384 to 32768")

	whole[90] ^= 1 // in the body of its first record
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	code, stdout, stderr = runApp(t, append([]string{"store", "dump"}, queue...)...)
	require.Zero(t, code, stderr)
	require.Equal(t, 1, strings.Count(stdout, `"damaged":"body"`))
	require.Contains(t, stderr, "the record at physical offset 16384 is damaged: ")
	require.Contains(t, stderr, "299 good messages; 1 are damaged, 0 units point to no record, 0 slots hold no unit")
}
