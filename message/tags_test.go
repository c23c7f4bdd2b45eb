package message

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// What new String(bytes, UTF_8).hashCode() gives on JDK 17; behind each, the units it decodes to.
func TestTagsHashOfMalformedUTF8(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
	}{
		{"80", 65533},                    // FFFD
		{"41ff42", 2094054},              // 0041 FFFD 0042
		{"c0af", 2097056},                // FFFD FFFD
		{"c27f41", 62981215},             // FFFD 007F 0041
		{"c2", 65533},                    // FFFD
		{"dfbf", 2047},                   // 07FF
		{"e0a080", 2048},                 // 0800
		{"e09f80", 65074269},             // FFFD FFFD FFFD
		{"e080", 2097056},                // FFFD FFFD
		{"e4b8", 65533},                  // FFFD
		{"e4b841", 2031588},              // FFFD 0041
		{"ed9fbf", 55295},                // D7FF
		{"eda080", 65533},                // FFFD
		{"eda0", 65533},                  // FFFD
		{"eda041", 2031588},              // FFFD 0041
		{"edbfbf", 65533},                // FFFD
		{"ee8080", 57344},                // E000
		{"efbfbf", 65535},                // FFFF
		{"f09f98", 65533},                // FFFD
		{"f09f9841", 2031588},            // FFFD 0041
		{"f09f41", 2031588},              // FFFD 0041
		{"f041", 2031588},                // FFFD 0041
		{"f0", 65533},                    // FFFD
		{"f08f8080", 2017367872},         // FFFD FFFD FFFD FFFD
		{"f0908080", 1770496},            // D800 DC00
		{"f48fbfbf", 1803232},            // DBFF DFFF
		{"f4908080", 2017367872},         // FFFD FFFD FFFD FFFD
		{"f5808080", 2017367872},         // FFFD FFFD FFFD FFFD
		{"f8888080", 2017367872},         // FFFD FFFD FFFD FFFD
		{"fe", 65533},                    // FFFD
		{"f09f9880e4b8ade6", 1704441875}, // D83D DE00 4E2D FFFD
	} {
		raw, err := hex.DecodeString(c.in)
		require.NoError(t, err)
		require.Equal(t, c.want, TagsHash(raw), c.in)
		require.Equal(t, c.want, referenceHash(raw), "reference: %s", c.in)
	}
}

// referenceHash builds the UTF-16 string first and hashes that. It finds the bytes that one replacement stands for by trial:
// the longest prefix which some continuation bytes would complete.
func referenceHash(b []byte) int64 {
	var units []uint16
	for len(b) > 0 {
		if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n == 3 {
			units = utf16.AppendRune(units, r)
			b = b[n:]
			continue
		}
		n := 1
		for k := 2; k <= 3 && k <= len(b); k++ {
			if completable(b[:k]) {
				n = k
			}
		}
		units = append(units, 0xFFFD)
		b = b[n:]
	}
	var h int32
	for _, u := range units {
		h = 31*h + int32(u)
	}
	return int64(h)
}

// completable tells whether up to two more bytes make p one rune, or one surrogate in three bytes. The three bytes tried stand
// in for all: no lead byte accepts another continuation byte and none of these.
func completable(p []byte) bool {
	for more := range 3 {
		for _, c := range []byte{0x80, 0x90, 0xA0} {
			var buf [5]byte
			s := append(buf[:0], p...)
			for range more {
				s = append(s, c)
			}
			if r, n := utf8.DecodeRune(s); n == len(s) && (r != utf8.RuneError || n == 3) {
				return true
			}
			if len(s) == 3 && s[0] == 0xED && s[1] >= 0xA0 && s[1] < 0xC0 && s[2] >= 0x80 && s[2] < 0xC0 {
				return true
			}
		}
	}
	return false
}

// Eight characters at once count as one by one, wherever in a text others stand between them.
func TestHashUTF16Long(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		text := make([]byte, random.IntN(60))
		for i := range text {
			text[i] = byte(random.IntN(128))
		}
		if n := len(text); n > 0 && random.IntN(2) == 0 {
			text[random.IntN(n)] = byte(128 + random.IntN(128))
		}
		require.Equal(t, referenceHash(text), TagsHash(text), "%q", text)
		cut := 0
		for cut < len(text) && text[cut] < 128 {
			cut++
		}
		require.Equal(t, referenceHash(text), int64(HashUTF16(HashUTF16(0, text[:cut]), text[cut:])), "%q", text)
	}
}

// All inputs of one and two bytes, and all of three and four around the edges of the encoding.
func TestTagsHashExhaustive(t *testing.T) {
	edges := []byte{0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF}
	check := func(in ...byte) {
		if got, want := TagsHash(in), referenceHash(in); got != want {
			require.Equal(t, want, got, "%x", in)
		}
	}
	for a := range 256 {
		check(byte(a))
		for b := range 256 {
			check(byte(a), byte(b))
		}
	}
	for _, a := range edges[8:] {
		for _, b := range edges {
			for _, c := range edges {
				check(a, b, c)
				for _, d := range edges {
					check(a, b, c, d)
				}
			}
		}
	}
}
