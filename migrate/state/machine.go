package state

import (
	"fmt"
	"slices"
)

// Phase is where a migration stands.
type Phase string

// The phases. An empty Phase reads as Absent.
const (
	Absent      Phase = "absent"       // nothing was ever done here
	Planned     Phase = "planned"      // sides and layout are fixed, the target is untouched
	Backfilling Phase = "backfilling"  // units are being written; BackfilledTo says how far
	CatchingUp  Phase = "catching-up"  // the history is in the target, what came meanwhile is being added
	Verifying   Phase = "verifying"    // the target is complete, not yet proven equal
	Verified    Phase = "verified"     // a certificate exists
	Diverged    Phase = "diverged"     // verification found differences
	Repairing   Phase = "repairing"    // queues that the log proves wrong on one side are being built again
	Cutover     Phase = "cutover"      // reads belong to the target
	RollingBack Phase = "rolling-back" // reads are going back to the source
	RolledBack  Phase = "rolled-back"  // reads belong to the source again
	Finalizing  Phase = "finalizing"   // the side that is not kept is about to be moved aside
	Finalized   Phase = "finalized"    // one side is left
)

// Phases are all of them, in the order in which a migration comes to them.
func Phases() []Phase {
	return []Phase{
		Absent, Planned, Backfilling, CatchingUp, Verifying, Verified, Diverged, Repairing, Cutover, RollingBack, RolledBack, Finalizing, Finalized,
	}
}

// Event is what happened to a migration.
type Event string

// The events that Next accepts.
const (
	Plan           Event = "plan"            // a migration is set up (also anew, after a rollback)
	BackfillStart  Event = "backfill-start"  // units are about to be written, also again: the target was found to lack some
	HistoryEnd     Event = "history-end"     // everything that the log had when the backfill began is in the target
	CaughtUp       Event = "caught-up"       // the target has whatever the source has, and both are written from now on
	BackfillEnd    Event = "backfill-end"    // everything up to the end of a stopped store's log is written and published
	BackfillCancel Event = "backfill-cancel" // damage was found; what was written is void
	VerifyStart    Event = "verify-start"    // what was known of the sides does not count any more, or is to be found out again
	VerifyOK       Event = "verified"        // the sides are equal
	VerifyDiffers  Event = "diverged"        // the sides differ
	RepairStart    Event = "repair-start"    // queues are built again on the side that the log proves wrong
	RepairEnd      Event = "repair-end"      // they are, and have to be verified
	Canary         Event = "canary"          // reads of some topics move to the target, or back
	CutOver        Event = "cutover"         // reads move to the target
	Cancel         Event = "cancel"          // the migration is given up before reads have moved
	RollbackStart  Event = "rollback-start"  // reads are about to move back
	RollbackEnd    Event = "rollback-end"    // they have moved back
	FinalizeStart  Event = "finalize-start"  // the side that reads do not belong to is given up
	FinalizeEnd    Event = "finalize-end"    // it was moved aside
	RetiredRemoved Event = "retired-removed" // what was moved aside was deleted; a note, which Next does not know
	ShadowDiffers  Event = "shadow-differs"  // after the cutover, a read was compared and found different; likewise a note
	StepDiffers    Event = "step-differs"    // after the cutover, a step has compared queues and found differences; likewise a note
	Healed         Event = "healed"          // queues that differed after the cutover were built again and are the same; likewise a note
	QueueKept      Event = "queue-kept"      // somebody has chosen which side of a queue stays; likewise a note
	QueueDamaged   Event = "queue-damaged"   // after the cutover, a queue was found to lack something by who met that, and is built again; likewise a note
	SideReplaced   Event = "side-replaced"   // after the cutover, a side was found damaged and is built again; likewise a note
	SideWhole      Event = "side-whole"      // it was; likewise a note
	QueueRebuilt   Event = "queue-rebuilt"   // somebody has asked for queues to be built again from the log; likewise a note
)

// transitions is the whole machine: for each event, from which phases it may come and where it leads. An event that
// leads to the phase it came from is a repetition after a kill, or news within the phase.
var transitions = map[Event]struct {
	from []Phase
	to   Phase
}{
	Plan:           {[]Phase{Absent, Planned, Backfilling, CatchingUp, Verifying, Verified, Diverged, Repairing, RolledBack, Finalized}, Planned},
	BackfillStart:  {[]Phase{Planned, Backfilling, CatchingUp, Verifying, Verified, Diverged, Repairing}, Backfilling},
	HistoryEnd:     {[]Phase{Backfilling, CatchingUp}, CatchingUp},
	CaughtUp:       {[]Phase{CatchingUp}, Verifying},
	BackfillEnd:    {[]Phase{Backfilling}, Verifying},
	BackfillCancel: {[]Phase{Backfilling}, Planned},
	VerifyStart:    {[]Phase{Verifying, Verified, Diverged, Repairing, RolledBack}, Verifying},
	VerifyOK:       {[]Phase{Verifying, Verified, Diverged}, Verified},
	VerifyDiffers:  {[]Phase{Verifying, Verified, Diverged}, Diverged},
	RepairStart:    {[]Phase{Diverged, Repairing}, Repairing},
	RepairEnd:      {[]Phase{Repairing}, Verifying},
	Canary:         {[]Phase{Verified}, Verified},
	CutOver:        {[]Phase{Verified}, Cutover},
	Cancel:         {[]Phase{Planned, Backfilling, CatchingUp, Verifying, Verified, Diverged, Repairing}, RolledBack},
	RollbackStart:  {[]Phase{Cutover, RollingBack, Finalizing}, RollingBack},
	RollbackEnd:    {[]Phase{RollingBack}, RolledBack},
	FinalizeStart:  {[]Phase{Cutover, RolledBack, Finalizing}, Finalizing},
	FinalizeEnd:    {[]Phase{Finalizing}, Finalized},
}

// Next returns the phase that event leads to from phase. It is a pure function; an event that the phase does not allow
// is a *TransitionError.
func Next(phase Phase, event Event) (Phase, error) {
	if phase == "" {
		phase = Absent
	}
	t, ok := transitions[event]
	if !ok || !slices.Contains(t.from, phase) {
		return phase, &TransitionError{Phase: phase, Event: event}
	}
	return t.to, nil
}

// TransitionError tells that a step does not fit where the migration stands.
type TransitionError struct {
	Phase Phase
	Event Event
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("migration is %s: %s is not possible now", e.Phase, e.Event)
}
