//go:build interop

package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/interop/java"
)

// javaTables lets a broker load topics, groups and offsets of a store, and returns what it printed.
func javaTables(t *testing.T, dir string, words ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), javaLimit)
	defer cancel()
	classPath, err := java.BuildBroker(ctx)
	require.NoError(t, err)
	var out, errs bytes.Buffer
	cmd := java.Command(ctx, classPath, t.TempDir(), jvm("512m"), "ConfigCheck", append([]string{dir}, words...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "%s", lastBytes(&errs, 4000))
	require.Contains(t, out.String(), "loaded true\n")
	return out.String()
}

// javaOffsets returns the offsets by "topic@group queue", with the version counter.
func javaOffsets(t *testing.T, dir string, words ...string) (offsets map[string]int64, counter int64) {
	t.Helper()
	offsets = map[string]int64{}
	for line := range strings.Lines(javaTables(t, dir, words...)) {
		var row string
		var queue, offset int64
		if n, _ := fmt.Sscanf(line, "offset %s %d %d", &row, &queue, &offset); n == 3 {
			offsets[fmt.Sprintf("%s %d", row, queue)] = offset
		}
		_, _ = fmt.Sscanf(line, "counter %d", &counter)
	}
	return offsets, counter
}

// What store offsets writes is what 5.5.0 loads: from the file, from the file of a broker with light queues, and into its
// databases, which take the file in because of its counter.
func TestOffsetsAreWhatRocketMQLoads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, place, file string
		broker            []string
	}{
		{"file", "json", "consumerOffset.json", []string{"default"}},
		{"file with light queues", "json-lmq", "lmqConsumerOffset.json", []string{"default", "lmq"}},
		{"databases", "rocksdb", "consumerOffset.json", []string{"defaultRocksDB"}},
		{"one database", "rocksdb-single", "consumerOffset.json", []string{"defaultRocksDB", "single"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			tandemmq.MustRun(t, "store", "generate", "--store", dir, "--messages", "100", "--topics", "1", "--queues", "2")
			light := ""
			want := map[string]int64{"sample_0@g 0": 0, "sample_0@g 1": 5, "gone@h 3": 7}
			if tt.place == "json-lmq" {
				light, want["%LMQ%l@%LMQ%l 0"] = `,"lmqOffsetTable":{"%LMQ%l@%LMQ%l":4}`, 4
			}
			path := filepath.Join(dir, "config", tt.file)
			require.NoError(t, os.WriteFile(path, []byte(`{"dataVersion":{"counter":8,"stateVersion":0,"timestamp":1},`+
				`"offsetTable":{"sample_0@g":{0:900,1:5},"gone@h":{3:7}}`+light+`}`), 0o644))
			before, _ := javaOffsets(t, dir, tt.broker...) // and makes the databases of this
			require.Equal(t, int64(900), before["sample_0@g 0"])
			args := []string{"store", "offsets", "reset", "--store", dir, "--place", tt.place, "--group", "g", "--queue", "0", "--to-min", "--yes"}
			if strings.HasPrefix(tt.place, "rocksdb") {
				require.NoError(t, os.WriteFile(path, []byte(`{"offsetTable":{"old@g":{0:1}}}`), 0o644)) // of years ago
			}
			tandemmq.MustRun(t, args...)
			got, counter := javaOffsets(t, dir, tt.broker...)
			require.Equal(t, want, got)
			if light == "" { // a broker with light queues does not read the version
				require.Greater(t, counter, int64(8))
			}

			// A database has it now, without the file.
			if strings.HasPrefix(tt.place, "rocksdb") {
				require.NoError(t, os.Remove(path))
				got, _ = javaOffsets(t, dir, tt.broker...)
				require.Equal(t, want, got)
			}
		})
	}
}
