package namesrv

import (
	"encoding/json"
	"log/slog"
	"maps"
	"sync"

	"github.com/tandemq/tandemmq/internal/conffile"
)

// orderTopics is the namespace whose keys are ordered topics.
const orderTopics = "ORDER_TOPIC_CONFIG"

// keyValueFile is kvConfig.json.
type keyValueFile struct {
	Table map[string]map[string]string `json:"configTable"` // by namespace
}

// keyValueStore is the key-value configuration. With no path it lives in memory alone.
type keyValueStore struct {
	path string
	mu   sync.Mutex
	file keyValueFile
}

func openKeyValues(path string, log *slog.Logger) (*keyValueStore, error) {
	k := &keyValueStore{path: path}
	if path != "" {
		_, note, err := conffile.Load(path, &k.file, func() { k.file = keyValueFile{} })
		if err != nil {
			return nil, err
		}
		if note != nil {
			log.Warn("the key-value configuration is damaged", slog.Any("err", note))
		}
	}
	if k.file.Table == nil {
		k.file.Table = map[string]map[string]string{}
	}
	return k, nil
}

func (k *keyValueStore) get(namespace, key string) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.file.Table[namespace][key]
	return v, ok
}

func (k *keyValueStore) all(namespace string) map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.file.Table[namespace])
}

// change changes the table, and takes the change back if it cannot be made durable.
func (k *keyValueStore) change(namespace string, do func(table map[string]string)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.file.Table[namespace]
	table := maps.Clone(old)
	if table == nil {
		table = map[string]string{}
	}
	do(table)
	k.file.Table[namespace] = table
	if k.path == "" {
		return nil
	}
	b, err := json.MarshalIndent(k.file, "", "\t")
	if err == nil {
		err = conffile.Replace(k.path, b)
	}
	if err != nil {
		k.file.Table[namespace] = old
	}
	return err
}
