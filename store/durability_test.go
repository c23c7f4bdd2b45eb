package store

import (
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/message"
)

// A sync that fails is told to who waits for it, forbids puts from then on and after a restart, and leaves reads alone, until an operator who has looked
// at the disk says that it is over: by Clear, or by removing the file while the store is closed.
func TestFRA06FailedSyncForbidsPutsUntilCleared(t *testing.T) {
	for name, clearIt := range map[string]func(t *testing.T, s *Store, fsys *faultfs.FS) *Store{
		"cleared": func(t *testing.T, s *Store, _ *faultfs.FS) *Store {
			require.NoError(t, s.Flags().Clear(FlagNotWriteable))
			return s
		},
		"file removed": func(t *testing.T, s *Store, fsys *faultfs.FS) *Store {
			require.NoError(t, s.Close())
			s, err := Open(faultRoot, faultOptions(clearFlags(fsys)))
			require.NoError(t, err)
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := faultfs.New(faultfs.Options{})
			fsys.MkdirAll("/data")
			o := faultOptions(fsys)
			require.Equal(t, SyncFlush, o.FlushDiskType)
			s, err := Open(faultRoot, o)
			require.NoError(t, err)
			_, err = s.Put(t.Context(), newMessage("T"))
			require.NoError(t, err)
			var failing atomic.Bool
			failing.Store(true)
			fsys.Inject(func(op faultfs.Op) error {
				if op.Kind == faultfs.Datasync && op.Path == faultRoot+"/commitlog/00000000000000000000" && failing.Load() {
					return syscall.EIO
				}
				return nil
			})
			_, err = s.Put(t.Context(), newMessage("T"))
			require.ErrorIs(t, err, PutUnknownError)
			require.ErrorIs(t, err, syscall.EIO)
			failing.Store(false)
			s.background.Wait() // the flag is written
			for range 2 {
				_, err = s.Put(t.Context(), newMessage("T"))
				require.ErrorIs(t, err, PutServiceNotAvailable)
				require.ErrorIs(t, err, syscall.EIO)
			}
			require.NoError(t, s.Flags().Clear(FlagNotWriteable))
			_, err = s.Put(t.Context(), newMessage("T"))
			require.ErrorIs(t, err, syscall.EIO, "it takes no more before it is opened again")
			require.NoError(t, s.Flags().Set(FlagNotWriteable, "input/output error"))
			require.ErrorIs(t, s.Close(), syscall.EIO)

			s, err = Open(faultRoot, faultOptions(fsys))
			require.NoError(t, err)
			_, err = s.Put(t.Context(), newMessage("T"))
			require.ErrorIs(t, err, PutServiceNotAvailable)
			require.ErrorContains(t, err, "NOT_WRITEABLE")
			require.ErrorContains(t, err, "input/output error")
			var r message.Record
			release, err := s.Log().Read(0, 0, true, &r)
			require.NoError(t, err, "reads go on")
			release()
			s = clearIt(t, s, fsys)
			_, err = s.Put(t.Context(), newMessage("T"))
			require.NoError(t, err)
			require.NoError(t, s.Close())
		})
	}
}
