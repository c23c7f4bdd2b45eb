package offsets

import (
	"context"

	"github.com/tandemq/tandemmq/store"
)

// Line is one offset with its queue.
type Line struct {
	Place Place `json:"place"`
	Key
	Offset  *int64 `json:"offset"` // nil where it is no number
	Min     *int64 `json:"min,omitempty"`
	Max     *int64 `json:"max,omitempty"`
	Behind  *int64 `json:"behind,omitempty"` // messages from the offset, or min, to max
	StoreMs *int64 `json:"storeMs,omitempty"`
	Kind    Kind   `json:"kind,omitempty"` // as Check would call it
}

// Listing is what List returns.
type Listing struct {
	Lines []Line `json:"offsets"`
	// Unread are places that cannot be read; their lines are those of the backup, or missing.
	Unread []string `json:"unread,omitempty"`
}

// List returns the selected offsets of all sources with the bounds of their queues and the store times of the messages
// they point to. Errors: ctx, a store that cannot be read.
func List(ctx context.Context, v *store.View, sources []*Source, sel Selection) (*Listing, error) {
	q, err := newQueues(v)
	if err != nil {
		return nil, err
	}
	l := &Listing{Lines: []Line{}}
	for _, s := range sources {
		if s.Err != nil {
			l.Unread = append(l.Unread, s.Err.Error())
		}
		for _, k := range sel.pick(s.Offsets) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			line, err := q.line(s, k)
			if err != nil {
				return nil, err
			}
			l.Lines = append(l.Lines, line)
		}
	}
	return l, nil
}

func (q *queues) line(s *Source, k Key) (Line, error) {
	v := s.Offsets[k]
	n := Line{Place: s.Place, Key: k}
	if v.Bad == "" {
		n.Offset = &v.Offset
	}
	if q.batch[k.Topic] {
		return n, nil
	}
	b, there, err := q.bounds(k.Queue())
	n.Kind, _ = judge(v, b, there, err)
	if err != nil || !there {
		return n, nil //nolint:nilerr // the kind says so
	}
	n.Min, n.Max = &b.Min, &b.Max
	if v.Bad != "" {
		return n, nil
	}
	behind := b.Max - min(max(v.Offset, b.Min), b.Max)
	n.Behind = &behind
	ms, ok, err := q.storeTime(k.Queue(), v.Offset)
	if ok {
		n.StoreMs = &ms
	}
	return n, err
}
