package meta

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(b)
}

// javaOffsets is as 5.5.0 writes it: tabs, integer keys bare.
const javaOffsets = "{\n\t\"dataVersion\":{\n\t\t\"counter\":7,\n\t\t\"stateVersion\":0,\n\t\t\"timestamp\":1700000000000\n\t},\n\t\"groupTopicMap\":{\n\t\t\"g\":[\"T\"]\n\t}," +
	"\n\t\"offsetTable\":{\n\t\t\"T@g\":{0:12,1:3\n\t\t},\n\t\t\"odd\":{0:1\n\t\t}\n\t},\n\t\"pullOffsetTable\":{}\n}"

func TestT61OffsetFiles(t *testing.T) {
	for _, c := range []struct {
		name          string
		main, backup  string
		broken, found bool
	}{
		{name: "bare keys", main: javaOffsets, found: true},
		{name: "backup alone", backup: javaOffsets, found: true},
		{name: "an empty file beside its backup", main: "-", backup: javaOffsets, broken: true, found: true},
		{name: "half a file beside its backup", main: javaOffsets[:80], backup: javaOffsets, broken: true, found: true},
		{name: "neither"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if c.main == "-" {
				write(t, dir, "consumerOffset.json", "")
			} else if c.main != "" {
				write(t, dir, "consumerOffset.json", c.main)
			}
			if c.backup != "" {
				write(t, dir, "consumerOffset.json.bak", c.backup)
			}
			o, err := OpenOffsets(dir, nil, nil)
			require.NoError(t, err)
			want := int64(NoOffset)
			if c.found {
				want = 12
			}
			require.Equal(t, want, o.Query("g", "T", 0))
			if c.broken {
				require.FileExists(t, filepath.Join(dir, "consumerOffset.json.broken"))
			}
			require.True(t, o.Commit("g", "T", 7, 1))
			require.NoError(t, o.Save())
			again, err := OpenOffsets(dir, nil, nil)
			require.NoError(t, err)
			require.Equal(t, want, again.Query("g", "T", 0))
			if c.found {
				require.Contains(t, read(t, dir, "consumerOffset.json"), `"odd"`)
				require.Contains(t, read(t, dir, "consumerOffset.json"), `"counter": 8`)
			}
		})
	}
}

// A file is written when an offset has changed, and not before.
func TestT60OffsetsThatStayAreNotWritten(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "consumerOffset.json", javaOffsets)
	o, err := OpenOffsets(dir, nil, nil)
	require.NoError(t, err)
	o.Commit("g", "T", 0, 12)
	require.NoError(t, o.Save())
	require.Contains(t, read(t, dir, "consumerOffset.json"), javaOffsets, "byte by byte")
	for i, change := range []func(){
		func() { o.Commit("g", "T", 0, 13) },
		func() { o.Commit("g", "T", 5, 0) },
		func() { o.Reset("g", "T", 0, 3) },
		func() { o.Pulled("g", "T", 0, 3) },
		func() { o.RemoveGroup("g") },
	} {
		change()
		require.NoError(t, o.Save())
		require.NoError(t, o.Save())
		require.Contains(t, read(t, dir, "consumerOffset.json"), fmt.Sprintf(`"counter": %d`, 8+i))
	}
	require.NoError(t, os.RemoveAll(dir)) // the next write fails, and is done again
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	o.Commit("g", "T", 0, 14)
	require.Error(t, o.Save())
	require.NoError(t, os.Remove(dir))
	require.NoError(t, o.Save())
	require.Contains(t, read(t, dir, "consumerOffset.json"), "14")
}

func TestBothFilesBad(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "topics.json", "{")
	write(t, dir, "topics.json.bak", "")
	_, err := OpenTopics(dir, TopicsOptions{})
	require.ErrorContains(t, err, filepath.Join(dir, "topics.json")+": line 1, column 2")
	require.ErrorContains(t, err, filepath.Join(dir, "topics.json.bak")+": it is empty")
	require.Equal(t, "{", read(t, dir, "topics.json"), "nothing is changed")
}

