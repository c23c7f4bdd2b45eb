package broker

import (
	"maps"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/broker/clients"
	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/remoting"
)

// updateGroup serves UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: the group is durable when the answer goes.
//
// Source: AdminBrokerProcessor.updateAndCreateSubscriptionGroup, 5.5.0.
func (b *Broker) updateGroup(req *remoting.Command, _ *remoting.Fields) (remoting.Command, error) {
	var g meta.Group
	if err := remoting.UnmarshalBody(req.Body, &g); err != nil {
		return remoting.Command{}, err
	}
	return success(b.putGroups(g))
}

// updateGroups serves UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: all of them, or none if one cannot be.
func (b *Broker) updateGroups(req *remoting.Command, _ *remoting.Fields) (remoting.Command, error) {
	var body struct {
		Groups []meta.Group `json:"groupConfigList"`
	}
	if err := remoting.UnmarshalBody(req.Body, &body); err != nil {
		return remoting.Command{}, err
	}
	if len(body.Groups) == 0 {
		return remoting.Command{}, remoting.Errorf(remoting.InvalidParameter, "the list of groups is empty")
	}
	return success(b.putGroups(body.Groups...))
}

// putGroups makes or changes groups. Attributes have the sign of a change before their name, or none, which sets them.
func (b *Broker) putGroups(groups ...meta.Group) error {
	for i := range groups {
		g := &groups[i]
		if err := meta.CheckGroupName(g.Name); err != nil {
			return remoting.Errorf(remoting.InvalidParameter, "%v", err)
		}
		if g.RetryQueues < 0 || g.RetryQueues > maxTopicQueues {
			return remoting.Errorf(remoting.InvalidParameter, "group %s: retryQueueNums is %d, want 0 to %d", g.Name, g.RetryQueues, maxTopicQueues)
		}
		old, _ := b.groups.Known(g.Name)
		attributes := map[string]string{}
		maps.Copy(attributes, old.Attributes)
		for name, value := range g.Attributes {
			if gone, ok := strings.CutPrefix(name, "-"); ok {
				delete(attributes, gone)
				continue
			}
			attributes[strings.TrimPrefix(name, "+")] = value
		}
		g.Attributes = attributes
	}
	return b.groups.Put(groups...)
}

// allGroups serves GET_ALL_SUBSCRIPTIONGROUP_CONFIG.
func (b *Broker) allGroups(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	all, forbidden, v := b.groups.All()
	part := page(all, h, "groupSeq", "maxGroupNum", v)
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	if len(part) < len(all) {
		maps.DeleteFunc(forbidden, func(name string, _ map[string]int32) bool { _, ok := part[name]; return !ok })
	}
	resp, err := withBody(struct {
		Version   meta.DataVersion            `json:"dataVersion"`
		Forbidden map[string]map[string]int32 `json:"forbiddenTable"`
		Table     map[string]meta.Group       `json:"subscriptionGroupTable"`
	}{v, forbidden, part})
	resp.Ext.SetInt("totalGroupNum", int64(len(all)))
	return resp, err
}

// deleteGroup serves DELETE_SUBSCRIPTIONGROUP. Offsets of the group stay unless the request says otherwise; an unknown group is no error.
//
// Source: AdminBrokerProcessor.deleteSubscriptionGroup, 5.5.0.
func (b *Broker) deleteGroup(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	name, clean := h.String("groupName"), h.BoolOr("cleanOffset", false)
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	if meta.IsSystemGroup(name) {
		return remoting.Command{}, remoting.Errorf(remoting.InvalidParameter, "group %s is the system's own", name)
	}
	if err := b.groups.Delete(name); err != nil {
		return remoting.Command{}, err
	}
	b.counts.table.Remove(name)
	if !clean {
		return success(nil)
	}
	b.offsets.RemoveGroup(name)
	return success(b.offsets.Save())
}

// groupConfig serves GET_SUBSCRIPTIONGROUP_CONFIG, which makes no group.
func (b *Broker) groupConfig(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	name := h.String("group")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	g, ok := b.groups.Known(name)
	if !ok {
		return remoting.Command{}, remoting.Errorf(remoting.SubscriptionGroupNotExist, "there is no group %s", name)
	}
	return withBody(g)
}

// groupForbidden serves UPDATE_AND_GET_GROUP_FORBIDDEN: whether a group may read a topic, which the request may change.
func (b *Broker) groupForbidden(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	group, topic := strings.Clone(h.String("group")), strings.Clone(h.String("topic"))
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	if h.Has("readable") {
		if err := b.groups.SetReadable(group, topic, h.BoolOr("readable", true)); err != nil {
			return remoting.Command{}, err
		}
	}
	return withBody(struct {
		Group    string `json:"group"`
		Readable bool   `json:"readable"`
		Topic    string `json:"topic"`
	}{group, b.groups.Readable(group, topic), topic})
}

// groupsOfTopic serves QUERY_TOPIC_CONSUME_BY_WHO: groups that are online on the topic, and those with offsets for it.
func (b *Broker) groupsOfTopic(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	topic := h.String("topic")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	groups := append(append([]string{}, b.clients.GroupsOn(topic)...), b.offsets.GroupsOf(topic)...)
	slices.Sort(groups)
	return withBody(struct {
		Groups []string `json:"groupList"`
	}{slices.Compact(groups)})
}

// topicsOfGroup serves QUERY_TOPICS_BY_CONSUMER: those that the group has offsets for.
func (b *Broker) topicsOfGroup(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	group := h.String("group")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	return withBody(topicList{b.announced.String(), append([]string{}, b.offsets.TopicsOf(group)...)})
}

// subscriptionOfGroup serves QUERY_SUBSCRIPTION_BY_CONSUMER: what the group's members want of a topic, if it has any.
func (b *Broker) subscriptionOfGroup(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	group, topic := h.String("group"), h.String("topic")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	s, _, _ := b.clients.Subscription(group, topic)
	return withBody(struct {
		Group        string                `json:"group"`
		Subscription *clients.Subscription `json:"subscriptionData,omitempty"`
		Topic        string                `json:"topic"`
	}{group, s, topic})
}
