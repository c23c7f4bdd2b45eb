package store

import (
	"fmt"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
)

// GetStatus is what became of a Get.
//
// Source: GetMessageStatus, 5.5.0; its OFFSET_RESET is the broker's.
type GetStatus int

// The statuses.
const (
	GetNoQueue             GetStatus = iota // there is no such queue
	GetQueueEmpty                           // the queue never had a message
	GetOffsetTooSmall                       // the offset is below MinOffset
	GetOffsetOverflowOne                    // the offset is that of the next message to come
	GetOffsetOverflowBadly                  // the offset is above that
	GetOffsetFoundNull                      // the slots looked at have no unit
	GetNoMatchedMessage                     // the filter refused all that was looked at
	GetMessageWasRemoving                   // the records of all that was looked at are not in the log
	GetFound                                // there are messages
)

var getStatusNames = [...]string{
	"NO_MATCHED_LOGIC_QUEUE", "NO_MESSAGE_IN_QUEUE", "OFFSET_TOO_SMALL", "OFFSET_OVERFLOW_ONE", "OFFSET_OVERFLOW_BADLY",
	"OFFSET_FOUND_NULL", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "FOUND",
}

// String returns RocketMQ's name of the status.
func (s GetStatus) String() string {
	if s < 0 || int(s) >= len(getStatusNames) {
		return fmt.Sprintf("GetStatus(%d)", int(s))
	}
	return getStatusNames[s]
}

// Message is a message in the log.
type Message struct {
	// Record is the whole record; message.Record.Decode takes it apart. Touching it may fault when its file was cut short or the disk fails, see commitlog.GuardFault.
	Record []byte
	// QueueOffset is the message's slot in the queue that was read. For a light queue the record has others.
	QueueOffset int64
	PhyOffset   int64
}

// GetResult is the answer of Get. The zero value is ready to be used, by one goroutine at a time, any number of times: its memory is kept.
type GetResult struct {
	Status GetStatus
	// NextOffset is the queue offset to go on at.
	NextOffset int64
	// MinOffset and MaxOffset are the bounds of the queue; 0 and 0 without one.
	MinOffset, MaxOffset int64
	// Messages are in the order of the queue, until Release.
	Messages []Message
	// Bytes is the length of their records together.
	Bytes int
	// BehindBytes is how far the last message looked at lies behind the end of the log, and SuggestSlave tells that it is so far that it is
	// taken to be on disk alone.
	BehindBytes  int64
	SuggestSlave bool

	// ColdBytes is how many bytes of the records looked at are counted as cold data of the request's group.
	ColdBytes int

	held   commitlog.Held
	units  [getBatch]cq.Unit
	getter *getter // at work, and kept
}

// Release lets go of the messages, whose bytes must not be touched afterwards. Idempotent.
func (r *GetResult) Release() {
	r.held.Release()
	clear(r.Messages)
	r.Messages = r.Messages[:0]
	r.Status, r.NextOffset, r.MinOffset, r.MaxOffset = 0, 0, 0, 0
	r.Bytes, r.BehindBytes, r.SuggestSlave, r.ColdBytes = 0, 0, false, 0
}
