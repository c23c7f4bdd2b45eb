package rocks

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

func TestGoldenKeys(t *testing.T) {
	t1 := cq.Key{Topic: "T1", QueueID: 1}
	t0 := cq.Key{Topic: "T1", QueueID: 0}
	start, end := appendUnitRange(nil, nil, t1)
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"unit T1/1/2", appendUnitKey(nil, t1, 2), "00000002 01 5431 01 00000001 01 0000000000000002"},
		{"max T1/0", appendRowKey(nil, t0, tagMax), "00000002 01 5431 01 6d6178 01 00000000"},
		{"min T1/0", appendRowKey(nil, t0, tagMin), "00000002 01 5431 01 6d696e 01 00000000"},
		{"checkpoint", checkpointKey, "00000010 01 434845434b504f494e545f544f504943 01 6d6178 01 00000000"},
		{"delete from", start, "00000002 01 5431 01 00000001 00"},
		{"delete to", end, "00000002 01 5431 01 00000001 02"},
		{"light queue", appendRowKey(nil, cq.Key{Topic: "%LMQ%a"}, tagMax), "00000006 01 254c4d512561 01 6d6178 01 00000000"},
		{"topic of three-byte letters", appendUnitPrefix(nil, cq.Key{Topic: "中", QueueID: 7}), "00000003 01 e4b8ad 01 00000007 01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, strings.ReplaceAll(c.want, " ", ""), hex.EncodeToString(c.got))
		})
	}
}

func TestGoldenValues(t *testing.T) {
	u := cq.Unit{PhyOffset: 0x0102030405060708, Size: 0x1112, TagsCode: -2, StoreTimestampMs: 0x18b2c3d4e5f}
	require.Equal(t, "0102030405060708"+"00001112"+"fffffffffffffffe"+"0000018b2c3d4e5f", hex.EncodeToString(appendUnit(nil, u)))
	require.Len(t, appendUnit(nil, u), unitBytes)
	require.Equal(t, "00000000000003e8"+"0000000000000007", hex.EncodeToString(appendRow(nil, 1000, 7)))
	require.Len(t, appendRow(nil, 0, 0), rowBytes)
}

func TestKeyLengths(t *testing.T) {
	for _, n := range []int{1, 7, MaxTopicBytes} {
		k := cq.Key{Topic: strings.Repeat("x", n)}
		require.Len(t, appendUnitKey(nil, k, 0), unitKeyBytes+n)
		require.Len(t, appendRowKey(nil, k, tagMin), rowKeyBytes+n)
	}
	require.Equal(t, 300, unitKeyBytes+MaxTopicBytes)
	require.Len(t, checkpointKey, 30)
}

func TestDecodeRows(t *testing.T) {
	row := appendRowKey(nil, cq.Key{Topic: "T1", QueueID: 3}, tagMax)
	for _, c := range []struct {
		name  string
		key   []byte
		ok    bool
		isMax bool
	}{
		{"max", row, true, true},
		{"min", appendRowKey(nil, cq.Key{Topic: "T1", QueueID: 3}, tagMin), true, false},
		{"other tag counts as min", appendRowKey(nil, cq.Key{Topic: "T1", QueueID: 3}, [3]byte{'M', 'A', 'X'}), true, false},
		{"14 bytes", appendRowKey(nil, cq.Key{}, tagMax), false, false},
		{"empty", nil, false, false},
		{"length disagrees", row[:len(row)-1], false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			topic, queueID, isMax, ok := decodeRowKey(c.key)
			require.Equal(t, c.ok, ok)
			if ok {
				require.Equal(t, "T1", string(topic))
				require.EqualValues(t, 3, queueID)
				require.Equal(t, c.isMax, isMax)
			}
		})
	}
	phy, slot, ok := decodeRow(appendRow(nil, 5, 6))
	require.True(t, ok)
	require.EqualValues(t, 5, phy)
	require.EqualValues(t, 6, slot)
	for _, n := range []int{0, 8, 15, 17} {
		_, _, ok := decodeRow(make([]byte, n))
		require.False(t, ok, "a row of %d bytes is skipped", n)
	}
}
