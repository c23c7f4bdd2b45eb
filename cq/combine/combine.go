package combine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tandemq/tandemmq/cq"
)

var (
	_ cq.Store       = (*Store)(nil)
	_ cq.Importer    = (*Store)(nil)
	_ cq.Expirer     = (*Store)(nil)
	_ cq.Skipper     = (*Store)(nil)
	_ cq.NameChecker = (*Store)(nil)
	_ cq.Noter       = (*Store)(nil)
	_ cq.Queue       = (*queue)(nil)
)

// Options of New.
type Options struct {
	// Preferred is the kind of the side that reads are served from. Empty: cq.KindFile. RocketMQ: combineCQPreferCQType.
	Preferred cq.Kind
	// Authority is the kind of the side that says which offset comes next. Empty: cq.KindFile. RocketMQ: combineAssignOffsetCQType.
	Authority cq.Kind
	// LightInRocks keeps light queues in RocksDB alone. RocketMQ: combineCQUseRocksdbForLmq, which wants the file side to have authority
	// over all others; here either may.
	LightInRocks bool
	// OnDiverged is told of each queue that is found diverged, once, by the goroutine that found it; it must not call the Store. nil: nobody.
	OnDiverged func(Divergence)
	// Logger gets divergences, failures and switches. nil: discard.
	Logger *slog.Logger
}

// Store is two stores of consume queues. See the package comment. It is a cq.Store, a cq.Expirer and a cq.Importer.
type Store struct {
	sides [2]*side
	// light is the side that has the light queues for itself, or nil.
	light                *side
	log                  *slog.Logger
	onDiverged           func(Divergence)
	preferred, authority atomic.Pointer[side]
	topics               atomic.Pointer[map[string]struct{}] // whose queues are preferred on the other side; nil: none
	closed               atomic.Bool
	// epoch counts the changes after which a queue may have to be read from another side. It moves after the change.
	epoch   atomic.Uint64
	lagging lagging
	// minPhy is what both sides were told last, -1 before.
	minPhy atomic.Int64
	recent [recentQueues]atomic.Pointer[queue]
	// accepted is the end of the last record that Append accepted, -1 without one.
	accepted atomic.Int64
	// write is held by whatever writes, and by what changes who is written to.
	write sync.Mutex
}

// side is one of the two stores.
type side struct {
	cq.Store
	kind     cq.Kind
	held     atomic.Bool
	failed   atomic.Pointer[error]
	reads    keySet // queues that are read from this side
	diverged divergences

	// Guarded by Store.write.
	gone    error      // of a write that failed during this Append; then failed
	entries []cq.Entry // those of a batch that are this side's, reused
}

// live tells whether the side is appended to and read.
func (d *side) live() bool { return !d.held.Load() && d.failed.Load() == nil }

