package filter

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"
)

// The tokens. What fits none is an Invalid of one character, and the last token but the end: nothing behind it is looked at.
const (
	typeInvalid lexer.TokenType = iota + 1
	typeFloat
	typeInt
	typeString
	typeName
	typeKeyword
	typeOperator
)

var keywords = map[string]bool{
	"AND": true, "OR": true, "NOT": true, "BETWEEN": true, "IN": true, "IS": true, "NULL": true, "TRUE": true, "FALSE": true,
	"CONTAINS": true, "STARTSWITH": true, "ENDSWITH": true,
}

// definition shows the tokens to participle.
type definition struct{}

func (definition) Symbols() map[string]lexer.TokenType {
	return map[string]lexer.TokenType{
		"EOF": lexer.EOF, "Invalid": typeInvalid, "Float": typeFloat, "Int": typeInt, "String": typeString,
		"Name": typeName, "Keyword": typeKeyword, "Operator": typeOperator,
	}
}

func (definition) Lex(_ string, r io.Reader) (lexer.Lexer, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	list := tokenize(string(text))
	return &list, nil
}

// tokenList is a text as tokens, comments and white space left out; the last one is the end.
type tokenList []lexer.Token

// Next makes it a lexer for participle.
func (l *tokenList) Next() (lexer.Token, error) {
	t := (*l)[0]
	if len(*l) > 1 {
		*l = (*l)[1:]
	}
	return t, nil
}

// tokenize takes time in proportion to the text, whatever it is.
func tokenize(text string) (list tokenList) {
	s := scanner{text: text, at: lexer.Position{Line: 1, Column: 1}}
	for {
		s.skip()
		if s.at.Offset == len(text) {
			return append(list, lexer.EOFToken(s.at))
		}
		t := s.token()
		list = append(list, t)
		if t.Type == typeInvalid {
			return append(list, lexer.EOFToken(s.at))
		}
	}
}

// scanner is a place in a text.
type scanner struct {
	text      string
	at        lexer.Position
	noLineEnd bool // there is none from here on
}

// take goes on by n bytes and returns them.
func (s *scanner) take(n int) string {
	taken := s.text[s.at.Offset : s.at.Offset+n]
	s.at.Offset += n
	if i := strings.LastIndexByte(taken, '\n'); i >= 0 {
		s.at.Line += strings.Count(taken, "\n")
		s.at.Column = 1
		s.at.Column += utf8.RuneCountInString(taken[i+1:])
	} else {
		s.at.Column += utf8.RuneCountInString(taken)
	}
	return taken
}

func (s *scanner) rest() string { return s.text[s.at.Offset:] }

// skip passes over white space and comments. A line comment needs its line end: RocketMQ reads --1 at the end of a text as two signs
// and a number.
func (s *scanner) skip() {
	for {
		rest := s.rest()
		n := len(rest) - len(strings.TrimLeft(rest, " \t\r\n\f"))
		switch {
		case n > 0:
		case strings.HasPrefix(rest, "--") && !s.noLineEnd:
			n = strings.IndexAny(rest, "\r\n") + 1
			s.noLineEnd = n == 0
		case strings.HasPrefix(rest, "/*"):
			if i := strings.Index(rest[2:], "*/"); i >= 0 {
				n = 2 + i + 2
			}
		}
		if n == 0 {
			return
		}
		s.take(n)
	}
}

func (s *scanner) token() lexer.Token {
	t := lexer.Token{Pos: s.at}
	rest := s.rest()
	var n int
	switch c := rest[0]; {
	case isDecimal(c) || c == '.':
		t.Type, n = scanNumber(rest)
	case c == '\'':
		t.Type, n = typeString, scanString(rest)
	case isNameStart(c):
		for n = 1; n < len(rest) && (isNameStart(rest[n]) || isDecimal(rest[n])); n++ {
		}
		t.Type = typeName
	case strings.HasPrefix(rest, "<>") || strings.HasPrefix(rest, "<=") || strings.HasPrefix(rest, ">="):
		t.Type, n = typeOperator, 2
	case strings.IndexByte("=<>(),+-", c) >= 0:
		t.Type, n = typeOperator, 1
	}
	if n == 0 {
		t.Type = typeInvalid
		_, n = utf8.DecodeRuneInString(rest)
	}
	t.Value = s.take(n)
	if t.Type == typeName && len(t.Value) <= len("STARTSWITH") {
		if upper := strings.ToUpper(t.Value); keywords[upper] {
			t.Type, t.Value = typeKeyword, upper
		}
	}
	return t
}

func isNameStart(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '$' }

// scanString returns the length of the string literal at the beginning of text, 0 when it has no end. Two quotes do not end it.
func scanString(text string) int {
	for i := 1; ; {
		end := strings.IndexByte(text[i:], '\'')
		if end < 0 {
			return 0
		}
		i += end + 1
		if i == len(text) || text[i] != '\'' {
			return i
		}
		i++
	}
}

// scanNumber returns kind and length of the number at the beginning of text; the length is 0 for a lone point. A number without
// point and exponent is 0 or begins with another digit, and the latter may have an L behind it.
func scanNumber(text string) (lexer.TokenType, int) {
	whole := countDigits(text, 0)
	n := whole
	if n < len(text) && text[n] == '.' {
		n += 1 + countDigits(text, n+1)
		if n == 1 {
			return typeFloat, 0
		}
	}
	if e := n; e < len(text) && text[e]|0x20 == 'e' {
		e++
		if e < len(text) && (text[e] == '+' || text[e] == '-') {
			e++
		}
		if digits := countDigits(text, e); digits > 0 {
			return typeFloat, e + digits
		}
	}
	switch {
	case n > whole:
		return typeFloat, n
	case text[0] == '0':
		return typeInt, 1
	case n < len(text) && text[n]|0x20 == 'l':
		return typeInt, n + 1
	}
	return typeInt, n
}

func countDigits(text string, from int) (n int) {
	for from+n < len(text) && isDecimal(text[from+n]) {
		n++
	}
	return n
}
