package meta

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/configdb"
)

// manyTopics opens a table of n topics in a new directory.
func manyTopics(t testing.TB, form Form, n int) (*Topics, string) {
	t.Helper()
	dir := t.TempDir()
	var d *Databases
	if form != FormFiles {
		if !configdb.Available {
			t.Skip("this binary has no RocksDB")
		}
		var err error
		d, err = OpenDatabases(dir, form)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
	}
	topics, err := OpenTopics(dir, TopicsOptions{Databases: d})
	require.NoError(t, err)
	all := make([]Topic, n)
	for i := range all {
		all[i] = NewTopic(fmt.Sprintf("topic-%d", i), 8, PermRead|PermWrite)
	}
	require.NoError(t, topics.Put(all...))
	return topics, dir
}

// A topic more is encoded alone, however many there are.
func TestAnotherTopicDoesNotEncodeTheOthers(t *testing.T) {
	for _, form := range []Form{FormFiles, FormRocks, FormSingle} {
		t.Run(string(form), func(t *testing.T) {
			const many, allowed = 3000, 1000
			topics, _ := manyTopics(t, form, many)
			i := 0
			n := testing.AllocsPerRun(5, func() {
				i++
				_, err := topics.Ensure(NewTopic(fmt.Sprintf("new-%d", i), 8, PermRead|PermWrite))
				require.NoError(t, err)
			})
			require.Less(t, n, float64(allowed))
		})
	}
}

// The file is the one that encoding the whole table makes, whatever has happened to its topics.
func TestTheTopicsFileIsTheWholeTable(t *testing.T) {
	topics, dir := manyTopics(t, FormFiles, 5)
	same := func() {
		t.Helper()
		want, err := encodeFile(topics.file())
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, "topics.json"))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	same()
	require.NoError(t, topics.Put(NewTopic("a", 1, PermRead), NewTopic("zz<&>\"\n", 1, PermRead), NewTopic("topic-3", 2, PermWrite)))
	same()
	require.NoError(t, topics.Delete("topic-0", "zz<&>\"\n", "none"))
	same()
	require.NoError(t, topics.SetOrder([]string{"topic-4"}))
	same()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "topics.json"), []byte(`{"dataVersion":{"counter":9},"topicConfigTable":{"T":{"more":[1,2],"topicName":"T"}},"zoo":{"topicConfigTable":{}},"about":1}`), 0o600))
	var err error
	topics, err = OpenTopics(dir, TopicsOptions{})
	require.NoError(t, err)
	require.NoError(t, topics.Put(NewTopic("U", 1, PermRead)))
	same()
	require.NoError(t, topics.Delete("T", "U"))
	same()
}

// What a write did not get to the file goes with the next one.
func TestTopicsThatWereNotWrittenAreWrittenNext(t *testing.T) {
	topics, dir := manyTopics(t, FormFiles, 5)
	blocked := filepath.Join(dir, "topics.json.tmp")
	require.NoError(t, os.MkdirAll(filepath.Join(blocked, "x"), 0o755))
	require.Error(t, topics.Put(NewTopic("lost", 1, PermRead)))
	require.NoError(t, os.RemoveAll(blocked))
	require.NoError(t, topics.Put(NewTopic("next", 1, PermRead)))
	again, err := OpenTopics(dir, TopicsOptions{})
	require.NoError(t, err)
	_, ok := again.Get("lost")
	require.True(t, ok)
}

func BenchmarkCreateTopic(b *testing.B) {
	for _, form := range []Form{FormFiles, FormRocks} {
		b.Run("form="+string(form)+"/topics=15000", func(b *testing.B) {
			topics, _ := manyTopics(b, form, 15_000)
			i := 0
			for b.Loop() {
				i++
				if _, err := topics.Ensure(NewTopic(fmt.Sprintf("new-%d", i), 8, PermRead|PermWrite)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
