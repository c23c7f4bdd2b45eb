package store

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tandemq/tandemmq/cq"
)

// CheckSeverity says what a finding means for the store.
type CheckSeverity string

// The severities. Only CheckError makes a store unsound.
const (
	CheckError   CheckSeverity = "error"   // an invariant does not hold, and no start of a broker mends that without loss or work
	CheckWarning CheckSeverity = "warning" // the next recovery puts it right, or it costs time and no message
	CheckNotice  CheckSeverity = "notice"  // worth knowing, and allowed
)

func (s CheckSeverity) rank() int {
	return slices.Index([]CheckSeverity{CheckError, CheckWarning, CheckNotice}, s)
}

// Invariant names one of the five that a store has to keep.
//
//	FRI-1  in every queue each slot of [min, max) has exactly one unit, and its record carries that topic, queue and slot
//	FRI-2  every message is still there, appears once, and is served
//	FRI-3  the next put into a queue gets the offset that max reports
//	FRI-4  min <= max, and min is exactly the first slot whose record is in the log
//	FRI-5  file and RocksDB queues hold the same units wherever both claim an offset
type Invariant string

// The invariants.
const (
	InvariantUnits   Invariant = "FRI-1"
	InvariantRecords Invariant = "FRI-2"
	InvariantNext    Invariant = "FRI-3"
	InvariantBounds  Invariant = "FRI-4"
	InvariantSides   Invariant = "FRI-5"
)

// CheckCode names a kind of finding. docs/check.md says for each what to do.
type CheckCode string

// What is found in the log.
const (
	CheckLogRun        CheckCode = "log-run"        // a file is missing, or has a wrong length or name
	CheckLogForeign    CheckCode = "log-foreign"    // something in the log's directory that is no log file
	CheckLogDamage     CheckCode = "log-damage"     // bytes that are no record lie before valid records, or the end of the log is lost
	CheckTornTail      CheckCode = "torn-tail"      // the log ends in bytes that are no record
	CheckPropertyCRC   CheckCode = "property-crc"   // a record whose properties carry a checksum that does not fit it
	CheckNoUnit        CheckCode = "no-unit"        // a record that no queue has a unit for: its queue ends before it
	CheckBelowMin      CheckCode = "below-min"      // a record in the log whose queue begins behind it
	CheckDuplicateSlot CheckCode = "duplicate-slot" // a record that claims a slot which another record has
	CheckMissingQueue  CheckCode = "missing-queue"  // a record whose queue is not there
	CheckDeletedTopic  CheckCode = "deleted-topic"  // a record of a topic that the topic table does not list
	CheckOlderTopic    CheckCode = "older-topic"    // a record older than its queue: the topic was deleted and made anew
	CheckLightOff      CheckCode = "light-off"      // a record that names a light queue, in a store without any
)

// What is found in queues.
const (
	CheckMissingSide CheckCode = "missing-side" // the store keeps its queues on a side that is gone
	CheckBadSide     CheckCode = "bad-side"     // all the queues of one side cannot be read
	CheckBadQueue    CheckCode = "bad-queue"    // files or rows of a queue contradict themselves
	CheckBadBounds   CheckCode = "bad-bounds"   // min > max, or one of them is negative
	CheckMinInexact  CheckCode = "min-inexact"  // a unit below min has its record in the log
	CheckHole        CheckCode = "hole"         // a slot between min and max without a unit
	CheckLostRecord  CheckCode = "lost-record"  // slots without a unit, of which no record is in the log: it has lost them
	CheckOutsideLog  CheckCode = "outside-log"  // a unit points before the beginning or past the end of the log
	CheckNoRecord    CheckCode = "no-record"    // no record begins where a unit points
	CheckOtherQueue  CheckCode = "other-queue"  // a unit points to a record of another queue
	CheckOtherSlot   CheckCode = "other-slot"   // a unit points to a record of another slot of its queue
	CheckWrongSize   CheckCode = "wrong-size"   // unit and record disagree on the length
	CheckWrongTags   CheckCode = "wrong-tags"   // on the tags code
	CheckWrongTime   CheckCode = "wrong-time"   // on the store time
	CheckDelayTags   CheckCode = "delay-tags"   // a delayed message is due at another time than the default levels say
	CheckNextOffset  CheckCode = "next-offset"  // the log holds a record at or above the offset that the next put gets
	CheckMaxDiffers  CheckCode = "max-differs"  // the two sides of a queue end at different slots
	CheckUnitDiffers CheckCode = "unit-differs" // the two sides hold different units in one slot
	CheckOneSided    CheckCode = "one-sided"    // a queue is on one side alone
	CheckBeginsLater CheckCode = "begins-later" // one side of a queue begins behind the other
)

