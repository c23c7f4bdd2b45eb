package store

import (
	"bytes"
	"hash/crc32"
	"strconv"
	"unicode/utf8"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// The lines of a dump are put together by hand: encoding/json takes four times as long for them, and a store has many.

// queueLine is the line of one queue.
type queueLine struct {
	key                            cq.Key
	min, max, readable, unreadable int64
	crc                            uint32
}

func (l *queueLine) appendTo(dst []byte) []byte {
	dst = append(dst, `{"t":"queue"`...)
	dst = appendKey(dst, l.key)
	dst = appendInt(dst, "min", l.min)
	dst = appendInt(dst, "max", l.max)
	dst = appendInt(dst, "readable", l.readable)
	dst = appendInt(dst, "cqCrc32", int64(l.crc))
	dst = appendInt(dst, "unreadable", l.unreadable)
	return append(dst, "}\n"...)
}

// msgLine writes the lines of the messages of one queue after the other into one buffer.
type msgLine struct {
	key     cq.Key
	keyText []byte // "topic" and "queueId" of the queue, the same on every line
	buf     []byte

	born, store hostText
}

// hostText keeps the last host and its text: most neighbours have the same.
type hostText struct {
	raw  []byte
	text string
}

func (h *hostText) of(raw []byte, text func(message.Host) string) string {
	if !bytes.Equal(raw, h.raw) {
		h.raw = append(h.raw[:0], raw...)
		h.text = text(message.DecodeHost(raw))
	}
	return h.text
}

// begin starts a queue.
func (l *msgLine) begin(k cq.Key) {
	l.key = k
	l.keyText = appendKey(l.keyText[:0], k)
}

// msg returns the line of a message, which is valid until the next, and what is wrong with its checksums.
func (l *msgLine) msg(queueOffset int64, u *cq.Unit, r *message.Record) (line []byte, damage error) {
	sum := crc32.ChecksumIEEE(r.Body)
	dst := append(l.buf[:0], `{"t":"msg"`...)
	dst = append(dst, l.keyText...)
	dst = appendInt(dst, "queueOffset", queueOffset)
	dst = appendInt(dst, "commitLogOffset", r.PhyOffset)
	dst = appendInt(dst, "size", int64(r.TotalSize))
	dst = appendInt(dst, "storeTimestamp", r.StoreTimestampMs)
	dst = appendInt(dst, "tagsCode", u.TagsCode)
	dst = appendText(dst, "msgId", message.OffsetMsgID(r.StoreHost, r.PhyOffset))
	dst = appendInt(dst, "crc32", int64(sum))
	dst = appendProperty(dst, "keys", r, message.PropertyKeys)
	dst = appendProperty(dst, "tags", r, message.PropertyTags)
	dst = appendProperty(dst, "uniqKey", r, message.PropertyUniqKey)
	dst = appendInt(dst, "bodyLen", int64(len(r.Body)))
	dst = appendInt(dst, "sysFlag", int64(r.SysFlag))
	dst = appendInt(dst, "flag", int64(r.Flag))
	dst = appendInt(dst, "bornTimestamp", r.BornTimestampMs)
	dst = appendText(dst, "bornHost", l.born.of(r.BornHost, message.Host.AddrString))
	dst = appendText(dst, "storeHost", l.store.of(r.StoreHost, message.Host.String))
	dst = appendInt(dst, "reconsumeTimes", int64(r.ReconsumeTimes))
	dst = appendInt(dst, "preparedTransactionOffset", r.PreparedTransactionOffset)
	dst = append(dst, `,"magicV2":`...)
	dst = strconv.AppendBool(dst, r.Magic == message.MagicV2)
	dst = appendInt(dst, "rawCrc32", int64(crc32.ChecksumIEEE(r.Raw)))
	if string(r.Topic) != l.key.Topic || r.QueueID != l.key.QueueID || r.QueueOffset != queueOffset {
		dst = append(dst, `,"msgTopic":`...)
		dst = appendString(dst, r.Topic)
		dst = appendInt(dst, "msgQueueId", int64(r.QueueID))
		dst = appendInt(dst, "msgQueueOffset", r.QueueOffset)
	}
	damaged := "body"
	if damage = r.VerifyBody(sum); damage == nil && hasPropertyCRC(r) {
		damage, damaged = r.VerifyPropertyCRC(), "properties"
	}
	if damage != nil {
		dst = appendText(dst, "damaged", damaged)
	}
	l.buf = append(dst, "}\n"...)
	return l.buf, damage
}

// bad returns the line of a unit that points to no record; has tells whether crc is one.
func (l *msgLine) bad(queueOffset int64, u *cq.Unit, crc uint32, has bool) []byte {
	dst := append(l.buf[:0], `{"t":"bad"`...)
	dst = append(dst, l.keyText...)
	dst = appendInt(dst, "queueOffset", queueOffset)
	dst = appendInt(dst, "commitLogOffset", u.PhyOffset)
	dst = appendInt(dst, "size", int64(u.Size))
	if has {
		dst = appendInt(dst, "rawCrc32", int64(crc))
	} else {
		dst = append(dst, `,"rawCrc32":null`...)
	}
	l.buf = append(dst, "}\n"...)
	return l.buf
}

// appendKey appends the two fields that name a queue.
func appendKey(dst []byte, k cq.Key) []byte {
	dst = append(dst, `,"topic":`...)
	dst = appendString(dst, k.Topic)
	return appendInt(dst, "queueId", int64(k.QueueID))
}

func appendInt(dst []byte, name string, v int64) []byte {
	return strconv.AppendInt(appendName(dst, name), v, 10)
}

// appendText appends a field whose value needs no escapes.
func appendText(dst []byte, name, v string) []byte {
	dst = append(appendName(dst, name), '"')
	dst = append(dst, v...)
	return append(dst, '"')
}

func appendProperty(dst []byte, name string, r *message.Record, property string) []byte {
	dst = appendName(dst, name)
	v, ok := r.Property(property)
	if !ok {
		return append(dst, "null"...)
	}
	return appendString(dst, v)
}

func appendName(dst []byte, name string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

// appendString appends a JSON string. Only what JSON demands is escaped, and the two line separators that JavaScript
// stumbles over; a byte that is no UTF-8 becomes U+FFFD.
func appendString[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[from:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\b':
				dst = append(dst, '\\', 'b')
			case '\f':
				dst = append(dst, '\\', 'f')
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			from = i
			continue
		}
		r, n := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
		if r == utf8.RuneError && n == 1 || r == '\u2028' || r == '\u2029' {
			dst = append(dst, s[from:i]...)
			if r == utf8.RuneError {
				dst = utf8.AppendRune(dst, r)
			} else {
				dst = append(dst, '\\', 'u', '2', '0', '2', hex[r&15])
			}
			from = i + n
		}
		i += n
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
