package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/compare"
	"github.com/tandemq/tandemmq/internal/testenv"
)

// With processEnv set the test binary is the program itself; its value is the file size limit in bytes, 0 for none.
const processEnv = "TANDEMMQ_TEST_PROCESS"

// With testProfileEnv set there are no more profiles of benchmarks than others have.
const testProfileEnv = "TANDEMMQ_TEST_NO_TINY"

func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(testProfileEnv); !ok {
		benchProfiles = append(benchProfiles, compare.Tiny)
	}
	if limit, ok := os.LookupEnv(processEnv); ok {
		if n, err := strconv.ParseUint(limit, 10, 64); err != nil {
			panic(err)
		} else if n > 0 {
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
				panic(err)
			}
		}
		main()
	}
	os.Exit(testenv.Main(m))
}

// process prepares the program as a process of its own.
func process(fileSizeLimit int, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), processEnv+"="+strconv.Itoa(fileSizeLimit))
	return cmd
}

// A file size limit makes a write fail with the name of the file, and not the process die.
func TestFileSizeLimitIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	cmd := process(100_000, "store", "generate", "--store", dir, "--commitlog-size", "1048576", "--quiet")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.Error(t, cmd.Run())
	require.Equal(t, 1, cmd.ProcessState.ExitCode(), stderr.String())
	require.Contains(t, stderr.String(), dir)
	require.Contains(t, stderr.String(), "file too large")
	require.FileExists(t, filepath.Join(dir, "abort"))
}

// A job that is stopped by a signal says so, or dies, and leaves a store that nobody takes for a whole one.
func TestGenerateStopped(t *testing.T) {
	tests := []struct {
		name   string
		signal os.Signal
		code   int
		says   string
	}{
		{"interrupted", os.Interrupt, 1, "it is incomplete, remove it): interrupted\n"},
		{"terminated", syscall.SIGTERM, 1, "it is incomplete, remove it): interrupted\n"},
		{"killed", os.Kill, -1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			cmd := process(0, "store", "generate", "--store", dir, "--messages", "1000000000", "--commitlog-size", "1048576", "--cq-file-size", "20000")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			require.NoError(t, cmd.Start())
			secondLogFile := filepath.Join(dir, "commitlog", "00000000000001048576")
			require.Eventually(t, func() bool { // it is at work
				_, err := os.Stat(secondLogFile)
				return err == nil
			}, time.Minute, time.Millisecond)
			require.NoError(t, cmd.Process.Signal(tt.signal))
			require.Error(t, cmd.Wait())
			require.Equal(t, tt.code, cmd.ProcessState.ExitCode())
			require.Contains(t, stderr.String(), tt.says)
			require.FileExists(t, filepath.Join(dir, "abort"))
			require.NoFileExists(t, filepath.Join(dir, "checkpoint"))
		})
	}
}

// A measurement that is interrupted tells what it has, then fails.
func TestBenchPutInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bench")
	cmd := process(0, "bench", "put", "--dir", dir, "--messages", "1000000000", "--producers", "2,1", "--set", "mappedFileSizeCommitLog=1048576", "--quiet")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	laterLogFile := filepath.Join(dir, "producers-2", "commitlog", "00000000000003145728") // the first three are made before anything is put
	require.Eventually(t, func() bool {
		_, err := os.Stat(laterLogFile)
		return err == nil
	}, time.Minute, time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Regexp(t, `^Interrupted; until then:\n2 producers: [0-9,]+ messages with bodies`, stdout.String())
	require.Contains(t, stdout.String(), "The logs hold what was acknowledged.")
	require.NotContains(t, stdout.String(), "1 producer:")
	require.Equal(t, "tandemmq: interrupted\n", stderr.String())
	require.NoDirExists(t, dir)
}
