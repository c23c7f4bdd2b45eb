package cq

import (
	"context"
	"iter"
	"slices"
	"time"
)

// Reader serves any number of goroutines, beside one Appender. Nothing in it creates a queue or writes a byte: asking for
// an unknown queue leaves no trace on disk or in memory (W17, F27, see docs/format/known-faults.md).
type Reader interface {
	// Kind names the store.
	Kind() Kind
	// Queue returns the queue of that key; false when the store holds no such queue. It never creates one.
	Queue(k Key) (Queue, bool)
	// Queues yields a snapshot of the keys present, in no order. A queue is present when it ever had a slot: an empty
	// but advanced queue is, a bare directory is not; one that cannot be read is, and its Bounds say why. A listing that
	// fails ends with the error, which names the place, and an empty key: what came before it may not be all.
	Queues() iter.Seq2[Key, error]
	// DispatchFrom returns the physical offset from which dispatch has to resume so that the store lacks nothing: every
	// record that ends at or below it has its unit. It is -1 when the store cannot tell (no unit, no checkpoint).
	// One meaning for all kinds: the end of a record, never its start (F1, F28).
	DispatchFrom() int64
}

// SortedKeys lists the queues of r in the order a person lists them.
func SortedKeys(r Reader) ([]Key, error) {
	keys := []Key{}
	for k, err := range r.Queues() {
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, Key.Compare)
	return keys, nil
}

// Queue reads one queue. Safe for concurrent use. A Queue stays usable until its store is closed, then every call
// answers ErrClosed.
type Queue interface {
	Key() Key
	// Where says in words where the unit of that slot is or would be stored: file and byte, or database and row. For
	// messages; it reads nothing and never fails.
	Where(queueOffset int64) string
	// Bounds returns the current limits. It reads a bounded number of units (binary search for Min), never all of them.
	// A queue whose content contradicts itself answers a *CorruptError that names file (or row) and place.
	Bounds() (Bounds, error)
	// Read copies units of consecutive slots beginning at from into dst and returns how many it copied. It stops at Max,
	// at the end of dst, or where the next slot holds no unit (a hole, or pre-blank filler); it may also stop earlier
	// (at the end of a file), so a caller loops until it has what it wants or n is 0.
	//
	//	n > 0          dst[:n] are the units of slots from .. from+n-1
	//	n == 0, nil    slot from lies in the queue but holds no unit (hole, filler)
	//	*RangeError    from < 0, or from >= Max; matches ErrOffsetOutOfRange
	//	*CorruptError  the stored unit is impossible (size <= 0, negative position)
	//
	// Slots below Bounds.Min are answered as long as the unit is still stored: Min says what can be served, Read what is
	// there. The tags code is the stored one, with an ext address already resolved when the extension unit is found.
	Read(from int64, dst []Unit) (n int, err error)
}

// SparseReader is implemented by stores that read units without remembering the queue: for who goes over very many queues, a few units of each at a time.
type SparseReader interface {
	// ReadSparse is Read of the queue of that key, of which the caller knows that slots from to from+len(dst)-1 lie below its Max.
	ReadSparse(k Key, from int64, dst []Unit) (n int, err error)
}

// Filed is a Queue that may be kept in files. RocketMQ's reads end with the file.
type Filed interface {
	// FileEnd returns the slot at which the file after that of slot begins; math.MaxInt64 when the queue is not read from files at present. slot is not
	// negative.
	FileEnd(slot int64) int64
}

// Appender is fed by one goroutine alone, in physical order.
type Appender interface {
	// Append adds units. It keeps no reference to batch. For each entry, against the queue's max:
	//
	//	QueueOffset == max      stored
	//	QueueOffset <  max      a repeat: accepted without writing when it equals what is stored, otherwise a
	//	                        *ConflictError; a repeat of a slot that is no longer stored (expired) is accepted
	//	QueueOffset >  max      *GapError; nothing of that entry is written (F5: never at the wrong slot)
	//	queue not present       the queue begins at QueueOffset (filler below it where the format needs some)
	//
	// On error the entries before the failing one are accepted, it and those after it are not. Nil means accepted in order; what was
	// accepted is readable by this process at the latest when AwaitReadable returns, and durable only after Flush. max above is what was accepted, whether
	// readable yet or not. It may wait for room where units are written behind it. The error of a failed write is sticky: every later
	// Append, AwaitReadable and Flush answers it. An entry that the store cannot hold answers a *QueueError where that is for its queue's name, an
	// *EntryError where it is for a number in it, and a *DamagedError where what is stored of its queue cannot be written to, which is about the first entry of the queue; none is sticky.
	Append(ctx context.Context, batch []Entry) error
	// AwaitReadable returns when everything accepted before the call is readable. A store that writes as it accepts returns at once.
	AwaitReadable(ctx context.Context) error
	// Flush returns when everything accepted before the call is durable.
	Flush(ctx context.Context) error
}

