package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
)

// Code names a kind of finding.
type Code = state.Code

// Damage: a migration does not go on over these.
const (
	CodeUnitOutsideLog Code = "unit-outside-log" // a unit points at or past the end of the log
	CodeUnitNoRecord   Code = "unit-no-record"   // no record of that queue starts where the unit points
	CodeWrongSize      Code = "wrong-size"       // unit and record disagree on the length
	CodeWrongTags      Code = "wrong-tags"       // unit and record disagree on the tags code
	CodeWrongTime      Code = "wrong-time"       // RocksDB unit and record disagree on the store time
	CodeHole           Code = "hole"             // a slot between min and max holds no unit
	CodeSourceBehind   Code = "source-behind"    // the log ends with records that the queue does not hold
	CodeMissingUnits   Code = "missing-units"    // records below the queue's first unit have none
	CodeMissingQueue   Code = "missing-queue"    // the log holds records of a queue that does not exist
	CodeTornLog        Code = "torn-log"         // the log ends with bytes that are no record
	CodeCorruptLog     Code = "corrupt-log"      // bytes that are no record lie between records
	CodeBadQueue       Code = "bad-queue"        // a queue's files or rows contradict themselves
)

// What an audit names beside the codes above: each is about one side, which the log proves wrong.
const (
	CodeWrongPosition Code = "wrong-position" // the slot's unit points to another record than the one that has the slot, or to none
	CodeExtraUnits    Code = "extra-units"    // units in slots that no record in the log has
	CodeExtraQueue    Code = "extra-queue"    // a queue of which no unit leads to a record of it
	CodeDirtyTail     Code = "dirty-tail"     // units behind the last one that a record has
	CodeDirtyRows     Code = "dirty-rows"     // rows behind the end of a RocksDB queue: hidden, until a queue that grows comes to them
	CodeHiddenUnits   Code = "hidden-units"   // units below the beginning that a RocksDB queue says it has
	CodeShifted       Code = "shifted"        // from some slot on, the units stand beside the slots that the records and the other side have
	CodeSlotTwice     Code = "slot-twice"     // the log has two records of a slot, and each side another one
	CodeLowMax        Code = "low-max"        // the queue goes on at a lower slot than on the other side
	CodeTimeSearch    Code = "time-search"    // the two sides answer a search by time differently
)

// Differences between the sides, found by verification.
const (
	CodeMaxDiffers   Code = "max-differs"
	CodeMinDiffers   Code = "min-differs"
	CodeMinPhyDiffer Code = "min-phy-differs"
	CodeUnitDiffers  Code = "unit-differs"
	CodeOnlyInSource Code = "only-in-source"
	CodeOnlyInTarget Code = "only-in-target"
	CodeBadRecord    Code = "bad-record" // a sampled record is not what its unit says
)

// Notices: reported, kept as they are (the source's unit wins, nothing is renumbered).
const (
	CodeNumbering    Code = "numbering"      // a record's own queue offset is not the slot its unit has
	CodeSlotTaken    Code = "slot-taken"     // a record without unit; the slot it claims holds another record
	CodeDelayTags    Code = "delay-tags"     // delivery time differs from the default delay levels (custom messageDelayLevel)
	CodeLMQWithout   Code = "lmq-without"    // a light queue lacks the unit of a record that names it
	CodeDeletedTopic Code = "deleted-topic"  // records of a topic that config/topics.json no longer lists
	CodeSkippedQueue Code = "skipped-queue"  // a missing queue left out on request
	CodeBuiltQueue   Code = "built-queue"    // a missing queue built from the log on request
	CodeFromLog      Code = "from-log"       // a unit taken from the log alone because the source ends before the log
	CodeSideRemoved  Code = "side-removed"   // the side that was left at the cutover is not there any more
	CodeKeptTarget   Code = "kept-in-target" // a light queue that only the target has (combineCQUseRocksdbForLmq)
	CodeLostRecord   Code = "lost-record"    // a unit whose record the log has lost: it keeps the slot
)

// Finding is one disagreement, with all that is needed to look at it.
type Finding struct {
	Code    Code   `json:"code"`
	Topic   string `json:"topic,omitempty"`
	QueueID int32  `json:"queueId"`
	// Side is the one that is wrong; empty where nothing tells, or where it is about both.
	Side cq.Kind `json:"side,omitempty"`
	// QueueOffset is the slot, or the first of several, -1 when the finding is not about one.
	QueueOffset int64 `json:"queueOffset"`
	// Slots is how many there are where they are more than one.
	Slots int64 `json:"slots,omitempty"`
	// PhyOffset is the place in the log, -1 when there is none.
	PhyOffset int64 `json:"phyOffset"`
	// Where names file and byte, or database and row, where the source holds the unit.
	Where string `json:"where,omitempty"`
	// Text is the whole finding in words.
	Text string `json:"text"`
	// Remedy is what a repair does about it, in words; empty where it leaves it alone.
	Remedy string `json:"remedy,omitempty"`
}

// several says that the finding is about n slots.
func (f *Finding) several(n int64) {
	if n > 1 {
		f.Slots = n
	}
}

func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", f.Code)
	if f.Topic != "" {
		fmt.Fprintf(&b, "queue %s/%d: ", f.Topic, f.QueueID)
	}
	if f.Side != "" {
		fmt.Fprintf(&b, "%s side: ", f.Side)
	}
	b.WriteString(f.Text)
	if f.Where != "" {
		fmt.Fprintf(&b, " [%s]", f.Where)
	}
	return b.String()
}

// maxDetailed bounds how many findings of one code are kept in full; the rest is only counted.
const maxDetailed = 20

// Findings collects findings with bounded memory. The zero value is ready.
type Findings struct {
	Counts map[Code]int64 `json:"counts,omitempty"`
	First  []Finding      `json:"first,omitempty"` // up to maxDetailed of each code, in the order found
}

// Add takes a finding in.
func (fs *Findings) Add(f Finding) {
	if fs.Counts == nil {
		fs.Counts = make(map[Code]int64)
	}
	fs.Counts[f.Code]++
	if fs.Counts[f.Code] <= maxDetailed {
		fs.First = append(fs.First, f)
	}
}

// Merge takes in all of o.
func (fs *Findings) Merge(o *Findings) {
	for _, f := range o.First {
		fs.Add(f)
		fs.Counts[f.Code]--
	}
	for c, n := range o.Counts {
		if fs.Counts == nil {
			fs.Counts = make(map[Code]int64)
		}
		fs.Counts[c] += n
	}
}

// Len returns how many findings there were.
func (fs *Findings) Len() int64 {
	var n int64
	for _, c := range fs.Counts {
		n += c
	}
	return n
}

// Codes returns the codes found, sorted.
func (fs *Findings) Codes() []Code { return slices.Sorted(maps.Keys(fs.Counts)) }

// Summary returns one line per code: "3 x numbering".
func (fs *Findings) Summary() string {
	parts := make([]string, 0, len(fs.Counts))
	for _, c := range fs.Codes() {
		parts = append(parts, fmt.Sprintf("%d x %s", fs.Counts[c], c))
	}
	return strings.Join(parts, ", ")
}
