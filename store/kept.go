package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// Which sides a store keeps its consume queues on cannot be seen in its directory when one of them is lost, nor when one was left behind.

// The file queue-sides notes on which sides the store keeps its consume queues: those that dispatch fed when it was last open.
//
//	{"sides":["file","rocks"],"separate":true,"moves":1}
//
// separate: RocksDB has a directory of its own; left out where it has not.
// moves: how many migrations had been cut over or rolled back by then. Where there are more now, migration.json knows better.
const (
	keptName      = "queue-sides.json"
	migrationName = "migration.json" // written by package migrate

	keptByNote = "tandemmq/" + keptName
)

// maxKeptBytes and maxMigrationBytes bound what is read of the two.
const (
	maxKeptBytes      = 4 << 10
	maxMigrationBytes = 64 << 20
)

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

// moved is what migration.json tells of the sides. Zero where there is none.
type moved struct {
	active   cq.Kind // that reads belong to; "": it does not say
	separate bool    // RocksDB has a directory of its own
	times    int     // that they were moved, either way
}

// readMoved reads it. Package migrate is above this one; of its file the phase, the two sides and the events are read.
//
// Source: migrate.State.
func (l Layout) readMoved() (m moved, err error) {
	b, err := readFile(mmap.OS, filepath.Join(l.StateDir(), migrationName), maxMigrationBytes)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return m, err
	}
	var state struct {
		Phase       string      `json:"phase"`
		From        cq.Kind     `json:"from"`
		To          cq.Kind     `json:"to"`
		RocksLayout RocksLayout `json:"rocksLayout"`
		History     []struct {
			Event string `json:"event"`
		} `json:"history"`
	}
	if json.Unmarshal(b, &state) != nil {
		return m, nil // who migrates is told; here it tells nothing
	}
	switch state.Phase {
	case "", "absent":
	case "cutover", "rolling-back":
		m.active = state.To
	default:
		m.active = state.From
	}
	m.separate = state.RocksLayout == RocksSeparate
	for _, h := range state.History {
		if h.Event == "cutover" || h.Event == "rollback-end" {
			m.times++
		}
	}
	return m, nil
}

// Kept returns on which sides the store keeps its consume queues, by what was noted of them.
func (l Layout) Kept() (k Kept, err error) {
	m, err := l.readMoved()
	if err != nil {
		return k, err
	}
	b, err := readFile(mmap.OS, l.keptPath(), maxKeptBytes)
	var note keptFile
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return k, err
	case json.Unmarshal(b, &note) == nil && note.Moves >= m.times: // one that cannot be read tells nothing
		for _, kind := range note.Sides {
			k.add(kind)
		}
		if len(k.kinds()) > 0 {
			k.Separate, k.By = note.Separate, keptByNote
			return k, nil
		}
	}
	if m.active == cq.KindFile || m.active == cq.KindRocks {
		k.add(m.active)
		k.Separate, k.By = k.RocksDB && m.separate, "tandemmq/"+migrationName
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
	m, err := l.readMoved()
	if err != nil {
		return err
	}
	file := keptFile{Sides: k.kinds(), Moves: m.times}
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
