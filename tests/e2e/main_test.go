//go:build cgo

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/testenv"
	"github.com/tandemq/tandemmq/tests/golden"
)

// tandemmq is the binary under test, built once. binDir is where it lies, readable by everybody.
var (
	tandemmq *golden.Binary
	binDir   string
)

func TestMain(m *testing.M) {
	golden.Main(testenv.Memory{Tests: m}, func(b *golden.Binary, dir string) error {
		tandemmq, binDir = b, dir
		return nil
	})
}

// skipUnderRace leaves out a test that runs commands again whose concurrency other tests have under the race detector, with which a run of the binary takes some times as long.
func skipUnderRace(t *testing.T) {
	if testenv.Race {
		t.Skip("no other code than that of tests that do run under the race detector")
	}
}

// Sizes of the sample stores: small files, so that there are several of each kind.
const (
	sampleMessages = 3000
	sampleTopics   = 2
	sampleQueues   = 3
	sampleLogSize  = 256 << 10
	sampleCQSize   = 2000 // 100 units; a queue has 500
)

var sampleFlags = []string{
	"--topics", strconv.Itoa(sampleTopics), "--queues", strconv.Itoa(sampleQueues), "--body", "100",
	"--commitlog-size", strconv.Itoa(sampleLogSize), "--cq-file-size", strconv.Itoa(sampleCQSize),
}

// sample makes a clean file store of 3000 messages over 2 topics of 3 queues and returns its directory.
func sample(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "store")
	tandemmq.MustRun(t, append([]string{"store", "generate", "--store", dir, "--messages", strconv.Itoa(sampleMessages)}, sampleFlags...)...)
	return dir
}

// queueDir returns the directory of one queue of a sample store: the n-th topic in name order, queue id q.
func queueDir(t *testing.T, dir string, n, q int) string {
	entries, err := os.ReadDir(filepath.Join(dir, "consumequeue"))
	require.NoError(t, err)
	return filepath.Join(dir, "consumequeue", entries[n].Name(), strconv.Itoa(q))
}

// segment returns the i-th file of a directory of 20-digit names.
func segment(t *testing.T, dir string, i int) string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Greater(t, len(entries), i, dir)
	return filepath.Join(dir, entries[i].Name())
}

// poke overwrites bytes of a file.
func poke(t *testing.T, path string, at int64, b []byte) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
