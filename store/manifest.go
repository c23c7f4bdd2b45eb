package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// RocksDB takes a manifest that ends too early for that of a database which ends there: it opens as it was at an earlier time, without a word, and removes the tables that came later. The log brings
// the units back, but not the ends of queues of which it has no record. So it is noted what the manifest had.
//
// The file rocks-manifest tells of the manifest of the consume queues in RocksDB when they were last made durable. A manifest is appended to alone, and each opening of the database makes a new one, of
// a higher number.
//
//	{"identity":"5f4c...","manifest":"MANIFEST-000005","bytes":1234,"crc32":99,"check":77}
//
// identity: the content of the file IDENTITY: a database that is made anew has another one.
// bytes, crc32: the manifest's first bytes, and their CRC-32 (IEEE).
// check: the CRC-32 (IEEE) of what stands before, each value followed by a line feed; a note that it does not fit is none.
const manifestNoteName = "rocks-manifest"

type manifestNote struct {
	Identity string `json:"identity"`
	Manifest string `json:"manifest"`
	Bytes    int64  `json:"bytes"`
	CRC32    uint32 `json:"crc32"`
	Check    uint32 `json:"check"`
}

func (n *manifestNote) sum() uint32 {
	return crc32.ChecksumIEEE(fmt.Appendf(nil, "%s\n%s\n%d\n%d\n", n.Identity, n.Manifest, n.Bytes, n.CRC32))
}

const (
	maxManifestNoteBytes = 4 << 10
	maxRocksNameBytes    = 256 // of CURRENT and IDENTITY
	identityFile         = "IDENTITY"
)

func (l Layout) manifestNotePath() string { return filepath.Join(l.StateDir(), manifestNoteName) }

// readManifestNote returns nil where there is none that can be believed: then nothing is known.
func (l Layout) readManifestNote() *manifestNote {
	b, err := readFile(mmap.OS, l.manifestNotePath(), maxManifestNoteBytes)
	n := new(manifestNote)
	if err != nil || json.Unmarshal(b, n) != nil || n.Check != n.sum() {
		return nil
	}
	return n
}

// rocksText returns the one line of a small file of a database, "" without it.
func rocksText(dir, name string) string {
	b, err := readFile(mmap.OS, filepath.Join(dir, name), maxRocksNameBytes)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// cutManifest says in which way the database in dir is older than it was by what was noted of it, "" where it is not, or nothing is known.
func (l Layout) cutManifest(dir string) string {
	n := l.readManifestNote()
	if n == nil || n.Identity != rocksText(dir, identityFile) {
		return ""
	}
	name := rocksText(dir, currentFile)
	had := fmt.Sprintf("when it was last made durable it had %s with %d bytes (tandemmq/%s)", n.Manifest, n.Bytes, manifestNoteName)
	if name != n.Manifest {
		if older, known := manifestNumber(name), manifestNumber(n.Manifest); older >= 0 && older < known {
			return fmt.Sprintf("its file %s names %s; %s", currentFile, name, had)
		}
		return ""
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return "" // RocksDB says so
	}
	defer func() { _ = f.Close() }() // only read
	h := crc32.NewIEEE()
	switch size, err := io.Copy(h, io.LimitReader(f, n.Bytes)); {
	case err != nil:
		return ""
	case size < n.Bytes:
		return fmt.Sprintf("%s has %d bytes; %s", name, size, had)
	case h.Sum32() != n.CRC32:
		return fmt.Sprintf("the first %d bytes of %s are others; %s", n.Bytes, name, had)
	}
	return ""
}

// manifestNumber returns the number in the name of a manifest, -1 for another name.
func manifestNumber(name string) int64 {
	m := manifestName.FindStringSubmatch(name)
	if m == nil {
		return -1
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// noteManifest notes what the manifest of RocksDB has, when the queues have been made durable.
func (v *views) noteManifest() {
	if _, hasRocks := v.s.o.sides(); !hasRocks || v.s.replacing.owed() {
		return
	}
	if err := v.manifest.note(v.s.fs, v.s.layout); err != nil {
		v.s.logger.Warn("what the manifest of RocksDB has is not noted", slog.Any("err", err))
	}
}

// note writes the note where the manifest has grown, or is another one, since n was written.
func (n *manifestNote) note(fsys mmap.FS, l Layout) error {
	dir := ""
	for _, r := range []RocksLayout{RocksShared, RocksSeparate} {
		if st, err := os.Stat(filepath.Join(l.RocksDir(r), currentFile)); err == nil && st.Mode().IsRegular() {
			dir = l.RocksDir(r)
		}
	}
	now := manifestNote{Identity: rocksText(dir, identityFile), Manifest: rocksText(dir, currentFile)}
	if dir == "" || now.Identity == "" || manifestNumber(now.Manifest) < 0 {
		return nil
	}
	if now.Identity == n.Identity && now.Manifest == n.Manifest {
		now.Bytes, now.CRC32 = n.Bytes, n.CRC32
	}
	f, err := os.Open(filepath.Join(dir, now.Manifest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is a new one by now
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	st, err := f.Stat()
	if err != nil || st.Size() == now.Bytes && now.Bytes > 0 {
		return err
	}
	b := make([]byte, 64<<10)
	for now.Bytes < st.Size() {
		read, err := f.ReadAt(b[:min(int64(len(b)), st.Size()-now.Bytes)], now.Bytes)
		if read == 0 && err != nil {
			return err
		}
		now.CRC32 = crc32.Update(now.CRC32, crc32.IEEETable, b[:read])
		now.Bytes += int64(read)
	}
	if err := f.Sync(); err != nil { // a loss of power takes nothing of it
		return err
	}
	now.Check = now.sum()
	text, err := json.Marshal(&now)
	if err == nil {
		err = makeDir(fsys, l.StateDir())
	}
	if err == nil {
		err = replaceFile(fsys, l.manifestNotePath(), append(text, '\n'))
	}
	if err == nil {
		*n = now
	}
	return err
}

// salvageName is the directory, beside a database that was set aside, in which its tables are read whatever its manifest says.
const salvageName = "salvage"

// openTables opens all tables of a database that was set aside, also those that its manifest, which is older, does not tell of. Links of them are made for that, which go when the store is closed.
func openTables(dir string, minPhy int64) (cq.Store, error) {
	to := filepath.Join(dir, salvageName)
	if err := os.RemoveAll(to); err != nil {
		return nil, err
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return nil, err
	}
	q, err := func() (cq.Store, error) {
		if err := readDir(dir, func(e fs.DirEntry) error {
			if filepath.Ext(e.Name()) != ".sst" || !e.Type().IsRegular() {
				return nil
			}
			return os.Link(filepath.Join(dir, e.Name()), filepath.Join(to, e.Name()))
		}); err != nil {
			return nil, err
		}
		if err := rocks.Repair(to); err != nil {
			return nil, err
		}
		return openAt(to, cq.KindRocks, minPhy)
	}()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the tables set aside in %s: %w", dir, err), os.RemoveAll(to))
	}
	return &salvaged{q, to}, nil
}

// salvaged is what openTables opened.
type salvaged struct {
	cq.Store
	dir string
}

// Close removes the links.
func (s *salvaged) Close() error { return errors.Join(s.Store.Close(), os.RemoveAll(s.dir)) }
