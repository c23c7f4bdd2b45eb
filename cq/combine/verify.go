package combine

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/cq"
)

// Level is how much Verify compares.
type Level int

// The levels of Verify.
const (
	Counts Level = iota // max, min, and the positions of the first and the last record
	Units               // that, and every unit that both sides have
)

// Verdict is what Verify found. Of pairs, the first belongs to Kinds[0].
type Verdict struct {
	Key     cq.Key
	Kinds   [2]cq.Kind
	Present [2]bool
	Bounds  [2]cq.Bounds
	// From and To bound the slots of which the units were compared, To exclusive: those that both sides have, begun at the later min.
	From, To int64
	// Compared is how many slots have a unit on both sides and were compared; Different of them differ. Missing is how many have one on a single side.
	Compared, Different, Missing int64
	// Alone tells that the queue is a light one that RocksDB has alone: nothing was compared.
	Alone bool
	// Differences are the first ones found, those of the bounds before those of units: at most MaxDifferences.
	Differences []Difference
}

// MaxDifferences bounds the list in a Verdict.
const MaxDifferences = 64

// Difference is one thing that the sides differ in.
type Difference struct {
	What        string     // "presence", "max", "min", "min phy", "last phy", "unit" or "missing unit"
	QueueOffset int64      // the slot; -1 for what is not about a slot
	Values      [2]int64   // of bounds, where it is about bounds
	Units       [2]cq.Unit // of the slot; zero where a side has none
	Where       [2]string  // file and byte, or row
}

func (d Difference) String() string {
	switch d.What {
	case "unit", "missing unit":
		return fmt.Sprintf("%s at slot %d: %+v at %s, %+v at %s", d.What, d.QueueOffset, d.Units[0], d.Where[0], d.Units[1], d.Where[1])
	}
	return fmt.Sprintf("%s: %d and %d", d.What, d.Values[0], d.Values[1])
}

// OK tells that no difference was found.
func (v *Verdict) OK() bool { return len(v.Differences) == 0 }

func (v *Verdict) add(d Difference) {
	if len(v.Differences) < MaxDifferences {
		v.Differences = append(v.Differences, d)
	}
}

// verifyUnits is how many units are held of each side.
const verifyUnits = 512

// Verify compares both sides of one queue and writes nothing, whether they are held or diverged. The bounds are read while nothing is appended, after what was
// accepted has become readable; the units, up to what was there then, while Append goes on. Times are not compared, as files have none. What expires
// meanwhile is passed over.
//
// A slot that holds an impossible unit counts as one without a unit.
//
// The error is that of a side that cannot be read, or of ctx; the Verdict then holds what was found before.
func (s *Store) Verify(ctx context.Context, k cq.Key, level Level) (Verdict, error) {
	return s.VerifyPaced(ctx, k, level, ctx.Err)
}

// VerifyPaced is Verify for who has time: pace is called before the first units are compared and then after every few hundred of each side, without a lock held; an error
// of it ends the comparison and is returned.
func (s *Store) VerifyPaced(ctx context.Context, k cq.Key, level Level, pace func() error) (Verdict, error) {
	return s.VerifyWith(ctx, k, VerifyOptions{Level: level, Pace: pace})
}

// VerifyOptions are those of VerifyWith.
type VerifyOptions struct {
	Level Level
	// From is the first slot whose units are compared; lower ones were before.
	From int64
	// Pace is that of VerifyPaced.
	Pace func() error
	// Each is told of each slot whose units were compared and are the same, in ascending order; nil: nobody. The first unit is that of Verdict.Kinds[0]. An error of it ends the comparison and
	// is returned.
	Each func(slot int64, units [2]cq.Unit) error
	// Differs is told of each slot that differs, in ascending order, also of those beyond MaxDifferences; nil: nobody. It has no Where.
	Differs func(d *Difference)
}

// VerifyWith is Verify with further options.
func (s *Store) VerifyWith(ctx context.Context, k cq.Key, o VerifyOptions) (Verdict, error) {
	v := Verdict{Key: k, Kinds: [2]cq.Kind{s.sides[0].kind, s.sides[1].kind}}
	if v.Alone = s.alone(k) != nil; v.Alone {
		return v, nil
	}
	queues, err := s.verifyBounds(ctx, &v)
	if err != nil || o.Level == Counts || !v.Present[0] || !v.Present[1] {
		return v, err
	}
	v.From = min(max(v.From, o.From), v.To)
	return v, verifyRange(&v, queues, &o)
}

