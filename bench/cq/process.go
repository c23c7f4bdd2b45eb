package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// procNumber returns the number behind "name:" in a file of /proc/self.
func procNumber(file, name string) (int64, error) {
	b, err := os.ReadFile("/proc/self/" + file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			return strconv.ParseInt(number, 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/self/%s has no %s", file, name)
}

// writtenBytes returns what this process has caused to be written to disk so far, less what was cut off before it got there. A page counts when it gets dirty,
// and again when it gets dirty again after it was written.
func writtenBytes() (int64, error) {
	wrote, err := procNumber("io", "write_bytes")
	if err != nil {
		return 0, err
	}
	cancelled, err := procNumber("io", "cancelled_write_bytes")
	return wrote - cancelled, err
}

// anonMiB returns the memory of this process that is not of files (RssAnon), once Go has given back what it can.
func anonMiB() (float64, error) {
	debug.FreeOSMemory()
	kib, err := procNumber("status", "RssAnon")
	return float64(kib) / 1024, err
}

// mappedOf returns how many mappings this process has, and how many of files below dir.
func mappedOf(dir string) (all, own int, err error) {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		all++
		if strings.Contains(line, " "+dir+"/") {
			own++
		}
	}
	return all, own, nil
}

// openOf returns how many files this process has open, and how many below dir.
func openOf(dir string) (all, own int, err error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, 0, err
	}
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // that of the directory itself
		}
		if err != nil {
			return 0, 0, err
		}
		all++
		if strings.HasPrefix(to, dir+"/") {
			own++
		}
	}
	return all, own, nil
}

// diskBytes returns what the files below dir occupy.
func diskBytes(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a table that was merged meanwhile
		}
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			n += st.Blocks * 512
		}
		return nil
	})
	return n, err
}
