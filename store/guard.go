package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
)

// The guard: before anything in a store directory is changed it is held against the sides that the options ask for. A side that is to serve alone has to have, or to get from the log before it
// serves, what is known of the queues. Otherwise offsets would be given a second time, or history be hidden, and the store is refused.
//
// Both sides together are never refused for what one of them lacks: it is filled from the log, and until then the other one is read and says which offset comes next.

// SidesError tells that a store was not opened on one side of its consume queues alone, because that side lacks what another has or had. Nothing was changed.
type SidesError struct {
	Root string
	Kind cq.Kind // that was asked for
	// Reason says what is wrong, in words.
	Reason string
	// Queues are what that side lacks, in the order of names, at most 20; Count tells how many queues there are.
	Queues []SideGap
	Count  int64
	// Ways are what can be done: a command, or a setting of the broker, each with what it does.
	Ways []SideWay
}

// SideGap is what a queue lacks on one side and has on the other.
type SideGap struct {
	Key      cq.Key
	From, To int64 // slots; To is behind the last
	// Gone tells that the log has no record of them any more: only their numbers matter, so that none is given twice.
	Gone bool
}

// SideWay is something that can be done about a SidesError.
type SideWay struct {
	Do   string // a command, or properties of the broker
	Does string
}

func (e *SidesError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "its queues are not served from %s alone: %s; nothing was changed", sideWords(e.Kind), e.Reason)
	for _, q := range e.Queues {
		what := "slots"
		if q.Gone {
			what = "the numbers of slots"
		}
		fmt.Fprintf(&b, "\n  queue %s: %s %s %d to %d", q.Key, sideDoes(e.Kind, "lack"), what, q.From, q.To-1)
	}
	if more := e.Count - int64(len(e.Queues)); more > 0 && len(e.Queues) > 0 {
		fmt.Fprintf(&b, "\n  and %d more queues", more)
	}
	b.WriteString("\nwhat can be done:")
	for _, w := range e.Ways {
		fmt.Fprintf(&b, "\n  %s\n      %s", w.Do, w.Does)
	}
	return b.String()
}

// maxSideGaps bounds how many queues a SidesError lists.
const maxSideGaps = 20

// guard is one look at a directory.
type guard struct {
	s     *Store
	kind  cq.Kind // that is to serve alone
	other cq.Kind
	has   Kept // that are there
	kept  Kept
	blind bool // what the other side has cannot be read
	err   *SidesError
}

// checkSides refuses a directory that does not support the sides that the options ask for. It changes nothing. Errors: *SidesError; a RocksDB in two places, or without CURRENT where it is not
// asked for; what could not be read.
func (s *Store) checkSides() error {
	var want Kept
	want.File, want.RocksDB = s.o.sides()
	g := &guard{s: s}
	var err error
	if g.has.File, err = s.layout.HasFileQueues(); err != nil {
		return err
	}
	var remnants *RemnantsError
	_, _, g.has.RocksDB, err = s.layout.FindRocks()
	if errors.As(err, &remnants) && want.RocksDB {
		err = nil // it is lost
	}
	if err != nil || want.File && want.RocksDB {
		return err
	}
	if g.kept, err = s.layout.Kept(); err == nil && !g.has.File && !g.has.RocksDB {
		g.kept, err = s.layout.KeptBefore()
	}
	if err != nil {
		return err
	}
	if remnants != nil {
		g.kept.add(cq.KindRocks)
		g.kept.By = remnants.what()
	}
	g.kind = want.kinds()[0]
	g.other = otherKind(g.kind)
	log, begun, err := s.openToGuard()
	if err != nil || log == nil {
		return err
	}
	if begun {
		err = g.look(log)
	}
	return errors.Join(err, log.Close())
}

// openToGuard opens the log for reading. It is nil where that cannot be done: whoever opens it for good says why. begun tells that it has a record.
func (s *Store) openToGuard() (log *commitlog.Log, begun bool, err error) {
	w := s.writerOptions()
	log, err = commitlog.Open(w.Dir, commitlog.Options{MoreDirs: slices.Concat(w.MoreDirs, w.ReadOnlyDirs)})
	if err != nil {
		return nil, false, nil // see above
	}
	scan := log.Scanner(-1, commitlog.ScanOptions{NoReadahead: true})
	defer scan.Close()
	return log, scan.Next(), nil
}

func (g *guard) refuse(reason string, args ...any) {
	g.err = &SidesError{Root: g.s.layout.Root, Kind: g.kind, Reason: fmt.Sprintf(reason, args...)}
}

