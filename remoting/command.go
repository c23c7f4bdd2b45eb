package remoting

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The bits of Command.Flag.
const (
	FlagResponse int32 = 1 // the frame answers a request
	FlagOneWay   int32 = 2 // a request that is never answered
)

// Command is one frame: a request or a response.
type Command struct {
	Code     int32 // of a request or of a response, see the lists of both
	Language Language
	Version  int32 // an ordinal of RocketMQ's list of versions, see VersionName
	Opaque   int32 // chosen by the requester and echoed; Conn and Client fill it in
	Flag     int32
	Remark   string // of a response: the error text
	// Ext holds the header fields. Nil: the header has no extFields at all; empty and not nil: it has an empty object.
	Ext Ext
	// Body follows the header. That of a received request belongs to the connection and is valid until the request is answered;
	// that of a received response is the caller's. A body to be sent is copied before the call returns.
	Body []byte
	// Payload is a body that is not copied, in place of Body. Only for responses.
	Payload *Payload

	in *inbound // where a received request came from; nil in all others
}

// IsResponse reports whether the frame answers a request.
func (c *Command) IsResponse() bool { return c.Flag&FlagResponse != 0 }

// IsOneWay reports whether the requester said that it wants no answer. A request without the bit may be one all the same: the Go and C++
// clients do not set it.
func (c *Command) IsOneWay() bool { return c.Flag&FlagOneWay != 0 }

// String describes the command without its fields and body, which may hold secrets.
func (c *Command) String() string {
	if c.IsResponse() {
		return fmt.Sprintf("response %d (%s) opaque %d", c.Code, ResponseCodeName(c.Code), c.Opaque)
	}
	return fmt.Sprintf("request %d (%s) opaque %d", c.Code, RequestCodeName(c.Code), c.Opaque)
}

// Error makes a response with a code and a remark an error, and nil of one with code 0.
func (c *Command) Error() error {
	if c.Code == Success {
		return nil
	}
	return &ResponseError{Code: c.Code, Remark: c.Remark}
}

// ResponseError is an answer with a code that is not 0: as an error of a call to a peer, and as the way for a handler to say which code
// RespondError gives.
type ResponseError struct {
	Code   int32
	Remark string
}

func (e *ResponseError) Error() string {
	return fmt.Sprintf("code %d (%s): %s", e.Code, ResponseCodeName(e.Code), e.Remark)
}

// Errorf makes a *ResponseError.
func Errorf(code int32, format string, args ...any) error {
	return &ResponseError{Code: code, Remark: fmt.Sprintf(format, args...)}
}

// Field is a header field.
type Field struct{ Key, Value string }

// Ext is a list of header fields. Of fields with one key the last counts. Encoding writes them in the order of their keys and leaves the list as it is: commands that are under
// way at once may share one.
type Ext []Field

// Lookup gives the value of key, and whether it is there.
func (e Ext) Lookup(key string) (string, bool) {
	for i := len(e) - 1; i >= 0; i-- {
		if e[i].Key == key {
			return e[i].Value, true
		}
	}
	return "", false
}

// Get gives the value of key, "" where it is absent.
func (e Ext) Get(key string) string {
	v, _ := e.Lookup(key)
	return v
}

// Set gives key a value.
func (e *Ext) Set(key, value string) {
	for i := len(*e) - 1; i >= 0; i-- {
		if (*e)[i].Key == key {
			(*e)[i].Value = value
			return
		}
	}
	*e = append(*e, Field{key, value})
}

// SetInt gives key a number.
func (e *Ext) SetInt(key string, value int64) { e.Set(key, strconv.FormatInt(value, 10)) }

// SetBool gives key true or false.
func (e *Ext) SetBool(key string, value bool) { e.Set(key, strconv.FormatBool(value)) }

// Delete removes key.
func (e *Ext) Delete(key string) {
	*e = slices.DeleteFunc(*e, func(f Field) bool { return f.Key == key })
}

// Map copies the fields into a map.
func (e Ext) Map() map[string]string {
	m := make(map[string]string, len(e))
	for _, f := range e {
		m[f.Key] = f.Value
	}
	return m
}

// ExtOf makes a list of the fields of a map.
func ExtOf(m map[string]string) Ext {
	e := make(Ext, 0, len(m))
	for k, v := range m {
		e = append(e, Field{k, v})
	}
	slices.SortFunc(e, byKey)
	return e
}

func byKey(a, b Field) int { return strings.Compare(a.Key, b.Key) }

// sortedFields is how many fields are put in order without memory from the heap; headers of RocketMQ have fewer.
const sortedFields = 32

// sorted returns the fields by key, those of one key as they came: the list itself where they are in order, otherwise a copy, in buf if there is room.
func (e Ext) sorted(buf *[sortedFields]Field) Ext {
	if slices.IsSortedFunc(e, byKey) {
		return e
	}
	e = append(buf[:0], e...)
	slices.SortStableFunc(e, byKey)
	return e
}
