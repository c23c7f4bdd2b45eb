package meta

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/internal/conffile"
	"github.com/tandemq/tandemmq/internal/configdb"
)

// TableMove says what a move did with one table, or would do.
type TableMove struct {
	Table string `json:"table"` // topics, groups or offsets
	From  string `json:"from"`  // file or directory
	To    string `json:"to"`
	// FromVersion and ToVersion are those before the move; nil: there is no such table, or it has none.
	FromVersion *DataVersion `json:"fromVersion,omitempty"`
	ToVersion   *DataVersion `json:"toVersion,omitempty"`
	Rows        int          `json:"rows"`   // of the table that is moved
	Differ      int          `json:"differ"` // rows that were not the same on both sides
	Written     bool         `json:"written"`
}

func (m *TableMove) String() string {
	switch {
	case m.FromVersion == nil && m.Rows == 0:
		return fmt.Sprintf("%s: %s has none", m.Table, m.From)
	case m.Written:
		return fmt.Sprintf("%s: %d moved from %s to %s (%d were not the same)", m.Table, m.Rows, m.From, m.To, m.Differ)
	case m.Differ > 0:
		return fmt.Sprintf("%s: %d would be moved from %s to %s (%d are not the same)", m.Table, m.Rows, m.From, m.To, m.Differ)
	}
	return fmt.Sprintf("%s: %s and %s have the same %d", m.Table, m.From, m.To, m.Rows)
}

// MoveOptions are those of Move.
type MoveOptions struct {
	// To is the form to move to. From is the form to move from: FormFiles where To is not; otherwise that of the databases.
	From, To Form
	// Overrule has the form moved from count where the other's version is greater.
	Overrule bool
	// Commit does it. Otherwise nothing is written.
	Commit bool
	// Now is the time of a version that has to be greater than both. Zero: the machine's.
	Now time.Time
}

// NewerError tells of tables that were changed in the form that is moved to, after they were last the same in both.
type NewerError struct{ Tables []string }

func (e *NewerError) Error() string { return strings.Join(e.Tables, "; ") }

// tableNames are those of reports.
var tableNames = map[configdb.Table]string{configdb.Topics: "topics", configdb.Groups: "groups", configdb.Offsets: "offsets"}

