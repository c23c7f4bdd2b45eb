package store

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// logPart is what a worker found in one file of the log.
type logPart struct {
	records, bytes, damaged int64
	// end is the physical offset behind the last record or filler, -1 where there is none.
	end         int64
	torn        bool // the log ends there, in bytes that are no record
	lastStoreMs int64
}

// readLog reads the log, all of it or its last file, and learns where it ends.
func (c *checker) readLog() error {
	size, first := c.log.FileSize(), c.log.MinOffset()
	c.rep.LogEndKind = commitlog.EndClean.String()
	if first < 0 {
		c.end = 0
		return nil
	}
	from := 0
	if !c.o.Deep {
		var err error
		if from, err = c.beginnings(); err != nil {
			return err
		}
	}
	c.readFrom = first + int64(from)*size
	parts := make([]logPart, (c.log.Size()+size-1)/size)
	add := c.phase("log", int64(len(parts)-from)*size, "bytes")
	err := c.parallel(len(parts)-from, func() (func(int) error, func()) {
		w := &logReader{c: c, windows: newUnitWindows(c.windowUnits, len(c.queues), len(c.rep.Sides)), progress: add, units: queueReader{c: c}}
		return func(i int) error { return w.file(first+int64(from+i)*size, &parts[from+i]) }, w.windows.handOverAll
	})
	if err != nil {
		return err
	}
	c.end = first
	kind := commitlog.EndClean
	for i := range parts {
		p := &parts[i]
		c.rep.Records, c.rep.LogBytes, c.rep.Damaged = c.rep.Records+p.records, c.rep.LogBytes+p.bytes, c.rep.Damaged+p.damaged
		if p.end >= 0 {
			c.end = p.end
		}
		if p.records > 0 {
			c.lastStoreMs = p.lastStoreMs
		}
		if p.torn {
			kind = commitlog.EndTorn
		}
	}
	c.rep.LogEnd, c.rep.LogEndKind = c.end, kind.String()
	return nil
}

// lostEnd reports a log that ends below a position up to which it was durable: no crash does that.
func (c *checker) lostEnd() error {
	s := newStore(DefaultOptions())
	s.layout, s.abort.found = c.layout, c.rep.Unclean
	promised, by := s.promisedTo()
	past, err := c.log.PastFiller(c.end)
	if err != nil || past >= promised {
		return err
	}
	f := c.logPlace(placeFinding(CheckError, CheckLogDamage, checkSideLog, "", ""), c.end)
	f.EndPhyOffset = promised
	f.Got, f.Want = fmt.Sprintf("physical offset %d", c.end), fmt.Sprintf("physical offset %d", promised)
	f.Text = fmt.Sprintf("the log ends at physical offset %d, and was durable up to %d (%s): its end is lost, %d bytes", c.end, promised, by, promised-c.end)
	c.found.add(f)
	return nil
}

// lostToFiller tells whether phy lies in a filler, which a repair has written over records that were lost.
func (c *checker) lostToFiller(phy int64) bool {
	size := c.log.FileSize()
	if size == 0 {
		return false
	}
	from := max(phy-phy%size, c.log.MinOffset())
	c.fillers.Lock()
	defer c.fillers.Unlock()
	begins, known := c.fillers.begin[from]
	if !known {
		begins = from
		s := c.log.Scanner(from, commitlog.ScanOptions{To: from + size, NoReadahead: true})
		for s.Next() {
			begins = s.Record().PhyOffset + int64(s.Record().TotalSize)
		}
		s.Close()
		if past, err := c.log.PastFiller(begins); err != nil || past == begins {
			begins = from + size
		}
		if c.fillers.begin == nil {
			c.fillers.begin = make(map[int64]int64)
		}
		c.fillers.begin[from] = begins
	}
	return phy >= begins
}

// logPlace fills in the file and byte of a physical offset.
func (c *checker) logPlace(f *CheckFinding, phy int64) *CheckFinding {
	size := c.log.FileSize()
	f.PhyOffset, f.FileOffset = phy, phy%size
	f.File = filepath.Join(c.log.Dir(), mappedfile.Name(phy-phy%size))
	return f
}

// beginnings looks at the first record of each file and returns the index of the last file that begins with one. Those behind
// it are the tail, which is read anyway.
func (c *checker) beginnings() (last int, err error) {
	size, first := c.log.FileSize(), c.log.MinOffset()
	var bad []*CheckFinding
	told := 0
	var r message.Record
	for i := range int(c.log.Size() / size) {
		if err := c.ctx.Err(); err != nil {
			return 0, err
		}
		from := first + int64(i)*size
		release, err := c.log.Read(from, 0, true, &r)
		switch {
		case err == nil:
			release()
			last, told = i, len(bad)
		case errors.Is(err, message.ErrBlank):
			last, told = i, len(bad)
		case errors.Is(err, commitlog.ErrCorrupt):
			bad = append(bad, c.damage(from, -1, err))
		default:
			return 0, err
		}
	}
	for _, f := range bad[:told] {
		c.found.add(f)
	}
	return last, nil
}

// damage is the finding of bytes that are no record, up to physical offset to, -1 when that is not known.
func (c *checker) damage(phy, to int64, reason error) *CheckFinding {
	f := c.logPlace(placeFinding(CheckError, CheckLogDamage, checkSideLog, "", ""), phy)
	f.EndPhyOffset = to
	f.Got, f.Want = gotWant(reason)
	switch {
	case to < 0:
		f.Text = fmt.Sprintf("no record at physical offset %d, where its file begins: %s", phy, reasonText(reason))
	default:
		f.Text = fmt.Sprintf("no record at physical offset %d; the %d bytes up to %d are damaged: %s", phy, to-phy, to, reasonText(reason))
	}
	return f
}

