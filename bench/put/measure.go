package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

// result is what a row gave. Figures that its kind does not have are 0, those that cannot be told negative.
type result struct {
	perSecond         float64 // messages, or syncs of a bare row
	logBytesPerSecond float64 // of a write-back row what the disk took
	latency           calibrate.Summary
	rolls             calibrate.Summary
	allocs            float64 // a put
	bytesPerSync      float64 // that the block device wrote
	undurableBytes    int64   // the most
	undurableMillis   float64 // the longest

	// The memory calibration, the mean of before and after.
	copyPerSecond, copyCRCNanos, populateNanos float64

	raw json.RawMessage
}

// measurers returns how each kind of row is measured.
func measurers(ctx context.Context, b *bench, withJava bool) (map[kind]func(context.Context, row, string) (result, error), error) {
	m := map[kind]func(context.Context, row, string) (result, error){
		ours: func(ctx context.Context, r row, dir string) (result, error) { return measureOurs(ctx, b.bin, r, dir) },
		bare: func(_ context.Context, _ row, dir string) (result, error) {
			s, err := calibrate.Append(dir, b.sizes.bare)
			return withRaw(result{perSecond: s.PerSecond, latency: s.Latency, bytesPerSync: s.DeviceBytesPerSync}, s, err)
		},
		writeBack: func(_ context.Context, _ row, dir string) (result, error) {
			rate, err := calibrate.WriteBack(dir, b.sizes.writeBack)
			return withRaw(result{logBytesPerSecond: rate}, map[string]float64{"bytesPerSecond": rate}, err)
		},
	}
	if withJava {
		classPath, err := java.Build(ctx)
		if err != nil {
			return nil, err
		}
		m[javas] = func(ctx context.Context, r row, dir string) (result, error) {
			return measureJava(ctx, classPath, r, dir)
		}
	}
	return m, nil
}

func withRaw(r result, raw any, err error) (result, error) {
	if err != nil {
		return result{}, err
	}
	r.raw, err = json.Marshal(raw)
	return r, err
}

// measureOurs runs the binary with the row's arguments.
func measureOurs(ctx context.Context, bin string, r row, dir string) (result, error) {
	args := append([]string{"bench", "put", "--json", "--dir", filepath.Join(dir, "store")}, r.args...)
	out, err := output(exec.CommandContext(ctx, bin, args...))
	if err != nil {
		return result{}, err
	}
	return parseOurs(out)
}

func parseOurs(out []byte) (result, error) {
	var doc struct {
		Runs []struct {
			MessagesPerSecond, LogBytesPerSecond  float64
			Latency, Rolls                        calibrate.Summary
			AllocsPerPut                          float64
			Syncs, DeviceBytes, UndurableMaxBytes int64
			UndurableMaxMillis                    float64
		}
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return result{}, fmt.Errorf("tandemmq bench put: %w", err)
	}
	if len(doc.Runs) != 1 {
		return result{}, fmt.Errorf("tandemmq bench put: %d runs, want 1", len(doc.Runs))
	}
	run := doc.Runs[0]
	res := result{
		perSecond: run.MessagesPerSecond, logBytesPerSecond: run.LogBytesPerSecond, latency: run.Latency, rolls: run.Rolls,
		allocs: run.AllocsPerPut, bytesPerSync: -1, undurableBytes: run.UndurableMaxBytes, undurableMillis: run.UndurableMaxMillis,
	}
	if run.DeviceBytes >= 0 && run.Syncs > 0 {
		res.bytesPerSync = float64(run.DeviceBytes) / float64(run.Syncs)
	}
	raw, err := withoutDir(out)
	res.raw = raw
	return res, err
}

// withoutDir takes the store's path out of a result, which is kept where others read it.
func withoutDir(out []byte) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(out, &fields); err != nil {
		return nil, err
	}
	delete(fields, "dir")
	return json.Marshal(fields)
}

// javaHeap of the RocketMQ store: fixed, so that its growth is no part of the measurement.
const javaHeap = "2g"

// measureJava runs StorePut with the row's arguments.
func measureJava(ctx context.Context, classPath string, r row, dir string) (result, error) {
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		return result{}, err
	}
	words := append([]string{filepath.Join(dir, "store")}, r.args...)
	out, err := output(java.Command(ctx, classPath, home, []string{"-Xms" + javaHeap, "-Xmx" + javaHeap}, "StorePut", words...))
	if err != nil {
		return result{}, err
	}
	return parseJava(out)
}

func parseJava(out []byte) (result, error) {
	for line := range bytes.Lines(out) {
		if !bytes.HasPrefix(line, []byte(`{"t":"put"`)) {
			continue // the store prints a line of its own here and there
		}
		var run struct {
			Seconds, MessagesPerSecond float64
			LogBytes                   int64
			calibrate.Summary
		}
		if err := json.Unmarshal(line, &run); err != nil {
			return result{}, fmt.Errorf("StorePut: %w", err)
		}
		return result{
			perSecond: run.MessagesPerSecond, logBytesPerSecond: float64(run.LogBytes) / run.Seconds, latency: run.Summary,
			bytesPerSync: -1, raw: bytes.TrimSpace(line),
		}, nil
	}
	return result{}, fmt.Errorf("StorePut printed no measurement: %q", out)
}

// output runs the program and returns what it printed; of a program that fails the error tells what it said.
func output(cmd *exec.Cmd) ([]byte, error) {
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		text := errs.Bytes()
		return nil, fmt.Errorf("%s: %w", filepath.Base(cmd.Path), errors.Join(err, errors.New(string(text[max(0, len(text)-2000):]))))
	}
	return out, nil
}
