package message

import (
	"encoding/binary"
	"math"
)

// TagsHash returns the hash of a TAGS value: h = 31*h + c over its UTF-16 code units in 32 bits, sign-extended. The empty
// value hashes to 0. A unit with this code may belong to other tags (AaAa and BBBB collide): it selects, the record decides.
//
// tags is UTF-8. A rune beyond U+FFFF counts as its two surrogates. Malformed bytes count the way Java decodes them, each of
// these as one U+FFFD:
//
//   - the longest beginning of a sequence that its next byte, or the end, cuts short (E4 B8; F0 9F 98), where the first two bytes
//     can begin a sequence: E0 needs A0 or more behind it, F0 90 or more, F4 8F or less; otherwise the lead byte alone
//   - a whole three-byte sequence that encodes a surrogate (ED A0 80), and its first two bytes when cut short
//   - any other byte: a lone continuation byte, C0, C1, F5 to FF
//
// Source: java.lang.String.hashCode and the UTF-8 decoder of java.lang.String, JDK 17.
func TagsHash(tags []byte) int64 { return int64(HashUTF16(0, tags)) }

// HashUTF16 continues a hash over UTF-16 code units with those of text, which is read as TagsHash tells: the hash of two texts
// behind one another is HashUTF16(HashUTF16(0, a), b), provided that no character is divided between them.
//
// Source: java.lang.String.hashCode, JDK 17.
func HashUTF16(h int32, text []byte) int32 {
	for i := 0; i < len(text); {
		if len(text)-i >= 8 && binary.NativeEndian.Uint64(text[i:])&0x8080808080808080 == 0 {
			h = hashASCII8(h, text[i:i+8])
			i += 8
			continue
		}
		c := text[i]
		if c < 0x80 {
			h = 31*h + int32(c)
			i++
			continue
		}
		r, n := decodeJavaRune(text[i:])
		i += n
		if r > 0xFFFF {
			r -= 0x10000
			h = 31*h + (0xD800 + r>>10)
			r = 0xDC00 + r&0x3FF
		}
		h = 31*h + r
	}
	return h
}

// hashASCII8 continues a hash over eight characters of one byte each. One by one, each multiplication would wait for the one before.
func hashASCII8(h int32, b []byte) int32 {
	const (
		p2 = 31 * 31
		p3 = 31 * p2
		p4 = 31 * p3
		p5 = 31 * p4
		p6 = 31 * p5
		p7 = uint32(31 * p6 & math.MaxUint32)
		p8 = uint32(31 * 31 * p6 & math.MaxUint32)
	)
	_ = b[7]
	front := uint32(b[0])*p7 + uint32(b[1])*p6 + uint32(b[2])*p5 + uint32(b[3])*p4
	back := uint32(b[4])*p3 + uint32(b[5])*p2 + uint32(b[6])*31 + uint32(b[7])
	return int32(uint32(h)*p8 + front + back)
}

// decodeJavaRune decodes the first sequence of s, which begins with a byte of 0x80 or more: its rune and its width, or
// U+FFFD and the bytes it stands for.
func decodeJavaRune(s []byte) (r int32, width int) {
	const bad = 0xFFFD
	lead := int32(s[0])
	switch {
	case lead >= 0xC2 && lead <= 0xDF:
		if !continues(s, 1) {
			return bad, 1
		}
		return lead&0x1F<<6 | int32(s[1]&0x3F), 2
	case lead >= 0xE0 && lead <= 0xEF:
		if !continues(s, 1) || lead == 0xE0 && s[1] < 0xA0 {
			return bad, 1
		}
		if !continues(s, 2) {
			return bad, 2
		}
		r = lead&0x0F<<12 | int32(s[1]&0x3F)<<6 | int32(s[2]&0x3F)
		if r >= 0xD800 && r <= 0xDFFF {
			r = bad
		}
		return r, 3
	case lead >= 0xF0 && lead <= 0xF4:
		if !continues(s, 1) || lead == 0xF0 && s[1] < 0x90 || lead == 0xF4 && s[1] > 0x8F {
			return bad, 1
		}
		if !continues(s, 2) {
			return bad, 2
		}
		if !continues(s, 3) {
			return bad, 3
		}
		return lead&0x07<<18 | int32(s[1]&0x3F)<<12 | int32(s[2]&0x3F)<<6 | int32(s[3]&0x3F), 4
	}
	return bad, 1
}

// continues tells whether s has a continuation byte at i.
func continues(s []byte, i int) bool { return i < len(s) && s[i]&0xC0 == 0x80 }
