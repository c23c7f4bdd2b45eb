//go:build cgo

package meta

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/configdb"
)

// opened are the three tables of a broker.
type opened struct {
	d       *Databases
	topics  *Topics
	groups  *Groups
	offsets *Offsets
	log     *bytes.Buffer
}

func openForm(t *testing.T, config string, f Form) *opened {
	t.Helper()
	o := &opened{log: new(bytes.Buffer)}
	log := slog.New(slog.NewTextHandler(o.log, nil))
	var err error
	if f != FormFiles {
		o.d, err = OpenDatabases(config, f)
		require.NoError(t, err)
	}
	o.topics, err = OpenTopics(config, TopicsOptions{Databases: o.d, Logger: log})
	require.NoError(t, err)
	o.groups, err = OpenGroups(config, GroupsOptions{Databases: o.d, Logger: log})
	require.NoError(t, err)
	o.offsets, err = OpenOffsets(config, o.d, log)
	require.NoError(t, err)
	return o
}

func (o *opened) close(t *testing.T) {
	t.Helper()
	require.NoError(t, o.d.Close())
}

var databaseForms = []Form{FormRocks, FormSingle}

// Issue 9 part 10: a broker over a RocksDB store keeps its tables in databases, and nothing in files.
func TestPart10TablesAreKeptInDatabases(t *testing.T) {
	for _, form := range databaseForms {
		t.Run(string(form), func(t *testing.T) {
			config := t.TempDir()
			o := openForm(t, config, form)
			topic := NewTopic("T", 4, 6)
			topic.Attributes["message.type"] = "FIFO"
			require.NoError(t, o.topics.Put(topic, NewTopic("gone", 1, 6)))
			require.NoError(t, o.topics.Delete("gone"))
			_, _, err := o.groups.Get("g")
			require.NoError(t, err)
			require.NoError(t, o.groups.SetReadable("g", "T", false))
			o.offsets.Commit("g", "T", 0, 12)
			o.offsets.Commit("g", "T", 11, NoOffset)
			o.offsets.Commit("h", "T", 1, 7)
			require.NoError(t, o.offsets.Save())
			o.offsets.RemoveGroup("h")
			require.NoError(t, o.offsets.Save())
			_, topicsVersion := o.topics.All()
			o.close(t)
			files, err := filepath.Glob(filepath.Join(config, "*.json*"))
			require.NoError(t, err)
			require.Empty(t, files)

			o = openForm(t, config, form)
			got, ok := o.topics.Get("T")
			require.True(t, ok)
			require.True(t, got.equal(&topic))
			_, ok = o.topics.Get("gone")
			require.False(t, ok)
			require.Equal(t, topicsVersion, o.topics.Version())
			require.False(t, o.groups.Readable("g", "T"))
			require.Equal(t, map[int32]int64{0: 12, 11: NoOffset}, o.offsets.Of("g", "T"))
			require.Empty(t, o.offsets.Of("h", "T"))
			require.Empty(t, o.log.String())

			// What the file is written for on request says the same under the same version.
			require.NoError(t, o.topics.Export())
			require.NoError(t, o.groups.Export())
			require.NoError(t, o.offsets.Export())
			o.close(t)
			f := openForm(t, config, FormFiles)
			require.Equal(t, topicsVersion, f.topics.Version())
			require.Equal(t, map[int32]int64{0: 12, 11: NoOffset}, f.offsets.Of("g", "T"))
			require.False(t, f.groups.Readable("g", "T"))
		})
	}
}