// NameChecker is implemented by stores that cannot hold queues of every name.
type NameChecker interface {
	// CheckName answers a *QueueError when the store can hold nothing of a queue, by reason of its name, as far as that can be told without a trace. Append
	// may find out more.
	CheckName(k Key) error
}

// Noter is implemented by stores that write down how far all queues are in one number (DispatchFrom after a crash). After an entry that Append has refused, other than for the name of
// its queue, that number stays at or below the record of the entry, so that a crash does not make it speak of a unit that its queue lacks, until Noted says that the owner has
// written down, durably, which queue that is, or has nothing to write down. Until then a crash costs time: more of the log is dispatched again.
type Noter interface {
	// Noted takes turns with Append.
	Noted()
}

// Skipper is implemented by stores whose queues may have slots without a unit. What is skipped are the slots of records that the log has lost: the number of every
// message behind them stays what it is.
type Skipper interface {
	// Skip moves the max of a queue up to a slot: those between stay without a unit, and Read answers 0 and no error for them. Nothing is done to a queue that is
	// not present, which may begin at any slot, or that is there already. In RocksDB the max is moved durably by the unit that comes next. A damaged queue answers
	// its *CorruptError. It and other writers take turns.
	Skip(ctx context.Context, k Key, to int64) error
}

// Run is a contiguous piece of one queue: Units[i] belongs to slot From+i.
type Run struct {
	Key   Key
	From  int64
	Units []Unit
}

// QueueEnd is what Publish makes visible for one queue.
type QueueEnd struct {
	Key Key
	// Min is the first slot written, or Max for a queue of which no record is left in the log.
	Min int64
	// MinPhyOffset is the physical offset of the unit at Min; for an empty but advanced queue, the log's min.
	MinPhyOffset int64
	// Max is the next slot to be assigned; > 0.
	Max int64
	// LastPhyOffset is the start of the last real unit's record, or 0 when no real unit is left.
	LastPhyOffset int64
}

// Dropper removes whole queues.
type Dropper interface {
	// DropQueue removes a queue with all its units, so that it may begin anew at any slot: used only on what is being built again,
	// or on request. Absent queue: nil. It and other writers take turns.
	DropQueue(ctx context.Context, k Key) error
}

// Importer is the bulk side of a store, used by migrate. One goroutine at a time.
//
// Between the first Import and Publish the queues being built need not be readable; what RocketMQ sees in that time is
// at most the state before the import plus units it cannot reach.
type Importer interface {
	Dropper
	// Import stores whole runs. A slot that already holds a unit is overwritten (an import may be repeated after a
	// kill). Runs of one call are of distinct queues, in any order; over calls the runs of one queue come in ascending slot order.
	// The first run of a queue says where the queue begins. When it returns nil the units are durable. The units are not
	// kept. The file kind resolves nothing: Unit.TagsCode is stored as given.
	Import(ctx context.Context, runs []Run) error
	// Publish makes the queues visible with these ends, never lowering the max of a queue that is already present, and
	// records that every record ending at or below dispatchFrom has its unit. Durable when it returns nil. Repeatable.
	Publish(ctx context.Context, ends []QueueEnd, dispatchFrom int64) error
}

// Expirer is the side of a store that retention uses while the log's beginning moves. A store that is written to by a broker implements it.
type Expirer interface {
	// SetMinPhyOffset tells the physical offset of the first byte that the log still has. From the next call on Bounds.Min is the first
	// slot whose record lies there or above, to the unit, wherever in the queue's files or rows that is; Max when there is none. Nothing is
	// written. A value below the present one changes nothing: a log's min never falls.
	SetMinPhyOffset(minPhy int64) error
	// Expire gives back what holds expired units and nothing else. The last unit's place stays, so that a queue goes on
	// at its max, whatever restarts come. pause is waited after each queue that lost something, holding no lock. A queue that cannot be trimmed is passed
	// over and told by the error; the next call tries it again. Repeatable, and a crash in between does no harm. It and other writers
	// take turns, queue by queue.
	Expire(ctx context.Context, pause time.Duration) (Expired, error)
}

// Expired is what Expire did.
type Expired struct {
	Queues int   // that lost something
	Files  int   // removed
	Bytes  int64 // of these files
}

// Store is what each kind implements; callers ask for the smaller roles.
type Store interface {
	Reader
	Appender
	// Progress returns three physical offsets, each the end of a record: accepted by Append, readable by Reader, durable
	// on disk; accepted >= readable >= durable. -1 stands for none.
	Progress() (accepted, readable, durable int64)
	// TruncateDirty removes every unit whose record starts at or above phyOffset, so that no dirty unit survives a
	// restart (F30). Not concurrent with Append. Queues below phyOffset are not touched. A queue that loses all its
	// units keeps no trace: who knows that some have expired and wants the queue to go on behind them, asks a store that can keep its max.
	TruncateDirty(ctx context.Context, phyOffset int64) error
	// Close flushes nothing by itself beyond what was accepted; it releases every resource and is idempotent.
	Close() error
}
