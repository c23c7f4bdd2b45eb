package soak

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/broker"
	"github.com/tandemq/tandemmq/internal/testenv"
	"github.com/tandemq/tandemmq/migrate/online"
)

// childEnv carries the properties of the broker, as JSON; with it the test binary is the broker.
const childEnv = "TANDEMMQ_SOAK_BROKER"

func TestMain(m *testing.M) {
	if conf := os.Getenv(childEnv); conf != "" {
		if err := serve(conf, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testenv.Main(m))
}

// What the child is told, a line each. Its input ends when it has to.
const (
	retainWord = "retain" // and a physical offset: from where on somebody needs the log
	lookWord   = "look"   // it answers with a line, seen
)

// seen is what the child says of itself.
type seen struct {
	Goroutines   int
	RemovedFiles int64
	MinPhyOffset int64
}

// serve is the child: a broker, until its input ends.
func serve(conf string, in io.Reader, out io.Writer) (err error) {
	var properties map[string]string
	if err := json.Unmarshal([]byte(conf), &properties); err != nil {
		return err
	}
	o, _, err := broker.ParseOptions(properties)
	if err != nil {
		return err
	}
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if err := online.Finish(o.StorePathRootDir, "start of the broker", o.Logger); err != nil {
		return err
	}
	need, err := online.Require(o.StorePathRootDir)
	if err != nil {
		return err
	}
	need.Apply(&o.Store, nil)
	b, err := broker.Open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	var retain atomic.Int64
	release := b.Store().RetainFrom("soak", retain.Load)
	defer release()
	if err := b.Start(); err != nil {
		return err
	}
	fmt.Fprintln(out, b.Addr())
	for lines := bufio.NewScanner(in); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case retainWord:
			n, err := strconv.ParseInt(rest, 10, 64)
			if err != nil {
				return err
			}
			retain.Store(n)
		case lookWord:
			debug.FreeOSMemory()
			r := b.Store().Retention()
			line, err := json.Marshal(seen{runtime.NumGoroutine(), r.RemovedFiles, r.MinPhyOffset})
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s\n", line)
		default:
			return fmt.Errorf("told %q", lines.Text())
		}
	}
	return nil
}

// child is the broker as the test sees it. One goroutine uses it.
type child struct {
	addr string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs *strings.Builder
}

// startTime is how long the broker may take to serve.
const startTime = 2 * time.Minute

func startChild(properties map[string]string) (*child, error) {
	conf, err := json.Marshal(properties)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self), errs: &strings.Builder{}}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(conf))
	c.cmd.Stderr = c.errs
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	overdue := time.AfterFunc(startTime, func() { _ = c.cmd.Process.Kill() })
	defer overdue.Stop()
	if c.addr, err = c.out.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the broker does not serve: %w: %s", errors.Join(err, c.cmd.Wait()), c.errs)
	}
	c.addr = strings.TrimSpace(c.addr)
	return c, nil
}

// kill ends it at once.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // it was killed
}

// close ends it in order.
func (c *child) close() error {
	_ = c.in.Close()
	overdue := time.AfterFunc(startTime, func() { _ = c.cmd.Process.Kill() })
	defer overdue.Stop()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("the broker did not end in order: %w: %s", err, c.errs)
	}
	return nil
}

// retain tells it what of the log is needed.
func (c *child) retain(phyOffset int64) error {
	_, err := fmt.Fprintf(c.in, "%s %d\n", retainWord, phyOffset)
	return err
}

// look returns what the broker has, of files below dir.
func (c *child) look(dir string) (s seen, h process.Held, err error) {
	if _, err := fmt.Fprintln(c.in, lookWord); err != nil {
		return s, h, err
	}
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return s, h, err
	}
	if err := json.Unmarshal(line, &s); err != nil {
		return s, h, err
	}
	h, err = process.Of(c.cmd.Process.Pid).Held(dir)
	return s, h, err
}
