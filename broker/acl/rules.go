package acl

import (
	"net/netip"
	"strings"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/remoting"
)

// Permission is what may be done with a topic or a group.
type Permission uint8

// The permissions, to be added up. DENY is none of them.
const (
	Pub Permission = 1 << iota
	Sub
	deny Permission = 0
)

func (p Permission) String() string {
	switch p {
	case deny:
		return "DENY"
	case Pub:
		return "PUB"
	case Sub:
		return "SUB"
	}
	return "PUB|SUB"
}

// Rules say who may do what. They never change.
type Rules struct {
	white    addresses
	accounts map[string]*account
}

type account struct {
	accessKey, secretKey string
	white                addresses
	admin                bool
	topic, group         Permission // where nothing is said
	topics, groups       map[string]Permission
}

// Accounts is how many there are.
func (r *Rules) Accounts() int { return len(r.accounts) }

// TopicAt tells the topic of the record at a physical offset, that which it is for where it only waits in another; false where there is no record.
type TopicAt func(phyOffset int64) (string, bool)

// Allow returns nil if a request from remote, HOST:PORT, may be served, or the answer: a *remoting.ResponseError. The body and the fields must be as they came in.
func (r *Rules) Allow(remote string, req *remoting.Command, at TopicAt) error {
	var from netip.Addr // one that is none is in no list
	if ap, err := netip.ParseAddrPort(remote); err == nil {
		from = ap.Addr()
	}
	if r.white.has(from) {
		return nil
	}
	key := strings.TrimSpace(req.Ext.Get(remoting.FieldAccessKey))
	if key == "" {
		return refuse("%s needs an access key", req)
	}
	a := r.accounts[key]
	if a == nil { // the same words as below: nobody shall try which accounts there are
		return refuse(badKey, req)
	}
	if a.white.has(from) {
		return nil
	}
	if !remoting.VerifySignature(req, a.secretKey) {
		return refuse(badKey, req)
	}
	if a.admin {
		return nil
	}
	needs, err := needsOf(req, at)
	if err != nil {
		return err
	}
	if needs.admin {
		return refuse("%s needs an admin's account", req)
	}
	for _, n := range needs.list {
		if err := a.check(req, n); err != nil {
			return err
		}
	}
	return nil
}

const badKey = "%s: the access key or the signature is wrong"

func refuse(format string, req *remoting.Command) error {
	return remoting.Errorf(remoting.NoPermission, format, remoting.RequestCodeName(req.Code))
}

// check tells whether the account has one of the rights that are wanted.
func (a *account) check(req *remoting.Command, n need) error {
	what, name, wanted := "topic", n.name, n.of
	if group, ok := strings.CutPrefix(name, meta.RetryPrefix); ok && !n.group {
		n.group, name, wanted = true, group, Sub
	}
	has, ok := a.topics[name]
	if !ok {
		has = a.topic
	}
	if n.group {
		what = "group"
		if has, ok = a.groups[name]; !ok {
			has = a.group
		}
	}
	if has&wanted != 0 {
		return nil
	}
	return remoting.Errorf(remoting.NoPermission, "%s: the account has no permission %v on %s %s", remoting.RequestCodeName(req.Code), wanted, what, name)
}
