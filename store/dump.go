package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// DumpOptions chooses what Dump prints.
type DumpOptions struct {
	// Topic and QueueID leave out every other queue. "" and a negative id: all.
	Topic   string
	QueueID int32
	// Limit is the most messages printed of each queue, from its min on; 0: all. The queue line always tells of the whole.
	Limit int64
	// QueuesOnly prints no messages; the log is then not read at all.
	QueuesOnly bool
	// OnProblem is told of each thing that is not as it should be, and printed or counted all the same: a unit that points to
	// no record, or to one that is damaged, an impossible unit, a queue that cannot be read. nil: nobody.
	OnProblem func(k cq.Key, queueOffset int64, err error)
}

// DumpReport counts what Dump printed.
type DumpReport struct {
	Queues     int64
	Messages   int64
	Damaged    int64 // of them, whose body or properties do not fit their checksum
	Bad        int64 // units that point to no record
	Unreadable int64 // slots between min and max without a unit
	Broken     int64 // queues that could not be read; Dump then answers an error as well
}

// Dump prints the queues of v and their messages as JSON objects, one a line, sorted by topic, queue id and queue offset.
// A queue line comes before the lines of its messages:
//
//	queue  topic, queueId, min, max, readable, cqCrc32, unreadable
//	msg    topic, queueId, queueOffset (these three of the queue), commitLogOffset, size, storeTimestamp, tagsCode (of the
//	       unit), msgId (offset id), crc32 (of the body as stored), keys, tags, uniqKey (null when absent), bodyLen, sysFlag,
//	       flag, bornTimestamp, bornHost, storeHost, reconsumeTimes, preparedTransactionOffset, magicV2, rawCrc32 (of the whole
//	       record); msgTopic, msgQueueId, msgQueueOffset when the record's own differ (light queues); and damaged, "body" or
//	       "properties", when these do not fit their checksum
//	bad    topic, queueId, queueOffset, commitLogOffset, size (these two of the unit), rawCrc32 (null when the log has no such bytes)
//
// readable counts the units whose bytes the log's files have, which are the ones RocketMQ hands out, be they a good record or
// not: the queue line comes before its records are read; unreadable the slots of [min, max) without a unit. The two need not add up to max - min;
// how many messages are good, the report says. cqCrc32 is the CRC-32 over the units in between in their 20-byte
// form (phyOffset i64, size i32, tagsCode i64). Text that is no UTF-8 has U+FFFD for each wrong byte.
//
// Memory is bounded: each queue is read twice, once for its line and once for its messages. A queue that cannot be read is
// left out (OnProblem tells), the others are printed, and the error at the end says how many are missing. Other errors: ctx,
// a failed write to w, a log that vanishes under the reader.
func Dump(ctx context.Context, w io.Writer, v *View, o DumpOptions) (rep DumpReport, err error) {
	d := &dumper{v: v, o: o, w: bufio.NewWriterSize(w, 1<<20), units: make([]cq.Unit, 1024)}
	keys, err := cq.SortedKeys(v.Queues)
	if err != nil {
		return rep, err
	}
	// Records are read out of mapped memory all the way, so one guard stands round all of it.
	err = mmap.GuardFault(func() error {
		for _, k := range keys {
			if o.Topic != "" && k.Topic != o.Topic || o.QueueID >= 0 && k.QueueID != o.QueueID {
				continue
			}
			q, ok := v.Queues.Queue(k)
			if !ok {
				continue
			}
			if err := d.queue(ctx, k, q); err != nil {
				return err
			}
		}
		return nil
	})
	if ferr := d.w.Flush(); err == nil && ferr != nil {
		err = fmt.Errorf("write dump: %w", ferr)
	}
	if err == nil && d.rep.Broken > 0 {
		err = fmt.Errorf("dump store %s: %d queues could not be read", v.Layout.Root, d.rep.Broken)
	}
	return d.rep, err
}

// dumper is one run of Dump.
type dumper struct {
	v     *View
	o     DumpOptions
	w     *bufio.Writer
	rep   DumpReport
	units []cq.Unit
	line  msgLine
}

// errQueueUnreadable ends the dump of one queue, not of the store.
var errQueueUnreadable = errors.New("queue cannot be read")

