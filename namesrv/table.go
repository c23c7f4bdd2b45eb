package namesrv

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/remoting"
)

// defaultLife is how long a broker is believed to be there after it was last heard of.
const defaultLife = 2 * time.Minute

// permWrite is the bit of QueueData.Perm that lets clients send.
const permWrite = 1 << 1

// conn is a broker's connection, compared by identity.
type conn interface{ Close() }

type addrKey struct{ cluster, addr string }

// live is a broker that is there.
type live struct {
	name    string
	id      int64
	seen    time.Time
	life    time.Duration
	version DataVersion
	ha      string
	conn    conn
}

// table is who is there, and which topics they have.
type table struct {
	mu       sync.RWMutex
	topics   map[string]map[string]QueueData // by broker name
	brokers  map[string]*BrokerData
	clusters map[string]map[string]bool
	live     map[addrKey]*live
}

func newTable() *table {
	return &table{topics: map[string]map[string]QueueData{}, brokers: map[string]*BrokerData{}, clusters: map[string]map[string]bool{}, live: map[addrKey]*live{}}
}

// registration is what a broker says of itself.
type registration struct {
	cluster, name, addr, ha string
	id                      int64
	life                    time.Duration // 0: defaultLife
	actingMaster            *bool         // nil: the field is absent
	body                    registerBody
}

// register takes a broker in and returns the address of its master and the HA address of that, both "" for a master.
//
// Source: RouteInfoManager.registerBroker, 5.5.0.
func (t *table) register(r *registration, c conn, now time.Time) (masterAddr, masterHA string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := addrKey{r.cluster, r.addr}
	d := t.brokers[r.name]
	if d == nil {
		d = &BrokerData{Name: r.name, Cluster: r.cluster, Addrs: map[int64]string{}}
		t.brokers[r.name] = d
	}
	if old, ok := d.Addrs[r.id]; ok && old != r.addr {
		if l := t.live[addrKey{r.cluster, old}]; l != nil && l.version.StateVersion > r.body.Topics.Version.StateVersion {
			return "", "", nil // a newer master of the same name is there
		}
	}
	known := t.live[key]
	if known == nil && len(r.body.Topics.Table) == 1 {
		t.dropEmptyLocked(r.name)
		return "", "", remoting.Errorf(remoting.SystemError, "broker %s at %s is not known: register all topics first", r.name, r.addr)
	}
	if t.clusters[r.cluster] == nil {
		t.clusters[r.cluster] = map[string]bool{}
	}
	t.clusters[r.cluster][r.name] = true
	maps.DeleteFunc(d.Addrs, func(id int64, addr string) bool { return addr == r.addr && id != r.id })
	old, wasThere := d.Addrs[r.id]
	d.Addrs[r.id] = r.addr
	if r.actingMaster != nil {
		d.EnableActingMaster = *r.actingMaster
	}
	lowest := slices.Min(slices.Collect(maps.Keys(d.Addrs)))
	if r.id == 0 || r.actingMaster != nil && *r.actingMaster && r.id == lowest {
		changed := known == nil || !wasThere || old != r.addr || known.version != r.body.Topics.Version
		for topic, c := range r.body.Topics.Table {
			if _, has := t.topics[topic][r.name]; changed || !has {
				t.setQueuesLocked(topic, QueueData{r.name, int32(c.Perm), int32(c.ReadQueues), int32(c.SysFlag), int32(c.WriteQueues)})
			}
		}
	}
	life := r.life
	if life <= 0 {
		life = defaultLife
	}
	t.live[key] = &live{r.name, r.id, now, life, r.body.Topics.Version, r.ha, c}
	if r.id != 0 {
		if addr, ok := d.Addrs[0]; ok {
			masterAddr = addr
			if l := t.live[addrKey{r.cluster, addr}]; l != nil {
				masterHA = l.ha
			}
		}
	}
	return masterAddr, masterHA, nil
}

func (t *table) setQueuesLocked(topic string, q QueueData) {
	if t.topics[topic] == nil {
		t.topics[topic] = map[string]QueueData{}
	}
	t.topics[topic][q.BrokerName] = q
}

// heard notes that a broker is there, and tells whether its topics are others than that version.
func (t *table) heard(cluster, addr string, v DataVersion, now time.Time) (known DataVersion, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.live[addrKey{cluster, addr}]
	if l == nil {
		return DataVersion{}, true
	}
	l.seen = now
	return l.version, l.version != v
}

