package golden_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// After store recover each store, crashed or not, holds exactly the queues and messages that RocketMQ served after its own recovery; and then migrate takes it.
func TestRecoverEqualsWhatRocketMQRead(t *testing.T) {
	compared := 0
	for _, name := range golden.Names() {
		m := golden.Manifest(t, name)
		if !hasRocks && m.Meta.Mode != golden.File {
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := golden.Unpack(t, name)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), []byte("1"), 0o644))
			r := tandemmq.Run(t, "store", "recover", "--store", dir)
			require.Zero(t, r.Code, r.Stdout+r.Stderr)
			require.NoFileExists(t, filepath.Join(dir, "abort"))
			for _, kind := range []string{golden.File, golden.Rocks} {
				expect := kind
				if name == "combine-upgrade" { // RocketMQ left its RocksDB without the messages from before dual write; recovery gives it what the files have (F14)
					expect = golden.File
				}
				want, has := golden.ExpectedDump(t, name, expect)
				if !has {
					continue
				}
				compared++
				r = tandemmq.Run(t, "store", "dump", "--store", dir, "--cq", kind)
				require.Zero(t, r.Code, r.Stderr)
				require.Empty(t, r.Stderr)
				got, err := golden.ParseDump([]byte(r.Stdout))
				require.NoError(t, err)
				require.Equal(t, want.Queues, got.Queues)
				golden.RequireMessages(t, want.Messages, got.Messages, "dump")
			}
			if name == "file-abort" && hasRocks {
				r = tandemmq.Run(t, "migrate", "run", "--store", dir, "--to", "rocks", "--yes")
				require.Zero(t, r.Code, r.Stdout+r.Stderr)
			}
		})
	}
	require.GreaterOrEqual(t, compared, 6)
}
