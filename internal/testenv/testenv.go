// Package testenv tells tests how they were built, and has those of a package work in memory, where the machine has enough of it. A disk makes them wait for its syncs, and
// proves nothing more: what a loss of power leaves is a matter of package faultfs. Packages whose tests are about the disk, or make files of many MiB, stay on it.
package testenv

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// memory is a filesystem in memory, where most Linux machines have one.
const memory = "/dev/shm"

// What has to be free: on that filesystem, and of the machine's memory.
const (
	leastBytes    = 1 << 30
	leastMemBytes = 3 << 30
)

// Main runs the tests m with their temporary directories in memory and returns the exit code. Where there is not enough of it, or where TMPDIR names another place than /tmp,
// they are where they would be without it.
func Main(m interface{ Run() int }) int {
	if filepath.Clean(os.TempDir()) != "/tmp" || !roomy() {
		return m.Run()
	}
	dir, err := os.MkdirTemp(memory, "tandemmq-test-")
	if err != nil {
		return m.Run()
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// Tests that become another user have to get through it.
	if os.Chmod(dir, 0o755) == nil {
		_ = os.Setenv("TMPDIR", dir)
	}
	return m.Run()
}

// Memory are tests that Main runs.
type Memory struct{ Tests interface{ Run() int } }

// Run is Main.
func (m Memory) Run() int { return Main(m.Tests) }

// roomy tells whether there is enough, also by the share of a disk above which a store deletes what has expired.
func roomy() bool {
	var st syscall.Statfs_t
	if syscall.Statfs(memory, &st) != nil || uint64(st.Bsize)*st.Bavail < leastBytes || st.Bavail < st.Blocks/4 {
		return false
	}
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int64
		if text, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			_, err := fmt.Sscan(text, &kib)
			return err == nil && kib<<10 >= leastMemBytes
		}
	}
	return false
}
