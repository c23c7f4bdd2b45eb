package message

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Separators in names and values are refused; what only reading drops is not.
func TestW23ScanProperties(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     PropertyScan
		at       int // of the malformed element
		reason   string
	}{
		{"none", "", PropertyScan{}, 0, ""},
		{"one", "a\x01b\x02", PropertyScan{0, 1}, 0, ""},
		{"one, not ended", "a\x01b", PropertyScan{0, 1}, 0, ""},
		{"no value", "a\x01\x02", PropertyScan{0, 1}, 0, ""},
		{"no value, not ended", "a\x01", PropertyScan{0, 1}, 0, ""},
		{"zero bytes", "\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x02DELAY\x01\x00", PropertyScan{HasDelay, 2}, 0, ""},
		{"high bytes", "\xff\x80\x83\x01\x81\x82\x83\x84\xff\xfe\x02", PropertyScan{0, 1}, 0, ""},
		{"separators behind high bytes", "a\xff\x01\xff\x02DELAY\x01\x83\x02", PropertyScan{HasDelay, 2}, 0, ""},
		{"reserved names", "INNER_MULTI_DISPATCH\x01a\x02INNER_MULTI_QUEUE_OFFSET\x011\x02INNER_NUM\x011\x02INNER_BASE\x011\x02" +
			"DELAY\x011\x02WAIT\x011\x02__CRC32#\x011\x02UNIQ_KEY\x011", PropertyScan{1<<len(memberNames) - 1, 8}, 0, ""},
		{"names alike", "INNER_NUMB\x011\x02INNER_NU\x011\x02DELAY \x011\x02delay\x011\x02", PropertyScan{0, 4}, 0, ""},
		{"reserved name without value", "DELAY\x01\x02WAIT\x01", PropertyScan{0, 2}, 0, ""},
		{"reserved name twice, once without value", "DELAY\x011\x02DELAY\x01", PropertyScan{HasDelay, 2}, 0, ""},
		{"no name separator", "abc\x02a\x01b\x02", PropertyScan{}, 0, "no 0x01"},
		{"no name separator, last", "a\x01b\x02abc", PropertyScan{}, 4, "no 0x01"},
		{"empty element", "a\x01b\x02\x02", PropertyScan{}, 4, "no 0x01"},
		{"separator alone", "\x02", PropertyScan{}, 0, "no 0x01"},
		{"value with 0x01", "a\x01b\x02c\x01d\x01e\x02", PropertyScan{}, 4, "second 0x01"},
		{"value with 0x01, last", "a\x01b\x01", PropertyScan{}, 0, "second 0x01"},
		{"value with 0x02", "a\x01b\x02c\x02", PropertyScan{}, 4, "no 0x01"},
		{"no name", "a\x01b\x02\x01c\x02", PropertyScan{}, 4, "empty name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ScanProperties([]byte(c.in))
			require.Equal(t, c.want, got)
			if c.reason == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrPropertyForm)
			var bad *PropertyError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, PropertyError{c.at, c.reason}, *bad)
		})
	}
	_, err := ScanProperties([]byte("a\x01b\x02abc"))
	require.EqualError(t, err, "scan properties: element at byte 4: no 0x01: malformed property string")
}

// The scan works on words of eight bytes: every place of the two separators and of the end in a word.
func TestScanPropertiesEveryAlignment(t *testing.T) {
	for name := 1; name <= 20; name++ {
		for value := 0; value <= 20; value++ {
			p := AppendProperty(nil, string(bytes.Repeat([]byte{'n'}, name)), string(bytes.Repeat([]byte{3}, value)))
			p = AppendProperty(p, PropertyWait, "false")
			for _, p := range [][]byte{p, p[:len(p)-1]} {
				got, err := ScanProperties(p)
				require.NoError(t, err)
				require.Equal(t, PropertyScan{HasWait, 2}, got)
			}
		}
	}
}

