package calibrate

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// MachineInfo is what a figure means nothing without.
type MachineInfo struct {
	CPU        string `json:"cpu"`
	Processors int    `json:"processors"`
	GoMaxProcs string `json:"goMaxProcs"` // of the programs measured; empty: the number of processors
	MemoryKiB  string `json:"memory"`
	Kernel     string `json:"kernel"`
	Filesystem string `json:"filesystem"`
	Warning    string `json:"warning,omitempty"`
	Device     string `json:"deviceCounters"` // whether the block device's counters are known
	Go         string `json:"go"`
	Java       string `json:"java"`
	TandemMQ   string `json:"tandemmq,omitempty"`
}

// Machine describes the machine, the filesystem of dir and the programs; bin is the tandemmq binary, "" for none.
func Machine(ctx context.Context, dir, bin string) MachineInfo {
	m := MachineInfo{
		CPU: procField("/proc/cpuinfo", "model name"), Processors: runtime.NumCPU(), GoMaxProcs: os.Getenv("GOMAXPROCS"),
		MemoryKiB: procField("/proc/meminfo", "MemTotal"), Kernel: firstLine(os.ReadFile("/proc/sys/kernel/osrelease")),
		Filesystem: filesystem(dir), Device: "unknown", Go: runtime.Version(),
	}
	m.Warning = warning(m.Filesystem)
	if _, ok := DeviceOf(dir).Written(); ok {
		m.Device = "known"
	}
	if bin != "" {
		m.TandemMQ = firstLine(exec.CommandContext(ctx, bin, "version").Output())
	}
	m.Java = firstLine(exec.CommandContext(ctx, "java", "-version").CombinedOutput())
	return m
}

// warning says why figures of a filesystem are not those of a disk; empty: nothing is known against it.
func warning(filesystem string) string {
	kind, _, _ := strings.Cut(filesystem, " ")
	if kind == "tmpfs" || kind == "ramfs" {
		return kind + " is in memory: no disk is measured. What is read was in memory before, and a sync does nothing"
	}
	return ""
}

func (m MachineInfo) String() string {
	text := m.hardware() + "\n" + m.programs() + "; files are made by each program as it does by default"
	if m.Warning != "" {
		text += "\nWARNING: " + m.Warning
	}
	return text
}

func (m MachineInfo) hardware() string {
	procs := m.GoMaxProcs
	if procs == "" {
		procs = fmt.Sprint(m.Processors)
	}
	return fmt.Sprintf("%s, %d processors, GOMAXPROCS %s, memory %s, Linux %s, %s, device counters %s", m.CPU, m.Processors, procs, m.MemoryKiB, m.Kernel, m.Filesystem, m.Device)
}

func (m MachineInfo) programs() string {
	return strings.Join(slices.DeleteFunc([]string{m.TandemMQ, m.Go, m.Java}, func(s string) bool { return s == "" }), ", ")
}

// Differs returns what two descriptions have of machines that are not the same one; both are empty where they are. Programs are none of the machine: they are what is compared.
func (m MachineInfo) Differs(from MachineInfo) (mine, other string) {
	a, b := m, from
	for _, one := range []*MachineInfo{&a, &b} {
		one.TandemMQ, one.Go, one.Java = "", "", ""
	}
	if a == b {
		return "", ""
	}
	return m.hardware(), from.hardware()
}

func firstLine(b []byte, err error) string {
	line, _, _ := strings.Cut(string(b), "\n")
	if line == "" && err != nil {
		return "unknown"
	}
	return strings.TrimSpace(line)
}

// procField returns the value behind the first "name: value" of a file in /proc.
func procField(path, name string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if field, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(field) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// filesystem returns the type of the filesystem that dir lies on, and its mount options.
func filesystem(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "unknown"
	}
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "unknown"
	}
	best, kind := "", "unknown"
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 4 || len(f[1]) < len(best) {
			continue
		}
		if f[1] == "/" || abs == f[1] || strings.HasPrefix(abs, f[1]+"/") {
			best, kind = f[1], f[2]+" ("+f[3]+")"
		}
	}
	return kind
}

// Spread returns min, median and max of values; ok is false without values, and where one of them is no number.
func Spread(values []float64) (v [3]float64, ok bool) {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 || slices.ContainsFunc(sorted, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
		return v, false
	}
	return [3]float64{sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]}, true
}

// Short writes a number with three digits or so.
func Short(v float64) string {
	switch {
	case v != 0 && math.Abs(v) < 0.01:
		return fmt.Sprintf("%.4f", v)
	case math.Abs(v) < 10:
		return fmt.Sprintf("%.2f", v)
	case math.Abs(v) < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
