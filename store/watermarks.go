package store

import (
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// Watermarks are how far the parts of a store have come, as physical offsets. MinPhyOffset is where the log begins; everything below each of the others is done.
type Watermarks struct {
	MinPhyOffset int64 `json:"minPhyOffset"`
	Appended     int64 `json:"appended"`
	Committed    int64 `json:"committed"` // readable
	Flushed      int64 `json:"flushed"`   // durable
	Confirmed    int64 `json:"confirmed"` // where readers of messages stop
	// StrayUnits counts the units that readers of this process met and passed because the log has no message of the queue there, though it should: it is damaged, or has lost the message. Each
	// read of one counts.
	StrayUnits int64 `json:"strayUnits"`
	// Views tells of what is derived from the log, by name: "file queues" or "rocks queues", "index", and "rocks index". A backlog of each counts (I19).
	Views map[string]ViewMark `json:"views"`
}

// ViewMark is how far a view has come.
type ViewMark struct {
	Dispatched  int64 `json:"dispatched"`  // every record below is in the view
	Durable     int64 `json:"durable"`     // and durable there; -1 when this process has not made anything durable yet
	BehindBytes int64 `json:"behindBytes"` // of the log that is not in the view
	BehindMs    int64 `json:"behindMs"`    // from the store time of the last record in the view to now, for a side that is filled of the first that it lacks; 0 when nothing is behind
	PassedOver  int64 `json:"passedOver"`  // records that the view could not take
	HoleBytes   int64 `json:"holeBytes"`   // of the log that are no record and were passed over
	Conflicts   int64 `json:"conflicts"`   // records whose slot another has
	Unsupported int64 `json:"unsupported"` // units of kinds that this version does not keep
	Broken      int   `json:"broken"`      // queues that are being built again
	// Differ are the queues of a side of a combined store that were built again from the log and then were not what the other side has, or whose names it cannot take. They are read from the
	// other side, and stay as they are.
	Differ int `json:"differ,omitempty"`
	// Rebuilding is there while the view is built again, from more of the log than Open waits for, or some of its queues are (Broken).
	Rebuilding *Rebuilding `json:"rebuilding,omitempty"`
	// Comparing is there on both sides of a combined store while their units are compared after a stop that was not in order, or that has still to be gone on with.
	Comparing *Comparing `json:"comparing,omitempty"`
	// SetAside is the directory with the files of a RocksDB that this process found damaged and has replaced, the last one, and Damage what was wrong with it. While it is being replaced
	// Rebuilding is there.
	SetAside string `json:"setAside,omitempty"`
	Damage   string `json:"damage,omitempty"`
	// Waiting is why RocksDB tries writes again, as while its disk is full. What was dispatched can be read; it is not durable, and is in the log.
	Waiting string `json:"waiting,omitempty"`
	Failure string `json:"failure,omitempty"` // why dispatch has stopped
}

// Watermarks returns how far everything has come. Each value was true at some moment during the call.
func (s *Store) Watermarks() Watermarks {
	p := s.log.Positions()
	m := Watermarks{MinPhyOffset: max(s.Log().MinOffset(), 0), Appended: p.Wrote, Committed: p.Committed, Flushed: p.Flushed, Confirmed: p.Confirm, StrayUnits: s.strays.count.Load(), Views: map[string]ViewMark{}}
	if v := s.views; v != nil {
		q := v.view
		mark := s.mark(v.follow)
		_, _, mark.Durable = v.queues.Progress()
		mark.Conflicts, mark.Unsupported, mark.Broken = q.conflicts.Load(), q.unsupported.Load(), int(q.brokenNow.Load())
		switch r := v.rebuild.Load(); {
		case !r.ended():
			mark.Rebuilding = &Rebuilding{From: r.from, To: r.to, Done: min(mark.Dispatched, r.to)}
		case mark.Broken > 0:
			mark.Rebuilding = q.mendMark()
		}
		if v.queues.Kind() == cq.KindRocks {
			s.replacing.tell(&mark)
			mark.Waiting = whyWaiting(v.queues)
		}
		m.Views[q.name()] = mark
		if v.sides != nil {
			v.sides.marks(m.Views, mark)
		}
		for _, x := range v.indexes(false) {
			f := x.feed()
			mark := s.mark(f.follow)
			mark.Durable = x.durableTo()
			if f.to-f.from > s.rebuildBytes && mark.Dispatched < f.to {
				mark.Rebuilding = &Rebuilding{From: f.from, To: f.to, Done: mark.Dispatched}
			}
			m.Views[x.name()] = mark
		}
	}
	return m
}

// mark tells how far a follower is.
func (s *Store) mark(f *follower) ViewMark {
	m := ViewMark{Dispatched: f.from.Load(), PassedOver: f.poison.Load(), HoleBytes: f.holes.Load()}
	if m.BehindBytes = max(s.log.Positions().Wrote-m.Dispatched, 0); m.BehindBytes > 0 {
		if _, ms := f.lastDelivered(); ms > 0 {
			m.BehindMs = max(time.Now().UnixMilli()-ms, 0)
		}
	}
	if err := f.failure(); err != nil {
		m.Failure = err.Error()
	}
	return m
}

// sinceRecord returns the time since the first record at or above phy was stored, in ms; 0 where that is not known. phy is where a record or a file begins or ends.
func (s *Store) sinceRecord(phy int64) int64 {
	log := s.Log()
	phy = max(phy, log.MinOffset(), 0)
	ms, err := log.StoreTimestamp(phy, 0)
	if err != nil { // the filler of a file
		ms, err = log.StoreTimestamp(log.FileEnd(phy), 0)
	}
	if err != nil || ms <= 0 {
		return 0
	}
	return max(time.Now().UnixMilli()-ms, 0)
}

// whyWaiting says why a store of queues tries writes again, "" where it does not.
func whyWaiting(queues cq.Store) string {
	if w, ok := queues.(interface{ Waiting() error }); ok {
		if err := w.Waiting(); err != nil {
			return err.Error()
		}
	}
	return ""
}
