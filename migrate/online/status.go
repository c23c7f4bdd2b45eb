package online

import (
	"errors"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// Status is how a migration stands, and how far it is.
type Status struct {
	Phase state.Phase `json:"phase"`
	From  cq.Kind     `json:"from,omitempty"`
	To    cq.Kind     `json:"to,omitempty"`
	// Online tells that the migration is one of a running broker; otherwise the phase is that of one of the stopped store.
	Online bool `json:"online"`
	// Queues says what the broker keeps its queues in now: file, rocks, or combine.
	Queues    cq.Kind `json:"queues"`
	Reads     cq.Kind `json:"reads"`     // the side that serves
	Authority cq.Kind `json:"authority"` // the side that says which offset comes next
	// CanaryTopics are read from the target already.
	CanaryTopics []string `json:"canaryTopics,omitempty"`
	// Waits says what the migration waits for, or why it does not go on.
	Waits string `json:"waits,omitempty"`
	// RestartNeeded tells that it goes on when the broker was stopped in order and started.
	RestartNeeded bool `json:"restartNeeded,omitempty"`

	// PutsRefused says why the broker takes no messages at present, and what is to be done.
	PutsRefused string `json:"putsRefused,omitempty"`

	Fill *Progress `json:"fill,omitempty"` // while a side is filled from the log
	// Verifying is there while the sides are compared.
	Verifying *Verifying `json:"verifying,omitempty"`
	// Lag is how far each side is behind the log, of a broker that keeps both.
	Lag map[cq.Kind]Lag `json:"lag,omitempty"`
	// Diverged are queues that are built again on a side; Differ are those that stay as they are.
	Diverged map[cq.Kind]int `json:"diverged,omitempty"`
	Differ   map[cq.Kind]int `json:"differ,omitempty"`
	// Shadow tells of reads that were compared with what the other side has, since the broker was started.
	Shadow *store.ShadowReads `json:"shadow,omitempty"`

	// Topics are those that lack most, where somebody has asked for them, and MoreTopics how many there are beside.
	Topics     []Topic `json:"topics,omitempty"`
	MoreTopics int     `json:"moreTopics,omitempty"`

	// Findings count queues that were found to differ; nil: none was. Chosen are those of which somebody has chosen a side.
	Findings *Findings         `json:"findings,omitempty"`
	Chosen   []state.KeptQueue `json:"chosen,omitempty"`
	// Asked are the last steps that somebody has asked for since the broker was started, the newest at the end.
	Asked []Step `json:"asked,omitempty"`

	Verified    *state.Coverage `json:"verified,omitempty"`
	Differences []string        `json:"differences,omitempty"`
	// Refused says, of the steps that come next, why one would be refused at this moment; a step that is not there would be tried. What a step compares is not known before.
	Refused map[string][]string  `json:"refused,omitempty"`
	Kept    cq.Kind              `json:"kept,omitempty"`
	Retired []state.Retired      `json:"retired,omitempty"`
	History []state.HistoryEntry `json:"history"`
}

// Step is a step that somebody has asked for.
type Step struct {
	Name  string    `json:"name"`
	Actor string    `json:"actor"`
	Begun time.Time `json:"begun"`
	// Running tells that it is not over. Error is why it was not done then, and Differs that something was found to differ.
	Running bool   `json:"running,omitempty"`
	Error   string `json:"error,omitempty"`
	Differs bool   `json:"differs,omitempty"`
}

// maxAsked is how many steps are told of.
const maxAsked = 8

// asks notes a step that somebody has asked for. What is returned is called with its error.
func (m *Migration) asks(name, actor string) (done func(err *error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &Step{Name: name, Actor: actor, Begun: m.now(), Running: true}
	m.mu.asked = append(m.mu.asked, s)
	m.mu.asked = m.mu.asked[max(len(m.mu.asked)-maxAsked, 0):]
	return func(err *error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		s.Running = false
		if *err != nil {
			var differs *DiffersError
			s.Error, s.Differs = (*err).Error(), errors.As(*err, &differs)
		}
	}
}

// Progress of a side that is filled, in physical offsets of the log.
type Progress struct {
	Kind           cq.Kind `json:"kind"`
	From           int64   `json:"from"`
	Done           int64   `json:"done"`
	To             int64   `json:"to"` // moves as the log grows
	BytesPerSecond int64   `json:"bytesPerSecond"`
	// SecondsLeft is -1 while that cannot be told.
	SecondsLeft int64 `json:"secondsLeft"`
}

// Verifying is how far a comparison of the sides is.
type Verifying struct {
	Queues         int   `json:"queues"`
	Of             int   `json:"of"`
	Units          int64 `json:"units"`
	UnitsPerSecond int64 `json:"unitsPerSecond"`
	// SecondsLeft is -1 while that cannot be told. It takes queues to be of about the same length.
	SecondsLeft int64 `json:"secondsLeft"`
}

// Lag is how far a side is behind the log: in bytes of it, and in milliseconds since the first message was stored that is not there. Failure says why it does not come closer.
type Lag struct {
	Bytes   int64  `json:"bytes"`
	Ms      int64  `json:"ms"`
	Failure string `json:"failure,omitempty"`
}

// rate tells how fast something goes, over the last while.
type rate struct {
	at   [2]time.Time
	done [2]int64
}

const rateWindow = 10 * time.Second

func (r *rate) note(now time.Time, done int64) {
	switch {
	case r.at[0].IsZero() || done < r.done[1]:
		r.at, r.done = [2]time.Time{now, now}, [2]int64{done, done}
	case now.Sub(r.at[1]) > rateWindow:
		r.at, r.done = [2]time.Time{r.at[1], now}, [2]int64{r.done[1], done}
	}
}

func (r *rate) perSecond(now time.Time, done int64) int64 {
	if d := now.Sub(r.at[0]).Seconds(); d > 0.05 && !r.at[0].IsZero() {
		return int64(float64(done-r.done[0]) / d)
	}
	return 0
}

// progress notes how far the fill is.
func (m *Migration) progress(done int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.rate.note(m.now(), done)
}

// Status returns how the migration stands. It waits for no step.
func (m *Migration) Status() Status {
	m.mu.Lock()
	st := copyState(m.mu.st)
	s := Status{
		Phase: st.Phase, From: st.From, To: st.To, Online: st.Online != nil, Queues: m.o.Kind, Reads: m.o.Kind, Authority: m.o.Kind,
		Waits: m.mu.why, Verifying: m.verifyingLocked(), Kept: st.Kept, Retired: st.Retired, History: st.History,
	}
	for _, one := range m.mu.asked {
		s.Asked = append(s.Asked, *one)
	}
	m.mu.Unlock()
	if m.o.PutsRefused != nil {
		if err := m.o.PutsRefused(); err != nil {
			s.PutsRefused = err.Error()
		}
	}
	if st.Online != nil {
		s.Findings, s.Chosen = findings(st), st.Online.Kept
		s.CanaryTopics, s.Verified, s.Differences = st.Online.CanaryTopics, st.Online.Verified, st.Online.Differences
		s.RestartNeeded = !m.combined() && underWay(st.Phase) || st.Phase == state.Finalizing && finalizeDue(st, m.now())
	}
	if !m.combined() {
		s.Refused = m.refusedNow(st, nil)
		return s
	}
	if r, err := m.s.SideRoles(); err == nil {
		s.Reads, s.Authority = r.Preferred, r.Authority
	}
	marks := m.s.Watermarks().Views
	s.Lag = make(map[cq.Kind]Lag)
	for _, kind := range []cq.Kind{cq.KindFile, cq.KindRocks} {
		v := marks[string(kind)+" queues"]
		s.Lag[kind] = Lag{Bytes: v.BehindBytes, Ms: v.BehindMs, Failure: v.Failure}
	}
	if shadow := m.s.ShadowReads(); shadow.Reads+shadow.Busy+shadow.Passed+shadow.Found > 0 {
		s.Shadow = &shadow
	}
	sides, err := m.s.SideStates()
	if err != nil {
		return s
	}
	s.Refused = m.refusedNow(st, sides)
	for serving, wanted := range map[*cq.Kind]cq.Kind{&s.Reads: s.Reads, &s.Authority: s.Authority} {
		if side := sides[wanted]; side.Filling != nil || side.Failure != nil { // the other one serves meanwhile
			*serving = otherKind(wanted)
		}
	}
	s.Diverged, s.Differ = map[cq.Kind]int{}, map[cq.Kind]int{}
	for kind, side := range sides {
		s.Diverged[kind], s.Differ[kind] = side.Diverged, side.Given
		if side.Filling != nil {
			s.Fill = m.fillProgress(&side)
		}
	}
	return s
}

// refusedNow tells why the steps that come next would be refused; sides is nil where there is one.
func (m *Migration) refusedNow(st *state.State, sides map[cq.Kind]store.SideState) map[string][]string {
	if st.Online == nil {
		return nil
	}
	refused := make(map[string][]string)
	of := func(step string, kinds ...cq.Kind) {
		if reasons := lacks(sides, kinds...); len(reasons) > 0 {
			refused[step] = reasons
		}
	}
	kept := st.To
	switch st.Phase {
	case state.Verified:
		of("cutover", st.From, st.To)
	case state.Cutover:
		of("rollback", st.From)
		of("finalize", kept)
	case state.RolledBack:
		kept = st.From
		of("finalize", kept)
	default:
		return nil
	}
	if sides == nil {
		alone := []string{notCombined(st, m.o.Kind)}
		switch st.Phase {
		case state.Verified:
			refused["cutover"] = alone
		case state.Cutover:
			refused["rollback"] = alone
		default:
			refused["verify"] = alone
		}
		if kept != m.o.Kind && st.Phase != state.Verified {
			refused["finalize"] = alone
		}
	}
	return refused
}

func (m *Migration) verifyingLocked() *Verifying {
	if m.mu.of == 0 {
		return nil
	}
	v := &Verifying{Queues: m.mu.done, Of: m.mu.of, Units: m.mu.units, SecondsLeft: -1}
	if d := m.now().Sub(m.mu.begun).Seconds(); d > 0.05 && v.Queues > 0 {
		v.UnitsPerSecond = int64(float64(v.Units) / d)
		v.SecondsLeft = int64(d / float64(v.Queues) * float64(max(v.Of-v.Queues, 0)))
	}
	return v
}

func (m *Migration) fillProgress(side *store.SideState) *Progress {
	f := side.Filling
	p := &Progress{Kind: side.Kind, From: f.From, Done: f.Done, To: max(f.To, m.s.Watermarks().Appended), SecondsLeft: -1}
	m.mu.Lock()
	p.BytesPerSecond = m.mu.rate.perSecond(m.now(), f.Done)
	m.mu.Unlock()
	if p.BytesPerSecond > 0 {
		p.SecondsLeft = (p.To - p.Done) / p.BytesPerSecond
	}
	return p
}
