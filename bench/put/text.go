package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/tandemq/tandemmq/bench/calibrate"
)

// text tells in a line what the row gave.
func (x result) text(k kind) string {
	switch k {
	case writeBack:
		return fmt.Sprintf("%.0f MB/s", x.logBytesPerSecond/1e6)
	case bare:
		return fmt.Sprintf("%.0f syncs/s, p50 %.0f us, p99 %.0f us, %s a sync", x.perSecond, micros(x.latency.P50), micros(x.latency.P99), kib(x.bytesPerSync))
	}
	return fmt.Sprintf("%.0f messages/s, p50 %.1f us, p99 %.1f us", x.perSecond, micros(x.latency.P50), micros(x.latency.P99))
}

func kib(bytes float64) string {
	if bytes < 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.1f KiB", bytes/1024)
}

// table prints the median of every figure, and the spread of the rate.
func table(w io.Writer, rows []row, all []repetition) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nrow\t1/s median\tmin\tmax\tof M\tlog MB/s\tp50 us\tp99 us\tp99.9 us\tlongest ms\tKiB a sync\tundurable MiB, ms\n")
	for _, r := range rows {
		median := func(f func(result) float64) string {
			v, _ := spread(all, field(r.name, f))
			return short(v[1])
		}
		v, _ := spread(all, rate(r.name))
		sync, _ := spread(all, field(r.name, func(x result) float64 { return x.bytesPerSync }))
		perSync := "-"
		if sync[1] > 0 {
			perSync = short(sync[1] / 1024)
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s, %s\n", r.name, v[1], v[0], v[2],
			median(func(x result) float64 { return x.perSecond / x.copyPerSecond }),
			median(func(x result) float64 { return x.logBytesPerSecond / 1e6 }),
			median(func(x result) float64 { return micros(x.latency.P50) }),
			median(func(x result) float64 { return micros(x.latency.P99) }),
			median(func(x result) float64 { return micros(x.latency.P999) }),
			median(func(x result) float64 { return micros(x.latency.Max) / 1000 }),
			perSync,
			median(func(x result) float64 { return float64(x.undurableBytes) / (1 << 20) }),
			median(func(x result) float64 { return x.undurableMillis }))
	}
	_ = t.Flush()
	fmt.Fprintln(w)
}

// machineInfo is what a figure means nothing without.
type machineInfo struct {
	CPU        string `json:"cpu"`
	Processors int    `json:"processors"`
	GoMaxProcs string `json:"goMaxProcs"` // of the programs measured; empty: the number of processors
	MemoryKiB  string `json:"memory"`
	Kernel     string `json:"kernel"`
	Filesystem string `json:"filesystem"`
	Device     string `json:"deviceCounters"` // whether the block device's counters are known
	Go         string `json:"go"`
	Java       string `json:"java"`
	TandemMQ   string `json:"tandemmq"`
}

func machine(ctx context.Context, dir, bin string) machineInfo {
	m := machineInfo{
		CPU: procField("/proc/cpuinfo", "model name"), Processors: runtime.NumCPU(), GoMaxProcs: os.Getenv("GOMAXPROCS"),
		MemoryKiB: procField("/proc/meminfo", "MemTotal"), Kernel: firstLine(os.ReadFile("/proc/sys/kernel/osrelease")),
		Filesystem: filesystem(dir), Device: "unknown", Go: runtime.Version(),
	}
	if _, ok := calibrate.DeviceOf(dir).Written(); ok {
		m.Device = "known"
	}
	m.TandemMQ = firstLine(exec.CommandContext(ctx, bin, "version").Output())
	m.Java = firstLine(exec.CommandContext(ctx, "java", "-version").CombinedOutput())
	return m
}

func (m machineInfo) String() string {
	procs := m.GoMaxProcs
	if procs == "" {
		procs = fmt.Sprint(m.Processors)
	}
	return fmt.Sprintf("%s, %d processors, GOMAXPROCS %s, memory %s, Linux %s, %s, device counters %s\n%s, %s, %s; files are made by each program as it does by default",
		m.CPU, m.Processors, procs, m.MemoryKiB, m.Kernel, m.Filesystem, m.Device, m.TandemMQ, m.Go, m.Java)
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
