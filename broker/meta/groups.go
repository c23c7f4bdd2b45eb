package meta

import (
	"encoding/json"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/internal/configdb"
)

// Group is the configuration of a group of consumers, in the names and with the defaults of 5.5.0.
type Group struct {
	Name                    string            `json:"groupName"`
	ConsumeEnable           bool              `json:"consumeEnable"`
	ConsumeFromMinEnable    bool              `json:"consumeFromMinEnable"`
	ConsumeBroadcastEnable  bool              `json:"consumeBroadcastEnable"`
	ConsumeOrderly          bool              `json:"consumeMessageOrderly"`
	RetryQueues             int32             `json:"retryQueueNums"`
	RetryMaxTimes           int32             `json:"retryMaxTimes"`
	RetryPolicy             json.RawMessage   `json:"groupRetryPolicy"`
	BrokerID                int64             `json:"brokerId"`
	WhichBrokerWhenSlow     int64             `json:"whichBrokerWhenConsumeSlowly"`
	NotifyConsumerIDsChange bool              `json:"notifyConsumerIdsChangedEnable"`
	SysFlag                 int32             `json:"groupSysFlag"`
	ConsumeTimeoutMinutes   int32             `json:"consumeTimeoutMinute"`
	Attributes              map[string]string `json:"attributes"`

	extra extra
}

// NewGroup returns the configuration that a group has without one of its own.
//
// Source: SubscriptionGroupConfig, 5.5.0.
func NewGroup(name string) Group {
	return Group{
		Name: name, ConsumeEnable: true, ConsumeFromMinEnable: true, ConsumeBroadcastEnable: true, RetryQueues: 1, RetryMaxTimes: 16,
		RetryPolicy: json.RawMessage(`{"type":"CUSTOMIZED"}`), WhichBrokerWhenSlow: 1, NotifyConsumerIDsChange: true, ConsumeTimeoutMinutes: 15,
		Attributes: map[string]string{},
	}
}

// MarshalJSON writes the members in alphabetical order, with those of other versions.
func (g Group) MarshalJSON() ([]byte, error) {
	type known Group
	return encodeWithExtra(known(g), g.extra)
}

// UnmarshalJSON reads a group: what is missing has the default of 5.5.0.
func (g *Group) UnmarshalJSON(b []byte) (err error) {
	type known Group
	k := known(NewGroup(""))
	if k.extra, err = decodeWithExtra(b, &k); err != nil {
		return err
	}
	if k.Attributes == nil {
		k.Attributes = map[string]string{}
	}
	*g = Group(k)
	return nil
}

// Bits of what a group is forbidden on a topic.
const forbidRead = 1 << 0

// Groups is the table of groups, kept in subscriptionGroup.json or a database.
type Groups struct {
	saver      *saver
	autoCreate func() bool

	mu struct {
		sync.RWMutex
		byName    map[string]Group
		forbidden map[string]map[string]int32 // group, topic: bits
		version   DataVersion
		extra     extra
	}
}

// GroupsOptions say how groups come to be.
type GroupsOptions struct {
	// AutoCreate tells whether the first use of a group makes it: autoCreateSubscriptionGroup. nil: it does.
	AutoCreate func() bool
	// Databases keep the table. nil: subscriptionGroup.json does.
	Databases *Databases
	// Logger gets a file that was set aside. nil: nothing is logged.
	Logger *slog.Logger
}

type groupsFile struct {
	Version   DataVersion                 `json:"dataVersion"`
	Forbidden map[string]map[string]int32 `json:"forbiddenTable"`
	Table     map[string]Group            `json:"subscriptionGroupTable"`
}

// OpenGroups reads <dir>/subscriptionGroup.json, or the database with what the file has that is newer; without either the table holds the groups of the system.
// Errors: those of OpenTopics.
func OpenGroups(dir string, o GroupsOptions) (*Groups, error) {
	g := &Groups{autoCreate: o.AutoCreate}
	if g.autoCreate == nil {
		g.autoCreate = func() bool { return true }
	}
	g.saver = saverOf(dir, configdb.Groups, o.Databases, g.file)
	f, changed, err := load[groupsFile](dir, configdb.Groups, o.Databases, o.Logger)
	if err != nil {
		return nil, err
	}
	g.mu.version, g.mu.extra, g.mu.forbidden = f.known.Version, f.extra, f.known.Forbidden
	if g.mu.forbidden == nil {
		g.mu.forbidden = map[string]map[string]int32{}
	}
	g.mu.byName = make(map[string]Group, len(f.known.Table))
	for name, c := range f.known.Table {
		c.Name = name
		g.mu.byName[name] = c
	}
	added := false
	for _, name := range systemGroups {
		if _, ok := g.mu.byName[name]; !ok {
			c := NewGroup(name)
			g.mu.byName[name], added = c, true
		}
	}
	if added {
		g.mu.version = g.mu.version.next(time.Now())
	}
	if added || changed {
		return g, g.saver.save()
	}
	return g, nil
}

