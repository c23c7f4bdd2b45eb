//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// logReport is what RocketMQ says of the log itself.
type logReport struct {
	max     int64    // its end, getMaxPhyOffset
	records []record // of a job that asked for them, each checked as recovery checks it
}

// record is a message as RocketMQ decodes it: a "rec" line, of the log, or a "msg" line, of a queue.
type record struct {
	Topic            string            `json:"topic"` // these three are the queue's in a msg line
	QueueID          int32             `json:"queueId"`
	QueueOffset      int64             `json:"queueOffset"`
	PhyOffset        int64             `json:"commitLogOffset"`
	Size             int               `json:"size"`
	StoreTimestampMs int64             `json:"storeTimestamp"`
	TagsCode         int64             `json:"tagsCode"` // of the dispatch request; of the unit in a msg line
	MsgID            string            `json:"msgId"`
	BodyCRC32        uint32            `json:"crc32"`
	BodyLen          int               `json:"bodyLen"`
	Keys             *string           `json:"keys"`
	Tags             *string           `json:"tags"`
	UniqKey          *string           `json:"uniqKey"`
	SysFlag          int32             `json:"sysFlag"`
	Flag             int32             `json:"flag"`
	BornTimestampMs  int64             `json:"bornTimestamp"`
	BornHost         string            `json:"bornHost"`
	StoreHost        string            `json:"storeHost"`
	ReconsumeTimes   int32             `json:"reconsumeTimes"`
	Prepared         int64             `json:"preparedTransactionOffset"`
	MagicV2          bool              `json:"magicV2"`
	RawCRC32         uint32            `json:"rawCrc32"`
	Properties       map[string]string `json:"properties"` // rec lines
	Within           []within          `json:"within"`     // rec lines: the messages of an inner batch
	MsgTopic         *string           `json:"msgTopic"`   // msg lines: the record's own, where they differ from the queue's
	MsgQueueID       *int32            `json:"msgQueueId"`
	MsgQueueOffset   *int64            `json:"msgQueueOffset"`
}

// within is a message of an inner batch, as a consumer takes it out.
type within struct {
	QueueOffset int64             `json:"queueOffset"`
	Flag        int32             `json:"flag"`
	BodyLen     int               `json:"bodyLen"`
	BodyCRC32   uint32            `json:"crc32"`
	Properties  map[string]string `json:"properties"`
}

func parseLog(lines []byte) (l logReport, err error) {
	for line := range bytes.Lines(lines) {
		switch {
		case bytes.HasPrefix(line, []byte(`{"t":"rec"`)):
			var r record
			err = json.Unmarshal(line, &r)
			l.records = append(l.records, r)
		case bytes.HasPrefix(line, []byte(`{"t":"commitlog"`)):
			var c struct{ Max *int64 }
			if err = json.Unmarshal(line, &c); err == nil && c.Max == nil {
				err = fmt.Errorf("no end of the log in %s", line)
			}
			if err == nil {
				l.max = *c.Max
			}
		}
		if err != nil {
			return logReport{}, err
		}
	}
	return l, nil
}
