package commitlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

const repairAside = "/aside/broken"

// load writes the builder's files into a filesystem, durably.
func (b *builder) load(fsys *faultfs.FS) {
	fsys.MkdirAll(lossDir)
	for i, p := range b.files {
		f, err := fsys.OpenFile(b.path(lossDir, i), os.O_CREATE|os.O_RDWR, 0o644)
		require.NoError(b.t, err)
		_, err = f.WriteAt(p, 0)
		require.NoError(b.t, err)
		require.NoError(b.t, f.Datasync())
		require.NoError(b.t, f.Close())
	}
	require.NoError(b.t, fsys.SyncDir(lossDir))
}

// repairAll repairs what there is to repair, and tells whether there was anything.
func repairAll(fsys *faultfs.FS, mend bool) (found bool, err error) {
	r, err := OpenRecovery(RecoveryOptions{FS: fsys, Dir: lossDir, SetAsideDir: repairAside})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	s, err := r.Survey(context.Background())
	if err != nil || len(s.Damage) == 0 {
		return false, err
	}
	if mend {
		_, err = r.Mend(context.Background(), s)
	} else {
		_, err = r.AcceptLoss(context.Background(), s)
	}
	return true, err
}

// requireRepaired requires that the log ends as it should, and that whatever record it does not have, of those that were whole, is set aside.
func requireRepaired(t *testing.T, fsys *faultfs.FS, b *builder, want []int64) {
	t.Helper()
	log, err := Open(lossDir, Options{FS: fsys})
	require.NoError(t, err, "%v", fsys)
	defer func() { require.NoError(t, log.Close()) }()
	s := log.Scanner(-1, ScanOptions{CheckCRC: true})
	defer s.Close()
	var phys []int64
	for s.Next() {
		if s.Record().OwesUnit() {
			phys = append(phys, s.Record().PhyOffset)
		}
	}
	if err := s.Err(); err != nil {
		require.ErrorIs(t, err, ErrTorn, "%v", fsys) // the writer cuts it off
	}
	require.Equal(t, want, phys, "%v", fsys)
	kept := map[int64]bool{}
	for _, phy := range want {
		kept[phy] = true
	}
	aside := readAside(t, fsys)
	for i, phy := range b.records {
		if kept[phy] {
			continue
		}
		raw := b.at(phy)[:b.sizes[i]]
		found := false
		for _, p := range aside {
			found = found || bytes.Contains(p, raw)
		}
		require.True(t, found, "record %d is neither in the log nor set aside: %v", i, fsys)
	}
}

// readAside returns the content of all files that were set aside.
func readAside(t *testing.T, fsys *faultfs.FS) (all [][]byte) {
	t.Helper()
	dirs, err := fsys.ReadDir(repairAside)
	require.NoError(t, err)
	for _, d := range dirs {
		files, err := fsys.ReadDir(filepath.Join(repairAside, d.Name()))
		require.NoError(t, err)
		for _, info := range files {
			f, err := fsys.OpenFile(filepath.Join(repairAside, d.Name(), info.Name()), os.O_RDONLY, 0)
			require.NoError(t, err)
			p := make([]byte, info.Size())
			_, err = f.ReadAt(p, 0)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			all = append(all, p)
		}
	}
	return all
}

// repairCases has damage of all kinds over five files.
func repairCase(t *testing.T) (b *builder, hurt []int) {
	b = newBuilder(t, 16<<10, 16<<10)
	for range 18 {
		b.add(3000)
	}
	require.Len(t, b.files, 4)
	b.at(b.records[2])[200] ^= 1
	clear(b.at(b.records[4])) // the rest of the first file, filler included
	clear(b.at(b.records[5])) // all of the second
	b.at(b.records[11])[4] ^= 1
	b.at(b.records[12])[4] ^= 1
	return b, []int{2, 4, 5, 6, 7, 8, 9, 11, 12}
}

// Whenever power is lost during a repair, repairing again comes to the same end: the records that a repair keeps are in the log, and each of the others that was whole is
// set aside.
func TestRepairSurvivesPowerLoss(t *testing.T) {
	for _, mend := range []bool{true, false} {
		t.Run(fmt.Sprintf("mend=%v", mend), func(t *testing.T) {
			b, hurt := repairCase(t)
			want := without(b, hurt...)
			if !mend {
				want = b.records[:2]
			}
			fsys := faultfs.New(faultfs.Options{})
			b.load(fsys)
			var left []*faultfs.FS
			fsys.Inject(func(op faultfs.Op) error {
				if op.Kind.Changes() {
					for seed := range uint64(5) {
						left = append(left, fsys.CrashSeed(seed+uint64(op.Index)))
					}
				}
				return nil
			})
			found, err := repairAll(fsys, mend)
			require.NoError(t, err)
			require.True(t, found)
			fsys.Inject(nil)
			require.Greater(t, len(left), 5*10)
			again := 0
			for _, fsys := range append(left, fsys.CrashSeed(0)) {
				found, err := repairAll(fsys, mend)
				require.NoError(t, err, "%v", fsys)
				if found {
					again++
				}
				requireRepaired(t, fsys, b, want)
				requireRepaired(t, fsys.CrashSeed(0), b, want)
			}
			require.Less(t, again, len(left), "the last crashes come when all is done")
			t.Logf("%d crashes, %d of them left something to do", len(left), again)
		})
	}
}

