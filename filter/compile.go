package filter

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
)

// compiler turns a syntax tree into a program, with the checks RocketMQ makes.
//
// Source: what the constructors of ComparisonExpression, LogicExpression and their like refuse, 5.5.0 (observed).
type compiler struct {
	program
	depth  []int32 // by node: the longest way down from it
	slotOf map[string]int32
	err    error // the first refusal
}

func compile(expr *orExpr) (*program, error) {
	c := &compiler{slotOf: map[string]int32{}}
	root := c.or(expr)
	c.condition(root, lexer.Position{Line: 1, Column: 1})
	if c.err != nil {
		return nil, c.err
	}
	return &c.program, nil
}

func (c *compiler) refuse(at lexer.Position, format string, args ...any) {
	if c.err == nil {
		c.err = problem(at, format, args...)
	}
}

func (c *compiler) add(n node) int32 {
	var depth int32
	if n.op != opConst && n.op != opProperty {
		depth = 1 + max(c.depth[n.left], c.depth[n.right])
		for _, i := range n.all {
			depth = max(depth, 1+c.depth[i])
		}
	}
	c.nodes = append(c.nodes, n)
	c.depth = append(c.depth, depth)
	return int32(len(c.nodes) - 1)
}

// tail checks the depth that a chain of operators behind one another has reached. Within MaxDepth parentheses and prefixes, with no
// chain, it stays below: OR, AND, = and a test are four for each.
func (c *compiler) tail(i int32, at lexer.Position) int32 {
	if c.depth[i] > 4*MaxDepth {
		c.refuse(at, "%s", tooDeep)
	}
	return i
}

func (c *compiler) or(e *orExpr) int32 {
	if len(e.Terms) == 1 {
		return c.and(e.Terms[0])
	}
	var all []int32
	for _, t := range e.Terms {
		all = append(all, c.condition(c.and(t), t.pos()))
	}
	return c.add(node{op: opOr, all: all})
}

func (c *compiler) and(e *andExpr) int32 {
	if len(e.Terms) == 1 {
		return c.equality(e.Terms[0])
	}
	var all []int32
	for _, t := range e.Terms {
		all = append(all, c.condition(c.equality(t), t.pos()))
	}
	return c.add(node{op: opAnd, all: all})
}

func (e *andExpr) pos() lexer.Position  { return e.Terms[0].pos() }
func (e *equality) pos() lexer.Position { return e.Left.Left.Pos }

// condition checks that node i can be a condition.
func (c *compiler) condition(i int32, at lexer.Position) int32 {
	n := &c.nodes[i]
	if n.op == opNegate || n.op == opConst && n.constant.kind != isBool && n.constant.kind != isNull {
		c.refuse(at, "expected a condition, and this is a value")
	}
	return i
}

func (c *compiler) equality(e *equality) int32 {
	left := c.comparison(e.Left)
	for _, t := range e.Tails {
		switch {
		case t.Is && t.Not:
			left = c.add(node{op: opIsNotNull, left: left})
		case t.Is:
			left = c.add(node{op: opIsNull, left: left})
		default:
			right := c.comparison(t.Right)
			c.checkEqual(left, right, t.Pos)
			o := opEqual
			if t.Op == "<>" {
				o = opNotEqual
			}
			left = c.comparing(o, left, right)
		}
		c.tail(left, t.Pos)
	}
	return left
}

// checkEqual refuses = and <> of the constant NULL, and of a constant truth value on the left with a constant of another kind.
func (c *compiler) checkEqual(left, right int32, at lexer.Position) {
	l, r := &c.nodes[left], &c.nodes[right]
	switch {
	case l.isConst(isNull) || r.isConst(isNull):
		c.refuse(at, "expected a comparison with a value, and NULL is none: use IS NULL or IS NOT NULL")
	case l.isConst(isBool) && r.op == opConst && r.constant.kind != isBool:
		c.refuse(at, "expected TRUE or FALSE on both sides")
	}
}

func (n *node) isConst(k kind) bool { return n.op == opConst && n.constant.kind == k }

func (c *compiler) comparison(e *comparison) int32 {
	left := c.unary(e.Left)
	for _, t := range e.Tails {
		switch {
		case t.Test == nil:
			left = c.order(orders[t.Op], left, c.unary(t.Right), t.Pos)
		case t.Test.Low != nil:
			left = c.between(left, t)
		case t.Test.In != nil:
			left = c.in(left, t)
		default:
			o := map[string]op{"CONTAINS": opContains, "STARTSWITH": opStartsWith, "ENDSWITH": opEndsWith}[t.Test.Op]
			left = c.add(node{op: o, not: t.Not, left: left, constant: value{kind: isString, text: unquote(t.Test.Text)}})
		}
		c.tail(left, t.Pos)
	}
	return left
}

