package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/internal/faultfs"
	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// tree lists what is below a directory, with sizes.
func tree(t *testing.T, root string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err == nil {
			name, _ := filepath.Rel(root, path)
			list = append(list, fmt.Sprint(name, " ", st.Size()))
		}
		return err
	}))
	return list
}

// W30: the lock comes first. A second process changes nothing and learns who has the store.
func TestW30LockBeforeAnything(t *testing.T) {
	root := t.TempDir()
	s, err := Open(root, putOptions())
	require.NoError(t, err)
	_, err = s.Put(t.Context(), newMessage("T"))
	require.NoError(t, err)
	require.NoError(t, s.Close())

	pid, release := holdStore(t, root)
	before := tree(t, root)
	o := putOptions()
	o.MappedFileSizeCommitLog *= 2 // would be refused later
	_, err = Open(root, o)
	var inUse *InUseError
	require.ErrorAs(t, err, &inUse)
	require.Equal(t, pid, inUse.PID)
	require.ErrorContains(t, err, "in use by process "+strconv.Itoa(pid))
	require.Equal(t, before, tree(t, root))
	release()

	s, err = Open(root, putOptions())
	require.NoError(t, err)
	_, err = Open(root, putOptions())
	require.ErrorIs(t, err, mmap.ErrLocked)
	require.EqualError(t, err, fmt.Sprintf("store %s is in use by this process itself (%d); close it first", root, os.Getpid()))
	_, err = s.Put(t.Context(), newMessage("T"))
	require.NoError(t, err)
	require.NoError(t, s.Flush())
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Flush(), ErrClosed)
}

// A store that cannot be written is told as such, whichever step finds it out.
func TestOpenSaysThatItWrites(t *testing.T) {
	for _, step := range []string{"create abort", "mkdir commitlog", "create 00000000000000000000"} {
		for _, cause := range []error{fs.ErrPermission, syscall.EROFS} {
			fsys := faultfs.New(faultfs.Options{})
			fsys.MkdirAll("/data")
			o := faultOptions(fsys)
			o.FS = refusingFS{opFS{FS: fsys, ops: new([]string), ban: step}, cause}
			_, err := Open(faultRoot, o)
			require.ErrorIs(t, err, cause, step)
			require.ErrorContains(t, err, "open store "+faultRoot+" for writing: ", step)
		}
	}
}

// refusingFS answers the banned operation with a cause of its own.
type refusingFS struct {
	opFS
	cause error
}

func (f refusingFS) OpenFile(path string, flag int, perm fs.FileMode) (mmap.File, error) {
	file, err := f.opFS.OpenFile(path, flag, perm)
	return file, f.refused(err)
}

func (f refusingFS) Mkdir(dir string, perm fs.FileMode) error {
	return f.refused(f.opFS.Mkdir(dir, perm))
}

func (f refusingFS) refused(err error) error {
	if errors.Is(err, errBanned) {
		return f.cause
	}
	return err
}

// opFS notes what is done to files and directories.
type opFS struct {
	mmap.FS
	ops *[]string
	ban string // operation that fails
}

type opFile struct {
	mmap.File
	fs opFS
}

var errBanned = errors.New("banned")

func (f opFS) note(op, path string) error {
	op += " " + filepath.Base(path)
	*f.ops = append(*f.ops, op)
	if op == f.ban {
		return errBanned
	}
	return nil
}

func (f opFS) OpenFile(path string, flag int, perm fs.FileMode) (mmap.File, error) {
	if flag&os.O_CREATE != 0 {
		if err := f.note("create", path); err != nil {
			return nil, err
		}
	}
	file, err := f.FS.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return opFile{file, f}, nil
}

func (f opFS) Mkdir(dir string, perm fs.FileMode) error {
	if err := f.note("mkdir", dir); err != nil {
		return err
	}
	return f.FS.Mkdir(dir, perm)
}

func (f opFS) Remove(path string) error {
	if err := f.note("remove", path); err != nil {
		return err
	}
	return f.FS.Remove(path)
}

