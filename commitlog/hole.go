package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// A process that is killed may leave a hole. Producers fill their reservations side by side, in the mapped file itself (WriteMapped): one of
// them is cut off while others have filled theirs, and waited for it.
//
//	| published | reserved, not filled | filled | filled | zeros
//	            ^ the log ends here: nobody was told of what stands behind
//
// With some producers at work one kill in twenty does that, so a writer that opens such a log must not take it for damage. It is told
// from damage by this:
//
//	the magic where the next record should stand is 0            the first 8 bytes of a record are written last, those of a filler size first
//	so is it at each further hole behind that one
//	no more puts stand behind it than can be in flight           the ring has ringSize slots, and nobody gets one before the hole is filled
//	the log was not stopped in order, and nobody knows of these  WriterOptions.DurableTo
//	bytes that they are whole
//
// A medium that loses the head of a record among the last ringSize puts before a kill leaves the same, and takes what stands behind it along. What a loss of
// power leaves may look so too: then nothing behind the hole was acknowledged as durable either.

// unpublished tells whether the log, which ends corrupt at end, ends there because somebody was killed, and how many records then stand
// behind its end.
func (l *Log) unpublished(end ScanEnd) (records int, ok bool, err error) {
	puts := 0
	for end.Kind == EndCorrupt {
		if end.NextValid < 0 || !l.unwritten(end.Offset) {
			return records, false, nil
		}
		s := l.Scanner(end.NextValid, ScanOptions{CheckCRC: true})
		var last lastRecord
		for s.Next() && puts <= ringSize {
			records++
			if !last.sameBatch(s.Record()) {
				puts++
			}
		}
		end, err = s.End(), s.Err()
		s.Close()
		var ee *EndError
		switch {
		case puts > ringSize:
			return records, false, nil
		case err != nil && !errors.As(err, &ee):
			return records, false, err
		}
	}
	return records, true, nil
}

// unwritten tells whether no record's or filler's magic was written at physical offset phy.
func (l *Log) unwritten(phy int64) bool {
	f, ok := l.queue.Find(phy)
	if !ok {
		return false
	}
	data, err := f.Hold()
	if err != nil {
		return false
	}
	defer f.Release()
	pos := phy - f.From()
	magic := uint32(1)
	err = mmap.GuardFault(func() error {
		if pos+message.BlankHeaderSize <= f.Size() {
			magic = binary.BigEndian.Uint32(data[pos+magicAt:])
		}
		return nil
	})
	return err == nil && magic == 0
}

// lastRecord is what a record of the same batch has in common with the one before it: a batch is one put.
type lastRecord struct {
	end, nextOffset, storeMs, bornMs int64
	queue                            string
}

func (b *lastRecord) sameBatch(r *message.Record) bool {
	before := *b
	*b = lastRecord{
		end: r.PhyOffset + int64(r.TotalSize), nextOffset: r.QueueOffset + 1, storeMs: r.StoreTimestampMs, bornMs: r.BornTimestampMs,
		queue: fmt.Sprintf("%s/%d", r.Topic, r.QueueID),
	}
	return before.end == r.PhyOffset && before.nextOffset == r.QueueOffset && before.storeMs == r.StoreTimestampMs &&
		before.bornMs == r.BornTimestampMs && before.queue == b.queue
}
