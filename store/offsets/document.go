package offsets

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tandemq/tandemmq/cq"
)

// Members of an offset file. Of all members 5.5.0 reads back these only; others are kept as they are.
//
//	offsetTable     {"topic@group": {queueId: offset, ...}, ...}
//	lmqOffsetTable  {"topic@group": offset, ...}, groups of light queues (%LMQ%...), queue 0; lmqConsumerOffset.json only
//	dataVersion     {"counter", "stateVersion", "timestamp"}; may be absent
//
// Source: files written by 5.5.0, and what it read of files made for the purpose (tests/interop).
const (
	tableMember    = "offsetTable"
	lmqTableMember = "lmqOffsetTable"
	versionMember  = "dataVersion"
)

// document is an offset file taken apart, so that it can be put together again with other offsets and nothing else changed.
type document struct {
	path    string
	raw     []byte
	root    node
	offsets map[Key]Value
	version *Version
	faults  []Fault // what 5.5.0 would not take
	notes   []string
}

// Fault is a place in a file for which 5.5.0 rejects all of it.
type Fault struct {
	Key  *Key   `json:"key,omitempty"` // nil where the place belongs to no queue
	At   string `json:"at"`
	Text string `json:"text"`
}

// FileError tells that a file cannot be read as an offset file.
type FileError struct {
	Path string
	At   string // line and column; "" for the whole file
	Text string
	Err  error
}

