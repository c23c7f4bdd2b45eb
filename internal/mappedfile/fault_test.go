package mappedfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
)

// session uses a queue in every way there is, over a filesystem that fails or loses power. It knows what has to be found
// again: bytes [min, min+len(durable)) of the run.
type session struct {
	t       *testing.T
	fs      *faultfs.FS
	q       *Queue
	all     []byte // what was written, from position 0 on
	durable []byte // synced, from position 0 on
	min     int64  // below it files may have been removed
	sticky  error
	errs    int
	mayStay bool // unlinking fails too
}

const sessionFile = 2 * faultfs.PageBytes

var sessionOptions = Options{Writable: true, FileSize: sessionFile, MoreDirs: []string{"/store/b"}}

func newSession(t *testing.T, allocate bool) *session {
	fsys := faultfs.New(faultfs.Options{})
	o := sessionOptions
	o.FS, o.Allocate = fsys, allocate
	q, err := Open("/store/a", o)
	require.NoError(t, err)
	return &session{t: t, fs: fsys, q: q}
}

// run goes on after errors, as an owner might.
func (s *session) run() {
	s.step("write over three files", func() error { return s.write(5000 + 2*sessionFile) }, true)
	s.sync()
	end := s.q.EndOffset()
	s.ahead(end)
	s.step("write in a file made ahead", func() error { return s.write(max(int(s.q.EndOffset())-len(s.all), 1)) }, true)
	s.step("remove", s.removeFirst, false)
	s.sync()
	s.step("remove", s.removeFirst, false)
	s.step("write", func() error { return s.write(100) }, true)
	s.cut(int64(len(s.all)) - 50)
	s.cut(int64(len(s.all)) - sessionFile - 1000)
	s.step("write again", func() error { return s.write(3000) }, true)
	s.sync()
	require.NoError(s.t, s.q.Close())
}

// step does one thing and holds its error against what is documented: errors of the disk stick, from those operations that
// say so, and come back from all later ones.
func (s *session) step(name string, do func() error, sticks bool) {
	err := do()
	if err == nil {
		require.NoError(s.t, s.sticky, "%s forgot the error", name)
		return
	}
	s.errs++
	var de dirSyncError
	switch {
	case strings.Contains(err.Error(), "made ahead"), strings.Contains(err.Error(), "not the next"): // after a failed Discard or Create
	case s.sticky != nil && name != "discard":
		require.ErrorIs(s.t, err, s.sticky, name)
	case sticks || errors.As(err, &de):
		if s.sticky == nil {
			s.sticky = err
		}
	}
}

func (s *session) write(n int) error {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte((len(s.all)+i)%251 + 1)
	}
	err := s.q.WriteAt(b, int64(len(s.all)))
	if err == nil {
		s.all = append(s.all, b...)
	}
	return err
}

func (s *session) sync() {
	s.step("sync", func() error {
		n := len(s.all)
		err := s.q.Sync()
		if err == nil {
			s.durable = s.all[:n:n]
		}
		return err
	}, true)
}

// ahead makes two files at end, adopts the first, stores into it and takes the second back.
func (s *session) ahead(end int64) {
	if end < 0 {
		return
	}
	var first, second *File
	s.step("create", func() (err error) { first, err = s.q.Create(end); return err }, false)
	if first == nil {
		s.gone(end)
		return
	}
	s.step("create", func() (err error) { second, err = s.q.Create(end + sessionFile); return err }, false)
	s.step("adopt", func() error { return s.q.Adopt(first) }, false)
	if second == nil {
		s.gone(end + sessionFile)
		return
	}
	for range 2 { // the second call is for an unlink that failed
		if len(s.q.mu.made) > 0 {
			s.step("discard", func() error { return s.q.Discard(s.q.mu.made[len(s.q.mu.made)-1]) }, false)
		}
	}
}

