package load

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/report"
)

func TestParseJava(t *testing.T) {
	x := report.Figures{}
	require.NoError(t, parseJava([]byte("noise\n"+`{"t":"put","messages":7,"messagesPerSecond":3,"dispatchedPerSecond":2,"p50Nanos":1500}`+"\n"), "put", 7, x))
	require.InDelta(t, 2, x["builtPerSecond"], 1e-9)
	require.InDelta(t, 1.5, x["putP50Micros"], 1e-9)
	require.NoError(t, parseJava([]byte(`{"t":"read","messages":7,"loadMillis":1,"startMillis":2,"readyMillis":4,"pullPerSecond":5,"getP50Nanos":6000,"timeP50Nanos":7000}`), "read", 7, x))
	require.InDelta(t, 3, x["openMillis"], 1e-9)
	require.InDelta(t, 6, x["getP50Micros"], 1e-9)
	require.ErrorContains(t, parseJava([]byte(`{"t":"put","messages":7}`), "put", 8, x), "7 messages, want 8")
	require.ErrorContains(t, parseJava([]byte("nothing"), "put", 8, x), "no measurement: nothing")
}