func (d *dumper) queue(ctx context.Context, k cq.Key, q cq.Queue) error {
	b, err := q.Bounds()
	if err != nil {
		d.broken(k, -1, err)
		return nil
	}
	line := queueLine{key: k, min: b.Min, max: b.Max}
	crc := crc32.NewIEEE()
	var image [unitBytes]byte
	err = d.eachUnit(ctx, k, q, b, func(_ int64, u *cq.Unit) error {
		_, _ = crc.Write(cq.AppendUnit(image[:0], *u)) // a hash never fails
		if d.inLog(u) {
			line.readable++
		}
		return nil
	}, func(queueOffset int64, err error) {
		line.unreadable++
		d.problem(k, queueOffset, err)
	})
	if errors.Is(err, errQueueUnreadable) {
		return nil
	}
	if err != nil {
		return err
	}
	line.crc = crc.Sum32()
	d.rep.Queues++
	d.rep.Unreadable += line.unreadable
	if err := d.write(line.appendTo(d.line.buf[:0])); err != nil || d.o.QueuesOnly {
		return err
	}
	return d.messages(ctx, k, q, b)
}

// messages prints the lines of a queue's messages.
func (d *dumper) messages(ctx context.Context, k cq.Key, q cq.Queue, b cq.Bounds) error {
	d.line.begin(k)
	var r message.Record
	left := d.o.Limit
	err := d.eachUnit(ctx, k, q, b, func(queueOffset int64, u *cq.Unit) error {
		if d.o.Limit > 0 {
			if left == 0 {
				return errLimit
			}
			left--
		}
		release, err := d.v.Log.Read(u.PhyOffset, u.Size, false, &r)
		if err != nil {
			d.problem(k, queueOffset, err)
			return d.bad(queueOffset, u)
		}
		out, damage := d.line.msg(queueOffset, u, &r)
		if release(); damage != nil {
			d.rep.Damaged++
			d.problem(k, queueOffset, fmt.Errorf("the record at physical offset %d is damaged: %w", u.PhyOffset, damage))
		}
		d.rep.Messages++
		return d.write(out)
	}, func(int64, error) {})
	if errors.Is(err, errQueueUnreadable) || errors.Is(err, errLimit) {
		return nil
	}
	return err
}

// errLimit ends the messages of one queue.
var errLimit = errors.New("limit reached")

// eachUnit calls unit for every unit of [b.Min, b.Max) in order, and hole for every slot that has none.
func (d *dumper) eachUnit(ctx context.Context, k cq.Key, q cq.Queue, b cq.Bounds, unit func(int64, *cq.Unit) error, hole func(int64, error)) error {
	for at := b.Min; at < b.Max; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := q.Read(at, d.units[:min(int64(len(d.units)), b.Max-at)])
		switch {
		case n > 0:
		case err == nil:
			hole(at, fmt.Errorf("slot %d holds no unit", at))
			at++
			continue
		case errors.Is(err, cq.ErrCorrupt):
			hole(at, err)
			at++
			continue
		default:
			d.broken(k, at, err)
			return errQueueUnreadable
		}
		for i := range d.units[:n] {
			if err := unit(at+int64(i), &d.units[i]); err != nil {
				return err
			}
		}
		at += int64(n)
	}
	return nil
}

func (d *dumper) broken(k cq.Key, queueOffset int64, err error) {
	d.rep.Broken++
	d.problem(k, queueOffset, err)
}

func (d *dumper) problem(k cq.Key, queueOffset int64, err error) {
	if d.o.OnProblem != nil {
		d.o.OnProblem(k, queueOffset, err)
	}
}

func (d *dumper) write(line []byte) error {
	if _, err := d.w.Write(line); err != nil {
		return fmt.Errorf("write dump: %w", err)
	}
	return nil
}

// inLog tells whether the files of the log have the bytes that a unit points to, in one file.
func (d *dumper) inLog(u *cq.Unit) bool {
	size := d.v.Log.FileSize()
	return !d.v.Log.Lacks(u.PhyOffset) && u.Size > 0 && u.PhyOffset >= d.v.Log.MinOffset() && u.End() <= d.v.Log.MinOffset()+d.v.Log.Size() &&
		u.PhyOffset/size == (u.End()-1)/size
}

// bad prints the line of a unit that points to no record.
func (d *dumper) bad(queueOffset int64, u *cq.Unit) error {
	d.rep.Bad++
	crc, ok := uint32(0), false
	if d.inLog(u) {
		var err error
		if crc, err = d.crcOfBytes(u); err != nil {
			return err
		}
		ok = true
	}
	return d.write(d.line.bad(queueOffset, u, crc, ok))
}

// crcOfBytes reads the bytes of a unit from the log's file, whatever they are.
func (d *dumper) crcOfBytes(u *cq.Unit) (uint32, error) {
	from := u.PhyOffset / d.v.Log.FileSize() * d.v.Log.FileSize()
	f, err := os.Open(filepath.Join(d.v.Log.Dir(), mappedfile.Name(from)))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h := crc32.NewIEEE()
	_, err = io.Copy(h, io.NewSectionReader(f, u.PhyOffset-from, int64(u.Size)))
	return h.Sum32(), err
}
