package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"sort"
	"sync"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// A batch queue has a unit for each put of a topic whose attribute queue.type is BatchCQ, and a unit counts for several messages. All integers are big-endian and signed.
//
//	offset  width  name             type  meaning
//	0       8      phy              i64   position of the record in the CommitLog
//	8       4      size             i32   length of the whole record
//	12      8      tagsCode         i64   hash of TAGS
//	20      8      storeTime        i64   ms
//	28      8      msgBaseOffset    i64   message offset of the first message
//	36      2      batchSize        i16   number of messages
//	38      4      compactedOffset  i32   -1
//	42      4      reserved         i32
//
// Unit n lies at byte n*46 of the run of files in <root>/batchconsumequeue/<topic>/<queueId>/, which are named and made in full length as those of other queues are. What was
// not written reads as zero; there is no filler.
//
// Source: BatchConsumeQueue, 5.5.0.
const (
	batchUnitBytes = 46
	batchTimeAt    = 20
	batchBaseAt    = 28
	batchCountAt   = 36
	batchCompactAt = 38
)

// BatchUnit is a unit of a batch queue.
type BatchUnit struct {
	cq.Unit
	BaseOffset      int64 // message offset of its first message
	Count           int16 // messages
	CompactedOffset int32 // -1: none
}

// End returns the message offset behind its last message.
func (u *BatchUnit) End() int64 { return u.BaseOffset + int64(u.Count) }

// decodeBatchUnit reads the 46 bytes at the start of b. Whatever they hold, it succeeds; judge with valid.
func decodeBatchUnit(b []byte) BatchUnit {
	_ = b[batchUnitBytes-1]
	be := binary.BigEndian
	u := decodeUnit(b)
	u.StoreTimestampMs = int64(be.Uint64(b[batchTimeAt:]))
	return BatchUnit{
		Unit: u, BaseOffset: int64(be.Uint64(b[batchBaseAt:])), Count: int16(be.Uint16(b[batchCountAt:])), CompactedOffset: int32(be.Uint32(b[batchCompactAt:])),
	}
}

func (u *BatchUnit) valid() bool {
	return u.PhyOffset >= 0 && u.Size > 0 && u.BaseOffset >= 0 && u.Count > 0 && u.End() > 0
}

// BatchStore reads the batch queues of a store. It changes nothing, and is safe for concurrent use.
type BatchStore struct{ dir string }

// OpenBatch returns the batch queues below dir, the directory batchconsumequeue of a store. It reads nothing yet; a missing dir has no queues.
func OpenBatch(dir string) *BatchStore { return &BatchStore{dir} }

// Queues yields the keys of the batch queues, in no order; a listing that fails ends with the error and an empty key.
func (s *BatchStore) Queues() iter.Seq2[cq.Key, error] {
	return func(yield func(cq.Key, error) bool) {
		more := true
		err := walkKeys(s.dir, func(string) {}, func(k cq.Key) bool {
			more = yield(k, nil)
			return more
		})
		if err != nil && more {
			yield(cq.Key{}, err)
		}
	}
}

// Queue opens a batch queue: fs.ErrNotExist tells that there is none. Its last file is looked at, unit by unit: a *cq.CorruptError names the first that cannot be.
func (s *BatchStore) Queue(k cq.Key) (*BatchQueue, error) {
	if !possibleKey(k) {
		return nil, &cq.QueueError{Key: k, Err: ErrName}
	}
	dir := queueDir(s.dir, k)
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("open batch queue %s: %w", k, err)
	}
	files, err := mappedfile.Open(dir, mappedfile.Options{})
	if err != nil {
		return nil, fmt.Errorf("open batch queue %s: %w", k, err)
	}
	q := &BatchQueue{key: k, files: files.Files()}
	if err := errors.Join(q.load(), files.Close()); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// BatchQueue is a batch queue as it was when it was opened. Close it.
type BatchQueue struct {
	key         cq.Key
	files       []*mappedfile.File
	first, next int64 // units
	perFile     int64

	mu sync.Mutex
	f  *os.File // files[at], or nil
	at int
}

// Units returns the numbers of the first unit and of the one behind the last.
func (q *BatchQueue) Units() (first, next int64) { return q.first, q.next }

// Bounds returns the message offset of the first message and the one behind the last; both 0 for a queue without units.
func (q *BatchQueue) Bounds() (least, next int64, err error) {
	if q.first == q.next {
		return 0, 0, nil
	}
	head, err := q.Unit(q.first)
	if err != nil {
		return 0, 0, err
	}
	last, err := q.Unit(q.next - 1)
	return head.BaseOffset, last.End(), err
}

