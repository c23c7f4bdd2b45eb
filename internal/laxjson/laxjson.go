package laxjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Node is a value of a text with its place: Raw is the text as it stands there, sharing its memory.
type Node struct {
	Kind    Kind
	At      int // byte position of its first character
	Raw     []byte
	Text    string   // of a String without quotes and escapes, and of a Word
	Members []Member // of an Object, in the order of the text; a key may repeat
	Items   []Node   // of an Array
}

// Kind is the kind of a Node.
type Kind uint8

// The kinds.
const (
	Object Kind = iota + 1
	Array
	String
	Word // a number, true, false, null, or a word that is none of these
)

// Member is a member of an Object. Key is the text of the key without quotes and escapes, or, where an object stands for the key, that
// object's text.
type Member struct {
	Key   string
	At    int
	Value Node
}

// Member returns the last member of that key, which is the one that counts; nil if there is none.
func (n *Node) Member(key string) *Node {
	for i := len(n.Members) - 1; i >= 0; i-- {
		if n.Members[i].Key == key {
			return &n.Members[i].Value
		}
	}
	return nil
}

// maxDepth bounds nesting: the texts have about 6 levels, and one of brackets alone shall not exhaust the stack.
const maxDepth = 64

// SyntaxError tells what a text has at a byte position instead of what it should.
type SyntaxError struct {
	At   int
	Text string
}

func (e *SyntaxError) Error() string { return e.Text }

// Place says line and column of a byte position, both from 1; the column counts bytes.
func Place(b []byte, at int) string {
	at = min(at, len(b))
	line := 1 + bytes.Count(b[:at], []byte{'\n'})
	return fmt.Sprintf("line %d, column %d", line, at-bytes.LastIndexByte(b[:at], '\n'))
}

type parser struct {
	b     []byte
	at    int
	depth int
}

// Parse reads one value; rest is the position behind it and the blanks after it. Errors: *SyntaxError.
func Parse(b []byte) (n Node, rest int, err error) {
	p := &parser{b: b, at: len(b) - len(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))}
	n, err = p.value()
	p.blanks()
	return n, p.at, err
}

// Unmarshal decodes a text into v as encoding/json does. A *SyntaxError or an error of encoding/json comes back with its place.
func Unmarshal(b []byte, v any) error {
	strict, err := Strict(b)
	if err != nil {
		return err
	}
	return json.Unmarshal(strict, v)
}

// Strict returns the JSON of one value: keys quoted, an object that is a key as a string that holds its text, and words that JSON does not
// know as strings. Bytes behind the value are ignored, as 5.5.0 ignores them. Errors: the place, wrapping a *SyntaxError.
func Strict(b []byte) ([]byte, error) {
	n, _, err := Parse(b)
	if err != nil {
		at := 0
		if s, ok := err.(*SyntaxError); ok { //nolint:errorlint // Parse returns it as it is
			at = s.At
		}
		return nil, fmt.Errorf("%s: %w", Place(b, at), err)
	}
	return n.AppendStrict(make([]byte, 0, len(b)+len(b)/8)), nil
}

// AppendStrict appends the value as Strict has it.
func (n *Node) AppendStrict(dst []byte) []byte {
	switch n.Kind {
	case Object:
		dst = append(dst, '{')
		for i := range n.Members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendQuoted(dst, n.Members[i].Key), ':')
			dst = n.Members[i].Value.AppendStrict(dst)
		}
		return append(dst, '}')
	case Array:
		dst = append(dst, '[')
		for i := range n.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = n.Items[i].AppendStrict(dst)
		}
		return append(dst, ']')
	case Word:
		if json.Valid(n.Raw) {
			return append(dst, n.Raw...)
		}
	}
	return AppendQuoted(dst, n.Text)
}

