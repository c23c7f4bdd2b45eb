package commitlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
)

// Damage in the middle of a log can be dealt with in two ways, and which one is for its operator to say.
//
// AcceptLoss cuts the log at the first damage:
//
//	before  | records | damage | records | next file: records |
//	after   | records | zeros                                 |   the rest, and later files, are set aside
//
// Mend keeps what lies behind it:
//
//	before  | records | damage              | records | damage to the end of the file |
//	after   | records | placeholder records | records | filler                        |
//
// A placeholder is a valid record of the transaction type ROLLBACK, to which neither RocketMQ nor this module gives a unit or an index entry: readers of the log step
// over it. Its topic is placeholderTopic, its body zeros, its store time that of the record before it.
//
// Either way what is taken out is copied first, durably, and then the log is changed. Whenever that is cut off, the log is as it was, or has the rest of the damage: repairing
// it again comes to the same end.

// placeholderTopic is reserved: RocketMQ refuses messages of clients to topics that begin like this.
const placeholderTopic = "rmq_sys_tandemmq_lost"

// maxPlaceholder bounds a placeholder in bytes: whoever reads the log may read a whole record into memory.
const maxPlaceholder = 1 << 20

// Repaired tells what a repair did.
type Repaired struct {
	Action   string      `json:"action"`
	Dir      string      `json:"setAside"` // where what was taken out is
	CutAt    int64       `json:"cutAt"`    // physical offset, -1: nothing was cut off
	Saved    []Saved     `json:"saved"`
	Given    []Sacrifice `json:"sacrificed,omitempty"` // records that had to be written over, since a placeholder did not fit
	Replaced int64       `json:"replacedBytes"`        // bytes that placeholders and fillers stand for
}

// begin begins a repair of the damage in s, with all behind it if cut is set.
func (r *Recovery) begin(action string, s *Survey, cut bool) (*aside, error) {
	if r.o.ReadOnly {
		return nil, fmt.Errorf("repair commit log: %w", mappedfile.ErrReadOnly)
	}
	if len(s.Damage) == 0 {
		return nil, errors.New("repair commit log: there is no damage")
	}
	for _, f := range r.log.queue.Files() {
		touched := cut && f.End() > s.Damage[0].From
		for i := range s.Damage {
			touched = touched || f.End() > s.Damage[i].From && f.From() < s.Damage[i].To
		}
		if touched && f.ReadOnly() {
			return nil, fmt.Errorf("repair %s: %w", f.Path(), mappedfile.ErrReadOnly)
		}
	}
	a, err := newAside(r.o.FS, r.o.SetAsideDir, action, r.log.FileSize(), time.Now())
	if err == nil {
		a.manifest.Damage = s.Damage
	}
	return a, err
}

func (a *aside) repaired(replaced int64) *Repaired {
	m := &a.manifest
	return &Repaired{Action: m.Action, Dir: a.dir, CutAt: m.CutAt, Saved: m.Saved, Given: m.Given, Replaced: replaced}
}

