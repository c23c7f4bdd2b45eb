//go:build cgo

package rocks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/rocks"
)

// damageTables flips bytes in the first block of every table file of a database that is open.
func damageTables(t *testing.T, dir string) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, name := range tables {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		require.NoError(t, err)
		var b [8]byte
		_, err = f.ReadAt(b[:], 16)
		require.NoError(t, err)
		for i := range b {
			b[i] ^= 0x5a
		}
		_, err = f.WriteAt(b[:], 16)
		require.NoError(t, errors.Join(err, f.Close()))
	}
}

// moveAll moves the files of a database elsewhere.
func moveAll(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// A block that is damaged while the database is open is told once, by whoever meets it: a reader, a search, a writer behind a merge that has met it. After Replace the same
// Store has an empty database, the queues that were handed out go on, and damage is told anew.
func TestReplaceOfADamagedDatabase(t *testing.T) {
	for name, meet := range map[string]func(s *Store, q cq.Queue) error{
		"read": func(_ *Store, q cq.Queue) error { _, err := q.Read(0, make([]cq.Unit, 8)); return err },
		"min":  func(s *Store, q cq.Queue) error { _ = s.SetMinPhyOffset(500_000); _, err := q.Bounds(); return err },
		"merge": func(s *Store, _ cq.Queue) error {
			_ = s.Compact(context.Background(), nil)
			return s.appendErr(2000, 2001)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var told []error
			o := testOptions()
			o.TailBytes = -1
			o.OnDamage = func(err error) { told = append(told, err) }
			s := openNew(t, o)
			for i := range 2 {
				appendAll(t, s, entries(keyT, 0, 2000))
				require.NoError(t, s.Flush(t.Context()))
				q, ok := s.Queue(keyT)
				require.True(t, ok)
				damageTables(t, s.dir)
				if i > 0 { // the log's min has risen
					require.NoError(t, s.SetMinPhyOffset(600_000))
				}
				require.ErrorIs(t, meet(s, q), cq.ErrCorrupt)
				_, err := q.Read(0, make([]cq.Unit, 8))
				require.ErrorIs(t, err, cq.ErrCorrupt)
				require.Len(t, told, i+1)
				require.ErrorContains(t, told[i], "block checksum mismatch")

				require.EqualValues(t, 2000, s.NextSlots()[keyT])
				aside := t.TempDir()
				require.NoError(t, s.Replace(t.Context(), func(dir string) error { return moveAll(dir, aside) }))
				require.FileExists(t, filepath.Join(aside, "CURRENT"))
				require.EqualValues(t, -1, s.DispatchFrom())
				require.NoError(t, s.Failure())
				_, ok = s.Queue(keyT)
				require.False(t, ok)
				b, err := q.Bounds()
				require.NoError(t, err)
				require.Zero(t, b.Max)
				appendAll(t, s, entries(keyT, 1000, 1003))
				require.NoError(t, s.Flush(t.Context()))
				requireUnits(t, s, keyT, 1000, units(1000, 1003))
				b, err = q.Bounds()
				require.NoError(t, err)
				require.EqualValues(t, 1003, b.Max)
				require.NoError(t, s.DropQueue(t.Context(), keyT))
				s = reopen(t, s, o)
			}
		})
	}
}

// appendErr appends units to keyT and returns why they cannot be written, if they cannot.
func (s *Store) appendErr(from, to int64) error {
	return errors.Join(s.Append(context.Background(), entries(keyT, from, to)), s.AwaitReadable(context.Background()))
}

// A write that meets damage is not tried again; a full disk is waited for, and is no damage.
func TestDamageIsToldFromAFullDisk(t *testing.T) {
	for text, damaged := range map[string]bool{
		"Corruption: block checksum mismatch: stored = 1, computed = 2  in 000009.sst":     true,
		"IO error: No such file or directory: While open a file for appending: 000009.sst": true,
		"IO error: No space left on device: While appending to file: 000009.sst":           false,
		"IO error: While pread offset 0 len 4096: 000009.sst: Input/output error":          false,
		"Shutdown in progress: ": false,
	} {
		var told atomic.Int64
		o := quickOptions()
		o.OnDamage = func(error) { told.Add(1) }
		g := &gate{err: &rocks.Error{Op: "write to", Text: text}}
		s := newGated(t, o, g)
		g.fail.Store(2)
		err := s.appendErr(0, 3)
		if damaged {
			require.ErrorIs(t, err, cq.ErrCorrupt, text)
			require.EqualValues(t, 1, g.writes.Load(), text)
			require.EqualValues(t, 1, told.Load(), text)
			require.Error(t, s.Close())
			continue
		}
		require.NoError(t, err, text)
		require.Zero(t, told.Load(), text)
	}
}