func TestOffsets(t *testing.T) {
	o, err := OpenOffsets(t.TempDir(), nil, nil)
	require.NoError(t, err)
	require.EqualValues(t, NoOffset, o.Query("g", "T", 0))
	require.True(t, o.Commit("g", "T", 0, 5))
	require.True(t, o.Commit("g", "T", 0, 3), "smaller offsets are taken")
	require.True(t, o.Commit("g", "T", 1, -1))
	require.EqualValues(t, 3, o.Query("g", "T", 0))
	require.EqualValues(t, NoOffset, o.Query("g", "T", 1), "-1 is none")
	require.True(t, o.Commit("h", "T", 0, 9))
	require.Equal(t, []string{"g", "h"}, o.GroupsOf("T"))
	require.Equal(t, []string{"T"}, o.TopicsOf("h"))
	require.Equal(t, map[int32]int64{0: 3}, o.Min("T", nil))
	require.Equal(t, map[int32]int64{0: 9}, o.Min("T", []string{"g"}))

	o.Reset("g", "T", 0, 100)
	require.EqualValues(t, 100, o.Query("g", "T", 0))
	require.False(t, o.Commit("g", "T", 0, 4), "a reset waits")
	at, ok := o.TakeReset("g", "T", 0)
	require.True(t, ok)
	require.EqualValues(t, 100, at)
	_, ok = o.TakeReset("g", "T", 0)
	require.False(t, ok)
	require.True(t, o.Commit("g", "T", 0, 101))

	o.Clone("g", "copy", "T")
	require.EqualValues(t, 101, o.Query("copy", "T", 0))
	o.RemoveGroup("g")
	require.EqualValues(t, NoOffset, o.Query("g", "T", 0))
	o.RemoveTopic("T")
	require.Empty(t, o.GroupsOf("T"))
	o.Pulled("h", "T", 2, 8)
	require.EqualValues(t, 8, o.QueryPulled("h", "T", 2))
	text, err := o.Text()
	require.NoError(t, err)
	require.True(t, json.Valid(text))
}

func TestTopics(t *testing.T) {
	dir := t.TempDir()
	var told [][]Topic
	system := SystemTopics("c", "b", SystemTopicOptions{AutoCreate: true, DelayLevels: 18})
	open := func() *Topics {
		topics, err := OpenTopics(dir, TopicsOptions{System: system, OnChange: func(changed []Topic, _ DataVersion) { told = append(told, changed) }})
		require.NoError(t, err)
		return topics
	}
	topics := open()
	v := topics.Version()
	require.EqualValues(t, 1, v.Counter)
	require.Equal(t, len(system), topics.Len())

	c, ok, err := topics.CreateForSend("T", AutoCreateTopic, 4)
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 4, c.WriteQueues)
	require.Equal(t, PermRead|PermWrite, c.Perm)
	require.Len(t, told, 1)
	_, ok, err = topics.CreateForSend("U", "T", 4)
	require.NoError(t, err)
	require.False(t, ok, "a topic that does not pass on is no template")
	require.NoError(t, topics.Put(c), "an equal one changes nothing")
	require.Len(t, told, 1)
	require.Greater(t, topics.Version().Counter, v.Counter)
	require.NoError(t, topics.SetOrder([]string{"T", "none"}))
	require.Len(t, told, 2)

	v = topics.Version()
	topics = open()
	require.Equal(t, v, topics.Version())
	c, ok = topics.Get("T")
	require.True(t, ok)
	require.True(t, c.Order)
	require.NoError(t, topics.Delete("T", "none"))
	_, ok = open().Get("T")
	require.False(t, ok)
}

// T60: what another version wrote into a topic, a group or a file stays there.
func TestT60UnknownMembersStay(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "topics.json", `{"dataVersion":{"counter":3,"stateVersion":1,"timestamp":5},"later":{"a":[1,2]},
		"topicConfigTable":{"T":{"attributes":{"message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":8,"zzz":"<&>"}}}`)
	write(t, dir, "subscriptionGroup.json", `{"dataVersion":{"counter":3,"stateVersion":1,"timestamp":5},"forbiddenTable":{"g":{"T":1}},
		"subscriptionGroupTable":{"g":{"groupName":"g","retryMaxTimes":3,"groupRetryPolicy":{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":1}},"subscriptionDataSet":[]}}}`)
	topics, err := OpenTopics(dir, TopicsOptions{})
	require.NoError(t, err)
	c, _ := topics.Get("T")
	c.Perm = PermRead
	require.NoError(t, topics.Put(c))
	groups, err := OpenGroups(dir, GroupsOptions{})
	require.NoError(t, err)
	g, _ := groups.Known("g")
	require.EqualValues(t, 3, g.RetryMaxTimes)
	require.EqualValues(t, 15, g.ConsumeTimeoutMinutes, "the default of what is missing")
	require.False(t, groups.Readable("g", "T"))
	g.ConsumeEnable = false
	require.NoError(t, groups.Put(g))

	require.JSONEq(t, `{"dataVersion":{"counter":4,"stateVersion":1,"timestamp":`+jsonInt(topics.Version().TimestampMs)+`},"later":{"a":[1,2]},
		"topicConfigTable":{"T":{"attributes":{"message.type":"FIFO"},"order":false,"perm":4,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":8,"zzz":"<&>"}}}`,
		read(t, dir, "topics.json"))
	require.Contains(t, read(t, dir, "topics.json"), "<&>", "as it stood there")
	require.Contains(t, read(t, dir, "subscriptionGroup.json"), `"initial": 1`)
	require.Contains(t, read(t, dir, "subscriptionGroup.json"), `"subscriptionDataSet": []`)
}

