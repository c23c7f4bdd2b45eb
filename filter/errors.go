package filter

import (
	"errors"
	"fmt"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// ErrSyntax is the class of every refusal of an expression.
var ErrSyntax = errors.New("filter expression refused")

// ErrType is returned for an expression type other than TypeTag and TypeSQL92.
var ErrType = errors.New("unknown filter expression type")

// SyntaxError says where and why an expression was refused. It is ErrSyntax.
type SyntaxError struct {
	Line, Column int    // from 1; columns count characters
	Offset       int    // bytes in front of it
	Found        string // the token there; empty when there is no one token to blame
	Want         string // what would have been possible instead; empty when Problem tells
	Problem      string
}

// Error tells the place, then what is wrong or what was expected there.
func (e *SyntaxError) Error() string {
	what := e.Problem
	if what == "" {
		what = fmt.Sprintf("unexpected %s, expected %s", e.Found, e.Want)
	}
	return fmt.Sprintf("%v at line %d, column %d: %s", ErrSyntax, e.Line, e.Column, what)
}

// Is makes it an ErrSyntax.
func (e *SyntaxError) Is(target error) bool { return target == ErrSyntax }

// problem is a refusal of what stands at a position.
func problem(at lexer.Position, format string, args ...any) error {
	return &SyntaxError{Line: at.Line, Column: at.Column, Offset: at.Offset, Problem: fmt.Sprintf(format, args...)}
}

// unexpected is a refusal of token number i of the list.
func unexpected(list tokenList, i int) error {
	t := list[i]
	e := &SyntaxError{Line: t.Pos.Line, Column: t.Pos.Column, Offset: t.Pos.Offset, Found: describe(t), Want: expected(list, i)}
	if t.Type == typeInvalid && t.Value == "'" {
		e.Problem = "a string begins here and does not end"
	}
	return e
}

// syntaxError makes an error of participle's one of ours: its place is kept, what was expected follows from the tokens before it.
func syntaxError(list tokenList, err error) error {
	var p participle.Error
	if !errors.As(err, &p) {
		return err
	}
	for i, t := range list {
		if t.Pos.Offset >= p.Position().Offset {
			return unexpected(list, i)
		}
	}
	return problem(p.Position(), "%s", p.Message())
}

func describe(t lexer.Token) string {
	switch {
	case t.EOF():
		return "end of the expression"
	case t.Type == typeInvalid:
		return fmt.Sprintf("character %q", t.Value)
	case len(t.Value) > 40:
		return fmt.Sprintf("%.40q...", t.Value)
	}
	return fmt.Sprintf("%q", t.Value)
}

const (
	wantOperand  = `a property name, a number, a string, TRUE, FALSE, NULL, NOT, "-", "+" or "("`
	wantOperator = "=, <>, <, <=, >, >=, [NOT] BETWEEN, [NOT] IN, [NOT] CONTAINS, [NOT] STARTSWITH, [NOT] ENDSWITH, IS [NOT] NULL, AND, OR"
	wantTest     = "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH"
	wantString   = "a string in single quotes"
)

// expected tells what could have stood at token i, going by what stands before it.
func expected(list tokenList, i int) string {
	if i == 0 {
		return wantOperand
	}
	at := func(n int) string {
		if n < 0 || list[n].Type != typeKeyword && list[n].Type != typeOperator {
			return ""
		}
		return list[n].Value
	}
	switch at(i - 1) {
	case "IN":
		return `"("`
	case "IS":
		return "NULL or NOT NULL"
	case "CONTAINS", "STARTSWITH", "ENDSWITH":
		return wantString
	case "NOT":
		if at(i-2) == "IS" {
			return "NULL"
		}
		if i > 1 && endsOperand(list[i-2]) {
			return wantTest
		}
		return wantOperand
	case "(":
		if at(i-2) == "IN" {
			return wantString
		}
		return wantOperand
	case ",":
		return wantString
	}
	if !endsOperand(list[i-1]) {
		return wantOperand
	}
	return expectedBehind(list, i)
}

// endsOperand tells whether an operand can end with t.
func endsOperand(t lexer.Token) bool {
	switch t.Type {
	case typeKeyword:
		return t.Value == "TRUE" || t.Value == "FALSE" || t.Value == "NULL"
	case typeOperator:
		return t.Value == ")"
	}
	return t.Type != typeInvalid
}

// expectedBehind tells what could have stood at token i, behind an operand: that depends on what is open there.
func expectedBehind(list tokenList, i int) string {
	closed, conjunction := 0, false // parentheses closed on the way back; whether there was an AND or OR outside of them
	for n := i - 1; n >= 0; n-- {
		t := list[n]
		word := ""
		if t.Type == typeKeyword || t.Type == typeOperator {
			word = t.Value
		}
		switch {
		case word == ")":
			closed++
		case word == "(" && closed > 0:
			closed--
		case word == "(" && n > 0 && list[n-1].Type == typeKeyword && list[n-1].Value == "IN":
			return `"," or ")"`
		case word == "(":
			return wantOperator + ` or ")"`
		case closed > 0:
		case word == "BETWEEN" && !conjunction:
			return "AND and the upper bound of BETWEEN"
		case word == "AND" || word == "OR":
			conjunction = true
		}
	}
	return wantOperator + " or the end"
}
