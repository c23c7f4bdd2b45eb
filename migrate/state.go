package migrate

import "github.com/tandemq/tandemmq/migrate/state"

// The state of a migration is that of package state, which the migration in a running broker shares.
type (
	// Phase is where a migration stands.
	Phase = state.Phase
	// Event is what happened to a migration.
	Event = state.Event
	// State is the content of migration.json.
	State = state.State
	// HistoryEntry says who did what when.
	HistoryEntry = state.HistoryEntry
	// TransitionError tells that a step does not fit where the migration stands.
	TransitionError = state.TransitionError
	// Fingerprint says logically what a verification covered.
	Fingerprint = state.Fingerprint
	// RocksLayout says where the RocksDB side of a store lies.
	RocksLayout = state.RocksLayout
)

// The layouts that RocketMQ 5.5.0 knows (useSeparateStorePathForRocksdbCQ).
const (
	LayoutShared   = state.LayoutShared
	LayoutSeparate = state.LayoutSeparate
)

// The phases that a migration of a stopped store comes to.
const (
	PhaseAbsent      = state.Absent
	PhasePlanned     = state.Planned
	PhaseBackfilling = state.Backfilling
	PhaseVerifying   = state.Verifying
	PhaseVerified    = state.Verified
	PhaseDiverged    = state.Diverged
	PhaseRepairing   = state.Repairing
	PhaseCutover     = state.Cutover
	PhaseRollingBack = state.RollingBack
	PhaseRolledBack  = state.RolledBack
)

// The events of a migration of a stopped store.
const (
	EventPlan           = state.Plan
	EventBackfillStart  = state.BackfillStart
	EventBackfillEnd    = state.BackfillEnd
	EventVerified       = state.VerifyOK
	EventDiverged       = state.VerifyDiffers
	EventRepairStart    = state.RepairStart
	EventRepairEnd      = state.RepairEnd
	EventCutover        = state.CutOver
	EventRollbackStart  = state.RollbackStart
	EventRollbackEnd    = state.RollbackEnd
	EventBackfillCancel = state.BackfillCancel
)

// File names inside the state directory (<root>/tandemmq).
const (
	StateFileName       = state.FileName
	CertificateFileName = "certificate.jsonl"
)

// LoadState reads the state of the store whose state directory is dir. A store without one is PhaseAbsent.
func LoadState(dir string) (*State, error) { return state.Load(dir) }
