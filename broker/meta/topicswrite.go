package meta

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tandemq/tandemmq/internal/configdb"
)

// A table of many thousands of topics gets a new one with every first send. What is encoded for it is the topics that have changed since the last write: a database gets their rows, and a file
// is put together of texts that are kept.

// newSaver returns what writes the table to its file or its database.
func (t *Topics) newSaver(config string, d *Databases) *saver {
	if d != nil {
		s := newSaver(func() error { return t.writeChanges(d.writeTopics) })
		s.file = replacing(filePath(config, configdb.Topics), func() ([]byte, error) { return encodeFile(t.file()) })
		return s
	}
	texts := topicTexts{byName: map[string][]byte{}}
	var v DataVersion
	var x extra
	replace := replacing(filePath(config, configdb.Topics), func() ([]byte, error) { return texts.encode(v, x) })
	return newSaver(func() error {
		return t.writeChanges(func(c *topicChanges) error {
			if err := texts.take(c); err != nil {
				return err
			}
			v, x = c.version, c.extra
			return replace()
		})
	})
}

// topicChanges is what differs from what was last written.
type topicChanges struct {
	topics  map[string]*Topic // nil: it is gone
	version DataVersion
	extra   extra
}

// writeChanges has write, which one goroutine calls at a time, write what has changed. What could not be written is still to be.
func (t *Topics) writeChanges(write func(c *topicChanges) error) error {
	t.mu.Lock()
	names := t.mu.unsaved
	t.mu.unsaved = map[string]struct{}{}
	c := &topicChanges{topics: make(map[string]*Topic, len(names)), version: t.mu.version, extra: t.mu.extra}
	for name := range names {
		c.topics[name] = nil
		if topic, ok := t.mu.byName[name]; ok {
			c.topics[name] = &topic
		}
	}
	t.mu.Unlock()
	err := write(c)
	if err != nil {
		t.mu.Lock()
		for name := range names {
			t.mu.unsaved[name] = struct{}{}
		}
		t.mu.Unlock()
	}
	return err
}

func (d *Databases) writeTopics(c *topicChanges) error {
	version, err := plain(c.version)
	if err != nil {
		return err
	}
	rows := make(map[string][]byte, len(c.topics))
	for name, topic := range c.topics {
		rows[name] = nil
		if topic == nil {
			continue
		}
		if rows[name], err = plain(*topic); err != nil {
			return err
		}
	}
	return d.db.Update(configdb.Topics, rows, version)
}

// topicTexts are the topics as topics.json has them, each behind its name.
type topicTexts struct {
	names  []string // sorted
	byName map[string][]byte
}

func (t *topicTexts) take(c *topicChanges) error {
	for name, topic := range c.topics {
		i, there := slices.BinarySearch(t.names, name)
		if topic == nil {
			if there {
				t.names = slices.Delete(t.names, i, i+1)
				delete(t.byName, name)
			}
			continue
		}
		var text bytes.Buffer
		key, err := plain(name)
		if err != nil {
			return err
		}
		value, err := plain(*topic)
		if err != nil {
			return err
		}
		text.Write(append(key, ": "...))
		if err := json.Indent(&text, value, "\t\t", "\t"); err != nil {
			return fmt.Errorf("topic %s: %w", name, err)
		}
		t.byName[name] = text.Bytes()
		if !there {
			t.names = slices.Insert(t.names, i, name)
		}
	}
	return nil
}

// encode returns the text that encodeFile makes of the same table.
func (t *topicTexts) encode(v DataVersion, x extra) ([]byte, error) {
	frame, err := encodeFile(&topicsFile{v, map[string]Topic{}}, x)
	if err != nil || len(t.names) == 0 {
		return frame, err
	}
	const member = "\n\t\"topicConfigTable\": {"
	before, after, ok := bytes.Cut(frame, []byte(member+"}"))
	if !ok {
		return nil, fmt.Errorf("no member for topics in %.100q", frame)
	}
	size := len(frame) + 8
	for _, name := range t.names {
		size += len(t.byName[name]) + 4
	}
	b := append(append(make([]byte, 0, size), before...), member...)
	for i, name := range t.names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, "\n\t\t"...), t.byName[name]...)
	}
	return append(append(b, "\n\t}"...), after...), nil
}