func (e *FileError) Error() string {
	s := "read offset file " + e.Path
	if e.At != "" {
		s += " at " + e.At
	}
	if e.Err != nil {
		return s + ": " + e.Err.Error()
	}
	return s + ": " + e.Text
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// parseDocument takes the text of a file apart. Errors: *FileError. Single values that are no offsets are no error, but
// faults. light says that the file is one of a broker with enableLmq, which has a table of its own for light queues.
func parseDocument(path string, raw []byte, light bool) (*document, error) {
	d := &document{path: path, raw: raw, offsets: map[Key]Value{}}
	if len(raw) == 0 {
		return nil, &FileError{Path: path, Text: "it is empty"}
	}
	if i := slices.IndexFunc(raw, func(c byte) bool { return c != 0 }); i < 0 {
		return nil, &FileError{Path: path, Text: fmt.Sprintf("it is %d zero bytes", len(raw))}
	}
	root, rest, err := parseJSON(raw)
	if syntax := (*syntaxError)(nil); errors.As(err, &syntax) {
		return nil, &FileError{Path: path, At: place(raw, syntax.at), Text: syntax.text}
	}
	if root.kind != objectNode {
		return nil, &FileError{Path: path, At: place(raw, root.at), Text: fmt.Sprintf("%s, want an object", clip(root.raw))}
	}
	d.root = root
	if rest < len(raw) {
		d.notes = append(d.notes, fmt.Sprintf("%s: bytes behind the end of the object are ignored", place(raw, rest)))
	}
	table := root.member(tableMember)
	if table == nil {
		return nil, &FileError{Path: path, Text: "it has no " + tableMember}
	}
	if err := d.readTable(table); err != nil {
		return nil, err
	}
	if n := root.member(lmqTableMember); light && n != nil {
		if n.kind != objectNode {
			return nil, &FileError{Path: path, At: place(raw, n.at), Text: fmt.Sprintf("%s is %s, want an object", lmqTableMember, clip(n.raw))}
		}
		d.readLight(n)
	}
	return d, d.readVersion()
}

func (d *document) readVersion() error {
	n := d.root.member(versionMember)
	if n == nil {
		return nil
	}
	if n.kind != objectNode {
		if string(n.raw) == "null" {
			return nil
		}
		return &FileError{Path: d.path, At: place(d.raw, n.at), Text: fmt.Sprintf("%s is %s, want an object", versionMember, clip(n.raw))}
	}
	v := Version{}
	for name, to := range map[string]*int64{"counter": &v.Counter, "stateVersion": &v.StateVersion, "timestamp": &v.TimestampMs} {
		m := n.member(name)
		if m == nil {
			continue
		}
		whole, bad := parseWhole(m)
		if bad != "" {
			return &FileError{Path: d.path, At: place(d.raw, m.at), Text: fmt.Sprintf("%s.%s is %s", versionMember, name, bad)}
		}
		*to = whole
	}
	d.version = &v
	return nil
}

func (d *document) readTable(table *node) error {
	if table.kind != objectNode {
		return &FileError{Path: d.path, At: place(d.raw, table.at), Text: fmt.Sprintf("%s is %s, want an object", tableMember, clip(table.raw))}
	}
	seen := make(map[string]bool, len(table.members))
	for i := range table.members {
		m := &table.members[i]
		topic, group, ok := splitRow(m.key)
		if !ok {
			d.note(m.at, "key %q has not one @ between topic and group: no group reads it", m.key)
			continue
		}
		if seen[m.key] {
			d.note(m.at, "key %q stands there twice: the last one counts", m.key)
			d.forget(topic, group)
		}
		seen[m.key] = true
		if m.value.kind != objectNode {
			d.fault(nil, m.value.at, "the queues of %q are %s, want an object", m.key, clip(m.value.raw))
			continue
		}
		for j := range m.value.members {
			q := &m.value.members[j]
			id, err := strconv.ParseInt(q.key, 10, 64)
			if err != nil || id < math.MinInt32 || id > math.MaxInt32 {
				d.fault(nil, q.at, "queue id %q of %q is no 32-bit number", q.key, m.key)
				continue
			}
			d.add(Key{topic, group, int32(id)}, &q.value)
		}
	}
	return nil
}

func (d *document) readLight(table *node) {
	for i := range table.members {
		m := &table.members[i]
		topic, group, ok := splitRow(m.key)
		if !ok {
			d.note(m.at, "key %q has not one @ between topic and group: no group reads it", m.key)
			continue
		}
		d.add(Key{topic, group, 0}, &m.value)
	}
}

// add takes one value in.
func (d *document) add(k Key, n *node) {
	v := Value{At: place(d.raw, n.at)}
	if v.Offset, v.Bad = parseWhole(n); v.Bad != "" {
		d.fault(&k, n.at, "%s", v.Bad)
	}
	d.offsets[k] = v
}

// forget drops what an earlier member of the same key said.
func (d *document) forget(topic, group string) {
	for k := range d.offsets {
		if k.Topic == topic && k.Group == group {
			delete(d.offsets, k)
		}
	}
	d.faults = slices.DeleteFunc(d.faults, func(f Fault) bool { return f.Key != nil && f.Key.Topic == topic && f.Key.Group == group })
}

func (d *document) note(at int, format string, args ...any) {
	d.notes = append(d.notes, place(d.raw, at)+": "+fmt.Sprintf(format, args...))
}

func (d *document) fault(k *Key, at int, format string, args ...any) {
	d.faults = append(d.faults, Fault{Key: k, At: place(d.raw, at), Text: fmt.Sprintf(format, args...)})
}

// splitRow takes topic and group out of a key of the table.
func splitRow(row string) (topic, group string, ok bool) {
	topic, group, ok = strings.Cut(row, "@")
	return topic, group, ok && topic != "" && group != "" && !strings.Contains(group, "@")
}

func isRow(key string) bool {
	_, _, ok := splitRow(key)
	return ok
}

// render puts a file together: the members of base (which may be nil) as they stand there, with these offsets and this
// version (nil: none). It is indented by tabs, with integer keys bare, as 5.5.0 writes it; rows keep their order, new ones come last.
func render(base *document, offsets map[Key]int64, v *Version, light bool) []byte {
	if base == nil {
		base = &document{}
	}
	rows, lightRows := map[string][]Key{}, []Key{}
	for k := range offsets {
		if light && strings.HasPrefix(k.Group, cq.LMQPrefix) {
			lightRows = append(lightRows, k)
			continue
		}
		rows[k.row()] = append(rows[k.row()], k)
	}
	slices.SortFunc(lightRows, Key.Compare)
	w := &writer{b: []byte("{")}
	own := []ownMember{
		{versionMember, func(n *node) { w.version(n, v) }},
		{tableMember, func(n *node) { w.table(n, rows, offsets) }},
	}
	if light {
		own = append(own, ownMember{lmqTableMember, func(n *node) { w.light(n, lightRows, offsets) }})
	}
	w.members(&base.root, own)
	return append(w.b, "\n}"...)
}

type writer struct {
	b     []byte
	comma bool
}

// member begins a member of an object whose members are indented by so many tabs.
func (w *writer) member(tabs int, key string, bare bool) {
	if w.comma {
		w.b = append(w.b, ',')
	}
	w.comma = true
	w.b = append(w.b, '\n')
	for range tabs {
		w.b = append(w.b, '\t')
	}
	if bare {
		w.b = append(w.b, key...)
	} else {
		w.b = appendQuoted(w.b, key)
	}
	w.b = append(w.b, ':')
}

func (w *writer) open() { w.b, w.comma = append(w.b, '{'), false }

func (w *writer) close(tabs int) {
	if w.comma {
		w.b = append(w.b, '\n')
		for range tabs {
			w.b = append(w.b, '\t')
		}
	}
	w.b, w.comma = append(w.b, '}'), true
}

// ownMember is a member that is written anew; n is the one in the text, nil when there is none.
type ownMember struct {
	name  string
	write func(n *node)
}

// members writes the top level: our own members anew, everything else as it stands.
func (w *writer) members(root *node, own []ownMember) {
	done := map[string]bool{}
	for i := range root.members {
		m := &root.members[i]
		at := slices.IndexFunc(own, func(o ownMember) bool { return o.name == m.key })
		switch {
		case at < 0:
			w.member(1, m.key, false)
			w.b = append(w.b, m.value.raw...)
		case !done[m.key]:
			own[at].write(root.member(m.key))
			done[m.key] = true
		}
	}
	for _, o := range own {
		if !done[o.name] {
			o.write(nil)
		}
	}
}

func (w *writer) version(n *node, v *Version) {
	if v == nil {
		return
	}
	w.member(1, versionMember, false)
	w.open()
	own := map[string]int64{"counter": v.Counter, "stateVersion": v.StateVersion, "timestamp": v.TimestampMs}
	for _, name := range []string{"counter", "stateVersion", "timestamp"} {
		w.member(2, name, false)
		w.b = strconv.AppendInt(w.b, own[name], 10)
	}
	if n != nil {
		for i := range n.members {
			if m := &n.members[i]; !hasKey(own, m.key) {
				w.member(2, m.key, false)
				w.b = append(w.b, m.value.raw...)
			}
		}
	}
	w.close(1)
}

func hasKey[K comparable, V any](m map[K]V, key K) bool {
	_, ok := m[key]
	return ok
}

func (w *writer) table(n *node, rows map[string][]Key, offsets map[Key]int64) {
	w.member(1, tableMember, false)
	w.open()
	if n != nil {
		for i := range n.members {
			m := &n.members[i]
			switch keys, ok := rows[m.key]; {
			case ok:
				w.row(m.key, keys, offsets)
				delete(rows, m.key)
			case !isRow(m.key) || m.value.kind == objectNode && len(m.value.members) == 0:
				w.member(2, m.key, false) // read by nobody, or without a queue
				w.b = append(w.b, m.value.raw...)
			}
		}
	}
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		w.row(row, rows[row], offsets)
	}
	w.close(1)
}

func (w *writer) row(row string, keys []Key, offsets map[Key]int64) {
	w.member(2, row, false)
	w.open()
	slices.SortFunc(keys, Key.Compare)
	for _, k := range keys {
		w.member(3, strconv.Itoa(int(k.QueueID)), true)
		w.b = strconv.AppendInt(w.b, offsets[k], 10)
	}
	w.close(2)
}

func (w *writer) light(n *node, rows []Key, offsets map[Key]int64) {
	w.member(1, lmqTableMember, false)
	w.open()
	if n != nil {
		for i := range n.members {
			if m := &n.members[i]; !isRow(m.key) {
				w.member(2, m.key, false)
				w.b = append(w.b, m.value.raw...)
			}
		}
	}
	for _, k := range rows {
		w.member(2, k.row(), false)
		w.b = strconv.AppendInt(w.b, offsets[k], 10)
	}
	w.close(1)
}
