package meta

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/tandemq/tandemmq/internal/configdb"
	"github.com/tandemq/tandemmq/internal/laxjson"
)

// Form is a form in which topics, groups and offsets are kept: storeType and useSingleRocksDBForAllConfigs decide, the directory does not tell.
type Form string

// The forms.
const (
	FormFiles  Form = "json"                  // JSON files: storeType=default, double write too
	FormRocks  Form = Form(configdb.Separate) // a database for each: storeType=defaultRocksDB
	FormSingle Form = Form(configdb.Single)   // one for all: the same with useSingleRocksDBForAllConfigs=true
)

// table is one of the tables as its file has it, made of rows for a database and the other way round.
type table interface {
	// content returns the rows, all written in one way, so that equal rows have equal bytes.
	content() (configdb.Content, error)
	// take adds rows. The error names the one that cannot be read.
	take(c configdb.Content) error
	dataVersion() *DataVersion
}

var (
	_ table = (*topicsFile)(nil)
	_ table = (*groupsFile)(nil)
	_ table = (*offsetsFile)(nil)
)

// fileNames are those of the tables below <root>/config.
var fileNames = map[configdb.Table]string{configdb.Topics: "topics.json", configdb.Groups: "subscriptionGroup.json", configdb.Offsets: "consumerOffset.json"}

func filePath(config string, t configdb.Table) string { return filepath.Join(config, fileNames[t]) }

// Databases keep topics, groups and offsets where a broker over a RocksDB store of 5.5.0 does.
type Databases struct {
	db     *configdb.DB
	config string
}

// OpenDatabases opens the databases of a form in config, <root>/config, and makes those that are missing. Errors: configdb.ErrNoRocksDB, *rocks.Error.
func OpenDatabases(config string, f Form) (*Databases, error) {
	db, err := configdb.Open(config, configdb.Form(f))
	if err != nil {
		return nil, err
	}
	return &Databases{db, config}, nil
}

// Close closes them. Idempotent. nil: nothing to close.
func (d *Databases) Close() error {
	if d == nil {
		return nil
	}
	return d.db.Close()
}

// path is that of a table's database.
func (d *Databases) path(t configdb.Table) string { return filepath.Join(d.config, d.db.Dir(t)) }

// load reads a table: from its file, or, with databases, from them. A file whose version has the greater counter is taken in, as 5.5.0 does: its rows replace
// those of the database. Rows that the database alone has stay; 5.5.0 hides them until its next start. taken tells that there is something to write.
func load[T any, P interface {
	*T
	table
}](config string, t configdb.Table, d *Databases, log *slog.Logger) (f withExtra[T], taken bool, err error) {
	path := filePath(config, t)
	found, err := loadLogged(path, &f, func() { f = withExtra[T]{} }, log)
	if err != nil || d == nil {
		return f, false, err
	}
	raw, err := d.db.Read(t)
	if err != nil {
		return f, false, err
	}
	var stored T
	if err := P(&stored).take(raw); err != nil {
		return f, false, fmt.Errorf("%s: %w", d.path(t), err)
	}
	file := P(&f.known)
	if !found {
		return withExtra[T]{known: stored}, false, nil
	}
	have, want := P(&stored).dataVersion().Counter, file.dataVersion().Counter // without a version: 0, as 5.5.0 has it
	fresh := raw.Version == nil && len(raw.Rows) == 0
	if !fresh && want < have {
		return withExtra[T]{known: stored}, false, nil
	}
	ours, err := P(&stored).content()
	if err != nil {
		return f, false, err
	}
	theirs, err := file.content()
	if err != nil {
		return f, false, err
	}
	differ := different(theirs, ours)
	if !fresh && want == have {
		if differ > 0 && log != nil {
			log.Warn("a file of the configuration differs from the database under one version: the database counts",
				slog.String("file", path), slog.String("database", d.path(t)), slog.Int64("counter", have), slog.Int("rows", differ))
		}
		return withExtra[T]{known: stored}, false, nil
	}
	alone := 0
	for name := range ours.Rows {
		if _, ok := theirs.Rows[name]; !ok {
			alone++
		}
	}
	merged := stored
	if err := P(&merged).take(theirs); err != nil {
		return f, false, err
	}
	*P(&merged).dataVersion() = *file.dataVersion()
	if log != nil {
		log.Info("a file of the configuration is newer than the database, and was taken in", slog.String("file", path), slog.String("database", d.path(t)),
			slog.Int64("counter", want), slog.Int64("counterBefore", have), slog.Int("rows", differ), slog.Int("rowsOfTheDatabaseAlone", alone))
	}
	return withExtra[T]{known: merged}, true, nil
}

