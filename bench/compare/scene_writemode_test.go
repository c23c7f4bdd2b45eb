package compare

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWriteModeScenarios(t *testing.T) {
	requireScenarios(t, WriteModeScenarios())
	for _, s := range []writeSize{
		{sync: false, producers: 1, readers: 1, time: time.Minute, messages: 300, change: smallStore},
		{sync: true, producers: 3, readers: 2, time: time.Minute, messages: 60, change: smallStore},
	} {
		for _, engine := range []string{writeMapped, writePool, writeStaged, writeThru} {
			r := newTestRun(t, engine)
			err := runWriteMode(t.Context(), r, s)
			if engine == writePool && s.sync || engine == writeStaged && !s.sync {
				require.EqualError(t, err, fmt.Sprintf("no write mode %q of this flush", engine))
				continue
			}
			require.NoError(t, err, engine)
			requireRun(t, r, "putPerSecond")
			require.Contains(t, r.Figures, "readBytesPerSecond")
		}
	}
}

// Without an end to the messages the time ends it.
func TestWriteModeEndsInTime(t *testing.T) {
	r := newTestRun(t, writeMapped)
	require.NoError(t, runWriteMode(t.Context(), r, writeSize{producers: 1, time: time.Millisecond, messages: 1 << 40, change: smallStore}))
	requireRun(t, r, "putPerSecond")
}
