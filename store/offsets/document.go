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
	"github.com/tandemq/tandemmq/internal/laxjson"
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
	root    laxjson.Node
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
	root, rest, err := laxjson.Parse(raw)
	if syntax := (*laxjson.SyntaxError)(nil); errors.As(err, &syntax) {
		return nil, &FileError{Path: path, At: laxjson.Place(raw, syntax.At), Text: syntax.Text}
	}
	if root.Kind != laxjson.Object {
		return nil, &FileError{Path: path, At: laxjson.Place(raw, root.At), Text: fmt.Sprintf("%s, want an object", clip(root.Raw))}
	}
	d.root = root
	if rest < len(raw) {
		d.notes = append(d.notes, fmt.Sprintf("%s: bytes behind the end of the object are ignored", laxjson.Place(raw, rest)))
	}
	table := root.Member(tableMember)
	if table == nil {
		return nil, &FileError{Path: path, Text: "it has no " + tableMember}
	}
	if err := d.readTable(table); err != nil {
		return nil, err
	}
	if n := root.Member(lmqTableMember); light && n != nil {
		if n.Kind != laxjson.Object {
			return nil, &FileError{Path: path, At: laxjson.Place(raw, n.At), Text: fmt.Sprintf("%s is %s, want an object", lmqTableMember, clip(n.Raw))}
		}
		d.readLight(n)
	}
	return d, d.readVersion()
}

func (d *document) readVersion() error {
	n := d.root.Member(versionMember)
	if n == nil {
		return nil
	}
	if n.Kind != laxjson.Object {
		if string(n.Raw) == "null" {
			return nil
		}
		return &FileError{Path: d.path, At: laxjson.Place(d.raw, n.At), Text: fmt.Sprintf("%s is %s, want an object", versionMember, clip(n.Raw))}
	}
	v := Version{}
	for name, to := range map[string]*int64{"counter": &v.Counter, "stateVersion": &v.StateVersion, "timestamp": &v.TimestampMs} {
		m := n.Member(name)
		if m == nil {
			continue
		}
		whole, bad := parseWhole(m)
		if bad != "" {
			return &FileError{Path: d.path, At: laxjson.Place(d.raw, m.At), Text: fmt.Sprintf("%s.%s is %s", versionMember, name, bad)}
		}
		*to = whole
	}
	d.version = &v
	return nil
}

func (d *document) readTable(table *laxjson.Node) error {
	if table.Kind != laxjson.Object {
		return &FileError{Path: d.path, At: laxjson.Place(d.raw, table.At), Text: fmt.Sprintf("%s is %s, want an object", tableMember, clip(table.Raw))}
	}
	seen := make(map[string]bool, len(table.Members))
	for i := range table.Members {
		m := &table.Members[i]
		topic, group, ok := splitRow(m.Key)
		if !ok {
			d.note(m.At, "key %q has not one @ between topic and group: no group reads it", m.Key)
			continue
		}
		if seen[m.Key] {
			d.note(m.At, "key %q stands there twice: the last one counts", m.Key)
			d.forget(topic, group)
		}
		seen[m.Key] = true
		if m.Value.Kind != laxjson.Object {
			d.fault(nil, m.Value.At, "the queues of %q are %s, want an object", m.Key, clip(m.Value.Raw))
			continue
		}
		for j := range m.Value.Members {
			q := &m.Value.Members[j]
			id, err := strconv.ParseInt(q.Key, 10, 64)
			if err != nil || id < math.MinInt32 || id > math.MaxInt32 {
				d.fault(nil, q.At, "queue id %q of %q is no 32-bit number", q.Key, m.Key)
				continue
			}
			d.add(Key{topic, group, int32(id)}, &q.Value)
		}
	}
	return nil
}

func (d *document) readLight(table *laxjson.Node) {
	for i := range table.Members {
		m := &table.Members[i]
		topic, group, ok := splitRow(m.Key)
		if !ok {
			d.note(m.At, "key %q has not one @ between topic and group: no group reads it", m.Key)
			continue
		}
		d.add(Key{topic, group, 0}, &m.Value)
	}
}

// add takes one value in.
func (d *document) add(k Key, n *laxjson.Node) {
	v := Value{At: laxjson.Place(d.raw, n.At)}
	if v.Offset, v.Bad = parseWhole(n); v.Bad != "" {
		d.fault(&k, n.At, "%s", v.Bad)
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
	d.notes = append(d.notes, laxjson.Place(d.raw, at)+": "+fmt.Sprintf(format, args...))
}

func (d *document) fault(k *Key, at int, format string, args ...any) {
	d.faults = append(d.faults, Fault{Key: k, At: laxjson.Place(d.raw, at), Text: fmt.Sprintf(format, args...)})
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
		{versionMember, func(n *laxjson.Node) { w.version(n, v) }},
		{tableMember, func(n *laxjson.Node) { w.table(n, rows, offsets) }},
	}
	if light {
		own = append(own, ownMember{lmqTableMember, func(n *laxjson.Node) { w.light(n, lightRows, offsets) }})
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
		w.b = laxjson.AppendQuoted(w.b, key)
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
	write func(n *laxjson.Node)
}

// members writes the top level: our own members anew, everything else as it stands.
func (w *writer) members(root *laxjson.Node, own []ownMember) {
	done := map[string]bool{}
	for i := range root.Members {
		m := &root.Members[i]
		at := slices.IndexFunc(own, func(o ownMember) bool { return o.name == m.Key })
		switch {
		case at < 0:
			w.member(1, m.Key, false)
			w.b = append(w.b, m.Value.Raw...)
		case !done[m.Key]:
			own[at].write(root.Member(m.Key))
			done[m.Key] = true
		}
	}
	for _, o := range own {
		if !done[o.name] {
			o.write(nil)
		}
	}
}

func (w *writer) version(n *laxjson.Node, v *Version) {
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
		for i := range n.Members {
			if m := &n.Members[i]; !hasKey(own, m.Key) {
				w.member(2, m.Key, false)
				w.b = append(w.b, m.Value.Raw...)
			}
		}
	}
	w.close(1)
}

func hasKey[K comparable, V any](m map[K]V, key K) bool {
	_, ok := m[key]
	return ok
}

func (w *writer) table(n *laxjson.Node, rows map[string][]Key, offsets map[Key]int64) {
	w.member(1, tableMember, false)
	w.open()
	if n != nil {
		for i := range n.Members {
			m := &n.Members[i]
			switch keys, ok := rows[m.Key]; {
			case ok:
				w.row(m.Key, keys, offsets)
				delete(rows, m.Key)
			case !isRow(m.Key) || m.Value.Kind == laxjson.Object && len(m.Value.Members) == 0:
				w.member(2, m.Key, false) // read by nobody, or without a queue
				w.b = append(w.b, m.Value.Raw...)
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

func (w *writer) light(n *laxjson.Node, rows []Key, offsets map[Key]int64) {
	w.member(1, lmqTableMember, false)
	w.open()
	if n != nil {
		for i := range n.Members {
			if m := &n.Members[i]; !isRow(m.Key) {
				w.member(2, m.Key, false)
				w.b = append(w.b, m.Value.Raw...)
			}
		}
	}
	for _, k := range rows {
		w.member(2, k.row(), false)
		w.b = strconv.AppendInt(w.b, offsets[k], 10)
	}
	w.close(1)
}
