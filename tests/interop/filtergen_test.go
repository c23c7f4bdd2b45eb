//go:build interop

package interop

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// filterGenerator makes expressions of the SQL92 grammar, most of them valid, some spoilt.
type filterGenerator struct{ *rand.Rand }

func newFilterGenerator(seed uint64) *filterGenerator {
	return &filterGenerator{rand.New(rand.NewPCG(seed, 1))}
}

func (g *filterGenerator) one(of ...string) string { return of[g.IntN(len(of))] }

func (g *filterGenerator) expression() string {
	text := g.condition(3)
	if g.IntN(12) > 0 {
		return text
	}
	return g.spoil(text)
}

// spoil takes a piece out of a text, or puts one in.
func (g *filterGenerator) spoil(text string) string {
	at := g.IntN(len(text) + 1)
	for at < len(text) && text[at]&0xC0 == 0x80 {
		at++
	}
	switch words := strings.Fields(text); g.IntN(3) {
	case 0:
		i := g.IntN(len(words))
		return strings.Join(append(words[:i:i], words[i+1:]...), " ")
	case 1:
		return text[:at]
	}
	return text[:at] + g.one("(", ")", "'", " NOT ", " AND ", " = ", " NULL ", ",", ".", "-", "+", "#", " 7 ", " LIKE ", "--", "/*", "*/", "\n", "é", " x ", " IN ") + text[at:]
}

// condition is anything that can be true, false or null, and now and then what cannot.
func (g *filterGenerator) condition(depth int) string {
	if depth == 0 || g.IntN(3) == 0 {
		return g.test(depth)
	}
	switch g.IntN(8) {
	case 0, 1:
		return g.condition(depth-1) + g.word(" AND ") + g.condition(depth-1)
	case 2, 3:
		return g.condition(depth-1) + g.word(" OR ") + g.condition(depth-1)
	case 4:
		return g.word("NOT ") + g.condition(depth-1)
	case 5, 6:
		return "(" + g.condition(depth-1) + ")"
	}
	return g.condition(depth-1) + g.one(" = ", " <> ", " = NOT ", " IS NULL OR ", " IS NOT NULL AND ") + g.condition(depth-1)
}

func (g *filterGenerator) test(depth int) string {
	not := g.one("", "", "NOT ")
	switch g.IntN(12) {
	case 0, 1, 2:
		return g.operand(depth) + g.one(" = ", "=", " <> ") + g.operand(depth)
	case 3, 4, 5:
		return g.scalar() + g.one(" > ", " >= ", "<", " <= ") + g.scalar()
	case 6:
		return g.scalar() + " " + g.word(not+"BETWEEN ") + g.scalar() + g.word(" AND ") + g.scalar()
	case 7:
		list := g.text()
		for range g.IntN(4) {
			list += "," + g.text()
		}
		return g.name() + " " + g.word(not+"IN ") + "(" + list + ")"
	case 8, 9:
		return g.operand(0) + " " + g.word(not+g.one("CONTAINS ", "STARTSWITH ", "ENDSWITH ")) + g.text()
	case 10:
		return g.operand(depth) + g.word(" IS "+not+"NULL")
	}
	return g.one("TRUE", "FALSE", "NULL", g.name())
}

// scalar is what has an order, as a rule.
func (g *filterGenerator) scalar() string {
	switch g.IntN(40) {
	case 0:
		return g.operand(1)
	case 1, 2:
		return "(" + g.name() + ")"
	case 3:
		return g.one("-", "+", "- -") + g.one(g.name(), g.number(), g.text())
	}
	return g.one(g.name(), g.number())
}

func (g *filterGenerator) operand(depth int) string {
	switch g.IntN(14) {
	case 0, 1, 2, 3, 4, 5:
		return g.name()
	case 6, 7, 8:
		return g.number()
	case 9:
		return g.text()
	case 10:
		return g.one("TRUE", "FALSE", g.one("TRUE", "FALSE", "NULL"))
	case 11:
		return g.one("-", "+", "- ", "NOT ") + g.operand(0)
	case 12:
		return "(" + g.operand(0) + ")"
	}
	if depth == 0 {
		return g.name()
	}
	return "(" + g.condition(depth-1) + ")"
}

func (g *filterGenerator) name() string { return g.one("a", "b", "a", "b", "TAGS", "$c_1") }

func (g *filterGenerator) number() string {
	switch g.IntN(6) {
	case 0:
		return strconv.Itoa(g.IntN(20)) + g.one("", "L", "l")
	case 1:
		return strconv.FormatFloat(g.Float64()*10, 'g', 1+g.IntN(4), 64)
	case 2:
		return g.one("1e1", "1.", ".5", "9223372036854775807", "2147483648", "2147483647", "1e308", "3e9", "007.5", "1.5e-3",
			g.one("0", "9223372036854775808", "1e309", "0.0", "007"))
	}
	return strconv.Itoa(g.IntN(4))
}

func (g *filterGenerator) text() string {
	return "'" + g.one("", "1", "2", "x", "xy", "true", "FALSE", "it''s", "中", "1.5", " 1", "-- x", "/* y */") + "'"
}

// word changes the case of keywords now and then, and puts a comment for a blank.
func (g *filterGenerator) word(text string) string {
	switch g.IntN(10) {
	case 0:
		return strings.ToLower(text)
	case 1:
		return strings.ReplaceAll(text, " ", g.one("\t", "\n", " /* c */ ", " -- c\n", "/**/"))
	}
	return text
}

func (g *filterGenerator) properties() map[string]string {
	set := map[string]string{}
	for _, name := range []string{"a", "b", "TAGS", "$c_1"} {
		if g.IntN(4) > 0 {
			set[name] = g.one("0", "1", "2", "3", "3", "10", "-1", "1.5", "2.0", "1e1", "x", "xy", "true", "TRUE", "false", "it's", "中文", " 1", "+2", "1L", "NaN", "-0.0", "0x1p1", "1f", "٣", "3000000000", "-2147483648")
		}
	}
	return set
}
