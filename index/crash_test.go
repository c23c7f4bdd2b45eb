package index

import (
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/internal/testenv"
	"github.com/tandemq/tandemmq/message"
)

// life is a run of an index that is fed, flushed and cut as a store does.
type life struct {
	fsys      *faultfs.FS
	x         *Index
	log       []message.DispatchRequest // what the log holds now
	safe      int64                     // phyOffset of the last message with keys before the last one that a Flush covered; -1
	flushedTo int64                     // the checkpoint
	batches   int                       // given to Append
	later     int64                     // ms from startMs to the time of the last messages
	point     func()                    // called between any two steps
}

// run feeds three files, then has the log cut in the middle of the second and the clock set back. Other messages follow, and in
// their midst the clock is set again, by later.
func (l *life) run(open func() (*Index, error)) (err error) {
	if l.x, err = open(); err != nil {
		return err
	}
	first := traffic(1, 900, 100, startMs)
	if err := l.feed(first); err != nil {
		return err
	}
	at := 480
	cut := first[at].PhyOffset
	l.log = first[:at:at]
	l.safe = min(l.safe, first[at-3].PhyOffset)
	if err := l.x.TruncateDirty(cut); err != nil {
		return err
	}
	l.point()
	second := traffic(2, 150, cut, startMs-50_000)
	if err := l.feed(second); err != nil {
		return err
	}
	if err := l.feed(traffic(3, 270, second[149].PhyOffset+100, startMs+l.later)); err != nil {
		return err
	}
	return l.x.Flush()
}

func (l *life) feed(batch []message.DispatchRequest) error {
	l.log = append(l.log, batch...)
	for i := 0; i < len(batch); i += 30 {
		end := min(i+30, len(batch))
		if err := l.x.Append(batch[i:end]); err != nil {
			return err
		}
		l.point()
		if l.batches++; l.batches%7 != 0 {
			continue
		}
		before := l.safeBelow(l.x.DispatchFrom())
		if err := l.x.Flush(); err != nil {
			return err
		}
		l.safe = before
		l.flushedTo = max(l.flushedTo, l.x.IndexMsgTimestampMs())
		l.point()
	}
	return nil
}

// safeBelow returns the last message with keys below phy.
func (l *life) safeBelow(phy int64) int64 {
	safe := int64(-1)
	for i := range l.log {
		if r := &l.log[i]; r.PhyOffset < phy && (r.UniqKey != nil || len(r.Keys) > 0 || len(r.Properties) > 0) {
			safe = r.PhyOffset
		}
	}
	return safe
}

// recover opens what a crash left, replays the log and compares with an index that never stopped.
func (l *life) recover(t *testing.T, left *faultfs.FS, want [][]byte, what string) {
	o := smallFiles(left)
	o.Unclean, o.FlushedToMs = true, l.flushedTo
	x, err := Open(testDir, o)
	require.NoError(t, err, what)
	require.NoError(t, x.TruncateDirty(l.log[len(l.log)-1].PhyOffset+1), what)
	from := x.DispatchFrom()
	require.GreaterOrEqual(t, from, l.safe, "%s: flushed entries are lost: %v", what, x.Repairs())
	require.NoError(t, x.Append(since(l.log, from)), what)
	require.Empty(t, x.Verify(), what)
	requireImages(t, want, x, what)
	require.NoError(t, x.Close(), what)
}

// crashes yields what a loss of power now may leave: everything old, everything new, each page alone old or new against all others,
// each file old and all others new, and two mixtures.
func (l *life) crashes(seed uint64) iter.Seq[*faultfs.FS] {
	return func(yield func(*faultfs.FS) bool) {
		for one, c := range l.fsys.Dirty() {
			if c.Kind != faultfs.Page {
				continue
			}
			for _, fate := range []faultfs.Fate{faultfs.FateOld, faultfs.FateNew} {
				at := -1
				left := l.fsys.Crash(func(faultfs.Change) faultfs.Fate {
					if at++; at == one {
						return fate
					}
					return faultfs.FateNew - fate
				})
				if !yield(left) {
					return
				}
			}
		}
		for _, f := range l.x.files {
			left := l.fsys.Crash(func(c faultfs.Change) faultfs.Fate {
				if c.Kind == faultfs.Page && c.Path == f.path {
					return faultfs.FateOld
				}
				return faultfs.FateNew
			})
			if !yield(left) {
				return
			}
		}
		_ = yield(l.fsys.CrashSeed(0)) && yield(l.fsys.CrashSeed(1)) && yield(l.fsys.CrashSeed(2*seed+2)) && yield(l.fsys.CrashSeed(2*seed+3))
	}
}

