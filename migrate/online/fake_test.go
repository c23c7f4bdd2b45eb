package online

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// fake is an open store whose sides are as a test says.
type fake struct {
	mu       sync.Mutex
	roles    store.SideRoles
	sides    map[cq.Kind]store.SideState
	keys     []cq.Key
	max      map[cq.Key]int64
	differ   map[cq.Key]string
	at       map[cq.Key]int64  // the slots in which they differ; nil: it is found whatever is compared
	alone    map[cq.Key]string // what differs from the log, on the side that was checked last
	checked  cq.Kind
	kept     []cq.Key
	lost     map[cq.Kind][]string // files
	keepErr  error
	mending  bool
	unclean  bool
	rolesErr error
	appended int64
	begins   []int64 // from where the last comparison began, by queue
	single   bool
	shadow   store.ShadowReads
	topics   []store.TopicUnits
	looks    int
	block    chan struct{} // a comparison waits for it
}

var (
	keyA = cq.Key{Topic: "a", QueueID: 0}
	keyB = cq.Key{Topic: "b", QueueID: 1}
)

func newFake() *fake {
	f := &fake{
		roles: store.SideRoles{Preferred: cq.KindFile, Authority: cq.KindFile}, keys: []cq.Key{keyA, keyB}, max: map[cq.Key]int64{keyA: 10, keyB: 5}, differ: map[cq.Key]string{}, appended: 1000,
	}
	f.sides = map[cq.Kind]store.SideState{cq.KindFile: {Kind: cq.KindFile}, cq.KindRocks: {Kind: cq.KindRocks}}
	return f
}

// set changes the fake.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) side(kind cq.Kind, s store.SideState) {
	f.set(func() {
		s.Kind = kind
		f.sides[kind] = s
	})
}

func (f *fake) SideRoles() (store.SideRoles, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.single {
		return store.SideRoles{}, store.ErrNotCombined
	}
	return f.roles, nil
}

func (f *fake) SetSideRoles(r store.SideRoles) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rolesErr != nil {
		return f.rolesErr
	}
	f.roles = r
	return nil
}

func (f *fake) LostFiles(_ context.Context, kind cq.Kind) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost[kind], nil
}

func (f *fake) SideStates() (map[cq.Kind]store.SideState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.single {
		return nil, store.ErrNotCombined
	}
	return map[cq.Kind]store.SideState{cq.KindFile: f.sides[cq.KindFile], cq.KindRocks: f.sides[cq.KindRocks]}, nil
}

func (f *fake) Units(topic string, queueID int32, from int64, dst []cq.Unit) (int, cq.Bounds, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.max[cq.Key{Topic: topic, QueueID: queueID}]
	got := 0
	for ; got < len(dst) && from+int64(got) < n; got++ {
		dst[got] = cq.Unit{PhyOffset: 300 * (from + int64(got)), Size: 300, TagsCode: 1, StoreTimestampMs: cq.NoTimestamp}
	}
	return got, cq.Bounds{Max: n}, n > 0, nil
}

