package broker

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tandemq/tandemmq/broker/acl"
	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/remoting"
)

// protections are properties of RocketMQ's that ask for a protection which is not there: the value that does not ask for it, and what to do.
var protections = map[string]struct{ off, why string }{
	"authenticationEnabled":       {"false", "there are no users of that kind; aclEnable=true checks requests by a plain_acl.yml"},
	"authorizationEnabled":        {"false", "there are no users of that kind; aclEnable=true checks requests by a plain_acl.yml"},
	"tls.server.need.client.auth": {"none", "certificates of clients are not checked"},
	"tls.server.authClient":       {"false", "certificates of clients are not checked"},
	"tls.server.keyPassword":      {"", "an encrypted key cannot be read; decrypt it into a file that the broker alone may read"},
	"tls.client.keyPath":          {"", "the broker has no certificate as a client"},
	"tls.client.keyPassword":      {"", "the broker has no certificate as a client"},
	"tls.client.certPath":         {"", "the broker has no certificate as a client"},
}

// unprotected tells whether a property is one of protections, and why its value cannot be had; "" if it asks for nothing. The value is not in it.
func unprotected(name, value string) (why string, ok bool) {
	p, ok := protections[name]
	if value = strings.TrimSpace(value); value == "" || strings.EqualFold(value, p.off) {
		return "", ok
	}
	return p.why, ok
}

// securityFaults are those of the options of TLS and access rules.
func (o *Options) securityFaults() (faults []error) {
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("broker options: "+format, args...))
	}
	switch o.TLSMode {
	case remoting.TLSDisabled:
	case remoting.TLSPermissive, remoting.TLSEnforcing:
		if (o.TLSCertPath == "" || o.TLSKeyPath == "") && !o.TLSTestMode {
			bad("tls.server.mode is %s, and tls.server.certPath or tls.server.keyPath is missing; tls.test.mode.enable=true has a pair made that nobody has signed", o.TLSMode)
		}
		if (o.TLSCertPath == "") != (o.TLSKeyPath == "") {
			bad("of tls.server.certPath and tls.server.keyPath one is given, want both or none")
		}
	default:
		bad("tls.server.mode is %q, want disabled, permissive or enforcing", o.TLSMode)
	}
	if o.TLSMode == remoting.TLSEnforcing && o.EmbeddedNamesrv != "" && !o.TLSEnable {
		bad("tls.server.mode is enforcing, the embedded NameServer's too, and tls.enable is false: the broker could not register with it")
	}
	if o.TLSMode == remoting.TLSDisabled && o.EmbeddedNamesrv != "" && o.TLSEnable {
		bad("tls.enable is true, and tls.server.mode disabled, the embedded NameServer's too: the broker could not register with it")
	}
	if o.ACLEnable && o.ACLFile == "" {
		bad("aclEnable is true, and aclFile is missing: the path of a plain_acl.yml")
	}
	return faults
}

// serverTLS is what the options say of connections that come in.
func (o *Options) serverTLS() remoting.TLSOptions {
	return remoting.TLSOptions{Mode: o.TLSMode, CertFile: o.TLSCertPath, KeyFile: o.TLSKeyPath}
}

// clientTLS is for connections to NameServers; nil: without TLS.
func (o *Options) clientTLS() (*tls.Config, error) {
	if !o.TLSEnable {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: !o.TLSAuthServer} // as tls.client.authServer says, false by default as in RocketMQ
	if o.TLSTrustCertPath == "" {
		return c, nil
	}
	pem, err := os.ReadFile(o.TLSTrustCertPath)
	if err != nil {
		return nil, fmt.Errorf("tls.client.trustCertPath: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls.client.trustCertPath: %s has no certificate in PEM", o.TLSTrustCertPath)
	}
	return c, nil
}

// defaultACLFile is where RocketMQ looks for the access rules; "" where nobody says where it is.
func defaultACLFile() string {
	if home := os.Getenv("ROCKETMQ_HOME"); home != "" {
		return filepath.Join(home, "conf", "plain_acl.yml")
	}
	return ""
}

// memoryBytes is the memory of the machine, or of the control group if that has less; 8 GiB where nobody says.
func memoryBytes() int64 {
	n := mmap.MemoryBytes()
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if most, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && (n == 0 || most < n) { // "max" is no number
			n = most
		}
	}
	if n <= 0 {
		return 8 << 30
	}
	return n
}

// openRules reads the access rules, if there are any.
func (b *Broker) openRules() (err error) {
	if b.o.ACLEnable {
		b.rules, err = acl.Open(b.o.ACLFile, b.log)
	}
	return err
}

// guarded serves what the access rules allow.
func (b *Broker) guarded(m remoting.Mux) remoting.Handler {
	if b.rules == nil {
		return m
	}
	return remoting.HandlerFunc(func(c *remoting.Conn, req *remoting.Command) {
		if _, ok := m[req.Code]; ok {
			if err := b.rules.Rules().Allow(c.RemoteAddr(), req, b.topicAt); err != nil {
				b.log.Debug("a request was refused", slog.String("request", remoting.RequestCodeName(req.Code)), slog.String("remote", c.RemoteAddr()), slog.Any("err", err))
				c.RespondError(req, err)
				return
			}
		}
		m.Serve(c, req)
	})
}

// topicAt tells the topic of a record, and of one that only waits in another topic that which it is for; false if there is no record.
func (b *Broker) topicAt(phyOffset int64) (string, bool) {
	var r message.Record
	release, err := b.store.MessageAt(phyOffset, &r)
	if err != nil {
		return "", false
	}
	defer release()
	topic := string(r.Topic)
	if topic == meta.HalfTopic || topic == meta.ScheduleTopic {
		if of, ok := r.Property(message.PropertyRealTopic); ok {
			return string(of), true
		}
	}
	return topic, true
}
