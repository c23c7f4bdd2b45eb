package message

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Field is one field of a drawing as it was found, for people.
type Field struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"` // of its first byte in the record, file or row
	Width  int64  `json:"width"`  // in bytes
	Value  any    `json:"value"`  // an integer; a string for text and addresses
	Text   string `json:"text,omitempty"`
}

// Fields returns the fields of a decoded record in the order of the drawing of Record. Body and properties have their lengths as values.
func (r *Record) Fields() []Field {
	b, s := int64(len(r.BornHost)), int64(len(r.StoreHost))
	body, topic, props := int64(len(r.Body)), int64(len(r.Topic)), int64(len(r.Properties))
	topicLen, version := int64(1), "version 1"
	if r.Magic == MagicV2 {
		topicLen, version = 2, "version 2"
	}
	names := 72 + b + s + body
	return []Field{
		{"totalSize", atTotalSize, 4, r.TotalSize, ""},
		{"magic", atMagic, 4, r.Magic, fmt.Sprintf("0x%08x, %s", uint32(r.Magic), version)},
		{"bodyCRC", atBodyCRC, 4, r.BodyCRC, r.bodyCRCText()},
		{"queueId", atQueueID, 4, r.QueueID, ""},
		{"flag", atFlag, 4, r.Flag, ""},
		{"queueOffset", atQueueOffset, 8, r.QueueOffset, ""},
		{"phyOffset", atPhyOffset, 8, r.PhyOffset, ""},
		{"sysFlag", atSysFlag, 4, r.SysFlag, fmt.Sprintf("0x%03x, %s", uint32(r.SysFlag), strings.Join(FlagNames(r.SysFlag), " "))},
		{"bornTimestamp", atBornTimestamp, 8, r.BornTimestampMs, TimeText(r.BornTimestampMs)},
		{"bornHost", atBornHost, b, DecodeHost(r.BornHost).String(), ""},
		{"storeTimestamp", 48 + b, 8, r.StoreTimestampMs, TimeText(r.StoreTimestampMs)},
		{"storeHost", 56 + b, s, DecodeHost(r.StoreHost).String(), ""},
		{"reconsumeTimes", 56 + b + s, 4, r.ReconsumeTimes, ""},
		{"preparedTransactionOffset", 60 + b + s, 8, r.PreparedTransactionOffset, ""},
		{"bodyLen", 68 + b + s, 4, body, ""},
		{"body", 72 + b + s, body, body, "bytes"},
		{"topicLen", names, topicLen, topic, ""},
		{"topic", names + topicLen, topic, string(r.Topic), ""},
		{"propertiesLen", names + topicLen + topic, 2, props, ""},
		{"properties", names + topicLen + topic + 2, props, props, "bytes"},
	}
}

func (r *Record) bodyCRCText() string {
	switch got := checksum(r.Body); {
	case len(r.Body) == 0:
		return "no body"
	case got != r.BodyCRC:
		return fmt.Sprintf("wrong: the body has %d", got)
	}
	return "right"
}

// FlagNames spells out the bits of a sysFlag, the transaction state always, and bits without a meaning as numbers.
func FlagNames(sysFlag int32) []string {
	var names []string
	if sysFlag&FlagCompressed != 0 {
		algorithm := "unknown algorithm " + strconv.Itoa(int(sysFlag&FlagCompressionMask)>>flagCompressionShift)
		if c, ok := CompressionOf(sysFlag); ok {
			algorithm = [...]string{"zlib (old producer)", "LZ4", "ZSTD", "zlib"}[c]
		}
		names = append(names, "COMPRESSED:"+algorithm)
	} else if bits := sysFlag & FlagCompressionMask; bits != 0 {
		names = append(names, fmt.Sprintf("compression bits 0x%03x without COMPRESSED", bits))
	}
	known := FlagCompressed | FlagCompressionMask | FlagTransactionMask
	for _, f := range []struct {
		bit  int32
		name string
	}{
		{FlagMultiTags, "MULTI_TAGS"},
		{FlagBornHostV6, "BORNHOST_V6"},
		{FlagStoreHostV6, "STOREHOST_V6"},
		{FlagNeedUnwrap, "NEED_UNWRAP"},
		{FlagInnerBatch, "INNER_BATCH"},
	} {
		known |= f.bit
		if sysFlag&f.bit != 0 {
			names = append(names, f.name)
		}
	}
	names = append(names, [...]string{"TRANSACTION_NOT", "TRANSACTION_PREPARED", "TRANSACTION_COMMIT", "TRANSACTION_ROLLBACK"}[sysFlag&FlagTransactionMask>>2])
	if rest := sysFlag &^ known; rest != 0 {
		names = append(names, fmt.Sprintf("0x%x (no meaning)", uint32(rest)))
	}
	return names
}

// TimeText writes a time in ms since the epoch in UTC, "none" for 0 and less.
func TimeText(ms int64) string {
	if ms <= 0 {
		return "none"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