func TestAppendProperties(t *testing.T) {
	for _, c := range []struct {
		name, in      string
		drop          PropertySet
		without, with string // with: INNER_BASE set to 42
	}{
		{"none", "", HasDelay, "", "INNER_BASE\x0142\x02"},
		{"kept", "a\x01b\x02", HasDelay, "a\x01b\x02", "a\x01b\x02INNER_BASE\x0142\x02"},
		{"kept and ended", "a\x01b", HasDelay, "a\x01b\x02", "a\x01b\x02INNER_BASE\x0142\x02"},
		{
			"dropped wherever it stands", "DELAY\x011\x02a\x01b\x02DELAY\x01\x02c\x01\x02DELAY\x012", HasDelay,
			"a\x01b\x02c\x01\x02", "DELAY\x011\x02a\x01b\x02DELAY\x01\x02c\x01\x02DELAY\x012\x02INNER_BASE\x0142\x02",
		},
		{
			"several", "INNER_NUM\x013\x02INNER_BASE\x019\x02a\x01b\x02", HasInnerNum | HasInnerBase | HasDelay,
			"a\x01b\x02", "INNER_NUM\x013\x02a\x01b\x02INNER_BASE\x0142\x02",
		},
		{"odd elements stay", "\x02\x02DELAY\x02\x01DELAY\x02", HasDelay, "\x02\x02DELAY\x02\x01DELAY\x02", "\x02\x02DELAY\x02\x01DELAY\x02INNER_BASE\x0142\x02"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, "before"+c.without, string(AppendPropertiesWithout([]byte("before"), []byte(c.in), c.drop)))
			require.Equal(t, "before"+c.with, string(AppendPropertiesWith([]byte("before"), []byte(c.in), HasInnerBase, []byte("42"))))
		})
	}
	for _, set := range []PropertySet{0, HasDelay | HasWait, 1 << len(memberNames)} {
		require.Panics(t, func() { AppendPropertiesWith(nil, nil, set, nil) }, set)
	}
	for i, name := range memberNames {
		require.Equal(t, PropertySet(1)<<i, memberOf([]byte(name)), name)
	}
}

// FuzzScanProperties holds for any string:
//
//   - it is well formed exactly when each of its elements, cut at 0x02, has one 0x01 and that not first
//   - Has tells of each reserved name what FindProperty tells
//   - dropping some names leaves the values of all others, and nothing of those; setting one gives that value
func FuzzScanProperties(f *testing.F) {
	for _, s := range []string{"", "a\x01b\x02", "a\x01b", "INNER_NUM\x013\x02DELAY\x01\x02WAIT\x01false\x02", "\x02", "a\x01b\x01c\x02", "__CRC32#\x01x"} {
		f.Add([]byte(s), uint16(HasDelay|HasInnerNum))
	}
	f.Fuzz(func(t *testing.T, p []byte, drop uint16) {
		scan, err := ScanProperties(p)
		elements, bad, at := 0, -1, 0
		for rest := p; len(rest) > 0 && bad < 0; {
			e, _, _ := bytes.Cut(rest, []byte{propertySeparator})
			if bytes.Count(e, []byte{nameSeparator}) != 1 || e[0] == nameSeparator {
				bad = at
			}
			elements++
			at += len(e) + 1
			rest = p[min(at, len(p)):]
		}
		if bad >= 0 {
			var malformed *PropertyError
			require.ErrorAs(t, err, &malformed)
			require.Equal(t, bad, malformed.At)
			require.Zero(t, scan)
		} else {
			require.NoError(t, err)
			require.Equal(t, elements, scan.Count)
		}
		without := AppendPropertiesWithout(nil, p, PropertySet(drop))
		for i, name := range memberNames {
			member := PropertySet(1) << i
			value, has := FindProperty(p, name)
			if err == nil {
				require.Equal(t, has, scan.Has&member != 0, name)
			}
			left, still := FindProperty(without, name)
			if PropertySet(drop)&member != 0 {
				require.False(t, still, name)
			} else {
				require.Equal(t, value, left, name)
			}
		}
		require.LessOrEqual(t, len(without), len(p)+1)
		set := AppendPropertiesWith(nil, p, HasInnerBase, []byte("17"))
		value, has := FindProperty(set, PropertyInnerBase)
		require.True(t, has)
		require.Equal(t, "17", string(value))
	})
}
