package remoting

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A JSON header is an object with the keys code, extFields, flag, language, opaque, remark, serializeTypeCurrentRPC and version. It is written in that
// order, without blanks, and what is null is left out. It is read as Java reads it: any order, unknown keys, missing keys, null, numbers in
// quotes; a field of extFields may be a text, a number, a boolean or anything else, whose text is then the value.
//
// The parser is made by hand because it runs for each frame: it unescapes in place, moves the texts that are kept to the front of
// the header, and makes one string of all of them.
//
// Source: RemotingSerializable and RemotingCommand, 5.5.0, and the habits of the clients in Go and C++.

type span struct{ from, to int }

type headerParser struct {
	b    []byte
	r, w int // read from b[r], keep at b[w]; w <= r always
}

// maxDepth bounds values inside values.
const maxDepth = 32

func (c *Command) decodeJSON(header []byte) error {
	p := headerParser{b: header}
	var stack [24]struct{ key, value span }
	fields := stack[:0]
	var remark span
	hasExt := false
	c.Code, c.Flag, c.Opaque, c.Version, c.Language = 0, 0, 0, 0, Java

	field := func(key span) error {
		value, ok, err := p.fieldValue()
		if err != nil || !ok {
			return err
		}
		if len(fields) == maxExtFields {
			return p.errorf("more than %d header fields", maxExtFields)
		}
		fields = append(fields, struct{ key, value span }{key, value})
		return nil
	}
	member := func(key span) error {
		var err error
		switch name := p.b[key.from:key.to]; string(name) {
		case "code":
			c.Code, err = p.int32()
		case "flag":
			c.Flag, err = p.int32()
		case "opaque":
			c.Opaque, err = p.int32()
		case "version":
			c.Version, err = p.int32()
		case "language":
			p.w = key.from // the name of the member is not kept
			var v span
			var ok bool
			if v, ok, err = p.fieldValue(); ok {
				c.Language = languageOf(p.b[v.from:v.to])
				p.w = v.from
			}
		case "remark":
			p.w = key.from
			var ok bool
			if remark, ok, err = p.fieldValue(); !ok {
				remark = span{}
			}
			return err
		case "extFields":
			p.w = key.from
			fields, hasExt = fields[:0], false
			if p.literal("null") {
				return nil
			}
			hasExt = true
			return p.object(field)
		default:
			err = p.skip(0)
		}
		p.w = key.from
		return err
	}
	p.blanks()
	if err := p.object(member); err != nil {
		return err
	}
	if p.blanks(); p.r < len(p.b) {
		return p.errorf("something follows the header's object")
	}

	text := string(p.b[:p.w])
	c.Remark = text[remark.from:remark.to]
	c.Ext = c.Ext[:0]
	for _, f := range fields {
		c.Ext = append(c.Ext, Field{text[f.key.from:f.key.to], text[f.value.from:f.value.to]})
	}
	if !hasExt {
		c.Ext = nil
	} else if c.Ext == nil {
		c.Ext = Ext{}
	}
	return nil
}

func (p *headerParser) errorf(format string, args ...any) error {
	return &FrameError{frameHead + p.r, fmt.Sprintf(format, args...)}
}

func (p *headerParser) blanks() {
	for p.r < len(p.b) {
		switch p.b[p.r] {
		case ' ', '\t', '\r', '\n':
			p.r++
		default:
			return
		}
	}
}

// peek gives the next byte, 0 at the end.
func (p *headerParser) peek() byte {
	if p.r < len(p.b) {
		return p.b[p.r]
	}
	return 0
}

func (p *headerParser) literal(word string) bool {
	if len(p.b)-p.r >= len(word) && string(p.b[p.r:p.r+len(word)]) == word {
		p.r += len(word)
		return true
	}
	return false
}

