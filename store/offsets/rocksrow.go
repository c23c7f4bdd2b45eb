package offsets

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/tandemq/tandemmq/internal/laxjson"
)

// Rows of the databases in which 5.5.0 keeps offsets.
//
//	place           family                 key                    value
//	rocksdb         default                topic@group            {"offsetTable":{"queueId":offset}}
//	                kvDataVersion          kvDataVersionKey       {"counter":..,"stateVersion":..,"timestamp":..}
//	rocksdb-single  consumerOffset         as above               as above
//	                consumerOffsetVersion  as above               as above
//	rocksdb-v2      default                see v2Key              i64 offset
//	                default                01 0001 01 data_version  i64 stateVersion, timestamp, counter
//
// All integers are big-endian. Source: databases written by 5.5.0 (testdata).
type familyNames struct{ offsets, version string }

var families = map[Place]familyNames{
	Rocks:       {"default", "kvDataVersion"},
	RocksSingle: {"consumerOffset", "consumerOffsetVersion"},
	RocksV2:     {"default", ""},
}

const versionRow = "kvDataVersionKey"

// takeRow takes in a row of configManagerVersion=v1.
func (s *Source) takeRow(key, value []byte) {
	topic, group, ok := splitRow(string(key))
	if !ok {
		s.Notes = append(s.Notes, fmt.Sprintf("row %q has not one @ between topic and group: no group reads it", key))
		return
	}
	root, _, err := laxjson.Parse(value)
	table := root.Member(tableMember)
	if err != nil || root.Kind != laxjson.Object || table == nil || table.Kind != laxjson.Object {
		s.Faults = append(s.Faults, Fault{At: fmt.Sprintf("row %q", key), Text: fmt.Sprintf("%s, want an object with %s", clip(value), tableMember)})
		return
	}
	for i := range table.Members {
		m := &table.Members[i]
		id, err := strconv.ParseInt(m.Key, 10, 32)
		if err != nil {
			s.Faults = append(s.Faults, Fault{At: fmt.Sprintf("row %q", key), Text: fmt.Sprintf("queue id %q is no 32-bit number", m.Key)})
			continue
		}
		k, v := Key{topic, group, int32(id)}, Value{}
		if v.Offset, v.Bad = parseWhole(&m.Value); v.Bad != "" {
			s.Faults = append(s.Faults, Fault{Key: &k, At: fmt.Sprintf("row %q", key), Text: v.Bad})
		}
		s.Offsets[k] = v
	}
}

// takeVersion takes in the version of configManagerVersion=v1.
func (s *Source) takeVersion(value []byte) error {
	d := &document{path: s.Path, raw: value}
	root, _, err := laxjson.Parse(value)
	if err != nil {
		return fmt.Errorf("row %q: %w", versionRow, err)
	}
	d.root = laxjson.Node{Kind: laxjson.Object, Members: []laxjson.Member{{Key: versionMember, Value: root}}}
	if err := d.readVersion(); err != nil {
		return err
	}
	s.Version = d.version
	return nil
}

// Parts of keys of configManagerVersion=v2.
const (
	v2TablePrefix = 1
	v2OffsetTable = 1
	v2Metadata    = 1
	v2Data        = 2
	v2Separator   = 1
	v2VersionName = "data_version"
)

// v2TableStart begins every key of the offset table.
var v2TableStart = []byte{v2TablePrefix, 0, v2OffsetTable}

// takeV2Row takes in a row of the offset table of configManagerVersion=v2.
//
//	offset        width  name
//	0             1      table prefix, 01
//	1             2      table, 1: consumer offsets
//	3             1      record, 02: data
//	4             2      n, length of the group
//	6             n      group
//	6+n           1      separator, 01
//	7+n           2      m, length of the topic
//	9+n           m      topic
//	9+n+m         1      separator, 01
//	10+n+m        4      queue id
func (s *Source) takeV2Row(key, value []byte) {
	rest := key[len(v2TableStart):]
	if len(rest) > 1 && rest[0] == v2Metadata && string(rest[1:]) == v2VersionName && len(value) == 24 {
		s.Version = &Version{
			StateVersion: int64(binary.BigEndian.Uint64(value)), TimestampMs: int64(binary.BigEndian.Uint64(value[8:])),
			Counter: int64(binary.BigEndian.Uint64(value[16:])),
		}
		return
	}
	k, ok := parseV2Key(rest)
	if !ok || len(value) != 8 {
		s.Faults = append(s.Faults, Fault{At: fmt.Sprintf("row %x", key), Text: fmt.Sprintf("%d bytes of value, no offset of a queue", len(value))})
		return
	}
	s.Offsets[k] = Value{Offset: int64(binary.BigEndian.Uint64(value))}
}

// parseV2Key reads a key behind the number of its table.
func parseV2Key(b []byte) (k Key, ok bool) {
	if len(b) == 0 || b[0] != v2Data {
		return k, false
	}
	if k.Group, b, ok = takeName(b[1:]); !ok {
		return k, false
	}
	if k.Topic, b, ok = takeName(b); !ok || len(b) != 4 {
		return k, false
	}
	k.QueueID = int32(binary.BigEndian.Uint32(b))
	return k, true
}

// takeName reads a name with its length before and a separator behind it.
func takeName(b []byte) (name string, rest []byte, ok bool) {
	if len(b) < 2 {
		return "", nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if n > math.MaxInt16 || len(b) < 3+n || b[2+n] != v2Separator {
		return "", nil, false
	}
	return string(b[2 : 2+n]), b[3+n:], true
}
