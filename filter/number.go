package filter

import (
	"cmp"
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// parseLong reads b as Java's Long.parseLong does: an optional sign and decimal digits of any script below U+10000, in 64 bits.
// No blanks, no suffix.
func parseLong(b []byte) (n int64, ok bool) {
	neg := len(b) > 0 && b[0] == '-'
	b = trimSign(b)
	if len(b) == 0 {
		return 0, false
	}
	if n, ok := shortLong(b); ok {
		if neg {
			n = -n
		}
		return n, true
	}
	limit := uint64(1)<<63 - 1
	if neg {
		limit++
	}
	var u uint64
	for i := 0; i < len(b); {
		d, width := uint64(b[i]-'0'), 1
		if d > 9 {
			if b[i] < utf8.RuneSelf {
				return 0, false
			}
			if d, width = scriptDigit(b[i:]); width == 0 {
				return 0, false
			}
		}
		if u > (limit-d)/10 {
			return 0, false
		}
		u = u*10 + d
		i += width
	}
	if neg {
		return -int64(u), true
	}
	return int64(u), true
}

// shortLong reads at most 18 of ASCII's digits.
func shortLong(b []byte) (n int64, ok bool) {
	if len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c -= '0'; c > 9 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	return n, true
}

// scriptDigit reads a decimal digit other than ASCII's; width is 0 when there is none. Java looks at UTF-16 units, so digits
// beyond U+FFFF are none.
func scriptDigit(b []byte) (digit uint64, width int) {
	r, width := utf8.DecodeRune(b)
	if r > 0xFFFF {
		return 0, 0
	}
	for _, block := range unicode.Nd.R16 { // blocks of ten, each from zero to nine
		if r >= rune(block.Lo) && r <= rune(block.Hi) {
			return uint64(r-rune(block.Lo)) % 10, width
		}
	}
	return 0, 0
}

// parseDouble reads b as Java's Double.parseDouble does: blanks around it (anything up to U+0020) do not count; then an optional
// sign and NaN, Infinity, or a decimal or hexadecimal number, with f, F, d or D behind it or not. What is too large is infinite,
// what is too small is zero.
func parseDouble(b []byte) (f float64, ok bool) {
	for len(b) > 0 && b[0] <= ' ' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] <= ' ' {
		b = b[:len(b)-1]
	}
	if f, ok := parseShort(b); ok {
		return f, true
	}
	if bare := trimSign(b); string(bare) == "NaN" { // with a sign strconv does not take it
		return math.NaN(), true
	}
	n := javaDouble(b)
	if n == 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(b), n), 64) // keeps nothing of it
	return f, err == nil || f > 1 || f < -1                                 // out of range: infinite
}

// powersOfTen are those that a double holds exactly, as far as parseShort needs them.
var powersOfTen = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// parseShort reads a plain decimal number of at most 15 digits: both the digits and the power of ten are exact then, and so the
// quotient is the nearest double. ok is false for all else, number or not.
func parseShort(b []byte) (f float64, ok bool) {
	neg := len(b) > 0 && b[0] == '-'
	b = trimSign(b)
	if len(b) == 0 || len(b) > 16 {
		return 0, false
	}
	var u uint64
	digits, point := 0, -1
	for i, c := range b {
		if c == '.' && point < 0 {
			point = i
			continue
		}
		if c -= '0'; c > 9 {
			return 0, false
		}
		u = u*10 + uint64(c)
		digits++
	}
	if digits == 0 || digits > 15 {
		return 0, false
	}
	f = float64(u)
	if point >= 0 {
		f /= powersOfTen[len(b)-1-point]
	}
	if neg {
		f = -f // of zero too
	}
	return f, true
}

func trimSign(b []byte) []byte {
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		return b[1:]
	}
	return b
}

// javaDouble tells how many bytes of b strconv should read when all of b is a number by Java's grammar: all but a type suffix.
// It is 0 when b is none.
func javaDouble(b []byte) int {
	rest := trimSign(b)
	i := len(b) - len(rest)
	switch {
	case string(rest) == "Infinity":
		return len(b)
	case len(rest) > 1 && rest[0] == '0' && rest[1]|0x20 == 'x':
		return number(b, i+2, true)
	}
	return number(b, i, false)
}

// number checks digits, a point, more digits and an exponent from b[i] on; hexadecimal numbers must have the exponent.
func number(b []byte, i int, hex bool) int {
	isDigit, mark := isDecimal, byte('e')
	if hex {
		isDigit, mark = isHex, 'p'
	}
	digits := 0
	for ; i < len(b) && isDigit(b[i]); i++ {
		digits++
	}
	if i < len(b) && b[i] == '.' {
		for i++; i < len(b) && isDigit(b[i]); i++ {
			digits++
		}
	}
	if digits == 0 {
		return 0
	}
	switch {
	case i < len(b) && b[i]|0x20 == mark:
		i++
		if i < len(b) && (b[i] == '-' || b[i] == '+') {
			i++
		}
		from := i
		for i < len(b) && isDecimal(b[i]) {
			i++
		}
		if i == from {
			return 0
		}
	case hex:
		return 0
	}
	if n := len(b) - i; n == 0 || n == 1 && (b[i]|0x20 == 'f' || b[i]|0x20 == 'd') {
		return i
	}
	return 0
}

func isDecimal(c byte) bool { return c-'0' <= 9 }

func isHex(c byte) bool { return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'f' }

// compareDouble is Java's Double.compare: -0.0 comes before 0.0, and NaN comes last and equals itself.
func compareDouble(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return cmp.Compare(doubleOrder(a), doubleOrder(b))
}

// doubleOrder orders what neither < nor > does.
func doubleOrder(f float64) int {
	switch {
	case f != f:
		return 2
	case f == 0 && math.Signbit(f):
		return 0
	}
	return 1
}