func (f opFS) SyncDir(dir string) error {
	if err := f.note("syncdir", dir); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

func (f opFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.fs.note("write", f.Name()); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, off)
}

func (f opFile) Datasync() error {
	if err := f.fs.note("sync", f.Name()); err != nil {
		return err
	}
	return f.File.Datasync()
}

// W31: the abort mark is durable, content and entry, before anything else of the store is changed, and a failure to make it
// ends the opening.
func TestW31AbortMarkFirst(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	var ops []string
	o := putOptions()
	o.FS = opFS{FS: mmap.OS, ops: &ops}
	s, err := Open(root, o)
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(root, "abort"))
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(os.Getpid()), string(b))
	require.NoError(t, s.Close())
	require.Equal(t, []string{"mkdir store", "syncdir " + filepath.Base(filepath.Dir(root)), "create abort", "write abort", "sync abort", "syncdir store"}, ops[:6])
	require.Contains(t, ops[6:], "create 00000000000000000000")

	for _, ban := range []string{"create abort", "write abort", "sync abort", "syncdir store"} {
		t.Run(ban, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "store")
			var ops []string
			o.FS = opFS{FS: mmap.OS, ops: &ops, ban: ban}
			_, err := Open(root, o)
			require.ErrorIs(t, err, errBanned)
			require.NoDirExists(t, filepath.Join(root, "commitlog"))
		})
	}
}

// The mark goes only when nothing is left to be done.
func TestCloseAbortMark(t *testing.T) {
	root := t.TempDir()
	abort := filepath.Join(root, "abort")
	reopen := func(puts int) {
		t.Helper()
		s, err := Open(root, putOptions())
		require.NoError(t, err)
		require.FileExists(t, abort)
		for range puts {
			_, err := s.Put(t.Context(), newMessage("T"))
			require.NoError(t, err)
		}
		require.NoError(t, s.Close())
		_, err = s.Put(t.Context(), newMessage("T"))
		require.ErrorIs(t, err, ErrClosed)
	}
	reopen(0)
	require.NoFileExists(t, abort)
	reopen(1) // no queue has the message
	require.FileExists(t, abort)
	reopen(0) // nor has it now
	require.FileExists(t, abort)
	require.NoError(t, os.Remove(abort)) // somebody built the queues
	reopen(0)
	require.NoFileExists(t, abort)
}

// W27, W28: the offsets go on where the log ends, for records of both versions, topics of any length, light queues, inner
// batches, and not for what owns no unit.
func TestW27OffsetsOfBothVersions(t *testing.T) {
	root := t.TempDir()
	o := batchOptions()
	o.EnableLmq = true
	long := message.RetryPrefix + strings.Repeat("g", 200)
	open := func() *Store {
		t.Helper()
		s, err := Open(root, o)
		require.NoError(t, err)
		return s
	}
	s := open()
	put := func(m *message.Message) {
		t.Helper()
		_, err := s.Put(t.Context(), m)
		require.NoError(t, err)
	}
	for range 2 {
		put(newMessage("T"))
		put(newMessage(long))
		put(newMessage(strings.Repeat("t", 127)))
		put(lightMessage("%LMQ%a", "%LMQ%b"))
		put(lightMessage("%LMQ%a"))
		m := newMessage("Tx")
		m.SysFlag = message.TransactionPrepared
		put(m)
		m = newMessage("Batch")
		m.Body, m.Properties = batchBody(t, 7), props("UNIQ_KEY", "u")
		_, err := s.PutBatch(t.Context(), m)
		require.NoError(t, err)
	}
	want := map[string]int64{"T": 6, long: 2, strings.Repeat("t", 127): 2, "%LMQ%a": 4, "%LMQ%b": 2, "Tx": 0, "Batch": 14}
	check := func() {
		t.Helper()
		for topic, next := range want {
			require.Equal(t, next, s.NextOffset(topic, 0), topic)
		}
		require.EqualValues(t, 2, s.offsets.light.Load())
	}
	check()
	require.NoError(t, s.Close())
	s = open()
	check()
	r, err := s.Put(t.Context(), newMessage(long))
	require.NoError(t, err)
	require.EqualValues(t, 2, r.Append.QueueOffset)
	require.NoError(t, s.Close())
}