// Issue 9 part 10: of a file and a database the one with the greater counter is newer; what the database alone has stays, and nothing is lost without a word.
func TestPart10ANewerFileIsTakenIn(t *testing.T) {
	offsets := func(counter int64) string {
		return fmt.Sprintf(`{"dataVersion":{"counter":%d,"stateVersion":0,"timestamp":5},"offsetTable":{"T@g":{0:99}}}`, counter)
	}
	for _, form := range databaseForms {
		t.Run(string(form), func(t *testing.T) {
			config := t.TempDir()
			o := openForm(t, config, form)
			o.offsets.Commit("g", "T", 0, 12)
			o.offsets.Commit("only", "T", 0, 5)
			require.NoError(t, o.offsets.Save())
			counter := o.offsets.snapshot().Version.Counter
			o.close(t)
			for _, c := range []struct {
				counter   int64
				want      int64
				told      string
				alsoAlone bool
			}{
				{counter - 1, 12, "", true},
				{counter, 12, "differs from the database under one version", true},
				{counter + 5, 99, "is newer than the database", true},
			} {
				write(t, config, "consumerOffset.json", offsets(c.counter))
				o := openForm(t, config, form)
				require.Equal(t, c.want, o.offsets.Query("g", "T", 0), c.counter)
				require.Equal(t, int64(5), o.offsets.Query("only", "T", 0))
				if c.told == "" {
					require.NotContains(t, o.log.String(), "consumerOffset.json")
				} else {
					require.Contains(t, o.log.String(), c.told)
				}
				o.close(t)
			}
			// It is in the database now, under the file's version.
			require.NoError(t, os.Remove(filepath.Join(config, "consumerOffset.json")))
			o = openForm(t, config, form)
			require.Equal(t, int64(99), o.offsets.Query("g", "T", 0))
			require.Equal(t, counter+5, o.offsets.snapshot().Version.Counter)
			o.close(t)
		})
	}
}

// Issue 9 part 10: to and fro, and each side has what the other had; whichever was changed is newer, and is not written over without a word.
func TestPart10Move(t *testing.T) {
	for _, form := range databaseForms {
		t.Run(string(form), func(t *testing.T) {
			config := t.TempDir()
			toRocks, toFiles := MoveOptions{From: FormFiles, To: form, Commit: true}, MoveOptions{From: form, To: FormFiles, Commit: true}
			write(t, config, "topics.json", `{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1},"topicConfigTable":{"T":{"perm":4,"strange":{"x":1}},"gone":{}},"mine":1}`)
			write(t, config, "consumerOffset.json", javaOffsets)
			looked, err := Move(config, MoveOptions{From: FormFiles, To: form})
			require.NoError(t, err)
			require.Equal(t, 2, looked[0].Differ)
			require.False(t, looked[0].Written)
			there, err := configdb.Exists(config, configdb.Form(form))
			require.NoError(t, err)
			require.False(t, there, "it only looked")

			moves, err := Move(config, toRocks)
			require.NoError(t, err)
			require.True(t, moves[0].Written)
			require.Contains(t, moves[1].String(), "has none")
			o := openForm(t, config, form)
			got, _ := o.topics.Get("T")
			require.Equal(t, int32(4), got.Perm)
			require.Equal(t, int64(7), o.topics.Version().Counter)
			require.Equal(t, int64(12), o.offsets.Query("g", "T", 0))
			require.NotContains(t, o.log.String(), "differs")
			require.NoError(t, o.topics.Delete("gone"))
			o.offsets.Commit("g", "T", 0, 13)
			require.NoError(t, o.offsets.Save())
			o.close(t)

			older, err := Older(config, FormFiles)
			require.NoError(t, err)
			require.Contains(t, strings.Join(older, "\n"), "topics of "+filepath.Join(config, configdb.NamesOf(configdb.Form(form), configdb.Topics).Dir)+" are newer (version 8 of ")
			_, err = Move(config, toRocks)
			var newer *NewerError
			require.ErrorAs(t, err, &newer, "the other way would lose what the databases have")
			require.Len(t, newer.Tables, 2)

			_, err = Move(config, toFiles)
			require.NoError(t, err)
			older, err = Older(config, FormFiles)
			require.NoError(t, err)
			require.Empty(t, older)
			f := openForm(t, config, FormFiles)
			_, ok := f.topics.Get("gone")
			require.False(t, ok, "a deleted topic does not come back")
			require.Equal(t, int64(13), f.offsets.Query("g", "T", 0))
			require.Contains(t, read(t, config, "topics.json"), `"mine"`)
			require.Contains(t, read(t, config, "topics.json"), `"strange"`)
			require.NoError(t, f.topics.Put(NewTopic("new", 1, 6)))

			// Both were changed since: the greater counter is newer, and the other one gives way only when it is told to.
			o = openForm(t, config, form)
			for n := range 4 {
				require.NoError(t, o.topics.Put(NewTopic(fmt.Sprint("db", n), 1, 6)))
			}
			o.close(t)
			_, err = Move(config, toRocks)
			require.ErrorAs(t, err, &newer)
			overruled := toRocks
			overruled.Overrule, overruled.Now = true, time.UnixMilli(1)
			_, err = Move(config, overruled)
			require.NoError(t, err)
			o = openForm(t, config, form)
			_, ok = o.topics.Get("new")
			require.True(t, ok)
			_, ok = o.topics.Get("db3")
			require.False(t, ok)
			o.close(t)

			again, err := Move(config, toFiles)
			require.NoError(t, err)
			require.Zero(t, again[0].Differ)
			again, err = Move(config, toFiles)
			require.NoError(t, err)
			require.False(t, again[0].Written, "both hold the same under one version")
		})
	}
	_, err := Move(t.TempDir(), MoveOptions{From: FormRocks, To: FormSingle})
	require.Error(t, err)
}

