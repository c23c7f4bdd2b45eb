package meta

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/internal/configdb"
)

// Permission bits of a topic and of a broker.
const (
	PermInherit  int32 = 1 << 0 // a send may make topics after this one
	PermWrite    int32 = 1 << 1
	PermRead     int32 = 1 << 2
	PermPriority int32 = 1 << 3
)

// Topic is the configuration of a topic, in the names and with the defaults of 5.5.0.
type Topic struct {
	Name        string            `json:"topicName"`
	ReadQueues  int32             `json:"readQueueNums"`
	WriteQueues int32             `json:"writeQueueNums"`
	Perm        int32             `json:"perm"`
	FilterType  string            `json:"topicFilterType"`
	SysFlag     int32             `json:"topicSysFlag"`
	Order       bool              `json:"order"`
	Attributes  map[string]string `json:"attributes"`

	extra extra
}

// NewTopic returns a topic with that many queues to read and to write.
func NewTopic(name string, queues, perm int32) Topic {
	return Topic{Name: name, ReadQueues: queues, WriteQueues: queues, Perm: perm, FilterType: "SINGLE_TAG", Attributes: map[string]string{}}
}

// Readable and Writable tell what clients may do with the topic.
func (t *Topic) Readable() bool { return t.Perm&PermRead != 0 }

// Writable tells whether clients may send to the topic.
func (t *Topic) Writable() bool { return t.Perm&PermWrite != 0 }

// Queues is how many queues the topic can have messages in.
func (t *Topic) Queues() int32 { return max(t.ReadQueues, t.WriteQueues) }

// MarshalJSON writes the members in alphabetical order, with those of other versions.
func (t Topic) MarshalJSON() ([]byte, error) {
	type known Topic
	if t.Attributes == nil {
		t.Attributes = map[string]string{}
	}
	return encodeWithExtra(known(t), t.extra)
}

// UnmarshalJSON reads a topic as 5.5.0 and its clients write it: what is missing has the default of 5.5.0.
func (t *Topic) UnmarshalJSON(b []byte) (err error) {
	type known Topic
	k := known{ReadQueues: 16, WriteQueues: 16, Perm: PermRead | PermWrite, FilterType: "SINGLE_TAG"}
	if k.extra, err = decodeWithExtra(b, &k); err != nil {
		return err
	}
	if k.Attributes == nil {
		k.Attributes = map[string]string{}
	}
	*t = Topic(k)
	return nil
}

// equal compares all that a file holds.
func (t *Topic) equal(o *Topic) bool {
	return t.Name == o.Name && t.ReadQueues == o.ReadQueues && t.WriteQueues == o.WriteQueues && t.Perm == o.Perm && t.FilterType == o.FilterType &&
		t.SysFlag == o.SysFlag && t.Order == o.Order && maps.Equal(t.Attributes, o.Attributes)
}

// Attributes of a topic, which a file keeps without the sign that a request has before them.
const (
	AttributeQueueType   = "queue.type"
	AttributeMessageType = "message.type"
	AttributeCleanup     = "cleanup.policy"
	QueueTypeSimple      = "SimpleCQ"
	QueueTypeBatch       = "BatchCQ"
	CleanupCompaction    = "COMPACTION"
)

// knownAttributes are those a request may set, with the values they may have; none: any.
//
// Source: TopicAttributes, 5.5.0.
var knownAttributes = map[string][]string{
	AttributeQueueType:         {QueueTypeSimple, QueueTypeBatch},
	AttributeCleanup:           {"DELETE", CleanupCompaction},
	AttributeMessageType:       {"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "LITE", "PRIORITY"},
	"reserve.time":             nil,
	"priority.number":          nil,
	"lite.topic.expiration":    nil,
	"lite.topic.expire.minute": nil,
}

// ErrAttribute says that a topic cannot have such an attribute.
var ErrAttribute = errors.New("illegal attribute")

// ApplyAttributes returns old changed as text says: "+name=value" sets, "-name" takes away, separated by commas. Errors wrap ErrAttribute.
//
// Source: AttributeUtil.alterCurrentAttributes, 5.5.0.
func ApplyAttributes(old map[string]string, text string) (map[string]string, error) {
	attributes := maps.Clone(old)
	if attributes == nil {
		attributes = map[string]string{}
	}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, set := strings.Cut(part[1:], "=")
		values, known := knownAttributes[name]
		switch {
		case part[0] != '+' && part[0] != '-' || part[0] == '-' && set:
			return nil, fmt.Errorf("%w: %q, want +name=value or -name", ErrAttribute, part)
		case !known:
			return nil, fmt.Errorf("%w: %q is not known", ErrAttribute, name)
		case part[0] == '-':
			delete(attributes, name)
		case !set || len(values) > 0 && !slices.Contains(values, value):
			return nil, fmt.Errorf("%w: %s is %q, want one of %s", ErrAttribute, name, value, strings.Join(values, ", "))
		default:
			attributes[name] = value
		}
	}
	return attributes, nil
}

