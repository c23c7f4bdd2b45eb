package commitlog

import (
	"bytes"
	"fmt"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
)

// A record has a checksum of its body alone. When power is lost while its last page is on the way to the disk, what is left of that page
// is zeros, and where the page begins within the properties, the record decodes all the same: with properties that
// nobody put.
//
//	| header ... body | topic | properties ... 0 0 0 0 0 0 0 | 0 0 0 0 ...
//	                                page ---^    record ends ^
//
// What tells it from properties that are meant to end in zeros: no record follows, and the zeros begin with a page, so that a record behind would begin in the same page; or
// properties cannot end so. RocketMQ writes each as name, 0x01, value, 0x02; a client's batch may lack the last 0x02, and a value of its own may end in zeros. What can not is an element
// without a name and its 0x01, and one whose name has values of digits and letters alone, the checksum among them. Cut within the value of a property of
// somebody's own, and not at the beginning of a page, a record cannot be told from one that was put like that: it stays. Of a page in the middle of properties of more than 4 KiB nothing
// is said here.

// lostTail tells whether the record r, which begins at byte pos of a file, has lost its end, which is zeros now. One that ends with
// its file has not: writers leave room for a filler.
func lostTail(f *mappedfile.File, data []byte, pos int64, r *message.Record) bool {
	end := pos + int64(r.TotalSize)
	if len(r.Properties) == 0 || data[end-1] != 0 || end == f.Size() {
		return false
	}
	page := (end - 1) / pageBytes * pageBytes
	if !cutElement(r.Properties) && (page < end-int64(len(r.Properties)) || len(bytes.TrimRight(data[page:end], "\x00")) > 0) {
		return false
	}
	rest := data[end:]
	if size, blank := message.BlankSize(rest); blank && int64(size) == int64(len(rest)) {
		return false
	}
	var following message.Record
	return following.Decode(rest, false) != nil || following.PhyOffset != f.From()+end
}

// plainValues are names of properties whose values, which clients and brokers make, have no zeros.
var plainValues = map[string]bool{
	message.PropertyUniqKey: true, message.PropertyWait: true, message.PropertyDelay: true, message.PropertyCRC: true, message.PropertyInnerNum: true, message.PropertyInnerBase: true,
	message.PropertyMultiQueueOffset: true, message.PropertyCluster: true, "MSG_REGION": true, "TRACE_ON": true, message.PropertyRealQueueID: true, "TRAN_MSG": true, "CONSUME_START_TIME": true, "RECONSUME_TIME": true,
	"MAX_RECONSUME_TIMES": true,
}

// cutElement tells whether properties, which end in a zero, cannot have been put like that.
func cutElement(properties []byte) bool {
	last := properties[bytes.LastIndexByte(properties, 2)+1:]
	name, _, ok := bytes.Cut(last, []byte{1})
	return !ok || len(name) == 0 || plainValues[string(name)]
}

// lostTailGot says what is wrong with such a record.
func lostTailGot(pos int64, r *message.Record) string {
	end := pos + int64(r.TotalSize)
	return fmt.Sprintf("properties that end in %d zeros at byte %d of the file", len(r.Properties)-len(bytes.TrimRight(r.Properties, "\x00")), end)
}
