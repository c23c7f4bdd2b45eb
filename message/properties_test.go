package message

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What upstream's parser makes of these strings.
func TestProperties(t *testing.T) {
	type kv [2]string
	for _, c := range []struct {
		name, in string
		want     []kv
	}{
		{"empty", "", nil},
		{"one", "a\x01b\x02", []kv{{"a", "b"}}},
		{"last separator missing", "a\x01b\x02c\x01d", []kv{{"a", "b"}, {"c", "d"}}},
		{"empty value", "a\x01\x02c\x01d\x02", []kv{{"c", "d"}}},
		{"empty value of a long name", "abc\x01\x02", nil},
		{"empty name", "\x01a\x02c\x01d\x02", []kv{{"c", "d"}}},
		{"empty name, separator again", "\x01a\x01b\x02", nil},
		{"no separator", "abc\x02c\x01d\x02", []kv{{"c", "d"}}},
		{"empty elements", "\x02\x02c\x01d\x02\x02", []kv{{"c", "d"}}},
		{"separator in the value", "a\x01b\x01c\x02", []kv{{"a", "b\x01c"}}},
		{"separator ends the value", "a\x01b\x01\x02", []kv{{"a", "b\x01"}}},
		{"duplicate", "a\x01b\x02c\x01d\x02a\x01e\x02", []kv{{"a", "b"}, {"c", "d"}, {"a", "e"}}},
		{"duplicate without value does not count", "a\x01b\x02a\x01\x02", []kv{{"a", "b"}}},
		{"name begins with another", "TAGS2\x01x\x02TAG\x01y\x02", []kv{{"TAGS2", "x"}, {"TAG", "y"}}},
		{"UTF-8", "键\x01值\x02", []kv{{"键", "值"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Record{Properties: []byte(c.in)}
			var got []kv
			last := map[string]string{}
			for name, value := range r.PropertiesSeq() {
				got = append(got, kv{string(name), string(value)})
				last[string(name)] = string(value)
			}
			require.Equal(t, c.want, got)
			for name, want := range last {
				value, ok := r.Property(name)
				require.True(t, ok, name)
				require.Equal(t, want, string(value), name)
			}
			for _, absent := range []string{"", "TAGS", "abc", "zz"} {
				value, ok := r.Property(absent)
				require.False(t, ok, absent)
				require.Nil(t, value, absent)
			}
		})
	}
}

func TestPropertiesSeqStops(t *testing.T) {
	r := Record{Properties: []byte("a\x01b\x02c\x01d\x02")}
	n := 0
	for range r.PropertiesSeq() {
		n++
		break
	}
	require.Equal(t, 1, n)
}

func TestValidProperty(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"a", "b", true},
		{"", "b", false},
		{"a", "", false},
		{"a\x01", "b", false},
		{"a\x02", "b", false},
		{"a", "\x01b", false},
		{"a", "b\x02", false},
		{"键", "值", true},
	} {
		require.Equal(t, c.want, ValidProperty(c.name, c.value), "%q %q", c.name, c.value)
		r := Record{Properties: AppendProperty(nil, c.name, c.value)}
		if v, ok := r.Property(c.name); c.want {
			require.True(t, ok)
			require.Equal(t, c.value, string(v))
		}
	}
}