func (s *Store) verifyBounds(ctx context.Context, v *Verdict) (queues [2]cq.Queue, err error) {
	s.write.Lock()
	defer s.write.Unlock()
	if s.closed.Load() {
		return queues, cq.ErrClosed
	}
	if err := s.awaitReadable(ctx, s.sides[:]...); err != nil {
		return queues, err
	}
	for try := 0; ; try++ {
		for i, d := range s.sides {
			if queues[i], v.Present[i] = d.Queue(v.Key); !v.Present[i] {
				continue
			}
			if v.Bounds[i], err = queues[i].Bounds(); err != nil {
				return queues, fmt.Errorf("verify queue %s, %s side: %w", v.Key, d.kind, err)
			}
		}
		if v.Bounds[0].Min == v.Bounds[1].Min || try == maxRetries {
			break // otherwise records may have expired between the two
		}
	}
	if v.Present[0] != v.Present[1] {
		d := Difference{What: "presence", QueueOffset: -1}
		for i, p := range v.Present {
			if p {
				d.Values[i] = 1
			}
		}
		v.add(d)
		return queues, nil
	}
	a, b := v.Bounds[0], v.Bounds[1]
	v.From, v.To = max(a.Min, b.Min), min(a.Max, b.Max)
	v.To = max(v.From, v.To)
	for _, c := range []struct {
		what string
		a, b int64
	}{{"max", a.Max, b.Max}, {"min", a.Min, b.Min}, {"min phy", a.MinPhyOffset, b.MinPhyOffset}, {"last phy", lastOf(a), lastOf(b)}} {
		if c.a != c.b {
			v.add(Difference{What: c.what, QueueOffset: -1, Values: [2]int64{c.a, c.b}})
		}
	}
	return queues, nil
}

// lastOf returns the last record's position where there is one that has not expired: an expired one may be stored on one side and not on the other.
func lastOf(b cq.Bounds) int64 {
	if b.Empty() {
		return -1
	}
	return b.LastPhyOffset
}

// stream reads a queue slot by slot.
type stream struct {
	q     cq.Queue
	buf   [verifyUnits]cq.Unit
	from  int64 // slot of buf[0]
	count int64 // units in buf
}

// unit returns the unit of a slot; false where there is none. Slots are asked for in ascending order.
func (r *stream) unit(slot, end int64) (cq.Unit, bool, error) {
	if slot >= r.from+r.count {
		n, err := r.q.Read(slot, r.buf[:min(verifyUnits, end-slot)])
		switch {
		case errors.Is(err, cq.ErrCorrupt): // of this slot: those before it are read without it
			n = 0
		case err != nil:
			return cq.Unit{}, false, err
		}
		r.from, r.count = slot, int64(n)
		if n == 0 {
			return cq.Unit{}, false, nil
		}
	}
	return r.buf[slot-r.from], true, nil
}

func verifyRange(v *Verdict, queues [2]cq.Queue, o *VerifyOptions) error {
	sides := [2]stream{{q: queues[0]}, {q: queues[1]}}
	for slot := v.From; slot < v.To; slot++ {
		if (slot-v.From)%verifyUnits == 0 {
			if err := o.Pace(); err != nil {
				return err
			}
		}
		d := Difference{What: "missing unit", QueueOffset: slot}
		var has [2]bool
		for i := range sides {
			var err error
			if d.Units[i], has[i], err = sides[i].unit(slot, v.To); err != nil {
				return fmt.Errorf("verify queue %s at slot %d, %s side: %w", v.Key, slot, v.Kinds[i], err)
			}
		}
		switch {
		case has[0] && has[1]:
			v.Compared++
			if d.Units[0].SameRecord(d.Units[1]) {
				if o.Each != nil {
					if err := o.Each(slot, d.Units); err != nil {
						return err
					}
				}
				continue
			}
			v.Different++
			d.What = "unit"
		case !has[0] && !has[1]:
			continue
		default:
			b, err := queues[0].Bounds()
			if err != nil {
				return fmt.Errorf("verify queue %s, %s side: %w", v.Key, v.Kinds[0], err)
			}
			if b.Min > slot { // expired meanwhile
				slot = min(b.Min, v.To) - 1
				continue
			}
			v.Missing++
		}
		if o.Differs != nil {
			o.Differs(&d)
		}
		if len(v.Differences) == MaxDifferences {
			continue
		}
		d.Where = [2]string{queues[0].Where(slot), queues[1].Where(slot)}
		v.add(d)
	}
	return nil
}
