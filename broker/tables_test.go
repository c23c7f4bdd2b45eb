//go:build cgo

package broker

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// Issue 9 part 10: a broker over a RocksDB store has its tables where 5.5.0 has them, and one over files does not go on without what happened there.
func TestPart10TablesOfARocksDBStore(t *testing.T) {
	for form, change := range map[meta.Form]func(o *Options){
		meta.FormRocks:  func(*Options) {},
		meta.FormSingle: func(o *Options) { o.UseSingleRocksDBForAllConfigs = true },
	} {
		t.Run(string(form), func(t *testing.T) {
			rocks := func(o *Options) { o.Store.StoreType = store.StoreTypeRocksDB; change(o) }
			b, client := openTest(t, rocks)
			require.Equal(t, remoting.Success, sendV2(t, b, client, "T", []byte("x"), "").Code)
			b.offsets.Commit("g", "T", 0, 1)
			files, err := filepath.Glob(filepath.Join(b.o.StorePathRootDir, "config", "topics.json*"))
			require.NoError(t, err)
			require.Empty(t, files)
			b, client = again(t, b)
			_, there := b.topics.Get("T")
			require.True(t, there)
			require.Equal(t, int64(1), b.offsets.Query("g", "T", 0))
			ok(t, b, client, remoting.ExportRocksDBConfigToJSON, "", field("configType", "topics;subscriptionGroups;consumerOffsets"))
			require.Contains(t, configFile(t, b, "topics.json"), `"T"`)
			require.Contains(t, configFile(t, b, "consumerOffset.json"), "T@g")
			require.Equal(t, remoting.Success, sendV2(t, b, client, "U", []byte("x"), "").Code)
			require.NoError(t, b.Close())

			o := b.o
			o.Store.StoreType, o.Store.RocksdbCQDoubleWriteEnable = store.StoreTypeFile, true
			before := tree(t, o.StorePathRootDir)
			_, err = Open(o)
			require.Equal(t, before, tree(t, o.StorePathRootDir), "a start that is refused changes nothing")
			require.ErrorIs(t, err, errOlderTables)
			require.ErrorContains(t, err, "topics of ")
			require.ErrorContains(t, err, "tandemmq migrate metadata --store "+o.StorePathRootDir+" --to file --yes")
			config := filepath.Join(o.StorePathRootDir, "config")
			_, err = meta.Move(config, meta.MoveOptions{From: form, To: meta.FormFiles, Commit: true})
			require.NoError(t, err)
			b, err = Open(o)
			require.NoError(t, err)
			_, there = b.topics.Get("U")
			require.True(t, there)
			require.NoError(t, b.Close())
		})
	}
}

// tree lists what is below a directory, with the length of each file.
func tree(t *testing.T, root string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			list = append(list, path)
			return err
		}
		st, err := e.Info()
		if err == nil {
			list = append(list, fmt.Sprintf("%s %d", path, st.Size()))
		}
		return err
	}))
	return list
}

func TestPart10OtherManagersAreRefused(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "config", "rdb"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "config", "rdb", "CURRENT"), []byte("x"), 0o644))
	o := DefaultOptions()
	o.StorePathRootDir, o.ListenPort = root, 0
	_, err := Open(o)
	require.ErrorContains(t, err, filepath.Join(root, "config", "rdb"))
	require.ErrorContains(t, err, "set configManagerVersion=v1 if they are left over")
	o.ConfigManagerVersion = "v1"
	b, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	_, _, err = ParseOptions(map[string]string{"configManagerVersion": "v2"})
	require.ErrorContains(t, err, `configManagerVersion is "v2"`)
}
