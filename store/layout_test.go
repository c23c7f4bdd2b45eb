package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// put writes a file below dir, with its directories.
func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func TestFindRocks(t *testing.T) {
	tests := []struct {
		name   string
		files  []string
		dirs   []string
		layout RocksLayout
		found  bool
		err    string
	}{
		{name: "nothing"},
		{name: "only file queues", files: []string{"consumequeue/T/0/00000000000000000000"}},
		{name: "shared", files: []string{"consumequeue/CURRENT", "consumequeue/T/0/00000000000000000000"}, layout: RocksShared, found: true},
		{name: "separate", files: []string{"consumequeue_rocksdb/CURRENT"}, layout: RocksSeparate, found: true},
		{name: "a topic called CURRENT", dirs: []string{"consumequeue/CURRENT"}},
		{name: "both", files: []string{"consumequeue/CURRENT", "consumequeue_rocksdb/CURRENT"}, err: "RocketMQ opens neither"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for _, f := range tt.files {
				put(t, root, f, "x")
			}
			for _, d := range tt.dirs {
				require.NoError(t, os.MkdirAll(filepath.Join(root, d), 0o755))
			}
			dir, layout, found, err := NewLayout(root).FindRocks()
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				require.False(t, found)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.found, found)
			require.Equal(t, tt.layout, layout)
			if found {
				require.Equal(t, NewLayout(root).RocksDir(layout), dir)
			}
		})
	}
}

func TestFindRocksRemnants(t *testing.T) {
	const shared, separate = "consumequeue", "consumequeue_rocksdb"
	tests := []struct {
		name  string
		files []string
		dirs  []string
		want  RocksLayout // "": no remnants
		file  string
	}{
		{name: "manifest, shared", files: []string{shared + "/MANIFEST-000005", shared + "/T/0/00000000000000000000"}, want: RocksShared, file: "MANIFEST-000005"},
		{name: "tables, separate", files: []string{separate + "/000012.sst", separate + "/000009.sst", separate + "/000011.sst"}, want: RocksSeparate, file: "000009.sst"},
		{name: "a database in the other place", files: []string{shared + "/CURRENT", shared + "/MANIFEST-000005", separate + "/MANIFEST-000004"}, want: RocksSeparate, file: "MANIFEST-000004"},
		{name: "a topic called CURRENT", files: []string{shared + "/000009.sst"}, dirs: []string{shared + "/CURRENT"}, want: RocksShared, file: "000009.sst"},
		{name: "topics called so", dirs: []string{shared + "/MANIFEST-000005", shared + "/a.sst/0"}},
		{name: "other files of a database", files: []string{separate + "/LOG", separate + "/IDENTITY", separate + "/LOCK", separate + "/archive/000009.sst"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for _, f := range tt.files {
				put(t, root, f, "x")
			}
			for _, d := range tt.dirs {
				require.NoError(t, os.MkdirAll(filepath.Join(root, d), 0o755))
			}
			l := NewLayout(root)
			_, _, found, err := l.FindRocks()
			require.False(t, found)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			var remnants *RemnantsError
			require.ErrorAs(t, err, &remnants)
			require.Equal(t, &RemnantsError{Dir: l.RocksDir(tt.want), Layout: tt.want, File: tt.file}, remnants)
			require.ErrorContains(t, err, "directory "+l.RocksDir(tt.want)+" has files of a RocksDB database ("+tt.file+") but its file CURRENT is missing: `tandemmq store recover --store")
		})
	}
}

// Topics, queues and files may be links to another disk.
func TestQueueTreesFollowLinks(t *testing.T) {
	const seg = "00000000000000000000"
	for _, linked := range []string{"T", "T/0", "T/0/" + seg} {
		t.Run(linked, func(t *testing.T) {
			root, disk := t.TempDir(), t.TempDir()
			l := NewLayout(root)
			for _, tree := range []string{"consumequeue", "batchconsumequeue"} {
				put(t, root, tree+"/T/0/"+seg, "x")
				from, to := filepath.Join(root, tree, linked), filepath.Join(disk, tree)
				require.NoError(t, os.Rename(from, to))
				require.NoError(t, os.Symlink(to, from))
				require.NoError(t, os.Symlink(filepath.Join(disk, "nowhere"), filepath.Join(root, tree, "gone")))
			}
			has, err := l.HasFileQueues()
			require.NoError(t, err)
			require.True(t, has)
			batch, err := l.BatchTopics()
			require.NoError(t, err)
			require.Equal(t, []string{"T"}, batch)
		})
	}
}

