// Package process looks at a process of this machine: the memory, mappings and descriptors that it has, the processor time that it took, what it caused to be written to disk.
// The numbers are those of /proc.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is one that runs.
type Process struct{ dir string }

// Self is the process that asks.
func Self() Process { return Process{"/proc/self"} }

// Of is the process of that number.
func Of(pid int) Process { return Process{"/proc/" + strconv.Itoa(pid)} }

// number returns the number behind "name:" in a file of the process's directory.
func (p Process) number(file, name string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(p.dir, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			return strconv.ParseInt(number, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s/%s has no %s", p.dir, file, name)
}

// WrittenBytes is what the process has caused to be written to disk so far, less what was cut off before it got there. A page counts when it gets dirty,
// and again when it gets dirty again after it was written.
func (p Process) WrittenBytes() (int64, error) {
	wrote, err := p.number("io", "write_bytes")
	if err != nil {
		return 0, err
	}
	cancelled, err := p.number("io", "cancelled_write_bytes")
	return wrote - cancelled, err
}

// AnonMiB is the memory that is not of files (RssAnon).
func (p Process) AnonMiB() (float64, error) {
	kib, err := p.number("status", "RssAnon")
	return float64(kib) / 1024, err
}

// watchStep is how often WatchAnon looks.
const watchStep = 10 * time.Millisecond

// WatchAnon samples AnonMiB until the function that it returns is called, which gives the largest; a process that has ended adds nothing.
func (p Process) WatchAnon() (largest func() float64) {
	stop, found := make(chan struct{}), make(chan float64)
	go func() {
		tick := time.NewTicker(watchStep)
		defer tick.Stop()
		most := 0.0
		for asked := true; asked; {
			select {
			case <-stop:
				asked = false
			case <-tick.C:
			}
			if mib, err := p.AnonMiB(); err == nil {
				most = max(most, mib)
			}
		}
		found <- most
	}()
	return func() float64 {
		close(stop)
		return <-found
	}
}

// OwnAnonMiB is AnonMiB of the process that asks, once Go has given back what it can.
func OwnAnonMiB() (float64, error) {
	debug.FreeOSMemory()
	return Self().AnonMiB()
}

// clockTick is the unit of processor times in /proc, on every architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// CPU is the processor time that the process took so far, in steps of 10 ms.
func (p Process) CPU() (time.Duration, error) {
	b, err := os.ReadFile(filepath.Join(p.dir, "stat"))
	if err != nil {
		return 0, err
	}
	// The second field is the name, in brackets, and may hold anything; utime and stime are the 14th and the 15th.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s/stat has %d fields behind the name, want 13", p.dir, len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick, err
}

// Held is what a process has at a moment.
type Held struct {
	AnonMiB              float64
	Mappings, OwnMapped  int // all of them, and those of files below the directory that was asked for
	Descriptors, OwnOpen int // likewise
}

// Held returns what the process has, of files below dir apart.
func (p Process) Held(dir string) (h Held, err error) {
	if h.AnonMiB, err = p.AnonMiB(); err != nil {
		return h, err
	}
	if h.Mappings, h.OwnMapped, err = p.mapped(dir); err != nil {
		return h, err
	}
	h.Descriptors, h.OwnOpen, err = p.open(dir)
	return h, err
}

func (p Process) mapped(dir string) (all, own int, err error) {
	b, err := os.ReadFile(filepath.Join(p.dir, "maps"))
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

func (p Process) open(dir string) (all, own int, err error) {
	entries, err := os.ReadDir(filepath.Join(p.dir, "fd"))
	if err != nil {
		return 0, 0, err
	}
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(p.dir, "fd", e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // that of the directory itself, or closed meanwhile
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

// DiskBytes is what the files below dir occupy.
func DiskBytes(dir string) (n int64, err error) {
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

// Watched runs a program and returns what it printed, and the largest AnonMiB that was seen of it; of a program that fails the error tells what it said.
func Watched(cmd *exec.Cmd) (out []byte, anonMiB float64, err error) {
	var said, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &errs
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	peak := Of(cmd.Process.Pid).WatchAnon()
	err = cmd.Wait()
	anonMiB = peak()
	if err != nil {
		text := strings.TrimSpace(errs.String())
		err = fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, text[max(0, len(text)-2000):])
	}
	return said.Bytes(), anonMiB, err
}
