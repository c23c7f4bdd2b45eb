package message

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBatchElements(t *testing.T) {
	want := []BatchElement{
		{Flag: 7, Body: []byte("one"), Properties: []byte("a\x01b\x02")},
		{Flag: -1, Body: []byte{}, Properties: []byte{}},
		{Body: []byte("three"), Properties: []byte{}},
	}
	var body []byte
	var err error
	for i := range want {
		body, err = want[i].AppendTo(body)
		require.NoError(t, err)
	}
	collect := func(b []byte) (got []BatchElement, err error) {
		for e, failed := range BatchElements(b) {
			if err = failed; err == nil {
				got = append(got, e)
			}
		}
		return got, err
	}
	got, err := collect(body)
	require.NoError(t, err)
	require.Equal(t, want, got)

	for k := 1; k < len(body); k++ {
		got, err := collect(body[:k])
		if k == 29 || k == 51 { // between two elements
			require.NoError(t, err)
			continue
		}
		require.Equal(t, "torn", classOf(t, err), "cut at %d", k)
		require.Less(t, len(got), len(want))
	}
	n := 0
	for _, err := range BatchElements(body) {
		require.NoError(t, err)
		n++
		break
	}
	require.Equal(t, 1, n)
}

func TestBatchElementRejects(t *testing.T) {
	raw := unhex(t, goldenA5)
	for _, c := range []struct {
		name  string
		in    []byte
		class string
	}{
		{"empty", nil, "torn"},
		{"body negative", patched(raw, 16, be32(-1)...), "corrupt"},
		{"body least", patched(raw, 16, be32(math.MinInt32)...), "corrupt"},
		{"body greatest", patched(raw, 16, be32(math.MaxInt32)...), "torn"},
		{"properties negative", patched(raw, 22, 0x80, 0), "corrupt"},
		{"properties one more", patched(raw, 22, 0, 21), "torn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e BatchElement
			n, err := e.Decode(c.in)
			require.Equal(t, c.class, classOf(t, err))
			require.Zero(t, n)
			require.Equal(t, BatchElement{}, e)
		})
	}
	// Size, magic and checksum are the producer's and are not looked at.
	var e BatchElement
	n, err := e.Decode(patched(raw, 0, []byte("size and rest")[:12]...))
	require.NoError(t, err)
	require.Equal(t, len(raw), n)
}

func TestBatchElementLimits(t *testing.T) {
	_, err := (&BatchElement{Properties: make([]byte, 32768)}).AppendTo(nil)
	require.ErrorIs(t, err, ErrPropertiesLength)
}
