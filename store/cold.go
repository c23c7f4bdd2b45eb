package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// Cold data are messages so far behind the end of the log that they are taken to be on disk alone. A group that reads much of them slows the disk for all others; with
// coldDataFlowControlEnable the store counts what each group reads of them (Get), and tells when it is too much (ColdLimited). What becomes of the group then is for
// the broker to decide.

// Groups that may read what they like. Source: MixAll.isSysConsumerGroupPullMessage, 5.5.0.
var coldFreeGroups = []string{
	"DEFAULT_CONSUMER", "TOOLS_CONSUMER", "SCHEDULE_CONSUMER", "FILTERSRV_CONSUMER", "__MONITOR_CONSUMER", "SELF_TEST_C_GROUP",
	"CID_ONS-HTTP-PROXY", "CID_ONSAPI_OWNER", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_PULL",
}

const systemGroupPrefix = "CID_RMQ_SYS_"

func coldFree(group string) bool {
	return strings.HasPrefix(group, systemGroupPrefix) || slices.Contains(coldFreeGroups, group)
}

// coldWindow is for how long the bytes of a group add up before they are counted anew. Source: ColdDataCgCtrService.run, 5.5.0.
const coldWindow = 5 * time.Second

// coldKept is for how long a group is known that reads no cold data any more: as long as it counts as one that does when all together have read too much.
const coldKept = time.Minute

// coldReads counts what groups read of cold data.
type coldReads struct {
	mu struct {
		sync.Mutex
		until  time.Time // the window's end
		groups map[string]*coldGroup
		total  int64
		limits map[string]int64 // of groups that have their own
	}
}

type coldGroup struct {
	bytes int64
	last  time.Time
}

// ColdGroup is what a group has read of cold data within the present window of five seconds, and how much it may read there.
type ColdGroup struct {
	Group      string
	Bytes      int64
	LimitBytes int64
	OwnLimit   bool      // SetColdLimit gave it
	Last       time.Time // when it last read some; zero: not for a minute
	Limited    bool      // it is to read no more for now
}

func (c *coldReads) turnLocked(now time.Time) {
	if now.Before(c.mu.until) {
		return
	}
	for name, g := range c.mu.groups {
		if g.bytes = 0; now.Sub(g.last) >= coldKept {
			delete(c.mu.groups, name)
		}
	}
	c.mu.total, c.mu.until = 0, now.Add(coldWindow)
}

func (c *coldReads) add(group string, n int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnLocked(now)
	g := c.mu.groups[group]
	if g == nil {
		if c.mu.groups == nil {
			c.mu.groups = make(map[string]*coldGroup)
		}
		g = new(coldGroup)
		c.mu.groups[strings.Clone(group)] = g
	}
	g.bytes += n
	g.last = now
	c.mu.total += n
}

// limitedLocked tells whether a group that reads cold data has read too much in this window, or all together have.
func (c *coldReads) limitedLocked(o *Options, group string) bool {
	g := c.mu.groups[group]
	return g != nil && (g.bytes >= c.limitLocked(o, group) || c.mu.total >= o.GlobalColdReadThreshold)
}

func (c *coldReads) limitLocked(o *Options, group string) int64 {
	if n, ok := c.mu.limits[group]; ok {
		return n
	}
	return o.CgColdReadThreshold
}

// ColdLimited tells whether a group has read so much cold data within five seconds that it should read no more of it until they are over: as much as
// CgColdReadThreshold, or its own limit, or all groups together GlobalColdReadThreshold. It is false without ColdDataFlowControlEnable, and for the groups of RocketMQ itself. Whether what the
// group asks for next is cold, InColdArea tells.
//
// Source: ColdDataCgCtrService.isCgNeedColdDataFlowCtr, 5.5.0.
func (s *Store) ColdLimited(group string) bool {
	if !s.live().ColdDataFlowControlEnable || coldFree(group) {
		return false
	}
	c := &s.cold
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnLocked(time.Now())
	return c.limitedLocked(s.live(), group)
}

// SetColdLimit gives a group a limit of its own, in bytes within five seconds, until the store is closed; 0 takes it away.
//
// Source: ColdDataCgCtrService.addOrUpdateGroupConfig, removeGroupConfig, 5.5.0.
func (s *Store) SetColdLimit(group string, limitBytes int64) {
	c := &s.cold
	c.mu.Lock()
	defer c.mu.Unlock()
	if limitBytes <= 0 {
		delete(c.mu.limits, group)
		return
	}
	if c.mu.limits == nil {
		c.mu.limits = make(map[string]int64)
	}
	c.mu.limits[group] = limitBytes
}

// ColdGroups returns the groups that have read cold data within a minute, and those with a limit of their own, sorted by name, and what all have read together in the present window.
//
// Source: ColdDataCgCtrService.getColdDataFlowCtrInfo, 5.5.0.
func (s *Store) ColdGroups() (groups []ColdGroup, totalBytes int64) {
	c := &s.cold
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnLocked(time.Now())
	for name, g := range c.mu.groups {
		_, own := c.mu.limits[name]
		groups = append(groups, ColdGroup{
			Group: name, Bytes: g.bytes, LimitBytes: c.limitLocked(s.live(), name), OwnLimit: own, Last: g.last, Limited: c.limitedLocked(s.live(), name),
		})
	}
	for name, limit := range c.mu.limits {
		if c.mu.groups[name] == nil {
			groups = append(groups, ColdGroup{Group: name, LimitBytes: limit, OwnLimit: true})
		}
	}
	slices.SortFunc(groups, func(a, b ColdGroup) int { return cmp.Compare(a.Group, b.Group) })
	return groups, c.mu.total
}

// InColdArea tells whether the message at a queue offset is so far behind the end of the log that it is taken to be cold (AccessMessageInMemoryHotRatio). False
// without ColdDataFlowControlEnable, and where there is no such queue or message. Errors are those of OffsetByTime.
//
// Source: CommitLog.ColdDataCheckService.isMsgInColdArea, 5.5.0.
func (s *Store) InColdArea(topic string, queueID int32, queueOffset int64) (bool, error) {
	if !s.live().ColdDataFlowControlEnable {
		return false, nil
	}
	k := cq.Key{Topic: topic, QueueID: queueID}
	q, ok, err := s.queueFor("look for cold data", k)
	if err != nil || !ok {
		return false, err
	}
	u, ok, err := unitAt(q, queueOffset)
	if err != nil {
		return false, fmt.Errorf("look for cold data of %s at offset %d: %w", k, queueOffset, s.closedOr(err))
	}
	return ok && u.PhyOffset < s.hotFrom(s.writer.Log().EndOffset()), nil
}

// hotFrom returns the physical offset from which records are taken to be in memory, for a log that ends there.
func (s *Store) hotFrom(logEnd int64) int64 {
	return logEnd - s.memory.share(s.live().AccessMessageInMemoryHotRatio)
}
