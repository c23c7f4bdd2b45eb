package property

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEditDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"abc", "abc", 0}, {"ab", "ba", 2}, {"flaw", "lawn", 2}}
	for _, tt := range tests {
		require.Equal(t, tt.want, editDistance(tt.a, tt.b), "%s and %s", tt.a, tt.b)
	}
}

func TestProperties(t *testing.T) {
	type options struct {
		Yes    bool          `prop:"yes,live"`
		N      int32         `prop:"n,own"`
		Paths  []string      `prop:"paths"`
		Wait   time.Duration `prop:"wait"`
		Hidden func()        `prop:"-"`
	}
	list := Fields[options]()
	require.Len(t, list, 4)
	require.True(t, list[0].Live)
	require.True(t, list[1].Own)
	var o options
	for i, text := range []string{"true", "-7", "/a,/b", "1500"} {
		require.NoError(t, list[i].Set(&o, " "+text+" "))
		require.Equal(t, text, list[i].Text(&o))
	}
	require.Equal(t, options{Yes: true, N: -7, Paths: []string{"/a", "/b"}, Wait: 1500 * time.Millisecond}, o)
	for i, text := range []string{"yes", "2147483648", "", "-1"} {
		if i != 2 {
			require.ErrorContains(t, list[i].Set(&o, text), list[i].Name+" is")
		}
	}
	require.Equal(t, "paths", Nearest(list, "path"))
	require.Empty(t, Nearest(list, "something"))
}
