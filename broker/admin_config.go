package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/internal/conffile"
	"github.com/tandemq/tandemmq/internal/property"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// blackList are the properties that no request may name. Source: BrokerConfig.configBlackList, 5.5.0.
var blackList = []string{"configBlackList", "brokerConfigPath"}

// getConfig serves GET_BROKER_CONFIG: all properties as they are in effect, a line each, sorted, and those that were set and have no effect.
func (b *Broker) getConfig(*remoting.Command, *remoting.Fields) (remoting.Command, error) {
	b.changing.Lock()
	all := b.live().Properties()
	maps.Copy(all, b.given)
	changes := b.changes
	b.changing.Unlock()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s=%s\n", name, all[name])
	}
	version, err := remoting.MarshalBody(meta.DataVersion{Counter: changes, TimestampMs: b.started.UnixMilli()})
	resp := remoting.Command{Code: remoting.Success, Body: []byte(text.String())}
	resp.Ext.Set("version", string(version))
	return resp, err
}

// updateConfig serves UPDATE_BROKER_CONFIG: properties of the broker and of its store that are live are in effect, and in ConfFile, when the answer goes. One that takes a restart, or a value that
// is none, is told in words, and nothing is changed then. Properties of RocketMQ's that are not known here are kept as they are given, and told of too.
//
// Source: AdminBrokerProcessor.updateBrokerConfig, 5.5.0, which takes whatever it is given.
func (b *Broker) updateConfig(req *remoting.Command, _ *remoting.Fields) (remoting.Command, error) {
	set, err := property.Parse(req.Body)
	if err != nil {
		return remoting.Command{}, remoting.Errorf(remoting.SystemError, "properties: %v", err)
	}
	if len(set) == 0 {
		return remoting.Command{}, remoting.Errorf(remoting.SystemError, "no property is given")
	}
	names := slices.Sorted(maps.Keys(set))
	for _, name := range names {
		if slices.Contains(blackList, name) {
			return remoting.Command{}, remoting.Errorf(remoting.NoPermission, "property %s cannot be changed by a request", name)
		}
		if strings.ContainsFunc(name+set[name], unicode.IsControl) { // GET_BROKER_CONFIG answers with a line for each
			return remoting.Command{}, remoting.Errorf(remoting.SystemError, "nothing is changed: property %q is %q, want no ends of lines or other control characters", name, set[name])
		}
	}
	if err := b.migrates(set); err != nil {
		return remoting.Command{}, remoting.Errorf(remoting.SystemError, "nothing is changed: %v", err)
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	old := b.live()
	now, unknown, err := changed(*old, set)
	if err != nil {
		return remoting.Command{}, remoting.Errorf(remoting.SystemError, "nothing is changed: %v", err)
	}
	if err := b.store.SetOptions(now.Store); err != nil {
		return remoting.Command{}, remoting.Errorf(remoting.SystemError, "nothing is changed: %v", err)
	}
	b.current.Store(&now)
	b.changes++
	for _, name := range unknown {
		if b.given == nil {
			b.given = map[string]string{}
		}
		b.given[name] = set[name]
	}
	b.log.Info("properties were changed on request", slog.Any("names", names))
	if err := b.configChanged(old, &now); err != nil {
		return remoting.Command{}, err
	}
	var remarks []string
	if len(unknown) > 0 {
		remarks = append(remarks, "kept, and without effect: "+strings.Join(unknown, ", "))
	}
	if b.o.ConfFile == "" {
		remarks = append(remarks, untilRestart)
		b.log.Warn(untilRestart, slog.Any("names", names))
	} else if err := writeConf(b.o.ConfFile, set); err != nil {
		return remoting.Command{}, remoting.Errorf(remoting.SystemError, "in effect until the broker is restarted, and not written: %v", err)
	}
	return remoting.Command{Code: remoting.Success, Remark: strings.Join(remarks, "; ")}, nil
}

const untilRestart = "changed properties are in effect until the broker is restarted: it was started without a broker.conf"

// writeConf sets properties in a broker.conf; a link to it stays one.
func writeConf(path string, set map[string]string) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return conffile.Replace(path, property.Edit(text, set))
}