// Whatever single operation of a repair fails, the error says so, nothing stays open, and repairing again finishes it.
func TestRepairEachOperationFails(t *testing.T) {
	for _, mend := range []bool{true, false} {
		t.Run(fmt.Sprintf("mend=%v", mend), func(t *testing.T) {
			b, hurt := repairCase(t)
			want := without(b, hurt...)
			if !mend {
				want = b.records[:2]
			}
			for k := int64(0); ; k++ {
				fsys := faultfs.New(faultfs.Options{})
				b.load(fsys)
				first := fsys.Ops()
				failed := false
				fsys.Inject(func(op faultfs.Op) error {
					if op.Index == first+k {
						failed = true
						return errors.New("injected")
					}
					return nil
				})
				_, err := repairAll(fsys, mend)
				fsys.Inject(nil)
				if !failed {
					require.NoError(t, err)
					require.Greater(t, k, int64(20))
					break
				}
				require.Zero(t, fsys.OpenFiles(), "operation %d", k)
				require.Zero(t, fsys.Mappings(), "operation %d", k)
				_, err = repairAll(fsys, mend)
				require.NoError(t, err, "operation %d", k)
				requireRepaired(t, fsys, b, want)
			}
		})
	}
}

// A file in a read-only directory is not repaired, and nothing else is then.
func TestRepairRefusesReadOnlyFiles(t *testing.T) {
	b := newBuilder(t, 4096, 4096)
	b.add(1000, 1000, 1000, 1000)
	b.at(b.records[1])[4] ^= 1
	dir, more := b.write(), t.TempDir()
	require.NoError(t, os.Rename(b.path(dir, 1), filepath.Join(more, mappedfile.Name(8192))))
	for _, mend := range []bool{true, false} {
		o := RecoveryOptions{Dir: more, ReadOnlyDirs: []string{dir}, SetAsideDir: t.TempDir()}
		r, err := OpenRecovery(o)
		require.NoError(t, err)
		s, err := r.Survey(t.Context())
		require.NoError(t, err)
		require.Len(t, s.Damage, 1)
		if mend {
			_, err = r.Mend(t.Context(), s)
		} else {
			_, err = r.AcceptLoss(t.Context(), s)
		}
		require.ErrorIs(t, err, mappedfile.ErrReadOnly)
		require.NoError(t, r.Close())
		require.FileExists(t, filepath.Join(more, mappedfile.Name(8192)))
		entries, err := os.ReadDir(o.SetAsideDir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

// After a failed sync the kernel takes pages for clean that are not on the disk, and a sync that succeeds later does not write them. Written again they are.
func TestFRA06RewriteMakesDurableWhatAFailedSyncDidNot(t *testing.T) {
	for _, rewrite := range []bool{false, true} {
		b := newBuilder(t, 16<<10, 0)
		b.add(3000, 3000, 3000)
		whole := b.end()
		fsys := faultfs.New(faultfs.Options{})
		b.load(fsys)
		b.add(3000, 3000) // of these the sync fails
		f, err := fsys.OpenFile(b.path(lossDir, 0), os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt(b.files[0], 0)
		require.NoError(t, err)
		fsys.Inject(func(op faultfs.Op) error {
			if op.Kind == faultfs.Datasync {
				return errors.New("injected")
			}
			return nil
		})
		require.Error(t, f.Datasync())
		fsys.Inject(nil)
		require.NoError(t, f.Datasync(), "nothing that it knows of is left to write")
		require.NoError(t, f.Close())
		want := b.records[:3]
		if rewrite {
			want = b.records
			r, err := OpenRecovery(RecoveryOptions{FS: fsys, Dir: lossDir})
			require.NoError(t, err)
			n, err := r.Rewrite(t.Context(), whole)
			require.NoError(t, err)
			require.GreaterOrEqual(t, n, b.end()-whole)
			require.NoError(t, r.Close())
		}
		log, err := Open(lossDir, Options{FS: fsys.CrashSeed(0)})
		require.NoError(t, err)
		var phys []int64
		s := log.Scanner(-1, ScanOptions{CheckCRC: true})
		for s.Next() {
			phys = append(phys, s.Record().PhyOffset)
		}
		s.Close()
		require.NoError(t, log.Close())
		require.Equal(t, want, phys)
	}
}
