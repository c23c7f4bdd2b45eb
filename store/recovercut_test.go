package store

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/tests/golden"
)

// cutSteps are how many bytes lie between two cuts of the last record: of a log alone, and of a store. TANDEMMQ_SEEDS=full cuts all at every byte.
func cutSteps(name string) (log, store int64) {
	switch {
	case os.Getenv("TANDEMMQ_SEEDS") == "full":
		return 1, 1
	case name == "file-roll":
		return sweepStep, 113 * sweepStep
	}
	return 7 * sweepStep, 113 * sweepStep
}

// Of each store the last record is cut at every byte, as a kill leaves it. What is left before it is found, with all its units; of the record itself nothing, unless the cut
// took no more than the end of a value of somebody's own property, which nothing tells from one that ends so.
func TestLastRecordCutAtEveryByte(t *testing.T) {
	for _, g := range goldenStores(t) {
		t.Run(g.name, func(t *testing.T) {
			root := golden.Unpack(t, g.name)
			l := NewLayout(root)
			require.NoError(t, os.WriteFile(l.AbortPath(), nil, 0o644))
			logStep, step := cutSteps(g.name)
			places := recordPlaces(t, root)
			last, end := places[len(places)-2], places[len(places)-1]
			t.Run("log", func(t *testing.T) {
				file := logFileAt(t, l, last-last%g.o.MappedFileSizeCommitLog)
				for cut := last; cut < end; cut += logStep {
					fsys := faultfs.New(faultfs.Options{})
					fsys.MkdirAll("/log")
					f, err := fsys.OpenFile("/log/"+file.name, os.O_RDWR|os.O_CREATE, 0o644)
					require.NoError(t, err)
					require.NoError(t, f.Truncate(g.o.MappedFileSizeCommitLog))
					_, err = f.WriteAt(file.bytes[:cut%g.o.MappedFileSizeCommitLog], 0)
					require.NoError(t, err)
					require.NoError(t, f.Close())
					o := commitlog.DefaultWriterOptions("/log")
					o.FS, o.FileSize, o.PopulateAheadBytes = fsys, g.o.MappedFileSizeCommitLog, 0
					w, err := commitlog.OpenWriter(o)
					require.NoError(t, err, "cut at %d", cut)
					if found := w.Positions().Wrote; found != last {
						require.Equal(t, end, found, "cut at %d", cut)
						require.True(t, g.undecided(file.bytes, last, cut), "cut at %d", cut)
					}
					require.NoError(t, w.Close())
				}
			})
			for cut := last; cut < end; cut += step {
				copied := t.TempDir()
				require.NoError(t, os.CopyFS(copied, os.DirFS(root)))
				c := NewLayout(copied)
				cutLog(t, c.CommitLogDir(), g.o.MappedFileSizeCommitLog, cut)
				if (cut-last)/step%2 == 0 {
					g.open(t, copied)
				} else {
					rep, err := Recover(t.Context(), copied, RecoverOptions{})
					require.NoError(t, err)
					require.True(t, rep.AbortCleared)
				}
				records := recordsOf(t, c)
				if records == int64(len(places)-1) {
					require.True(t, g.undecided(logFileAt(t, l, last-last%g.o.MappedFileSizeCommitLog).bytes, last, cut), "cut at %d", cut)
					continue
				}
				require.Equal(t, int64(len(places)-2), records)
				g.requireRecovered(t, c, records)
			}
		})
	}
}

// undecided tells whether a cut of the record at last lies in the value of a property of somebody's own: nothing tells what is left from a value that ends in zeros.
func (g *goldenStore) undecided(file []byte, last, cut int64) bool {
	var r message.Record
	at := last % g.o.MappedFileSizeCommitLog
	if r.Decode(file[at:], true) != nil {
		return false
	}
	rest := file[at+int64(r.TotalSize)-int64(len(r.Properties)) : at+cut-last]
	if cut-last <= int64(r.TotalSize)-int64(len(r.Properties)) {
		return false
	}
	name, _, ok := bytes.Cut(rest[bytes.LastIndexByte(rest, 2)+1:], []byte{1})
	return ok && !slices.Contains([]string{"UNIQ_KEY", "WAIT", "CLUSTER"}, string(name))
}

// namedFile is a file of a log.
type namedFile struct {
	name  string
	bytes []byte
}

// logFileAt reads the file of the log that begins at a physical offset.
func logFileAt(t *testing.T, l Layout, from int64) namedFile {
	t.Helper()
	name := mappedfile.Name(from)
	b, err := os.ReadFile(filepath.Join(l.CommitLogDir(), name))
	require.NoError(t, err)
	return namedFile{name, b}
}

// cutLog makes everything from physical offset cut on zeros in the file that holds it.
func cutLog(t *testing.T, dir string, fileSize, cut int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	path := filepath.Join(dir, entries[cut/fileSize].Name())
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(cut%fileSize))
	require.NoError(t, f.Truncate(fileSize))
	require.NoError(t, f.Close())
}