func TestHasAbort(t *testing.T) {
	root := t.TempDir()
	has, err := NewLayout(root).HasAbort()
	require.NoError(t, err)
	require.False(t, has)
	put(t, root, "abort.bak", "") // means nothing
	has, err = NewLayout(root).HasAbort()
	require.NoError(t, err)
	require.False(t, has)
	put(t, root, "abort", "28167")
	has, err = NewLayout(root).HasAbort()
	require.NoError(t, err)
	require.True(t, has)
}

func TestQueueTrees(t *testing.T) {
	const seg = "00000000000000000000"
	root := t.TempDir()
	l := NewLayout(root)
	batch, err := l.BatchTopics()
	require.NoError(t, err)
	require.Empty(t, batch)
	has, err := l.HasFileQueues()
	require.NoError(t, err)
	require.False(t, has)

	put(t, root, "consumequeue/CURRENT", "MANIFEST-000005\n")
	put(t, root, "consumequeue/T/0/"+seg, "") // made, never written
	put(t, root, "consumequeue/T/notes/"+seg, "x")
	put(t, root, "consumequeue/T/0/readme", "x")
	has, err = l.HasFileQueues()
	require.NoError(t, err)
	require.False(t, has)
	put(t, root, "consumequeue/U/3/"+seg, "x")
	has, err = l.HasFileQueues()
	require.NoError(t, err)
	require.True(t, has)

	put(t, root, "batchconsumequeue/b2/0/"+seg, "x")
	put(t, root, "batchconsumequeue/b2/1/"+seg, "x")
	put(t, root, "batchconsumequeue/b1/0/"+seg, "x")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "batchconsumequeue/b3/0"), 0o755))
	batch, err = l.BatchTopics()
	require.NoError(t, err)
	require.Equal(t, []string{"b1", "b2"}, batch)
}

func TestCheckRoot(t *testing.T) {
	root := t.TempDir()
	require.ErrorContains(t, NewLayout(filepath.Join(root, "nowhere")).CheckRoot(), "no such directory")
	put(t, root, "file", "x")
	require.ErrorContains(t, NewLayout(filepath.Join(root, "file")).CheckRoot(), "not a directory")
	require.ErrorContains(t, NewLayout(root).CheckRoot(), "no RocketMQ store")
	require.NoError(t, os.Mkdir(filepath.Join(root, "commitlog"), 0o755))
	require.NoError(t, NewLayout(root).CheckRoot())
}

func TestTopics(t *testing.T) {
	const good = `{"dataVersion":{"counter":2},"topicConfigTable":{"a":{"perm":6},"%RETRY%g":{"attributes":{}}}}`
	tests := []struct {
		name  string
		files map[string]string
		want  []string
		known bool
		err   string
	}{
		{name: "no table"},
		{name: "good", files: map[string]string{"topics.json": good}, want: []string{"a", "%RETRY%g"}, known: true},
		{name: "empty table", files: map[string]string{"topics.json": `{"topicConfigTable":{}}`}, want: []string{}, known: true},
		{name: "integer keys", known: true, want: []string{`x,{1:"`, "y"}, files: map[string]string{
			"topics.json": `{"v":{0:1, -3 : [1,2]},"topicConfigTable":{"x,{1:\"":{7:"p"},"y":{}}}`,
		}},
		{name: "empty file, no twin", files: map[string]string{"topics.json": ""}},
		{name: "empty file, good twin", files: map[string]string{"topics.json": "", "topics.json.bak": good}, want: []string{"a", "%RETRY%g"}, known: true},
		{name: "torn file, good twin", files: map[string]string{"topics.json": good[:40], "topics.json.bak": good}, want: []string{"a", "%RETRY%g"}, known: true},
		{name: "torn, no twin", files: map[string]string{"topics.json": good[:40]}, err: "topics.json"},
		{name: "something else", files: map[string]string{"topics.json": `{"groups":{}}`}, err: "no topicConfigTable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, content := range tt.files {
				put(t, root, "config/"+name, content)
			}
			names, known, err := NewLayout(root).Topics()
			require.Equal(t, tt.known, known)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			got := []string{}
			for name := range names {
				got = append(got, name)
			}
			if tt.known {
				require.ElementsMatch(t, tt.want, got)
			}
		})
	}
}