// A Replace that fails leaves a store that says so, and can be tried again; readers and writers that are at it meanwhile see the old units, the new ones, or an error, and end.
func TestReplaceUnderLoad(t *testing.T) {
	o := testOptions()
	s := openNew(t, o)
	appendAll(t, s, entries(keyT, 0, 2000))
	require.NoError(t, s.Flush(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	other := cq.Key{Topic: "other"}
	q, _ := s.Queue(keyT)
	load.Go(func() {
		for i := int64(0); ctx.Err() == nil; {
			if err := s.Append(ctx, entries(other, i, i+1)); err == nil {
				i++
			} else if _, ok := s.Queue(other); !ok {
				i = 0
			}
		}
	})
	load.Go(func() {
		for ctx.Err() == nil {
			_ = s.Flush(ctx)
			_ = s.AwaitReadable(ctx)
		}
	})
	var wrong atomic.Int64
	load.Go(func() {
		var u [1]cq.Unit
		for ctx.Err() == nil {
			n, err := q.Read(1500, u[:])
			if err == nil && (n != 1 || u[0] != unit(1500)) {
				wrong.Add(1)
			}
			if b, err := q.Bounds(); err == nil && b.Max != 0 && b.Min != 0 {
				wrong.Add(1)
			}
		}
	})
	for i := range 20 {
		no := errors.New("no")
		require.ErrorIs(t, s.Replace(t.Context(), func(string) error { return no }), no)
		require.ErrorIs(t, s.Failure(), no)
		_, err := q.Read(0, make([]cq.Unit, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, cq.ErrClosed)
		aside := t.TempDir()
		require.NoError(t, s.Replace(t.Context(), func(dir string) error { return moveAll(dir, aside) }))
		appendAll(t, s, entries(keyT, 0, 2000), "round %d", i)
	}
	stop()
	load.Wait()
	require.Zero(t, wrong.Load())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Replace(t.Context(), nil), cq.ErrClosed)
}

// A queue refuses a unit in the middle of an Append: the checkpoint row, which is flushed with what comes behind it, does not pass that record until the owner has noted the queue.
func TestCheckpointWaitsForWhatWasRefused(t *testing.T) {
	other := cq.Key{Topic: "other"}
	at := func(k cq.Key, slot, phy int64) cq.Entry {
		return cq.Entry{Key: k, QueueOffset: slot, Unit: cq.Unit{PhyOffset: phy, Size: 100, StoreTimestampMs: 1}}
	}
	for name, refused := range map[string]cq.Entry{
		"gap":      at(keyT, 5, 1000),
		"conflict": at(keyT, 0, 1000),
		"no unit":  {Key: keyT, QueueOffset: 1, Unit: cq.Unit{PhyOffset: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openNew(t, testOptions())
			appendAll(t, s, []cq.Entry{at(keyT, 0, 0), at(other, 0, 500)})
			require.Error(t, s.Append(t.Context(), []cq.Entry{at(other, 1, 600), refused, at(other, 2, 1100)}))
			appendAll(t, s, []cq.Entry{at(other, 2, 1100)})
			require.NoError(t, s.Flush(t.Context()))
			require.EqualValues(t, 1200, s.DispatchFrom(), "of this process")
			copied := filepath.Join(t.TempDir(), "cq")
			require.NoError(t, os.CopyFS(copied, os.DirFS(s.dir)))
			killed := openAt(t, copied, testOptions())
			require.LessOrEqual(t, killed.DispatchFrom(), int64(1000))
			require.NoError(t, killed.TruncateDirty(t.Context(), 5000))
			require.LessOrEqual(t, killed.DispatchFrom(), int64(1000))

			require.NoError(t, s.TruncateDirty(t.Context(), 1150))
			require.LessOrEqual(t, s.row(), int64(1000), "a cut does not raise it")
			s.Noted()
			appendAll(t, s, []cq.Entry{at(other, 3, 1200)})
			s = reopen(t, s, testOptions())
			require.EqualValues(t, 1300, s.DispatchFrom())
		})
	}
}
