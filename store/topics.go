package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tandemq/tandemmq/internal/configdb"
	"github.com/tandemq/tandemmq/internal/laxjson"
)

// Topics returns the names in the broker's topic table: config/topics.json, or a database of topics (storeType=defaultRocksDB) where that is not older than the file. known is false
// when no table can be read: there is none (err nil), or neither the file nor its twin
// topics.json.bak, which RocketMQ falls back to, can be parsed, nor a database read (err says why; a caller that can do without logs it).
//
// Source: ConfigManager.load, TopicConfigManager.decode, RocksDBTopicConfigManager.load, 5.5.0.
func (l Layout) Topics() (names map[string]bool, known bool, err error) {
	counter := int64(-1)
	for _, path := range []string{l.TopicsPath(), l.TopicsPath() + ".bak"} {
		b, rerr := os.ReadFile(path)
		if missing(rerr) || rerr == nil && len(b) == 0 {
			continue
		}
		if rerr == nil {
			names, counter, rerr = parseTopics(b)
		}
		if rerr == nil {
			known, err = true, nil
			break
		}
		if err == nil {
			err = fmt.Errorf("read topic table %s: %w", path, rerr)
		}
	}
	for _, form := range []configdb.Form{configdb.Separate, configdb.Single} {
		stored, at, found, rerr := storedTopics(filepath.Dir(l.TopicsPath()), form)
		switch {
		case rerr != nil:
			err = errors.Join(err, rerr)
		case found && at >= counter:
			names, counter, known, err = stored, at, true, nil
		}
	}
	return names, known, err
}

// storedTopics reads the names in a database of topics, and its version counter.
func storedTopics(config string, form configdb.Form) (names map[string]bool, counter int64, found bool, err error) {
	there, err := configdb.Exists(config, form)
	if err != nil || !there {
		return nil, 0, false, err
	}
	db, err := configdb.OpenReadOnly(config, form)
	if errors.Is(err, configdb.ErrNoRocksDB) {
		return nil, 0, false, nil // the file counts
	}
	if err != nil {
		return nil, 0, false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := db.Read(configdb.Topics)
	if err != nil || c.Version == nil {
		return nil, 0, false, err
	}
	var version topicVersion
	if err := laxjson.Unmarshal(c.Version, &version); err != nil {
		return nil, 0, false, fmt.Errorf("read version of topics in %s: %w", filepath.Join(config, db.Dir(configdb.Topics)), err)
	}
	names = make(map[string]bool, len(c.Rows))
	for name := range c.Rows {
		names[name] = true
	}
	return names, version.Counter, true, nil
}

// topicVersion is the version of a topic table.
type topicVersion struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"`
	Timestamp    int64 `json:"timestamp"`
}

// parseTopics reads the keys of topicConfigTable out of the JSON that RocketMQ's library writes, and the version counter.
func parseTopics(b []byte) (map[string]bool, int64, error) {
	var table struct {
		Version topicVersion               `json:"dataVersion"`
		Topics  map[string]json.RawMessage `json:"topicConfigTable"`
	}
	if err := laxjson.Unmarshal(b, &table); err != nil {
		return nil, 0, err
	}
	if table.Topics == nil {
		return nil, 0, fmt.Errorf("no topicConfigTable in it")
	}
	names := make(map[string]bool, len(table.Topics))
	for name := range table.Topics {
		names[name] = true
	}
	return names, table.Version.Counter, nil
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
	var table struct {
		Version topicVersion           `json:"dataVersion"`
		Topics  map[string]topicConfig `json:"topicConfigTable"`
	}
	table.Version = topicVersion{Counter: int64(len(topics)), Timestamp: nowMs}
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
