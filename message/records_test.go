package message

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// storedRecord is a line of testdata/records.jsonl: bytes that RocketMQ 5.5.0 stored, and what its getMessage returned for
// them. testdata/make.go made the file.
type storedRecord struct {
	Raw  string
	Want struct {
		Topic                     string
		QueueID                   int32 `json:"queueId"`
		QueueOffset               int64
		CommitLogOffset           int64
		Size                      int32
		StoreTimestamp            int64
		TagsCode                  int64
		MsgID                     string `json:"msgId"`
		CRC32                     uint32 `json:"crc32"`
		Keys, Tags, UniqKey       *string
		BodyLen                   int
		SysFlag, Flag             int32
		BornTimestamp             int64
		BornHost, StoreHost       string
		ReconsumeTimes            int32
		PreparedTransactionOffset int64
		MagicV2                   bool
		RawCRC32                  uint32 `json:"rawCrc32"`
		MsgTopic                  *string
		MsgQueueID                int32 `json:"msgQueueId"`
		MsgQueueOffset            int64
	}
}

func storedRecords(t testing.TB) (all []storedRecord) {
	t.Helper()
	f, err := os.Open("testdata/records.jsonl")
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var s storedRecord
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		require.NoError(t, d.Decode(&s))
		all = append(all, s)
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, all)
	return all
}

func TestStoredRecords(t *testing.T) {
	text := func(b []byte, ok bool) *string {
		if !ok {
			return nil
		}
		s := string(b)
		return &s
	}
	combinations := map[int32]bool{}
	lights := 0
	for _, s := range storedRecords(t) {
		raw, err := hex.DecodeString(s.Raw)
		require.NoError(t, err)
		var r Record
		require.NoError(t, r.Decode(raw, true))
		w := s.Want
		d := r.DispatchRequest(nil)
		if w.MsgTopic != nil { // read through a light queue
			lights++
			hits := 0
			r.MultiDispatch(func(queue []byte, id int32, offset int64, ok bool) bool {
				require.True(t, ok)
				if string(queue) == w.Topic {
					require.Equal(t, w.QueueID, id)
					require.Equal(t, w.QueueOffset, offset)
					hits++
				}
				return true
			})
			require.Equal(t, 1, hits)
			w.Topic, w.QueueID, w.QueueOffset = *w.MsgTopic, w.MsgQueueID, w.MsgQueueOffset
		}
		combinations[r.SysFlag&(FlagBornHostV6|FlagStoreHostV6)] = true
		require.Equal(t, w.Topic, string(r.Topic))
		require.Equal(t, w.QueueID, r.QueueID)
		require.Equal(t, w.QueueOffset, r.QueueOffset)
		require.Equal(t, w.CommitLogOffset, r.PhyOffset)
		require.Equal(t, w.Size, r.TotalSize)
		require.Equal(t, w.StoreTimestamp, r.StoreTimestampMs)
		require.Equal(t, w.TagsCode, d.TagsCode)
		require.Equal(t, w.MsgID, OffsetMsgID(r.StoreHost, r.PhyOffset))
		require.Equal(t, w.CRC32, crc32.ChecksumIEEE(r.Body))
		require.Equal(t, w.Keys, text(r.Property(PropertyKeys)))
		require.Equal(t, w.Tags, text(r.Property(PropertyTags)))
		require.Equal(t, w.UniqKey, text(r.Property(PropertyUniqKey)))
		require.Len(t, r.Body, w.BodyLen)
		require.Equal(t, w.SysFlag, r.SysFlag)
		require.Equal(t, w.Flag, r.Flag)
		require.Equal(t, w.BornTimestamp, r.BornTimestampMs)
		require.Equal(t, w.BornHost, DecodeHost(r.BornHost).AddrString())
		require.Equal(t, w.StoreHost, DecodeHost(r.StoreHost).String())
		require.Equal(t, w.ReconsumeTimes, r.ReconsumeTimes)
		require.Equal(t, w.PreparedTransactionOffset, r.PreparedTransactionOffset)
		require.Equal(t, w.MagicV2, r.Magic == MagicV2)
		require.Equal(t, w.RawCRC32, crc32.ChecksumIEEE(r.Raw))
		require.True(t, r.OwesUnit())
		require.Empty(t, d.BadProperty)
		m := r.Message()
		again, err := m.AppendTo(nil)
		require.NoError(t, err)
		require.Equal(t, raw, again)
	}
	require.Len(t, combinations, 4, "combinations of host kinds in the test data")
	require.NotZero(t, lights, "light queues in the test data")
}
