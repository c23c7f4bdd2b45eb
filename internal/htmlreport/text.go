package htmlreport

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Clean makes s fit to be shown: what cannot be seen, or turns the direction of what follows, is written as a code.
func Clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	hidden := func(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' && r != '\t' }
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Count writes a whole number with a comma after every three digits.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Short writes a number in three digits or so, with k, M or G.
func Short(v float64) string { return scaled(v, 1000, []string{"", "k", "M", "G", "T"}, "") }

// Bytes writes a number of bytes with a binary prefix.
func Bytes(v float64) string {
	return scaled(v, 1024, []string{" B", " KiB", " MiB", " GiB", " TiB", " PiB"}, "")
}

// scaled writes v in the largest unit of which it has one at least.
func scaled(v, step float64, units []string, after string) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	i := 0
	for math.Abs(v) >= step*0.9995 && i < len(units)-1 {
		v, i = v/step, i+1
	}
	return digits(v) + units[i] + after
}

// digits writes three of them, and none that is 0 at the end.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case a >= 9.995:
		return trimZeros(fmt.Sprintf("%.1f", v))
	case a >= 0.9995 || a == 0:
		return trimZeros(fmt.Sprintf("%.2f", v))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func trimZeros(s string) string { return strings.TrimRight(strings.TrimRight(s, "0"), ".") }

// Nanos writes a time of that many nanoseconds.
func Nanos(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a < 999.5:
		return digits(v) + " ns"
	case a < 999.5e3:
		return digits(v/1e3) + " µs"
	case a < 999.5e6:
		return digits(v/1e6) + " ms"
	}
	return Seconds(v / 1e9)
}

// Seconds writes a time of that many seconds.
func Seconds(v float64) string {
	d := time.Duration(v * float64(time.Second))
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case math.Abs(v) < 0.9995:
		if v == 0 {
			return "0 s"
		}
		return Nanos(v * 1e9)
	case v < 120:
		return digits(v) + " s"
	case v < 2*3600 && int(d.Seconds())%60 == 0:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case v < 2*3600:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	case v < 48*3600:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %02d h", int(d.Hours())/24, int(d.Hours())%24)
}

// Time writes a moment, in UTC; nothing for the zero one.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}
