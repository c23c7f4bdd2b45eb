package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/namesrv"
	"github.com/tandemq/tandemmq/tests/interop/java"
)

// impl is who answers.
type impl string

const (
	ours   impl = "ours"
	javas  impl = "java"
	echoed impl = "echo"
)

// server is one that is driven.
type server struct {
	addr, namesrv string
	process       process.Process
	stop          func() error // ends it in order
	kill          func() error // ends it at once; of ours alone
}

// servers are those of a repetition, each over a new store, started when it is first needed.
type servers struct {
	b       *bench
	dir     string
	running map[impl]*server
}

func (s *servers) get(ctx context.Context, of impl) (*server, error) {
	if v := s.running[of]; v != nil {
		return v, nil
	}
	v, err := s.b.start[of](ctx, filepath.Join(s.dir, string(of)))
	if err != nil {
		return nil, err
	}
	s.running[of] = v
	return v, warmUp(ctx, of, v, s.b.sizes.Warmup)
}

// close ends all, and removes what they have written.
func (s *servers) close() error {
	var faults []error
	for of, v := range s.running {
		if err := v.stop(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", of, err))
		}
	}
	return errors.Join(append(faults, os.RemoveAll(s.dir))...)
}

// warmUp sends and pulls what is not measured: code gets compiled, files get made.
func warmUp(ctx context.Context, of impl, v *server, messages int) error {
	r := &load.Remote{Addr: v.addr, Topic: "warm_up", Queues: queues}
	if of != echoed {
		if err := r.Make(ctx); err != nil {
			return err
		}
	}
	if _, err := r.Send(ctx, load.SendLoad{Connections: sendConnections, InFlight: 1, Messages: messages}); err != nil || of == echoed {
		return err
	}
	if err := r.Await(ctx, messages); err != nil {
		return err
	}
	for range 2 {
		if _, err := r.Pull(ctx, load.PullLoad{Group: "load_warm_up", Consumers: 1}); err != nil {
			return err
		}
	}
	return nil
}

// startTime is how long a server may take until it serves.
const startTime = 2 * time.Minute

// launch starts a program that says, in a line that begins with "ready ", when it serves; end has it end. The rest of the line is returned.
func launch(cmd *exec.Cmd, end func() error) (v *server, line string, err error) {
	var errs tail
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	overdue := time.AfterFunc(startTime, func() { _ = cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	for err == nil {
		line, err = lines.ReadString('\n')
		if rest, ok := strings.CutPrefix(line, "ready "); ok {
			line = strings.TrimSpace(rest)
			break
		}
	}
	overdue.Stop()
	if err != nil {
		return nil, "", fmt.Errorf("%s does not serve: %w: %s", filepath.Base(cmd.Path), errors.Join(cmd.Wait(), err), errs.text())
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, lines)
	}()
	wait := func() error {
		<-drained
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, errs.text())
		}
		return nil
	}
	return &server{
		process: process.Of(cmd.Process.Pid),
		stop:    func() error { return errors.Join(end(), wait()) },
		kill: func() error {
			err := cmd.Process.Kill()
			_ = wait() // it was killed
			return err
		},
	}, line, nil
}

// tail keeps the last of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 2000

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	t.b = t.b[max(0, len(t.b)-tailBytes):]
	return len(b), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}

// word returns the value of name=value in a line.
func word(line, name string) string {
	for w := range strings.FieldsSeq(line) {
		if v, ok := strings.CutPrefix(w, name+"="); ok {
			return v
		}
	}
	return ""
}

// startOurs starts the binary as a user does.
func startOurs(bin string) starter {
	return func(ctx context.Context, dir string) (*server, error) {
		cmd := exec.CommandContext(ctx, bin, "broker", "--store", filepath.Join(dir, "store"), "--listen", "127.0.0.1:0", "--embedded-namesrv", "--namesrv-listen", "127.0.0.1:0", "--name", "broker", "--quiet")
		v, line, err := launch(cmd, func() error { return cmd.Process.Signal(syscall.SIGTERM) })
		if err != nil {
			return nil, err
		}
		v.addr, v.namesrv = word(line, "listen"), word(line, "namesrv")
		return v, nil
	}
}

// startEcho starts this program.
func startEcho(ctx context.Context, _ string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-echo")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	v, line, err := launch(cmd, in.Close)
	if err != nil {
		return nil, err
	}
	v.addr = word(line, "listen")
	return v, nil
}

// javaOptions of RocketMQ's broker: the heap is fixed, so that its growth is no part of the measurement.
var javaOptions = []string{"-Xms2g", "-Xmx2g", "-XX:MaxDirectMemorySize=1g"}

// startJava starts RocketMQ's broker at its defaults, registered with a NameServer of ours.
func startJava(ctx context.Context, dir string) (_ *server, err error) {
	names, err := namesrv.NewServer(namesrv.Options{})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, names.Close())
		}
	}()
	at, err := names.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	cmd, err := java.BrokerCommand(ctx, dir, at.String(), javaOptions, nil)
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	v, line, err := launch(cmd, in.Close)
	if err != nil {
		return nil, err
	}
	v.addr, v.namesrv = line, at.String()
	stop := v.stop
	v.stop = func() error { return errors.Join(stop(), names.Close()) }
	return v, nil
}

// client is RocketMQ's client.
type client struct{ classPath, namesrv, home string }

// run has it send or consume, and takes the processor time of the server meanwhile, for each message.
func (c client) run(ctx context.Context, v *server, messages int, words ...string) (perSecond, cpuMicros float64, err error) {
	if err := os.MkdirAll(c.home, 0o755); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, clientTime)
	defer cancel()
	cmd := java.Command(ctx, c.classPath, c.home, []string{"-Xmx512m", "-Drocketmq.client.logRoot=" + c.home}, "ClientLoad", append([]string{c.namesrv}, words...)...)
	var errs tail
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	var before, after time.Duration
	var nanos int64
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch line := lines.Text(); {
		case line == "begin":
			if before, err = v.process.CPU(); err == nil {
				_, err = io.WriteString(in, "\n")
			}
		case strings.HasPrefix(line, "end "):
			var endErr error
			after, endErr = v.process.CPU()
			_, scanErr := fmt.Sscanf(line, "end %d", &nanos)
			err = errors.Join(err, endErr, scanErr)
		}
		if err != nil {
			cancel()
		}
	}
	err = errors.Join(err, cmd.Wait())
	if err == nil && nanos <= 0 {
		err = errors.New("it printed no measurement")
	}
	if err != nil {
		return 0, 0, fmt.Errorf("RocketMQ's client: %w: %s", err, errs.text())
	}
	return float64(messages) / time.Duration(nanos).Seconds(), micros(after-before) / float64(messages), nil
}

// clientTime bounds a run of RocketMQ's client.
const clientTime = 5 * time.Minute

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