// Move has the form o.To hold what the form o.From holds: topics, groups and offsets of a stopped broker, under the same versions. Equal versions say that both hold the same;
// whichever is changed afterwards has the greater counter, and goes before the other, as 5.5.0 has it.
//
// From databases comes what a broker of theirs would have at its next start, with what a file has that is newer. Other members of files stay as they are.
//
// Errors: *NewerError, and nothing is written: the form that is moved to was changed since. Others: files or databases that cannot be read or written; repeat.
func Move(config string, o MoveOptions) (moves []TableMove, err error) {
	dbForm := o.To
	if o.To == FormFiles {
		dbForm = o.From
	}
	if dbForm == FormFiles || (o.From == FormFiles) == (o.To == FormFiles) {
		return nil, fmt.Errorf("move from %q to %q: one is %q, the other %q or %q", o.From, o.To, FormFiles, FormRocks, FormSingle)
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	there, err := configdb.Exists(config, configdb.Form(dbForm))
	if err != nil {
		return nil, err
	}
	open := configdb.OpenReadOnly
	if o.Commit && o.To != FormFiles {
		open = configdb.Open
	}
	d := &Databases{config: config}
	if d.db, err = open(config, configdb.Form(dbForm)); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	var all []moving
	var newer []string
	for _, t := range configdb.Tables() {
		m := moving{t: t, o: &o, d: d}
		if err := m.look(there); err != nil {
			return nil, err
		}
		if why := m.newer(); why != "" {
			newer = append(newer, why)
		}
		all = append(all, m)
	}
	if len(newer) > 0 && !o.Overrule {
		return nil, &NewerError{newer}
	}
	for i := range all {
		if o.Commit {
			if err := all[i].write(); err != nil {
				return moves, err
			}
		}
		moves = append(moves, all[i].TableMove)
	}
	return moves, nil
}

// moving is the move of one table.
type moving struct {
	TableMove
	t        configdb.Table
	o        *MoveOptions
	d        *Databases
	from, to image
}

// image is a table in one form.
type image struct {
	found   bool
	table   table
	content configdb.Content // in one way of writing
	extra   extra            // other members of a file
}

func (i *image) version() *DataVersion {
	if !i.found {
		return nil
	}
	return i.table.dataVersion()
}

func (m *moving) look(there bool) error {
	path := filePath(m.d.config, m.t)
	file, err := peek(path, m.t)
	if err != nil {
		return err
	}
	stored, err := m.d.image(m.t)
	if err != nil {
		return err
	}
	stored.found = stored.found && there
	m.Table, m.From, m.To, m.from, m.to = tableNames[m.t], path, m.d.path(m.t), file, stored
	if m.o.To == FormFiles {
		m.From, m.To, m.from, m.to = m.To, m.From, stored, file
		if file.found && (!stored.found || counterOf(file.version()) > counterOf(stored.version())) {
			if m.from, err = over(stored, file, m.t); err != nil {
				return err
			}
		}
	}
	m.FromVersion, m.ToVersion = m.from.version(), m.to.version()
	m.Rows, m.Differ = len(m.from.content.Rows), different(m.from.content, m.to.content)
	return nil
}

func counterOf(v *DataVersion) int64 {
	if v == nil {
		return -1
	}
	return v.Counter
}

// newer says that the table was changed where it is to be moved to, "" that it was not.
func (m *moving) newer() string {
	if !m.from.found || m.Differ == 0 || counterOf(m.ToVersion) <= counterOf(m.FromVersion) {
		return ""
	}
	return fmt.Sprintf("%s of %s are newer (version %s) than those of %s (version %s): %d are not the same", m.Table, m.To, m.ToVersion, m.From, m.FromVersion, m.Differ)
}

// String is how reports show a version.
func (v *DataVersion) String() string {
	if v == nil {
		return "none"
	}
	return fmt.Sprintf("%d of %s", v.Counter, time.UnixMilli(v.TimestampMs).UTC().Format(time.RFC3339))
}

func (m *moving) write() error {
	if !m.from.found {
		return nil
	}
	v := *m.FromVersion
	if m.newer() != "" { // overruled: what comes next goes before both
		v = DataVersion{Counter: m.ToVersion.Counter, StateVersion: v.StateVersion, TimestampMs: v.TimestampMs}.next(m.o.Now)
	}
	if m.Differ == 0 && m.ToVersion != nil && *m.ToVersion == v {
		return nil
	}
	*m.from.table.dataVersion() = v
	m.Written = true
	if m.o.To != FormFiles {
		c, err := m.from.table.content()
		if err != nil {
			return err
		}
		return m.d.db.Write(m.t, c)
	}
	if f, ok := m.from.table.(*offsetsFile); ok {
		f.Topics = f.groupTopics()
		f.Pulled = map[string]map[int32]int64{}
		if old, ok := m.to.table.(*offsetsFile); ok && old.Pulled != nil {
			f.Pulled = old.Pulled
		}
	}
	b, err := encodeFile(m.from.table, m.to.extra)
	if err != nil {
		return err
	}
	return conffile.Replace(m.To, b)
}

// peek reads a file, or what stands in for it, and changes nothing.
func peek(path string, t configdb.Table) (image, error) {
	switch t {
	case configdb.Topics:
		return peekFile[topicsFile](path)
	case configdb.Groups:
		return peekFile[groupsFile](path)
	default:
		return peekFile[offsetsFile](path)
	}
}

func peekFile[T any, P interface {
	*T
	table
}](path string) (i image, err error) {
	var f withExtra[T]
	if i.found, err = conffile.Peek(path, &f, func() { f = withExtra[T]{} }); err != nil {
		return i, err
	}
	i.table, i.extra = P(&f.known), f.extra
	i.content, err = i.table.content()
	return i, err
}

// newTable returns an empty table.
func newTable(t configdb.Table) table {
	switch t {
	case configdb.Topics:
		return &topicsFile{}
	case configdb.Groups:
		return &groupsFile{}
	default:
		return &offsetsFile{}
	}
}

// image reads a table from its database.
func (d *Databases) image(t configdb.Table) (i image, err error) {
	raw, err := d.db.Read(t)
	if err != nil {
		return i, err
	}
	i.found, i.table = raw.Version != nil || len(raw.Rows) > 0, newTable(t)
	if err := i.table.take(raw); err != nil {
		return i, fmt.Errorf("%s: %w", d.path(t), err)
	}
	i.content, err = i.table.content()
	return i, err
}

// over returns what a broker has that takes a newer file into its database.
func over(stored, file image, t configdb.Table) (i image, err error) {
	i.found, i.table = true, newTable(t)
	if err := errors.Join(i.table.take(stored.content), i.table.take(file.content)); err != nil {
		return i, err
	}
	*i.table.dataVersion() = *file.version()
	i.content, err = i.table.content()
	return i, err
}

// Older tells what is newer in databases of another form than in the one that a broker is to use: it would not know what happened there. A sentence for each table. Databases are
// opened read-only. Errors: those of Move; configdb.ErrNoRocksDB where there is one and this binary cannot read it.
func Older(config string, used Form) (sentences []string, err error) {
	for _, form := range []Form{FormRocks, FormSingle} {
		if form == used {
			continue
		}
		there, err := configdb.Exists(config, configdb.Form(form))
		if err != nil || !there {
			if err != nil {
				return nil, err
			}
			continue
		}
		more, err := olderThan(config, used, form)
		if err != nil {
			return nil, err
		}
		sentences = append(sentences, more...)
	}
	return sentences, nil
}

func olderThan(config string, used, form Form) (sentences []string, err error) {
	images := func(f Form) (in map[configdb.Table]image, paths map[configdb.Table]string, err error) {
		in, paths = map[configdb.Table]image{}, map[configdb.Table]string{}
		if f == FormFiles {
			for _, t := range configdb.Tables() {
				paths[t] = filePath(config, t)
				if in[t], err = peek(paths[t], t); err != nil {
					return nil, nil, err
				}
			}
			return in, paths, nil
		}
		d := &Databases{config: config}
		if d.db, err = configdb.OpenReadOnly(config, configdb.Form(f)); err != nil {
			return nil, nil, err
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		for _, t := range configdb.Tables() {
			paths[t] = d.path(t)
			if in[t], err = d.image(t); err != nil {
				return nil, nil, err
			}
		}
		return in, paths, nil
	}
	mine, myPaths, err := images(used)
	if err != nil {
		return nil, err
	}
	theirs, paths, err := images(form)
	if err != nil {
		return nil, err
	}
	for _, t := range configdb.Tables() {
		a, b := mine[t], theirs[t]
		if !b.found || counterOf(b.version()) <= counterOf(a.version()) {
			continue
		}
		if n := different(a.content, b.content); n > 0 {
			sentences = append(sentences, fmt.Sprintf("%s of %s are newer (version %s) than those of %s (version %s): %d are not the same",
				tableNames[t], paths[t], b.version(), myPaths[t], a.version(), n))
		}
	}
	return sentences, nil
}