// gone checks that a failed Create left no file.
func (s *session) gone(from int64) {
	if s.mayStay {
		return
	}
	for _, dir := range s.q.dirs() {
		entries, err := s.fs.Clone().ReadDir(dir)
		if err != nil {
			continue // not made
		}
		for _, e := range entries {
			require.NotEqual(s.t, Name(from), e.Name(), "left behind in %s", dir)
		}
	}
}

func (s *session) removeFirst() error {
	if files := s.q.Files(); len(files) > 1 {
		s.min = files[1].From()
	}
	return s.q.RemoveFirst()
}

func (s *session) cut(off int64) {
	if off < 0 {
		return
	}
	s.durable = s.durable[:min(int(off), len(s.durable))]
	s.step("truncate", func() error {
		err := s.q.Truncate(off)
		if err == nil {
			s.all = s.all[:min(int(off), len(s.all))]
		}
		return err
	}, true)
}

// check opens what is on fsys and looks for the durable bytes.
func (s *session) check(fsys *faultfs.FS, when fmt.Stringer) {
	o := sessionOptions
	o.FS, o.Writable = fsys, false
	q, err := Open("/store/a", o)
	require.NoError(s.t, err, "%v: %v", when, fsys)
	defer func() { require.NoError(s.t, q.Close()) }()
	if int64(len(s.durable)) <= s.min {
		return
	}
	require.True(s.t, q.MinOffset() >= 0 && q.MinOffset() <= s.min && q.EndOffset() >= int64(len(s.durable)),
		"%v: run [%d, %d), want [%d, %d): %v", when, q.MinOffset(), q.EndOffset(), s.min, len(s.durable), fsys)
	got := content(s.t, q)[s.min-q.MinOffset() : int64(len(s.durable))-q.MinOffset()]
	require.True(s.t, bytes.Equal(got, s.durable[s.min:]), "%v: lost bytes: %v", when, fsys)
}

// TestFailEachOperation fails operation k, for every k: alone, and with all after it.
func TestFailEachOperation(t *testing.T) {
	for _, allocate := range []bool{false, true} {
		for _, forever := range []bool{false, true} {
			for k, failed := int64(0), true; failed; k++ {
				t.Run(fmt.Sprintf("allocate=%v/forever=%v/op=%d", allocate, forever, k), func(t *testing.T) {
					s := newSession(t, allocate)
					s.mayStay = forever
					failed = failAt(s, k, forever)
				})
				require.Less(t, k, int64(1000))
			}
		}
	}
}

// failAt runs a session with operation k failing; false when there was none.
func failAt(s *session, k int64, forever bool) bool {
	var hit faultfs.Op
	failed, first := false, s.fs.Ops()
	s.fs.Inject(func(op faultfs.Op) error {
		if op.Index == first+k || forever && op.Index > first+k {
			if !failed {
				hit, failed = op, true
			}
			return syscall.EIO
		}
		return nil
	})
	s.run()
	s.fs.Inject(nil)
	if failed && hit.Kind != faultfs.Advise {
		require.Positive(s.t, s.errs, "%v went unnoticed", hit)
	}
	require.Zero(s.t, s.fs.OpenFiles(), hit)
	require.Zero(s.t, s.fs.Mappings(), hit)
	s.check(s.fs, hit)
	for seed := range uint64(20) {
		s.check(s.fs.CrashSeed(seed), hit)
	}
	return failed
}

// TestCrashAtEachOperation loses power before operation k, for every k.
func TestCrashAtEachOperation(t *testing.T) {
	for _, allocate := range []bool{false, true} {
		t.Run(fmt.Sprintf("allocate=%v", allocate), func(t *testing.T) {
			s := newSession(t, allocate)
			crashes := 0
			s.fs.Inject(func(op faultfs.Op) error {
				if op.Kind.Changes() {
					for left := range s.fs.CrashAll() {
						crashes++
						s.check(left, op)
					}
				}
				return nil
			})
			s.run()
			require.Zero(t, s.errs)
			require.Greater(t, crashes, 300)
		})
	}
}
