package commitlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// RecoveryOptions of OpenRecovery.
type RecoveryOptions struct {
	// FS is where the log lives. nil: mmap.OS.
	FS mmap.FS
	// Dir, MoreDirs and ReadOnlyDirs hold the log's files, see WriterOptions.
	Dir          string
	MoreDirs     []string
	ReadOnlyDirs []string
	// FileSize is the length of each file in bytes. 0: that of the files.
	FileSize int64
	// DurableTo is the physical offset below which the log is known to be whole, see WriterOptions: reading begins with the file that holds it, or with the last
	// one that begins with a record, if that is earlier.
	DurableTo int64
	// DurableBeforeMs stands in for it, see WriterOptions.
	DurableBeforeMs int64
	// PromisedTo is a physical offset up to which the log was durable, see WriterOptions. 0: not known.
	PromisedTo int64
	// SetAsideDir is where bytes go before they are cut off or written over: a directory for each repair, made when it is needed.
	SetAsideDir string
	// ReadOnly refuses repairs.
	ReadOnly bool
	// Progress is told how many bytes have been read of those there are. nil: nobody.
	Progress func(done, total int64)
	// Logger gets what the parts report. nil: discard.
	Logger *slog.Logger
}

// Recovery is a log that nobody writes to, open to be looked through and repaired. The caller has made sure of the former. One goroutine uses it.
type Recovery struct {
	o      RecoveryOptions
	log    *Log
	logger *slog.Logger
}

