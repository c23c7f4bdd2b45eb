//go:build !cgo

package configdb

// Available tells whether this binary has RocksDB.
const Available = false

// DB stands in for the databases in a binary without cgo. None can be opened.
type DB struct{}

// Open answers ErrNoRocksDB.
func Open(string, Form) (*DB, error) { return nil, ErrNoRocksDB }

// OpenReadOnly answers ErrNoRocksDB.
func OpenReadOnly(string, Form) (*DB, error) { return nil, ErrNoRocksDB }

// Form is empty.
func (*DB) Form() Form { return "" }

// Dir is empty.
func (*DB) Dir(Table) string { return "" }

// Read answers ErrNoRocksDB.
func (*DB) Read(Table) (Content, error) { return Content{}, ErrNoRocksDB }

// Write answers ErrNoRocksDB.
func (*DB) Write(Table, Content) error { return ErrNoRocksDB }

// Update fails.
func (*DB) Update(Table, map[string][]byte, []byte) error { return ErrNoRocksDB }

// Close does nothing.
func (*DB) Close() error { return nil }
