package offsets

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mmap"
)

func TestApply(t *testing.T) {
	l := sampleStore(t)
	path := JSON.path(l)
	write(t, path, sampleTable)
	write(t, path+BackupSuffix, "the backup")
	require.NoError(t, os.Chmod(path, 0o600))
	p := reset(t, l, ToBounds, 0, All())
	want := p.offsets
	a, err := p.Apply(testNow)
	require.NoError(t, err)
	require.Equal(t, Applied{File: path, Copy: path + ".20270115T080000Z.before-reset"}, a)
	require.Equal(t, want, readBack(t, JSON, path))
	requireFile(t, sampleTable, a.Copy)
	requireFile(t, "the backup", path+BackupSuffix) // RocketMQ's own backup is not touched
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), st.Mode().Perm())

	_, err = p.Apply(testNow)
	require.ErrorContains(t, err, "changed meanwhile")
	p = reset(t, l, ToMin, 0, All())
	a, err = p.Apply(testNow)
	require.NoError(t, err)
	require.Equal(t, path+".20270115T080000Z-2.before-reset", a.Copy, "a copy is never written over")
	p = reset(t, l, ToMin, 0, All())
	require.Empty(t, p.Changes)
	a, err = p.Apply(testNow)
	require.NoError(t, err)
	require.Zero(t, a, "nothing to do, nothing written")
}

// A store that has lost the file, its backup and their directory gets a file made from its queues.
func TestApplyMakesAFile(t *testing.T) {
	l := sampleStore(t)
	require.NoError(t, os.RemoveAll(filepath.Dir(JSON.path(l))))
	p := reset(t, l, ToMax, 0, Selection{Group: "g", Topic: sampleTopic, QueueID: -1})
	a, err := p.Apply(testNow)
	require.NoError(t, err)
	require.Empty(t, a.Copy)
	require.Len(t, readBack(t, JSON, JSON.path(l)), 2)
}

var errInjected = errors.New("injected")

// failingFS fails its n-th operation that changes something.
type failingFS struct {
	mmap.FS
	left int
}

func (f *failingFS) step() error {
	if f.left--; f.left == 0 {
		return errInjected
	}
	return nil
}

func (f *failingFS) OpenFile(path string, flag int, perm fs.FileMode) (mmap.File, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenFile(path, flag, perm)
	return &failingFile{file, f}, err
}

func (f *failingFS) Rename(from, to string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f *failingFS) SyncDir(dir string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

type failingFile struct {
	mmap.File
	fs *failingFS
}

func (f *failingFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.fs.step(); err != nil {
		n, _ := f.File.WriteAt(b[:len(b)/2], off)
		return n, err
	}
	return f.File.WriteAt(b, off)
}

func (f *failingFile) Datasync() error {
	if err := f.fs.step(); err != nil {
		return err
	}
	return f.File.Datasync()
}

// FR-I02: whatever fails, the file is the old one or the new one, whole, and the error is told.
func TestFRI02OffsetsAreReplacedAtomically(t *testing.T) {
	for n := 1; ; n++ {
		l := sampleStore(t)
		path := JSON.path(l)
		write(t, path, sampleTable)
		before := readBack(t, JSON, path)
		p := reset(t, l, ToBounds, 0, All())
		f := &failingFS{FS: mmap.OS, left: n}
		_, err := p.apply(f, time.UnixMilli(0))
		if err == nil {
			require.Equal(t, 10, n, "operations that can fail: three of a file, one of the directory, for each of two files; and the rename")
			return
		}
		require.ErrorIs(t, err, errInjected)
		require.ErrorContains(t, err, path)
		after := readBack(t, JSON, path)
		if n < 9 {
			require.Equal(t, before, after, "operation %d", n)
		} else {
			require.Equal(t, p.offsets, after, "operation %d", n)
		}
		require.NoFileExists(t, path+".tmp")
	}
}
