package golden_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/testenv"
	"github.com/tandemq/tandemmq/tests/golden"
)

var tandemmq *golden.Binary

func TestMain(m *testing.M) {
	golden.Main(testenv.Memory{Tests: m}, func(b *golden.Binary, _ string) error {
		tandemmq = b
		return nil
	})
}

// The stores are all there and no manifest lost a line on its way: RocketMQ counted the messages, so do we.
func TestManifestsAreWhole(t *testing.T) {
	messages := map[string]int{
		"combine-normal": 400, "combine-upgrade": 1200, "file-abort": 500, "file-delay-tags-keys": 469, "file-lmq": 738,
		"file-normal": 400, "file-roll": 1500, "file-v2topic-ipv6": 300, "rocks-lmq": 725, "rocks-normal": 400,
	}
	require.Len(t, golden.Names(), len(messages))
	for _, name := range golden.Names() {
		t.Run(name, func(t *testing.T) {
			m := golden.Manifest(t, name)
			require.Len(t, m.Messages, messages[name])
			require.Equal(t, name == "file-abort", m.Meta.AbortFileBeforeOpen)
			sum := 0
			for _, q := range m.Queues {
				require.Len(t, m.Of(q), int(q.Readable), q.Name())
				sum += int(q.Readable)
			}
			require.Equal(t, messages[name], sum)

			first, err := filepath.Glob(filepath.Join(golden.Unpack(t, name), "commitlog", "00000000000000000000"))
			require.NoError(t, err)
			require.Len(t, first, 1)
			info, err := os.Stat(first[0])
			require.NoError(t, err)
			require.Equal(t, m.Meta.Config.CommitLogFileBytes, info.Size())
		})
	}
}

// The repository takes no large files.
func TestDataStaysSmall(t *testing.T) {
	require.NoError(t, filepath.WalkDir("testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(1<<20), path)
		return nil
	}))
}