// Unit reads the unit of a number. It answers a *cq.RangeError outside of Units, and a *cq.CorruptError for what is no unit.
func (q *BatchQueue) Unit(n int64) (BatchUnit, error) {
	if n < q.first || n >= q.next {
		return BatchUnit{}, &cq.RangeError{Key: q.key, Want: n, Min: q.first, Max: q.next}
	}
	var b [batchUnitBytes]byte
	i := int((n - q.first) / q.perFile)
	at := (n - q.first) % q.perFile * batchUnitBytes
	if err := q.read(i, b[:], at); err != nil {
		return BatchUnit{}, err
	}
	u := decodeBatchUnit(b[:])
	if !u.valid() {
		return BatchUnit{}, q.corrupt(i, at, &u, "a unit")
	}
	return u, nil
}

// Find returns the number of the unit that has the message of an offset, and the unit. It answers a *cq.RangeError outside of Bounds, and a *cq.CorruptError where no unit has
// it, or the units met on the way are not in order.
func (q *BatchQueue) Find(offset int64) (n int64, u BatchUnit, err error) {
	least, next, err := q.Bounds()
	if err != nil {
		return 0, u, err
	}
	if offset < least || offset >= next {
		return 0, u, &cq.RangeError{Key: q.key, Want: offset, Min: least, Max: next}
	}
	n = q.first + int64(sort.Search(int(q.next-q.first), func(i int) bool {
		one, uerr := q.Unit(q.first + int64(i))
		if uerr != nil && err == nil {
			err = uerr
		}
		return uerr != nil || one.End() > offset
	}))
	if err != nil {
		return 0, u, err
	}
	if n == q.next { // the last unit has it, if they are in order
		n--
	}
	if u, err = q.Unit(n); err != nil {
		return 0, u, err
	}
	if offset < u.BaseOffset || offset >= u.End() {
		i := int((n - q.first) / q.perFile)
		return 0, u, q.corrupt(i, (n-q.first)%q.perFile*batchUnitBytes, &u, fmt.Sprintf("the message of offset %d", offset))
	}
	return n, u, nil
}

// Close gives the descriptor back.
func (q *BatchQueue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.f == nil {
		return nil
	}
	f := q.f
	q.f = nil
	return f.Close()
}

// load finds out where the units end: nothing but the last file may have free room.
func (q *BatchQueue) load() error {
	if len(q.files) == 0 {
		return nil
	}
	head, i := q.files[0], len(q.files)-1
	if head.Size()%batchUnitBytes != 0 || head.From()%batchUnitBytes != 0 {
		return &cq.CorruptError{
			File: head.Path(), Offset: -1, Got: fmt.Sprintf("%d bytes from position %d on", head.Size(), head.From()),
			Want: fmt.Sprintf("whole units of %d bytes", batchUnitBytes),
		}
	}
	q.perFile = head.Size() / batchUnitBytes
	q.first = head.From() / batchUnitBytes
	b := make([]byte, q.files[i].Size())
	if err := q.read(i, b, 0); err != nil {
		return err
	}
	n, end := int64(0), int64(-1)
	for ; n < q.perFile; n++ {
		unit := b[n*batchUnitBytes:][:batchUnitBytes]
		if bytes.Equal(unit, zeroBytes[:batchUnitBytes]) {
			break
		}
		u := decodeBatchUnit(unit)
		switch {
		case !u.valid():
			return q.corrupt(i, n*batchUnitBytes, &u, "a unit, or zeros")
		case u.BaseOffset < end:
			return q.corrupt(i, n*batchUnitBytes, &u, fmt.Sprintf("messages from offset %d on", end))
		}
		end = u.End()
	}
	for at := n * batchUnitBytes; at < int64(len(b)); at++ {
		if b[at] != 0 {
			return &cq.CorruptError{File: q.files[i].Path(), Offset: at, Got: fmt.Sprintf("byte %#02x", b[at]), Want: fmt.Sprintf("zeros behind the %d units at the start of the file", n)}
		}
	}
	q.next = q.first + int64(i)*q.perFile + n
	return nil
}

// read fills b from a file.
func (q *BatchQueue) read(i int, b []byte, at int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.f == nil || q.at != i {
		f, err := os.Open(q.files[i].Path())
		if err != nil {
			return fmt.Errorf("read batch queue %s: %w", q.key, err)
		}
		if q.f != nil {
			_ = q.f.Close() // only read
		}
		q.f, q.at = f, i
	}
	if _, err := q.f.ReadAt(b, at); err != nil {
		return fmt.Errorf("read batch queue %s at %s+%d: %w", q.key, q.files[i].Path(), at, err)
	}
	return nil
}

func (q *BatchQueue) corrupt(i int, at int64, u *BatchUnit, want string) error {
	return &cq.CorruptError{
		File: q.files[i].Path(), Offset: at, Want: want,
		Got: fmt.Sprintf("position %d size %d, %d messages from offset %d on", u.PhyOffset, u.Size, u.Count, u.BaseOffset),
	}
}
