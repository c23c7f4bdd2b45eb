package rocks

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/message"
)

const startMs = int64(1795986629941)

func request(phy, storeMs int64, uniq, keys, tags string) message.DispatchRequest {
	return message.DispatchRequest{
		Topic: []byte("T1"), PhyOffset: phy, Size: 100, StoreTimestampMs: storeMs, UniqKey: []byte(uniq), Keys: []byte(keys), Tags: []byte(tags),
	}
}

// TestRows pins the rows of messages; the first is one that RocketMQ wrote.
func TestRows(t *testing.T) {
	const hour = "000001a2291b8880"
	row := func(text, phy string) string { return hour + hex.EncodeToString([]byte(text)) + phy }
	for _, c := range []struct {
		name string
		r    message.DispatchRequest
		want []string
	}{
		{"a word of KEYS and a unique key", request(0, startMs, "UNIQ895117199916", "k1", ""), []string{
			row("@T1@K@k1@UNIQ895117199916@", "0000000000000000"), row("@T1@U@UNIQ895117199916@", "0000000000000000"),
		}},
		{"tags, words that repeat, blanks", request(0x1234, startMs, "u", "a  b a", "tag x"), []string{
			row("@T1@K@a@u@", "0000000000001234"), row("@T1@K@b@u@", "0000000000001234"), row("@T1@T@tag x@u@", "0000000000001234"), row("@T1@U@u@", "0000000000001234"),
		}},
		{"no unique key", request(0x1234, startMs, "", "a", "t"), []string{
			row("@T1@K@a@0000000000001234@", "0000000000001234"), row("@T1@T@t@0000000000001234@", "0000000000001234"),
		}},
		{"a long unique key", request(0xAB, startMs, strings.Repeat("u", 256), "a", ""), []string{
			row("@T1@K@a@00000000000000AB@", "00000000000000ab"), row("@T1@U@"+strings.Repeat("u", 256)+"@", "00000000000000ab"),
		}},
		{"nothing", request(0, startMs, "", "  ", ""), nil},
		{"no store time", request(0, 0, "u", "a", "t"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, key := range Keys(nil, &c.r) {
				got = append(got, hex.EncodeToString(key))
				r, err := decodeRow(key, []byte{0, 0, 1, 0xa2, 0x29, 0x25, 0x25, 0x35})
				require.NoError(t, err)
				require.Equal(t, startMs, r.StoreMs)
				require.Equal(t, c.r.PhyOffset, r.PhyOffset)
				require.Equal(t, "T1", r.Topic)
			}
			require.Equal(t, c.want, got)
		})
	}
	r := request(0, startMs, "u", "a", "t")
	r.SysFlag = message.TransactionRollback
	require.Empty(t, Keys(nil, &r))
}

// TestWordsOfAMessageAreBounded: as many words as there is room for, beside a unique key as long as there is, do not multiply.
func TestWordsOfAMessageAreBounded(t *testing.T) {
	words := make([]string, 8000)
	for i := range words {
		words[i] = fmt.Sprintf("%x", i)
	}
	r := request(7, startMs, strings.Repeat("u", 10_000), strings.Join(words, " "), "")
	var b Batch
	b.Add(&r)
	require.Less(t, len(b.keys), 600_000)
	require.Len(t, Keys(nil, &r), 8001)
}

// FuzzRow takes any bytes apart. What passes is put together again to the same.
func FuzzRow(f *testing.F) {
	r := request(5, startMs, "u@v", "a@b c", "t")
	for _, key := range Keys(nil, &r) {
		f.Add(key, []byte{0, 0, 1, 0xa2, 0x29, 0x25, 0x25, 0x35})
	}
	f.Add([]byte("lastOffsetPy"), []byte{1})
	f.Add([]byte("\x00\x00\x01\xa2\x29\x1b\x88\x80@@K@@12345678"), []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		r, err := decodeRow(key, value)
		if err != nil {
			require.ErrorIs(t, err, errRow)
			return
		}
		again := appendPrefix(nil, r.Hour, r.Topic, r.Type, r.Text)
		require.Equal(t, key[:len(key)-phyBytes], again)
		require.Contains(t, []index.Type{index.TypeKey, index.TypeTag, index.TypeUniqKey}, r.Type)
	})
}
