package golden

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// runLimit bounds one run of the binary: the stores here are small, so one that takes longer hangs. It is ended with
// SIGQUIT then, and the stacks of its goroutines are in the test's output.
const runLimit = time.Minute

// Binary is a tandemmq built for the tests of one package.
type Binary struct{ path string }

// Result is one finished run.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Build compiles tandemmq into dir, with the build settings of the environment the test itself was built in.
func Build(dir string) (*Binary, error) {
	b := &Binary{path: filepath.Join(dir, "tandemmq")}
	args := append([]string{"build", "-o", b.path}, raceFlag...)
	cmd := exec.Command("go", append(args, "github.com/tandemq/tandemmq/cmd/tandemmq")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build tandemmq: %w\n%s", err, out)
	}
	return b, nil
}

var noteOnce = sync.OnceValue(noteSources)

// noteSources opens every source file of the module, found from the package's directory upwards. The go command caches
// the results of tests and does not know that these depend on the sources of a binary; but it does know which files of the
// module a running test (not TestMain) opens.
func noteSources() error {
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(root)
		if up == root {
			return errors.New("build tandemmq: no go.mod above the test's directory")
		}
		root = up
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if n := d.Name(); strings.HasPrefix(n, ".") || n == "testdata" || n == "bin" {
				return filepath.SkipDir
			}
		case slices.Contains([]string{".go", ".c", ".h", ".mod", ".sum"}, filepath.Ext(path)):
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			return f.Close()
		}
		return nil
	})
}

// Command prepares a run of tandemmq that the caller starts and ends.
func (b *Binary) Command(tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	require.NoError(tb, noteOnce())
	return exec.Command(b.path, args...)
}

// Run runs tandemmq and returns whatever its exit code; failing to run, or not ending in time, fails the test.
func (b *Binary) Run(tb testing.TB, args ...string) Result {
	tb.Helper()
	require.NoError(tb, noteOnce())
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	require.NoError(tb, ctx.Err(), "tandemmq %v did not end within %v\n%s", args, runLimit, errs.String())
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(tb, err, "tandemmq %v", args)
	}
	return Result{Code: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String()}
}

// MustRun runs tandemmq and fails the test unless it exits with 0.
func (b *Binary) MustRun(tb testing.TB, args ...string) Result {
	tb.Helper()
	r := b.Run(tb, args...)
	require.Zero(tb, r.Code, "tandemmq %v\nstdout:\n%s\nstderr:\n%s", args, r.Stdout, r.Stderr)
	return r
}

// Dump runs `store dump` on one kind of queue.
func (b *Binary) Dump(tb testing.TB, dir, kind string) Dump {
	tb.Helper()
	r := b.MustRun(tb, "store", "dump", "--store", dir, "--cq", kind)
	e, err := ParseDump([]byte(r.Stdout))
	require.NoError(tb, err, "dump of %s queues", kind)
	return e
}

// Main builds tandemmq for the tests of a package, runs them and ends the process: the whole of a TestMain. prepare gets the
// binary, and the directory it lies in, which everybody can read and which goes when the tests have run.
func Main(m interface{ Run() int }, prepare func(b *Binary, dir string) error) {
	code := 1
	defer func() { os.Exit(code) }()
	fail := func(err error) bool {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return err != nil
	}
	dir, err := os.MkdirTemp("", "tandemmq-test-")
	if fail(err) {
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if fail(os.Chmod(dir, 0o755)) {
		return
	}
	b, err := Build(dir)
	if fail(err) || fail(prepare(b, dir)) {
		return
	}
	code = m.Run()
}
