package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
)

// What RocketMQ 5.5.0 leaves where it writes both sides, or one after the other, is told by where the queues of the two sides begin and end. A plan names what it finds, in words and with the way on.

// StateCode names a state in which RocketMQ leaves a store with two sides.
type StateCode string

// The states.
const (
	StateNoHistory   StateCode = "no-history"     // RocksDB begins later than the files: writing both does not bring what was there before (F14)
	StateBegunAnew   StateCode = "begun-anew"     // a queue of one side has an end and no units, where the other has some (F16)
	StateDirtyRows   StateCode = "dirty-rows"     // RocksDB has rows behind a queue's end: a truncation left them (F30)
	StateFilesBehind StateCode = "files-behind"   // the files end earlier: RocksDB was written alone
	StateRocksBehind StateCode = "rocks-behind"   // RocksDB ends earlier: the files were written alone
	StateLightAlone  StateCode = "light-alone"    // light queues that RocksDB alone has (combineCQUseRocksdbForLmq)
	StateLightOnly   StateCode = "light-only"     // RocksDB has light queues and no others
	StateSeparate    StateCode = "separate-path"  // RocksDB lies in consumequeue_rocksdb (useSeparateStorePathForRocksdbCQ=true)
	StateUnreadable  StateCode = "contradictory"  // queues whose files or rows contradict themselves
	StateOneSided    StateCode = "missing-in-one" // queues that one side has and the other has not
	maxStateExamples           = 3
)

// PlanState is one of them.
type PlanState struct {
	State  StateCode `json:"state"`
	Queues int       `json:"queues"`
	// Examples are the first queues.
	Examples []string `json:"examples,omitempty"`
	Text     string   `json:"text"`
}

var stateTexts = map[StateCode]string{
	StateNoHistory: "begin later in RocksDB than in the files: RocketMQ wrote both from some time on and does not bring what was there before. A run from files to RocksDB fills it; repair does, too",
	StateBegunAnew: "have an end and no units on one side, where the other has units: RocketMQ set them to a new beginning when their ends did not agree. A run to that side fills it; repair does, too",
	StateDirtyRows: "have rows in RocksDB behind their end, left by a truncation: nobody is given them until the queue grows. A run to RocksDB or a repair removes them",
	StateFilesBehind: "end earlier in the files than in RocksDB: RocketMQ wrote RocksDB alone for a while. Started with files it would put new messages into the wrong slots; repair brings them up to the log, " +
		"run --to file does",
	StateRocksBehind: "end earlier in RocksDB than in the files: RocketMQ wrote the files alone for a while. A run from files to RocksDB fills it; repair does, too",
	StateLightAlone:  "are light queues that RocksDB alone has: it was told to have them alone (combineCQUseRocksdbForLmq). They stay there",
	StateLightOnly:   "are all that RocksDB has, and are light queues: the others were never written to it. A run from files to RocksDB adds them and keeps these",
	StateSeparate:    "lie in consumequeue_rocksdb, and brokers need useSeparateStorePathForRocksdbCQ=true",
	StateUnreadable:  "contradict themselves on one side. repair has them written anew",
	StateOneSided:    "are on one side alone. A run to the side that lacks them adds them; repair does, too, where the log has their records",
}

// recognise looks at the queues of both sides.
func (m *Migrator) recognise(ctx context.Context, p *Plan) error {
	if !m.dir.found(cq.KindFile) || !m.dir.found(cq.KindRocks) {
		return nil
	}
	switch m.state.Phase {
	case PhaseAbsent, PhaseRolledBack, PhaseCutover, "":
	default:
		return nil // the one side is being made from the other
	}
	states := make(map[StateCode]*PlanState)
	note := func(code StateCode, k cq.Key) {
		s := states[code]
		if s == nil {
			s = &PlanState{State: code}
			states[code] = s
		}
		if s.Queues++; s.Queues <= maxStateExamples {
			s.Examples = append(s.Examples, k.String())
		}
	}
	rocksQueues := 0
	err := m.withReaders([]cq.Kind{cq.KindFile, cq.KindRocks}, func(sides []cq.Reader) error {
		files, rocks := sides[0], sides[1]
		for k, err := range files.Queues() {
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			if err := recogniseQueue(k, files, rocks, note); err != nil {
				return err
			}
		}
		for k, err := range rocks.Queues() {
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			rocksQueues++
			if t, ok := rocks.(cq.Trimmer); ok {
				if err := recogniseRows(k, rocks, t, note); err != nil {
					return err
				}
			}
			if _, ok := files.Queue(k); !ok && k.IsLMQ() {
				note(StateLightAlone, k)
			} else if !ok {
				note(StateOneSided, k)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s := states[StateLightAlone]; s != nil && s.Queues == rocksQueues {
		delete(states, StateLightAlone)
		s.State = StateLightOnly
		states[StateLightOnly] = s
		delete(states, StateOneSided) // that says it
	}
	if m.dir.RocksLayout == LayoutSeparate {
		states[StateSeparate] = &PlanState{State: StateSeparate, Queues: rocksQueues}
	}
	for _, code := range []StateCode{
		StateSeparate, StateLightOnly, StateLightAlone, StateNoHistory, StateBegunAnew, StateOneSided, StateFilesBehind, StateRocksBehind, StateDirtyRows, StateUnreadable,
	} {
		if s := states[code]; s != nil {
			s.Text = fmt.Sprintf("%d queues %s", s.Queues, stateTexts[code])
			p.States = append(p.States, *s)
		}
	}
	return nil
}

// recogniseRows looks for rows behind the end of a queue.
func recogniseRows(k cq.Key, rocks cq.Reader, t cq.Trimmer, note func(StateCode, cq.Key)) error {
	q, ok := rocks.Queue(k)
	if !ok {
		return nil
	}
	b, err := q.Bounds()
	if err != nil {
		return nil //nolint:nilerr // told where the two sides are compared
	}
	at, err := t.UnitFrom(k, b.Max)
	if at >= 0 {
		note(StateDirtyRows, k)
	}
	return err
}

// recogniseQueue compares where a queue of files begins and ends with where it does in RocksDB.
func recogniseQueue(k cq.Key, files, rocks cq.Reader, note func(StateCode, cq.Key)) error {
	q, ok := files.Queue(k)
	if !ok {
		return nil
	}
	f, err := q.Bounds()
	if errors.Is(err, cq.ErrCorrupt) {
		note(StateUnreadable, k)
		return nil
	}
	if err != nil {
		return err
	}
	if q, ok = rocks.Queue(k); !ok {
		if f.Max > 0 {
			note(StateOneSided, k)
		}
		return nil
	}
	r, err := q.Bounds()
	if errors.Is(err, cq.ErrCorrupt) {
		note(StateUnreadable, k)
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case r.Empty() && !f.Empty(), f.Empty() && !r.Empty():
		note(StateBegunAnew, k)
	case !r.Empty() && !f.Empty() && r.Min > f.Min:
		note(StateNoHistory, k)
	}
	switch {
	case f.Max < r.Max:
		note(StateFilesBehind, k)
	case r.Max < f.Max:
		note(StateRocksBehind, k)
	}
	return nil
}