// TestI1FRE01PowerLoss loses power between any two operations and batches, in many ways. What Flush covered comes back but for one
// message, and after a replay of the log from DispatchFrom every byte is as if nothing had happened: no entry is missing,
// none is there twice (I1, I8, FR-E01, FR-E05).
func TestI1FRE01PowerLoss(t *testing.T) {
	for name, later := range map[string]int64{"clock stays back": -40_000, "clock is put right": 1_000_000} {
		t.Run(name, func(t *testing.T) {
			points := 0
			l := &life{fsys: newFS(), safe: -1, later: later}
			wants := map[string][][]byte{}
			crash := func() {
				if points++; testenv.Race && points%5 != 0 {
					return
				}
				key := fmt.Sprint(len(l.log), l.log[len(l.log)-1].StoreTimestampMs)
				want, ok := wants[key]
				if !ok {
					want = reference(t, l.log)
					wants[key] = want
				}
				for left := range l.crashes(uint64(points)) {
					l.recover(t, left, want, fmt.Sprintf("point %d, %s", points, left))
				}
			}
			l.point = crash
			l.fsys.Inject(func(op faultfs.Op) error {
				if op.Kind.Changes() && len(l.log) > 0 {
					crash()
				}
				return nil
			})
			require.NoError(t, l.run(func() (*Index, error) { return Open(testDir, smallFiles(l.fsys)) }))
			require.NoError(t, l.x.Close())
			require.Greater(t, points, 80)
		})
	}
}

// TestPowerLossInRecovery loses power again while Open repairs.
func TestPowerLossInRecovery(t *testing.T) {
	l := &life{fsys: newFS(), safe: -1, point: func() {}}
	var err error
	l.x, err = Open(testDir, smallFiles(l.fsys))
	require.NoError(t, err)
	require.NoError(t, l.feed(traffic(1, 900, 100, startMs)))
	want := reference(t, l.log)
	l.safe = l.safeBelow(l.safe) // each recovery may give up a message
	for seed := range uint64(40) {
		left := l.fsys.CrashSeed(seed)
		stop := errors.New("power is gone")
		for k := 0; ; k++ {
			again, n := left.Clone(), 0
			again.Inject(func(op faultfs.Op) error {
				if op.Kind.Changes() {
					if n++; n > k {
						return stop
					}
				}
				return nil
			})
			o := smallFiles(again)
			o.Unclean, o.FlushedToMs = true, l.flushedTo
			x, err := Open(testDir, o)
			if err == nil {
				require.NoError(t, x.closeFiles())
				break
			}
			require.ErrorIs(t, err, stop)
			require.Zero(t, again.OpenFiles())
			require.Zero(t, again.Mappings())
			l.recover(t, again.CrashSeed(seed*31+uint64(k)), want, fmt.Sprintf("seed %d, operation %d, %s", seed, k, again))
		}
	}
}

// TestEachOperationFails fails one operation after the other. What then is no ErrFailed can be tried again; what is, recovers as after
// a crash. Neither loses or repeats an entry (I4).
func TestEachOperationFails(t *testing.T) {
	boom := errors.New("boom")
	for k := 0; ; k++ {
		l := &life{fsys: newFS(), safe: -1, point: func() {}}
		n, failed := 0, ""
		l.fsys.Inject(func(op faultfs.Op) error {
			if n++; n == k+1 {
				failed = op.String()
				return boom
			}
			return nil
		})
		err := l.run(func() (*Index, error) { return Open(testDir, smallFiles(l.fsys)) })
		if failed == "" {
			require.NoError(t, err)
			require.NoError(t, l.x.Close())
			require.Greater(t, k, 40)
			return
		}
		switch what := fmt.Sprintf("operation %d: %s", k, failed); {
		case err == nil: // nobody needed it
		case l.x == nil:
			require.ErrorIs(t, err, boom, what)
			require.Zero(t, l.fsys.OpenFiles(), what)
			require.Zero(t, l.fsys.Mappings(), what)
		case errors.Is(err, ErrFailed):
			require.ErrorIs(t, err, boom, what)
			require.ErrorIs(t, l.x.Append(l.log), ErrFailed, what)
			require.ErrorIs(t, l.x.Flush(), ErrFailed, what)
			require.ErrorIs(t, l.x.Close(), ErrFailed, what)
			require.Zero(t, l.fsys.Mappings(), what)
			l.recover(t, l.fsys.CrashSeed(uint64(k)), reference(t, l.log), what)
		default:
			require.ErrorIs(t, err, boom, what)
			require.NoError(t, l.x.Append(since(l.log, l.x.DispatchFrom())), what)
			requireImages(t, reference(t, l.log), l.x, what)
			require.NoError(t, l.x.Close(), what)
		}
	}
}