// Export writes the table to its file, under the version it has, in whatever form it is kept.
func (g *Groups) Export() error { return g.saver.export() }

// file is the table as of now.
func (g *Groups) file() (table, extra) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	f := &groupsFile{g.mu.version, make(map[string]map[string]int32, len(g.mu.forbidden)), maps.Clone(g.mu.byName)}
	for name, topics := range g.mu.forbidden {
		f.Forbidden[name] = maps.Clone(topics)
	}
	return f, g.mu.extra
}

// Get returns the group of that name. With autoCreateSubscriptionGroup one that is not known is made, if it can have that name;
// false otherwise. The group's maps are not to be changed.
//
// Source: SubscriptionGroupManager.findSubscriptionGroupConfig, 5.5.0.
func (g *Groups) Get(name string) (Group, bool, error) {
	if c, ok := g.Known(name); ok {
		return c, true, nil
	}
	if !g.autoCreate() || CheckGroupName(name) != nil {
		return Group{}, false, nil
	}
	c := NewGroup(name)
	err := g.change(func() bool {
		if old, ok := g.mu.byName[name]; ok {
			c = old
			return false
		}
		g.mu.byName[name] = c
		return true
	})
	return c, err == nil, err
}

// Known returns the group of that name, and never makes one.
func (g *Groups) Known(name string) (Group, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	c, ok := g.mu.byName[name]
	return c, ok
}

// All returns all groups by name, what is forbidden (group, topic: bits), and the version they belong to.
func (g *Groups) All() (groups map[string]Group, forbidden map[string]map[string]int32, v DataVersion) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	forbidden = make(map[string]map[string]int32, len(g.mu.forbidden))
	for name, topics := range g.mu.forbidden {
		forbidden[name] = maps.Clone(topics)
	}
	return maps.Clone(g.mu.byName), forbidden, g.mu.version
}

// Put makes or changes groups, and returns when they are durable. Errors: ErrName, *conffile.FileError.
func (g *Groups) Put(groups ...Group) error {
	for i := range groups {
		if err := CheckGroupName(groups[i].Name); err != nil {
			return err
		}
	}
	return g.change(func() bool {
		for _, c := range groups {
			if old, ok := g.mu.byName[c.Name]; ok && c.extra == nil {
				c.extra = old.extra
			}
			g.mu.byName[c.Name] = c
		}
		return len(groups) > 0
	})
}

// Delete takes a group away; an unknown one is passed over.
func (g *Groups) Delete(name string) error {
	return g.change(func() bool {
		_, ok := g.mu.byName[name]
		delete(g.mu.byName, name)
		delete(g.mu.forbidden, name)
		return ok
	})
}

// Readable tells whether the group may read the topic.
func (g *Groups) Readable(group, topic string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.mu.forbidden[group][topic]&forbidRead == 0
}

// SetReadable allows or forbids the group to read the topic.
//
// Source: SubscriptionGroupManager.updateForbidden, 5.5.0.
func (g *Groups) SetReadable(group, topic string, readable bool) error {
	return g.change(func() bool {
		bits := g.mu.forbidden[group][topic]
		changed := bits | forbidRead
		if readable {
			changed = bits &^ forbidRead
		}
		if changed == bits {
			return false
		}
		if changed == 0 {
			delete(g.mu.forbidden[group], topic)
			if len(g.mu.forbidden[group]) == 0 {
				delete(g.mu.forbidden, group)
			}
			return true
		}
		if g.mu.forbidden[group] == nil {
			g.mu.forbidden[group] = map[string]int32{}
		}
		g.mu.forbidden[group][topic] = changed
		return true
	})
}

func (g *Groups) change(do func() bool) error {
	g.mu.Lock()
	changed := do()
	if changed {
		g.mu.version = g.mu.version.next(time.Now())
	}
	g.mu.Unlock()
	if !changed {
		return nil
	}
	return g.saver.save()
}
