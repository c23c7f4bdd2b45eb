package offsets

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/laxjson"
)

// Key names one consumer offset.
type Key struct {
	Topic   string `json:"topic"`
	Group   string `json:"group"`
	QueueID int32  `json:"queueId"`
}

// String returns topic@group/queueId.
func (k Key) String() string { return fmt.Sprintf("%s/%d", k.row(), k.QueueID) }

// row is the key of RocketMQ's table.
func (k Key) row() string { return k.Topic + "@" + k.Group }

// Queue is the consume queue that the offset belongs to.
func (k Key) Queue() cq.Key { return cq.Key{Topic: k.Topic, QueueID: k.QueueID} }

// Compare orders by group, topic and queue.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Group, o.Group), strings.Compare(k.Topic, o.Topic), cmp.Compare(k.QueueID, o.QueueID))
}

// None is the offset of a group that has consumed nothing: Go clients commit it, and RocketMQ takes it for no offset.
const None int64 = -1

// Value is one stored offset.
type Value struct {
	Offset int64
	// Bad says why the stored text is no offset; "" when it is one. Offset is then 0.
	Bad string
	// At tells where in the file it stands; "" for a row of a database.
	At string
}

// Version is a DataVersion: RocketMQ counts changes with it, and orders a file and a database by Counter.
type Version struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"`
	TimestampMs  int64 `json:"timestamp"`
}

// parseWhole reads what a text means as a whole number; 5.5.0 reads quoted numbers too, and cuts fractions off, which is
// not done here.
func parseWhole(n *laxjson.Node) (v int64, bad string) {
	if n.Kind != laxjson.Word && n.Kind != laxjson.String {
		return 0, fmt.Sprintf("%s, want a whole number", clip(n.Raw))
	}
	v, err := strconv.ParseInt(n.Text, 10, 64)
	if err != nil {
		return 0, fmt.Sprintf("%s, want a whole number of at most 64 bits", clip(n.Raw))
	}
	return v, ""
}

// clip shortens a text for a message.
func clip(raw []byte) string {
	const most = 40
	if len(raw) > most {
		return string(raw[:most]) + "..."
	}
	return string(raw)
}
