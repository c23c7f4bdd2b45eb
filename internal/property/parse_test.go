package property

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A line ends as Java has it, also one that goes on.
func TestParseEndsOfLines(t *testing.T) {
	want := map[string]string{"a": "127.0.0.1:1;127.0.0.1:2", "b": "x", "c": ""}
	for _, end := range []string{"\n", "\r\n", "\r"} {
		got, err := Parse([]byte("# a=0 \\" + end + "a=127.0.0.1:1\\" + end + "  ;127.0.0.1:2" + end + "b : x" + end + "c" + end))
		require.NoError(t, err)
		require.Equal(t, want, got, "%q", end)
	}
	got, err := Parse([]byte(`a=\r\n${b}`))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "\r\n${b}"}, got)
}