// What is found elsewhere.
const (
	CheckRocksPlace       CheckCode = "rocks-place"        // remnants of a RocksDB database, or one in both places
	CheckIndexFile        CheckCode = "index-file"         // an index file that contradicts itself, or has a wrong length
	CheckIndexEntry       CheckCode = "index-entry"        // an index entry that leads to no record with such a key
	CheckIndexSlot        CheckCode = "index-slot"         // entries of an index file that the chain of their slot does not lead to
	CheckIndexMissing     CheckCode = "index-missing"      // records with keys, or keys of a record, that the index has no entry of
	CheckIndexOutside     CheckCode = "index-outside"      // an index entry that leads past the end of the log
	CheckAbortMark        CheckCode = "abort-mark"         // recovery has not run
	CheckCheckpoint       CheckCode = "checkpoint"         // the checkpoint is missing or cannot be believed
	CheckCheckpointAhead  CheckCode = "checkpoint-ahead"   // the checkpoint speaks of what the log does not hold
	CheckTopicsUnreadable CheckCode = "topics-unreadable"  // the topic table cannot be read
	CheckTopicNotInTable  CheckCode = "topic-not-in-table" // a topic with queues that the topic table does not list
)

// invariantOf tells which invariant a finding breaks or touches; the others have none.
var invariantOf = map[CheckCode]Invariant{
	CheckLogRun: InvariantRecords, CheckLogDamage: InvariantRecords, CheckTornTail: InvariantRecords, CheckPropertyCRC: InvariantRecords,
	CheckNoUnit: InvariantRecords, CheckBelowMin: InvariantRecords, CheckDuplicateSlot: InvariantRecords, CheckMissingQueue: InvariantRecords,
	CheckMissingSide: InvariantSides, CheckBadSide: InvariantUnits, CheckBadQueue: InvariantUnits, CheckHole: InvariantUnits, CheckLostRecord: InvariantUnits, CheckOutsideLog: InvariantUnits,
	CheckNoRecord: InvariantUnits, CheckOtherQueue: InvariantUnits, CheckOtherSlot: InvariantUnits, CheckWrongSize: InvariantUnits,
	CheckWrongTags: InvariantUnits, CheckWrongTime: InvariantUnits,
	CheckNextOffset: InvariantNext,
	CheckBadBounds:  InvariantBounds, CheckMinInexact: InvariantBounds,
	CheckMaxDiffers: InvariantSides, CheckUnitDiffers: InvariantSides, CheckOneSided: InvariantSides, CheckBeginsLater: InvariantSides,
}

// Sides that a finding is about.
const (
	checkSideLog   = "log"
	checkSideIndex = "index"
	checkSideState = "state" // the small files beside log and queues
	checkSideBoth  = "both"  // files and RocksDB against one another
)

// CheckFinding is one thing that is not as it should be, with all that is needed to look at it. Numbers that do not apply are
// -1, texts empty.
type CheckFinding struct {
	Severity  CheckSeverity `json:"severity"`
	Invariant Invariant     `json:"invariant,omitempty"`
	Code      CheckCode     `json:"code"`
	// Side is "log", "file", "rocks", "both" (one queue against the other), "index" or "state" (other files).
	Side        string `json:"side"`
	Topic       string `json:"topic,omitempty"`
	QueueID     int32  `json:"queueId"`
	QueueOffset int64  `json:"queueOffset"` // the slot
	PhyOffset   int64  `json:"phyOffset"`   // the place in the log
	// EndPhyOffset is where damage ends: the next valid record, or the end of the file. A damage that goes on into the next
	// file is told once for each file.
	EndPhyOffset int64  `json:"endPhyOffset"`
	File         string `json:"file,omitempty"` // path of the log or queue file, or of the database
	FileOffset   int64  `json:"fileOffset"`     // byte in it
	Row          string `json:"row,omitempty"`  // of the database
	Got          string `json:"got,omitempty"`  // what is there
	Want         string `json:"want,omitempty"` // what should be
	Text         string `json:"text"`           // all of it in words
}

func (f *CheckFinding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", f.Severity)
	if f.Invariant != "" {
		fmt.Fprintf(&b, " %s", f.Invariant)
	}
	fmt.Fprintf(&b, " %s: ", f.Code)
	if f.Topic != "" && f.QueueID >= 0 {
		fmt.Fprintf(&b, "queue %s/%d: ", f.Topic, f.QueueID)
	}
	b.WriteString(f.Text)
	switch {
	case f.Row != "" && f.FileOffset >= 0:
		fmt.Fprintf(&b, " [%s+%d, %s]", f.File, f.FileOffset, f.Row)
	case f.Row != "":
		fmt.Fprintf(&b, " [%s, %s]", f.File, f.Row)
	case f.FileOffset >= 0:
		fmt.Fprintf(&b, " [%s+%d]", f.File, f.FileOffset)
	case f.File != "":
		fmt.Fprintf(&b, " [%s]", f.File)
	}
	return b.String()
}

