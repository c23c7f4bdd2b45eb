package store

import (
	"encoding/binary"
	"strings"

	"github.com/tandemq/tandemmq/message"
)

// PutResult tells what became of a put. Its Append is filled in when Status.Stored is true; after any other status only
// Append.Status says something.
//
// Source: PutMessageResult, 5.5.0.
type PutResult struct {
	Status PutStatus
	Append AppendResult
}

// AppendResult tells where the message stands, the first of a batch.
//
// Source: AppendMessageResult, 5.5.0.
type AppendResult struct {
	Status           AppendStatus
	PhyOffset        int64 // of the first byte of the first record
	Bytes            int   // of all records
	StoreTimestampMs int64 // the same for all records of a batch
	QueueOffset      int64 // of the first message; 0 for a prepared or rolled back one
	Count            int   // messages: 1, or those of the batch

	storeHost message.Host
	sizes     []int32 // bytes of each record of a batch that became several
}

// MsgIDs returns the offset message ids of the records, separated by commas, and "" when nothing was stored. An inner batch
// is one record.
//
// Source: MessageDecoder.createMessageId, CommitLog.DefaultAppendMessageCallback.doAppend, 5.5.0.
func (r *PutResult) MsgIDs() string {
	a := &r.Append
	if a.Status != AppendOK {
		return ""
	}
	var room [16 + 4]byte
	host := room[:0]
	if addr := a.storeHost.Addr; addr.Is4() {
		v4 := addr.As4()
		host = append(host, v4[:]...)
	} else if addr.IsValid() {
		v6 := addr.As16()
		host = append(host, v6[:]...)
	}
	host = binary.BigEndian.AppendUint32(host, uint32(a.storeHost.Port))
	if len(a.sizes) == 0 {
		return message.OffsetMsgID(host, a.PhyOffset)
	}
	var ids strings.Builder
	phy := a.PhyOffset
	for i, size := range a.sizes {
		if i > 0 {
			ids.WriteByte(',')
		}
		ids.WriteString(message.OffsetMsgID(host, phy))
		phy += int64(size)
	}
	return ids.String()
}
