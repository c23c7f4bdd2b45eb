package golden_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// store dump prints exactly the queues and messages that RocketMQ served, for each kind of queue a store has. file-abort is
// among them: its queues are complete on disk.
func TestDumpEqualsWhatRocketMQRead(t *testing.T) {
	compared := 0
	for _, name := range golden.Names() {
		for _, kind := range []string{golden.File, golden.Rocks} {
			want, has := golden.ExpectedDump(t, name, kind)
			if !has {
				continue
			}
			compared++
			t.Run(name+"/"+kind, func(t *testing.T) {
				dir := golden.Unpack(t, name)
				before := golden.TreeSums(t, dir)
				r := tandemmq.Run(t, "store", "dump", "--store", dir, "--cq", kind)
				if kind == golden.Rocks && !hasRocks {
					require.Equal(t, 1, r.Code)
					require.Contains(t, r.Stderr, "without cgo")
					return
				}
				require.Zero(t, r.Code, r.Stderr)
				got, err := golden.ParseDump([]byte(r.Stdout))
				require.NoError(t, err)
				require.Equal(t, want.Queues, got.Queues)
				golden.RequireMessages(t, want.Messages, got.Messages, "dump")
				if name == "file-abort" {
					require.Contains(t, r.Stderr, "abort", "an unclean store is shown with a warning")
				} else {
					require.Empty(t, r.Stderr)
				}
				require.Equal(t, before, golden.TreeSums(t, dir), "a dump only reads")
			})
		}
	}
	require.Equal(t, 12, compared, "stores times kinds")
}

// A kind that the store does not have is no empty dump.
func TestDumpOfAbsentKindFails(t *testing.T) {
	dir := golden.Unpack(t, "file-normal")
	r := tandemmq.Run(t, "store", "dump", "--store", dir, "--cq", golden.Rocks)
	require.Equal(t, 1, r.Code, r.Stdout)
	require.Empty(t, r.Stdout)
	require.NotEmpty(t, r.Stderr)
}

// A store that was not closed cleanly is not moved: recovery comes first, and nothing is touched until then.
func TestMigrateRefusesUncleanStore(t *testing.T) {
	if !hasRocks {
		t.Skip("no RocksDB in this build: migrate to rocks is refused for that reason already")
	}
	for _, verb := range []string{"plan", "run", "backfill"} {
		t.Run(verb, func(t *testing.T) {
			dir := golden.Unpack(t, "file-abort")
			before := golden.TreeSums(t, dir)
			args := []string{"migrate", verb, "--store", dir, "--to", "rocks"}
			if verb == "run" {
				args = append(args, "--yes")
			}
			r := tandemmq.Run(t, args...)
			require.Equal(t, 1, r.Code, r.Stdout+r.Stderr)
			require.Contains(t, r.Stderr, "recover")
			require.Contains(t, r.Stderr, "abort")
			require.Equal(t, before, golden.TreeSums(t, dir))
		})
	}
}
