package message

import (
	"bytes"
	"iter"
)

// The two separators of a property string. A value cannot contain them: there is no escape.
//
//	property  = name 0x01 value
//	string    = property 0x02 property 0x02 ...      the last 0x02 may be missing
const (
	nameSeparator     = 0x01
	propertySeparator = 0x02
)

// Property returns the value of a property, aliasing the record. The last of several with the same name wins. Like
// upstream it does not see elements with an empty name or an empty value, so a value returned has at least one byte.
// No allocation.
//
// Names are compared as bytes. Upstream compares decoded strings; the two differ only for names that are not valid UTF-8.
//
// Source: MessageDecoder.string2messageProperties, 5.5.0.
func (r *Record) Property(name string) ([]byte, bool) { return FindProperty(r.Properties, name) }

// FindProperty is Record.Property on a bare property string.
func FindProperty(properties []byte, name string) (value []byte, ok bool) {
	n := len(name)
	for p := properties; len(p) > 0; {
		e := p
		if i := bytes.IndexByte(p, propertySeparator); i >= 0 {
			e, p = p[:i], p[i+1:]
		} else {
			p = nil
		}
		// The separator behind the name is the first of the element, since no name we look for contains one; it must
		// stand neither first nor last.
		if len(e) > n+1 && e[n] == nameSeparator && string(e[:n]) == name {
			value = e[n+1:]
		}
	}
	if n == 0 {
		return nil, false
	}
	return value[:len(value):len(value)], value != nil
}

// PropertiesSeq yields name and value of each property in stored order, duplicates included, by the rules of Property. The
// slices alias the record.
func (r *Record) PropertiesSeq() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for p := r.Properties; len(p) > 0; {
			e := p
			if i := bytes.IndexByte(p, propertySeparator); i >= 0 {
				e, p = p[:i], p[i+1:]
			} else {
				p = nil
			}
			i := bytes.IndexByte(e, nameSeparator)
			if i < 1 || i == len(e)-1 {
				continue
			}
			if !yield(e[:i:i], e[i+1:len(e):len(e)]) {
				return
			}
		}
	}
}

// AppendProperty appends one property, separators included. A name or value that is empty or contains a separator cannot
// be read back; ValidProperty tells.
//
// Source: MessageDecoder.messageProperties2String, 5.5.0.
func AppendProperty(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, nameSeparator)
	dst = append(dst, value...)
	return append(dst, propertySeparator)
}

// ValidProperty tells whether AppendProperty writes something that Property reads back.
func ValidProperty(name, value string) bool {
	return len(name) > 0 && len(value) > 0 && !hasSeparator(name) && !hasSeparator(value)
}

func hasSeparator(s string) bool {
	for i := range len(s) {
		if s[i] == nameSeparator || s[i] == propertySeparator {
			return true
		}
	}
	return false
}