// damage flips a byte of the log.
func damage(t *testing.T, root string, phy int64) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(root, "commitlog", mappedfile.Name(0)), os.O_RDWR, 0)
	require.NoError(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], phy)
	require.NoError(t, err)
	b[0] ^= 0xFF
	_, err = f.WriteAt(b[:], phy)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// threeRecords makes a store with three records and returns where they begin and end.
func threeRecords(t *testing.T, root string) (at [4]int64) {
	t.Helper()
	s, err := Open(root, putOptions())
	require.NoError(t, err)
	for i := range 3 {
		r, err := s.Put(t.Context(), newMessage("T"))
		require.NoError(t, err)
		at[i], at[i+1] = r.Append.PhyOffset, r.Append.PhyOffset+int64(r.Append.Bytes)
	}
	require.NoError(t, s.Close())
	return at
}

// A log with records behind damage is not opened; nothing is lost by it, and nothing stays open.
func TestOpenRefusesCorruptLog(t *testing.T) {
	root := t.TempDir()
	at := threeRecords(t, root)
	require.NoError(t, os.Remove(filepath.Join(root, "abort")))
	damage(t, root, at[1]+90)
	before := tree(t, root)
	_, err := Open(root, putOptions())
	require.ErrorIs(t, err, commitlog.ErrCorrupt)
	require.ErrorContains(t, err, fmt.Sprintf("%s+%d", filepath.Join(root, "commitlog", mappedfile.Name(0)), at[1]))
	require.ErrorContains(t, err, fmt.Sprintf("next valid record at physical offset %d", at[2]))
	require.ErrorContains(t, err, "tandemmq store recover --store "+root+" --dry-run")
	require.Equal(t, before, tree(t, root))

	o := putOptions()
	o.MappedFileSizeCommitLog *= 2
	_, err = Open(root, o)
	var file *mappedfile.FileError
	require.ErrorAs(t, err, &file)
	require.ErrorContains(t, err, fmt.Sprintf("open store %s: mappedFileSizeCommitLog is %d: ", root, o.MappedFileSizeCommitLog))
	require.ErrorContains(t, err, fmt.Sprintf("got %d bytes, want", o.MappedFileSizeCommitLog/2))
	require.Equal(t, before, tree(t, root))

	damage(t, root, at[1]+90) // mended: the lock is free again
	s, err := Open(root, putOptions())
	require.NoError(t, err)
	require.EqualValues(t, 3, s.NextOffset("T", 0))
	require.NoError(t, s.Close())
}

// A torn tail is cut, and the next message has its place and its offset.
func TestOpenCutsTornTail(t *testing.T) {
	root := t.TempDir()
	at := threeRecords(t, root)
	damage(t, root, at[2]+90)
	s, err := Open(root, putOptions())
	require.NoError(t, err)
	require.Equal(t, at[2], s.Positions().Wrote)
	require.EqualValues(t, 2, s.NextOffset("T", 0))
	r, err := s.Put(t.Context(), newMessage("T"))
	require.NoError(t, err)
	require.Equal(t, at[2], r.Append.PhyOffset)
	require.EqualValues(t, 2, r.Append.QueueOffset)
	require.NoError(t, s.Close())
}

func TestOpenRefusesOptions(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	o := putOptions()
	o.TopicQueueLockNum = 0
	_, err := Open(root, o)
	require.ErrorContains(t, err, "topicQueueLockNum is 0")
	require.NoDirExists(t, root)
}

