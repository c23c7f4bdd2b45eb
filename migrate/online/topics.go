package online

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/store"
)

// Topic is how far a topic is.
type Topic struct {
	Topic  string `json:"topic"`
	Queues int    `json:"queues"`
	Units  int64  `json:"units"`  // that the source has
	Filled int64  `json:"filled"` // that the target has
	// UnitsPerSecond are added to the target, beyond what comes anew; SecondsLeft is -1 while that cannot be told, and 0 when nothing is lacking.
	UnitsPerSecond int64 `json:"unitsPerSecond"`
	SecondsLeft    int64 `json:"secondsLeft"`
	// Verified queues were compared by the verification that counts, or the one under way, and are the same; Different are not.
	Verified  int `json:"verified"`
	Different int `json:"different,omitempty"`
	// Diverged queues are built again on a side; Differ stay as they are.
	Diverged int  `json:"diverged,omitempty"`
	Differ   int  `json:"differ,omitempty"`
	Canary   bool `json:"canary,omitempty"`
	// Found queues were found to differ since the migration was begun: Healed of them were built again and are the same, of Kept ones somebody has chosen a side, Remaining ones differ.
	Found     int64 `json:"found,omitempty"`
	Healed    int64 `json:"healed,omitempty"`
	Kept      int64 `json:"kept,omitempty"`
	Remaining int64 `json:"remaining,omitempty"`
}

// lacking is what the target has still to get. It may be ahead for a moment.
func (t *Topic) lacking() int64 { return max(t.Units-t.Filled, 0) }

// topicsAge is how long what was found of topics is told again; longer where it takes long to find it.
const (
	topicsAge   = 200 * time.Millisecond
	topicsShare = 10 // of the time that it took, so much has to be over before it is found anew
)

// topicsSeen is what was found of topics last, and, for rates, some while before.
type topicsSeen struct {
	sync.Mutex
	list     []store.TopicUnits
	at, till time.Time
	before   map[string]int64 // what each topic lacked
	beforeAt time.Time
	rate     map[string]float64 // units a second
}

// compared is what verifications found in a topic's queues.
type compared struct{ same, different int }

// Topics returns how far the topics are, those first that lack most, and how many more there are: at most limit, 0: all. It looks at every queue, though not each time that it is called.
//
// Errors: store.ErrNotCombined while there is one store of queues; those of the store; ctx.
func (m *Migration) Topics(ctx context.Context, limit int) (list []Topic, more int, err error) {
	st := m.state()
	t := &m.topics
	t.Lock()
	defer t.Unlock()
	if begin := m.now(); t.list == nil || begin.After(t.till) {
		found, err := m.s.TopicUnits(ctx)
		if err != nil {
			return nil, 0, err
		}
		t.list, t.at = found, m.now()
		t.till = t.at.Add(max(topicsAge, topicsShare*t.at.Sub(begin)))
		t.note(func(u *store.TopicUnits) int64 { return max(u.Of(st.From)-u.Of(st.To), 0) })
	}
	m.mu.Lock()
	for i := range t.list {
		u := &t.list[i]
		one := Topic{Topic: u.Topic, Queues: u.Queues, Units: u.Of(st.From), Filled: u.Of(st.To), Diverged: u.Diverged, Differ: u.Given, SecondsLeft: -1}
		c := m.mu.compared[u.Topic]
		one.Verified, one.Different = c.same, c.different
		one.UnitsPerSecond = int64(t.rate[u.Topic])
		switch lacking := one.lacking(); {
		case lacking == 0:
			one.SecondsLeft = 0
		case one.UnitsPerSecond > 0:
			one.SecondsLeft = lacking / one.UnitsPerSecond
		}
		if st.Online != nil {
			if all := st.Online.Findings; all != nil {
				f := all.Topics[u.Topic]
				one.Found, one.Healed, one.Kept, one.Remaining = f.Found, f.Healed, f.Kept, f.Found-f.Healed-f.Kept
			}
			_, one.Canary = slices.BinarySearch(st.Online.CanaryTopics, u.Topic)
		}
		list = append(list, one)
	}
	m.mu.Unlock()
	slices.SortFunc(list, func(a, b Topic) int {
		return cmp.Or(cmp.Compare(b.lacking(), a.lacking()), cmp.Compare(b.Diverged+b.Differ+b.Different, a.Diverged+a.Differ+a.Different),
			cmp.Compare(b.Queues-b.Verified, a.Queues-a.Verified), strings.Compare(a.Topic, b.Topic))
	})
	if limit > 0 && len(list) > limit {
		list, more = list[:limit], len(list)-limit
	}
	return list, more, nil
}

// note finds out how fast each topic comes closer, over a second or more.
func (t *topicsSeen) note(lacks func(u *store.TopicUnits) int64) {
	d := t.at.Sub(t.beforeAt)
	if t.before != nil && d < time.Second {
		return
	}
	now, rate := make(map[string]int64), make(map[string]float64)
	for i := range t.list {
		u := &t.list[i]
		lack := lacks(u)
		if lack == 0 {
			continue // and no memory
		}
		now[u.Topic] = lack
		if was := t.before[u.Topic]; was > lack {
			rate[u.Topic] = float64(was-lack) / d.Seconds()
		}
	}
	t.before, t.beforeAt, t.rate = now, t.at, rate
}
