package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/bench/report"
)

// order is what a process that does one run is told.
type order struct {
	Scenario string  `json:"scenario"`
	Engine   string  `json:"engine"`
	Profile  Profile `json:"profile"`
	Dir      string  `json:"dir"`
	Cache    string  `json:"cache"`
	Prepare  bool    `json:"prepare,omitempty"`
}

// OwnProcess returns an Execute for Runner: each run is a process of its own, which is the program with these words and one more, that it hands to Obey. It is killed with all that it
// has started when ctx ends.
func OwnProcess(program string, words ...string) func(ctx context.Context, s *Scenario, r *Run) error {
	return func(ctx context.Context, s *Scenario, r *Run) error {
		told, err := json.Marshal(order{s.Name, r.Engine, r.Profile, r.Dir, r.Cache, r.Prepare})
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, program, append(slices.Clone(words), string(told))...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = 5 * time.Second
		out, anon, err := process.Watched(cmd)
		if err != nil {
			return err
		}
		var did Repetition
		if err := json.Unmarshal(out, &did); err != nil {
			return fmt.Errorf("%s printed no result: %w", filepath.Base(program), err)
		}
		if did.Figures == nil {
			did.Figures = report.Figures{}
		}
		r.Figures, r.Latencies, r.Checks = did.Figures, did.Latencies, did.Checks
		if _, ok := r.Figures[peakFigure]; !ok { // of RocketMQ its adapter tells it
			r.Figures[peakFigure] = anon
		}
		if did.Failed != "" {
			return errors.New(did.Failed)
		}
		return nil
	}
}

// Obey is the other side of OwnProcess: it does the run that it is told and prints what came of it.
func Obey(ctx context.Context, w io.Writer, scenarios []Scenario, peer func(context.Context) (Peer, error), told string) error {
	var o order
	if err := json.Unmarshal([]byte(told), &o); err != nil {
		return fmt.Errorf("the run: %w", err)
	}
	i := slices.IndexFunc(scenarios, func(s Scenario) bool { return s.Name == o.Scenario })
	if i < 0 {
		return fmt.Errorf("no scenario %q", o.Scenario)
	}
	r := &Run{Engine: o.Engine, Profile: o.Profile, Dir: o.Dir, Cache: o.Cache, Prepare: o.Prepare, Figures: report.Figures{}, Latencies: map[string]calibrate.Summary{}}
	var err error
	if r.Program, err = os.Executable(); err != nil {
		return err
	}
	if IsJava(o.Engine) {
		if r.Peer, err = peer(ctx); err != nil {
			return err
		}
	}
	did := Repetition{}
	if err := scenarios[i].Run(ctx, r); err != nil && !errors.Is(err, ErrPrepared) {
		did.Failed = err.Error()
	}
	did.Figures, did.Latencies, did.Checks = r.Figures, r.Latencies, r.Checks
	return json.NewEncoder(w).Encode(did)
}
