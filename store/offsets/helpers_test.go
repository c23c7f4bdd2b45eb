package offsets

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

//go:embed testdata/places.tar.gz
var places []byte

// javaRoot unpacks one of the roots of testdata.
func javaRoot(t *testing.T, name string) store.Layout {
	t.Helper()
	dir := t.TempDir()
	z, err := gzip.NewReader(bytes.NewReader(places))
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.True(t, filepath.IsLocal(h.Name))
		to := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(to, 0o755))
			continue
		}
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, b, 0o644))
	}
	return store.NewLayout(filepath.Join(dir, name))
}

// The sample store: queue 0 and 1 of topic sample_0 hold 50 messages each, one a millisecond, turn and turn about as the
// seed has it.
const sampleStartMs = 1_700_000_000_000

// sampleStore makes a store and returns its root.
func sampleStore(t *testing.T) store.Layout {
	t.Helper()
	root := filepath.Join(t.TempDir(), "store")
	o := store.DefaultGenerateOptions()
	o.Messages, o.Topics, o.QueuesPerTopic, o.BodyBytes = 100, 1, 2, 10
	o.CommitLogFileBytes, o.QueueFileBytes, o.StartMs = 8192, 200, sampleStartMs
	_, err := store.Generate(t.Context(), root, o)
	require.NoError(t, err)
	return store.NewLayout(root)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func view(t *testing.T, l store.Layout) *store.View {
	t.Helper()
	v, err := store.OpenView(l.Root, store.ViewOptions{Kind: cq.KindFile})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	return v
}

func find(t *testing.T, l store.Layout) []*Source {
	t.Helper()
	s, err := Find(l)
	require.NoError(t, err)
	return s
}

// stored are the offsets of a source that are numbers.
func stored(s *Source) map[Key]int64 {
	out := map[Key]int64{}
	for k, v := range s.Offsets {
		if v.Bad == "" {
			out[k] = v.Offset
		}
	}
	return out
}

// readBack reads what lies in the file now.
func readBack(t *testing.T, p Place, path string) map[Key]int64 {
	t.Helper()
	s, err := ReadFile(p, path)
	require.NoError(t, err)
	require.Empty(t, s.Faults)
	return stored(s)
}

func maxOf(t *testing.T, v *store.View, k cq.Key) int64 {
	t.Helper()
	q, ok := v.Queues.Queue(k)
	require.True(t, ok)
	b, err := q.Bounds()
	require.NoError(t, err)
	return b.Max
}

var testNow = time.UnixMilli(1_800_000_000_123)

func requireFile(t *testing.T, want, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(b))
}