// way adds something that can be done: a command of this program, in which %s is the directory.
func (g *guard) way(command, does string) {
	g.err.Ways = append(g.err.Ways, SideWay{Do: fmt.Sprintf("tandemmq "+command, g.s.layout.Root), Does: does})
}

// property adds options that can be set instead.
func (g *guard) property(do, does string) {
	g.err.Ways = append(g.err.Ways, SideWay{Do: do, Does: does})
}

// look compares what there is with what is asked for.
func (g *guard) look(log *commitlog.Log) (err error) {
	switch here, there := g.has.Has(g.kind), g.has.Has(g.other); {
	case here && there:
		err = g.compare(log)
	case there: // alone
		g.absent()
		if err = g.missing(log); err == nil && g.err.Count == 0 && !g.blind {
			return nil // it has nothing either
		}
	case g.kept.Has(g.other) && !g.kept.Has(g.kind):
		g.leftBehind(here)
	}
	if err == nil && g.err != nil {
		err = g.err
	}
	return err
}

// absent refuses a side that is not there while the other is.
func (g *guard) absent() {
	kind, other := sideWords(g.kind), sideWords(g.other)
	if g.kept.Has(g.kind) {
		g.refuse("the store keeps its queues in %s (%s), and those in %s are gone", g.kept.words(), g.kept.By, kind)
		g.combined("fills " + kind + " from the log while " + sideDoes(g.other, "serve"))
		g.way(fmt.Sprintf("store rebuild --store %%s --queues %s --yes", g.kind), "builds the queues in "+kind+" from the log, offline")
	} else {
		g.refuse("the store has its queues in %s, and none in %s", other, kind)
		g.way(fmt.Sprintf("migrate run --store %%s --to %s --yes", g.kind), "moves them there, and proves it")
	}
	if g.kept.Has(g.other) || !g.kept.Has(g.kind) { // it was not left behind
		g.property("storeType="+string(storeTypeOf(g.other)), "serves from "+other)
	}
}

func (g *guard) combined(does string) {
	g.property(fmt.Sprintf("storeType=%s and rocksdbCQDoubleWriteEnable=true", StoreTypeFile), does)
}

// leftBehind refuses a side that the store did not keep, where the one that it kept is gone. here tells that there is something on it, left behind.
func (g *guard) leftBehind(here bool) {
	kind, other := sideWords(g.kind), sideWords(g.other)
	switch {
	case here:
		g.refuse("the store keeps its queues in %s (%s), where they are gone, and those in %s were left behind", other, g.kept.By, kind)
	default:
		g.refuse("the store kept its queues in %s (%s), where they are gone", other, g.kept.By)
	}
	g.property("storeType="+string(storeTypeOf(g.other)), "builds them again in "+other+" from the log, while it serves")
	g.way(fmt.Sprintf("store rebuild --store %%s --queues %s --yes", g.other), "does so offline")
	if here {
		g.way(fmt.Sprintf("store recover --store %%s --kind %s", g.kind), "brings the queues in "+kind+" up to the end of the log; afterwards they can be served")
		return
	}
	g.way(fmt.Sprintf("store rebuild --store %%s --queues %s --create --yes", g.kind), "builds queues in "+kind+" from the log instead")
}

// compare holds the side that is to serve against the other one, unless it is known that the other one was left behind.
func (g *guard) compare(log *commitlog.Log) error {
	if _, ours, err := readCheckpoint(g.s.fs, g.s.layout.CheckpointPath(), time.Now()); err == nil && ours && g.kept.By == keptByNote && !g.kept.Has(g.other) {
		return nil // and nobody else has had the store since
	}
	g.refuse("it lacks what %s, or would get it from the log only while it serves", sideDoes(g.other, "have"))
	if err := g.missing(log); err != nil {
		return err
	}
	if g.err.Count == 0 {
		g.err = nil
		return nil
	}
	kind, other := sideWords(g.kind), sideWords(g.other)
	if g.kept.By == keptByMigration && g.kept.Has(g.other) {
		g.way("migrate rollback --store %s --yes", "brings "+kind+" up to the end of the log, proves it, and gives reads back to it")
	}
	g.combined("fills " + kind + " while " + sideDoes(g.other, "serve") + "; " + kind + " alone can serve afterwards")
	g.way(fmt.Sprintf("store rebuild --store %%s --queues %s --yes", g.kind), "builds the queues in "+kind+" anew from the log, and keeps the ends that "+sideDoes(g.other, "know")+", offline")
	g.property("storeType="+string(storeTypeOf(g.other)), "serves from "+other)
	return nil
}

