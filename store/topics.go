package store

import (
	"encoding/json"
	"fmt"
	"os"
)

// Topics returns the names in the broker's topic table, config/topics.json. known is false when no table can be read:
// there is none (err nil: a broker on defaultRocksDB keeps its topics in a database), or neither it nor its twin
// topics.json.bak, which RocketMQ falls back to, can be parsed (err says why; a caller that can do without logs it).
//
// Source: ConfigManager.load, TopicConfigManager.decode, 5.5.0.
func (l Layout) Topics() (names map[string]bool, known bool, err error) {
	for _, path := range []string{l.TopicsPath(), l.TopicsPath() + ".bak"} {
		b, rerr := os.ReadFile(path)
		if missing(rerr) || rerr == nil && len(b) == 0 {
			continue
		}
		if rerr == nil {
			names, rerr = parseTopics(b)
		}
		if rerr == nil {
			return names, true, nil
		}
		if err == nil {
			err = fmt.Errorf("read topic table %s: %w", path, rerr)
		}
	}
	return nil, false, err
}

// parseTopics reads the keys of topicConfigTable out of the JSON that RocketMQ's library writes.
func parseTopics(b []byte) (map[string]bool, error) {
	var table struct {
		Topics map[string]json.RawMessage `json:"topicConfigTable"`
	}
	err := json.Unmarshal(b, &table)
	if err != nil {
		err = json.Unmarshal(quoteIntegerKeys(b), &table)
	}
	if err != nil {
		return nil, err
	}
	if table.Topics == nil {
		return nil, fmt.Errorf("no topicConfigTable in it")
	}
	names := make(map[string]bool, len(table.Topics))
	for name := range table.Topics {
		names[name] = true
	}
	return names, nil
}

// quoteIntegerKeys puts quotes round object keys that are bare integers: RocketMQ's JSON library writes maps with integer
// keys that way, and no JSON parser but its own reads them.
func quoteIntegerKeys(b []byte) []byte {
	out := make([]byte, 0, len(b)+len(b)/8)
	inString, key := false, false // key: only blanks since a '{' or ','
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case inString:
			if c == '\\' && i+1 < len(b) {
				out = append(out, c)
				i++
				c = b[i]
			} else if c == '"' {
				inString = false
			}
		case c == '"':
			inString, key = true, false
		case c == '{' || c == ',':
			key = true
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case key && (c == '-' || c >= '0' && c <= '9'):
			end := i + 1
			for end < len(b) && b[end] >= '0' && b[end] <= '9' {
				end++
			}
			key = false
			if at := skipBlanks(b, end); at < len(b) && b[at] == ':' {
				out = append(out, '"')
				out = append(out, b[i:end]...)
				c, i = '"', end-1
			}
		default:
			key = false
		}
		out = append(out, c)
	}
	return out
}

func skipBlanks(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\t' || b[at] == '\r' || b[at] == '\n') {
		at++
	}
	return at
}

// brokerTopic is a line of the topic table.
type brokerTopic struct {
	name   string
	queues int
}

// encodeTopics writes a topic table as the broker does: every topic readable and writable (perm 6), of plain queues.
//
// Source: TopicConfigSerializeWrapper, TopicConfig, 5.5.0.
func encodeTopics(topics []brokerTopic, nowMs int64) []byte {
	type topicConfig struct {
		Attributes  map[string]string `json:"attributes"`
		Order       bool              `json:"order"`
		Perm        int               `json:"perm"`
		ReadQueues  int               `json:"readQueueNums"`
		FilterType  string            `json:"topicFilterType"`
		Name        string            `json:"topicName"`
		SysFlag     int               `json:"topicSysFlag"`
		WriteQueues int               `json:"writeQueueNums"`
	}
	type dataVersion struct {
		Counter      int64 `json:"counter"`
		StateVersion int64 `json:"stateVersion"`
		Timestamp    int64 `json:"timestamp"`
	}
	var table struct {
		Version dataVersion            `json:"dataVersion"`
		Topics  map[string]topicConfig `json:"topicConfigTable"`
	}
	table.Version = dataVersion{Counter: int64(len(topics)), Timestamp: nowMs}
	table.Topics = make(map[string]topicConfig, len(topics))
	for _, t := range topics {
		table.Topics[t.name] = topicConfig{
			Attributes: map[string]string{}, Perm: 6, ReadQueues: t.queues, WriteQueues: t.queues,
			FilterType: "SINGLE_TAG", Name: t.name,
		}
	}
	b, err := json.MarshalIndent(&table, "", "\t")
	if err != nil {
		panic("store: topic table does not marshal: " + err.Error()) // no value in it can fail
	}
	return append(b, '\n')
}
