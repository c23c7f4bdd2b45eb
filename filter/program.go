package filter

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/tandemq/tandemmq/message"
)

// kind is what a value is.
type kind uint8

const (
	isNull   kind = iota
	isBool        // num is 0 or 1
	isString      // text
	isInt         // num, within 32 bits; texts compared with it must be, too
	isLong        // num
	isDouble      // the bits of num
	isError       // evaluation fails, as an exception does
)

// value is the outcome of a node. Strings are UTF-8 and alias the record or the program.
type value struct {
	kind kind
	num  int64
	text []byte
}

func boolValue(b bool) value {
	if b {
		return value{kind: isBool, num: 1}
	}
	return value{kind: isBool}
}

func doubleValue(f float64) value { return value{kind: isDouble, num: int64(math.Float64bits(f))} }

func (v value) isNumber() bool { return v.kind == isInt || v.kind == isLong || v.kind == isDouble }

func (v value) double() float64 {
	if v.kind != isDouble {
		return float64(v.num)
	}
	return math.Float64frombits(uint64(v.num))
}

// op is what a node does.
type op uint8

const (
	opConst op = iota
	opProperty
	opNegate     // of left
	opNot        // of left
	opAnd        // of all
	opOr         // of all
	opEqual      // left, right
	opNotEqual   //
	opLess       //
	opLessEqual  //
	opGreater    //
	opGreatEqual //
	opIsNull     // of left
	opIsNotNull  //
	opIn         // left, a property, in set
	opNotIn      //
	opContains   // left contains constant.text
	opStartsWith //
	opEndsWith   //
)

// node is one step of a program; left and right are numbers of others, smaller than its own.
type node struct {
	op          op
	not         bool // of opContains, opStartsWith, opEndsWith
	plain       bool // of comparisons: left is the property name, right the constant
	left, right int32
	all         []int32
	constant    value
	name        string   // of a property
	slot        int32    // of the property: where its value is noted before evaluation; -1: looked up each time
	set         [][]byte // of opIn, sorted
}

// slots is how many properties a program finds in one pass over a record's; further ones take a pass each.
const slots = 12

// program is a compiled expression: nodes, the last of which is the whole. It never changes.
type program struct {
	nodes []node
	names []string // by slot
}

// scope is what one evaluation knows of the record.
type scope struct {
	properties []byte
	found      [slots][]byte
}

// run evaluates the program over a property string.
func (p *program) run(properties []byte) Outcome {
	s := scope{properties: properties}
	if len(p.names) > 0 {
		p.find(&s)
	}
	return p.test(int32(len(p.nodes)-1), &s)
}

// find notes the values of the program's properties. The elements are those that message.FindProperty sees, and as there the
// last of several with one name counts.
func (p *program) find(s *scope) {
	for rest := s.properties; len(rest) > 0; {
		var element []byte
		if i := bytes.IndexByte(rest, 2); i >= 0 {
			element, rest = rest[:i], rest[i+1:]
		} else {
			element, rest = rest, nil
		}
		for i, name := range p.names {
			n := len(name)
			if len(element) > n+1 && element[n] == 1 && string(element[:n]) == name {
				s.found[i] = element[n+1:]
			}
		}
	}
}

// eval is the value of node i. Conditions are left to test.
func (p *program) eval(i int32, s *scope) value {
	switch n := &p.nodes[i]; n.op {
	case opConst:
		return n.constant
	case opProperty:
		if text := s.text(n); text != nil {
			return value{kind: isString, text: text}
		}
		return value{}
	case opNegate:
		return negate(p.eval(n.left, s))
	}
	return p.test(i, s).value()
}

// test is the outcome of node i where a truth value is asked for.
func (p *program) test(i int32, s *scope) Outcome {
	n := &p.nodes[i]
	switch n.op {
	case opAnd:
		return p.testAll(n.all, False, s)
	case opOr:
		return p.testAll(n.all, True, s)
	case opNot:
		return p.test(n.left, s).not()
	case opEqual:
		return p.equal(n, s)
	case opNotEqual:
		return p.equal(n, s).not()
	case opLess, opLessEqual, opGreater, opGreatEqual:
		return p.order(n, s)
	case opIsNull, opIsNotNull:
		v := p.eval(n.left, s)
		if v.kind == isError {
			return Failed
		}
		return outcome((v.kind == isNull) == (n.op == opIsNull))
	case opIn, opNotIn:
		text := s.text(&p.nodes[n.left])
		if text == nil {
			return Unknown
		}
		return outcome(contains(n.set, text) == (n.op == opIn))
	case opContains, opStartsWith, opEndsWith:
		return match(n, p.eval(n.left, s))
	}
	switch v := p.eval(i, s); v.kind {
	case isNull:
		return Unknown
	case isBool:
		return Outcome(v.num)
	case isError:
		return Failed
	}
	return False // a text, whatever it says
}

func outcome(b bool) Outcome {
	if b {
		return True
	}
	return False
}

func (o Outcome) not() Outcome {
	if o <= True {
		return o ^ True
	}
	return o
}

func (o Outcome) value() value {
	switch o {
	case Unknown:
		return value{}
	case Failed:
		return value{kind: isError}
	}
	return value{kind: isBool, num: int64(o)}
}

// text is the value of the property that n names; nil when there is none.
func (s *scope) text(n *node) (text []byte) {
	if n.slot >= 0 {
		return s.found[n.slot]
	}
	text, _ = message.FindProperty(s.properties, n.name)
	return text
}

