package compare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cgroupRoot is where cgroups are, of the second version.
const cgroupRoot = "/sys/fs/cgroup"

// memoryGroup is a directory of cgroups (version 2) in which groups can be made that bound memory.
type memoryGroup struct {
	dir    string
	remove func(dir string) error // os.Remove: the files in a group's directory are the kernel's
}

// findMemoryGroup returns where this process can make such a group, which is below the one that it is in, or why nowhere.
func findMemoryGroup(root string) (memoryGroup, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return memoryGroup{}, fmt.Errorf("less memory than the machine has: %w", err)
	}
	return memoryGroupOf(root, string(own))
}

func memoryGroupOf(root, own string) (memoryGroup, error) {
	place := ""
	for line := range strings.Lines(own) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			place = filepath.Join(root, path)
		}
	}
	if place == "" {
		return memoryGroup{}, errors.New("less memory than the machine has: this machine has no cgroups of version 2")
	}
	// A group with processes in it cannot share its memory out among groups below it; the root of all can.
	b, err := os.ReadFile(filepath.Join(place, "cgroup.subtree_control"))
	if err != nil {
		return memoryGroup{}, fmt.Errorf("less memory than the machine has: no cgroups of version 2: %w", err)
	}
	if !slices.Contains(strings.Fields(string(b)), "memory") {
		return memoryGroup{}, fmt.Errorf("less memory than the machine has: %s shares no memory out among cgroups below it", place)
	}
	probe, err := os.MkdirTemp(place, "tandemmq-bench-")
	if err != nil {
		return memoryGroup{}, fmt.Errorf("less memory than the machine has: %w", err)
	}
	return memoryGroup{place, os.Remove}, os.Remove(probe)
}

// enter moves this process into a group of its own that has so many bytes of memory. Above that the kernel takes pages away that are not needed, and slows the process down; it kills nobody.
// leave moves it back and removes the group.
func (g memoryGroup) enter(bytes int64) (leave func() error, err error) {
	dir, err := os.MkdirTemp(g.dir, "tandemmq-bench-")
	if err != nil {
		return nil, err
	}
	self := strconv.Itoa(os.Getpid())
	leave = func() error {
		return errors.Join(writeGroup(g.dir, "cgroup.procs", self), g.remove(dir))
	}
	if err := errors.Join(writeGroup(dir, "memory.high", strconv.FormatInt(bytes, 10)), writeGroup(dir, "cgroup.procs", self)); err != nil {
		return nil, errors.Join(err, leave())
	}
	return leave, nil
}

func writeGroup(dir, name, value string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644)
}