func (f *fake) VerifySides(ctx context.Context, o store.VerifySidesOptions, each func(v *store.SideVerdict) error) error {
	f.mu.Lock()
	block := f.block
	f.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begins = nil
	for _, k := range f.keys {
		if o.Only != nil && !o.Only(k) {
			continue
		}
		for _, s := range f.sides {
			if s.Filling != nil || s.Failure != nil {
				return store.ErrRebuilding
			}
		}
		v := &store.SideVerdict{Key: k, Bounds: cq.Bounds{Max: f.max[k]}, To: f.max[k]}
		if o.Begin != nil {
			v.From, v.CRC = o.Begin(k)
			v.From = min(v.From, v.To)
		}
		f.begins = append(f.begins, v.From)
		v.Units = v.To - v.From
		v.CRC += uint32(v.Units)
		if what := f.differ[k]; what != "" && (f.at == nil || v.From <= f.at[k]) {
			v.Different, v.Found, v.Mending = 1, []store.Finding{{Class: "wrong-position", From: 3, To: 4, What: what}}, f.mending
		}
		if err := each(v); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (f *fake) CheckSide(_ context.Context, kind cq.Kind, o store.VerifySidesOptions, each func(v *store.SideVerdict) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked = kind
	for _, k := range f.keys {
		v := &store.SideVerdict{Key: k, Bounds: cq.Bounds{Max: f.max[k]}, To: f.max[k], Units: f.max[k]}
		if what := f.alone[k]; what != "" && (o.Kept == nil || o.Kept(k) < f.max[k]) {
			v.Different, v.Found = 1, []store.Finding{{Class: "wrong-position", Side: kind, From: 3, To: 4, What: what}}
		}
		if err := each(v); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) KeepSide(_ context.Context, k cq.Key, kind cq.Kind) (store.KeptSide, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keepErr != nil {
		return store.KeptSide{}, f.keepErr
	}
	if kind == "" {
		kind = f.roles.Preferred
	}
	f.kept = append(f.kept, k)
	delete(f.differ, k)
	return store.KeptSide{Key: k, Side: kind, To: f.max[k], Copied: f.max[k]}, nil
}

func (f *fake) RebuildQueue(cq.Key) error { return f.keepErr }

func (f *fake) Watermarks() store.Watermarks {
	f.mu.Lock()
	defer f.mu.Unlock()
	return store.Watermarks{Appended: f.appended, Views: map[string]store.ViewMark{
		"file queues": {Dispatched: f.appended}, "rocks queues": {Dispatched: f.appended, BehindBytes: 7, BehindMs: 70},
	}}
}

func (f *fake) Queues() ([]cq.Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.keys), nil
}

func (f *fake) Bounds(k cq.Key) (cq.Bounds, bool, error) {
	return cq.Bounds{Max: f.max[k]}, true, nil
}

func (f *fake) ShadowReads() store.ShadowReads {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shadow
}

func (f *fake) TopicUnits(context.Context) ([]store.TopicUnits, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	if f.single {
		return nil, store.ErrNotCombined
	}
	return slices.Clone(f.topics), nil
}

func (f *fake) OpenedUnclean() bool { return f.unclean }

// openFake opens a migration of a fake store at root.
func openFake(t *testing.T, f *fake, root string, change func(o *Options)) *Migration {
	t.Helper()
	o := Options{Root: root, Kind: cq.KindCombine, Actor: "test", Tick: time.Millisecond}
	if f.single {
		o.Kind = f.roles.Preferred
	}
	if change != nil {
		change(&o)
	}
	m, err := Open(f, o)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

func awaitPhase(t *testing.T, m *Migration, p state.Phase) {
	t.Helper()
	require.Eventually(t, func() bool { return m.Status().Phase == p }, 20*time.Second, time.Millisecond, "want %s, is %+v", p, m.Status())
}

// verified is a fake store whose migration from files to RocksDB is verified.
func verified(t *testing.T) (*fake, *Migration, string) {
	f, root := newFake(), t.TempDir()
	m := openFake(t, f, root, nil)
	require.NoError(t, m.Begin(t.Context(), "me", BeginOptions{}))
	awaitPhase(t, m, state.Verified)
	return f, m, root
}

func requireRefused(t *testing.T, err error, want string) {
	t.Helper()
	var r *migrate.RefusedError
	require.ErrorAs(t, err, &r)
	require.ErrorContains(t, err, want)
}

// reload is what the file says.
func reload(t *testing.T, root string) *state.State {
	t.Helper()
	st, err := state.Load(filepath.Join(root, "tandemmq"))
	require.NoError(t, err)
	return st
}

var errDisk = errors.New("no disk")

// requireNoted requires a text in the history. What a migration sees by itself may be noted behind it at any time.
func requireNoted(t *testing.T, m *Migration, want string) {
	t.Helper()
	var notes []string
	for _, e := range m.Status().History {
		notes = append(notes, e.Note)
	}
	require.Contains(t, strings.Join(notes, "\n"), want)
}
