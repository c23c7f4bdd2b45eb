package remoting

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Bodies are JSON with two habits of RocketMQ's that leave the standard: numeric keys of objects without quotes, and objects as keys. Between
// them and encoding/json stands a rewriting of keys alone: on the way in a bare key is put in quotes, and an object that is a key becomes a text,
// marked by a NUL in front; on the way out marked keys become objects again. So map[MessageQueue]T and map[int64]T
// work with the standard's decoder.
//
// Source: RemotingSerializable (fastjson), 5.5.0.

// objectKey marks an object that is a key, in texts of MessageQueue and inside encoding/json.
const objectKey = "\x00"

// MarshalBody encodes v as a compact JSON body: keys of maps in order, objects as keys where those are MessageQueue, nothing escaped
// for HTML. Fields of structs should stand in alphabetical order, as RocketMQ writes them.
func MarshalBody(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	b := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	if !bytes.Contains(b, []byte(`"\u0000{`)) {
		return b, nil
	}
	r := rewriter{in: b, out: make([]byte, 0, len(b)), write: true}
	if err := r.value(0); err != nil {
		return nil, err
	}
	return r.out, nil
}

// UnmarshalBody decodes a JSON body as clients and brokers of RocketMQ write it.
//
// Errors: where it is not JSON, with the byte of the body.
func UnmarshalBody(body []byte, v any) error {
	r := rewriter{in: body, out: make([]byte, 0, len(body)+64)}
	if err := r.value(0); err != nil {
		return err
	}
	if r.blanks(); r.i < len(body) {
		return r.errorf("something follows the value")
	}
	return json.Unmarshal(r.out, v)
}

// maxBodyDepth bounds values inside values; encoding/json has 10,000, and real bodies fewer than 10.
const maxBodyDepth = 100

// rewriter copies JSON and changes the keys of objects.
type rewriter struct {
	in    []byte
	i     int
	out   []byte
	write bool // from encoding/json to the wire; otherwise the other way
}

func (r *rewriter) errorf(format string, args ...any) error {
	return fmt.Errorf("JSON body: byte %d: %s", r.i, fmt.Sprintf(format, args...))
}

func (r *rewriter) blanks() {
	for r.i < len(r.in) && strings.IndexByte(" \t\r\n", r.in[r.i]) >= 0 {
		r.i++
	}
}

func (r *rewriter) peek() byte {
	if r.i < len(r.in) {
		return r.in[r.i]
	}
	return 0
}

// value copies the next value. Atoms are left to encoding/json to check.
func (r *rewriter) value(depth int) error {
	if depth > maxBodyDepth {
		return r.errorf("more than %d values inside one another", maxBodyDepth)
	}
	r.blanks()
	switch c := r.peek(); c {
	case '{':
		return r.list('}', func() error {
			if err := r.key(depth); err != nil {
				return err
			}
			if r.blanks(); r.peek() != ':' {
				return r.errorf("no colon after a key")
			}
			r.i++
			r.out = append(r.out, ':')
			return r.value(depth + 1)
		})
	case '[':
		return r.list(']', func() error { return r.value(depth + 1) })
	case '"':
		return r.text()
	default:
		from := r.i
		for r.i < len(r.in) && strings.IndexByte(" \t\r\n,:]}[{\"", r.in[r.i]) < 0 {
			r.i++
		}
		if r.i == from {
			return r.errorf("no value where one should be")
		}
		r.out = append(r.out, r.in[from:r.i]...)
		return nil
	}
}

// list copies what stands between brackets, element by element.
func (r *rewriter) list(end byte, element func() error) error {
	r.out = append(r.out, r.in[r.i])
	r.i++
	if r.blanks(); r.peek() == end {
		r.i++
		r.out = append(r.out, end)
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		switch r.blanks(); r.peek() {
		case ',':
			r.i++
			r.out = append(r.out, ',')
		case end:
			r.i++
			r.out = append(r.out, end)
			return nil
		default:
			return r.errorf("neither comma nor end after a value")
		}
	}
}

// text copies a string.
func (r *rewriter) text() error {
	from := r.i
	for r.i++; r.i < len(r.in); r.i++ {
		switch r.in[r.i] {
		case '\\':
			r.i++
		case '"':
			r.i++
			r.out = append(r.out, r.in[from:r.i]...)
			return nil
		}
	}
	r.i = len(r.in)
	return r.errorf("a string does not end")
}

