package remoting

import (
	"encoding/binary"
	"fmt"
)

// A binary header:
//
//	size   field
//	2      code, int16: greater codes are cut
//	1      language
//	2      version, int16
//	4      opaque
//	4      flag
//	4+n    remark: its length, 0 where there is none, and its bytes
//	4+m    header fields: their length altogether, then of each int16 length of the key, key, int32 length of the value, value
//
// Source: RocketMQSerializable, 5.5.0.

const binaryHeaderMin = 21

func (c *Command) decodeBinary(h []byte) error {
	at := func(i int, reason string) error { return &FrameError{frameHead + i, reason} }
	if len(h) < binaryHeaderMin {
		return at(len(h), fmt.Sprintf("binary header of %d bytes, fewer than %d", len(h), binaryHeaderMin))
	}
	c.Code = int32(int16(binary.BigEndian.Uint16(h)))
	c.Language = Language(h[2])
	if int(c.Language) >= len(languageNames) {
		c.Language = UnknownLanguage
	}
	c.Version = int32(int16(binary.BigEndian.Uint16(h[3:])))
	c.Opaque = int32(binary.BigEndian.Uint32(h[5:]))
	c.Flag = int32(binary.BigEndian.Uint32(h[9:]))
	i := 17
	n := int64(int32(binary.BigEndian.Uint32(h[13:])))
	if n < 0 || n > int64(len(h)-binaryHeaderMin) {
		return at(13, fmt.Sprintf("remark of %d bytes in a header with %d left", n, len(h)-binaryHeaderMin))
	}
	text := string(h[i:]) // one allocation for remark and fields
	remark := text[:n]
	i += int(n)
	m := int64(int32(binary.BigEndian.Uint32(h[i:])))
	i += 4
	if m < 0 || m > int64(len(h)-i) {
		return at(i-4, fmt.Sprintf("header fields of %d bytes in a header with %d left", m, len(h)-i))
	}
	c.Remark = remark
	c.Ext = c.Ext[:0]
	end := i + int(m)
	for i < end {
		if end-i < 2 {
			return at(i, "a header field without the length of its key")
		}
		k := int(int16(binary.BigEndian.Uint16(h[i:])))
		i += 2
		if k < 0 || end-i < k+4 {
			return at(i-2, fmt.Sprintf("key of %d bytes with %d left for it and its value", k, end-i))
		}
		key := text[i-17 : i-17+k]
		i += k
		v := int64(int32(binary.BigEndian.Uint32(h[i:])))
		i += 4
		if v < 0 || v > int64(end-i) {
			return at(i-4, fmt.Sprintf("value of %d bytes with %d left", v, end-i))
		}
		if len(c.Ext) == maxExtFields {
			return at(i, fmt.Sprintf("more than %d header fields", maxExtFields))
		}
		c.Ext = append(c.Ext, Field{key, text[i-17 : i-17+int(v)]})
		i += int(v)
	}
	if m == 0 {
		c.Ext = nil
	}
	return nil
}

func appendBinaryHeader(dst []byte, c *Command, e envelope) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(c.Code))
	dst = append(dst, byte(e.language))
	dst = binary.BigEndian.AppendUint16(dst, uint16(e.version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.opaque))
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.flag))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(c.Remark)))
	dst = append(dst, c.Remark...)
	size := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	var buf [sortedFields]Field
	for _, f := range c.Ext.sorted(&buf) {
		key := f.Key[:min(len(f.Key), 1<<15-1)]
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(key)))
		dst = append(dst, key...)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Value)))
		dst = append(dst, f.Value...)
	}
	binary.BigEndian.PutUint32(dst[size:], uint32(len(dst)-size-4))
	return dst
}