// missing finds what the side that is to serve lacks of what the other one has. A side that cannot be opened is none.
func (g *guard) missing(log *commitlog.Log) (err error) {
	minPhy := max(log.MinOffset(), 0)
	there, err := openQuietly(g.s.layout, g.other, minPhy)
	if err != nil {
		return g.unreadable(err, nil)
	}
	defer func() { err = errors.Join(err, there.Close()) }()
	var here cq.Store
	if g.has.Has(g.kind) {
		q, err := openQuietly(g.s.layout, g.kind, minPhy)
		if err != nil {
			return g.unreadable(nil, err)
		}
		defer func() { err = errors.Join(err, q.Close()) }()
		here = q
	}
	c := &sideComparison{here: here, there: there, from: math.MaxInt64}
	if here != nil && there.DispatchFrom()-here.DispatchFrom() <= g.s.rebuildBytes {
		if c.from, err = g.dispatchedFrom(here.DispatchFrom()); err != nil {
			return err
		}
	}
	topics, known, err := g.s.layout.Topics()
	if err != nil {
		known = false // whoever needs it says so
	}
	marked := g.marked()
	for k, err := range there.Queues() {
		if err != nil {
			return err
		}
		if k.IsLMQ() && g.kind == cq.KindFile && !g.s.o.EnableLmq || known && !topics[k.Topic] && !neverListed(k.Topic) || marked[k] {
			continue // nobody is served such a queue; or it was left behind when its topic was deleted; or it is known to be broken, and not served until it was built
		}
		gap, ok, err := c.queue(k)
		if err != nil {
			return err
		}
		if ok && (gap.Gone || !k.IsLMQ() || g.kind != cq.KindFile) { // light queues may never have been in files: they are built from the log, and not served before
			g.add(gap)
		}
	}
	return nil
}

// marked returns the queues that are noted to lack units on the side that is to serve.
func (g *guard) marked() map[cq.Key]bool {
	b, err := readFile(g.s.fs, g.s.layout.brokenQueuesPath(), maxBrokenBytes)
	var file brokenQueuesFile
	if err != nil || json.Unmarshal(b, &file) != nil {
		return nil // whoever opens the queues says so
	}
	keys := make(map[cq.Key]bool, len(file.Queues))
	for _, q := range file.Queues {
		keys[cq.Key{Topic: q.Topic, QueueID: q.QueueID}] = q.Side == "" || q.Side == string(g.kind)
	}
	return keys
}

// dispatchedFrom returns the physical offset from which the log is dispatched to the side that is to serve, before it does: end is the end of the last record that it has.
func (g *guard) dispatchedFrom(end int64) (int64, error) {
	unclean, err := g.s.layout.HasAbort()
	if err != nil || !unclean || g.kind == cq.KindRocks {
		return end, err
	}
	c, _, err := readCheckpoint(g.s.fs, g.s.layout.CheckpointPath(), time.Now())
	if err != nil {
		return 0, nil // from the log's beginning
	}
	return min(c.LogicsPhysicalOffset, end), nil
}

// unreadable deals with sides that cannot be read: damage of the other one is no matter here, one of the side that is to serve leaves it nothing.
func (g *guard) unreadable(there, here error) error {
	var io *fs.PathError
	switch err := errors.Join(there, here); {
	case errors.Is(err, cq.ErrNoRocksDB), !errors.Is(err, cq.ErrCorrupt), errors.As(err, &io):
		g.blind = true // whoever opens it for good says why
		return nil
	}
	if g.blind = here == nil; !g.blind {
		g.refuse("the queues in %s are damaged: %v", sideWords(g.kind), here)
		g.err.Count = 1
	}
	return nil
}

// add notes what a queue lacks. The first of them are kept, in the order of names.
func (g *guard) add(gap SideGap) {
	g.err.Count++
	at, _ := slices.BinarySearchFunc(g.err.Queues, gap, func(a, b SideGap) int { return a.Key.Compare(b.Key) })
	if at == maxSideGaps {
		return
	}
	g.err.Queues = slices.Insert(g.err.Queues, at, gap)
	if len(g.err.Queues) > maxSideGaps {
		g.err.Queues = g.err.Queues[:maxSideGaps]
	}
}