// Topics is the table of topics, kept in topics.json or a database.
type Topics struct {
	saver    *saver
	onChange func([]Topic, DataVersion)

	mu struct {
		sync.RWMutex
		byName  map[string]Topic
		version DataVersion
		extra   extra
		unsaved map[string]struct{} // topics that were made, changed or taken away since the table was last written
	}
}

// TopicsOptions say what a new table holds and who is told of changes.
type TopicsOptions struct {
	// System are the topics that there always are; what the file says of one is kept.
	System []Topic
	// Databases keep the table. nil: topics.json does.
	Databases *Databases
	// OnChange is called after topics were made or changed and are durable, by the goroutine that changed them. nil: nobody is told.
	OnChange func(changed []Topic, v DataVersion)
	// Logger gets a file that was set aside. nil: nothing is logged.
	Logger *slog.Logger
}

type topicsFile struct {
	Version DataVersion      `json:"dataVersion"`
	Table   map[string]Topic `json:"topicConfigTable"`
}

// OpenTopics reads <dir>/topics.json, or the database with what the file has that is newer; without either the table is new. Errors: *conffile.FileError, *rocks.Error, a row that
// cannot be read.
func OpenTopics(dir string, o TopicsOptions) (*Topics, error) {
	t := &Topics{onChange: o.OnChange}
	t.saver = t.newSaver(dir, o.Databases)
	f, changed, err := load[topicsFile](dir, configdb.Topics, o.Databases, o.Logger)
	if err != nil {
		return nil, err
	}
	t.mu.version, t.mu.extra = f.known.Version, f.extra
	t.mu.byName = make(map[string]Topic, len(f.known.Table)+len(o.System))
	for name, c := range f.known.Table {
		c.Name = name
		t.mu.byName[name] = c
	}
	added := false
	for _, c := range o.System {
		if _, ok := t.mu.byName[c.Name]; !ok {
			t.mu.byName[c.Name], added = c, true
		}
	}
	if added {
		t.mu.version = t.mu.version.next(time.Now())
	}
	t.mu.unsaved = make(map[string]struct{})
	if added || changed || o.Databases == nil { // a file is made of the texts of all
		for name := range t.mu.byName {
			t.mu.unsaved[name] = struct{}{}
		}
	}
	if added || changed {
		return t, t.saver.save()
	}
	return t, nil
}

// Export writes the table to its file, under the version it has, in whatever form it is kept.
func (t *Topics) Export() error { return t.saver.export() }

// file is the table as of now.
func (t *Topics) file() (table, extra) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return &topicsFile{t.mu.version, maps.Clone(t.mu.byName)}, t.mu.extra
}

// Get returns the topic of that name. Its map is not to be changed.
func (t *Topics) Get(name string) (Topic, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	c, ok := t.mu.byName[name]
	return c, ok
}

// All returns all topics by name, and the version they belong to.
func (t *Topics) All() (map[string]Topic, DataVersion) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.mu.byName), t.mu.version
}

// Len is the number of topics.
func (t *Topics) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.mu.byName)
}

// Version is that of the table.
func (t *Topics) Version() DataVersion {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.version
}

// Put makes or changes topics, and returns when they are durable. A topic that is so already is passed over; if all are, nothing happens.
func (t *Topics) Put(topics ...Topic) error {
	return t.change(func() (changed []Topic) {
		for _, c := range topics {
			if old, ok := t.mu.byName[c.Name]; ok {
				if old.equal(&c) {
					continue
				}
				c.extra = old.extra
			}
			t.mu.byName[c.Name] = c
			changed = append(changed, c)
		}
		return changed
	})
}

// Ensure returns the topic of that name, and makes c first if there is none.
func (t *Topics) Ensure(c Topic) (Topic, error) {
	if old, ok := t.Get(c.Name); ok {
		return old, nil
	}
	err := t.change(func() []Topic {
		if old, ok := t.mu.byName[c.Name]; ok {
			c = old
			return nil
		}
		t.mu.byName[c.Name] = c
		return []Topic{c}
	})
	return c, err
}