// different counts the rows that are not the same in both.
func different(a, b configdb.Content) int {
	n := 0
	count := func(a, b map[string][]byte) {
		for name, v := range a {
			if w, ok := b[name]; !ok || string(v) != string(w) {
				n++
			}
		}
		for name := range b {
			if _, ok := a[name]; !ok {
				n++
			}
		}
	}
	count(a.Rows, b.Rows)
	count(a.Forbidden, b.Forbidden)
	return n
}

// saverOf returns what writes a table to its file or its database.
func saverOf(config string, t configdb.Table, d *Databases, known func() (table, extra)) *saver {
	file := replacing(filePath(config, t), func() ([]byte, error) { return encodeFile(known()) })
	if d == nil {
		return newSaver(file)
	}
	s := newSaver(func() error {
		f, _ := known()
		c, err := f.content()
		if err != nil {
			return err
		}
		return d.db.Write(t, c)
	})
	s.file = file
	return s
}

// rowsOf encodes entries by name, with the version.
func rowsOf[V any](v DataVersion, entries map[string]V) (c configdb.Content, err error) {
	if c.Version, err = plain(v); err != nil {
		return c, err
	}
	c.Rows = make(map[string][]byte, len(entries))
	for name, e := range entries {
		if c.Rows[name], err = plain(e); err != nil {
			return c, err
		}
	}
	return c, nil
}

// takeRows decodes entries by name, and the version if there is one.
func takeRows[V any](c configdb.Content, v *DataVersion, entries *map[string]V) error {
	if c.Version != nil {
		if err := laxjson.Unmarshal(c.Version, v); err != nil {
			return fmt.Errorf("row %s: %w", configdb.VersionKey, err)
		}
	}
	return takeMap(c.Rows, entries)
}

func takeMap[V any](rows map[string][]byte, entries *map[string]V) error {
	if *entries == nil {
		*entries = make(map[string]V, len(rows))
	} else {
		*entries = maps.Clone(*entries)
	}
	for name, b := range rows {
		var e V
		if err := laxjson.Unmarshal(b, &e); err != nil {
			return fmt.Errorf("row %q: %w", name, err)
		}
		(*entries)[name] = e
	}
	return nil
}

func (f *topicsFile) dataVersion() *DataVersion     { return &f.Version }
func (f *topicsFile) take(c configdb.Content) error { return takeRows(c, &f.Version, &f.Table) }

func (f *topicsFile) content() (configdb.Content, error) {
	for name, t := range f.Table {
		if t.Name != name { // a file may leave it out: there the name is the key
			t.Name = name
			f.Table[name] = t
		}
	}
	return rowsOf(f.Version, f.Table)
}

func (f *groupsFile) dataVersion() *DataVersion { return &f.Version }

func (f *groupsFile) content() (configdb.Content, error) {
	for name, g := range f.Table {
		if g.Name != name {
			g.Name = name
			f.Table[name] = g
		}
	}
	c, err := rowsOf(f.Version, f.Table)
	if err != nil {
		return c, err
	}
	forbidden, err := rowsOf(f.Version, f.Forbidden)
	c.Forbidden = forbidden.Rows
	return c, err
}

func (f *groupsFile) take(c configdb.Content) error {
	return errors.Join(takeRows(c, &f.Version, &f.Table), takeMap(c.Forbidden, &f.Forbidden))
}

func (f *offsetsFile) dataVersion() *DataVersion { return &f.Version }

// content has the offsets of a topic and a group in one row, {"offsetTable":{"0":12,"11":3}}, queues in the order of their numbers, as 5.5.0 has them.
func (f *offsetsFile) content() (configdb.Content, error) {
	c := configdb.Content{Rows: make(map[string][]byte, len(f.Table))}
	for name, queues := range f.Table {
		b := []byte(`{"offsetTable":{`)
		for i, id := range slices.Sorted(maps.Keys(queues)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(strconv.AppendInt(append(b, '"'), int64(id), 10), '"', ':')
			b = strconv.AppendInt(b, queues[id], 10)
		}
		c.Rows[name] = append(b, '}', '}')
	}
	var err error
	c.Version, err = plain(f.Version)
	return c, err
}

func (f *offsetsFile) take(c configdb.Content) error {
	var rows map[string]struct {
		Table map[int32]int64 `json:"offsetTable"`
	}
	if err := takeRows(c, &f.Version, &rows); err != nil {
		return err
	}
	if f.Table == nil {
		f.Table = make(map[string]map[int32]int64, len(rows))
	} else {
		f.Table = maps.Clone(f.Table)
	}
	for name, r := range rows {
		f.Table[name] = r.Table
	}
	return nil
}

// groupTopics are the topics of each group with offsets, as the file of 5.5.0 lists them; it does not read them back.
func (f *offsetsFile) groupTopics() map[string][]string {
	topics := map[string][]string{}
	for key := range f.Table {
		if r, ok := splitOffsetRow(key); ok {
			topics[r.group] = append(topics[r.group], r.topic)
		}
	}
	for _, t := range topics {
		slices.Sort(t)
	}
	return topics
}
