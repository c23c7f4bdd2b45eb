package state

import (
	"slices"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// RocksLayout says where the RocksDB side of a store lies.
type RocksLayout string

// The layouts that RocketMQ 5.5.0 knows (useSeparateStorePathForRocksdbCQ).
const (
	LayoutShared   RocksLayout = "shared"   // <root>/consumequeue, beside the topic directories
	LayoutSeparate RocksLayout = "separate" // <root>/consumequeue_rocksdb
)

// MissingQueues says what to do about a queue that the log speaks of and the source does not have.
type MissingQueues string

// Code names a kind of finding; package migrate has the list.
type Code string

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
	// BackfilledTo: every record that ends at or below it has its units durably in the target. -1 before the first ones.
	BackfilledTo int64 `json:"backfilledTo"`
	// BackfillFrom and BackfillEnd are where the log's records begin and end that the backfill of a stopped store under way reads; BackfilledTo moves between them.
	BackfillFrom int64 `json:"backfillFrom,omitempty"`
	BackfillEnd  int64 `json:"backfillEnd,omitempty"`
	// Missing is what the backfill was told about queues that the source lacks.
	Missing MissingQueues `json:"missingQueues,omitempty"`
	// BuiltQueues lists queues that the source lacks and that were built from the log alone.
	BuiltQueues []string `json:"builtQueues,omitempty"`
	// Notices counts what the join reported without stopping, by code.
	Notices map[Code]int64 `json:"notices,omitempty"`

	Verified *Fingerprint `json:"verified,omitempty"` // of the last successful verification of a stopped store

	// Online is there while the migration is one of a running broker.
	Online *Online `json:"online,omitempty"`
	// Kept is the side that is left, in the phases Finalizing and Finalized.
	Kept cq.Kind `json:"kept,omitempty"`
	// Retired are the sides that were moved aside, oldest first. While one is being moved its Until is zero.
	Retired []Retired `json:"retired,omitempty"`

	// History is the audit trail, oldest first.
	History []HistoryEntry `json:"history"`
}

// Online is what a migration in a running broker keeps beside the rest.
type Online struct {
	// CanaryTopics are read from the target before all others are. Sorted.
	CanaryTopics []string `json:"canaryTopics,omitempty"`
	// Verified is what the last verification has covered; nil: none counts.
	Verified *Coverage `json:"verified,omitempty"`
	// Differences are the first ones that the last verification found.
	Differences []string `json:"differences,omitempty"`
	// Findings count what comparisons found since the migration was begun; nil: nothing.
	Findings *Findings `json:"findings,omitempty"`
	// Kept are queues of which somebody has chosen a side, as the log does not decide. Sorted by queue.
	Kept []KeptQueue `json:"kept,omitempty"`
	// GraceSeconds is for how long what is moved aside is kept.
	GraceSeconds int64 `json:"graceSeconds,omitempty"`
}

// Coverage says what a verification of a running store has compared. What is written afterwards goes to both sides, and is compared by the cutover.
type Coverage struct {
	LogMin  int64     `json:"logMin"`
	LogEnd  int64     `json:"logEnd"` // everything below was dispatched when it began
	Queues  int       `json:"queues"`
	Units   int64     `json:"units"`
	Records int64     `json:"records"` // of the log that were decoded and compared
	Time    time.Time `json:"time"`
}

// QueueName names a queue.
type QueueName struct {
	Topic   string `json:"topic"`
	QueueID int32  `json:"queueId"`
}

// Findings count queues in which the sides, or one side and the log, were found to differ: each once until it is found the same.
type Findings struct {
	Found  int64 `json:"found"`
	Healed int64 `json:"healed"` // found the same since, or gone
	Kept   int64 `json:"kept"`   // for which somebody has chosen a side
	// Open are those that were neither healed nor kept, the first MaxOpen.
	Open []QueueName `json:"open,omitempty"`
	// Topics are the same by topic, of MaxOpen topics at most.
	Topics map[string]TopicFindings `json:"topics,omitempty"`
}

// MaxOpen bounds lists in Findings.
const MaxOpen = 1000

// TopicFindings are those of a topic.
type TopicFindings struct {
	Found  int64 `json:"found"`
	Healed int64 `json:"healed"`
	Kept   int64 `json:"kept"`
}

// Remaining is how many queues were neither healed nor kept.
func (f *Findings) Remaining() int64 { return f.Found - f.Healed - f.Kept }

// KeptQueue is a queue of which somebody has chosen a side.
type KeptQueue struct {
	QueueName
	Side cq.Kind   `json:"side"` // whose units stay
	To   int64     `json:"to"`   // the queue's end then: slots below are not held against the log
	By   string    `json:"by"`
	Time time.Time `json:"time"`
}

// Retired is a side that was moved aside.
type Retired struct {
	Kind    cq.Kind   `json:"kind"`
	Path    string    `json:"path"` // of the directory, below the store's root
	Until   time.Time `json:"until"`
	Removed bool      `json:"removed,omitempty"`
}

// Fingerprint says logically what a verification covered. It holds no file times and no file contents: any open of the
// directory by a broker rewrites those without changing a queue.
type Fingerprint struct {
	LogMin             int64     `json:"logMin"`
	LogEnd             int64     `json:"logEnd"`
	Queues             int       `json:"queues"`
	Units              int64     `json:"units"`
	Digest             string    `json:"digest"` // SHA-256 over the certificate's queue lines
	SourceDispatchFrom int64     `json:"sourceDispatchFrom"`
	TargetDispatchFrom int64     `json:"targetDispatchFrom"`
	Time               time.Time `json:"time"`
}

// HistoryEntry says who did what when.
type HistoryEntry struct {
	Time  time.Time `json:"time"`
	Event Event     `json:"event"`
	Phase Phase     `json:"phase"` // the phase reached
	Actor string    `json:"actor"` // user@host pid N, tool version; of a request to a broker, who sent it
	Note  string    `json:"note,omitempty"`
}

// Active returns the side that reads belong to according to the state, and false when the state does not say (no
// migration has been cut over here).
func (s *State) Active() (cq.Kind, bool) {
	switch s.Phase {
	case Cutover, RollingBack:
		return s.To, true
	case Finalizing, Finalized:
		return s.Kept, true
	case Absent, "":
		return "", false
	default:
		return s.From, true
	}
}

// Built tells whether a queue was built from the log because the source lacks it.
func (s *State) Built(k cq.Key) bool { return slices.Contains(s.BuiltQueues, k.String()) }

// Note writes an audit entry about something that does not move the state.
func (s *State) Note(event Event, actor, note string, now time.Time) {
	s.History = append(s.History, HistoryEntry{Time: now.UTC().Truncate(time.Millisecond), Event: event, Phase: s.Phase, Actor: actor, Note: note})
}

// Apply moves the state by event and writes the audit entry.
func (s *State) Apply(event Event, actor, note string, now time.Time) error {
	next, err := Next(s.Phase, event)
	if err != nil {
		return err
	}
	s.Phase = next
	s.Note(event, actor, note, now)
	return nil
}