// reasonText tells why bytes are no record, without the place.
func reasonText(err error) string {
	var c *commitlog.CorruptError
	switch {
	case !errors.As(err, &c):
		return fmt.Sprint(err)
	case c.Err != nil:
		return c.Err.Error()
	default:
		return fmt.Sprintf("got %s, want %s", c.Got, c.Want)
	}
}

func gotWant(err error) (got, want string) {
	var d *message.DecodeError
	var c *commitlog.CorruptError
	switch {
	case errors.As(err, &d):
		return fmt.Sprintf("%s %d", d.Field, d.Got), fmt.Sprintf("%s %d", d.Field, d.Want)
	case errors.As(err, &c):
		return c.Got, c.Want
	}
	return "", ""
}

// logReader is one worker that reads files of the log.
type logReader struct {
	c        *checker
	windows  *unitWindows
	progress func(n int64)
	units    queueReader // of units that are not as the record at hand says
}

// file reads one file from its beginning to its end, over all damage in it.
func (w *logReader) file(from int64, p *logPart) error {
	p.end = -1
	to := from + w.c.log.FileSize()
	told := from
	// Records are read out of mapped memory all the way, so one guard stands round all of it.
	err := mmap.GuardFault(func() error {
		for at := from; at >= 0; {
			var err error
			if at, err = w.run(at, to, p, &told); err != nil {
				return err
			}
		}
		return nil
	})
	w.progress(to - told)
	return err
}

// progressBytes is how much log is read between two words to whoever waits, and two looks at the context.
const progressBytes = 1 << 20

// run reads records from at on to the end of the file, to, or the first damage. next is where to go on behind it, -1 when
// the file is done.
func (w *logReader) run(at, to int64, p *logPart, told *int64) (next int64, err error) {
	s := w.c.log.Scanner(at, commitlog.ScanOptions{CheckCRC: true, To: to})
	defer s.Close()
	for s.Next() {
		r := s.Record()
		p.records, p.bytes, p.end, p.lastStoreMs = p.records+1, p.bytes+int64(r.TotalSize), r.PhyOffset+int64(r.TotalSize), r.StoreTimestampMs
		if err := w.record(r); err != nil {
			return -1, err
		}
		if p.end-*told >= progressBytes {
			w.progress(p.end - *told)
			*told = p.end
			if err := w.c.ctx.Err(); err != nil {
				return -1, err
			}
		}
	}
	end, err := s.End(), s.Err()
	switch end.Kind {
	case commitlog.EndNone:
		return -1, err
	case commitlog.EndClean:
		if end.Offset > at || p.records > 0 {
			p.end = end.Offset
		}
		return -1, nil
	case commitlog.EndTorn:
		p.torn = true
		f := w.c.damage(end.Offset, to, end.Reason)
		f.Code, f.Severity = CheckTornTail, w.c.suspended()
		f.Text = fmt.Sprintf("the log ends here in bytes that are no record, and none follows: %s", reasonText(end.Reason))
		w.c.found.add(f)
		return -1, nil
	}
	next = end.NextValid
	damagedTo := next
	if next < 0 || next >= to {
		next, damagedTo = -1, to
	}
	p.damaged += damagedTo - end.Offset
	w.c.found.add(w.c.damage(end.Offset, damagedTo, end.Reason))
	return next, nil
}

var (
	multiDispatch    = []byte(message.PropertyMultiDispatch)
	propertyCRCStart = []byte(message.PropertyCRC + "\x01")
)

// hasPropertyCRC tells whether a record has a checksum in its properties.
func hasPropertyCRC(r *message.Record) bool {
	n := len(r.Properties) - message.PropertyCRCSize
	return n >= 0 && bytes.HasPrefix(r.Properties[n:], propertyCRCStart)
}

// record checks one whole record and looks it up in its queues.
func (w *logReader) record(r *message.Record) error {
	if hasPropertyCRC(r) {
		if err := r.VerifyPropertyCRC(); err != nil {
			f := w.c.logPlace(queueFinding(CheckPropertyCRC, checkSideLog, cq.Key{Topic: string(r.Topic), QueueID: r.QueueID}, r.QueueOffset), r.PhyOffset)
			f.EndPhyOffset = r.PhyOffset + int64(r.TotalSize)
			f.Got, f.Want = gotWant(err)
			f.Text = fmt.Sprintf("the record at %d, slot %d, does not fit the checksum in its properties", r.PhyOffset, r.QueueOffset)
			w.c.found.add(f)
		}
	}
	if !r.OwesUnit() || len(w.c.rep.Sides)+len(w.c.rep.LostSides) == 0 || len(w.c.batch) > 0 && w.c.batch[string(r.Topic)] {
		return nil
	}
	if err := w.meet(r.Topic, r.QueueID, r.QueueOffset, r); err != nil {
		return err
	}
	if !bytes.Contains(r.Properties, multiDispatch) {
		return nil
	}
	var err error
	r.MultiDispatch(func(queue []byte, id int32, slot int64, ok bool) bool {
		if ok {
			err = w.meet(queue, id, slot, r)
		}
		return err == nil
	})
	return err
}