// testAll is AND (decisive False) or OR (decisive True) of terms: the first decisive one settles it and no later one is looked at;
// else the outcome is Unknown when one is.
func (p *program) testAll(terms []int32, decisive Outcome, s *scope) Outcome {
	result := decisive.not()
	for _, t := range terms {
		switch o := p.test(t, s); o {
		case decisive, Failed:
			return o
		case Unknown:
			result = Unknown
		}
	}
	return result
}

// negate is the sign: a number has one; all else gives null.
func negate(v value) value {
	switch v.kind {
	case isInt, isLong:
		return value{kind: v.kind, num: -v.num}
	case isDouble:
		return doubleValue(-v.double())
	case isError:
		return v
	}
	return value{}
}

// equal is n as =. Both sides are evaluated.
func (p *program) equal(n *node, s *scope) Outcome {
	if !n.plain {
		return equalValues(p.eval(n.left, s), p.eval(n.right, s))
	}
	text := s.text(n)
	switch {
	case text == nil:
		return Unknown
	case n.constant.kind == isString:
		return outcome(string(text) == string(n.constant.text))
	case n.constant.kind == isBool:
		return outcome(isTrue(text) == (n.constant.num == 1))
	}
	c, ok := compareText(text, &n.constant)
	if !ok {
		return Failed
	}
	return outcome(c == 0)
}

// equalValues goes by the kind on the left.
func equalValues(l, r value) Outcome {
	switch {
	case l.kind == isError || r.kind == isError:
		return Failed
	case l.kind == isNull && r.kind == isNull:
		return True
	case l.kind == isNull:
		return Unknown
	case r.kind == isNull:
		return False
	case l.kind == isString && r.kind == isString:
		return outcome(bytes.Equal(l.text, r.text))
	case l.kind == isString && r.kind == isBool:
		return outcome(isTrue(l.text) == (r.num == 1))
	case l.kind == isBool && r.kind == isString:
		return Failed
	case l.kind == isBool && r.kind == isBool:
		return outcome(l.num == r.num)
	case l.kind == isBool || r.kind == isBool:
		return False
	}
	c, ok := compareNumbers(l, r)
	if !ok {
		return Failed
	}
	return outcome(c == 0)
}

// isTrue is Java's Boolean.valueOf.
func isTrue(text []byte) bool {
	return len(text) == 4 && text[0]|0x20 == 't' && text[1]|0x20 == 'r' && text[2]|0x20 == 'u' && text[3]|0x20 == 'e'
}

// order is <, <=, > and >=: of numbers, and of strings read as numbers. With null on the left the right side is not looked at.
func (p *program) order(n *node, s *scope) Outcome {
	var c int
	var ok bool
	if n.plain {
		text := s.text(n)
		if text == nil {
			return Unknown
		}
		c, ok = compareText(text, &n.constant)
	} else {
		l := p.eval(n.left, s)
		if l.kind == isNull {
			return Unknown
		}
		r := p.eval(n.right, s)
		if r.kind == isNull && l.kind != isError {
			return Unknown
		}
		c, ok = compareNumbers(l, r)
	}
	if !ok {
		return Failed
	}
	switch n.op {
	case opLess:
		return outcome(c < 0)
	case opLessEqual:
		return outcome(c <= 0)
	case opGreater:
		return outcome(c > 0)
	}
	return outcome(c >= 0)
}

// compareText is compareNumbers of a text and a number.
func compareText(text []byte, number *value) (c int, ok bool) {
	if number.kind == isDouble {
		f, ok := parseDouble(text)
		return compareDouble(f, number.double()), ok
	}
	n, ok := parseLong(text)
	return cmp.Compare(n, number.num), ok && (number.kind == isLong || n == int64(int32(n)))
}

// compareNumbers compares numbers and strings. A string is read as the kind of number on the other side, two strings as doubles;
// ok is false when one is no such number.
func compareNumbers(l, r value) (c int, ok bool) {
	other := isDouble
	switch {
	case l.kind == isError || r.kind == isError:
		return 0, false
	case l.kind == isString && r.kind != isString:
		other = r.kind
	case r.kind == isString && l.kind != isString:
		other = l.kind
	}
	if l, ok = asNumber(l, other); !ok {
		return 0, false
	}
	if r, ok = asNumber(r, other); !ok {
		return 0, false
	}
	if l.kind != isDouble && r.kind != isDouble {
		return cmp.Compare(l.num, r.num), true
	}
	return compareDouble(l.double(), r.double()), true
}

func asNumber(v value, k kind) (value, bool) {
	if v.kind != isString {
		return v, true
	}
	if k != isDouble {
		n, ok := parseLong(v.text)
		return value{kind: k, num: n}, ok && (k == isLong || n == int64(int32(n)))
	}
	f, ok := parseDouble(v.text)
	return doubleValue(f), ok
}

// contains tells whether a sorted set has text.
func contains(set [][]byte, text []byte) bool {
	_, ok := slices.BinarySearchFunc(set, text, bytes.Compare)
	return ok
}

// match is CONTAINS, STARTSWITH and ENDSWITH. They and their negations are false for what is no string, and for the empty text.
func match(n *node, v value) Outcome {
	text := n.constant.text
	switch {
	case v.kind == isError:
		return Failed
	case v.kind != isString || len(text) == 0:
		return False
	}
	var found bool
	switch n.op {
	case opContains:
		found = bytes.Contains(v.text, text)
	case opStartsWith:
		found = bytes.HasPrefix(v.text, text)
	case opEndsWith:
		found = bytes.HasSuffix(v.text, text)
	}
	return outcome(found != n.not)
}
