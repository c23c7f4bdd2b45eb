//go:build cgo

package configdb

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/tandemq/tandemmq/internal/rocks"
)

// Available tells whether this binary has RocksDB.
const Available = true

// DB is the databases of a form. The zero value is not ready.
type DB struct {
	form  Form
	byDir map[string]*rocks.DB

	mu struct {
		sync.Mutex
		known map[Table]Content // what each table was when it was last read or written: only what differs from it is written
	}
}

// Open opens the databases in config, <root>/config, and makes those that are missing. Errors: *rocks.Error.
func Open(config string, f Form) (*DB, error) { return open(config, f, false) }

// OpenReadOnly opens those that are there, and changes no byte. A table without a database has no rows.
func OpenReadOnly(config string, f Form) (*DB, error) { return open(config, f, true) }

func open(config string, f Form, readOnly bool) (_ *DB, err error) {
	d := &DB{form: f, byDir: map[string]*rocks.DB{}}
	d.mu.known = map[Table]Content{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	for _, t := range Tables() {
		name := NamesOf(f, t).Dir
		if _, there := d.byDir[name]; there {
			continue
		}
		families := rocks.TableFamilies
		switch {
		case f == Single:
			families = rocks.ConfigFamilies
		case t == Groups:
			families = rocks.GroupFamilies
		}
		one, o := rocks.Open, rocks.ConfigOptions(families)
		if readOnly {
			one = rocks.OpenReadOnly
		}
		db, err := one(filepath.Join(config, name), o)
		if readOnly && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		d.byDir[name] = db
	}
	return d, nil
}

// Form is that of the databases.
func (d *DB) Form() Form { return d.form }

// Dir is the directory of a table's database, below <root>/config.
func (d *DB) Dir(t Table) string { return NamesOf(d.form, t).Dir }

// Read returns a table. The maps are the caller's, what they hold is not.
func (d *DB) Read(t Table) (Content, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.readLocked(t)
	if err != nil {
		return Content{}, err
	}
	return Content{Version: c.Version, Rows: cloned(c.Rows), Forbidden: cloned(c.Forbidden)}, nil
}

func cloned(rows map[string][]byte) map[string][]byte {
	out := make(map[string][]byte, len(rows))
	for k, v := range rows {
		out[k] = v
	}
	return out
}

func (d *DB) readLocked(t Table) (Content, error) {
	if c, ok := d.mu.known[t]; ok {
		return c, nil
	}
	n := NamesOf(d.form, t)
	c := Content{Rows: map[string][]byte{}, Forbidden: map[string][]byte{}}
	db := d.byDir[n.Dir]
	if db == nil {
		return c, nil
	}
	into := func(rows map[string][]byte) func(key, value []byte) bool {
		return func(key, value []byte) bool {
			rows[string(key)] = bytes.Clone(value)
			return true
		}
	}
	versions := map[string][]byte{}
	err := errors.Join(db.ScanNamed(n.Rows, nil, into(c.Rows)), db.ScanNamed(n.Version, []byte(VersionKey), into(versions)))
	if n.Forbidden != "" {
		err = errors.Join(err, db.ScanNamed(n.Forbidden, nil, into(c.Forbidden)))
	}
	if err != nil {
		return Content{}, err
	}
	c.Version = versions[VersionKey]
	d.mu.known[t] = c
	return c, nil
}

// Write has the database hold c and nothing else of the table: what is not in c goes. Only what differs is written, as one change, which is durable when
// Write returns. c is kept: it must not be changed afterwards. Errors: *rocks.Error; the table is then as it was.
func (d *DB) Write(t Table, c Content) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	old, err := d.readLocked(t)
	if err != nil {
		return err
	}
	n := NamesOf(d.form, t)
	var rows []rocks.NamedRow
	differ := func(family string, old, now map[string][]byte) {
		for k, v := range now {
			if was, ok := old[k]; !ok || !bytes.Equal(was, v) {
				rows = append(rows, rocks.NamedRow{Family: family, Key: []byte(k), Value: v})
			}
		}
		for k := range old {
			if _, ok := now[k]; !ok {
				rows = append(rows, rocks.NamedRow{Family: family, Key: []byte(k)})
			}
		}
	}
	differ(n.Rows, old.Rows, c.Rows)
	if n.Forbidden != "" {
		differ(n.Forbidden, old.Forbidden, c.Forbidden)
	}
	if c.Version != nil && !bytes.Equal(old.Version, c.Version) {
		rows = append(rows, rocks.NamedRow{Family: n.Version, Key: []byte(VersionKey), Value: c.Version})
	}
	if len(rows) == 0 {
		return nil
	}
	db := d.byDir[n.Dir]
	if db == nil {
		return fmt.Errorf("write table to %s: %w", n.Dir, rocks.ErrReadOnly)
	}
	if err := db.WriteNamed(rows); err != nil {
		return err
	}
	d.mu.known[t] = c
	return nil
}

// Update writes rows of a table, nil for one that goes, and its version, as one change, which is durable when Update returns; the other rows stay. What is given is kept, as by Write. Errors:
// *rocks.Error; the table is then as it was.
func (d *DB) Update(t Table, rows map[string][]byte, version []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.readLocked(t)
	if err != nil {
		return err
	}
	n := NamesOf(d.form, t)
	db := d.byDir[n.Dir]
	if db == nil {
		return fmt.Errorf("write table to %s: %w", n.Dir, rocks.ErrReadOnly)
	}
	var changed []rocks.NamedRow
	for name, v := range rows {
		if was, ok := c.Rows[name]; ok != (v != nil) || !bytes.Equal(was, v) {
			changed = append(changed, rocks.NamedRow{Family: n.Rows, Key: []byte(name), Value: v})
		}
	}
	if !bytes.Equal(c.Version, version) {
		changed = append(changed, rocks.NamedRow{Family: n.Version, Key: []byte(VersionKey), Value: version})
	}
	if len(changed) == 0 {
		return nil
	}
	if err := db.WriteNamed(changed); err != nil {
		return err
	}
	for name, v := range rows {
		if v == nil {
			delete(c.Rows, name)
		} else {
			c.Rows[name] = v
		}
	}
	c.Version = version
	d.mu.known[t] = c
	return nil
}

// Close closes the databases. Idempotent.
func (d *DB) Close() (err error) {
	for _, db := range d.byDir {
		err = errors.Join(err, db.Close())
	}
	return err
}