// compare orders findings: the worst first, then by invariant, code, queue, slot and place.
func (f *CheckFinding) compare(o *CheckFinding) int {
	return cmp.Or(
		cmp.Compare(f.Severity.rank(), o.Severity.rank()), cmp.Compare(f.Invariant.rank(), o.Invariant.rank()), cmp.Compare(f.Code, o.Code),
		cmp.Compare(f.Side, o.Side), cmp.Compare(f.Topic, o.Topic), cmp.Compare(f.QueueID, o.QueueID),
		cmp.Compare(f.QueueOffset, o.QueueOffset), cmp.Compare(f.PhyOffset, o.PhyOffset), cmp.Compare(f.File, o.File),
		cmp.Compare(f.FileOffset, o.FileOffset), cmp.Compare(f.Text, o.Text),
	)
}

// rank puts what breaks no invariant last.
func (i Invariant) rank() string {
	if i == "" {
		return "~"
	}
	return string(i)
}

// CheckCount says how many findings of one kind there were.
type CheckCount struct {
	Severity  CheckSeverity `json:"severity"`
	Invariant Invariant     `json:"invariant,omitempty"`
	Code      CheckCode     `json:"code"`
	Count     int64         `json:"count"`
	Listed    int64         `json:"listed"` // of them, in CheckReport.Findings
}

// findings collects what a check finds in bounded memory: of each kind, the first limit in the order of compare, whatever
// the order in which they come. So a report does not depend on how the workers took turns. Safe for concurrent use.
type findings struct {
	limit int
	mu    sync.Mutex
	kinds map[findingKind]*foundKind
}

type findingKind struct {
	severity CheckSeverity
	code     CheckCode
}

type foundKind struct {
	count int64
	kept  lastFirst
}

// lastFirst is a heap with the last finding on top.
type lastFirst []*CheckFinding

func (h lastFirst) Len() int           { return len(h) }
func (h lastFirst) Less(i, j int) bool { return h[i].compare(h[j]) > 0 }
func (h lastFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *lastFirst) Push(x any)        { *h = append(*h, x.(*CheckFinding)) }
func (h *lastFirst) Pop() any          { panic("store: nothing is taken off findings") }

func newFindings(limit int) *findings {
	return &findings{limit: limit, kinds: make(map[findingKind]*foundKind)}
}

func (fs *findings) add(f *CheckFinding) {
	f.Invariant = invariantOf[f.Code]
	fs.mu.Lock()
	defer fs.mu.Unlock()
	id := findingKind{f.Severity, f.Code}
	k := fs.kinds[id]
	if k == nil {
		k = &foundKind{}
		fs.kinds[id] = k
	}
	k.count++
	switch {
	case len(k.kept) < fs.limit:
		heap.Push(&k.kept, f)
	case f.compare(k.kept[0]) < 0:
		k.kept[0] = f
		heap.Fix(&k.kept, 0)
	}
}

// report returns what is kept and the counts, both in order.
func (fs *findings) report() (list []*CheckFinding, counts []CheckCount) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	counts = []CheckCount{}
	for id, k := range fs.kinds {
		list = append(list, k.kept...)
		counts = append(counts, CheckCount{
			Severity: id.severity, Invariant: invariantOf[id.code], Code: id.code, Count: k.count, Listed: int64(len(k.kept)),
		})
	}
	slices.SortFunc(list, (*CheckFinding).compare)
	slices.SortFunc(counts, func(a, b CheckCount) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(a.Invariant.rank(), b.Invariant.rank()), cmp.Compare(a.Code, b.Code))
	})
	return list, counts
}

// queueFinding is about a queue, or a slot of it when slot >= 0.
func queueFinding(code CheckCode, side string, k cq.Key, slot int64) *CheckFinding {
	return &CheckFinding{
		Severity: CheckError, Code: code, Side: side, Topic: k.Topic, QueueID: k.QueueID, QueueOffset: slot,
		PhyOffset: -1, EndPhyOffset: -1, FileOffset: -1,
	}
}

// placeFinding is about no queue.
func placeFinding(severity CheckSeverity, code CheckCode, side, file, format string, args ...any) *CheckFinding {
	return &CheckFinding{
		Severity: severity, Code: code, Side: side, QueueID: -1, QueueOffset: -1, PhyOffset: -1, EndPhyOffset: -1,
		File: file, FileOffset: -1, Text: fmt.Sprintf(format, args...),
	}
}
