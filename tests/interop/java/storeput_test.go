//go:build interop

package java

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/message"
)

// What StorePut says it measured lies in the log, with what the index needs in each record.
func TestStorePut(t *testing.T) {
	t.Parallel()
	classPath, err := Build(t.Context())
	require.NoError(t, err)
	for _, flush := range []string{"async", "sync"} {
		t.Run(flush, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			cmd := Command(t.Context(), classPath, t.TempDir(), nil, "StorePut", dir, "--flush", flush, "--threads", "3",
				"--messages", "100", "--warmup", "10", "--body", "77", "--topics", "2", "--queues", "2")
			out, err := cmd.Output()
			require.NoError(t, err, string(out))
			var m struct {
				Messages, LogBytes                     int64
				MessagesPerSecond, DispatchedPerSecond float64
				P50Nanos, MaxNanos                     int64
				Statuses                               map[string]int64
			}
			require.NoError(t, json.Unmarshal(out, &m), string(out))
			require.EqualValues(t, 100, m.Messages)
			require.Equal(t, map[string]int64{"PUT_OK": 100}, m.Statuses)
			require.Positive(t, m.P50Nanos)
			require.GreaterOrEqual(t, m.MaxNanos, m.P50Nanos)
			require.GreaterOrEqual(t, m.MessagesPerSecond, m.DispatchedPerSecond)

			log, err := commitlog.Open(filepath.Join(dir, "commitlog"), commitlog.Options{})
			require.NoError(t, err)
			defer log.Close()
			records, bytes := 0, int64(0)
			unique := map[string]bool{}
			s := log.Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
			defer s.Close()
			for ; s.Next(); records++ {
				r := s.Record()
				require.Len(t, r.Body, 77)
				key, _ := r.Property("UNIQ_KEY")
				unique[string(key)] = true
				_, ok := r.Property("KEYS")
				require.True(t, ok)
				require.NotZero(t, r.TagsCode(message.DefaultDelayLevels()))
				if records >= 10 {
					bytes += int64(len(r.Raw))
				}
			}
			require.NoError(t, s.Err())
			require.Equal(t, 110, records)
			require.Len(t, unique, 110)
			require.Equal(t, m.LogBytes, bytes)
		})
	}
}
