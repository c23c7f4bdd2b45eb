package clients

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/remoting"
)

// Conn is a connection of a client, compared by identity. *remoting.Conn is one.
type Conn interface {
	RemoteAddr() string
	OneWay(req *remoting.Command) error
	Invoke(ctx context.Context, req *remoting.Command) (*remoting.Command, error)
	InvokeAsync(req *remoting.Command, timeout time.Duration, answer func(resp *remoting.Command, err error))
	Close()
}

// Member is a client in a group.
type Member struct {
	Conn     Conn
	ClientID string
	Language remoting.Language
	Version  int32
	Seen     time.Time // its last heartbeat
}

// Consumers is a state of a group of consumers.
type Consumers struct {
	Type          ConsumeType
	Model         MessageModel
	FromWhere     FromWhere
	Subscriptions map[string]*Subscription // by topic; not to be changed
	Members       []Member                 // by client id
}

// IDs are the client ids, each once, sorted.
func (c *Consumers) IDs() []string {
	ids := make([]string, 0, len(c.Members))
	for i := range c.Members {
		ids = append(ids, c.Members[i].ClientID)
	}
	return slices.Compact(ids)
}

type group struct {
	consumers Consumers // without members
	members   map[Conn]*Member
}

type producers struct {
	members map[Conn]*Member
	next    int // of Pick
}

// Registry is the table of all clients.
type Registry struct {
	mu struct {
		sync.RWMutex
		consumers map[string]*group
		producers map[string]*producers
		conns     map[Conn]map[string]bool // groups that a connection is in, of either kind
		byID      map[string]Conn          // the last connection of a producer's client
	}
}

// NewRegistry returns an empty table.
func NewRegistry() *Registry {
	r := &Registry{}
	r.mu.consumers, r.mu.producers = map[string]*group{}, map[string]*producers{}
	r.mu.conns, r.mu.byID = map[Conn]map[string]bool{}, map[string]Conn{}
	return r
}

// join notes the connection's group. The lock is held.
func (r *Registry) joinLocked(c Conn, name string) {
	if r.mu.conns[c] == nil {
		r.mu.conns[c] = map[string]bool{}
	}
	r.mu.conns[c][name] = true
}

// Heartbeat takes in what a client says of itself, and returns the groups of consumers that have a new member, or subscribe to other topics than before.
//
// A subscription replaces an older version of itself; topics that a heartbeat does not name are no longer subscribed to.
func (r *Registry) Heartbeat(c Conn, h *Heartbeat, language remoting.Language, version int32, now time.Time) (changed []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range h.Producers {
		name := h.Producers[i].Group
		p := r.mu.producers[name]
		if p == nil {
			p = &producers{members: map[Conn]*Member{}}
			r.mu.producers[name] = p
		}
		p.members[c] = &Member{c, h.ClientID, language, version, now}
		r.mu.byID[h.ClientID] = c
		r.joinLocked(c, name)
	}
	for i := range h.Consumers {
		d := &h.Consumers[i]
		g := r.mu.consumers[d.Group]
		if g == nil {
			g = &group{members: map[Conn]*Member{}}
			r.mu.consumers[d.Group] = g
		}
		g.consumers.Type, g.consumers.Model, g.consumers.FromWhere = d.Type, d.Model, d.FromWhere
		_, known := g.members[c]
		g.members[c] = &Member{c, h.ClientID, language, version, now}
		r.joinLocked(c, d.Group)
		other := !h.WithoutSub && g.subscribe(d.Subscriptions)
		if !known || other {
			changed = append(changed, d.Group)
		}
	}
	return changed
}

// subscribe takes over what a member subscribes to; true if the topics are others than before.
func (g *group) subscribe(list []Subscription) (changed bool) {
	old := g.consumers.Subscriptions
	subs := make(map[string]*Subscription, len(list))
	for i := range list {
		s := &list[i]
		was, known := old[s.Topic]
		switch {
		case !known:
			changed = true
			subs[s.Topic] = s
		case s.Version > was.Version:
			subs[s.Topic] = s
		default:
			subs[s.Topic] = was
		}
	}
	g.consumers.Subscriptions = subs // a new map: the old one may be in use
	return changed || len(subs) != len(old)
}

// Unregister takes a client out of a group of producers and one of consumers, either of which may be "". It tells whether the latter has lost a member.
func (r *Registry) Unregister(c Conn, producerGroup, consumerGroup string) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if producerGroup != "" {
		r.leaveProducersLocked(c, producerGroup)
	}
	return consumerGroup != "" && r.leaveConsumersLocked(c, consumerGroup)
}