// AcceptLoss cuts the log at the first damage in s, which is fresh. Whole files behind it are moved aside, the last one first, so that what is left is a run of files at any
// moment; where they cannot be moved, because they are on another filesystem, they are copied. The first file stays, empty if need be: it tells where the log begins.
func (r *Recovery) AcceptLoss(ctx context.Context, s *Survey) (*Repaired, error) {
	a, err := r.begin("accept-loss", s, true)
	if err != nil {
		return nil, err
	}
	if d := &s.Damage[0]; d.LostEnd {
		replaced, err := r.goOn(ctx, a, d)
		if err == nil {
			err = a.done()
		}
		if err != nil {
			return nil, err
		}
		return a.repaired(replaced), nil
	}
	cut := s.Damage[0].From
	a.manifest.CutAt = cut
	first := r.log.queue.Files()[0]
	whole := cut // files that begin here or behind are moved
	if cut == first.From() {
		whole = first.End()
	}
	if f, ok := r.log.queue.Find(cut); ok && f.From() < whole {
		last, err := lastByte(r.log.queue, cut)
		if err == nil {
			err = a.save(r.log.queue, cut, min(last, f.End()))
		}
		if err != nil {
			return nil, err
		}
	}
	if err := a.write(); err != nil {
		return nil, err
	}
	if err := r.moveBehind(ctx, a, whole); err != nil {
		return nil, err
	}
	if whole > cut {
		err = eraseAll(r.log.queue.Files()[0])
	} else {
		err = r.log.queue.Truncate(cut)
	}
	if err != nil {
		return nil, fmt.Errorf("cut commit log at the damage: %w", err)
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	r.logger.Warn("commit log was cut at the damage; what lay behind it is set aside", slog.Int64("phyOffset", cut), slog.String("dir", a.dir))
	return a.repaired(0), nil
}

// eraseAll makes all bytes of f zeros, durably.
func eraseAll(f *mappedfile.File) error {
	h, err := f.OpenFile()
	if err != nil {
		return err
	}
	if err = h.Erase(0, f.Size()); err == nil {
		err = h.Datasync()
	}
	return errors.Join(err, h.Close())
}

// moveBehind moves the files that begin at or behind physical offset whole.
func (r *Recovery) moveBehind(ctx context.Context, a *aside, whole int64) error {
	files := r.log.queue.Files()
	for i := len(files) - 1; i >= 0 && files[i].From() >= whole; i-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		f := files[i]
		name := mappedfile.Name(f.From())
		saved := Saved{PhyOffset: f.From(), Bytes: f.Size(), From: f.Path(), As: name, Moved: true}
		if err := r.o.FS.Rename(f.Path(), filepath.Join(a.dir, name)); err != nil {
			saved.Moved = false
			if err := a.copy(f, name, 0, f.Size()); err != nil {
				return fmt.Errorf("set %s aside: %w", f.Path(), err)
			}
		}
		a.manifest.Saved = append(a.manifest.Saved, saved)
		if err := a.write(); err != nil { // with the name
			return err
		}
		if !saved.Moved {
			if err := r.o.FS.Remove(f.Path()); err != nil {
				return fmt.Errorf("set %s aside: %w", f.Path(), err)
			}
		}
		if err := r.o.FS.SyncDir(filepath.Dir(f.Path())); err != nil {
			return fmt.Errorf("set %s aside: %w", f.Path(), err)
		}
	}
	if err := r.log.Close(); err != nil { // the list of files is another now
		return err
	}
	r.o.FileSize = files[0].Size()
	return r.open()
}

// patch is what has to be written over a piece of one file.
type patch struct {
	file     *mappedfile.File
	from, to int64 // bytes of the file
	filler   bool  // up to its end
	sparse   bool  // it gets no blocks but for the filler's head
	damage   *Damage
}

