package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

// remedyQueues is how many queues get a command of their own; for more, their side is built as a whole.
const remedyQueues = 3

// remedy is what can be done about errors that a check found.
type remedy struct {
	What    string `json:"what"`
	Command string `json:"command,omitempty"` // none: nothing of this program mends it
}

// remedies returns them in the order in which they have to be done: the log first, since queues and index are built from it. docs/check.md says more of each finding.
func remedies(rep *store.CheckReport) (list []remedy) {
	w := wrongs{queues: make(map[string]map[cq.Key]bool), whole: make(map[string]bool)}
	for _, f := range rep.Findings {
		if f.Severity == store.CheckError {
			w.add(rep, f)
		}
	}
	for _, n := range rep.Counts {
		w.unlisted = w.unlisted || n.Severity == store.CheckError && n.Count > n.Listed
	}
	run := "tandemmq store %s --store " + shellWord(rep.Store)
	switch {
	case w.gap && !w.run:
		list = append(list, remedy{"files of the log are missing between others: restore them from a copy or a replica; what can be done without one", fmt.Sprintf(run, "recover") + " --mend --dry-run"})
	case w.run:
		list = append(list, remedy{What: "a file of the log is missing or has a wrong length or name: restore it from a copy or a replica, or give one that was cut its length back (truncate -s), and check again; recovery needs a run of equally long files"})
	}
	if w.log {
		list = append(list, remedy{"damage of the log: restore it from a copy or a replica; what can be done without one", fmt.Sprintf(run, "recover") + " --full --dry-run"})
	}
	for _, f := range w.lost {
		list = append(list, remedy{
			fmt.Sprintf("queue %s/%d slot %d leads to no record of its own: look at it first. If the log has lost that record (mended damage), leave the queue: built anew it begins behind the slot",
				f.Topic, f.QueueID, f.QueueOffset),
			fmt.Sprintf(run, "inspect unit") + fmt.Sprintf(" --topic %s --queue %d --offset %d%s", shellWord(f.Topic), f.QueueID, f.QueueOffset, w.cq(rep, f)),
		})
	}
	for _, side := range slices.Sorted(maps.Keys(w.queues)) {
		build := fmt.Sprintf(run, "rebuild") + " --queues " + side
		keys := slices.SortedFunc(maps.Keys(w.queues[side]), cq.Key.Compare)
		if w.whole[side] {
			list = append(list, remedy{side + " queues, which are gone, built from the log", build + " --yes"})
			continue
		}
		if len(keys) == 0 || len(keys) > remedyQueues || w.unlisted {
			list = append(list, remedy{side + " queues, built anew from the log", build + " --yes"})
			continue
		}
		for _, k := range keys {
			list = append(list, remedy{fmt.Sprintf("queue %s, built anew from the log", k), fmt.Sprintf("%s --topic %s --queue %d --yes", build, shellWord(k.Topic), k.QueueID)})
		}
	}
	if w.index {
		list = append(list, remedy{"the index, built anew from the log", fmt.Sprintf(run, "rebuild") + " --index --yes"})
	}
	if w.twice {
		list = append(list, remedy{What: "records that claim a slot of another record stay as they are (duplicate-slot, F1): read them with `store dump`, and send again what matters"})
	}
	if w.remnants {
		list = append(list, remedy{"the RocksDB without CURRENT, set aside, and its queues built from the log (or restore that file)", fmt.Sprintf(run, "recover")})
	}
	if w.place {
		list = append(list, remedy{What: "the places of RocksDB: the finding says what to do (rocks-place)"})
	}
	return list
}

// wrongs is what a check found, by what mends it.
type wrongs struct {
	log, run, index, twice, place bool
	gap                           bool                       // files of the log are missing between others
	remnants                      bool                       // RocksDB has lost its CURRENT
	whole                         map[string]bool            // sides, by --queues, that are gone
	queues                        map[string]map[cq.Key]bool // by --queues; no keys: all
	lost                          []*store.CheckFinding      // units whose records may be lost, one of each queue, remedyQueues at most
	unlisted                      bool                       // there are more than are listed
}

func (w *wrongs) add(rep *store.CheckReport, f *store.CheckFinding) {
	switch f.Code {
	case store.CheckLogRun:
		if f.EndPhyOffset >= 0 {
			w.gap = true
		} else {
			w.run = true
		}
	case store.CheckLogDamage, store.CheckPropertyCRC, store.CheckTornTail:
		w.log = true
	case store.CheckIndexFile, store.CheckIndexEntry, store.CheckIndexSlot, store.CheckIndexMissing, store.CheckIndexOutside:
		w.index = true
	case store.CheckDuplicateSlot:
		w.twice = true
	case store.CheckRocksPlace:
		if f.Want != "" {
			w.remnants = true
		} else {
			w.place = true
		}
	case store.CheckMissingSide:
		w.whole[f.Side], w.queues[f.Side] = true, map[cq.Key]bool{}
	default:
		side := f.Side
		if side != string(cq.KindFile) && side != string(cq.KindRocks) { // a record without its unit, or one side against the other
			switch sides := append(slices.Clone(rep.Sides), rep.LostSides...); len(sides) {
			case 1:
				side = sides[0]
			default:
				side = "both"
			}
		}
		if w.queues[side] == nil {
			w.queues[side] = make(map[cq.Key]bool)
		}
		if f.Code == store.CheckBadSide {
			w.unlisted = true
		} else {
			k := cq.Key{Topic: f.Topic, QueueID: f.QueueID}
			if (f.Code == store.CheckNoRecord || f.Code == store.CheckOtherQueue) && !w.queues[side][k] && len(w.lost) < remedyQueues {
				w.lost = append(w.lost, f)
			}
			w.queues[side][k] = true
		}
	}
}

// cq is the flag that names the side of a finding, where there are two.
func (w *wrongs) cq(rep *store.CheckReport, f *store.CheckFinding) string {
	if len(rep.Sides) < 2 {
		return ""
	}
	return " --cq " + f.Side
}

func printRemedies(w io.Writer, list []remedy) {
	for _, r := range list {
		if r.Command == "" {
			fmt.Fprintf(w, "  %s\n", r.What)
		} else {
			fmt.Fprintf(w, "  %s:\n      %s\n", r.What, r.Command)
		}
	}
}

// shellWord quotes what a shell would not take for one word.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-%+:,@=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// errorsOf returns the first errors of a check, and how many more there are.
func errorsOf(rep *store.CheckReport, most int) (list []*store.CheckFinding, more int64) {
	for _, f := range rep.Findings {
		if f.Severity == store.CheckError && len(list) < most {
			list = append(list, f)
		}
	}
	return list, rep.Errors - int64(len(list))
}