// OpenRecovery opens the log. Errors are those of Open.
func OpenRecovery(o RecoveryOptions) (*Recovery, error) {
	if o.FS == nil {
		o.FS = mmap.OS
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Recovery{o: o, logger: o.Logger}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Recovery) open() error {
	q, err := mappedfile.Open(r.o.Dir, mappedfile.Options{
		FS: r.o.FS, MoreDirs: r.o.MoreDirs, ReadOnlyDirs: r.o.ReadOnlyDirs, Writable: !r.o.ReadOnly, FileSize: r.o.FileSize, Readahead: true, Logger: r.logger,
	})
	if err != nil {
		return fmt.Errorf("open commit log: %w", err)
	}
	r.log = &Log{queue: q, probeBytes: math.MaxInt64} // a repair has to know
	return nil
}

// Log returns the log for reading, until the next repair.
func (r *Recovery) Log() *Log { return r.log }

// Close closes the log.
func (r *Recovery) Close() error { return r.log.Close() }

// Damage is a range of the log that is no record, with valid records behind it.
type Damage struct {
	From int64 `json:"phyOffset"` // where a record or a filler should begin
	To   int64 `json:"nextValid"` // where the next valid record begins
	// File and FileOffset are the same place as From. The range may go on in the files behind it.
	File       string `json:"file"`
	FileOffset int64  `json:"fileOffset"`
	Reason     string `json:"reason"`
	// LostPage tells that at least one whole page of 4 KiB in it, or what is left of the page it begins in (8 bytes or more), is zeros: what a loss of power leaves
	// of pages that were not on the disk, or not as they were last.
	LostPage bool `json:"lostPage"`
	// LostEnd tells that it is no range in the middle: the log ends at From, and was durable up to To.
	LostEnd bool `json:"lostEnd,omitempty"`

	before  int64 // where the record before it begins, -1: none was read
	storeMs int64 // store time of the record before it, or of the one behind it
	crc     bool  // the record before it, or the one behind it, has a checksum of its properties
}

// Bytes returns the length of the range.
func (d *Damage) Bytes() int64 { return d.To - d.From }

func (d *Damage) String() string {
	if d.LostEnd {
		return fmt.Sprintf("%s+%d: %d bytes are lost (physical offsets %d to %d): %s", d.File, d.FileOffset, d.Bytes(), d.From, d.To, d.Reason)
	}
	return fmt.Sprintf("%s+%d: %d bytes are no record (physical offset %d, next valid record at physical offset %d): %s", d.File, d.FileOffset, d.Bytes(), d.From, d.To, d.Reason)
}

// Survey is what a log was found to be.
type Survey struct {
	From    int64 `json:"from"` // where reading began; damage below is not known of
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"` // that the records fill
	// End is the physical offset behind the last valid record, and Kind how the log ends there: EndCorrupt is not among the answers, see Damage.
	End      int64   `json:"end"`
	Kind     EndKind `json:"-"`
	KindText string  `json:"kind"`
	// Tail is what stands at a torn end: what is wrong with it, and how long it is to the last byte that is not zero.
	Tail      string `json:"tail,omitempty"`
	TailBytes int64  `json:"tailBytes"`

	Damage []Damage `json:"damage"`
}

// Damaged returns how many bytes are in damaged ranges.
func (s *Survey) Damaged() (n int64) {
	for i := range s.Damage {
		n += s.Damage[i].Bytes()
	}
	return n
}

// lostEnd returns the damage that is a lost end, nil without one. It is the last in the list.
func (s *Survey) lostEnd() *Damage {
	if n := len(s.Damage); n > 0 && s.Damage[n-1].LostEnd {
		return &s.Damage[n-1]
	}
	return nil
}

// LostEnd tells whether the log has lost its end, and how many bytes.
func (s *Survey) LostEnd() (bytes int64, lost bool) {
	if d := s.lostEnd(); d != nil {
		return d.Bytes(), true
	}
	return 0, false
}

// surveyStep is how many records are read between two words to whoever waits, and two looks at the context.
const surveyStep = 1 << 12

// Survey reads the log from where it is not known to be whole to its end, with checksums, and lists all damage: behind each range it goes on with the next valid
// record. It changes nothing.
//
// Errors: the log could not be read; ctx.
func (r *Recovery) Survey(ctx context.Context) (*Survey, error) {
	durableTo, err := r.log.durableTo(r.o.DurableTo, r.o.DurableBeforeMs)
	if err != nil {
		return nil, err
	}
	s, err := r.log.endScanner(durableTo, ScanOptions{CheckCRC: true})
	if err != nil {
		return nil, err
	}
	defer func() { s.Close() }()
	out := &Survey{From: max(r.log.MinOffset(), 0), Damage: []Damage{}}
	if s.file != nil {
		out.From = s.file.From()
	}
	total := max(r.log.queue.EndOffset()-out.From, 0)
	told := func(phy int64) { r.progress(phy-out.From, total) }
	skipped := s.skipWhole(ctx, pieceBytes, told)
	out.Records, out.Bytes = skipped.records, skipped.bytes
	before, ms, crc := int64(-1), int64(0), false
	for {
		for s.Next() {
			rec := s.Record()
			before, ms, crc = rec.PhyOffset, rec.StoreTimestampMs, hasPropertyCRC(rec)
			if n := len(out.Damage); n > 0 && out.Damage[n-1].storeMs == 0 { // damage at the very beginning
				out.Damage[n-1].storeMs, out.Damage[n-1].crc = ms, crc
			}
			out.Records++
			out.Bytes += int64(rec.TotalSize)
			if out.Records%surveyStep == 0 {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				told(before)
			}
		}
		end := s.End()
		switch {
		case end.Kind == EndNone:
			return nil, s.Err()
		case end.Kind != EndCorrupt:
			out.End, out.Kind, out.KindText = end.Offset, end.Kind, end.Kind.String()
			if end.Kind == EndTorn {
				out.Tail = reasonOf(end.Reason)
				if out.TailBytes, err = r.tailBytes(end.Offset); err != nil {
					return nil, err
				}
			}
			r.progress(total, total)
			lost, err := r.log.lostEnd(end, r.o.PromisedTo)
			if lost != nil {
				out.Damage = append(out.Damage, lost.damage(before, ms))
			}
			return out, err
		case end.NextValid < 0:
			return nil, s.Err() // no bound was set, so this cannot be
		}
		d := Damage{
			From: end.Offset, To: end.NextValid, File: end.File, FileOffset: end.FileOffset, Reason: reasonOf(end.Reason),
			before: before, storeMs: ms, crc: crc,
		}
		if err := r.look(&d); err != nil {
			return nil, err
		}
		out.Damage = append(out.Damage, d)
		s.Close()
		s = r.log.Scanner(end.NextValid, ScanOptions{CheckCRC: true})
	}
}

func (r *Recovery) progress(done, total int64) {
	if r.o.Progress != nil {
		r.o.Progress(done, total)
	}
}

// reasonOf tells what is wrong, without the place.
func reasonOf(err error) string {
	var c *CorruptError
	if errors.As(err, &c) {
		return c.what()
	}
	return fmt.Sprint(err)
}

var propertyCRCPrefix = []byte(message.PropertyCRC + "\x01")

// hasPropertyCRC tells whether the record ends with a checksum of all of it.
func hasPropertyCRC(r *message.Record) bool {
	n := len(r.Properties) - message.PropertyCRCSize
	return n >= 0 && bytes.HasPrefix(r.Properties[n:], propertyCRCPrefix)
}

// look finds out whether a range lost pages. The next valid record begins at its end, so a page that reaches beyond was not lost.
func (r *Recovery) look(d *Damage) error {
	return r.pieces(d.From, d.To, func(f *mappedfile.File, data []byte, from, to int64) error {
		for at := from; at < to && !d.LostPage; {
			end := min(at-at%pageBytes+pageBytes, int64(len(data)))
			if end > to {
				break
			}
			d.LostPage = end-at >= message.BlankHeaderSize && leadingZeros(data[at:end]) == end-at
			at = end
		}
		return nil
	})
}

// pieces calls fn with each file's part of [from, to), physical offsets; the part is [a, b) of the file.
func (r *Recovery) pieces(from, to int64, fn func(f *mappedfile.File, data []byte, a, b int64) error) error {
	for from < to {
		f, ok := r.log.queue.Find(from)
		if !ok {
			return &RangeError{PhyOffset: from, Min: r.log.queue.MinOffset(), Max: r.log.queue.EndOffset()}
		}
		data, err := f.Hold()
		if err != nil {
			return err
		}
		end := min(to, f.End())
		err = mmap.GuardFault(func() error { return fn(f, data, from-f.From(), end-f.From()) })
		f.Release()
		if err != nil {
			return fmt.Errorf("read %s: %w", f.Path(), err)
		}
		from = end
	}
	return nil
}

// tailBytes returns how many bytes stand at and behind physical offset from, up to the last one that is not zero.
func (r *Recovery) tailBytes(from int64) (n int64, err error) {
	end, err := lastByte(r.log.queue, from)
	return max(end-from, 0), err
}

// lastByte returns the physical offset behind the last byte at or above from that is not zero; from when all are.
func lastByte(q *mappedfile.Queue, from int64) (int64, error) {
	last := from
	for _, f := range q.Files() {
		if f.End() <= from {
			continue
		}
		data, err := f.Hold()
		if err != nil {
			return 0, err
		}
		err = mmap.GuardFault(func() error {
			for pos := max(from-f.From(), 0); pos < f.Size(); {
				a, b, err := f.NextData(pos)
				if err != nil || a >= f.Size() {
					return err
				}
				b = min(b, f.Size())
				if n := len(bytes.TrimRight(data[a:b], "\x00")); n > 0 {
					last = f.From() + a + int64(n)
				}
				pos = b
			}
			return nil
		})
		f.Release()
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", filepath.Base(f.Path()), err)
		}
	}
	return last, nil
}

// durableTo returns the physical offset below which the log is known to be whole: to, if that is one; else the beginning of the last file whose first record was stored before
// beforeMs, 0 for none. Records are written, and reach the disk, file by file.
func (l *Log) durableTo(to, beforeMs int64) (int64, error) {
	if to > 0 || beforeMs <= 0 {
		return to, nil
	}
	files := l.queue.Files()
	for i := len(files) - 1; i >= 0; i-- {
		var rec message.Record
		release, err := l.Read(files[i].From(), 0, true, &rec)
		switch {
		case errors.Is(err, ErrCorrupt):
			continue
		case err != nil:
			return 0, err
		}
		release()
		if rec.StoreTimestampMs < beforeMs {
			return files[i].From(), nil
		}
	}
	return 0, nil
}