func (p *parser) blanks() {
	for p.at < len(p.b) && strings.IndexByte(" \t\r\n", p.b[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) fail(want string) error {
	if p.at >= len(p.b) {
		return &SyntaxError{len(p.b), "the text ends, want " + want}
	}
	end := min(len(p.b), p.at+16)
	return &SyntaxError{p.at, fmt.Sprintf("%q, want %s", p.b[p.at:end], want)}
}

// peek returns the next character that is no blank, 0 at the end.
func (p *parser) peek() byte {
	p.blanks()
	if p.at == len(p.b) {
		return 0
	}
	return p.b[p.at]
}

func (p *parser) value() (n Node, err error) {
	c := p.peek()
	n.At = p.at
	switch c {
	case '{', '[':
		if p.depth++; p.depth > maxDepth {
			return n, &SyntaxError{p.at, fmt.Sprintf("more than %d levels", maxDepth)}
		}
		if c == '{' {
			n.Kind, err = Object, p.object(&n)
		} else {
			n.Kind, err = Array, p.array(&n)
		}
		p.depth--
	case '"', '\'':
		n.Kind = String
		n.Text, err = p.quoted()
	default:
		n.Kind = Word
		if n.Text = p.word(); n.Text == "" {
			err = p.fail("a value")
		}
	}
	n.Raw = p.b[n.At:p.at]
	return n, err
}

func (p *parser) object(n *Node) error {
	for p.at++; ; {
		for p.peek() == ',' {
			p.at++
		}
		if p.peek() == '}' {
			p.at++
			return nil
		}
		m := Member{At: p.at}
		var err error
		if m.Key, err = p.key(); err != nil {
			return err
		}
		if p.peek() != ':' {
			return p.fail("a colon")
		}
		p.at++
		if m.Value, err = p.value(); err != nil {
			return err
		}
		n.Members = append(n.Members, m)
		if c := p.peek(); c != ',' && c != '}' {
			return p.fail("a comma or }")
		}
	}
}

func (p *parser) key() (string, error) {
	switch p.peek() {
	case '"', '\'':
		return p.quoted()
	case '{':
		n, err := p.value()
		return string(n.Raw), err
	}
	if key := p.word(); key != "" {
		return key, nil
	}
	return "", p.fail("a key or }")
}

func (p *parser) array(n *Node) error {
	for p.at++; ; {
		for p.peek() == ',' {
			p.at++
		}
		if p.peek() == ']' {
			p.at++
			return nil
		}
		item, err := p.value()
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
		if c := p.peek(); c != ',' && c != ']' {
			return p.fail("a comma or ]")
		}
	}
}

const wordCharacters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-._$"

// word reads a run of the characters that numbers and identifiers are made of.
func (p *parser) word() string {
	from := p.at
	for p.at < len(p.b) {
		if c := p.b[p.at]; c < 0x80 && strings.IndexByte(wordCharacters, c) < 0 {
			break
		}
		p.at++
	}
	return string(p.b[from:p.at])
}

// quoted reads a string in single or double quotes.
func (p *parser) quoted() (string, error) {
	quote, from := p.b[p.at], p.at
	var out []byte
	for p.at++; p.at < len(p.b); p.at++ {
		c := p.b[p.at]
		switch {
		case c == quote:
			p.at++
			return string(out), nil
		case c == '\\' && p.at+1 < len(p.b):
			p.at++
			out = p.escape(out)
		default:
			out = append(out, c)
		}
	}
	return "", &SyntaxError{from, "a string without its closing quote"}
}

// escape reads what stands behind a backslash, leaving p.at on its last character.
func (p *parser) escape(out []byte) []byte {
	switch c := p.b[p.at]; c {
	case 'b':
		return append(out, '\b')
	case 'f':
		return append(out, '\f')
	case 'n':
		return append(out, '\n')
	case 'r':
		return append(out, '\r')
	case 't':
		return append(out, '\t')
	case 'u':
		r, ok := p.hex(p.at + 1)
		if !ok {
			return append(out, 'u')
		}
		p.at += 4
		if utf16.IsSurrogate(r) && p.at+2 < len(p.b) && p.b[p.at+1] == '\\' && p.b[p.at+2] == 'u' {
			if low, ok := p.hex(p.at + 3); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
				p.at += 6
				r = utf16.DecodeRune(r, low)
			}
		}
		return utf8.AppendRune(out, r) // half a pair alone becomes U+FFFD
	default:
		return append(out, c)
	}
}

// hex reads four hexadecimal digits.
func (p *parser) hex(at int) (rune, bool) {
	if at+4 > len(p.b) {
		return 0, false
	}
	v, err := strconv.ParseUint(string(p.b[at:at+4]), 16, 16)
	return rune(v), err == nil
}

// AppendQuoted appends a JSON string as RocketMQ's library writes one: nothing escaped but quotes, backslashes and control characters.
func AppendQuoted(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