var orders = map[string]op{"<": opLess, "<=": opLessEqual, ">": opGreater, ">=": opGreatEqual}

func (c *compiler) order(o op, left, right int32, at lexer.Position) int32 {
	for _, side := range []int32{left, right} {
		if n := &c.nodes[side]; n.op == opConst && !n.constant.isNumber() {
			c.refuse(at, "expected numbers and properties on both sides: strings, TRUE, FALSE and NULL have no order")
		} else if n.op != opConst && n.op != opProperty && n.op != opNegate {
			c.refuse(at, "expected numbers and properties on both sides: conditions have no order")
		}
	}
	return c.comparing(o, left, right)
}

// comparing is a node of two sides. Most compare a property with a constant: such a node has both at hand.
func (c *compiler) comparing(o op, left, right int32) int32 {
	n := node{op: o, left: left, right: right}
	if l, r := &c.nodes[left], &c.nodes[right]; l.op == opProperty && r.op == opConst {
		n.plain, n.name, n.slot, n.constant = true, l.name, l.slot, r.constant
	}
	return c.add(n)
}

// between is left >= low AND left <= high, NOT BETWEEN left < low OR left > high.
func (c *compiler) between(left int32, t *comparisonTail) int32 {
	low, high := c.unary(t.Test.Low), c.unary(t.Test.High)
	if t.Not {
		return c.add(node{op: opOr, all: []int32{c.order(opLess, left, low, t.Pos), c.order(opGreater, left, high, t.Pos)}})
	}
	all := []int32{c.order(opGreatEqual, left, low, t.Pos), c.order(opLessEqual, left, high, t.Pos)}
	if l, h := &c.nodes[low], &c.nodes[high]; c.err == nil && l.op == opConst && h.op == opConst {
		if above, ok := compareNumbers(l.constant, h.constant); ok && above > 0 {
			c.refuse(t.Pos, "expected a lower bound of BETWEEN that is not above the upper one")
		}
	}
	return c.add(node{op: opAnd, all: all})
}

func (c *compiler) in(left int32, t *comparisonTail) int32 {
	if c.nodes[left].op != opProperty {
		c.refuse(t.Pos, "expected a property in front of IN")
	}
	n := node{op: opIn, left: left}
	if t.Not {
		n.op = opNotIn
	}
	for _, s := range t.Test.In {
		n.set = append(n.set, unquote(s))
	}
	slices.SortFunc(n.set, bytes.Compare)
	return c.add(n)
}

func (c *compiler) unary(e *unary) int32 {
	if e.Primary != nil {
		return c.primary(e.Primary)
	}
	operand := c.unary(e.Operand)
	switch e.Op {
	case "NOT":
		return c.add(node{op: opNot, left: c.condition(operand, e.Operand.Pos)})
	case "-":
		return c.add(node{op: opNegate, left: operand})
	}
	return operand
}

func (c *compiler) primary(e *primary) int32 {
	switch {
	case e.Inner != nil:
		return c.or(e.Inner)
	case e.Name != "":
		return c.property(e.Name)
	case e.String != nil:
		return c.constant(value{kind: isString, text: unquote(*e.String)})
	case e.Int != nil:
		n, err := strconv.ParseInt(strings.TrimRight(*e.Int, "lL"), 10, 64)
		if err != nil {
			c.refuse(e.Pos, "expected a whole number of 64 bits")
		}
		if n == int64(int32(n)) {
			return c.constant(value{kind: isInt, num: n})
		}
		return c.constant(value{kind: isLong, num: n})
	case e.Float != nil:
		f, err := strconv.ParseFloat(*e.Float, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) || f == 0 || math.IsInf(f, 1) {
			c.refuse(e.Pos, "expected a number from 4.9E-324 to 1.7976931348623157E308 (0 without a point is possible)")
		}
		return c.constant(doubleValue(f))
	case e.Word == "NULL":
		return c.constant(value{})
	}
	return c.constant(boolValue(e.Word == "TRUE"))
}

func (c *compiler) constant(v value) int32 { return c.add(node{op: opConst, constant: v}) }

// property gives the first names slots and has the others looked up.
func (c *compiler) property(name string) int32 {
	slot, known := c.slotOf[name]
	if !known {
		slot = -1
		if len(c.names) < slots {
			slot = int32(len(c.names))
			c.names = append(c.names, name)
		}
		c.slotOf[name] = slot
	}
	return c.add(node{op: opProperty, name: name, slot: slot})
}

// unquote is the text of a string literal: two quotes in it are one.
func unquote(literal string) []byte {
	return []byte(strings.ReplaceAll(literal[1:len(literal)-1], "''", "'"))
}
