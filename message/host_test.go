package message

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHostText(t *testing.T) {
	for _, c := range []struct{ in, addr, text string }{
		{"10.0.6.7:1", "10.0.6.7", "/10.0.6.7:1"},
		{"127.0.0.1:10911", "127.0.0.1", "/127.0.0.1:10911"},
		{"255.255.255.255:65535", "255.255.255.255", "/255.255.255.255:65535"},
		{"[fd00::15]:80", "fd00:0:0:0:0:0:0:15", "/[fd00:0:0:0:0:0:0:15]:80"},
		{"[fd00::1:1]:10911", "fd00:0:0:0:0:0:1:1", "/[fd00:0:0:0:0:0:1:1]:10911"},
		{"[2001:db8:0:10:abcd:ef01:2:ffff]:0", "2001:db8:0:10:abcd:ef01:2:ffff", "/[2001:db8:0:10:abcd:ef01:2:ffff]:0"},
		{"[::]:1", "0:0:0:0:0:0:0:0", "/[0:0:0:0:0:0:0:0]:1"},
		{"[::ffff:10.0.6.7]:1", "10.0.6.7", "/10.0.6.7:1"},
		{"[fe80::1%eth0]:1", "fe80:0:0:0:0:0:0:1", "/[fe80:0:0:0:0:0:0:1]:1"},
	} {
		h := HostOf(netip.MustParseAddrPort(c.in))
		require.Equal(t, c.addr, h.AddrString(), c.in)
		require.Equal(t, c.text, h.String(), c.in)
		require.Equal(t, h, DecodeHost(hostBytes(h)), c.in)
		require.Len(t, hostBytes(h), h.size(), c.in)
	}
	require.Empty(t, Host{}.AddrString())
}

// hostBytes is the host field of a record, as long as put says.
func hostBytes(h Host) []byte {
	dst := make([]byte, 64)
	return dst[:h.put(dst)]
}

// A record keeps the address bytes it has, also those of a mapped address that nobody should have written.
func TestHostMappedIsKept(t *testing.T) {
	raw := append(make([]byte, 10), 0xFF, 0xFF, 10, 0, 6, 7, 0x7F, 0xFF, 0xFF, 0xFF)
	h := DecodeHost(raw)
	require.Equal(t, raw, hostBytes(h))
	require.Equal(t, "/10.0.6.7:2147483647", h.String())
	require.Equal(t, "10.0.6.7", h.AddrString())
}

func TestDecodeHostOfOtherLength(t *testing.T) {
	for n := range 24 {
		h := DecodeHost(make([]byte, n))
		require.Equal(t, n == 8 || n == 20, h.Addr.IsValid(), n)
	}
}

func TestOffsetMsgID(t *testing.T) {
	v4, v6 := hostOf("10.9.8.7:10911"), hostOf("[fd00::1:1]:10911")
	for _, c := range []struct {
		host Host
		phy  int64
		id   string
	}{
		{v4, 129, "0A09080700002A9F0000000000000081"},
		{v6, 12293, "FD00000000000000000000000001000100002A9F0000000000003005"},
		{v4, -1, "0A09080700002A9FFFFFFFFFFFFFFFFF"},
	} {
		require.Equal(t, c.id, OffsetMsgID(hostBytes(c.host), c.phy))
		host, phy, ok := ParseOffsetMsgID(c.id)
		require.True(t, ok)
		require.Equal(t, c.host, host)
		require.Equal(t, c.phy, phy)
	}
	for _, bad := range []string{"", "0A", "0A09080700002A9F000000000000008", "0A09080700002A9F00000000000000811", "0A09080700002A9F000000000000008G"} {
		_, _, ok := ParseOffsetMsgID(bad)
		require.False(t, ok, bad)
	}
}