// Mend writes placeholders and fillers over the damage in s, which is fresh, so that the log is whole again and loses nothing else. Where neither fits, the record
// beside it is given up too, and told: a placeholder takes 92 bytes, a filler 8.
func (r *Recovery) Mend(ctx context.Context, s *Survey) (*Repaired, error) {
	a, err := r.begin("mend", s, false)
	if err != nil {
		return nil, err
	}
	lost := s.lostEnd()
	patches, err := r.patches(a, s)
	if err != nil {
		return nil, err
	}
	for _, p := range patches {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := a.save(r.log.queue, p.file.From()+p.from, p.file.From()+p.to); err != nil {
			return nil, err
		}
	}
	if err := a.write(); err != nil {
		return nil, err
	}
	replaced := int64(0)
	for i := range patches { // whoever is in a hurry ends the process
		if err := patches[i].apply(); err != nil {
			return nil, fmt.Errorf("mend %s: %w", patches[i].file.Path(), err)
		}
		replaced += patches[i].to - patches[i].from
	}
	if lost != nil {
		n, err := r.goOn(ctx, a, lost)
		if err != nil {
			return nil, err
		}
		replaced += n
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	r.logger.Warn("damage of the commit log was mended; what stood there is set aside", slog.Int("ranges", len(s.Damage)), slog.Int64("bytes", replaced), slog.String("dir", a.dir))
	return a.repaired(replaced), nil
}

// patches cuts the damage by files.
func (r *Recovery) patches(a *aside, s *Survey) (list []patch, err error) {
	size := r.log.FileSize()
	done := int64(-1) // covered by an earlier patch, which needed more room
	for i := range s.Damage {
		d := &s.Damage[i]
		if d.LostEnd {
			break // the last one
		}
		if d.From == d.To { // a file that is full to its last byte
			p, err := r.filler(a, d, d.From-1)
			if err != nil {
				return nil, err
			}
			list = append(list, p)
			continue
		}
		for from := max(d.From, done); from < d.To; from = done {
			var p patch
			if end := from - from%size + size; d.To >= end {
				p, err = r.filler(a, d, from)
			} else {
				p, err = r.placeholders(a, s.Damage[i:], from)
			}
			if err != nil {
				return nil, err
			}
			list = append(list, p)
			done = p.file.From() + p.to
		}
	}
	return list, nil
}

func (r *Recovery) find(phy int64) (*mappedfile.File, error) {
	f, ok := r.log.queue.Find(phy)
	if !ok {
		return nil, &RangeError{PhyOffset: phy, Min: r.log.queue.MinOffset(), Max: r.log.queue.EndOffset()}
	}
	return f, nil
}

// filler covers a file from physical offset from on. Where that is too little, the record before makes room.
func (r *Recovery) filler(a *aside, d *Damage, from int64) (patch, error) {
	f, err := r.find(from)
	if err != nil {
		return patch{}, err
	}
	p := patch{file: f, from: from - f.From(), to: f.Size(), filler: true, damage: d}
	if p.to-p.from >= message.BlankHeaderSize && d.From < d.To {
		return p, nil
	}
	if d.before < f.From() {
		return p, fmt.Errorf("mend %s: %d bytes at its end are too few for a filler", f.Path(), p.to-p.from)
	}
	p.from = d.before - f.From()
	_, err = r.sacrifice(a, f, p.from)
	return p, err
}

// placeholders covers the damage at the beginning of list, from physical offset from on, which ends in the same file. Where that is too little, records
// behind it make room.
func (r *Recovery) placeholders(a *aside, list []Damage, from int64) (patch, error) {
	d := &list[0]
	f, err := r.find(from)
	if err != nil {
		return patch{}, err
	}
	p := patch{file: f, from: from - f.From(), to: d.To - f.From(), damage: d}
	for p.to-p.from < d.minPlaceholder() {
		if len(list) > 1 && f.From()+p.to == list[1].From && !list[1].LostEnd {
			list = list[1:]
			p.to = min(list[0].To-f.From(), f.Size())
		} else {
			n, err := r.sacrifice(a, f, p.to)
			if err != nil {
				return p, err
			}
			p.to += n
			if n == 0 { // a filler, or the end of the log
				p.to = f.Size()
			}
		}
		if p.to == f.Size() {
			p.filler = true
			break
		}
	}
	return p, nil
}

// sacrifice notes the record at byte pos of f, and returns its length; 0 where no record stands.
func (r *Recovery) sacrifice(a *aside, f *mappedfile.File, pos int64) (int64, error) {
	var rec message.Record
	release, err := r.log.Read(f.From()+pos, 0, false, &rec)
	if errors.Is(err, ErrCorrupt) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer release()
	g := Sacrifice{PhyOffset: rec.PhyOffset, Bytes: int64(rec.TotalSize), Topic: string(rec.Topic), QueueID: rec.QueueID, QueueOffset: rec.QueueOffset}
	a.manifest.Given = append(a.manifest.Given, g)
	r.logger.Warn("a record has to be given up, to make room for a placeholder", slog.Int64("phyOffset", g.PhyOffset), slog.String("topic", g.Topic),
		slog.Int("queueId", int(g.QueueID)), slog.Int64("queueOffset", g.QueueOffset))
	return g.Bytes, nil
}

// minPlaceholder returns the bytes of the smallest placeholder: its topic has one.
func (d *Damage) minPlaceholder() int64 {
	n := int64(message.MinRecordSize + 1)
	if d.crc {
		n += int64(message.PropertyCRCSize)
	}
	return n
}

// apply writes the patch, durably.
func (p *patch) apply() (err error) {
	h, err := p.file.OpenFile()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if p.filler {
		if err := h.Erase(p.from, p.to-p.from); err != nil {
			return err
		}
		if !p.sparse {
			if err := h.Preallocate(p.from, p.to-p.from); err != nil && !errors.Is(err, errors.ErrUnsupported) {
				return err
			}
		}
		if _, err := h.WriteAt(message.AppendBlank(nil, int32(p.to-p.from)), p.from); err != nil {
			return err
		}
		return h.Datasync()
	}
	var buf []byte
	for at := p.from; at < p.to; at += int64(len(buf)) {
		n := min(p.to-at, maxPlaceholder)
		if rest := p.to - at - n; rest > 0 && rest < p.damage.minPlaceholder() {
			n -= p.damage.minPlaceholder()
		}
		m := p.damage.placeholder(p.file.From()+at, n)
		if buf, err = m.AppendTo(buf[:0]); err != nil {
			return err
		}
		if _, err := h.WriteAt(buf, at); err != nil {
			return err
		}
	}
	return h.Datasync()
}

// placeholder returns a record of size bytes that owes no unit. One too small for all of its topic has the beginning of it.
func (d *Damage) placeholder(phy, size int64) message.Message {
	host := message.Host{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	spare := size - d.minPlaceholder() + 1
	topic := placeholderTopic[:min(spare, int64(len(placeholderTopic)))]
	return message.Message{
		Topic: topic, PhyOffset: phy, SysFlag: message.TransactionRollback, BornTimestampMs: d.storeMs, StoreTimestampMs: d.storeMs,
		BornHost: host, StoreHost: host, Body: make([]byte, spare-int64(len(topic))), PropertyCRC: d.crc,
	}
}
