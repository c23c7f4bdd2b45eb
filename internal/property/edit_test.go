package property

import (
	"testing"

	"github.com/magiconair/properties"
	"github.com/stretchr/testify/require"
)

func TestEdit(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		set              map[string]string
	}{
		{"nothing there", "", "a=1\nb=2\n", map[string]string{"b": "2", "a": "1"}},
		{"in its place", "# a=0\n\n  a = 1\nb=2", "# a=0\n\na=7\nb=2\nc=3\n", map[string]string{"a": "7", "c": "3"}},
		{"separators", "a:1\nb 2\nc\n\td\t=4\n", "a=x\nb=x\nc=x\nd=x\n", map[string]string{"a": "x", "b": "x", "c": "x", "d": "x"}},
		{"the last one counts", "a=1\nb=2\na=3\n", "a=1\nb=2\na=9\n", map[string]string{"a": "9"}},
		{"lines that go on", "a=1 \\\n  2 \\\n  3\nb=4\\\\\na2=5\n", "a=0\nb=4\\\\\na2=6\n", map[string]string{"a": "0", "a2": "6"}},
		{"a comment does not go on", "# x \\\na=1\n", "# x \\\na=2\n", map[string]string{"a": "2"}},
		{"ends of lines", "a=1\r\nb=2\r\n", "a=5\r\nb=2\r\n", map[string]string{"a": "5"}},
		{"names that are not it", "aa=1\na.b=2\n", "aa=1\na.b=2\na=3\n", map[string]string{"a": "3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, string(Edit([]byte(c.text), c.set)))
		})
	}
}

// What is written is read back as it was.
func FuzzEdit(f *testing.F) {
	f.Add("a=1\n# b\nb : 2\\\n 3\n", "a", `C:\x y`)
	f.Add("", "name with = and :", " leading\tü\n")
	f.Fuzz(func(t *testing.T, text, name, value string) {
		loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
		before, err := loader.LoadBytes([]byte(text))
		if err != nil || name == "" || !plain(name) || !plain(value) || !plain(text) {
			t.Skip()
		}
		after, err := loader.LoadBytes(Edit([]byte(text), map[string]string{name: value}))
		require.NoError(t, err)
		want := before.Map()
		want[name] = value
		require.Equal(t, want, after.Map())
	})
}

// plain says that s has no character beyond those that \uXXXX can say, and none that the reader of the test takes otherwise than Java does.
func plain(s string) bool {
	for _, r := range s {
		if r > 0xffff || r == 0xfffd || r == '\f' || r < ' ' && r != '\n' && r != '\t' {
			return false
		}
	}
	return true
}
