package message

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strconv"
)

// Host is the address of a producer or a store.
//
// Addr is kept exactly as the record has it. Upstream never writes an IPv4 address in its 16-byte (mapped) form, and neither
// should we: make a Host for an encoder with HostOf.
type Host struct {
	Addr netip.Addr
	Port int32 // the record has 32 bits for it
}

// HostOf returns the Host of a socket address. A mapped IPv4 address, as a dual-stack listener reports it, becomes a plain
// one; a zone is dropped, since the record has no room for it.
func HostOf(a netip.AddrPort) Host {
	return Host{Addr: a.Addr().Unmap().WithZone(""), Port: int32(a.Port())}
}

// DecodeHost decodes a host field of a record: 4 or 16 bytes of address, then the port. A b of any other length than 8 or 20
// gives the zero Host.
func DecodeHost(b []byte) Host {
	switch len(b) {
	case hostV4Size:
		return Host{netip.AddrFrom4([4]byte(b)), int32(binary.BigEndian.Uint32(b[4:]))}
	case hostV6Size:
		return Host{netip.AddrFrom16([16]byte(b)), int32(binary.BigEndian.Uint32(b[16:]))}
	}
	return Host{}
}

// size returns the bytes the host takes in a record.
func (h Host) size() int {
	if h.Addr.Is4() {
		return hostV4Size
	}
	return hostV6Size
}

// put writes the host field of a record to the start of dst and returns its size.
func (h Host) put(dst []byte) int {
	if h.Addr.Is4() {
		a := h.Addr.As4()
		_ = dst[hostV4Size-1]
		copy(dst, a[:])
		binary.BigEndian.PutUint32(dst[4:], uint32(h.Port))
		return hostV4Size
	}
	a := h.Addr.As16()
	_ = dst[hostV6Size-1]
	copy(dst, a[:])
	binary.BigEndian.PutUint32(dst[16:], uint32(h.Port))
	return hostV6Size
}

// AddrString returns the address alone as Java prints it: dotted for IPv4 (a mapped address included); for IPv6 eight groups
// of hexadecimal digits without leading zeros and without "::", such as fd00:0:0:0:0:0:0:15. Empty for the zero Host.
//
// Source: java.net.InetAddress.getHostAddress; MessageExt.getBornHostString, 5.5.0.
func (h Host) AddrString() string {
	return string(h.appendAddr(make([]byte, 0, 40)))
}

func (h Host) appendAddr(dst []byte) []byte {
	a := h.Addr.Unmap()
	if !a.IsValid() {
		return dst
	}
	if a.Is4() {
		return a.AppendTo(dst)
	}
	b := a.As16()
	for i := 0; i < len(b); i += 2 {
		if i > 0 {
			dst = append(dst, ':')
		}
		dst = strconv.AppendUint(dst, uint64(binary.BigEndian.Uint16(b[i:])), 16)
	}
	return dst
}

// String returns the socket address as Java prints one without a name: /127.0.0.1:10911 or /[fd00:0:0:0:0:0:1:1]:10911.
//
// Source: java.net.InetSocketAddress.toString.
func (h Host) String() string {
	dst := append(make([]byte, 0, 56), '/')
	v6 := h.Addr.Unmap().Is6()
	if v6 {
		dst = append(dst, '[')
	}
	dst = h.appendAddr(dst)
	if v6 {
		dst = append(dst, ']')
	}
	dst = append(dst, ':')
	return string(strconv.AppendInt(dst, int64(h.Port), 10))
}

const upperHex = "0123456789ABCDEF"

// OffsetMsgID returns the id that says where a message is: the bytes of the store host followed by the physical offset, as
// upper-case hexadecimal digits, 32 for an IPv4 store and 56 for an IPv6 one.
//
// Source: MessageDecoder.createMessageId, 5.5.0.
func OffsetMsgID(storeHost []byte, phyOffset int64) string {
	var raw [hostV6Size + 8]byte
	var text [2 * len(raw)]byte
	id := binary.BigEndian.AppendUint64(append(raw[:0], storeHost...), uint64(phyOffset))
	dst := text[:0]
	for _, c := range id {
		dst = append(dst, upperHex[c>>4], upperHex[c&15])
	}
	return string(dst)
}

// ParseOffsetMsgID takes an id of OffsetMsgID apart; digits of either case are accepted. False when s is none.
func ParseOffsetMsgID(s string) (storeHost Host, phyOffset int64, ok bool) {
	if len(s) != 2*(hostV4Size+8) && len(s) != 2*(hostV6Size+8) {
		return Host{}, 0, false
	}
	raw, err := hex.DecodeString(s)
	if err != nil {
		return Host{}, 0, false
	}
	split := len(raw) - 8
	return DecodeHost(raw[:split]), int64(binary.BigEndian.Uint64(raw[split:])), true
}