func jsonInt(v int64) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func TestGroups(t *testing.T) {
	dir := t.TempDir()
	auto := true
	groups, err := OpenGroups(dir, GroupsOptions{AutoCreate: func() bool { return auto }})
	require.NoError(t, err)
	_, ok := groups.Known(ToolsGroup)
	require.True(t, ok)
	g, ok, err := groups.Get("new")
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 16, g.RetryMaxTimes)
	_, ok, err = groups.Get("bad name")
	require.NoError(t, err)
	require.False(t, ok)
	auto = false
	_, ok, err = groups.Get("another")
	require.NoError(t, err)
	require.False(t, ok)
	require.ErrorIs(t, groups.Put(NewGroup("a b")), ErrName)
	require.NoError(t, groups.SetReadable("new", "T", false))
	groups, err = OpenGroups(dir, GroupsOptions{})
	require.NoError(t, err)
	require.False(t, groups.Readable("new", "T"))
	require.NoError(t, groups.SetReadable("new", "T", true))
	require.True(t, groups.Readable("new", "T"))
	require.NoError(t, groups.Delete("new"))
	_, ok = groups.Known("new")
	require.False(t, ok)
}

func TestNames(t *testing.T) {
	long := func(n int) string { return string(make127(n)) }
	for name, good := range map[string]bool{
		long(127): true, long(128): false, "a.b": false, "": false, " ": false, "a-B_9%|": true, RetryPrefix + long(200): true, DLQPrefix + long(251): false, "é": false,
	} {
		require.Equal(t, good, CheckTopicName(name) == nil, "%q", name)
	}
	require.NoError(t, CheckGroupName(long(120)))
	require.ErrorIs(t, CheckGroupName(long(121)), ErrName)
	require.True(t, IsSystemTopic("rmq_sys_x", "c", "b"))
	require.True(t, IsSystemTopic("c", "c", "b"))
	require.False(t, IsSystemTopic("T", "c", "b"))
	require.True(t, SendForbidden(ScheduleTopic))
	require.False(t, SendForbidden(AutoCreateTopic))
}

func make127(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

func TestAttributes(t *testing.T) {
	a, err := ApplyAttributes(map[string]string{AttributeMessageType: "NORMAL"}, "+queue.type=BatchCQ,-message.type")
	require.NoError(t, err)
	require.Equal(t, map[string]string{AttributeQueueType: QueueTypeBatch}, a)
	for _, bad := range []string{"queue.type=BatchCQ", "+queue.type=x", "+nope=1", "-queue.type=x", "+"} {
		_, err := ApplyAttributes(nil, bad)
		require.ErrorIs(t, err, ErrAttribute, bad)
	}
}

func TestDelayOffsets(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "delayOffset.json", "{\n\t\"dataVersion\":{\"counter\":1,\"stateVersion\":0,\"timestamp\":1},\n\t\"offsetTable\":{1:5,3:2\n\t}\n}")
	d, err := OpenDelayOffsets(dir, nil)
	require.NoError(t, err)
	require.EqualValues(t, 5, d.Next(1))
	require.EqualValues(t, 0, d.Next(2))
	d.Set(2, 7)
	require.NoError(t, d.Save())
	d, err = OpenDelayOffsets(dir, nil)
	require.NoError(t, err)
	require.EqualValues(t, 7, d.Next(2))
	require.EqualValues(t, 2, d.Next(3))
}

// Changes made at once share writes, and each is durable when its call returns.
func TestChangesAtOnce(t *testing.T) {
	dir := t.TempDir()
	topics, err := OpenTopics(dir, TopicsOptions{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			name := "T" + jsonInt(int64(i))
			if err := topics.Put(NewTopic(name, 1, PermRead)); err != nil {
				t.Error(err)
				return
			}
			var f topicsFile
			b, err := os.ReadFile(filepath.Join(dir, "topics.json"))
			if err != nil {
				b, err = os.ReadFile(filepath.Join(dir, "topics.json.bak")) // between the two renames of another write
			}
			if err == nil {
				err = json.Unmarshal(b, &f)
			}
			if err != nil || f.Table[name].Name == "" {
				t.Errorf("%s is not in the file: %v", name, err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 50, topics.Len())
	require.EqualValues(t, 50, topics.Version().Counter)
}