// CreateForSend returns the topic that a message is sent to, and makes it after the template if there is none: with as many queues as the client
// wants, at most the template's. false: there is no such template, or it does not pass on.
//
// Source: TopicConfigManager.createTopicInSendMessageMethod, 5.5.0.
func (t *Topics) CreateForSend(name, template string, clientQueues int32) (Topic, bool, error) {
	if c, ok := t.Get(name); ok {
		return c, true, nil
	}
	from, ok := t.Get(template)
	if !ok || from.Perm&PermInherit == 0 {
		return Topic{}, false, nil
	}
	c := NewTopic(name, max(min(clientQueues, from.WriteQueues), 0), from.Perm&^PermInherit)
	c.FilterType, c.SysFlag = from.FilterType, 0
	c, err := t.Ensure(c)
	return c, err == nil, err
}

// SetOrder marks those of the topics that there are as ordered, and no other as anything else: what a NameServer's list of ordered topics asks for.
func (t *Topics) SetOrder(names []string) error {
	return t.change(func() (changed []Topic) {
		for _, name := range names {
			if c, ok := t.mu.byName[name]; ok && !c.Order {
				c.Order = true
				t.mu.byName[name] = c
				changed = append(changed, c)
			}
		}
		return changed
	})
}

// Delete takes topics away; unknown ones are passed over.
func (t *Topics) Delete(names ...string) error {
	t.mu.Lock()
	n := len(t.mu.byName)
	for _, name := range names {
		if _, ok := t.mu.byName[name]; ok {
			delete(t.mu.byName, name)
			t.mu.unsaved[name] = struct{}{}
		}
	}
	gone := len(t.mu.byName) < n
	if gone {
		t.mu.version = t.mu.version.next(time.Now())
	}
	t.mu.Unlock()
	if !gone {
		return nil
	}
	return t.saver.save()
}

// Touch raises the version without a change, so that a NameServer takes the table again.
func (t *Topics) Touch() error {
	t.mu.Lock()
	t.mu.version = t.mu.version.next(time.Now())
	t.mu.Unlock()
	return t.saver.save()
}

// change makes a change under the lock, and makes it durable and known if there was one.
func (t *Topics) change(do func() []Topic) error {
	t.mu.Lock()
	changed := do()
	if len(changed) > 0 {
		t.mu.version = t.mu.version.next(time.Now())
	}
	for i := range changed {
		t.mu.unsaved[changed[i].Name] = struct{}{}
	}
	v := t.mu.version
	t.mu.Unlock()
	if len(changed) == 0 {
		return nil
	}
	if err := t.saver.save(); err != nil {
		return err
	}
	if t.onChange != nil {
		t.onChange(changed, v)
	}
	return nil
}

// SystemTopics are those a broker has from the start.
//
// Source: TopicConfigManager.init, 5.5.0.
func SystemTopics(cluster, broker string, o SystemTopicOptions) []Topic {
	const both = PermRead | PermWrite
	topics := []Topic{
		NewTopic(SelfTestTopic, 1, both), NewTopic(OffsetMovedTopic, 1, both), NewTopic(BenchmarkTopic, 1024, both),
		NewTopic(ScheduleTopic, o.DelayLevels, both), NewTopic(ReplyTopic(cluster), 1, both),
		NewTopic(HalfTopic, 1, both), NewTopic(OpHalfTopic, 1, both), NewTopic(rocksHalfTopic, 1, both), NewTopic(rocksOpHalfTopic, 1, both),
		NewTopic(SystemTopicPrefix+"SYNC_BROKER_MEMBER_"+broker, 1, PermInherit),
	}
	perm := func(open bool) int32 {
		if open {
			return PermInherit | both
		}
		return PermInherit
	}
	topics = append(topics, NewTopic(cluster, 16, perm(o.ClusterTopic)), NewTopic(broker, 1, perm(o.BrokerTopic)))
	if o.AutoCreate {
		topics = append(topics, NewTopic(AutoCreateTopic, 8, PermInherit|both))
	}
	if o.Trace {
		topics = append(topics, NewTopic(TraceTopic, 1, both))
	}
	return topics
}

// SystemTopicOptions are the properties of broker.conf that SystemTopics depends on.
type SystemTopicOptions struct {
	AutoCreate   bool  // autoCreateTopicEnable
	ClusterTopic bool  // clusterTopicEnable
	BrokerTopic  bool  // brokerTopicEnable
	Trace        bool  // traceTopicEnable
	DelayLevels  int32 // levels of messageDelayLevel
}

// IsSystemTopic tells whether operators can neither make nor delete a topic, in this cluster.
//
// Source: TopicValidator.isSystemTopic, 5.5.0.
func IsSystemTopic(name, cluster, broker string) bool {
	return fixedSystemTopics[name] || strings.HasPrefix(name, SystemTopicPrefix) || name == cluster || name == broker || name == ReplyTopic(cluster)
}
