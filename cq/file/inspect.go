package file

import (
	"context"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// FileInfo tells what one file of a queue holds.
type FileInfo struct {
	Path      string `json:"path"`
	FirstSlot int64  `json:"firstSlot"`
	Slots     int64  `json:"slots"`
	// Units, PreBlank (which counts all filler), Holes and Free add up to Slots. Holes are slots below the queue's max that have neither unit nor filler, Free those above it.
	Units    int64 `json:"units"`
	PreBlank int64 `json:"preBlank"`
	Holes    int64 `json:"holes"`
	Free     int64 `json:"free"`
	// FirstUnit and LastUnit are the slots of the first and the last unit; -1 when there is none. FirstHole likewise.
	FirstUnit int64 `json:"firstUnit"`
	LastUnit  int64 `json:"lastUnit"`
	FirstHole int64 `json:"firstHole"`
}

// Files reads every slot of a queue and tells what its files hold, damaged or not; none for an unknown queue.
func (s *Store) Files(ctx context.Context, k cq.Key) (list []FileInfo, err error) {
	q, ok := s.find(k)
	if !ok {
		return nil, nil
	}
	err = q.probe(func(p *prober) error {
		for _, f := range p.files {
			list = append(list, FileInfo{Path: f.Path(), FirstSlot: f.From() / unitBytes, Slots: p.perFile, FirstUnit: -1, LastUnit: -1, FirstHole: -1})
		}
		return p.walk(p.first, func(slot int64, u cq.Unit) error {
			if slot%(1<<16) == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			list[(slot-p.first)/p.perFile].count(slot, u, q.state.max)
			return nil
		})
	})
	return list, err
}

func (i *FileInfo) count(slot int64, u cq.Unit, end int64) {
	switch {
	case slot >= end && free(u):
		i.Free++
	case !valid(u) || slot >= end:
		i.Holes++
		if i.FirstHole < 0 {
			i.FirstHole = slot
		}
	case filler(u):
		i.PreBlank++
	default:
		i.Units++
		if i.FirstUnit < 0 {
			i.FirstUnit = slot
		}
		i.LastUnit = slot
	}
}

// StoredUnit returns the 20 bytes of a slot, decoded and not judged; ok is false for a slot that no file has.
func (s *Store) StoredUnit(k cq.Key, slot int64) (u cq.Unit, ok bool, err error) {
	q, found := s.find(k)
	if !found {
		return u, false, nil
	}
	err = q.probe(func(p *prober) error {
		if ok = slot >= p.first && slot < p.first+int64(len(p.files))*p.perFile; !ok {
			return nil
		}
		u, err = p.unit(slot)
		return err
	})
	return u, ok && err == nil, err
}

// probe calls fn with a prober of the files of a queue, which may be damaged; not at all when there is no file.
func (q *queue) probe(fn func(p *prober) error) error {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if err := q.openedRLocked(); err != nil {
		return err
	}
	if q.files == nil || len(q.files.Files()) == 0 {
		return nil
	}
	p := newProber(q.files.Files())
	defer p.close()
	return fn(p)
}

// UnitFields returns the fields of a unit as they stand in a file.
func UnitFields(u cq.Unit) []message.Field {
	what := "a unit"
	switch {
	case u.IsPreBlank():
		what = "pre-blank: filler below the first unit"
	case u.IsLost():
		what = "lost: keeps the slot of a record that the log has lost"
	case isSynthetic(u) && valid(u):
		what = "synthetic: keeps the max of a queue without records"
	case free(u):
		what = "free: nothing was written here"
	case !valid(u):
		what = "damage: no unit has this"
	}
	return []message.Field{
		{Name: "phy", Offset: phyAt, Width: 8, Value: u.PhyOffset},
		{Name: "size", Offset: sizeAt, Width: 4, Value: u.Size, Text: what},
		{Name: "tagsCode", Offset: tagsAt, Width: 8, Value: u.TagsCode},
	}
}
