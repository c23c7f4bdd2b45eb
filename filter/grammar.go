package filter

import (
	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// The grammar. One token decides everywhere (lookahead 0): once a token of an alternative is taken, the rest of it must follow.
//
//	or         = and { "OR" and }
//	and        = equality { "AND" equality }
//	equality   = comparison { ( "=" | "<>" ) comparison | "IS" [ "NOT" ] "NULL" }
//	comparison = unary { ( "<" | "<=" | ">" | ">=" ) unary
//	                   | [ "NOT" ] "BETWEEN" unary "AND" unary
//	                   | [ "NOT" ] "IN" "(" string { "," string } ")"
//	                   | [ "NOT" ] ( "CONTAINS" | "STARTSWITH" | "ENDSWITH" ) string }
//	unary      = ( "NOT" | "-" | "+" ) unary | primary
//	primary    = number | string | "TRUE" | "FALSE" | "NULL" | name | "(" or ")"
//
// NOT binds like a sign: NOT a = 1 is (NOT a) = 1.
//
// Source: what SelectorParser accepts, 5.5.0 (observed).
type orExpr struct {
	Terms []*andExpr `parser:"@@ ( 'OR' @@ )*"`
}

type andExpr struct {
	Terms []*equality `parser:"@@ ( 'AND' @@ )*"`
}

type equality struct {
	Left  *comparison     `parser:"@@"`
	Tails []*equalityTail `parser:"@@*"`
}

type equalityTail struct {
	Pos   lexer.Position
	Op    string      `parser:"(   @( '=' | '<>' )"`
	Right *comparison `parser:"    @@"`
	Is    bool        `parser:"  | @'IS'"`
	Not   bool        `parser:"    @'NOT'? 'NULL' )"`
}

type comparison struct {
	Left  *unary            `parser:"@@"`
	Tails []*comparisonTail `parser:"@@*"`
}

type comparisonTail struct {
	Pos   lexer.Position
	Op    string    `parser:"(   @( '<' | '<=' | '>' | '>=' )"`
	Right *unary    `parser:"    @@"`
	Not   bool      `parser:"  | @'NOT'?"`
	Test  *testTail `parser:"    @@ )"`
}

type testTail struct {
	Low  *unary   `parser:"  'BETWEEN' @@"`
	High *unary   `parser:"  'AND' @@"`
	In   []string `parser:"| 'IN' '(' @String ( ',' @String )* ')'"`
	Op   string   `parser:"| @( 'CONTAINS' | 'STARTSWITH' | 'ENDSWITH' )"`
	Text string   `parser:"  @String"`
}

type unary struct {
	Pos     lexer.Position
	Op      string   `parser:"(   @( 'NOT' | '-' | '+' )"`
	Operand *unary   `parser:"    @@"`
	Primary *primary `parser:"  | @@ )"`
}

type primary struct {
	Pos    lexer.Position
	Float  *string `parser:"  @Float"`
	Int    *string `parser:"| @Int"`
	String *string `parser:"| @String"`
	Word   string  `parser:"| @( 'TRUE' | 'FALSE' | 'NULL' )"`
	Name   string  `parser:"| @Name"`
	Inner  *orExpr `parser:"| '(' @@ ')'"`
}

var grammar = participle.MustBuild[orExpr](participle.Lexer(definition{}), participle.UseLookahead(0))

// parse reads an expression at the beginning of the list; next is the number of the first token behind it.
func parse(list tokenList) (expr *orExpr, next int, err error) {
	rest := list
	peeking, err := lexer.Upgrade(&rest)
	if err != nil {
		return nil, 0, err
	}
	expr, err = grammar.ParseFromLexer(peeking, participle.AllowTrailing(true))
	if err != nil {
		return nil, 0, syntaxError(list, err)
	}
	return expr, peeking.Cursor(), nil
}

// isComment tells whether tokens from i on are a line comment without its line end.
func isComment(list tokenList, i int) bool {
	if list[i].EOF() {
		return false
	}
	a, b := list[i], list[i+1]
	return a.Value == "-" && b.Value == "-" && a.Type == typeOperator && b.Type == typeOperator && b.Pos.Offset == a.Pos.Offset+1
}

// checkDepth refuses an expression whose parentheses and prefixes nest deeper than MaxDepth, before anything recurses over it.
func checkDepth(list tokenList) error {
	depth, prefixes := 0, 0
	var open []int // prefixes in front of each open parenthesis
	for _, t := range list {
		switch {
		case t.Type == typeOperator && t.Value == "(":
			open = append(open, prefixes)
			depth, prefixes = depth+1, 0
		case t.Type == typeOperator && t.Value == ")":
			depth, prefixes = depth-prefixes, 0
			if n := len(open); n > 0 {
				depth -= open[n-1] + 1
				open = open[:n-1]
			}
		case t.Type == typeKeyword && t.Value == "NOT", t.Type == typeOperator && (t.Value == "-" || t.Value == "+"):
			depth, prefixes = depth+1, prefixes+1
		default:
			depth, prefixes = depth-prefixes, 0
		}
		if depth > MaxDepth {
			return &SyntaxError{Line: t.Pos.Line, Column: t.Pos.Column, Offset: t.Pos.Offset, Problem: tooDeep}
		}
	}
	return nil
}