// key copies a key and changes it.
func (r *rewriter) key(depth int) error {
	r.blanks()
	at := len(r.out)
	switch c := r.peek(); {
	case c == '"':
		if err := r.text(); err != nil {
			return err
		}
		if marked := r.out[at:]; r.write && bytes.HasPrefix(marked, []byte(`"\u0000{`)) {
			var object string
			if err := json.Unmarshal(marked, &object); err != nil {
				return err
			}
			r.out = append(r.out[:at], object[len(objectKey):]...)
		}
		return nil
	case c == '{':
		if err := r.value(depth + 1); err != nil {
			return err
		}
		object := objectKey + string(r.out[at:])
		r.out = appendJSONString(r.out[:at], object)
		return nil
	case c == '-' || '0' <= c && c <= '9':
		from := r.i
		for r.i++; r.i < len(r.in) && '0' <= r.in[r.i] && r.in[r.i] <= '9'; r.i++ {
		}
		r.out = append(r.out, '"')
		r.out = append(r.out, r.in[from:r.i]...)
		r.out = append(r.out, '"')
		return nil
	}
	return r.errorf("a key is neither text, number nor object")
}

// MessageQueue names one queue of a topic on one broker. As the key of a map it is an object on the wire.
//
// Source: MessageQueue, 5.5.0.
type MessageQueue struct {
	BrokerName string `json:"brokerName"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// MarshalJSON writes it as a value.
func (q MessageQueue) MarshalJSON() ([]byte, error) { return q.appendObject(nil), nil }

// UnmarshalJSON reads it as a value, or as the key that UnmarshalBody has made of one; a queue id may be in quotes.
func (q *MessageQueue) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte(`"`)) {
		var key string
		if err := json.Unmarshal(b, &key); err != nil {
			return err
		}
		b = []byte(strings.TrimPrefix(key, objectKey))
	}
	var p struct {
		BrokerName string `json:"brokerName"`
		QueueID    Int    `json:"queueId"`
		Topic      string `json:"topic"`
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	if p.QueueID != Int(int32(p.QueueID)) {
		return fmt.Errorf("queueId %d has more than 32 bits", p.QueueID)
	}
	*q = MessageQueue{p.BrokerName, int32(p.QueueID), p.Topic}
	return nil
}

// MarshalText writes it as a key for MarshalBody.
func (q MessageQueue) MarshalText() ([]byte, error) { return q.appendObject([]byte(objectKey)), nil }

// UnmarshalText makes it a key for encoding/json, which then calls UnmarshalJSON for it.
func (q *MessageQueue) UnmarshalText(b []byte) error {
	return q.UnmarshalJSON(bytes.TrimPrefix(b, []byte(objectKey)))
}

func (q MessageQueue) appendObject(b []byte) []byte {
	b = append(b, `{"brokerName":`...)
	b = appendJSONString(b, q.BrokerName)
	b = append(b, `,"queueId":`...)
	b = strconv.AppendInt(b, int64(q.QueueID), 10)
	b = append(b, `,"topic":`...)
	b = appendJSONString(b, q.Topic)
	return append(b, '}')
}

// Int is a number of a body that some clients put in quotes. It is written without.
type Int int64

// UnmarshalJSON reads a number in quotes or not; null leaves it.
func (n *Int) UnmarshalJSON(b []byte) error {
	text := string(bytes.Trim(b, `"`))
	if text == "null" {
		return nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("no 64-bit number: %s", b)
	}
	*n = Int(v)
	return nil
}

// UnmarshalEnum reads a value of an enumeration whose names are in the order of their ordinals: the name, or the ordinal, in quotes or not.
func UnmarshalEnum(b []byte, names []string) (int, error) {
	text := string(bytes.Trim(b, `"`))
	for i, name := range names {
		if text == name {
			return i, nil
		}
	}
	if i, err := strconv.Atoi(text); err == nil && i >= 0 && i < len(names) {
		return i, nil
	}
	return 0, fmt.Errorf("%s is none of %s", b, strings.Join(names, ", "))
}