// changed returns options with properties set, and properties that nothing here knows. The error joins every reason against it.
func changed(old Options, set map[string]string) (now Options, unknown []string, err error) {
	now = old
	var faults []error
	restart := func(name string) {
		faults = append(faults, fmt.Errorf("%s takes a restart of the broker", name))
	}
	ofStore := store.Properties(&old.Store)
	wanted := maps.Clone(ofStore)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		i := slices.IndexFunc(brokerProperties, func(p property.Field) bool { return p.Name == name })
		_, known := ofStore[name]
		switch {
		case i >= 0:
			p := &brokerProperties[i]
			if err := p.Set(&now, set[name]); err != nil {
				faults = append(faults, err)
			} else if !p.Live && p.Text(&now) != p.Text(&old) {
				restart(name)
			}
		case known:
			wanted[name] = set[name]
		case refused[name] != nil && !slices.Contains(refused[name], strings.ToLower(strings.TrimSpace(set[name]))):
			faults = append(faults, fmt.Errorf("%s is %s, which is not supported: there is no replication", name, set[name]))
		default:
			if why, _ := unprotected(name, set[name]); why != "" {
				faults = append(faults, fmt.Errorf("%s is set: %s", name, why))
				continue
			}
			unknown = append(unknown, name)
		}
	}
	s, _, err := store.ParseOptions(wanted)
	if err != nil {
		faults = append(faults, err)
	} else {
		for _, name := range store.RestartOnly(old.Store, s) {
			restart(name)
		}
		s.FS, s.IsBatchTopic, s.Logger = old.Store.FS, old.Store.IsBatchTopic, old.Store.Logger
		now.Store = s
	}
	if err := now.Validate(); err != nil {
		faults = append(faults, err)
	}
	return now, unknown, errors.Join(faults...)
}

// configChanged tells the NameServers what they have to know of a change.
func (b *Broker) configChanged(old, now *Options) error {
	if now.BrokerPermission != old.BrokerPermission {
		if err := b.topics.Touch(); err != nil { // a NameServer takes topics of a new version alone
			return err
		}
	} else if now.NamesrvAddr == old.NamesrvAddr {
		return nil
	}
	left := slices.DeleteFunc(old.NameServers(), func(addr string) bool { return slices.Contains(now.NameServers(), addr) })
	b.services.Go(func() {
		b.registerAll(b.ctx)
		if len(left) == 0 {
			return
		}
		if err := b.registrar.Unregister(b.ctx, left); err != nil {
			b.log.Warn("the broker was not unregistered", slog.Any("err", err))
		}
	})
	return nil
}

// exportConfig serves EXPORT_ROCKSDB_CONFIG_TO_JSON: topics, groups and offsets are written to their files, under the versions they have, in whatever form they are kept.
func (b *Broker) exportConfig(_ *remoting.Command, h *remoting.Fields) (remoting.Command, error) {
	kinds := h.String("configType")
	if err := h.Err(); err != nil {
		return remoting.Command{}, err
	}
	exports := map[string]func() error{"topics": b.topics.Export, "subscriptionGroups": b.groups.Export, "consumerOffsets": b.offsets.Export}
	var todo []func() error
	for kind := range strings.SplitSeq(kinds, ";") {
		if kind = strings.TrimSpace(kind); kind == "" {
			continue
		}
		export, known := exports[kind]
		if !known {
			return remoting.Command{}, remoting.Errorf(remoting.SystemError, "configType %q, want topics, subscriptionGroups or consumerOffsets, separated by ';'", kind)
		}
		todo = append(todo, export)
	}
	for _, export := range todo {
		if err := export(); err != nil {
			return remoting.Command{}, err
		}
	}
	return success(nil)
}

// setRequestMode serves SET_MESSAGE_REQUEST_MODE: groups pull, and nothing else.
func (b *Broker) setRequestMode(req *remoting.Command, _ *remoting.Fields) (remoting.Command, error) {
	var body struct {
		Topic string `json:"topic"`
		Mode  string `json:"mode"`
	}
	if err := remoting.UnmarshalBody(req.Body, &body); err != nil {
		return remoting.Command{}, err
	}
	if strings.HasPrefix(body.Topic, meta.RetryPrefix) {
		return remoting.Command{}, remoting.Errorf(remoting.NoPermission, "the mode of retry topic %s cannot be set", body.Topic)
	}
	if body.Mode != "PULL" {
		return remoting.Command{}, remoting.Errorf(remoting.SystemError, "mode %s is not supported, want PULL", body.Mode)
	}
	return success(nil)
}

// requestModes serves GET_ALL_MESSAGE_REQUEST_MODE: no group has another mode than the default.
func (b *Broker) requestModes(*remoting.Command, *remoting.Fields) (remoting.Command, error) {
	return withBody(struct {
		Modes struct{} `json:"messageRequestModeMap"`
	}{})
}

// recall serves RECALL_MESSAGE, which is not enabled by default in 5.5.0 and not at all here.
func (b *Broker) recall(*remoting.Command, *remoting.Fields) (remoting.Command, error) {
	return remoting.Command{}, remoting.Errorf(remoting.NoPermission, "messages cannot be recalled: recallMessageEnable is false")
}