// failure returns why the side was given up, or nil.
func (d *side) failure() error {
	if p := d.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// New combines two stores of distinct kinds and owns them from then on; on error they stay the caller's. It reads and writes nothing.
//
// Source: CombineConsumeQueueStore, 5.5.0, for what is refused.
func New(a, b cq.Store, o Options) (*Store, error) {
	if a == nil || b == nil {
		return nil, errors.New("combine consume queues: two stores are needed")
	}
	if o.Preferred == "" {
		o.Preferred = cq.KindFile
	}
	if o.Authority == "" {
		o.Authority = cq.KindFile
	}
	s := &Store{log: o.Logger, onDiverged: o.OnDiverged}
	for i, st := range []cq.Store{a, b} {
		s.sides[i] = &side{Store: st, kind: st.Kind()}
	}
	if err := s.configure(o); err != nil {
		return nil, fmt.Errorf("combine consume queues: %w", err)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.accepted.Store(-1)
	s.minPhy.Store(-1)
	return s, nil
}

func (s *Store) configure(o Options) error {
	kinds := [2]cq.Kind{s.sides[0].kind, s.sides[1].kind}
	if kinds[0] == kinds[1] {
		return fmt.Errorf("both stores are of kind %s", kinds[0])
	}
	for _, d := range s.sides {
		_, expires := d.Store.(cq.Expirer)
		_, imports := d.Store.(cq.Importer)
		if !expires || !imports {
			return fmt.Errorf("the store of kind %s can be no side: it does not expire, or does not import", d.kind)
		}
	}
	preferred, err := s.side(o.Preferred)
	if err != nil {
		return fmt.Errorf("preferred: %w", err)
	}
	authority, err := s.side(o.Authority)
	if err != nil {
		return fmt.Errorf("authority: %w", err)
	}
	if o.LightInRocks {
		if s.light, err = s.side(cq.KindRocks); err != nil {
			return fmt.Errorf("light queues in RocksDB alone: %w", err)
		}
	}
	s.preferred.Store(preferred)
	s.authority.Store(authority)
	return nil
}

// side returns the side of that kind.
func (s *Store) side(kind cq.Kind) (*side, error) {
	for _, d := range s.sides {
		if d.kind == kind {
			return d, nil
		}
	}
	return nil, fmt.Errorf("no store of kind %q is combined here, only %s and %s", kind, s.sides[0].kind, s.sides[1].kind)
}

// other returns the side that d is not.
func (s *Store) other(d *side) *side {
	if d == s.sides[0] {
		return s.sides[1]
	}
	return s.sides[0]
}

// alone returns the one side that has the queues of that key, or nil when both have.
func (s *Store) alone(k cq.Key) *side {
	if s.light != nil && k.IsLMQ() {
		return s.light
	}
	return nil
}

// Kind returns cq.KindCombine.
func (s *Store) Kind() cq.Kind { return cq.KindCombine }

// Side returns the store of that kind, for its owner to fill, verify and ask. It stays this Store's: it must not be closed.
func (s *Store) Side(kind cq.Kind) (cq.Store, bool) {
	d, err := s.side(kind)
	if err != nil {
		return nil, false
	}
	return d.Store, true
}

// Preferred returns the kind that reads are served from where it is ready.
func (s *Store) Preferred() cq.Kind { return s.preferred.Load().kind }

// PreferredOf returns the kind that a queue is read from where it is ready.
func (s *Store) PreferredOf(k cq.Key) cq.Kind { return s.prefer(k).kind }

// Authority returns the kind that says which offset comes next.
func (s *Store) Authority() cq.Kind { return s.authority.Load().kind }

// Roles say what each side is for.
type Roles struct {
	Preferred, Authority cq.Kind
	// Topics are those whose queues are preferred on the side that Preferred is not. Sorted.
	Topics []string
}

// Roles returns who has which role.
func (s *Store) Roles() Roles {
	s.write.Lock()
	defer s.write.Unlock()
	r := Roles{Preferred: s.Preferred(), Authority: s.Authority()}
	if t := s.topics.Load(); t != nil {
		r.Topics = slices.Sorted(maps.Keys(*t))
	}
	return r
}

// SetRoles gives the sides their roles, all at once: no read and no append comes in between. It returns when whatever was appended can be read from both. A side that gets something to do
// is refused that is held, has failed, or on which a queue is diverged that it is to be read from: those of all topics, or of the ones it gets.
func (s *Store) SetRoles(r Roles) error {
	s.write.Lock()
	defer s.write.Unlock()
	preferred, err := s.side(r.Preferred)
	if err != nil {
		return fmt.Errorf("set roles: preferred: %w", err)
	}
	authority, err := s.side(r.Authority)
	if err != nil {
		return fmt.Errorf("set roles: authority: %w", err)
	}
	var topics *map[string]struct{}
	if len(r.Topics) > 0 {
		m := make(map[string]struct{}, len(r.Topics))
		for _, t := range r.Topics {
			m[t] = struct{}{}
		}
		topics = &m
	}
	was, wasTopics := s.preferred.Load(), s.topics.Load()
	for _, d := range s.sides {
		reads := func(k cq.Key) bool { // that it did not read before
			return prefers(preferred, topics, k, d) && !prefers(was, wasTopics, k, d)
		}
		gains := d == authority && d != s.authority.Load() || d == preferred && (d != was || wasTopics != nil) || d != preferred && topics != nil
		if err := s.fitLocked(d, gains, reads); err != nil {
			return fmt.Errorf("set roles: the store of kind %s: %w", d.kind, err)
		}
	}
	for _, d := range s.sides {
		// One that fails, and has nothing to do any more, is given up by the next append.
		if err := s.awaitReadable(context.Background(), d); err != nil && (d == preferred || d == authority || topics != nil) {
			return fmt.Errorf("set roles: %w", err)
		}
	}
	s.preferred.Store(preferred)
	s.authority.Store(authority)
	s.topics.Store(topics)
	s.forgetReads()
	s.log.Info("combined queues switched", slog.String("preferred", string(r.Preferred)), slog.String("authority", string(r.Authority)), slog.Any("topicsOfTheOther", r.Topics))
	return nil
}

// fitLocked tells why a side cannot take more upon it, nil when it can. The caller holds write.
func (s *Store) fitLocked(d *side, gains bool, reads func(k cq.Key) bool) error {
	switch {
	case s.closed.Load():
		return cq.ErrClosed
	case !gains:
		return nil
	case d.failure() != nil:
		return fmt.Errorf("it was given up: %w", d.failure())
	case d.gone != nil:
		return fmt.Errorf("it cannot be written to: %w", d.gone)
	case d.held.Load():
		return errors.New("it is held, and lacks what was appended meanwhile")
	case d.waiting() != nil:
		return fmt.Errorf("it cannot be written to at this moment: %w", d.waiting())
	}
	return d.diverged.first(reads)
}

// prefers tells whether queue k is preferred on side d.
func prefers(preferred *side, topics *map[string]struct{}, k cq.Key, d *side) bool {
	if topics != nil {
		if _, other := (*topics)[k.Topic]; other {
			return d != preferred
		}
	}
	return d == preferred
}

// prefer returns the side that a queue is read from where it is ready.
func (s *Store) prefer(k cq.Key) *side {
	p := s.preferred.Load()
	if !prefers(p, s.topics.Load(), k, p) {
		return s.other(p)
	}
	return p
}

// SetPreferred makes reads go to that side, of all topics, queue by queue as far as it is ready. It returns when whatever was appended can be read from
// both, so that no queue seems to lose its newest units. A side that is held or has failed is refused, and so is one that cannot be written to at this moment. Whether the side has
// the right units is for the caller to have verified.
func (s *Store) SetPreferred(kind cq.Kind) error {
	return s.change("prefer", kind, func(d *side) {
		s.preferred.Store(d)
		s.topics.Store(nil)
		s.forgetReads()
	})
}

// SetAuthority gives that side the say about the next offset. A side that is held or has failed is refused.
func (s *Store) SetAuthority(kind cq.Kind) error {
	return s.change("give authority to", kind, func(d *side) { s.authority.Store(d) })
}

func (s *Store) change(what string, kind cq.Kind, set func(d *side)) error {
	s.write.Lock()
	defer s.write.Unlock()
	d, err := s.side(kind)
	switch {
	case s.closed.Load():
		err = cq.ErrClosed
	case err != nil:
	case d.failure() != nil:
		err = fmt.Errorf("it was given up: %w", d.failure())
	case d.held.Load():
		err = errors.New("it is held, and lacks what was appended meanwhile")
	case d.waiting() != nil:
		err = fmt.Errorf("it cannot be written to at this moment: %w", d.waiting())
	default:
		err = s.awaitReadable(context.Background(), s.sides[:]...)
	}
	if err != nil {
		return fmt.Errorf("%s the store of kind %s: %w", what, kind, err)
	}
	set(d)
	s.epoch.Add(1)
	s.log.Info("combined queues switched", slog.String("what", what), slog.String("kind", string(kind)))
	return nil
}

// awaitReadable waits for the live ones among the sides. One that is open read-only has nothing to wait for.
func (s *Store) awaitReadable(ctx context.Context, sides ...*side) error {
	for _, d := range sides {
		if !d.live() || d.gone != nil {
			continue
		}
		if err := d.catchUp(ctx); err != nil {
			return err
		}
	}
	return nil
}

// waiting returns why a side tries a write or a flush again, nil where it does not.
func (d *side) waiting() error {
	if w, ok := d.Store.(interface{ Waiting() error }); ok {
		return w.Waiting()
	}
	return nil
}

// Waiting returns why the side of that kind tries a write or a flush again, as while its disk is full; nil where it does not.
func (s *Store) Waiting(kind cq.Kind) error {
	d, err := s.side(kind)
	if err != nil {
		return nil
	}
	return d.waiting()
}

// catchUp waits until what was appended to a side can be read there.
func (d *side) catchUp(ctx context.Context) error {
	if err := d.AwaitReadable(ctx); err != nil && !errors.Is(err, cq.ErrReadOnly) {
		return err
	}
	return nil
}

// Hold makes Append pass the side over, and reads with it, since its owner fills it from elsewhere. An unknown kind changes nothing.
func (s *Store) Hold(kind cq.Kind) {
	s.write.Lock()
	defer s.write.Unlock()
	d, err := s.side(kind)
	if err != nil {
		return
	}
	d.held.Store(true)
	s.forgetReads()
	s.log.Info("side of combined queues held", slog.String("kind", string(kind)))
}

// Release ends a hold: the owner says that the side has everything that was appended so far, apart from the queues that are diverged on it. A side
// that has failed is refused.
func (s *Store) Release(kind cq.Kind) error {
	s.write.Lock()
	defer s.write.Unlock()
	d, err := s.side(kind)
	if err == nil {
		err = d.failure()
	}
	if err == nil {
		err = d.catchUp(context.Background())
	}
	if err != nil {
		return fmt.Errorf("release the store of kind %s: %w", kind, err)
	}
	d.held.Store(false)
	s.forgetReads()
	s.log.Info("side of combined queues released", slog.String("kind", string(kind)))
	return nil
}

// Suspend takes a side out of use, the authority as well, since its owner replaces what it has: it counts as failed, for the reason given, and as held. It returns when what was
// appended can be read from the other side, which says which offset comes next until Release. It is refused where the other side is held or has failed.
func (s *Store) Suspend(kind cq.Kind, why error) error {
	s.write.Lock()
	defer s.write.Unlock()
	d, err := s.side(kind)
	switch {
	case s.closed.Load():
		err = cq.ErrClosed
	case err != nil:
	case s.other(d).failure() != nil:
		err = fmt.Errorf("the other side was given up: %w", s.other(d).failure())
	case s.other(d).held.Load():
		err = errors.New("the other side is held")
	default:
		err = s.awaitReadable(context.Background(), s.other(d))
	}
	if err != nil {
		return fmt.Errorf("suspend the store of kind %s: %w", kind, err)
	}
	d.failed.Store(&why)
	d.held.Store(true)
	s.forgetReads()
	s.log.Warn("side of combined queues suspended", slog.String("kind", string(kind)), slog.Any("err", why))
	return nil
}

// Renew says that a suspended side was replaced by one that is empty, of which no queue is diverged. It stays held, for its owner to fill.
func (s *Store) Renew(kind cq.Kind) {
	s.write.Lock()
	defer s.write.Unlock()
	d, err := s.side(kind)
	if err != nil || !d.held.Load() {
		return
	}
	d.diverged.clear()
	d.failed.Store(nil)
	s.forgetReads()
}

// Held tells whether a side is held.
func (s *Store) Held(kind cq.Kind) bool {
	d, err := s.side(kind)
	return err == nil && d.held.Load()
}

// Failure returns why a side was given up; nil when it was not.
func (s *Store) Failure(kind cq.Kind) error {
	d, err := s.side(kind)
	if err != nil {
		return nil
	}
	return d.failure()
}

// expendable tells whether the combined store can go on without d.
func (s *Store) expendable(d *side) bool {
	return d != s.authority.Load() && s.other(d).live() && s.other(d).gone == nil
}

// giveUpLocked ends the use of a side, having waited until what was appended before can be read from the other one. The caller holds write.
func (s *Store) giveUpLocked(d *side, err error) {
	_ = s.awaitReadable(context.Background(), s.other(d)) // its failure is told by the next Append
	if !d.failed.CompareAndSwap(nil, &err) {
		return
	}
	s.forgetReads()
	s.log.Error("side of combined queues given up", slog.String("kind", string(d.kind)), slog.Any("err", err))
}

// forgetReads makes every queue be looked at again when it is next read.
func (s *Store) forgetReads() {
	for _, d := range s.sides {
		d.reads.clear()
	}
	s.epoch.Add(1)
}
