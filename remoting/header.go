package remoting

import (
	"fmt"
	"strconv"
	"strings"
)

// Fields reads typed header fields and remembers the first one that is missing or malformed:
//
//	h := req.Fields()
//	topic := h.String("topic")
//	queueID := h.Int32("queueId")
//	suspend := h.Int64Or("suspendTimeoutMillis", 0)
//	if err := h.Err(); err != nil {
//
// Numbers are decimal; of booleans "true" in any letter case is true and all else false, as in Java.
type Fields struct {
	ext  Ext
	code int32
	err  error
}

// Fields gives a reader of the header fields.
func (c *Command) Fields() Fields { return Fields{ext: c.Ext, code: c.Code} }

// FieldError tells of a header field that is missing or cannot be read. RespondError answers it with code 1.
type FieldError struct {
	Code   int32 // of the request
	Field  string
	Value  string
	Reason string
}

func (e *FieldError) Error() string {
	if e.Reason == missing {
		return fmt.Sprintf("%s: header field %s is missing", RequestCodeName(e.Code), e.Field)
	}
	return fmt.Sprintf("%s: header field %s %s: %q", RequestCodeName(e.Code), e.Field, e.Reason, e.Value)
}

const missing = "is missing"

// Err gives a *FieldError of the first field that was missing or malformed.
func (h *Fields) Err() error { return h.err }

// Fail lets the caller add a fault of its own about a field; the first one counts.
func (h *Fields) Fail(field, value, reason string) {
	if h.err == nil {
		if len(value) > 64 {
			value = value[:64] + "..."
		}
		h.err = &FieldError{Code: h.code, Field: field, Value: value, Reason: reason}
	}
}

// Has reports whether the field is there.
func (h *Fields) Has(key string) bool {
	_, ok := h.ext.Lookup(key)
	return ok
}

// String reads a mandatory text.
func (h *Fields) String(key string) string {
	v, ok := h.ext.Lookup(key)
	if !ok {
		h.Fail(key, "", missing)
	}
	return v
}

// StringOr reads an optional text.
func (h *Fields) StringOr(key, absent string) string {
	if v, ok := h.ext.Lookup(key); ok {
		return v
	}
	return absent
}

// Int32 reads a mandatory number.
func (h *Fields) Int32(key string) int32 { return int32(h.integer(key, h.String(key), 32, true)) }

// Int32Or reads an optional number.
func (h *Fields) Int32Or(key string, absent int32) int32 {
	v, ok := h.ext.Lookup(key)
	if !ok {
		return absent
	}
	return int32(h.integer(key, v, 32, false))
}

// Int64 reads a mandatory number.
func (h *Fields) Int64(key string) int64 { return h.integer(key, h.String(key), 64, true) }

// Int64Or reads an optional number.
func (h *Fields) Int64Or(key string, absent int64) int64 {
	v, ok := h.ext.Lookup(key)
	if !ok {
		return absent
	}
	return h.integer(key, v, 64, false)
}

// Bool reads a mandatory boolean.
func (h *Fields) Bool(key string) bool { return strings.EqualFold(h.String(key), "true") }

// BoolOr reads an optional boolean.
func (h *Fields) BoolOr(key string, absent bool) bool {
	v, ok := h.ext.Lookup(key)
	if !ok {
		return absent
	}
	return strings.EqualFold(v, "true")
}

func (h *Fields) integer(key, text string, bits int, mandatory bool) int64 {
	if mandatory && h.err != nil {
		return 0 // the field may be the one that is missing
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		h.Fail(key, text, "is no "+strconv.Itoa(bits)+"-bit number")
		return 0
	}
	return n
}
