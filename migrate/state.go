package migrate

import (
	"fmt"
	"slices"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// Phase is where a migration stands.
type Phase string

// The phases. An empty Phase reads as PhaseAbsent.
const (
	PhaseAbsent      Phase = "absent"       // nothing was ever done here
	PhasePlanned     Phase = "planned"      // sides and layout are fixed, the target is untouched
	PhaseBackfilling Phase = "backfilling"  // rows are being written; BackfilledTo says how far
	PhaseVerifying   Phase = "verifying"    // the target is complete and published, not yet proven equal
	PhaseVerified    Phase = "verified"     // a certificate exists
	PhaseDiverged    Phase = "diverged"     // verification found differences
	PhaseCutover     Phase = "cutover"      // reads belong to the target
	PhaseRollingBack Phase = "rolling-back" // the old side is being brought up to the log's end
	PhaseRolledBack  Phase = "rolled-back"  // reads belong to the old side again
)

var phases = []Phase{
	PhaseAbsent, PhasePlanned, PhaseBackfilling, PhaseVerifying, PhaseVerified, PhaseDiverged, PhaseCutover, PhaseRollingBack, PhaseRolledBack,
}

// Event is what happened to a migration.
type Event string

// The events that Next accepts.
const (
	EventPlan           Event = "plan"            // a migration is set up (also anew, after a rollback)
	EventBackfillStart  Event = "backfill-start"  // rows are about to be written
	EventBackfillEnd    Event = "backfill-end"    // everything up to the log's end is written and published
	EventVerified       Event = "verified"        // the sides are equal
	EventDiverged       Event = "diverged"        // the sides differ
	EventCutover        Event = "cutover"         // reads move to the target
	EventRollbackStart  Event = "rollback-start"  // reads are about to move back
	EventRollbackEnd    Event = "rollback-end"    // they have moved back
	EventBackfillCancel Event = "backfill-cancel" // damage was found; what was written is void
)

// transitions is the whole machine: for each event, from which phases it may come and where it leads. An event that
// leads to the phase it came from is a repetition after a kill.
var transitions = map[Event]struct {
	from []Phase
	to   Phase
}{
	EventPlan:           {[]Phase{PhaseAbsent, PhasePlanned, PhaseBackfilling, PhaseVerifying, PhaseVerified, PhaseDiverged, PhaseRolledBack}, PhasePlanned},
	EventBackfillStart:  {[]Phase{PhasePlanned, PhaseBackfilling, PhaseVerifying, PhaseVerified, PhaseDiverged}, PhaseBackfilling},
	EventBackfillEnd:    {[]Phase{PhaseBackfilling}, PhaseVerifying},
	EventBackfillCancel: {[]Phase{PhaseBackfilling}, PhasePlanned},
	EventVerified:       {[]Phase{PhaseVerifying, PhaseVerified, PhaseDiverged}, PhaseVerified},
	EventDiverged:       {[]Phase{PhaseVerifying, PhaseVerified, PhaseDiverged}, PhaseDiverged},
	EventCutover:        {[]Phase{PhaseVerified}, PhaseCutover},
	EventRollbackStart:  {[]Phase{PhaseCutover, PhaseRollingBack}, PhaseRollingBack},
	EventRollbackEnd:    {[]Phase{PhaseRollingBack}, PhaseRolledBack},
}

// Next returns the phase that event leads to from phase. It is a pure function; an event that the phase does not allow
// is a *TransitionError.
func Next(phase Phase, event Event) (Phase, error) {
	if phase == "" {
		phase = PhaseAbsent
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

// State is the content of migration.json. Offsets are physical offsets in bytes.
type State struct {
	Version int     `json:"version"` // stateVersion
	Phase   Phase   `json:"phase"`
	From    cq.Kind `json:"from"` // the source's kind
	To      cq.Kind `json:"to"`   // the target's kind

	RocksLayout RocksLayout `json:"rocksLayout"` // where the RocksDB side lies
	CQFileSize  int64       `json:"cqFileSize"`  // bytes of a queue file on the file side

	// TargetCreated is set when the target's directory did not exist before the backfill.
	TargetCreated bool `json:"targetCreated,omitempty"`
	// BackfilledTo: every record that ends at or below it has its rows durably in the target. -1 before the first chunk.
	BackfilledTo int64 `json:"backfilledTo"`
	// Missing is what the backfill was told about queues that the source lacks.
	Missing MissingQueues `json:"missingQueues,omitempty"`
	// BuiltQueues lists queues that the source lacks and that were built from the log alone.
	BuiltQueues []string `json:"builtQueues,omitempty"`
	// Notices counts what the join reported without stopping, by code.
	Notices map[Code]int64 `json:"notices,omitempty"`

	Verified *Fingerprint `json:"verified,omitempty"` // of the last successful verification

	// History is the audit trail, oldest first.
	History []HistoryEntry `json:"history"`
}

// HistoryEntry says who did what when.
type HistoryEntry struct {
	Time  time.Time `json:"time"`
	Event Event     `json:"event"`
	Phase Phase     `json:"phase"` // the phase reached
	Actor string    `json:"actor"` // user@host pid N, tool version
	Note  string    `json:"note,omitempty"`
}

// Active returns the side that reads belong to according to the state, and false when the state does not say (no
// migration has been cut over here).
func (s *State) Active() (cq.Kind, bool) {
	switch s.Phase {
	case PhaseCutover, PhaseRollingBack:
		return s.To, true
	case PhaseAbsent, "":
		return "", false
	default:
		return s.From, true
	}
}

// built tells whether a queue was built from the log because the source lacks it.
func (s *State) built(k cq.Key) bool { return slices.Contains(s.BuiltQueues, k.String()) }

// apply moves the state by event and writes the audit entry.
func (s *State) apply(event Event, actor, note string, now time.Time) error {
	next, err := Next(s.Phase, event)
	if err != nil {
		return err
	}
	s.Phase = next
	s.History = append(s.History, HistoryEntry{Time: now.UTC().Truncate(time.Millisecond), Event: event, Phase: next, Actor: actor, Note: note})
	return nil
}
