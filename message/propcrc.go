package message

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// PropertyCRCSize is the length in bytes of the checksum property, separators included.
const PropertyCRCSize = len(emptyPropertyCRC)

// emptyPropertyCRC is the checksum property before PutPropertyCRC fills in its digits.
const emptyPropertyCRC = PropertyCRC + "\x01" + "0000000000" + "\x02"

const propertyCRCDigits = 10

// PutPropertyCRC computes the checksum property of a finished record, which is exactly rec, into its last 20 bytes. The encoder
// calls it; who patches a field of an encoded record afterwards has to call it again.
//
//	end-20  8   "__CRC32#"
//	end-12  1   0x01
//	end-11  10  decimal digits of the CRC-32 (IEEE, top bit cleared) of all bytes before end-20, the lowest digit first, zeros
//	            behind the highest
//	end-1   1   0x02
//
// It panics when rec is shorter than 20 bytes.
//
// Source: MessageDecoder.createCrc32, CommitLog.DefaultAppendMessageCallback.doAppend, 5.5.0.
func PutPropertyCRC(rec []byte) { putPropertyCRC(rec, binary.BigEndian.Uint64(rec)) }

// putPropertyCRC is PutPropertyCRC of a record whose first 8 bytes are going to be head.
func putPropertyCRC(rec []byte, head uint64) {
	sum := ^uint32(0)
	for shift := 56; shift >= 0; shift -= 8 { // by hand: a slice of them would be allocated
		sum = crc32.IEEETable[byte(sum)^byte(head>>shift)] ^ sum>>8
	}
	split := len(rec) - PropertyCRCSize
	crc := int32(crc32.Update(^sum, crc32.IEEETable, rec[8:split]) & bodyCRCMask)
	tail := rec[split:]
	copy(tail, emptyPropertyCRC)
	digits := tail[len(PropertyCRC)+1:][:propertyCRCDigits]
	for i := range digits {
		digits[i] = byte('0' + crc%10)
		crc /= 10
	}
}

// VerifyPropertyCRC checks the checksum property of a decoded record. A record without the property, or with it elsewhere than
// at its end, fails like one with a wrong checksum: a *DecodeError of class ErrCorrupt. So call it only on logs that a broker
// wrote with the option that adds it.
//
// Source: CommitLog.checkMessageAndReturnSize with forceVerifyPropCRC, 5.5.0.
func (r *Record) VerifyPropertyCRC() error {
	split := len(r.Raw) - PropertyCRCSize
	if len(r.Properties) < PropertyCRCSize {
		return &DecodeError{ErrCorrupt, "propertiesLen", len(r.Raw) - len(r.Properties) - 2, int64(len(r.Properties)), int64(PropertyCRCSize)}
	}
	want := int64(checksum(r.Raw[:split]))
	got := parsePropertyCRC(r.Raw[split:])
	if got != want {
		return &DecodeError{ErrCorrupt, "propertyCRC", split, got, want}
	}
	return nil
}

// parsePropertyCRC returns the value of the checksum property, which is all of p; -1 when p is something else.
func parsePropertyCRC(p []byte) (crc int64) {
	if !isCRCElement(p) || p[PropertyCRCSize-1] != propertySeparator {
		return -1
	}
	digits := p[len(PropertyCRC)+1 : PropertyCRCSize-1]
	for i := len(digits) - 1; i >= 0; i-- {
		d := digits[i] - '0'
		if d > 9 {
			return -1
		}
		crc = crc*10 + int64(d)
	}
	return crc
}

// sizeWithoutCRC returns the number of bytes AppendPropertiesWithout appends when it drops the checksum property.
func sizeWithoutCRC(properties []byte) int {
	n := len(properties)
	if n > 0 && properties[n-1] != propertySeparator {
		n++
	}
	if bytes.Contains(properties, crcStart) {
		for p := properties; len(p) > 0; {
			var e []byte
			if e, p = cutElement(p); isCRCElement(e) {
				n -= len(e) + 1
			}
		}
	}
	return n
}

var crcStart = []byte(PropertyCRC + "\x01")

func isCRCElement(e []byte) bool { return bytes.HasPrefix(e, crcStart) }