func (r *Registry) leaveProducersLocked(c Conn, name string) {
	p := r.mu.producers[name]
	if p == nil || p.members[c] == nil {
		return
	}
	if id := p.members[c].ClientID; r.mu.byID[id] == c {
		delete(r.mu.byID, id)
	}
	if delete(p.members, c); len(p.members) == 0 {
		delete(r.mu.producers, name)
	}
}

func (r *Registry) leaveConsumersLocked(c Conn, name string) bool {
	g := r.mu.consumers[name]
	if g == nil || g.members[c] == nil {
		return false
	}
	if delete(g.members, c); len(g.members) == 0 {
		delete(r.mu.consumers, name)
	}
	return true
}

// Drop takes a closed connection out of all groups, and returns those of consumers that have lost a member.
func (r *Registry) Drop(c Conn) (changed []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.mu.conns[c] {
		r.leaveProducersLocked(c, name)
		if r.leaveConsumersLocked(c, name) {
			changed = append(changed, name)
		}
	}
	delete(r.mu.conns, c)
	slices.Sort(changed)
	return changed
}

// Silent returns the connections from which nothing was heard for longer than d.
func (r *Registry) Silent(now time.Time, d time.Duration) []Conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	seen := map[Conn]time.Time{}
	look := func(members map[Conn]*Member) {
		for c, m := range members {
			if m.Seen.After(seen[c]) {
				seen[c] = m.Seen
			}
		}
	}
	for _, g := range r.mu.consumers {
		look(g.members)
	}
	for _, p := range r.mu.producers {
		look(p.members)
	}
	var silent []Conn
	for c, at := range seen {
		if now.Sub(at) > d {
			silent = append(silent, c)
		}
	}
	return silent
}

func sorted(members map[Conn]*Member) []Member {
	list := make([]Member, 0, len(members))
	for _, m := range members {
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.ClientID, b.ClientID), cmp.Compare(a.Conn.RemoteAddr(), b.Conn.RemoteAddr()))
	})
	return list
}

// Consumers returns the state of a group; false if it has no member.
func (r *Registry) Consumers(name string) (Consumers, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	g := r.mu.consumers[name]
	if g == nil {
		return Consumers{}, false
	}
	c := g.consumers
	c.Members = sorted(g.members)
	return c, true
}

// Subscription returns what a group subscribes to of a topic; nil where it has no such subscription. online tells whether the group has members.
func (r *Registry) Subscription(name, topic string) (s *Subscription, model MessageModel, online bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	g := r.mu.consumers[name]
	if g == nil {
		return nil, 0, false
	}
	return g.consumers.Subscriptions[topic], g.consumers.Model, true
}

// Consumer returns the member of a group with that client id; false if there is none.
func (r *Registry) Consumer(name, clientID string) (Member, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if g := r.mu.consumers[name]; g != nil {
		for _, m := range g.members {
			if m.ClientID == clientID {
				return *m, true
			}
		}
	}
	return Member{}, false
}

// GroupsOn returns the groups whose members subscribe to the topic, sorted.
func (r *Registry) GroupsOn(topic string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var names []string
	for name, g := range r.mu.consumers {
		if g.consumers.Subscriptions[topic] != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ConsumerGroups returns all groups of consumers with members, sorted.
func (r *Registry) ConsumerGroups() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.mu.consumers))
}

// Producers returns the members of a group of producers by client id; none if it has none.
func (r *Registry) Producers(name string) []Member {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if p := r.mu.producers[name]; p != nil {
		return sorted(p.members)
	}
	return nil
}

// AllProducers returns the members of all groups of producers.
func (r *Registry) AllProducers() map[string][]Member {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make(map[string][]Member, len(r.mu.producers))
	for name, p := range r.mu.producers {
		all[name] = sorted(p.members)
	}
	return all
}

// Pick returns a member of a group of producers, another one each time; false if there is none.
func (r *Registry) Pick(name string) (Member, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.mu.producers[name]
	if p == nil {
		return Member{}, false
	}
	list := sorted(p.members)
	p.next = (p.next + 1) % len(list)
	return list[p.next], true
}

// Producer returns the connection of a producing client; false if it has none.
func (r *Registry) Producer(clientID string) (Conn, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	c, ok := r.mu.byID[clientID]
	return c, ok
}
