package message

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlagNames(t *testing.T) {
	for flag, want := range map[int32][]string{
		0:            {"TRANSACTION_NOT"},
		0x001:        {"COMPRESSED:zlib (old producer)", "TRANSACTION_NOT"},
		0x105 | 0x30: {"COMPRESSED:LZ4", "BORNHOST_V6", "STOREHOST_V6", "TRANSACTION_PREPARED"},
		0x20A:        {"compression bits 0x200 without COMPRESSED", "MULTI_TAGS", "TRANSACTION_COMMIT"},
		0x20B:        {"COMPRESSED:ZSTD", "MULTI_TAGS", "TRANSACTION_COMMIT"},
		0x3CD:        {"COMPRESSED:zlib", "NEED_UNWRAP", "INNER_BATCH", "TRANSACTION_ROLLBACK"},
		0x701:        {"COMPRESSED:unknown algorithm 7", "TRANSACTION_NOT"},
		-0x80000000:  {"TRANSACTION_NOT", "0x80000000 (no meaning)"},
	} {
		require.Equal(t, want, FlagNames(flag), "0x%x", flag)
	}
}

// The fields follow one another without a gap from the first byte to the last, and integers are what stands at their place.
func TestFieldsCoverTheRecord(t *testing.T) {
	for magic, topic := range map[int32]string{MagicV1: "topic", MagicV2: strings.Repeat("t", 200)} {
		for _, host := range []string{"10.1.2.3", "fd00::15"} {
			m := Message{
				Topic: topic, QueueID: 3, Flag: 4, QueueOffset: 5, PhyOffset: 6, SysFlag: TransactionCommit, BornTimestampMs: 7, StoreTimestampMs: 8,
				BornHost: Host{netip.MustParseAddr(host), 1234}, StoreHost: Host{netip.MustParseAddr("10.1.2.4"), 10911}, ReconsumeTimes: 9,
				PreparedTransactionOffset: 10, Body: []byte("body"), Properties: AppendProperty(nil, "TAGS", "a"),
			}
			b, err := m.AppendTo(nil)
			require.NoError(t, err)
			var r Record
			require.NoError(t, r.Decode(b, true))
			require.Equal(t, magic, r.Magic)
			at := int64(0)
			for _, f := range r.Fields() {
				require.Equal(t, at, f.Offset, f.Name)
				raw := b[at : at+f.Width]
				at += f.Width
				switch v := f.Value.(type) {
				case int32:
					require.Equal(t, v, int32(binary.BigEndian.Uint32(raw)), f.Name)
				case int64:
					if f.Width == 8 {
						require.Equal(t, v, int64(binary.BigEndian.Uint64(raw)), f.Name)
					}
				case string:
					if f.Name == "topic" {
						require.Equal(t, v, string(raw))
					}
				}
			}
			require.EqualValues(t, r.TotalSize, at)
			require.Equal(t, "right", r.Fields()[2].Text)
			r.BodyCRC++
			require.Contains(t, r.Fields()[2].Text, "wrong")
		}
	}
}
