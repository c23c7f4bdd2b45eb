package store

import (
	"fmt"
	"strings"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// MissingFilesError tells that files are missing in the middle of the log, so that nothing can be read of it, and that nobody has said what is to become of that. It matches
// commitlog.ErrCorrupt.
type MissingFilesError struct {
	Root  string
	Files []commitlog.MissingFile
}

func (e *MissingFilesError) Error() string {
	var b strings.Builder
	n := len(e.Files)
	fmt.Fprintf(&b, "the commit log of store %s lacks %d files between others; nothing was changed", e.Root, n)
	for _, f := range e.Files[:min(n, maxDamageLines)] {
		fmt.Fprintf(&b, "\n  %s: missing (physical offsets %d to %d)", f.Path, f.From, f.To)
	}
	if n > maxDamageLines {
		fmt.Fprintf(&b, "\n  and %d more", n-maxDamageLines)
	}
	fmt.Fprintf(&b, `
restore these files from a copy or a replica, or say that their messages are lost:
  tandemmq store recover --store %[1]s --mend --dry-run   shows which files would be made
  tandemmq store recover --store %[1]s --mend             puts a filler in the place of each, and keeps what lies before and behind`, e.Root)
	return b.String()
}

// Is matches commitlog.ErrCorrupt.
func (e *MissingFilesError) Is(target error) bool { return target == commitlog.ErrCorrupt }

// missingFiles deals with files that are missing in the middle of the log, before anything else is looked at: without them there is no run of files to read. done tells that no more can
// be done: it is a dry run.
func (r *recovery) missingFiles() (done bool, err error) {
	base := DefaultOptions()
	if r.o.Options != nil {
		base = *r.o.Options
	}
	s := newStore(base)
	s.layout = r.layout
	w := s.writerOptions()
	w.SetAsideDir = r.layout.brokenDir()
	o := recoveryOptions(&w)
	o.FileSize, o.Logger = 0, r.o.Logger
	if r.rep.Missing, err = commitlog.MissingFiles(o); err != nil || len(r.rep.Missing) == 0 {
		return false, err
	}
	if r.o.Damage != DamageMend {
		return false, &MissingFilesError{Root: r.layout.Root, Files: r.rep.Missing}
	}
	if r.o.DryRun {
		r.note("what else a recovery would find and do can be told when these files are there")
		return true, nil
	}
	if _, err := markAbort(mmap.OS, r.layout.AbortPath()); err != nil { // before the first change
		return false, err
	}
	return false, commitlog.FillMissing(r.ctx, o, r.rep.Missing)
}

// noteMissingUnits lists the slots whose records were in files that a filler stands for now: they keep their units, and readers pass them.
func (r *recovery) noteMissingUnits(queues cq.Reader) error {
	units, inQueues := int64(0), 0
	for i, last := 0, len(r.rep.Missing)-1; i <= last; i++ {
		from := r.rep.Missing[i].From
		for i < last && r.rep.Missing[i+1].From == r.rep.Missing[i].To { // one stretch
			i++
		}
		list, u, q, err := lostUnits(queues, from, r.rep.Missing[i].To, maxLostRanges-len(r.rep.Lost))
		if err != nil {
			return err
		}
		r.rep.Lost = mergeLost(r.rep.Lost, list)
		units, inQueues = units+u, inQueues+q
	}
	if units > 0 {
		r.note("%d units in %d queues lead to records of log files that were missing; the queues keep their offsets, and readers pass these slots", units, inQueues)
	}
	return nil
}
