package online

import (
	"maps"
	"slices"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
)

// Findings say how many queues were found to differ since the migration was begun, and what became of them.
type Findings struct {
	Found     int64 `json:"found"`
	Healed    int64 `json:"healed"` // built again, and found the same; or gone with their topics
	Kept      int64 `json:"kept"`   // somebody has chosen a side
	Remaining int64 `json:"remaining"`
}

// findings are what a state says.
func findings(st *state.State) *Findings {
	if st.Online == nil || st.Online.Findings == nil {
		return nil
	}
	f := st.Online.Findings
	return &Findings{Found: f.Found, Healed: f.Healed, Kept: f.Kept, Remaining: f.Remaining()}
}

// keptOf says below which slot a queue is not held against the log, as somebody has chosen a side of it.
func keptOf(st *state.State) func(k cq.Key) int64 {
	if st.Online == nil || len(st.Online.Kept) == 0 {
		return nil
	}
	kept := make(map[cq.Key]int64, len(st.Online.Kept))
	for i := range st.Online.Kept {
		one := &st.Online.Kept[i]
		kept[keyOf(one.QueueName)] = one.To
	}
	return func(k cq.Key) int64 { return kept[k] }
}

func nameOf(k cq.Key) state.QueueName { return state.QueueName{Topic: k.Topic, QueueID: k.QueueID} }

func keyOf(n state.QueueName) cq.Key { return cq.Key{Topic: n.Topic, QueueID: n.QueueID} }

// openQueues are those that differ as far as is known.
func openQueues(st *state.State) map[cq.Key]struct{} {
	m := make(map[cq.Key]struct{})
	if st.Online != nil && st.Online.Findings != nil {
		for _, n := range st.Online.Findings.Open {
			m[keyOf(n)] = struct{}{}
		}
	}
	return m
}

// tally changes Findings.
type tally struct {
	f    state.Findings
	open map[cq.Key]struct{}
	more int64 // that differ and are not in open
}

// newTally begins with what a state says.
func newTally(st *state.State) *tally {
	t := &tally{open: openQueues(st)}
	if st.Online != nil && st.Online.Findings != nil {
		t.f = *st.Online.Findings
	}
	t.f.Topics = maps.Clone(t.f.Topics)
	t.more = max(t.f.Remaining()-int64(len(t.open)), 0)
	return t
}

func (t *tally) topic(topic string, change func(f *state.TopicFindings)) {
	f, ok := t.f.Topics[topic]
	if !ok && len(t.f.Topics) == state.MaxOpen {
		return
	}
	if t.f.Topics == nil {
		t.f.Topics = make(map[string]state.TopicFindings)
	}
	change(&f)
	t.f.Topics[topic] = f
}

// found counts a queue that differs, unless it is counted.
func (t *tally) found(k cq.Key) {
	if _, known := t.open[k]; known {
		return
	}
	t.open[k] = struct{}{}
	if t.more > 0 { // it may be one of those
		t.more--
		return
	}
	t.f.Found++
	t.topic(k.Topic, func(f *state.TopicFindings) { f.Found++ })
}

// healed counts a queue that is the same, if it was not.
func (t *tally) healed(k cq.Key) {
	if _, known := t.open[k]; !known {
		return
	}
	delete(t.open, k)
	t.f.Healed++
	t.topic(k.Topic, func(f *state.TopicFindings) { f.Healed++ })
}

// kept counts a queue of which a side was chosen.
func (t *tally) kept(k cq.Key) {
	t.found(k)
	delete(t.open, k)
	t.f.Kept++
	t.topic(k.Topic, func(f *state.TopicFindings) { f.Kept++ })
}

// all says that every queue was compared: those that nothing was found of are healed.
func (t *tally) all(differ map[cq.Key]struct{}) {
	for _, k := range slices.Collect(maps.Keys(t.open)) {
		if _, still := differ[k]; !still {
			t.healed(k)
		}
	}
	t.f.Healed += t.more
	t.more = 0
}

// findings returns what comes of it; nil: nothing was ever found.
func (t *tally) findings() *state.Findings {
	if t.f.Found == 0 {
		return nil
	}
	f := t.f
	f.Open = nil
	for _, k := range slices.SortedFunc(maps.Keys(t.open), cq.Key.Compare) {
		if len(f.Open) < state.MaxOpen {
			f.Open = append(f.Open, nameOf(k))
		}
	}
	return &f
}
