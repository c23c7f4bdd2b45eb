package message

import (
	"bytes"
	"math/bits"
)

// cutElement returns the first element of a property string without its separator, and what stands behind that.
func cutElement(properties []byte) (e, rest []byte) {
	if i := bytes.IndexByte(properties, propertySeparator); i >= 0 {
		return properties[:i], properties[i+1:]
	}
	return properties, nil
}

// AppendPropertiesWithout appends a property string without the elements named by the members of drop. The others keep their
// bytes and order, malformed ones included, and a separator ends the last of them, so that AppendProperty may follow. dst
// must not overlap properties. It does not allocate when dst has room for one byte more than properties has.
func AppendPropertiesWithout(dst, properties []byte, drop PropertySet) []byte {
	for len(properties) > 0 {
		var e []byte
		e, properties = cutElement(properties)
		if i := bytes.IndexByte(e, nameSeparator); i >= 0 && memberOf(e[:i])&drop != 0 {
			continue
		}
		dst = append(dst, e...)
		dst = append(dst, propertySeparator)
	}
	return dst
}

// AppendPropertiesWith appends a property string in which one reserved name has the given value: elements of that name are
// dropped and the new one is put last. So a producer's own INNER_MULTI_QUEUE_OFFSET or INNER_BASE does not survive (W23).
// set is the single member of the name; it panics for another. dst must not overlap properties. It does not allocate when
// dst has room for properties, a separator, and the new element.
func AppendPropertiesWith(dst, properties []byte, set PropertySet, value []byte) []byte {
	dst = AppendPropertiesWithout(dst, properties, set)
	dst = append(dst, set.name()...)
	dst = append(dst, nameSeparator)
	dst = append(dst, value...)
	return append(dst, propertySeparator)
}

// memberNames holds the name of each member, by its bit.
var memberNames = [...]string{
	PropertyMultiDispatch, PropertyMultiQueueOffset, PropertyInnerNum, PropertyInnerBase,
	PropertyDelay, PropertyWait, PropertyCRC, PropertyUniqKey,
}

// name returns the name of a set with a single member.
func (s PropertySet) name() string {
	bit := bits.TrailingZeros16(uint16(s))
	if bit >= len(memberNames) || s != 1<<bit {
		panic("message: property set has not exactly one member")
	}
	return memberNames[bit]
}

// AppendPropertiesExcept appends a property string without the elements whose name drop accepts, otherwise as AppendPropertiesWithout does.
func AppendPropertiesExcept(dst, properties []byte, drop func(name []byte) bool) []byte {
	for len(properties) > 0 {
		var e []byte
		e, properties = cutElement(properties)
		if i := bytes.IndexByte(e, nameSeparator); i >= 0 && drop(e[:i]) {
			continue
		}
		dst = append(dst, e...)
		dst = append(dst, propertySeparator)
	}
	return dst
}