// object reads an object and calls member with the kept text of each key, the parser standing at its value.
func (p *headerParser) object(member func(key span) error) error {
	if p.peek() != '{' {
		return p.errorf("no object where one should begin")
	}
	p.r++
	if p.blanks(); p.peek() == '}' {
		p.r++
		return nil
	}
	for {
		if p.blanks(); p.peek() != '"' {
			return p.errorf("a key does not begin with a quote")
		}
		key, err := p.text()
		if err != nil {
			return err
		}
		if p.blanks(); p.peek() != ':' {
			return p.errorf("no colon after a key")
		}
		p.r++
		p.blanks()
		if err := member(key); err != nil {
			return err
		}
		p.blanks()
		switch p.peek() {
		case ',':
			p.r++
		case '}':
			p.r++
			return nil
		default:
			return p.errorf("neither comma nor end after a value")
		}
	}
}

// text reads a string and keeps it unescaped.
func (p *headerParser) text() (span, error) {
	p.r++ // the quote
	from := p.w
	b := p.b
	r, w := p.r, p.w
	for {
		run := r
		for r < len(b) && b[r] != '"' && b[r] != '\\' {
			r++
		}
		w += copy(b[w:], b[run:r])
		if r == len(b) {
			p.r = r
			return span{}, p.errorf("a string does not end")
		}
		if b[r] == '"' {
			p.r, p.w = r+1, w
			return span{from, w}, nil
		}
		if r++; r == len(b) {
			p.r = r
			return span{}, p.errorf("a string does not end")
		}
		switch esc := b[r]; esc {
		case '"', '\\', '/', '\'':
			b[w] = esc
		case 'b':
			b[w] = '\b'
		case 'f':
			b[w] = '\f'
		case 'n':
			b[w] = '\n'
		case 'r':
			b[w] = '\r'
		case 't':
			b[w] = '\t'
		case 'u':
			c, ok := hex4(b[r+1:])
			if !ok {
				p.r = r
				return span{}, p.errorf("\\u without four hex digits")
			}
			r += 4
			if utf16.IsSurrogate(c) {
				low := rune(-1)
				if len(b) > r+2 && b[r+1] == '\\' && b[r+2] == 'u' {
					low, _ = hex4(b[r+3:])
				}
				if c = utf16.DecodeRune(c, low); c != utf8.RuneError {
					r += 6
				}
			}
			w += utf8.EncodeRune(b[w:r+1], c) // never more bytes than the escape had
			r++
			continue
		default:
			p.r = r
			return span{}, p.errorf("unknown escape \\%c", esc)
		}
		r++
		w++
	}
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var c rune
	for _, d := range b[:4] {
		switch {
		case '0' <= d && d <= '9':
			c = c<<4 | rune(d-'0')
		case 'a' <= d && d <= 'f':
			c = c<<4 | rune(d-'a'+10)
		case 'A' <= d && d <= 'F':
			c = c<<4 | rune(d-'A'+10)
		default:
			return 0, false
		}
	}
	return c, true
}

// fieldValue reads a value and keeps it as text; ok is false for null.
func (p *headerParser) fieldValue() (v span, ok bool, err error) {
	switch p.peek() {
	case '"':
		v, err = p.text()
		return v, err == nil, err
	case 'n':
		if p.literal("null") {
			return span{}, false, nil
		}
	}
	from := p.r
	if err := p.skip(0); err != nil {
		return span{}, false, err
	}
	v.from = p.w
	p.w += copy(p.b[p.w:], p.b[from:p.r])
	v.to = p.w
	return v, true, nil
}

