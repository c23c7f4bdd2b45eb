package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/process"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/online"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// openResult says what memory a store took that was migrated while it was open, in MiB of RssAnon: the largest seen in each stage. Every stage has what the ones before it have left.
type openResult struct {
	Time       time.Time `json:"time"`
	Queues     int       `json:"queues"`
	FilesMiB   float64   `json:"openFilesMiB"`   // open, with its queues in files alone, and at rest
	FilledMiB  float64   `json:"openFilledMiB"`  // opened with both, until RocksDB was filled
	VerifyMiB  float64   `json:"openVerifyMiB"`  // until every unit was compared
	CutoverMiB float64   `json:"openCutoverMiB"` // and reads had moved
	BothMiB    float64   `json:"openBothMiB"`    // both, and at rest
}

// manyOpen has a child fill, verify and cut over the store while it is open.
func (b *bench) manyOpen(root string, queues int) error {
	if err := clear(root); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, _, err := process.Watched(exec.Command(self, "-child", root))
	if err != nil {
		return err
	}
	var r openResult
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	r.Queues = queues
	fmt.Printf("%d queues, store open: RssAnon %.0f MiB with files alone, then at most %.0f while it is filled, %.0f while it is verified, %.0f until it is cut over; %.0f with both\n",
		queues, r.FilesMiB, r.FilledMiB, r.VerifyMiB, r.CutoverMiB, r.BothMiB)
	b.ratio("online_many_queues_rss_anon_mib", max(r.FilledMiB, r.VerifyMiB, r.CutoverMiB), "<=", maxRssAnonMiB)
	return errors.Join(calibrate.AppendJSON(b.out, &r), clear(root))
}

// openStore is the child: it migrates the store at root while it is open, as a broker does.
func openStore(ctx context.Context, root string) (err error) {
	r := openResult{Time: time.Now().UTC()}
	o := store.DefaultOptions()
	o.CleanFileForciblyEnable, o.BackfillBytesPerSec, o.BackfillPutLatency = false, 0, 0
	s, err := store.Open(root, o)
	if err != nil {
		return err
	}
	if r.FilesMiB, err = process.OwnAnonMiB(); err != nil {
		return errors.Join(err, s.Close())
	}
	m, err := online.Open(s, online.Options{Root: root, Kind: cq.KindFile})
	if err == nil {
		err = m.Begin(ctx, "bench", online.BeginOptions{})
		m.Close()
	}
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}

	o.RocksdbCQDoubleWriteEnable, o.UseSeparateStorePathForRocksdbCQ = true, true
	largest := process.Self().WatchAnon()
	if s, err = store.Open(root, o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if m, err = online.Open(s, online.Options{Root: root, Kind: cq.KindCombine}); err != nil {
		return err
	}
	defer m.Close()
	if err := awaitPhase(m, state.Verifying, state.Verified); err != nil {
		return err
	}
	r.FilledMiB = largest()
	largest = process.Self().WatchAnon()
	if err := awaitPhase(m, state.Verified); err != nil {
		return err
	}
	r.VerifyMiB = largest()
	largest = process.Self().WatchAnon()
	if err := m.Cutover(ctx, "bench", nil); err != nil {
		return err
	}
	r.CutoverMiB = largest()
	if r.BothMiB, err = process.OwnAnonMiB(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// awaitPhase returns when the migration is in one of these phases.
func awaitPhase(m *online.Migration, phases ...state.Phase) error {
	for {
		st := m.Status()
		for _, p := range phases {
			if st.Phase == p {
				return nil
			}
		}
		if st.Phase == state.Diverged {
			return fmt.Errorf("the migration is %s: %v", st.Phase, st.Differences)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
