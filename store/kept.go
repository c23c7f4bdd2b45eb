package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/migrate/state"
)

// Which sides a store keeps its consume queues on cannot be seen in its directory when one of them is lost, nor when one was left behind.

// The file queue-sides notes on which sides the store keeps its consume queues: those that dispatch fed when it was last open.
//
//	{"sides":["file","rocks"],"separate":true,"moves":1}
//
// separate: RocksDB has a directory of its own; left out where it has not.
// moves: how many migrations had been cut over, taken back, given up or finalized by then. Where there are more now, migration.json knows better.
const (
	keptName = "queue-sides.json"

	keptByNote      = "tandemmq/" + keptName
	keptByMigration = "tandemmq/" + state.FileName
)

// maxKeptBytes bounds what is read of it.
const maxKeptBytes = 4 << 10

type keptFile struct {
	Sides    []cq.Kind `json:"sides"`
	Separate bool      `json:"separate,omitempty"`
	Moves    int       `json:"moves"`
}

func (l Layout) keptPath() string { return filepath.Join(l.StateDir(), keptName) }

// Kept is what is known of the sides that a store keeps its consume queues on, whether they are there or not.
type Kept struct {
	File, RocksDB bool
	// Separate tells that RocksDB has a directory of its own (useSeparateStorePathForRocksdbCQ).
	Separate bool
	// By says what tells it, in words; empty where nothing does.
	By string
}

// Known tells whether anything is known.
func (k Kept) Known() bool { return k.By != "" }

// Has tells whether the queues are kept on that side; cq.KindCombine asks for both.
func (k Kept) Has(kind cq.Kind) bool {
	switch kind {
	case cq.KindFile:
		return k.File
	case cq.KindRocks:
		return k.RocksDB
	}
	return k.File && k.RocksDB
}

func (k *Kept) add(kind cq.Kind) {
	k.File = k.File || kind == cq.KindFile
	k.RocksDB = k.RocksDB || kind == cq.KindRocks
}

// kinds lists the sides.
func (k Kept) kinds() (list []cq.Kind) {
	for _, kind := range combinedKinds {
		if k.Has(kind) {
			list = append(list, kind)
		}
	}
	return list
}

// words names the sides.
func (k Kept) words() string {
	switch {
	case k.File && k.RocksDB:
		return "files and RocksDB"
	case k.RocksDB:
		return sideWords(cq.KindRocks)
	case k.File:
		return sideWords(cq.KindFile)
	}
	return "nothing"
}

// sideWords names a side to people.
func sideWords(kind cq.Kind) string {
	if kind == cq.KindRocks {
		return "RocksDB"
	}
	return "files"
}

// sideDoes says of a side that it does something.
func sideDoes(kind cq.Kind, verb string) string {
	switch {
	case kind == cq.KindFile:
		return sideWords(kind) + " " + verb
	case verb == "have":
		return sideWords(kind) + " has"
	}
	return sideWords(kind) + " " + verb + "s"
}

// moves are the events of a migration after which other sides may be kept than before.
var moves = []state.Event{state.CutOver, state.RollbackEnd, state.Cancel, state.FinalizeEnd}

// migrated returns what migration.json tells, and how often the sides were moved. One that cannot be read tells nothing: whoever migrates is told.
func (l Layout) migrated() (st *state.State, times int) {
	st, err := state.Load(l.StateDir())
	if err != nil {
		return &state.State{}, 0
	}
	for i := range st.History {
		if slices.Contains(moves, st.History[i].Event) {
			times++
		}
	}
	return st, times
}

// Kept returns on which sides the store keeps its consume queues, by what was noted of them.
func (l Layout) Kept() (k Kept, err error) {
	st, times := l.migrated()
	b, err := readFile(mmap.OS, l.keptPath(), maxKeptBytes)
	var note keptFile
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return k, err
	case json.Unmarshal(b, &note) == nil && note.Moves >= times: // one that cannot be read tells nothing
		for _, kind := range note.Sides {
			k.add(kind)
		}
		if len(k.kinds()) > 0 {
			k.Separate, k.By = note.Separate, keptByNote
			return k, nil
		}
	}
	if side, ok := st.Active(); ok && (side == cq.KindFile || side == cq.KindRocks) {
		k.add(side)
		k.Separate, k.By = k.RocksDB && st.RocksLayout == state.LayoutSeparate, keptByMigration
	}
	return k, nil
}

// KeptBefore is Kept for a store that has no consume queues at all: where nothing was noted, traces of them tell, of which RocketMQ leaves some too.
func (l Layout) KeptBefore() (k Kept, err error) {
	if k, err = l.Kept(); err != nil || k.Known() {
		return k, err
	}
	c, ours, err := readCheckpoint(mmap.OS, l.CheckpointPath(), time.Now())
	var bad *CheckpointError
	switch {
	case err != nil && !missing(err) && !errors.As(err, &bad):
		return k, err
	case c.LogicsMsgTimestampMs > 0: // it speaks of files alone (F37)
		return Kept{File: true, By: "logicsMsgTimestamp of the checkpoint, which file queues have set"}, nil
	}
	for _, name := range rocksConfigs {
		path := filepath.Join(l.Root, "config", name, currentFile)
		if _, err := os.Stat(path); err == nil {
			return Kept{RocksDB: true, By: "config/" + name + ", which RocketMQ makes beside RocksDB queues"}, nil
		} else if !missing(err) {
			return k, err
		}
	}
	if ours && c.PhysicMsgTimestampMs > 0 { // RocketMQ sets the other one a minute later
		return Kept{RocksDB: true, By: "the checkpoint, which no file queue has ever set"}, nil
	}
	return k, nil
}

// rocksConfigs are where RocketMQ keeps topics and groups when it keeps consume queues in RocksDB.
//
// Source: RocksDBConfigManager and ConfigStorage, 5.5.0.
var rocksConfigs = []string{"topics", "subscriptionGroups", "consumerOffsets", "metadata", "rdb"}

// noteKept notes on which sides the queues are kept from now on.
func noteKept(fsys mmap.FS, l Layout, k Kept) error {
	_, times := l.migrated()
	file := keptFile{Sides: k.kinds(), Moves: times}
	if _, place, found, err := l.FindRocks(); k.RocksDB && err == nil && found {
		file.Separate = place == RocksSeparate
	}
	b, err := json.Marshal(file)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if old, err := readFile(fsys, l.keptPath(), maxKeptBytes); err == nil && string(old) == string(b) {
		return nil
	}
	if err := makeDir(fsys, l.StateDir()); err != nil {
		return err
	}
	return replaceFile(fsys, l.keptPath(), b)
}

// noteKept notes the sides that dispatch feeds. Without the note a lost side is taken for one that there never was, and no more.
func (v *views) noteKept() {
	var k Kept
	k.File, k.RocksDB = v.s.o.sides()
	if err := noteKept(v.s.fs, v.s.layout, k); err != nil {
		v.s.logger.Warn("on which sides the consume queues are kept is not noted", slog.Any("err", err))
	}
}

// noteKept notes that a recovery or a rebuild has made sides that were not there, beside those that are kept already.
func (r *recovery) noteKept() error {
	k := r.kept
	switch {
	case !r.found.File && !r.found.RocksDB:
		k = Kept{} // what was chosen takes the place of what is gone
	case !k.Known():
		k = r.found
	}
	for _, t := range r.kinds {
		if kind, _ := t.queueKind(); !r.found.Has(kind) {
			k.add(kind)
		}
	}
	return noteKept(mmap.OS, r.layout, k)
}
