package offsets

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// node is a value of a JSON text with its place: raw is the text as it stands there. RocketMQ's library writes maps with
// integer keys unquoted and takes more than JSON allows (single quotes, commas without a value), which encoding/json does
// not; and what a person has to repair needs a line and a column. Hence a parser of our own.
type node struct {
	kind    nodeKind
	at      int // byte position of its first character
	raw     []byte
	text    string   // of a string, without quotes and escapes
	members []member // of an object, in the order of the text; a key may repeat
}

type nodeKind uint8

const (
	objectNode nodeKind = iota + 1
	arrayNode
	stringNode
	wordNode // a number, true, false, null, or a word that is none of these
)

type member struct {
	key   string
	at    int
	value node
}

// member returns the last member of that key, which is the one that counts.
func (n *node) member(key string) *node {
	for i := len(n.members) - 1; i >= 0; i-- {
		if n.members[i].key == key {
			return &n.members[i].value
		}
	}
	return nil
}

// maxDepth bounds nesting: the files have 3 levels, and a text of brackets alone shall not exhaust the stack.
const maxDepth = 64

// syntaxError tells what a text has at a byte position instead of what it should.
type syntaxError struct {
	at   int
	text string
}

func (e *syntaxError) Error() string { return e.text }

// place says line and column of a byte position, both from 1; the column counts bytes.
func place(b []byte, at int) string {
	at = min(at, len(b))
	line := 1 + bytes.Count(b[:at], []byte{'\n'})
	return fmt.Sprintf("line %d, column %d", line, at-bytes.LastIndexByte(b[:at], '\n'))
}

type parser struct {
	b     []byte
	at    int
	depth int
}

// parseJSON reads one value; rest is the position behind it and the blanks after it.
func parseJSON(b []byte) (n node, rest int, err error) {
	p := &parser{b: b, at: len(b) - len(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))}
	n, err = p.value()
	p.blanks()
	return n, p.at, err
}

func (p *parser) blanks() {
	for p.at < len(p.b) && strings.IndexByte(" \t\r\n", p.b[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) fail(want string) error {
	if p.at >= len(p.b) {
		return &syntaxError{len(p.b), "the text ends, want " + want}
	}
	end := min(len(p.b), p.at+16)
	return &syntaxError{p.at, fmt.Sprintf("%q, want %s", p.b[p.at:end], want)}
}

// peek returns the next character that is no blank, 0 at the end.
func (p *parser) peek() byte {
	p.blanks()
	if p.at == len(p.b) {
		return 0
	}
	return p.b[p.at]
}

func (p *parser) value() (n node, err error) {
	c := p.peek()
	n.at = p.at
	switch c {
	case '{', '[':
		if p.depth++; p.depth > maxDepth {
			return n, &syntaxError{p.at, fmt.Sprintf("more than %d levels", maxDepth)}
		}
		if c == '{' {
			n.kind, err = objectNode, p.object(&n)
		} else {
			n.kind, err = arrayNode, p.array()
		}
		p.depth--
	case '"', '\'':
		n.kind = stringNode
		n.text, err = p.quoted()
	default:
		n.kind = wordNode
		if n.text = p.word(); n.text == "" {
			err = p.fail("a value")
		}
	}
	n.raw = p.b[n.at:p.at]
	return n, err
}

func (p *parser) object(n *node) error {
	for p.at++; ; {
		for p.peek() == ',' {
			p.at++
		}
		if p.peek() == '}' {
			p.at++
			return nil
		}
		m := member{at: p.at}
		var err error
		if c := p.peek(); c == '"' || c == '\'' {
			m.key, err = p.quoted()
		} else if m.key = p.word(); m.key == "" {
			err = p.fail("a key or }")
		}
		if err != nil {
			return err
		}
		if p.peek() != ':' {
			return p.fail("a colon")
		}
		p.at++
		if m.value, err = p.value(); err != nil {
			return err
		}
		n.members = append(n.members, m)
		if c := p.peek(); c != ',' && c != '}' {
			return p.fail("a comma or }")
		}
	}
}

func (p *parser) array() error {
	for p.at++; ; {
		for p.peek() == ',' {
			p.at++
		}
		if p.peek() == ']' {
			p.at++
			return nil
		}
		if _, err := p.value(); err != nil {
			return err
		}
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
	return "", &syntaxError{from, "a string without its closing quote"}
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
		if p.at+4 < len(p.b) {
			if s, err := strconv.Unquote(`"\u` + string(p.b[p.at+1:p.at+5]) + `"`); err == nil {
				p.at += 4
				return append(out, s...)
			}
		}
		return append(out, 'u')
	default:
		return append(out, c)
	}
}

// appendQuoted appends a JSON string as RocketMQ's library writes one.
func appendQuoted(dst []byte, s string) []byte {
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
