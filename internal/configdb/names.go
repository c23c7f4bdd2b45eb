package configdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNoRocksDB is what everything answers in a binary built with CGO_ENABLED=0.
var ErrNoRocksDB = errors.New("this binary was built without cgo and has no RocksDB; build it with CGO_ENABLED=1")

// Form says how the tables are spread over databases.
type Form string

// The forms.
const (
	Separate Form = "rocksdb"        // a database for each table
	Single   Form = "rocksdb-single" // one for all: useSingleRocksDBForAllConfigs=true
)

// Table is one of the tables.
type Table int

// The tables.
const (
	Topics Table = iota
	Groups
	Offsets
)

// Tables lists them.
func Tables() []Table { return []Table{Topics, Groups, Offsets} }

// VersionKey is the key of a table's version in the family of versions.
const VersionKey = "kvDataVersionKey"

// Names says where a table lies: a directory below <root>/config, and families of the database in it.
type Names struct {
	Dir       string
	Rows      string
	Version   string
	Forbidden string // of groups alone, "" otherwise
}

var names = map[Form][]Names{
	Separate: {
		Topics:  {"topics", "default", "kvDataVersion", ""},
		Groups:  {"subscriptionGroups", "default", "kvDataVersion", "forbidden"},
		Offsets: {"consumerOffsets", "default", "kvDataVersion", ""},
	},
	Single: {
		Topics:  {"metadata", "topic", "topicVersion", ""},
		Groups:  {"metadata", "subscriptionGroup", "subscriptionGroupVersion", "forbidden"},
		Offsets: {"metadata", "consumerOffset", "consumerOffsetVersion", ""},
	},
}

// NamesOf returns where the form keeps the table.
func NamesOf(f Form, t Table) Names { return names[f][t] }

// Content is what a database holds of a table.
type Content struct {
	Version   []byte            // JSON; nil: none
	Rows      map[string][]byte // JSON of an entry, by its name
	Forbidden map[string][]byte // JSON of what a group is forbidden, by its name; of groups alone
}

// Exists tells whether there is a database of the form in config, <root>/config, with anything in it. It opens nothing.
func Exists(config string, f Form) (bool, error) {
	for _, t := range Tables() {
		if there, err := existsIn(filepath.Join(config, NamesOf(f, t).Dir)); there || err != nil {
			return there, err
		}
	}
	return false, nil
}

// ExistsV2 tells whether there is a database of configManagerVersion=v2.
func ExistsV2(config string) (bool, error) { return existsIn(filepath.Join(config, "rdb")) }

func existsIn(dir string) (bool, error) {
	st, err := os.Stat(filepath.Join(dir, "CURRENT"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("look for databases of the configuration: %w", err)
	}
	return err == nil && st.Mode().IsRegular(), nil
}
