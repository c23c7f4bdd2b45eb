package message

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPropertyCRCDigits(t *testing.T) {
	raw := unhex(t, goldenA2)
	require.EqualValues(t, 1683582986, checksum(raw[:118]))
	wiped := append([]byte(nil), raw...)
	clear(wiped[118:])
	PutPropertyCRC(wiped)
	require.Equal(t, raw, wiped)
	require.Equal(t, "__CRC32#\x016892853861\x02", string(wiped[118:]))
}

// W21: the encoder ends the properties with a separator, drops a checksum that came with them, and adds its own.
func TestW21EncodePropertyCRC(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"none", "", ""},
		{"ended", "a\x01b\x02", "a\x01b\x02"},
		{"not ended", "a\x01b", "a\x01b\x02"},
		{"stale checksum", "a\x01b\x02__CRC32#\x011234567890\x02", "a\x01b\x02"},
		{"stale checksum first, not ended", "__CRC32#\x01x\x02a\x01b", "a\x01b\x02"},
		{"checksum alone", "__CRC32#\x01x\x02", ""},
		{"name that begins alike", "__CRC32#2\x01x\x02", "__CRC32#2\x01x\x02"},
		{"odd elements stay", "\x02\x02a\x02", "\x02\x02a\x02"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := goldenMessage()
			m.Topic, m.Body, m.Properties, m.PropertyCRC = "T", []byte("b"), []byte(c.in), true
			raw, err := m.AppendTo([]byte("before"))
			require.NoError(t, err)
			raw = raw[6:]
			var r Record
			require.NoError(t, r.Decode(raw, true))
			require.NoError(t, r.VerifyPropertyCRC())
			require.Equal(t, c.want, string(r.Properties[:len(r.Properties)-PropertyCRCSize]))
			again := r.Message()
			same, err := again.AppendTo(nil)
			require.NoError(t, err)
			require.Equal(t, raw, same, "checksum kept as it is")
			again.PropertyCRC = true
			same, err = again.AppendTo(nil)
			require.NoError(t, err)
			require.Equal(t, raw, same, "checksum made anew")
		})
	}
}

func TestVerifyPropertyCRCRejects(t *testing.T) {
	raw := unhex(t, goldenA2)
	verify := func(raw []byte) error {
		var r Record
		require.NoError(t, r.Decode(append(raw, "behind"...), false))
		return r.VerifyPropertyCRC()
	}
	require.NoError(t, verify(raw))
	// Every byte but the framing, which Decode has judged before, and the bits of sysFlag that are framing too.
	for i := 8; i < len(raw); i++ {
		framing := i == atSysFlag+3 || i >= bodyLenIPv4 && i < bodyIPv4 || i == bodyIPv4+11 || i >= 106 && i < 108
		for bit := range 8 {
			if !framing {
				require.ErrorIs(t, verify(patched(raw, i, raw[i]^1<<bit)), ErrCorrupt, "byte %d bit %d", i, bit)
			}
		}
	}
	require.ErrorIs(t, verify(unhex(t, goldenA1)), ErrCorrupt, "other property at the end")
	require.ErrorIs(t, verify(unhex(t, goldenA3)), ErrCorrupt, "no properties")
	require.ErrorIs(t, verify(patched(raw, 127, []byte("9999999999")...)), ErrCorrupt, "beyond 31 bits")
	// Digits are compared by value: the same value must not pass in another spelling.
	require.EqualValues(t, -1, parsePropertyCRC([]byte("__CRC32#\x01689285386 \x02")))
}