// Several directories take the log's files in turn, and each write mode stores the same records.
func TestOpenPathsAndModes(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	two := func(o *Options) { o.StorePathCommitLog, o.ReadOnlyCommitLogStorePaths = dirs, dirs[2:] }
	for name, change := range map[string]func(*Options){
		"two paths": two,
		"pool":      func(o *Options) { o.TransientStorePoolEnable = true },
		"pwrite":    func(o *Options) { o.WriteWithoutMmap = true },
		"spin lock": func(o *Options) { o.UseReentrantLockWhenPutMessage = false },
		"adaptive":  func(o *Options) { o.UseABSLock = true },
		"sync":      func(o *Options) { o.FlushDiskType = SyncFlush },
		"sync mmap": func(o *Options) { o.FlushDiskType, o.SyncFlushWriteMode = SyncFlush, SyncWriteMapped },
	} {
		t.Run(name, func(t *testing.T) {
			o := putOptions()
			o.MappedFileSizeCommitLog = 4096
			change(&o)
			f := overFiles(t, o)
			const n = 100
			for i := range n {
				m := newMessage("T")
				m.Body = fmt.Append(nil, i)
				_, err := f.Put(t.Context(), m)
				require.NoError(t, err)
			}
			require.NoError(t, f.Flush())
			all := f.records(t)
			require.Len(t, all, n)
			for i, r := range all {
				require.Equal(t, strconv.Itoa(i), string(r.Body))
			}
			require.GreaterOrEqual(t, f.Stats().Rolls, int64(2))
		})
	}
	for i, dir := range dirs {
		list := tree(t, dir)
		require.Equal(t, i < 2, slices.ContainsFunc(list, func(s string) bool { return strings.HasSuffix(s, " 4096") }), "%s: %v", dir, list)
	}
}

// Files of a read-only directory are part of the log, and stay as they are.
func TestOpenReadOnlyPath(t *testing.T) {
	root, old := t.TempDir(), t.TempDir()
	o := putOptions()
	o.MappedFileSizeCommitLog = 4096
	o.ReadOnlyCommitLogStorePaths = []string{old}
	put := func(n int) {
		t.Helper()
		s, err := Open(root, o)
		require.NoError(t, err)
		next := s.NextOffset("T", 0)
		for i := range n {
			r, err := s.Put(t.Context(), newMessage("T"))
			require.NoError(t, err)
			require.Equal(t, next+int64(i), r.Append.QueueOffset)
		}
		require.NoError(t, s.Close())
	}
	put(90)
	for _, from := range []int64{0, 4096} {
		name := mappedfile.Name(from)
		require.NoError(t, os.Rename(filepath.Join(root, "commitlog", name), filepath.Join(old, name)))
	}
	before := tree(t, old)
	put(10)
	s, err := Open(root, o)
	require.NoError(t, err)
	require.EqualValues(t, 100, s.NextOffset("T", 0))
	require.Zero(t, s.Log().MinOffset())
	require.NoError(t, s.Close())
	require.Equal(t, before, tree(t, old))
}

// What a log says about offsets is believed as far as a put can have written it.
func TestOffsetTableObserve(t *testing.T) {
	tab := newOffsetTable(2)
	record := func(m *message.Message) *message.Record {
		b, err := m.AppendTo(nil)
		require.NoError(t, err)
		r := new(message.Record)
		require.NoError(t, r.Decode(b, true))
		return r
	}
	for _, offset := range []int64{5, 2, -25536, 1<<63 - 1} {
		m := newMessage("T")
		m.QueueOffset = offset
		tab.observe(record(m))
	}
	require.EqualValues(t, 6, tab.next("T", 0))
	m := newMessage("T")
	m.QueueID = 3
	m.Properties = props(message.PropertyMultiDispatch, "plain,%LMQ%a,%LMQ%b,", message.PropertyMultiQueueOffset, "4,8,x")
	tab.observe(record(m))
	require.EqualValues(t, 5, tab.next("plain", 3)) // the queue that RocketMQ dispatches it to
	require.EqualValues(t, 9, tab.next("%LMQ%a", 0))
	require.Zero(t, tab.next("%LMQ%b", 0))
	require.EqualValues(t, 1, tab.light.Load())
}
