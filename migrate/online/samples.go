package online

import (
	"context"
	"log/slog"
	"time"

	"github.com/tandemq/tandemmq/internal/latency"
	"github.com/tandemq/tandemmq/migrate/state"
)

const (
	defaultSampleEvery = time.Second
	// sampleRest is how many parts of the time puts are not timed for each part in which they are, while the migration waits for somebody.
	sampleRest = 9
	// sampledAfter is for how long samples are taken after the end.
	sampledAfter = time.Hour
	// diskLimit is how long it may take to find out what is on the disk.
	diskLimit = 30 * time.Second
)

// sample takes down how the migration goes, for reports, until ctx ends.
func (m *Migration) sample(ctx context.Context) {
	s, err := state.OpenSamples(m.dir, m.o.SampleEvery)
	if err != nil {
		m.o.Logger.Warn("how the migration goes is not taken down", slog.Any("err", err))
		return
	}
	defer func() {
		if err := s.Close(); err != nil {
			m.o.Logger.Warn("how the migration goes was not all taken down", slog.Any("err", err))
		}
	}()
	looked := state.Phase("") // in which the disk was last looked at
	if st := m.state(); sampled(&st, m.now()) {
		all, err := state.LoadSamples(m.dir)
		for i := len(all) - 1; i >= 0 && err == nil && looked == ""; i-- {
			if all[i].Disk != nil {
				looked = all[i].Phase
			}
		}
	}
	for ctx.Err() == nil {
		st := m.state()
		if !sampled(&st, m.now()) || !s.Wanted(st.Phase, "", m.now()) {
			wait(ctx, m.o.SampleEvery)
			continue
		}
		puts := m.timePuts(ctx)
		now := m.Status()
		x := state.Sample{Time: m.now(), Phase: now.Phase}
		if now.Phase == st.Phase { // otherwise they belong to neither
			x.Puts = puts
		}
		switch {
		case now.Fill != nil:
			x.Done, x.Of, x.Unit = now.Fill.Done-now.Fill.From, now.Fill.To-now.Fill.From, "bytes"
		case now.Verifying != nil:
			x.Done, x.Of, x.Unit = int64(now.Verifying.Queues), int64(now.Verifying.Of), "queues"
		}
		if m.o.QueueDisk != nil && settledPhase(now.Phase) && looked != now.Phase {
			looked = now.Phase
			within, cancel := context.WithTimeout(ctx, diskLimit)
			if disk, err := m.o.QueueDisk(within); err == nil {
				x.Disk = disk
			}
			cancel()
		}
		s.Add(x, false)
		if settledPhase(now.Phase) {
			for i := 0; i < sampleRest && m.state().Phase == now.Phase; i++ {
				wait(ctx, m.o.SampleEvery)
			}
		}
	}
}

// timePuts waits for as long as puts are timed, and returns how long they took.
func (m *Migration) timePuts(ctx context.Context) latency.Counts {
	if m.o.TimePuts == nil {
		wait(ctx, m.o.SampleEvery)
		return nil
	}
	take, stop := m.o.TimePuts()
	defer stop()
	wait(ctx, m.o.SampleEvery)
	return take()
}

// sampled tells whether there is a migration whose course is of interest.
func sampled(st *state.State, now time.Time) bool {
	if st.Online == nil || st.Phase == state.Absent || len(st.History) == 0 {
		return false
	}
	over := st.Phase == state.RolledBack || st.Phase == state.Finalized
	return !over || now.Sub(st.History[len(st.History)-1].Time) < sampledAfter
}

// settledPhase tells whether nothing is done in a phase until somebody asks for it.
func settledPhase(p state.Phase) bool {
	switch p {
	case state.Planned, state.Verified, state.Diverged, state.Cutover, state.RolledBack, state.Finalizing, state.Finalized:
		return true
	}
	return false
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
