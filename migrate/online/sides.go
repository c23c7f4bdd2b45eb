package online

import (
	"fmt"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// sidesSeen is what of SideStates the state was told of.
type sidesSeen struct {
	met      map[cq.Kind]int64 // counts that are no news
	last     map[cq.Kind]int64 // those of the look before: a read that is compared tells by itself, a moment later
	replaced int64
	building bool // after the cutover, a side is being built again
}

// skipMet says that what was met up to now is dealt with: queues were compared, or somebody has had them built again.
func (m *Migration) skipMet() {
	sides, err := m.s.SideStates()
	if err != nil {
		return
	}
	m.seen.met = make(map[cq.Kind]int64)
	for kind, side := range sides {
		m.seen.met[kind] = side.Met
	}
}

// lookAtSides voids a verification when a side was found damaged since, as a whole or in a queue: by a reader, by dispatch, or by RocksDB. Reads that have moved stay where they are.
func (m *Migration) lookAtSides(st *state.State) (more bool, err error) {
	if st.Phase != state.Verified && st.Phase != state.Cutover {
		return false, nil
	}
	sides, err := m.s.SideStates()
	if err != nil {
		return false, err
	}
	if more, err := m.lookAtFilling(st, sides); more || err != nil {
		return more, err
	}
	last := m.seen.last
	m.seen.last = make(map[cq.Kind]int64)
	for _, kind := range []cq.Kind{st.From, st.To} {
		side := sides[kind]
		if m.seen.last[kind] = side.Met; side.Met > m.seen.met[kind] && last[kind] == side.Met && len(side.MetLast) > 0 {
			return true, m.voidMet(st, &side, side.Met-m.seen.met[kind])
		}
	}
	return false, nil
}

// lookAtFilling looks for a side that is built again as a whole.
func (m *Migration) lookAtFilling(st *state.State, sides map[cq.Kind]store.SideState) (more bool, err error) {
	for _, kind := range []cq.Kind{st.From, st.To} {
		side := sides[kind]
		if side.Filling == nil && side.Failure == nil && side.Replaced <= m.seen.replaced {
			continue
		}
		if st.Phase == state.Cutover && m.seen.building {
			if side.Filling != nil || side.Failure != nil {
				return false, nil
			}
			break
		}
		why := fmt.Sprintf("the %s side was found damaged, and is built again from the log", kind)
		switch {
		case side.Failure != nil:
			why = fmt.Sprintf("the %s side was given up: %v", kind, side.Failure)
		case side.Replaced <= m.seen.replaced:
			why = fmt.Sprintf("the %s side lacks a part of the log, and is filled", kind)
		}
		void := func(st *state.State) { st.Online.Verified, st.Online.CanaryTopics = nil, nil }
		if st.Phase == state.Verified {
			err = m.advance(state.VerifyStart, m.o.Actor, why, void)
		} else {
			err = m.change(func(st *state.State) {
				void(st)
				st.Note(state.SideReplaced, m.o.Actor, why, m.now())
			})
			m.seen.building = err == nil
		}
		if err != nil {
			return false, err
		}
		m.seen.replaced, m.certified = max(m.seen.replaced, side.Replaced), nil
		m.mu.Lock()
		m.mu.compared = nil
		m.mu.Unlock()
		return true, nil
	}
	if st.Phase == state.Cutover && m.seen.building && !busy(sides[st.From]) && !busy(sides[st.To]) {
		m.seen.building = false
		m.skipMet()
		return true, m.change(func(st *state.State) {
			st.Note(state.SideWhole, m.o.Actor, "both sides have what the log has; `tandemmq migrate online verify`, or the next step, compares them", m.now())
		})
	}
	return false, nil
}

// voidMet takes down queues that were met.
func (m *Migration) voidMet(st *state.State, side *store.SideState, n int64) error {
	list := side.MetLast[max(int64(len(side.MetLast))-n, 0):]
	t := newTally(st)
	var differences []string
	for _, q := range list {
		t.found(q.Key)
		if len(differences) < maxDifferences {
			differences = append(differences, fmt.Sprintf("queue %s: %s side: %v", q.Key, side.Kind, q.Err))
		}
	}
	note := "met by a reader or by dispatch: " + differences[0]
	if n > 1 {
		note = fmt.Sprintf("%d queues, %s", n, note)
	}
	void := func(st *state.State) {
		st.Online.Verified, st.Online.CanaryTopics, st.Online.Differences, st.Online.Findings = nil, nil, differences, t.findings()
	}
	var err error
	if st.Phase == state.Verified {
		err = m.advance(state.VerifyDiffers, m.o.Actor, note, void)
	} else {
		err = m.change(func(st *state.State) {
			void(st)
			st.Note(state.QueueDamaged, m.o.Actor, note, m.now())
		})
	}
	if err == nil {
		m.skipMet()
		m.mending, m.certified = true, nil
	}
	return err
}
