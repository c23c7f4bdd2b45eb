package rocks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/index"
)

// Rows of the family "default" of rocksdbstore. Numbers are big-endian, hour is the message's store time (ms) cut to the hour.
//
//	row       key                                               value
//	key       hour i64, "@topic@K@key@uniqKey@", phyOffset i64  store time (ms) i64
//	tags      hour i64, "@topic@T@tags@uniqKey@", phyOffset i64 store time (ms) i64
//	unique    hour i64, "@topic@U@uniqKey@", phyOffset i64      store time (ms) i64
//	progress  "lastOffsetPy"                                    phyOffset i64 of the last message
//	progress  "lastStoreTimeStamp"                              store time (ms) i64 of the last message
//	ours      "tandemmqIndexedTo"                               phyOffset i64 up to which there is no gap
//
// TestRows pins them. A message without a unique key, and one whose unique key is longer than maxUniqBytes, has its phyOffset in 16 hexadecimal digits in place of it; the former has no
// row "unique".
//
// Source: IndexRocksDBRecord, 5.5.0, which has no rows for a message without a unique key.
const (
	hourMs     = 3_600_000
	separator  = '@'
	hourBytes  = 8
	phyBytes   = 8
	valueBytes = 8
)

// maxUniqBytes bounds the unique key in the rows of other keys: a message may have thousands of those, and each row would have all of it.
const maxUniqBytes = 255

var (
	lastOffsetRow = []byte("lastOffsetPy")
	lastTimeRow   = []byte("lastStoreTimeStamp")
	indexedToRow  = []byte("tandemmqIndexedTo")
)

// hourOf cuts a time in ms, at least 0, to the hour.
func hourOf(ms int64) int64 { return ms - ms%hourMs }

// appendPrefix appends what the rows of a key begin with.
func appendPrefix[B []byte | string](dst []byte, hour int64, topic B, t index.Type, key B) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(hour))
	dst = append(append(append(dst, separator), topic...), separator, byte(t), separator)
	return append(append(dst, key...), separator)
}

// after turns what a run of rows begins with, which ends in a separator, into the least key behind them.
func after(prefix []byte) []byte {
	p := bytes.Clone(prefix)
	p[len(p)-1]++
	return p
}

// hourIn returns the hour of a row's key; one that is too short counts as filled up with zeros.
func hourIn(key []byte) int64 {
	var b [hourBytes]byte
	copy(b[:], key)
	return int64(binary.BigEndian.Uint64(b[:]))
}

// isProgress tells whether a row is none of a message.
func isProgress(key []byte) bool {
	return bytes.Equal(key, lastOffsetRow) || bytes.Equal(key, lastTimeRow) || bytes.Equal(key, indexedToRow)
}

// number decodes a value of 8 bytes.
func number(value []byte) (int64, bool) {
	if len(value) != valueBytes {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(value)), true
}

// Row is a row of a message, taken apart.
type Row struct {
	Hour  int64
	Topic string
	Type  index.Type
	// Text is what stands between type and phyOffset without the separator at its end: key and unique key, with a separator between them that may not be the only one.
	Text      string
	PhyOffset int64
	StoreMs   int64
	Key       []byte // all of it
}

var errRow = errors.New("is no row of an index")

// decodeRow takes a row apart. An error says what is wrong with it.
func decodeRow(key, value []byte) (r Row, err error) {
	bad := func(why string) (Row, error) { return Row{Key: key}, fmt.Errorf("row %q %w: %s", key, errRow, why) }
	if len(key) < hourBytes+phyBytes+len("@@X@@") || key[hourBytes] != separator {
		return bad("its key is too short, or has no topic")
	}
	r.Hour, r.Key = hourIn(key), key
	text := key[hourBytes+1 : len(key)-phyBytes]
	n := bytes.IndexByte(text, separator)
	if n < 1 || len(text) < n+4 || text[n+2] != separator || text[len(text)-1] != separator {
		return bad("its key does not have topic, type and key with '@' between them")
	}
	r.Topic, r.Type, r.Text = string(text[:n]), index.Type(text[n+1]), string(text[n+3:len(text)-1])
	r.PhyOffset = int64(binary.BigEndian.Uint64(key[len(key)-phyBytes:]))
	var ok bool
	if r.StoreMs, ok = number(value); !ok {
		return bad(fmt.Sprintf("its value has %d bytes, want %d", len(value), valueBytes))
	}
	switch {
	case r.Type != index.TypeKey && r.Type != index.TypeTag && r.Type != index.TypeUniqKey:
		return bad("its type is none of K, T and U")
	case r.PhyOffset < 0:
		return bad("its phyOffset is negative")
	case r.StoreMs < 0 || hourOf(r.StoreMs) != r.Hour:
		return bad(fmt.Sprintf("its store time %d is not in the hour %d", r.StoreMs, r.Hour))
	}
	return r, nil
}
