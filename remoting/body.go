package remoting

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tandemq/tandemmq/internal/laxjson"
)

// Bodies are JSON with habits of RocketMQ's that leave the standard: numeric keys of objects without quotes, and objects as keys. Package laxjson reads them; an object that is a key
// is a text that holds it, so that map[MessageQueue]T and map[int64]T work with the standard's decoder. On the way out such a key is marked by a NUL in front, and becomes an object
// again.
//
// Source: RemotingSerializable (fastjson), 5.5.0.

// objectKey marks an object that is a key, in texts of MessageQueue and in what encoding/json makes of them.
const objectKey = "\x00"

// objectKeyStart is how encoding/json begins such a text.
const objectKeyStart = `"\u0000{`

// MarshalBody encodes v as a compact JSON body: keys of maps in order, objects as keys where those are MessageQueue, nothing escaped
// for HTML. Fields of structs should stand in alphabetical order, as RocketMQ writes them.
func MarshalBody(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return unquoteKeys(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

// unquoteKeys makes objects of the keys of JSON without blanks that are marked.
func unquoteKeys(b []byte) (out []byte, err error) {
	for {
		before, rest, found := bytes.Cut(b, []byte(objectKeyStart))
		if !found && out == nil {
			return b, nil
		}
		if out = append(out, before...); !found {
			return out, nil
		}
		end := 0
		for rest[end] != '"' { // encoding/json closes what it opens
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		text := b[len(before) : len(before)+len(objectKeyStart)+end+1]
		if b = rest[end+1:]; len(b) == 0 || b[0] != ':' { // no key
			out = append(out, text...)
			continue
		}
		var object string
		if err := json.Unmarshal(text, &object); err != nil {
			return nil, err
		}
		out = append(out, object[len(objectKey):]...)
	}
}

// UnmarshalBody decodes a JSON body as clients and brokers of RocketMQ write it.
//
// Errors: where it is not JSON, with the byte of the body.
func UnmarshalBody(body []byte, v any) error {
	n, rest, err := laxjson.Parse(body)
	if bad := (*laxjson.SyntaxError)(nil); errors.As(err, &bad) {
		return fmt.Errorf("JSON body: byte %d: %w", bad.At, bad)
	}
	if rest < len(body) {
		return fmt.Errorf("JSON body: byte %d: something follows the value", rest)
	}
	return json.Unmarshal(n.AppendStrict(make([]byte, 0, len(body)+64)), v)
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
		b = []byte(key)
	}
	var p struct {
		BrokerName string `json:"brokerName"`
		QueueID    Int    `json:"queueId"`
		Topic      string `json:"topic"`
	}
	if err := laxjson.Unmarshal(b, &p); err != nil {
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
	return q.UnmarshalJSON(b)
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