// int32 reads a number, in quotes or not; null is 0.
func (p *headerParser) int32() (int32, error) {
	if p.literal("null") {
		return 0, nil
	}
	quoted := p.peek() == '"'
	if quoted {
		p.r++
	}
	from := p.r
	negative := p.peek() == '-'
	if negative {
		p.r++
	}
	var n int64
	digits := p.r
	for ; p.r < len(p.b) && '0' <= p.b[p.r] && p.b[p.r] <= '9'; p.r++ {
		if n = n*10 + int64(p.b[p.r]-'0'); n > 1<<31 {
			return 0, p.errorf("a number exceeds 32 bits")
		}
	}
	if negative {
		n = -n
	}
	if p.r == digits || n != int64(int32(n)) {
		p.r = from
		return 0, p.errorf("no 32-bit number where one should be")
	}
	if quoted {
		if p.peek() != '"' {
			return 0, p.errorf("a number in quotes does not end")
		}
		p.r++
	}
	return int32(n), nil
}

// skip passes over any value without changing a byte.
func (p *headerParser) skip(depth int) error {
	if depth > maxDepth {
		return p.errorf("more than %d values inside one another", maxDepth)
	}
	switch c := p.peek(); {
	case c == '"':
		return p.skipText()
	case c == '{' || c == '[':
		end := byte('}')
		if c == '[' {
			end = ']'
		}
		p.r++
		if p.blanks(); p.peek() == end {
			p.r++
			return nil
		}
		for {
			if p.blanks(); c == '{' {
				if p.peek() != '"' {
					return p.errorf("a key does not begin with a quote")
				}
				if err := p.skipText(); err != nil {
					return err
				}
				if p.blanks(); p.peek() != ':' {
					return p.errorf("no colon after a key")
				}
				p.r++
				p.blanks()
			}
			if err := p.skip(depth + 1); err != nil {
				return err
			}
			p.blanks()
			switch p.peek() {
			case ',':
				p.r++
			case end:
				p.r++
				return nil
			default:
				return p.errorf("neither comma nor end after a value")
			}
		}
	case c == '-' || '0' <= c && c <= '9':
		for p.r++; p.r < len(p.b); p.r++ {
			switch c := p.b[p.r]; {
			case '0' <= c && c <= '9', c == '.', c == 'e', c == 'E', c == '+', c == '-':
				continue
			}
			break
		}
		return nil
	case p.literal("true"), p.literal("false"), p.literal("null"):
		return nil
	}
	return p.errorf("no value where one should be")
}

func (p *headerParser) skipText() error {
	for p.r++; p.r < len(p.b); p.r++ {
		switch p.b[p.r] {
		case '\\':
			p.r++
		case '"':
			p.r++
			return nil
		}
	}
	p.r = len(p.b)
	return p.errorf("a string does not end")
}

func appendJSONHeader(dst []byte, c *Command, e envelope) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(c.Code), 10)
	if c.Ext != nil {
		var buf [sortedFields]Field
		dst = append(dst, `,"extFields":{`...)
		for i, f := range c.Ext.sorted(&buf) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSONString(dst, f.Key)
			dst = append(dst, ':')
			dst = appendJSONString(dst, f.Value)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `,"flag":`...)
	dst = strconv.AppendInt(dst, int64(e.flag), 10)
	if name := e.language.String(); name != "" {
		dst = append(dst, `,"language":"`...)
		dst = append(dst, name...)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"opaque":`...)
	dst = strconv.AppendInt(dst, int64(e.opaque), 10)
	if c.Remark != "" {
		dst = append(dst, `,"remark":`...)
		dst = appendJSONString(dst, c.Remark)
	}
	dst = append(dst, `,"serializeTypeCurrentRPC":"JSON","version":`...)
	dst = strconv.AppendInt(dst, int64(e.version), 10)
	return append(dst, '}')
}

// plain has the bytes that stand for themselves inside a JSON string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendJSONString appends s in quotes, as valid JSON whatever s holds: bytes that are not UTF-8 become U+FFFD.
func appendJSONString(dst []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	run := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			if r, size := utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, s[run:i]...)
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c >= utf8.RuneSelf:
			dst = append(dst, "\ufffd"...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		run = i
	}
	dst = append(dst, s[run:]...)
	return append(dst, '"')
}