// unregister takes a broker out.
func (t *table) unregister(cluster, addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(addrKey{cluster, addr})
}

func (t *table) removeLocked(key addrKey) {
	l := t.live[key]
	if l == nil {
		return
	}
	delete(t.live, key)
	if d := t.brokers[l.name]; d != nil && d.Addrs[l.id] == key.addr {
		delete(d.Addrs, l.id)
	}
	t.dropEmptyLocked(l.name)
}

// dropEmptyLocked forgets a broker name under which nobody is there, with its queues.
func (t *table) dropEmptyLocked(name string) {
	d := t.brokers[name]
	if d == nil || len(d.Addrs) > 0 {
		return
	}
	delete(t.brokers, name)
	if names := t.clusters[d.Cluster]; names != nil {
		if delete(names, name); len(names) == 0 {
			delete(t.clusters, d.Cluster)
		}
	}
	for topic, queues := range t.topics {
		if delete(queues, name); len(queues) == 0 {
			delete(t.topics, topic)
		}
	}
}

// closed takes out all brokers of a connection.
func (t *table) closed(c conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, l := range t.live {
		if l.conn == c {
			t.removeLocked(key)
		}
	}
}

// silent takes out brokers that were not heard of for too long, and returns their connections.
func (t *table) silent(now time.Time) (conns []conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, l := range t.live {
		if now.Sub(l.seen) > l.life {
			conns = append(conns, l.conn)
			t.removeLocked(key)
		}
	}
	return conns
}

// route says where a topic is; false if no broker has it.
func (t *table) route(topic string) (r Route, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	queues := t.topics[topic]
	r = Route{Brokers: []BrokerData{}, FilterServers: map[string][]string{}, Queues: []QueueData{}}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		r.Queues = append(r.Queues, queues[name])
		if d := t.brokers[name]; d != nil {
			r.Brokers = append(r.Brokers, d.clone())
		}
	}
	return r, len(r.Queues) > 0 && len(r.Brokers) > 0
}

func (d *BrokerData) clone() BrokerData {
	c := *d
	c.Addrs = maps.Clone(d.Addrs)
	return c
}

func (t *table) cluster() Cluster {
	t.mu.RLock()
	defer t.mu.RUnlock()
	c := Cluster{Brokers: map[string]BrokerData{}, Clusters: map[string][]string{}}
	for name, d := range t.brokers {
		c.Brokers[name] = d.clone()
	}
	for name, brokers := range t.clusters {
		c.Clusters[name] = slices.Sorted(maps.Keys(brokers))
	}
	return c
}

// broker returns what is there under a name; false if nobody is.
func (t *table) broker(name string) (BrokerData, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	d := t.brokers[name]
	if d == nil {
		return BrokerData{}, false
	}
	return d.clone(), true
}

// allTopics returns the names of all topics, or, with a cluster, of those that its brokers have.
func (t *table) allTopics(cluster string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	names := []string{}
	for topic, queues := range t.topics {
		has := cluster == ""
		for name := range queues {
			has = has || t.clusters[cluster][name]
		}
		if has {
			names = append(names, topic)
		}
	}
	slices.Sort(names)
	return names
}

// deleteTopic forgets a topic, or the queues that a cluster has of it.
func (t *table) deleteTopic(topic, cluster string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	queues := t.topics[topic]
	maps.DeleteFunc(queues, func(name string, _ QueueData) bool { return cluster == "" || t.clusters[cluster][name] })
	if len(queues) == 0 {
		delete(t.topics, topic)
	}
}

// addTopic notes queues of a topic for brokers that are there.
func (t *table) addTopic(topic string, queues []QueueData) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range queues {
		if t.brokers[q.BrokerName] != nil {
			t.setQueuesLocked(topic, q)
		}
	}
}

// setWrite lets clients write the queues of a broker or not, until it registers other topics, and returns how many topics it has.
func (t *table) setWrite(name string, may bool) (topics int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, queues := range t.topics {
		if q, ok := queues[name]; ok {
			if q.Perm &^= permWrite; may {
				q.Perm |= permWrite
			}
			queues[name] = q
			topics++
		}
	}
	return topics
}