// Issue 9 part 10: the databases that 5.5.0 wrote are read whole, and written back byte for byte.
func TestPart10JavasDatabases(t *testing.T) {
	root := filepath.Join(t.TempDir(), "java")
	require.NoError(t, os.CopyFS(root, os.DirFS("testdata")))
	for form, name := range map[Form]string{FormRocks: "v1", FormSingle: "single"} {
		t.Run(name, func(t *testing.T) {
			config := filepath.Join(root, name, "config")
			d, err := OpenDatabases(config, form)
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			for _, table := range configdb.Tables() {
				theirs, err := d.db.Read(table)
				require.NoError(t, err)
				require.NotEmpty(t, theirs.Rows)
				ours, err := d.image(table)
				require.NoError(t, err)
				require.Equal(t, texts(theirs.Rows), texts(ours.content.Rows))
				require.Equal(t, texts(theirs.Forbidden), texts(ours.content.Forbidden))
				if theirs.Version == nil { // of offsets, until 500 were committed
					require.Equal(t, configdb.Offsets, table)
					require.Equal(t, DataVersion{}, *ours.table.dataVersion())
				} else {
					require.JSONEq(t, string(theirs.Version), string(ours.content.Version))
				}
			}
		})
	}
	// The same was done to a store of files: the same is in it.
	config := filepath.Join(root, "json", "config")
	moves, err := Move(config, MoveOptions{From: FormFiles, To: FormRocks, Commit: true})
	require.NoError(t, err)
	require.Len(t, moves, 3)
	d, err := OpenDatabases(config, FormRocks)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	theirs, err := OpenDatabases(filepath.Join(root, "v1", "config"), FormRocks)
	require.NoError(t, err)
	defer func() { require.NoError(t, theirs.Close()) }()
	for _, table := range configdb.Tables() {
		want, err := theirs.db.Read(table)
		require.NoError(t, err)
		got, err := d.db.Read(table)
		require.NoError(t, err)
		delete(got.Rows, "rmq_sys_wheel_timer") // 5.5.0 writes none of its own to a database until something is changed
		require.Equal(t, texts(want.Rows), texts(got.Rows))
		require.Equal(t, texts(want.Forbidden), texts(got.Forbidden))
	}
}

func texts(rows map[string][]byte) map[string]string {
	out := map[string]string{}
	for name, b := range rows {
		out[name] = string(b)
	}
	return out
}

// A row that cannot be read is named, and the database stays as it is.
func TestPart10ABadRowIsNamed(t *testing.T) {
	config := t.TempDir()
	d, err := OpenDatabases(config, FormRocks)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	require.NoError(t, d.db.Write(configdb.Topics, configdb.Content{Rows: map[string][]byte{"T": []byte("{")}}))
	_, err = OpenTopics(config, TopicsOptions{Databases: d})
	require.ErrorContains(t, err, filepath.Join(config, "topics")+`: row "T"`)
}

func TestPart10DamagedFilesAreLeftAlone(t *testing.T) {
	config := t.TempDir()
	write(t, config, "topics.json", "{")
	_, err := Move(config, MoveOptions{From: FormFiles, To: FormRocks, Commit: true})
	require.ErrorContains(t, err, filepath.Join(config, "topics.json"))
	require.Equal(t, "{", read(t, config, "topics.json"))
}
